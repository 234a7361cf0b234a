//! A switch with a few ports, short ways to program it, and frames.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;
use vfp::model::{
    Action, AddressSet, Change, Conditions, Dip, Direction, DynNat, DynNatFlags, Family, FlowSettings,
    GroupKey, GroupSpec, Guards, LayerFlags, LayerSpec, LbFlags, LbNat, PoolKey, PoolRange, PoolSpec,
    PortKind, PortRange, PortSpec, Rule, RuleFlags, SegmentSpec, SwitchSettings,
};
use vfp::{DropReason, Env, HostRoutes, NextHop, Output, Pending, Switch};
use wire::build::FrameBuilder;
use wire::{Mac, Packet, TcpFlags};

pub(crate) const SYN: TcpFlags = TcpFlags::SYN;
pub(crate) const SYN_ACK: TcpFlags = TcpFlags::SYN.union(TcpFlags::ACK);
pub(crate) const ACK: TcpFlags = TcpFlags::ACK;
pub(crate) const FIN: TcpFlags = TcpFlags::FIN.union(TcpFlags::ACK);
pub(crate) const RST: TcpFlags = TcpFlags::RST;

pub(crate) const EXT: Uuid = Uuid::from_u128(1);
pub(crate) const HOST: Uuid = Uuid::from_u128(2);
pub(crate) const L1: Uuid = Uuid::from_u128(3);
pub(crate) const L2: Uuid = Uuid::from_u128(4);
/// In another segment.
pub(crate) const L3: Uuid = Uuid::from_u128(5);

/// Of the next hop on the wire.
pub(crate) const ROUTER: Mac = Mac([2, 0, 0, 0, 0, 0xfe]);
/// Of the distributed router.
pub(crate) const DR: Mac = Mac([2, 0, 0, 0, 0, 0xdd]);

pub(crate) const fn mac_of(port: Uuid) -> Mac {
    #[expect(clippy::cast_possible_truncation, reason = "the names of the fixture are small")]
    Mac([2, 0, 0, 0, 0, port.as_u128() as u8])
}

/// Both families have the same plan of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ips(pub(crate) bool);

pub(crate) const FAMILIES: [Ips; 2] = [Ips(false), Ips(true)];

impl Ips {
    fn make(self, v4: [u8; 4]) -> IpAddr {
        let [a, b, c, d] = v4.map(u16::from);
        if self.0 {
            IpAddr::V6(Ipv6Addr::new(0xfd00, a, b, c, 0, 0, 0, d))
        } else {
            IpAddr::V4(Ipv4Addr::from(v4))
        }
    }

    pub(crate) fn pod(self, port: Uuid) -> IpAddr {
        self.make([10, 50, 1, mac_of(port).0[5] + 2])
    }

    /// A pod of another node.
    pub(crate) fn far(self, host: u8) -> IpAddr {
        self.make([10, 50, 2, host])
    }

    pub(crate) fn vip(self) -> IpAddr {
        self.make([10, 60, 0, 20])
    }

    pub(crate) fn node(self) -> IpAddr {
        self.make([192, 0, 2, 11])
    }

    pub(crate) fn outside(self) -> IpAddr {
        self.make([203, 0, 113, 9])
    }

    pub(crate) fn family(self) -> Family {
        if self.0 { Family::V6 } else { Family::V4 }
    }

    pub(crate) fn echo(self) -> u8 {
        if self.0 { wire::proto::ICMP6 } else { wire::proto::ICMP }
    }
}

/// The host's routes, as a test says.
#[derive(Default)]
pub(crate) struct Hops(pub(crate) HashMap<IpAddr, NextHop>, pub(crate) u32);

impl HostRoutes for Hops {
    fn next_hop(&mut self, _: u32, destination: IpAddr) -> NextHop {
        self.1 += 1;
        self.0.get(&destination).copied().unwrap_or(NextHop::Via { mac: ROUTER, source_mac: mac_of(HOST) })
    }
}

pub(crate) struct Rig {
    pub(crate) switch: Switch,
    pub(crate) now: Duration,
    pub(crate) hops: Hops,
    pub(crate) pending: Vec<Pending>,
}

pub(crate) fn port(name: Uuid, kind: PortKind, segment: u32) -> PortSpec {
    PortSpec {
        name,
        friendly_name: name.to_string(),
        kind,
        segment,
        nic: name,
        nic_name: String::new(),
        mac: mac_of(name),
        addresses: match kind {
            PortKind::Endpoint => vec![Ips(false).pod(name), Ips(true).pod(name)],
            _ => vec![Ips(false).node(), Ips(true).node()],
        },
        mtu: 1500,
        vlan: 0,
        guards: Guards::empty(),
        flows: FlowSettings::default(),
        enabled: true,
    }
}

pub(crate) type Delivered = Vec<(Uuid, Vec<u8>)>;

impl Rig {
    /// Five ports without a rule.
    pub(crate) fn new() -> Self {
        Self::with(SwitchSettings::default())
    }

    pub(crate) fn with(settings: SwitchSettings) -> Self {
        let mut rig = Self {
            switch: Switch::new(settings),
            now: Duration::from_secs(1000),
            hops: Hops::default(),
            pending: Vec::new(),
        };
        let segment = |id| SegmentSpec { id, unknown_to_external: true, ..SegmentSpec::default() };
        rig.apply(&[
            Change::PutSegment(segment(1)),
            Change::PutSegment(segment(2)),
            Change::PutPort(port(EXT, PortKind::External, 0)),
            Change::PutPort(port(HOST, PortKind::Host, 0)),
            Change::PutPort(port(L1, PortKind::Endpoint, 1)),
            Change::PutPort(port(L2, PortKind::Endpoint, 1)),
            Change::PutPort(port(L3, PortKind::Endpoint, 2)),
        ]);
        rig
    }

    pub(crate) fn apply(&mut self, changes: &[Change]) {
        self.switch.apply(changes).expect("the changes are right");
    }

    pub(crate) fn settings(&mut self, change: impl FnOnce(&mut SwitchSettings)) {
        let mut settings = self.switch.settings().clone();
        change(&mut settings);
        self.apply(&[Change::Settings(settings)]);
    }

    pub(crate) fn respec(&mut self, name: Uuid, change: impl FnOnce(&mut PortSpec)) {
        let ports = self.switch.ports();
        let mut spec = ports.into_iter().find(|port| port.spec.name == name).expect("a port").spec;
        change(&mut spec);
        self.apply(&[Change::PutPort(spec)]);
    }

    pub(crate) fn layer(&mut self, port: Uuid, id: &str, priority: u32, stateful: bool) {
        self.layer_with(port, id, priority, stateful, LayerFlags::DEFAULT_ALLOW);
    }

    pub(crate) fn layer_with(
        &mut self,
        port: Uuid,
        id: &str,
        priority: u32,
        stateful: bool,
        flags: LayerFlags,
    ) {
        let layer = LayerSpec { id: id.into(), name: id.into(), priority, stateful, flags };
        self.apply(&[Change::PutLayer { port, layer }]);
    }

    /// A new group in a layer, named `layer/port/direction/family` and what is given.
    pub(crate) fn group(
        &mut self,
        (port, layer): (Uuid, &str),
        direction: Direction,
        ips: Ips,
        priority: u32,
        rules: Vec<Rule>,
    ) -> GroupKey {
        let key =
            GroupKey(format!("{layer}/{}/{direction}/{}/{priority}", mac_of(port), ips.family()).into());
        let spec = group(&key, direction, ips, priority, rules);
        self.apply(&[
            Change::PutGroup(spec),
            Change::Attach { port, layer: layer.into(), group: key.clone() },
        ]);
        key
    }

    pub(crate) fn pool(&mut self, key: &str, protocol: u8, owner: Uuid, address: IpAddr, ports: (u16, u16)) {
        self.apply(&[Change::PutPool(pool(key, protocol, owner, address, ports))]);
    }

    pub(crate) fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    /// Sends frames in one batch. Everything that comes out has right checksums.
    pub(crate) fn send_all(&mut self, from: Uuid, frames: &[Vec<u8>]) -> Delivered {
        let mut packets: Vec<Packet> = frames.iter().map(|frame| Packet::new(frame)).collect();
        let mut out = Output::default();
        let mut env = Env { now: self.now, routes: &mut self.hops, observer: None };
        self.switch.transmit(from, &mut packets, &mut env, &mut out);
        assert!(packets.is_empty());
        self.pending.append(&mut out.pending);
        let right = frames.iter().all(|frame| wire::checksum::verify(frame).is_ok());
        let delivered: Delivered =
            out.delivered.into_iter().map(|(port, packet)| (port, packet.into_vec())).collect();
        for (_, frame) in delivered.iter().filter(|_| right) {
            if let Err(error) = wire::checksum::verify(frame) {
                panic!("{error}: {}", wire::describe(frame));
            }
        }
        delivered
    }

    pub(crate) fn send(&mut self, from: Uuid, frame: Vec<u8>) -> Delivered {
        self.send_all(from, &[frame])
    }

    /// Sends one frame and expects exactly one at a port.
    pub(crate) fn one(&mut self, from: Uuid, frame: Vec<u8>, to: Uuid) -> Vec<u8> {
        let text = wire::describe(&frame).clone();
        let mut delivered = self.send(from, frame);
        let told: Vec<String> =
            delivered.iter().map(|(port, frame)| format!("{port}: {}", wire::describe(frame))).collect();
        assert_eq!(delivered.len(), 1, "{text} gave {told:#?}, drops {:?}", self.all_drops());
        let (port, frame) = delivered.remove(0);
        assert_eq!(port, to, "{text} gave {told:?}");
        frame
    }

    /// Sends one frame and expects it to be dropped for one reason, once.
    pub(crate) fn dropped(&mut self, from: Uuid, frame: Vec<u8>, reason: DropReason) {
        let text = wire::describe(&frame).clone();
        let before = self.all_drops();
        let delivered = self.send(from, frame);
        assert!(delivered.is_empty(), "{text} was delivered to {}", delivered[0].0);
        let after = self.all_drops();
        let new: Vec<(DropReason, u64)> = after
            .iter()
            .map(|(reason, count)| (*reason, count - before.get(reason).copied().unwrap_or(0)))
            .filter(|(_, count)| *count > 0)
            .collect();
        assert_eq!(new, [(reason, 1)], "{text}");
    }

    pub(crate) fn all_drops(&self) -> HashMap<DropReason, u64> {
        let mut drops = HashMap::new();
        for port in self.switch.ports() {
            for direction in [Direction::Out, Direction::In] {
                let counters = self.switch.counters(port.spec.name, direction).expect("the port is there");
                for reason in DropReason::ALL.into_iter().filter(|&reason| counters.dropped(reason) > 0) {
                    *drops.entry(reason).or_default() += counters.dropped(reason);
                }
            }
        }
        drops
    }
}

pub(crate) fn group(
    key: &GroupKey,
    direction: Direction,
    ips: Ips,
    priority: u32,
    rules: Vec<Rule>,
) -> GroupSpec {
    GroupSpec {
        key: key.clone(),
        id: Arc::clone(&key.0),
        name: Arc::clone(&key.0),
        direction,
        family: ips.family(),
        priority,
        conditions: Conditions::any(),
        rules: rules.into_iter().map(Arc::new).collect(),
    }
}

pub(crate) fn pool(
    key: &str,
    protocol: u8,
    owner: Uuid,
    address: IpAddr,
    (first, last): (u16, u16),
) -> PoolSpec {
    PoolSpec {
        key: PoolKey(key.into()),
        name: key.into(),
        protocol,
        owner,
        ranges: vec![PoolRange { address, first, last, reuse: 1 }],
    }
}

/// A terminating rule, stateful where its layer is.
pub(crate) fn rule(id: &str, conditions: Conditions, action: Action) -> Rule {
    Rule {
        id: id.into(),
        name: id.into(),
        priority: 100,
        flags: RuleFlags::TERMINATING | RuleFlags::STATEFUL,
        ttl: 0,
        conditions,
        action,
    }
}

pub(crate) fn to(address: IpAddr) -> Conditions {
    Conditions { destinations: AddressSet::one(address), ..Conditions::any() }
}

pub(crate) fn from(address: IpAddr) -> Conditions {
    Conditions { sources: AddressSet::one(address), ..Conditions::any() }
}

pub(crate) fn to_service(address: IpAddr, protocol: u8, port: u16) -> Conditions {
    let mut conditions = to(address);
    conditions.protocols.push(protocol);
    conditions.destination_ports.push(PortRange::one(port));
    conditions
}

pub(crate) fn dip(address: IpAddr, port: u16, mac: Option<Mac>) -> Dip {
    Dip { address, port: Some(port), mac }
}

/// What HNS programs for a service: address and port rewritten, MAC fixed, a flow made.
pub(crate) fn balance(dips: Vec<Dip>, source: Option<&str>) -> LbNat {
    LbNat {
        dips,
        flags: LbFlags::REWRITE_ADDRESS | LbFlags::REWRITE_PORT | LbFlags::FLOW | LbFlags::FIX_MAC,
        distribution: vfp::model::Distribution::FiveTuple,
        source: source.map(|key| PoolKey(key.into())),
    }
}

pub(crate) fn dynnat(key: &str) -> Action {
    Action::DynNat(DynNat { pool: PoolKey(key.into()), flags: DynNatFlags::empty() })
}

pub(crate) type End = (IpAddr, u16);

pub(crate) fn eth(macs: (Mac, Mac), from: IpAddr, to: IpAddr) -> FrameBuilder {
    FrameBuilder::eth(macs.0, macs.1).ip(from, to)
}

/// MACs are source and destination.
pub(crate) fn tcp(macs: (Mac, Mac), from: End, to: End, flags: TcpFlags) -> Vec<u8> {
    eth(macs, from.0, to.0).tcp(from.1, to.1, flags).seq(1000).payload(b"some data").build()
}

pub(crate) fn udp(macs: (Mac, Mac), from: End, to: End) -> Vec<u8> {
    eth(macs, from.0, to.0).udp(from.1, to.1).payload(b"some data").build()
}

/// What a test compares: MACs, addresses, ports, TTL.
pub(crate) fn read(frame: &[u8]) -> ((Mac, Mac), End, End) {
    let parsed = wire::parse(frame).expect("it is a frame");
    let ip = parsed.ip().expect("it is IP");
    let (sport, dport) = match ip.l4 {
        wire::L4::Icmp { id, .. } | wire::L4::Icmp6 { id, .. } => (id, id),
        other => other.ports().unwrap_or((0, 0)),
    };
    ((parsed.l2.src, parsed.l2.dst), (ip.src, sport), (ip.dst, dport))
}

/// The MACs of a frame from one port's adapter to another's.
pub(crate) fn between(from: Uuid, to: Uuid) -> (Mac, Mac) {
    (mac_of(from), mac_of(to))
}
