//! A slow, simple interpreter of one port's layers: bytes in, bytes out, one layer after the other.
//!
//! It shares nothing with the engine but the model. Every layer reads the frame anew and writes what its rule says
//! into the bytes, all checksums are computed anew, what layers decided lies in plain lists, and rules are found by
//! walking. It knows what the engine may choose freely: a NAT port, the source port of a tunnel.

use std::net::IpAddr;

use vfp::model::{
    Action, Conditions, Direction, Family, LbFlags, LbNat, NatSide, RemovedDip, Rule, RuleFlags,
};
use wire::{L4, Mac, TcpFlags, proto};

use crate::fixture::End;

#[derive(Clone, Debug)]
pub(crate) struct Layer {
    pub(crate) stateful: bool,
    pub(crate) default_allow: bool,
    pub(crate) groups: Vec<Group>,
}

#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) direction: Direction,
    pub(crate) family: Family,
    pub(crate) rules: Vec<Rule>,
    pub(crate) generation: u32,
}

/// A packet's ends as a layer sees them.
pub(crate) type Ends = (End, End);

#[derive(Clone, Debug)]
struct Decision {
    layer: usize,
    stateful: bool,
    balanced: bool,
    generation: u32,
    before: Ends,
    after: Ends,
    lent: Option<End>,
    rule: Rule,
}

#[derive(Clone, Debug)]
struct Connection {
    protocol: u8,
    direction: Direction,
    main: Ends,
    reply: Option<Ends>,
    decisions: Vec<Decision>,
    established: bool,
    /// Dropped by a rule, or for want of one, under the policy of this generation.
    blocked: Option<u32>,
    /// It began with a first SYN.
    opened: bool,
    /// It began with a SYN that has an ACK.
    answers: bool,
}

/// What becomes of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Dropped,
    /// The frame, and the tunnel that it goes in.
    Passes(Vec<u8>, Option<(IpAddr, IpAddr, u32)>),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Reference {
    /// In the order of their priority.
    pub(crate) layers: Vec<Layer>,
    removed: RemovedDip,
    connections: Vec<Connection>,
    /// Ports of the pool: address of each family, first and last.
    pool: Vec<(IpAddr, u16, u16)>,
}

struct Walk {
    frame: Vec<u8>,
    decisions: Vec<Decision>,
    stateful: bool,
    tunnel: Option<(IpAddr, IpAddr, u32)>,
    lent: Vec<End>,
}

enum Stop {
    /// By a rule, or for want of one: it holds for the connection.
    Policy,
    /// Whatever concerns this packet or the moment.
    Other,
}

#[derive(Clone, Copy)]
enum Role<'c> {
    New,
    Main(&'c Connection),
    Reply(&'c Connection),
}

pub(crate) fn ends(frame: &[u8]) -> Ends {
    let parsed = wire::parse(frame).expect("it is a frame");
    let ip = parsed.ip().expect("it is IP");
    let (sport, dport) = match ip.l4 {
        L4::Icmp { id, .. } | L4::Icmp6 { id, .. } => (id, id),
        other => other.ports().unwrap_or((0, 0)),
    };
    ((ip.src, sport), (ip.dst, dport))
}

fn protocol(frame: &[u8]) -> u8 {
    wire::parse(frame).expect("it is a frame").ip().expect("it is IP").proto
}

fn flags(frame: &[u8]) -> TcpFlags {
    match wire::parse(frame).expect("it is a frame").ip().expect("it is IP").l4 {
        L4::Tcp { flags, .. } => flags,
        _ => TcpFlags::empty(),
    }
}

fn has_ports(protocol: u8) -> bool {
    matches!(protocol, proto::TCP | proto::UDP | proto::SCTP)
}

/// Writes addresses and ports into the bytes; checksums are for the end.
fn put(frame: &mut [u8], ((src, sport), (dst, dport)): Ends) {
    let parsed = wire::parse(frame).expect("it is a frame");
    let ip = *parsed.ip().expect("it is IP");
    let at = usize::from(ip.offset);
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            frame[at + 12..at + 16].copy_from_slice(&src.octets());
            frame[at + 16..at + 20].copy_from_slice(&dst.octets());
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            frame[at + 8..at + 24].copy_from_slice(&src.octets());
            frame[at + 24..at + 40].copy_from_slice(&dst.octets());
        }
        _ => panic!("one family"),
    }
    if has_ports(ip.proto) {
        frame[ip.l4_offset()..][..2].copy_from_slice(&sport.to_be_bytes());
        frame[ip.l4_offset() + 2..][..2].copy_from_slice(&dport.to_be_bytes());
    }
}

fn put_mac(frame: &mut [u8], at: usize, mac: Option<Mac>) {
    if let Some(mac) = mac {
        frame[at..at + 6].copy_from_slice(&mac.0);
    }
}

/// True: it may go on.
fn decrement(frame: &mut [u8]) -> bool {
    let parsed = wire::parse(frame).expect("it is a frame");
    let ip = parsed.ip().expect("it is IP");
    let at = usize::from(ip.offset) + if ip.is_v6() { 7 } else { 8 };
    frame[at] = frame[at].wrapping_sub(1);
    ip.ttl > 1
}

fn matches(conditions: &Conditions, frame: &[u8]) -> bool {
    let ((src, sport), (dst, dport)) = ends(frame);
    let protocol = protocol(frame);
    let port = |list: &[vfp::model::PortRange], port: u16| {
        list.is_empty() || has_ports(protocol) && list.iter().any(|range| range.contains(port))
    };
    (conditions.protocols.is_empty() || conditions.protocols.contains(&protocol))
        && (conditions.sources.is_empty() || conditions.sources.contains(src))
        && (conditions.destinations.is_empty() || conditions.destinations.contains(dst))
        && port(&conditions.source_ports, sport)
        && port(&conditions.destination_ports, dport)
}

/// As the documentation of `vfp::pick` describes it.
fn pick(lb: &LbNat, ((src, sport), (dst, dport)): Ends, protocol: u8) -> usize {
    fn fold(a: u64, b: u64) -> u64 {
        let wide = u128::from(a) * u128::from(b);
        u64::try_from(wide & u128::from(u64::MAX)).unwrap() ^ u64::try_from(wide >> 64).unwrap()
    }
    fn words(address: IpAddr) -> [u64; 2] {
        let bits = match address {
            IpAddr::V4(v4) => u128::from(v4.to_bits()),
            IpAddr::V6(v6) => v6.to_bits(),
        };
        [u64::try_from(bits >> 64).unwrap(), u64::try_from(bits & u128::from(u64::MAX)).unwrap()]
    }
    let hash = |words: &[u64]| {
        words.iter().fold(0x9E37_79B9_7F4A_7C15_u64, |hash, word| fold(hash ^ word, 0xD6E8_FEB8_6659_FD93))
    };
    let ([a, b], [c, d]) = (words(src), words(dst));
    let tail = u64::from(sport) << 32 | u64::from(dport) << 16 | u64::from(protocol);
    let packet = match lb.distribution {
        vfp::model::Distribution::FiveTuple => hash(&[a, b, c, d, tail]),
        vfp::model::Distribution::SourceProtocol => hash(&[a, b, u64::from(protocol)]),
        vfp::model::Distribution::Source => hash(&[a, b]),
    };
    let score = |dip: &vfp::model::Dip| {
        let [high, low] = words(dip.address);
        let dip_hash = hash(&[high, low, u64::from(dip.port.unwrap_or(0))]);
        fold(packet ^ dip_hash, 0xA076_1D64_78BD_642F ^ dip_hash)
    };
    (0..lb.dips.len()).max_by_key(|&at| score(&lb.dips[at])).expect("there is one")
}

/// The MAC of a destination: a function of its address, so that one that is gone is still known.
pub(crate) fn mac_of_dip(address: IpAddr) -> Mac {
    let last = match address {
        IpAddr::V4(v4) => v4.octets()[3],
        IpAddr::V6(v6) => v6.octets()[15],
    };
    if last % 2 == 0 { crate::fixture::ROUTER } else { crate::fixture::mac_of(crate::fixture::L2) }
}

impl Reference {
    /// Without layers; NAT ports for TCP are of these addresses and ranges.
    pub(crate) fn new(removed: RemovedDip, pool: Vec<(IpAddr, u16, u16)>) -> Self {
        Self { removed, pool, ..Self::default() }
    }

    /// That of the newest rule of all.
    fn generation(&self) -> u32 {
        self.layers.iter().flat_map(|layer| &layer.groups).map(|group| group.generation).max().unwrap_or(0)
    }

    fn newest(&self, layer: usize, direction: Direction, family: Family) -> u32 {
        let groups = self.layers[layer].groups.iter();
        let groups = groups.filter(|group| group.direction == direction && group.family == family);
        groups.map(|group| group.generation).max().unwrap_or(0)
    }

    fn answer(&self, layer: usize, direction: Direction, frame: &[u8]) -> Option<Rule> {
        let family = Family::of(ends(frame).0.0);
        let mut last = None;
        for group in &self.layers[layer].groups {
            if group.direction != direction || group.family != family {
                continue;
            }
            let mut rules: Vec<&Rule> = group.rules.iter().collect();
            rules.sort_by_key(|rule| rule.priority);
            if let Some(rule) = rules.into_iter().find(|rule| matches(&rule.conditions, frame)) {
                last = Some(rule.clone());
                if rule.flags.contains(RuleFlags::TERMINATING) {
                    break;
                }
            }
        }
        last
    }

    /// A free port of the pool; which one, the engine says.
    fn lend(&self, frame: &[u8], walk: &Walk, seen: Option<u16>) -> Option<End> {
        if protocol(frame) != proto::TCP {
            return None;
        }
        let family = Family::of(ends(frame).0.0);
        let &(address, first, last) =
            self.pool.iter().find(|(address, ..)| Family::of(*address) == family)?;
        let all = self.connections.iter().flat_map(|connection| &connection.decisions);
        let mut taken: Vec<End> = all.filter_map(|decision| decision.lent).collect();
        taken.extend(&walk.lent);
        let free = |port: u16| !taken.contains(&(address, port));
        let Some(port) = seen.filter(|port| (first..=last).contains(port) && free(*port)) else {
            // It was not seen, because the packet is dropped further on: any will do.
            return (first..=last).find(|&port| free(port)).map(|port| (address, port));
        };
        Some((address, port))
    }

    fn act(
        &self,
        layer: usize,
        rule: &Rule,
        standing: Role<'_>,
        walk: &mut Walk,
        seen: Option<u16>,
    ) -> Result<(bool, bool, Option<End>), Stop> {
        let stateful = self.layers[layer].stateful && rule.flags.contains(RuleFlags::STATEFUL);
        let before = ends(&walk.frame);
        let protocol = protocol(&walk.frame);
        let icmp = !has_ports(protocol);
        let mut after = before;
        let mut lent = None;
        let mut balanced = false;
        match &rule.action {
            Action::Allow => {}
            Action::Block => return Err(Stop::Policy),
            // A reply is neither balanced nor given a NAT port.
            Action::LbNat(_) | Action::DynNat(_) if matches!(standing, Role::Reply(_)) && !icmp => {
                return Ok((false, false, None));
            }
            Action::Nat(_) | Action::LbNat(_) | Action::DynNat(_) if icmp => return Err(Stop::Policy),
            Action::Nat(nat) => {
                let end = if nat.side == NatSide::Source { &mut after.0 } else { &mut after.1 };
                end.0 = nat.address.unwrap_or(end.0);
                end.1 = nat.port.unwrap_or(end.1);
            }
            Action::LbNat(lb) => {
                balanced = true;
                let old = Self::decision(layer, standing).filter(|old| old.balanced && stateful);
                match old.and_then(|_| self.kept(layer, lb, standing, before)) {
                    Some(kept) => {
                        after = kept;
                        put_mac(&mut walk.frame, 0, Some(mac_of_dip(kept.1.0)));
                    }
                    None if lb.dips.is_empty() => return Err(Stop::Policy),
                    None => {
                        let dip = &lb.dips[pick(lb, before, protocol)];
                        assert!(lb.flags.contains(LbFlags::REWRITE_ADDRESS));
                        after.1 = (dip.address, dip.port.unwrap_or(after.1.1));
                        put_mac(&mut walk.frame, 0, dip.mac);
                    }
                }
            }
            Action::DynNat(_) => {
                let old =
                    Self::decision(layer, standing).filter(|old| old.before == before && old.lent.is_some());
                lent = old.and_then(|old| old.lent);
                if lent.is_none() {
                    lent = self.lend(&walk.frame, walk, seen);
                    walk.lent.extend(lent);
                }
                after.0 = lent.ok_or(Stop::Other)?;
            }
            Action::Transpose(transpose) => {
                put_mac(&mut walk.frame, 6, transpose.source_mac);
                put_mac(&mut walk.frame, 0, transpose.destination_mac);
                if transpose.decrement_ttl && !decrement(&mut walk.frame) {
                    return Err(Stop::Other);
                }
            }
            Action::RouteEncap(encap) => {
                let to = &encap.destinations[0];
                put_mac(&mut walk.frame, 0, to.ca_mac);
                walk.tunnel = Some((encap.source, to.pa, to.vni));
                return Ok((false, false, None));
            }
            other => panic!("{other:?} is not for this test"),
        }
        put(&mut walk.frame, after);
        Ok((stateful, balanced, lent))
    }

    fn decision(layer: usize, standing: Role<'_>) -> Option<&Decision> {
        match standing {
            Role::New => None,
            Role::Main(connection) | Role::Reply(connection) => {
                connection.decisions.iter().find(|decision| decision.layer == layer)
            }
        }
    }

    /// The ends that a load balancer gave the connection before, if it keeps them.
    fn kept(&self, layer: usize, lb: &LbNat, standing: Role<'_>, before: Ends) -> Option<Ends> {
        let Role::Main(connection) = standing else { return None };
        let old = Self::decision(layer, standing)?;
        if !old.stateful || old.before != before {
            return None;
        }
        let still = lb.dips.iter().any(|dip| (dip.address, dip.port.unwrap_or(before.1.1)) == old.after.1);
        let keeps = match self.removed {
            RemovedDip::Keep => true,
            RemovedDip::KeepEstablished => connection.established,
            RemovedDip::Rehash => false,
        };
        (still || keeps).then_some(old.after)
    }

    fn walk(
        &self,
        direction: Direction,
        frame: &[u8],
        standing: Role<'_>,
        seen: Option<u16>,
    ) -> Result<Walk, Stop> {
        let mut walk = Walk {
            frame: frame.to_vec(),
            decisions: Vec::new(),
            stateful: false,
            tunnel: None,
            lent: Vec::new(),
        };
        let mut order: Vec<usize> = (0..self.layers.len()).collect();
        if direction == Direction::In {
            order.reverse();
        }
        for layer in order {
            let before = ends(&walk.frame);
            let newest = self.newest(layer, direction, Family::of(before.0.0));
            let old = Self::decision(layer, standing).filter(|old| old.stateful);
            match (standing, old) {
                (Role::Reply(_), Some(old)) => {
                    let (mut from, mut to) = before;
                    if old.after.1 != old.before.1 {
                        from = old.before.1;
                    }
                    if old.after.0 != old.before.0 {
                        to = old.before.0;
                    }
                    put(&mut walk.frame, (from, to));
                    walk.stateful = true;
                    continue;
                }
                (Role::Main(_), Some(old)) if old.generation == newest && old.before == before => {
                    if let Action::Transpose(transpose) = &old.rule.action {
                        put_mac(&mut walk.frame, 6, transpose.source_mac);
                        put_mac(&mut walk.frame, 0, transpose.destination_mac);
                        if transpose.decrement_ttl && !decrement(&mut walk.frame) {
                            return Err(Stop::Other);
                        }
                    }
                    if old.balanced {
                        put_mac(&mut walk.frame, 0, Some(mac_of_dip(old.after.1.0)));
                    }
                    put(&mut walk.frame, old.after);
                    walk.decisions.push(old.clone());
                    walk.stateful = true;
                    continue;
                }
                _ => {}
            }
            let rule = self.answer(layer, direction, &walk.frame);
            if rule.as_ref().is_none_or(|rule| matches!(rule.action, Action::Allow)) {
                let none = LbNat {
                    dips: Vec::new(),
                    flags: LbFlags::empty(),
                    distribution: vfp::model::Distribution::default(),
                    source: None,
                };
                // A load balancer's choice, or a translated destination.
                let old = old.filter(|old| old.balanced || old.after.1 != old.before.1);
                if let (Some(old), Some(after)) = (old, self.kept(layer, &none, standing, before)) {
                    if old.balanced {
                        put_mac(&mut walk.frame, 0, Some(mac_of_dip(after.1.0)));
                    }
                    put(&mut walk.frame, after);
                    walk.decisions.push(old.clone());
                    walk.stateful = true;
                    continue;
                }
            }
            let Some(rule) = rule else {
                let Layer { default_allow, groups, .. } = &self.layers[layer];
                if !default_allow && !groups.is_empty() {
                    return Err(Stop::Policy);
                }
                continue;
            };
            let (stateful, balanced, lent) = self.act(layer, &rule, standing, &mut walk, seen)?;
            let after = ends(&walk.frame);
            if stateful || after != before {
                walk.stateful |= stateful;
                let generation = newest;
                walk.decisions.push(Decision {
                    layer,
                    stateful,
                    balanced,
                    generation,
                    before,
                    after,
                    lent,
                    rule,
                });
            }
        }
        Ok(walk)
    }

    /// Works on one frame. `seen`: the source port that the engine gave it.
    pub(crate) fn step(&mut self, direction: Direction, frame: &[u8], seen: Option<u16>) -> Fate {
        let (own, protocol, tcp) = (ends(frame), protocol(frame), flags(frame));
        let reversed = |(a, b): Ends| (b, a);
        let is_main = |connection: &Connection| {
            connection.protocol == protocol && connection.direction == direction && connection.main == own
        };
        let has_reply = |connection: &Connection, direction: Direction, ends: Ends| {
            connection.protocol == protocol
                && connection.direction == direction.reverse()
                && connection.reply == Some(ends)
        };
        let mut found = self.connections.iter().position(is_main);
        let first_syn = protocol == proto::TCP && tcp & (TcpFlags::SYN | TcpFlags::ACK) == TcpFlags::SYN;
        if let Some(at) = found
            && first_syn
            && self.connections[at].established
        {
            self.connections.remove(at);
            found = None;
        }
        let reply = self.connections.iter().position(|connection| has_reply(connection, direction, own));
        if found.is_none()
            && let Some(at) = reply
        {
            let connection = self.connections[at].clone();
            if connection.blocked.is_some() {
                return Fate::Dropped;
            }
            return match self.walk(direction, frame, Role::Reply(&connection), seen) {
                Ok(walk) => finish(walk),
                Err(_) => Fate::Dropped,
            };
        }
        let generation = self.generation();
        if found.is_some_and(|at| self.connections[at].blocked == Some(generation)) {
            return Fate::Dropped;
        }
        let known = found.map(|at| {
            let connection = &mut self.connections[at];
            connection.established |=
                protocol == proto::TCP && tcp.contains(TcpFlags::ACK) && !tcp.contains(TcpFlags::SYN);
            connection.clone()
        });
        let standing = known.as_ref().map_or(Role::New, Role::Main);
        let walk = match self.walk(direction, frame, standing, seen) {
            Ok(walk) => walk,
            Err(stop) => {
                if let (Some(at), Stop::Policy) = (found, stop) {
                    self.connections[at].blocked = Some(generation);
                }
                return Fate::Dropped;
            }
        };
        let reply = walk.stateful.then(|| reversed(ends(&walk.frame)));
        let opened = known.as_ref().map_or(first_syn, |known| known.opened);
        let syn_ack = protocol == proto::TCP && tcp.contains(TcpFlags::SYN | TcpFlags::ACK);
        let answers = known.as_ref().map_or(syn_ack, |known| known.answers);
        // The other way is a flow of its own that has the better claim.
        let plain = reply == Some(reversed(own));
        let mut one_way = answers && plain;
        if let Some(reply) = reply.filter(|_| !one_way) {
            let way_back = direction.reverse();
            let other = self.connections.iter().position(|other| {
                other.protocol == protocol
                    && (has_reply(other, way_back, reply)
                        || other.direction == way_back && other.main == reply)
            });
            if let Some(other) = other.filter(|other| Some(*other) != found) {
                let theirs = &self.connections[other];
                let is_main = theirs.direction == way_back && theirs.main == reply;
                if is_main && theirs.opened && !opened && plain {
                    one_way = true;
                } else if theirs.reply.is_some() {
                    return Fate::Dropped;
                } else {
                    self.connections.remove(other);
                    found = found.map(|at| if other < at { at - 1 } else { at });
                }
            }
        }
        let connection = Connection {
            protocol,
            direction,
            main: own,
            reply: reply.filter(|_| !one_way),
            decisions: walk.decisions.clone(),
            established: known.map_or(protocol == proto::TCP && !first_syn, |known| known.established),
            blocked: None,
            opened,
            answers,
        };
        match found {
            Some(at) => self.connections[at] = connection,
            None => self.connections.push(connection),
        }
        finish(walk)
    }
}

fn finish(mut walk: Walk) -> Fate {
    wire::checksum::fill(&mut walk.frame).expect("it is a frame");
    Fate::Passes(walk.frame, walk.tunnel)
}
