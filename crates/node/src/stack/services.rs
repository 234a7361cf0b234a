//! Services on a Linux node, as kube-proxy's iptables mode has them: a connection to a frontend goes to a backend,
//! which sees the client or the node, and the replies come from the frontend. A table of plain rules and a table of
//! connections; it knows nothing of Kubernetes, of routes and of interfaces.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use wire::quoted::{self, Quoted};
use wire::rewrite::Rewrite;
use wire::{Ip, L4, TcpFlags, proto};

use crate::app::Transport;

/// How long an idle UDP connection, or a TCP connection that was closed, is kept (Linux' default for both).
const BRIEF: Duration = Duration::from_mins(2);
/// How long an idle TCP connection is kept (what kube-proxy sets).
const LONG: Duration = Duration::from_hours(24);
/// How many connections there may be.
const MOST: usize = 65_536;

/// A frontend and its backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRule {
    /// The frontend's address. An unspecified one stands for every own address of its family: a node port.
    pub vip: IpAddr,
    /// The frontend's port.
    pub port: u16,
    /// The protocol.
    pub transport: Transport,
    /// Who serves; for [`Reach::Local`] only pods and the node itself get these.
    pub backends: Vec<SocketAddr>,
    /// A policy left out backends on other nodes: a client that gets none is not refused, its packets are dropped.
    pub elsewhere: bool,
    /// Whom the frontend is for.
    pub reach: Reach,
    /// A client keeps its backend, whatever its port.
    pub affinity: bool,
    /// The clients that are let in; empty: all.
    pub sources: Vec<IpNet>,
}

/// Whom a frontend is for, and with it whether backends see the client. A pod that reaches itself is always known to
/// itself by the node's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// For the node's pods, who are seen. Others are masqueraded.
    Cluster,
    /// For everybody. All are masqueraded, because the backend may be on another node.
    Everybody,
    /// For everybody, with backends on the node for those who come from outside, who are seen.
    Local {
        /// The backends on the node.
        near: Vec<SocketAddr>,
    },
}

/// What a node serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceTable {
    /// The frontends. Of two with the same address, port and protocol the later one counts.
    pub rules: Vec<ServiceRule>,
    /// The addresses of the node's pods: who is known by them is seen by backends (kube-proxy's detection by
    /// `NodeCIDR`; by `ClusterCIDR`, other nodes' pods that come by a node port under the policy Local would be sent
    /// to backends that answer them directly).
    pub pods: Vec<IpNet>,
}

/// What the node itself knows.
pub(super) trait Surroundings {
    /// Whether an address is the node's.
    fn owns(&self, address: IpAddr) -> bool;
    /// The node's address on the way to another.
    fn address_towards(&self, to: IpAddr) -> Option<IpAddr>;
    /// Whether the node masquerades what goes from one address to another, Services or not.
    fn masquerades(&self, from: IpAddr, to: IpAddr) -> bool;
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is none of a Service's.
    Untouched,
    /// It was rewritten.
    Rewritten,
    /// There is no backend.
    Refused,
    /// A policy forbids it.
    Dropped,
}

/// One direction of a connection: protocol, source, destination.
type Tuple = (u8, SocketAddr, SocketAddr);

#[derive(Clone, Copy, Debug)]
struct Flow {
    backend: SocketAddr,
    /// The client as the backend sees it.
    seen: SocketAddr,
    used: Duration,
    /// One side has ended it.
    closing: bool,
}

/// The frontends of a node and the connections to them.
#[derive(Debug, Default)]
pub(super) struct Services {
    rules: BTreeMap<(u8, IpAddr, u16), ServiceRule>,
    pods: Vec<IpNet>,
    /// By the packets of the client.
    flows: BTreeMap<Tuple, Flow>,
    /// From the packets of the backend to those of the client.
    replies: BTreeMap<Tuple, Tuple>,
}

impl Services {
    /// Replaces the frontends. Connections go on, but those of UDP to backends that are no more: their clients would
    /// never notice.
    pub(super) fn set(&mut self, table: ServiceTable) {
        let key = |rule: &ServiceRule| (rule.transport.number(), rule.vip, rule.port);
        self.rules = table.rules.into_iter().map(|rule| (key(&rule), rule)).collect();
        self.pods = table.pods;
        let backends: BTreeSet<SocketAddr> =
            self.rules.values().flat_map(ServiceRule::all).copied().collect();
        let gone = |tuple: &Tuple, flow: &Flow| tuple.0 == proto::UDP && !backends.contains(&flow.backend);
        self.forget(gone);
    }

    fn forget(&mut self, gone: impl Fn(&Tuple, &Flow) -> bool) {
        self.flows.retain(|tuple, flow| !gone(tuple, flow));
        let flows = &self.flows;
        self.replies.retain(|_, original| flows.contains_key(original));
    }

    /// A packet that `arrives` at the node, or that the node itself sends.
    pub(super) fn translate(
        &mut self,
        now: Duration,
        frame: &mut [u8],
        ip: &mut Ip,
        arrives: bool,
        node: &dyn Surroundings,
    ) -> Verdict {
        match self.known(now, frame, ip) {
            Verdict::Untouched => self.open(now, frame, ip, arrives, node),
            done => done,
        }
    }

    /// A packet of a connection that there is already, or an ICMP error about one.
    pub(super) fn known(&mut self, now: Duration, frame: &mut [u8], ip: &mut Ip) -> Verdict {
        if let Some(quoted) = quoted::parse(frame, ip) {
            return self.error(frame, ip, &quoted).unwrap_or(Verdict::Untouched);
        }
        let Some(tuple) = tuple(ip) else { return Verdict::Untouched };
        let original = self.replies.get(&tuple).copied().unwrap_or(tuple);
        let Some(flow) = self.flows.get_mut(&original) else { return Verdict::Untouched };
        let flags = flags(ip);
        let begins = flags.contains(TcpFlags::SYN) && !flags.contains(TcpFlags::ACK);
        if now.saturating_sub(flow.used) >= flow.patience(tuple.0) || flow.closing && begins {
            let reply = (tuple.0, flow.backend, flow.seen);
            self.flows.remove(&original);
            self.replies.remove(&reply);
            return Verdict::Untouched;
        }
        flow.used = now;
        flow.closing |= flags.intersects(TcpFlags::FIN | TcpFlags::RST);
        let flow = *flow;
        if original == tuple {
            rewrite(frame, ip, flow.seen, flow.backend)
        } else {
            rewrite(frame, ip, original.2, original.1)
        }
    }

    /// An ICMP error about a packet as one side sees it becomes one about the packet as the other side knows it.
    fn error(&self, frame: &mut [u8], ip: &mut Ip, quoted: &Quoted) -> Option<Verdict> {
        let (source, destination) = quoted.ports?;
        let back =
            (quoted.proto, SocketAddr::new(quoted.dst, destination), SocketAddr::new(quoted.src, source));
        let (inside, outside) = if let Some(original) = self.replies.get(&back) {
            // The client's packet failed on its way to the backend.
            let outside =
                Rewrite { src: Some(original.2.ip()), dst: Some(original.1.ip()), ..Rewrite::default() };
            (sockets(original.1, original.2), outside)
        } else {
            let flow = self.flows.get(&back)?;
            let source = (ip.src == back.1.ip()).then_some(flow.seen.ip());
            let outside = Rewrite { src: source, dst: Some(flow.backend.ip()), ..Rewrite::default() };
            (sockets(flow.backend, flow.seen), outside)
        };
        inside.apply_to_quote(frame, ip, quoted).ok()?;
        Some(verdict(outside.apply(frame, ip).is_ok()))
    }

    /// The first packet of a connection.
    fn open(
        &mut self,
        now: Duration,
        frame: &mut [u8],
        ip: &mut Ip,
        arrives: bool,
        node: &dyn Surroundings,
    ) -> Verdict {
        let Some(tuple) = tuple(ip) else { return Verdict::Untouched };
        let (number, client, frontend) = tuple;
        let Some(rule) = self.rule(number, frontend, node) else { return Verdict::Untouched };
        if !rule.sources.is_empty() && !within(&rule.sources, client.ip()) {
            return Verdict::Dropped;
        }
        let inside = !arrives || within(&self.pods, client.ip());
        let (backends, elsewhere) = match &rule.reach {
            Reach::Local { near } if !inside => (near, !rule.backends.is_empty()),
            _ => (&rule.backends, false),
        };
        let Some(backend) = choose(rule, backends, client) else {
            return if elsewhere || rule.elsewhere { Verdict::Dropped } else { Verdict::Refused };
        };
        let hides = match rule.reach {
            Reach::Cluster => !within(&self.pods, client.ip()),
            Reach::Everybody => true,
            Reach::Local { .. } => !arrives,
        };
        let hides = hides || backend.ip() == client.ip() || node.masquerades(client.ip(), backend.ip());
        // What ends here does not leave, and only what leaves is masqueraded.
        let hides = hides && !(arrives && node.owns(backend.ip()));
        let address = if hides { node.address_towards(backend.ip()) } else { Some(client.ip()) };
        let Some(seen) = address.and_then(|address| self.free(now, number, backend, address, client)) else {
            return Verdict::Dropped;
        };
        self.flows.insert(tuple, Flow { backend, seen, used: now, closing: false });
        self.replies.insert((number, backend, seen), tuple);
        rewrite(frame, ip, seen, backend)
    }

    fn rule(&self, number: u8, frontend: SocketAddr, node: &dyn Surroundings) -> Option<&ServiceRule> {
        let (address, port) = (frontend.ip(), frontend.port());
        let every = match address {
            IpAddr::V4(_) => IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
        };
        self.rules
            .get(&(number, address, port))
            .or_else(|| self.rules.get(&(number, every, port)).filter(|_| node.owns(address)))
    }

    /// The client's end that the backend sees: with its own address the port as it was if no other connection has
    /// it, with another one any port (kube-proxy masquerades with `--random-fully`).
    fn free(
        &mut self,
        now: Duration,
        number: u8,
        backend: SocketAddr,
        address: IpAddr,
        client: SocketAddr,
    ) -> Option<SocketAddr> {
        if self.flows.len() >= MOST {
            self.forget(|tuple, flow| now.saturating_sub(flow.used) >= flow.patience(tuple.0));
            if self.flows.len() >= MOST {
                return None;
            }
        }
        let own = (address == client.ip()).then_some(client.port());
        own.into_iter()
            .chain(masquerade_ports(client, backend))
            .map(|port| SocketAddr::new(address, port))
            .find(|seen| !self.replies.contains_key(&(number, backend, *seen)))
    }
}

impl ServiceRule {
    fn all(&self) -> impl Iterator<Item = &SocketAddr> {
        let near = match &self.reach {
            Reach::Local { near } => &near[..],
            _ => &[],
        };
        self.backends.iter().chain(near)
    }
}

impl Flow {
    fn patience(&self, number: u8) -> Duration {
        if number == proto::TCP && !self.closing { LONG } else { BRIEF }
    }
}

fn within(nets: &[IpNet], address: IpAddr) -> bool {
    nets.iter().any(|net| net.contains(&address))
}

/// The ends of a TCP or UDP packet.
fn tuple(ip: &Ip) -> Option<Tuple> {
    if !matches!(ip.l4, L4::Tcp { .. } | L4::Udp { .. }) {
        return None;
    }
    let (source, destination) = ip.l4.ports()?;
    Some((ip.proto, SocketAddr::new(ip.src, source), SocketAddr::new(ip.dst, destination)))
}

fn flags(ip: &Ip) -> TcpFlags {
    match ip.l4 {
        L4::Tcp { flags, .. } => flags,
        _ => TcpFlags::empty(),
    }
}

fn sockets(source: SocketAddr, destination: SocketAddr) -> Rewrite {
    Rewrite {
        src: Some(source.ip()),
        dst: Some(destination.ip()),
        sport: Some(source.port()),
        dport: Some(destination.port()),
    }
}

fn verdict(done: bool) -> Verdict {
    if done { Verdict::Rewritten } else { Verdict::Dropped }
}

fn rewrite(frame: &mut [u8], ip: &mut Ip, source: SocketAddr, destination: SocketAddr) -> Verdict {
    verdict(sockets(source, destination).apply(frame, ip).is_ok())
}

/// The backend of a client: the one whose hash with the client is highest, so that a backend that goes takes no
/// others' clients with it.
fn choose(rule: &ServiceRule, backends: &[SocketAddr], client: SocketAddr) -> Option<SocketAddr> {
    let port = if rule.affinity { 0 } else { client.port() };
    let client = fold(fold(OFFSET, client.ip(), port), rule.vip, rule.port);
    backends.iter().copied().max_by_key(|backend| mix(fold(client, backend.ip(), backend.port())))
}

/// The ports that a masqueraded connection may have, in the order of trial: as by chance, and none that programs of
/// the node take, whose connections must not be mistaken for it.
pub(super) fn masquerade_ports(client: SocketAddr, remote: SocketAddr) -> impl Iterator<Item = u16> {
    const LEAST: u16 = 1024;
    const END: u16 = 49_152;
    let hash = mix(fold(fold(OFFSET, client.ip(), client.port()), remote.ip(), remote.port()));
    let start = LEAST + u16::try_from(hash % u64::from(END - LEAST)).unwrap_or_default();
    (start..END).chain(LEAST..start)
}

/// The offset basis of FNV-1a.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a.
fn fold(hash: u64, address: IpAddr, port: u16) -> u64 {
    let octets = match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let bytes = octets.to_be_bytes().into_iter().chain(port.to_be_bytes());
    bytes.fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Spreads the last bytes of an FNV hash over all bits (the finalizer of MurmurHash3).
fn mix(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests;
