//! The IP stack of one compartment: a host, a pod, a router. Interfaces with addresses, routes, neighbours by ARP and
//! neighbour discovery, forwarding with its ICMP errors, path MTU, fragments, and TCP and UDP for test clients and
//! servers. Own addresses are reached without leaving.
//!
//! A stack has no clock and no wire: it is told the time with every call, and what it sends is taken from it. It
//! knows nothing of switches, HNS or Kubernetes.

mod client;
mod fragment;
mod icmp;
mod ip;
mod link;
mod masquerade;
mod neighbor;
mod route;
mod services;
mod tcp;
mod udp;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::time::Duration;

use ipnet::IpNet;
use wire::{Kind, Mac, Packet};

pub use client::ClientId;
pub use masquerade::MasqueradeRule;
pub use route::{Hop, Route, Routes};
pub use services::{Reach, ServiceRule, ServiceTable};
pub use vfp::NextHop;

use crate::app::{Exchange, Transport};

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceSpec {
    /// Its name.
    pub name: String,
    /// Its MAC.
    pub mac: Mac,
    /// Its addresses with the prefixes that are on its link.
    pub addresses: Vec<IpNet>,
    /// The largest IP packet, in bytes.
    pub mtu: u16,
}

#[derive(Debug)]
struct Interface {
    spec: InterfaceSpec,
    /// Addresses of others that ARP and neighbour solicitations are answered for.
    proxied: BTreeSet<IpAddr>,
    up: bool,
}

/// Why a stack drops a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StackDrop {
    /// The frame's structure or a checksum is wrong.
    Malformed,
    /// The frame is addressed to another station.
    OtherHost,
    /// The packet comes from one of the stack's own addresses.
    Martian,
    /// The packet is for another host and the stack does not forward.
    NotForwarding,
    /// There is no route.
    NoRoute,
    /// Nobody has the next hop's address.
    NoNeighbor,
    /// The time to live is over.
    TimeExceeded,
    /// It does not fit the next link.
    TooBig,
    /// It cannot be masqueraded.
    Masquerade,
    /// A Service has no backend for it, or does not let its sender in.
    Service,
    /// Nobody takes its protocol.
    NoProtocol,
    /// It came by a tunnel that does not know it.
    Tunnel,
}

/// How often each thing happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that came in.
    pub received: u64,
    /// Frames that went out.
    pub sent: u64,
    /// Packets that were forwarded.
    pub forwarded: u64,
    /// Packets that were dropped, by reason.
    pub dropped: BTreeMap<StackDrop, u64>,
}

/// A UDP datagram for a port that was claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The whole frame.
    pub frame: Vec<u8>,
    /// Where the datagram's data are in it.
    pub data: std::ops::Range<usize>,
}

/// An IP stack.
pub struct Stack {
    name: String,
    now: Duration,
    interfaces: Vec<Interface>,
    routes: Routes,
    neighbors: neighbor::Neighbors,
    forwarding: bool,
    masquerade: Option<masquerade::Masquerade>,
    services: Option<services::Services>,
    path_mtu: BTreeMap<IpAddr, u16>,
    reassembly: fragment::Reassembly,
    tcp: tcp::Tcp,
    udp: udp::Udp,
    servers: BTreeMap<(Transport, u16), String>,
    claims: BTreeSet<u16>,
    claimed: Vec<Claimed>,
    clients: client::Clients,
    fragment_id: u32,
    /// Packets from this stack to itself.
    looped: VecDeque<Vec<u8>>,
    out: Vec<(usize, Packet)>,
    counters: Counters,
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack")
            .field("name", &self.name)
            .field("interfaces", &self.interfaces)
            .finish_non_exhaustive()
    }
}

impl Stack {
    /// A stack without interfaces. The seed decides initial sequence numbers.
    pub fn new(name: impl Into<String>, seed: u64) -> Self {
        Self {
            name: name.into(),
            now: Duration::ZERO,
            interfaces: Vec::new(),
            routes: Routes::default(),
            neighbors: neighbor::Neighbors::default(),
            forwarding: false,
            masquerade: None,
            services: None,
            path_mtu: BTreeMap::new(),
            reassembly: fragment::Reassembly::default(),
            tcp: tcp::Tcp::new(seed),
            udp: udp::Udp::default(),
            servers: BTreeMap::new(),
            claims: BTreeSet::new(),
            claimed: Vec::new(),
            clients: client::Clients::default(),
            fragment_id: 0,
            looped: VecDeque::new(),
            out: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// The stack's name, which its servers answer with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds an interface, with routes to the prefixes of its addresses; the answer is its number. Addresses that no
    /// host can have are left out.
    pub fn add_interface(&mut self, spec: InterfaceSpec) -> usize {
        let number = self.interfaces.len();
        let addresses = spec.addresses.clone();
        let spec = InterfaceSpec { addresses: Vec::new(), ..spec };
        self.interfaces.push(Interface { spec, proxied: BTreeSet::new(), up: true });
        for address in addresses {
            self.add_address(number, address);
        }
        number
    }

    /// Adds an address to an interface, with a route to its prefix.
    pub fn add_address(&mut self, interface: usize, address: IpNet) {
        let Some(found) = self.interfaces.get_mut(interface) else { return };
        let unusable = address.addr().is_unspecified() || address.addr().is_multicast();
        if unusable || found.spec.addresses.contains(&address) {
            return;
        }
        found.spec.addresses.push(address);
        if address.prefix_len() < address.max_prefix_len() {
            self.routes.add(Route { destination: address, via: None, interface, metric: 0 });
        }
    }

    /// The interfaces, in the order of their numbers.
    pub fn interfaces(&self) -> impl Iterator<Item = &InterfaceSpec> {
        self.interfaces.iter().map(|interface| &interface.spec)
    }

    /// The number of the interface with this name.
    pub fn interface(&self, name: &str) -> Option<usize> {
        self.interfaces.iter().position(|interface| interface.spec.name == name)
    }

    /// Cuts an interface off or connects it again.
    pub fn set_up(&mut self, interface: usize, up: bool) {
        if let Some(found) = self.interfaces.get_mut(interface) {
            found.up = up;
        }
    }

    /// Answers ARP and neighbour solicitations for another's address.
    pub fn proxy_neighbor(&mut self, interface: usize, address: IpAddr) {
        if let Some(found) = self.interfaces.get_mut(interface) {
            found.proxied.insert(address);
        }
    }

    /// The routes.
    pub fn routes(&self) -> &Routes {
        &self.routes
    }

    /// The routes, to be changed.
    pub fn routes_mut(&mut self) -> &mut Routes {
        &mut self.routes
    }

    /// A neighbour that is never asked for.
    pub fn pin_neighbor(&mut self, interface: usize, address: IpAddr, mac: Mac) {
        self.neighbors.pin((interface, address), mac);
    }

    /// The neighbours whose MAC is known: interface, address, MAC.
    pub fn neighbors(&self) -> impl Iterator<Item = (usize, IpAddr, Mac)> {
        self.neighbors.known().map(|((interface, address), mac)| (interface, address, mac))
    }

    /// Forgets the neighbours that were learnt.
    pub fn flush_neighbors(&mut self) {
        self.neighbors.flush();
    }

    /// Whether packets for others are forwarded.
    pub fn set_forwarding(&mut self, forwarding: bool) {
        self.forwarding = forwarding;
    }

    /// Masquerades what is forwarded.
    pub fn set_masquerade(&mut self, rule: MasqueradeRule) {
        self.masquerade = Some(masquerade::Masquerade::new(rule));
    }

    /// Serves frontends, in place of those of an earlier call. Packets that arrive and packets of the stack's own are
    /// translated alike.
    pub fn set_services(&mut self, table: ServiceTable) {
        self.services.get_or_insert_default().set(table);
    }

    /// Answers on a port of every address, under the stack's name. Ports 0 to 65535; 0 is never reached.
    pub fn serve(&mut self, transport: Transport, port: u16) {
        self.serve_as(transport, port, self.name.clone());
    }

    /// Answers on a port of every address under another name.
    pub fn serve_as(&mut self, transport: Transport, port: u16, name: impl Into<String>) {
        self.servers.insert((transport, port), name.into());
    }

    /// Stops to answer on a port; open connections go on.
    pub fn unserve(&mut self, transport: Transport, port: u16) -> bool {
        self.servers.remove(&(transport, port)).is_some()
    }

    /// Datagrams to this UDP port are handed out whole.
    pub fn claim_udp(&mut self, port: u16) {
        self.claims.insert(port);
    }

    /// Datagrams to claimed ports.
    pub fn take_claimed(&mut self) -> Vec<Claimed> {
        std::mem::take(&mut self.claimed)
    }

    /// The range from which clients' ports are taken. Default: 49152 to 65535.
    pub fn set_client_ports(&mut self, ports: RangeInclusive<u16>) {
        self.clients.set_ports(ports);
    }

    /// Ports that clients must not take, in place of those of an earlier call.
    pub fn reserve_ports(&mut self, reserved: Vec<(Transport, RangeInclusive<u16>)>) {
        self.clients.reserve(reserved);
    }

    /// Whether the stack has this address.
    pub fn owns(&self, address: IpAddr) -> bool {
        self.interfaces.iter().any(|interface| has(&interface.spec, address))
    }

    /// The source for packets to an address: the first address of the interface that leads there, else the first of
    /// the family. In IPv6 one of the same scope is preferred.
    pub fn source_for(&self, to: IpAddr) -> Option<IpAddr> {
        if self.owns(to) {
            return Some(to);
        }
        let leads = self.routes.hop(to).map(|hop| hop.interface);
        let link_local = is_link_local(to);
        let rank =
            |number: usize, address: &IpAddr| (is_link_local(*address) != link_local, Some(number) != leads);
        self.interfaces
            .iter()
            .enumerate()
            .flat_map(|(number, interface)| {
                interface.spec.addresses.iter().map(move |net| (number, net.addr()))
            })
            .filter(|(_, address)| address.is_ipv4() == to.is_ipv4())
            .min_by_key(|(number, address)| rank(*number, address))
            .map(|(_, address)| address)
    }

    /// The next hop to an address, as a switch asks for it; an unknown one begins to be asked for, and is known when
    /// [`settled`](Self::settled) has changed.
    pub fn next_hop(&mut self, now: Duration, to: IpAddr) -> NextHop {
        self.now = self.now.max(now);
        if self.owns(to) {
            return NextHop::Local;
        }
        let Some(hop) = self.routes.hop(to) else { return NextHop::Unreachable };
        let Some(source_mac) = self.interfaces.get(hop.interface).map(|interface| interface.spec.mac) else {
            return NextHop::Unreachable;
        };
        let key = (hop.interface, hop.address);
        match self.neighbors.resolve(self.now, key) {
            neighbor::Known::Mac(mac) => NextHop::Via { mac, source_mac },
            neighbor::Known::Ask => {
                self.ask(key);
                NextHop::Pending
            }
            neighbor::Known::Asking => NextHop::Pending,
            neighbor::Known::Failed => NextHop::Unreachable,
        }
    }

    /// A number that changes whenever a neighbour that was asked for has answered or is given up.
    pub fn settled(&self) -> u64 {
        self.neighbors.settled()
    }

    /// What happened so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Counts a packet that the owner of an interface dropped.
    pub fn count_drop(&mut self, reason: StackDrop) {
        *self.counters.dropped.entry(reason).or_default() += 1;
    }

    /// A frame arrives at an interface.
    pub fn receive(&mut self, now: Duration, interface: usize, frame: &[u8]) {
        self.now = self.now.max(now);
        let Some(own) = self.interfaces.get(interface).filter(|interface| interface.up) else { return };
        let mac = own.spec.mac;
        self.counters.received += 1;
        let Ok(parsed) = wire::parse(frame) else { return self.count_drop(StackDrop::Malformed) };
        if parsed.l2.vlan.is_some_and(|tag| tag.id != 0)
            || (parsed.l2.dst != mac && !parsed.l2.dst.is_multicast())
        {
            return self.count_drop(StackDrop::OtherHost);
        }
        match parsed.kind {
            Kind::Arp(arp) => self.arp(interface, &arp),
            Kind::Ip(ip) => {
                if wire::checksum::verify_with(frame, &[]).is_err() {
                    self.count_drop(StackDrop::Malformed);
                } else if !self.neighbor_discovery(interface, frame, &parsed, &ip) {
                    self.arrive(frame.to_vec(), &ip);
                }
            }
            Kind::Other => self.count_drop(StackDrop::NoProtocol),
        }
        self.settle();
    }

    /// Timers.
    pub fn poll(&mut self, now: Duration) {
        self.now = self.now.max(now);
        let due = self.neighbors.due(self.now);
        for key in due.ask {
            self.ask(key);
        }
        for frame in due.failed {
            self.undeliverable(&frame);
        }
        self.tcp.poll(self.now);
        self.poll_clients();
        self.settle();
    }

    /// When [`poll`](Self::poll) is due next.
    pub fn next_timer(&mut self) -> Option<Duration> {
        let timers = [
            self.neighbors.next_timer(),
            self.tcp.next_timer(self.now),
            self.udp.next_timer(),
            self.clients.next_timer(),
        ];
        timers.into_iter().flatten().min()
    }

    /// What is to be sent: interface and frame.
    pub fn take_output(&mut self) -> Vec<(usize, Packet)> {
        std::mem::take(&mut self.out)
    }

    /// Whether a client's exchange has ended, and how.
    pub fn exchange(&self, client: ClientId) -> Option<&Exchange> {
        self.clients.finished(client)
    }

    /// Takes an ended exchange away.
    pub fn take_exchange(&mut self, client: ClientId) -> Option<Exchange> {
        self.clients.take(client)
    }

    /// Sends what sockets have to send, and what the stack sends to itself, until nothing is left.
    fn settle(&mut self) {
        // Packets to oneself beget others; a connection to oneself needs a few dozen.
        for _ in 0..4096 {
            for frame in self.tcp.take_sent() {
                self.send(frame);
            }
            self.collect();
            let Some(frame) = self.looped.pop_front() else { break };
            if let Ok(wire::Frame { kind: Kind::Ip(ip), .. }) = wire::parse(&frame) {
                self.deliver(frame, &ip);
            }
        }
    }
}

fn has(spec: &InterfaceSpec, address: IpAddr) -> bool {
    spec.addresses.iter().any(|net| net.addr() == address)
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// Whether the address is that of a group.
fn is_group(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_multicast() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_multicast(),
    }
}

/// The link-local address of a MAC (RFC 4291, modified EUI-64).
pub fn link_local(mac: Mac) -> Ipv6Addr {
    let [first, second, third, low @ ..] = mac.0;
    let mut octets = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, first ^ 2, second, third, 0xff, 0xfe, 0, 0, 0];
    wire::bytes::set(&mut octets, 13, &low);
    octets.into()
}
