//! A Linux node as its peers see it: pods on a bridge, routes to the other nodes' pods or a VXLAN device with static
//! neighbours and forwarding entries, masquerading for what leaves the cluster, and Services as kube-proxy's iptables
//! mode serves them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use wire::{Mac, Packet, vxlan};

use crate::fabric::{Device, LearningSwitch, Outbox};
use crate::stack::{InterfaceSpec, MasqueradeRule, Route, ServiceTable, Stack, StackDrop};

/// The number of the interface on the underlay, and of its port.
pub const UNDERLAY: usize = 0;

/// The device of a VXLAN network, made as Flannel makes it: nothing is learnt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VxlanSpec {
    /// Its name, such as `flannel.4096`.
    pub name: String,
    /// The network's number.
    pub vni: u32,
    /// The UDP port.
    pub port: u16,
    /// The device's MAC; inner frames to others are dropped.
    pub mac: Mac,
    /// The address that outer packets come from.
    pub local: IpAddr,
    /// The device's own addresses.
    pub addresses: Vec<IpNet>,
    /// The largest inner packet, in bytes.
    pub mtu: u16,
}

#[derive(Debug)]
struct Vxlan {
    spec: VxlanSpec,
    interface: usize,
    /// Which node has a tunnel MAC.
    fdb: BTreeMap<Mac, IpAddr>,
}

#[derive(Debug)]
struct Pod {
    stack: Stack,
    /// Its port of the bridge.
    port: usize,
}

/// A Linux node.
#[derive(Debug)]
pub struct LinuxNode {
    stack: Stack,
    seed: u64,
    bridge: LearningSwitch,
    /// The node's interface on the bridge.
    bridged: usize,
    pods: BTreeMap<String, Pod>,
    vxlan: Option<Vxlan>,
}

impl LinuxNode {
    /// A node with its underlay interface and a bridge for pods, whose addresses are the pods' gateways.
    pub fn new(
        name: impl Into<String>,
        seed: u64,
        underlay: InterfaceSpec,
        gateways: Vec<IpNet>,
        pod_mtu: u16,
    ) -> Self {
        let mut stack = Stack::new(name, seed);
        stack.set_forwarding(true);
        let [_, _, c, d, e, f] = underlay.mac.0;
        stack.add_interface(underlay);
        let bridged = stack.add_interface(InterfaceSpec {
            name: "cni0".to_owned(),
            mac: Mac([0x0a, 0x58, c, d, e, f]),
            addresses: gateways,
            mtu: pod_mtu,
        });
        Self { stack, seed, bridge: LearningSwitch::new(1), bridged, pods: BTreeMap::new(), vxlan: None }
    }

    /// The node's stack. [`flush`](Self::flush) after acting on it.
    pub fn stack_mut(&mut self) -> &mut Stack {
        &mut self.stack
    }

    /// The node's stack.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// A pod's stack. [`flush`](Self::flush) after acting on it.
    pub fn pod_mut(&mut self, name: &str) -> Option<&mut Stack> {
        self.pods.get_mut(name).map(|pod| &mut pod.stack)
    }

    /// A pod's stack.
    pub fn pod(&self, name: &str) -> Option<&Stack> {
        self.pods.get(name).map(|pod| &pod.stack)
    }

    /// The pods' names.
    pub fn pods(&self) -> impl Iterator<Item = &str> {
        self.pods.keys().map(String::as_str)
    }

    /// Adds a pod: its addresses with the node's prefix, its default routes by the node's bridge.
    pub fn add_pod(&mut self, name: impl Into<String>, addresses: &[IpAddr]) {
        let name = name.into();
        let bridge = self.stack.interfaces().nth(self.bridged);
        let (gateways, mtu) = bridge.map(|spec| (spec.addresses.clone(), spec.mtu)).unwrap_or_default();
        let mac = addresses.first().map_or(Mac::ZERO, |&address| pod_mac(address));
        let mut stack = Stack::new(name.clone(), self.seed ^ u64::from_be_bytes(padded(mac)));
        let with_prefix = |address: &IpAddr| {
            let near = gateways.iter().find(|net| net.contains(address));
            let length = near.map_or(if address.is_ipv4() { 32 } else { 128 }, IpNet::prefix_len);
            IpNet::new(*address, length).unwrap_or_else(|_| IpNet::from(*address))
        };
        let addresses = addresses.iter().map(with_prefix).collect();
        stack.add_interface(InterfaceSpec { name: "eth0".to_owned(), mac, addresses, mtu });
        for gateway in &gateways {
            stack.routes_mut().add(Route::default_by(gateway.addr(), 0));
        }
        let port = self.bridge.add_port();
        self.pods.insert(name, Pod { stack, port });
    }

    /// A route to another node's pods by that node, as `host-gw` makes it.
    pub fn add_route(&mut self, pods: IpNet, node: IpAddr) {
        self.stack.routes_mut().add(Route {
            destination: pods,
            via: Some(node),
            interface: UNDERLAY,
            metric: 0,
        });
    }

    /// Masquerades what leaves the node's pods for others than the cluster's.
    pub fn masquerade(&mut self, cluster: Vec<IpNet>) {
        let bridge = self.stack.interfaces().nth(self.bridged);
        let inside = bridge.map(|spec| spec.addresses.iter().map(IpNet::trunc).collect()).unwrap_or_default();
        self.stack.set_masquerade(MasqueradeRule { inside, except: cluster });
    }

    /// Serves frontends, in place of those of an earlier call.
    pub fn set_services(&mut self, table: ServiceTable) {
        self.stack.set_services(table);
    }

    /// Adds the VXLAN device.
    pub fn add_vxlan(&mut self, spec: VxlanSpec) {
        let interface = self.stack.add_interface(InterfaceSpec {
            name: spec.name.clone(),
            mac: spec.mac,
            addresses: spec.addresses.clone(),
            mtu: spec.mtu,
        });
        self.stack.claim_udp(spec.port);
        self.vxlan = Some(Vxlan { spec, interface, fdb: BTreeMap::new() });
    }

    /// Another node's pods behind the tunnel: a route by their range's first address, a neighbour and a forwarding
    /// entry that never age.
    pub fn add_vxlan_peer(&mut self, pods: IpNet, tunnel: Mac, node: IpAddr) {
        let Some(vxlan) = &mut self.vxlan else { return };
        let via = pods.network();
        let interface = vxlan.interface;
        vxlan.fdb.insert(tunnel, node);
        self.stack.routes_mut().add(Route { destination: pods, via: Some(via), interface, metric: 0 });
        self.stack.pin_neighbor(interface, via, tunnel);
    }

    /// Moves frames between the stacks, the bridge, the tunnel and the underlay until none is left.
    pub fn flush(&mut self, now: Duration, out: &mut Outbox) {
        // Each round is one hop; a loop of routes ends by its TTL long before.
        for _ in 0..4096 {
            let mut moved = false;
            for (interface, frame) in self.stack.take_output() {
                moved = true;
                if interface == UNDERLAY {
                    out.send(0, frame);
                } else if interface == self.bridged {
                    self.bridge_frame(now, 0, &frame);
                } else {
                    self.encapsulate(now, frame);
                }
            }
            let sent: Vec<(usize, Packet)> = self
                .pods
                .values_mut()
                .flat_map(|pod| {
                    let port = pod.port;
                    pod.stack.take_output().into_iter().map(move |(_, frame)| (port, frame))
                })
                .collect();
            for (port, frame) in sent {
                moved = true;
                self.bridge_frame(now, port, &frame);
            }
            moved |= self.decapsulate(now);
            if !moved {
                break;
            }
        }
    }

    fn bridge_frame(&mut self, now: Duration, from: usize, frame: &Packet) {
        for port in self.bridge.forward(from, frame.data()) {
            if port == 0 {
                self.stack.receive(now, self.bridged, frame.data());
            } else if let Some(pod) = self.pods.values_mut().find(|pod| pod.port == port) {
                if from == 0 {
                    pod.stack.receive(now, 0, frame.data());
                    continue;
                }
                for frame in self.stack.bridged(now, self.bridged, frame.data()) {
                    pod.stack.receive(now, 0, &frame);
                }
            }
        }
    }

    fn encapsulate(&mut self, now: Duration, mut frame: Packet) {
        let Some(vxlan) = &self.vxlan else { return };
        let to = wire::bytes::get_mac(frame.data(), 0).and_then(|mac| vxlan.fdb.get(&mac).copied());
        let Some(to) = to else { return self.stack.count_drop(StackDrop::Tunnel) };
        let outer = vxlan::Outer {
            // The stack writes the MACs when it knows the next hop.
            src_mac: Mac::ZERO,
            dst_mac: Mac::ZERO,
            vlan: None,
            src: vxlan.spec.local,
            dst: to,
            src_port: vxlan::source_port(flow_hash(frame.data())),
            dst_port: vxlan.spec.port,
            vni: vxlan.spec.vni,
            ttl: 64,
            tos: 0,
            df: false,
        };
        if outer.push(&mut frame, 0).is_ok() {
            self.stack.originate(now, frame.into_vec());
        } else {
            self.stack.count_drop(StackDrop::TooBig);
        }
    }

    fn decapsulate(&mut self, now: Duration) -> bool {
        let claimed = self.stack.take_claimed();
        let moved = !claimed.is_empty();
        for datagram in claimed {
            let Some(vxlan) = &self.vxlan else { continue };
            let (mac, vni, interface) = (vxlan.spec.mac, vxlan.spec.vni, vxlan.interface);
            let data = datagram.frame.get(datagram.data).unwrap_or_default();
            let inner = match vxlan::parse(data) {
                Ok((told, at)) if told == vni => data.get(at..).unwrap_or_default(),
                _ => {
                    self.stack.count_drop(StackDrop::Tunnel);
                    continue;
                }
            };
            // With learning off the device takes nothing but what is addressed to itself.
            if wire::bytes::get_mac(inner, 0) == Some(mac) {
                self.stack.receive(now, interface, inner);
            } else {
                self.stack.count_drop(StackDrop::OtherHost);
            }
        }
        moved
    }
}

impl Device for LinuxNode {
    fn receive(&mut self, now: Duration, _: usize, frame: Packet, out: &mut Outbox) {
        self.stack.receive(now, UNDERLAY, frame.data());
        self.flush(now, out);
    }

    fn poll(&mut self, now: Duration, out: &mut Outbox) {
        self.stack.poll(now);
        for pod in self.pods.values_mut() {
            if pod.stack.next_timer().is_some_and(|due| due <= now) {
                pod.stack.poll(now);
            }
        }
        self.flush(now, out);
    }

    fn next_timer(&mut self) -> Option<Duration> {
        let pods = self.pods.values_mut().filter_map(|pod| pod.stack.next_timer());
        pods.chain(self.stack.next_timer()).min()
    }
}

/// The MAC that the bridge plugin gives a pod: its prefix and the address.
pub fn pod_mac(address: IpAddr) -> Mac {
    let [a, b, c, d] = match address {
        IpAddr::V4(v4) => v4.octets(),
        IpAddr::V6(v6) => {
            let [.., a, b, c, d] = v6.octets();
            [a, b, c, d]
        }
    };
    Mac([0x0a, 0x58, a, b, c, d])
}

fn padded(mac: Mac) -> [u8; 8] {
    let mut bytes = [0; 8];
    wire::bytes::set_mac(&mut bytes, 2, mac);
    bytes
}

/// A hash of a frame's connection, FNV-1a: what spreads tunnels over the paths of an underlay.
fn flow_hash(frame: &[u8]) -> u32 {
    let Ok(parsed) = wire::parse(frame) else { return 0 };
    let Some(ip) = parsed.ip() else { return 0 };
    let fold = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let addresses: Vec<u8> = match (ip.src, ip.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => [src.octets(), dst.octets()].concat(),
        (IpAddr::V6(src), IpAddr::V6(dst)) => [src.octets(), dst.octets()].concat(),
        _ => Vec::new(),
    };
    let (source, destination) = ip.l4.ports().unwrap_or_default();
    let ports = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    addresses.into_iter().chain(ports).chain([ip.proto]).fold(0x811c_9dc5, fold)
}
