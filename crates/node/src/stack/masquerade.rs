//! Masquerading: the source of what leaves a node's pods for the outside becomes the node's address, as the rule of
//! a Linux node's CNI plugin does. Knows nothing of routes.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use wire::{Ip, L4, bytes, checksum};

use super::services::masquerade_ports;

/// How long an idle translation is kept.
const IDLE: Duration = Duration::from_mins(5);
/// How many translations there may be.
const MOST: usize = 65_536;

/// Which packets are masqueraded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MasqueradeRule {
    /// Their sources.
    pub inside: Vec<IpNet>,
    /// Destinations that see the pod itself: the cluster's pods.
    pub except: Vec<IpNet>,
}

/// One end of a connection as it is outside: protocol, own address and port, remote address and port.
type Tuple = (u8, IpAddr, u16, IpAddr, u16);

#[derive(Debug)]
struct Entry {
    inside: (IpAddr, u16),
    used: Duration,
}

/// The translations of one node.
#[derive(Debug, Default)]
pub(super) struct Masquerade {
    rule: MasqueradeRule,
    outside: BTreeMap<Tuple, Entry>,
    /// From the connection as it is inside to the port outside.
    inside: BTreeMap<Tuple, u16>,
    /// Connections that others opened to the inside, as their replies look, and when they were used: they are left
    /// alone.
    opened: BTreeMap<Tuple, Duration>,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It goes on as it is.
    Untouched,
    /// It was rewritten.
    Rewritten,
    /// It would have to be rewritten and cannot be.
    Refused,
}

impl Masquerade {
    pub(super) fn new(rule: MasqueradeRule) -> Self {
        Self { rule, ..Self::default() }
    }

    /// Whether the rule is for what goes from one address to another.
    pub(super) fn covers(&self, from: IpAddr, to: IpAddr) -> bool {
        let within = |nets: &[IpNet], address: IpAddr| nets.iter().any(|net| net.contains(&address));
        within(&self.rule.inside, from) && !within(&self.rule.except, to)
    }

    /// A packet leaves the node by an interface with this address.
    pub(super) fn leave(&mut self, now: Duration, frame: &mut [u8], ip: &Ip, own: IpAddr) -> Verdict {
        if !self.covers(ip.src, ip.dst) {
            return Verdict::Untouched;
        }
        if let Some((source, remote)) = replied(ip)
            && let Some(used) = self.opened.get_mut(&(ip.proto, ip.src, source, ip.dst, remote))
        {
            *used = now;
            return Verdict::Untouched;
        }
        let Some((source, remote)) = ends(ip) else {
            // An error about a connection that others opened is theirs to hear; of another one nobody knows.
            let known = wire::quoted::parse(frame, ip).is_some_and(|quoted| {
                let ports = quoted.ports.unwrap_or_default();
                self.opened.contains_key(&(quoted.proto, quoted.dst, ports.1, quoted.src, ports.0))
            });
            return if known { Verdict::Untouched } else { Verdict::Refused };
        };
        let inside = (ip.proto, ip.src, source, ip.dst, remote);
        let port = match self.inside.get(&inside) {
            Some(port) => *port,
            None => match self.choose(now, inside, own) {
                Some(port) => port,
                None => return Verdict::Refused,
            },
        };
        if let Some(entry) = self.outside.get_mut(&(ip.proto, own, port, ip.dst, remote)) {
            entry.used = now;
        }
        rewrite(frame, ip, true, own, port)
    }

    /// A packet passes to the inside: it may open a connection.
    pub(super) fn enter(&mut self, now: Duration, ip: &Ip) {
        if !self.rule.inside.iter().any(|net| net.contains(&ip.dst)) {
            return;
        }
        let Some((source, remote)) = ends(ip) else { return };
        if self.opened.len() >= MOST {
            self.opened.retain(|_, used| now.saturating_sub(*used) < IDLE);
            if self.opened.len() >= MOST {
                self.opened.pop_first();
            }
        }
        self.opened.insert((ip.proto, ip.dst, remote, ip.src, source), now);
    }

    /// A port that is free.
    fn choose(&mut self, now: Duration, inside: Tuple, own: IpAddr) -> Option<u16> {
        if self.outside.len() >= MOST {
            self.outside.retain(|_, entry| now.saturating_sub(entry.used) < IDLE);
            let outside = &self.outside;
            self.inside.retain(|&(proto, _, _, to, remote), port| {
                outside.contains_key(&(proto, own, *port, to, remote))
            });
        }
        let (proto, address, source, to, remote) = inside;
        let port = masquerade_ports(SocketAddr::new(address, source), SocketAddr::new(to, remote))
            .find(|&port| !self.outside.contains_key(&(proto, own, port, to, remote)))?;
        self.outside.insert((proto, own, port, to, remote), Entry { inside: (address, source), used: now });
        self.inside.insert(inside, port);
        Some(port)
    }

    /// A packet for one of the node's own addresses arrives.
    pub(super) fn arrive(&mut self, now: Duration, frame: &mut [u8], ip: &Ip) -> Verdict {
        let Some((remote, port)) = replied(ip) else { return Verdict::Untouched };
        let Some(entry) = self.outside.get_mut(&(ip.proto, ip.dst, port, ip.src, remote)) else {
            return Verdict::Untouched;
        };
        entry.used = now;
        let (address, source) = entry.inside;
        rewrite(frame, ip, false, address, source)
    }
}

/// Source and destination port; an echo request has its identifier as source port.
fn ends(ip: &Ip) -> Option<(u16, u16)> {
    match ip.l4 {
        L4::Icmp { kind: 8, id, .. } | L4::Icmp6 { kind: 128, id, .. } => Some((id, 0)),
        _ => ip.l4.ports(),
    }
}

/// The same of a packet that may be a reply: an echo reply has its identifier as destination port.
fn replied(ip: &Ip) -> Option<(u16, u16)> {
    match ip.l4 {
        L4::Icmp { kind: 0, id, .. } | L4::Icmp6 { kind: 129, id, .. } => Some((0, id)),
        _ => ip.l4.ports(),
    }
}

fn rewrite(frame: &mut [u8], ip: &Ip, source: bool, address: IpAddr, port: u16) -> Verdict {
    let at = usize::from(ip.offset);
    let done = match address {
        IpAddr::V4(v4) => bytes::set(frame, at + if source { 12 } else { 16 }, &v4.octets()),
        IpAddr::V6(v6) => bytes::set(frame, at + if source { 8 } else { 24 }, &v6.octets()),
    };
    let echo = matches!(ip.l4, L4::Icmp { .. } | L4::Icmp6 { .. });
    let place = match (echo, source) {
        (true, _) => 4,
        (false, true) => 0,
        (false, false) => 2,
    };
    let done = done && bytes::set_u16(frame, ip.l4_offset() + place, port) && checksum::fill(frame).is_ok();
    if done { Verdict::Rewritten } else { Verdict::Refused }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Mac;
    use wire::build::FrameBuilder;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn udp(from: (&str, u16), to: (&str, u16)) -> Vec<u8> {
        FrameBuilder::eth(Mac::ZERO, Mac::ZERO)
            .ip(ip(from.0), ip(to.0))
            .udp(from.1, to.1)
            .payload(b"x")
            .build()
    }

    fn parsed(frame: &[u8]) -> Ip {
        *wire::parse(frame).unwrap().ip().unwrap()
    }

    #[test]
    fn what_leaves_is_rewritten_and_the_reply_comes_back() {
        let mut table = Masquerade::new(MasqueradeRule {
            inside: vec!["10.50.2.0/24".parse().unwrap()],
            except: vec!["10.50.0.0/16".parse().unwrap()],
        });
        let own = ip("192.0.2.12");
        let send = |table: &mut Masquerade, from: &str, to: &str| {
            let mut frame = udp((from, 5000), (to, 53));
            let ip = parsed(&frame);
            let verdict = table.leave(Duration::ZERO, &mut frame, &ip, own);
            (verdict, frame)
        };
        assert_eq!(send(&mut table, "10.50.2.5", "10.50.1.5").0, Verdict::Untouched);
        let (verdict, frame) = send(&mut table, "10.50.2.5", "203.0.113.9");
        assert_eq!((verdict, parsed(&frame).src), (Verdict::Rewritten, own));
        let first = parsed(&frame).l4.ports().unwrap().0;
        let (_, frame) = send(&mut table, "10.50.2.6", "203.0.113.9");
        let second = parsed(&frame).l4.ports().unwrap().0;
        assert!(first != second && [first, second].iter().all(|port| (1024..49_152).contains(port)));
        checksum::verify(&frame).unwrap();

        let mut reply = udp(("203.0.113.9", 53), ("192.0.2.12", second));
        let seen = parsed(&reply);
        assert_eq!(table.arrive(Duration::ZERO, &mut reply, &seen), Verdict::Rewritten);
        assert_eq!((parsed(&reply).dst, parsed(&reply).l4.ports()), (ip("10.50.2.6"), Some((53, 5000))));
        checksum::verify(&reply).unwrap();
        let asked = udp(("192.0.2.9", 7000), ("10.50.2.5", 80));
        table.enter(Duration::ZERO, &parsed(&asked));
        let mut answer = udp(("10.50.2.5", 80), ("192.0.2.9", 7000));
        let seen = parsed(&answer);
        assert_eq!(
            table.leave(Duration::ZERO, &mut answer, &seen, own),
            Verdict::Untouched,
            "others opened it"
        );

        let mut other = udp(("203.0.113.8", 53), ("192.0.2.12", second));
        let seen = parsed(&other);
        assert_eq!(table.arrive(Duration::ZERO, &mut other, &seen), Verdict::Untouched);
    }
}
