//! Frames and changes to a packet engine that is programmed with every kind of rule.

use std::fmt::Write;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;
use vfp::model::{
    Action, AddressSet, ArpMode, Change, Conditions, Decap, DecapFlags, Dip, Direction, Distribution, DynNat,
    DynNatFlags, EncapDestination, EncapFlags, Family, FlowSettings, GroupKey, GroupSpec, Guards, Hairpin,
    LayerFlags, LayerSpec, LbFlags, LbNat, Meter, Nat, NatSide, NativeRoute, NeighborSpec, PaRoute, PoolKey,
    PoolRange, PoolSpec, PortKind, PortRange, PortSpec, RemovedDip, RouteEncap, Rule, RuleFlags, SegmentSpec,
    SwitchSettings, TagSpec, Transpose, Tunnel,
};
use vfp::{Env, HostRoutes, NextHop, Output, Switch};
use wire::{Mac, Packet, checksum};

use crate::Verdict;

/// Flows of each direction of a port.
const MOST_FLOWS: u32 = 24;

/// Frames and changes of one input.
const MOST_STEPS: usize = 64;

/// Bytes as choices; at the end everything is 0.
struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn below(&mut self, count: u8) -> u8 {
        self.byte() % count.max(1)
    }

    fn flag(&mut self) -> bool {
        self.byte() & 1 != 0
    }

    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// One of the few addresses that rules and frames have in common.
    fn address(&mut self, v6: bool) -> IpAddr {
        let last = self.below(6) + 1;
        if v6 {
            IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last.into()))
        } else {
            IpAddr::from([10, 0, 0, last])
        }
    }

    fn mac(&mut self) -> Mac {
        Mac([2, 0, 0, 0, 0, self.below(6)])
    }

    fn name(&mut self) -> Uuid {
        Uuid::from_u128(u128::from(self.below(5)) + 1)
    }

    fn word(&mut self, prefix: &str) -> Arc<str> {
        format!("{prefix}{}", self.below(4)).into()
    }
}

/// The next hop depends on the address alone.
struct Hops;

impl HostRoutes for Hops {
    fn next_hop(&mut self, _: u32, destination: IpAddr) -> NextHop {
        let last = match destination {
            IpAddr::V4(v4) => v4.octets()[3],
            IpAddr::V6(v6) => v6.octets()[15],
        };
        match last % 8 {
            0 => NextHop::Unreachable,
            1 => NextHop::Pending,
            2 => NextHop::Local,
            _ => NextHop::Via { mac: Mac([2, 0, 0, 0, 0, 0xfe]), source_mac: Mac([2, 0, 0, 0, 0, 2]) },
        }
    }
}

fn conditions(choices: &mut Choices<'_>, v6: bool) -> Conditions {
    let mut conditions = Conditions::any();
    let which = choices.byte();
    if which & 1 != 0 {
        conditions.destinations = AddressSet::one(choices.address(v6));
    }
    if which & 2 != 0 {
        conditions.sources = AddressSet::one(choices.address(v6));
    }
    if which & 4 != 0 {
        conditions.protocols.push([6, 17, 1, 58, 132, 252][usize::from(choices.below(6))]);
    }
    if which & 8 != 0 {
        conditions
            .destination_ports
            .push(PortRange { first: 0, last: u16::from(choices.byte()) << 8 | 0xff });
    }
    if which & 16 != 0 {
        conditions.encapsulated = Some(choices.flag());
    }
    if which & 32 != 0 {
        conditions.destination_tag = Some(choices.word("tag").to_string());
    }
    if which & 64 != 0 {
        conditions.mark = Some(choices.below(2).into());
    }
    conditions
}

fn transpose(choices: &mut Choices<'_>, v6: bool) -> Transpose {
    let which = choices.byte();
    let some = |bit: u8| which & 1 << bit != 0;
    Transpose {
        source_mac: some(0).then(|| choices.mac()),
        destination_mac: some(1).then(|| choices.mac()),
        source: some(2).then(|| choices.address(v6)),
        destination: some(3).then(|| choices.address(v6)),
        source_port: some(4).then(|| choices.byte().into()),
        vlan: some(5).then(|| choices.below(3).into()),
        encap: some(6).then(|| Tunnel {
            source: choices.address(v6),
            destination: choices.address(v6),
            vni: choices.byte().into(),
        }),
        decrement_ttl: some(7),
        hairpin: match choices.below(6) {
            0 => Some(Hairpin::Back),
            1 => Some(Hairpin::Port(choices.name())),
            _ => None,
        },
        ..Transpose::default()
    }
}

fn action(choices: &mut Choices<'_>, v6: bool) -> Action {
    match choices.below(14) {
        0 | 1 => Action::Allow,
        2 => Action::Block,
        3 => Action::Nat(Nat {
            side: if choices.flag() { NatSide::Source } else { NatSide::Destination },
            address: choices.flag().then(|| choices.address(v6)),
            port: choices.flag().then(|| choices.byte().into()),
            mac: choices.flag().then(|| choices.mac()),
        }),
        4 => Action::DynNat(DynNat {
            pool: PoolKey(choices.word("pool")),
            flags: DynNatFlags::from_bits_truncate(u32::from(choices.byte()) << 8),
        }),
        5 | 6 => Action::LbNat(LbNat {
            dips: (0..choices.below(4))
                .map(|_| Dip { address: choices.address(v6), port: Some(8080), mac: Some(choices.mac()) })
                .collect(),
            flags: LbFlags::from_bits_truncate(u32::from(choices.byte()) << 12),
            distribution: Distribution::FiveTuple,
            source: choices.flag().then(|| PoolKey(choices.word("pool"))),
        }),
        7 => Action::Transpose(transpose(choices, v6)),
        8 => Action::RouteEncap(RouteEncap {
            source: IpAddr::from([192, 0, 2, 1]),
            destinations: (0..choices.below(10))
                .map(|last| EncapDestination {
                    pa: IpAddr::from([192, 0, 2, last]),
                    ca_mac: Some(choices.mac()),
                    vni: u32::from(choices.byte()) << 17,
                })
                .collect(),
            source_mac: None,
            flags: EncapFlags::from_bits_truncate(u32::from(choices.byte()) << 8),
        }),
        9 => Action::Decap(Decap {
            flags: DecapFlags::from_bits_truncate(u32::from(choices.byte()) << 8),
            destination_mac: choices.flag().then(|| choices.mac()),
        }),
        10 => Action::PaRoute(PaRoute {
            native: match choices.below(3) {
                0 => NativeRoute::Never,
                1 => NativeRoute::ToMac(choices.mac()),
                _ => NativeRoute::Readdressed,
            },
            ..PaRoute::default()
        }),
        11 => Action::PingResponse,
        12 => Action::Meter(Meter { class: choices.byte().into() }),
        _ if choices.flag() => Action::Mark(choices.below(2).into()),
        _ => Action::Qos { bytes_per_second: u64::from(choices.byte()) << 8 },
    }
}

fn rule(choices: &mut Choices<'_>, v6: bool) -> Rule {
    Rule {
        id: choices.word("rule"),
        name: "rule".into(),
        priority: choices.below(3).into(),
        flags: RuleFlags::from_bits_truncate(u32::from(choices.byte()) | RuleFlags::STATEFUL.bits()),
        ttl: choices.below(3).into(),
        conditions: conditions(choices, v6),
        action: action(choices, v6),
    }
}

fn port(choices: &mut Choices<'_>, name: Uuid, kind: PortKind) -> PortSpec {
    PortSpec {
        name,
        friendly_name: String::new(),
        kind,
        segment: choices.below(2).into(),
        nic: name,
        nic_name: String::new(),
        mac: choices.mac(),
        addresses: vec![choices.address(false), choices.address(true)],
        mtu: [1500, 576, 1280, 0][usize::from(choices.below(4))],
        vlan: [0, 0, 0, 7][usize::from(choices.below(4))],
        guards: Guards::from_bits_truncate(if choices.flag() { u32::from(choices.byte()) << 5 } else { 0 }),
        flows: FlowSettings { limits: [[MOST_FLOWS; 6]; 2], fragments: 4, ..FlowSettings::default() },
        enabled: choices.below(8) != 0,
    }
}

fn change(choices: &mut Choices<'_>) -> Change {
    let kind = |choices: &mut Choices<'_>| match choices.below(4) {
        0 => PortKind::External,
        1 => PortKind::Host,
        _ => PortKind::Endpoint,
    };
    match choices.below(24) {
        0 => Change::Settings(settings(choices)),
        1 => Change::PutSegment(segment(choices)),
        2 => Change::RemoveSegment(choices.below(3).into()),
        3 | 4 => {
            let (name, kind) = (choices.name(), kind(choices));
            Change::PutPort(port(choices, name, kind))
        }
        5 => Change::RemovePort(choices.name()),
        6 | 7 => Change::PutLayer {
            port: choices.name(),
            layer: LayerSpec {
                id: choices.word("layer"),
                name: "layer".into(),
                priority: choices.below(4).into(),
                stateful: choices.flag(),
                flags: LayerFlags::from_bits_truncate(u32::from(choices.byte() | 1)),
            },
        },
        8 => Change::RemoveLayer { port: choices.name(), layer: choices.word("layer") },
        9..=11 => {
            let v6 = choices.flag();
            Change::PutGroup(GroupSpec {
                key: GroupKey(choices.word("group")),
                id: "group".into(),
                name: "group".into(),
                direction: if choices.flag() { Direction::Out } else { Direction::In },
                family: if v6 { Family::V6 } else { Family::V4 },
                priority: choices.below(3).into(),
                conditions: if choices.flag() { conditions(choices, v6) } else { Conditions::any() },
                rules: (0..choices.below(5)).map(|_| Arc::new(rule(choices, v6))).collect(),
            })
        }
        12 => Change::RemoveGroup(GroupKey(choices.word("group"))),
        13..=15 => Change::Attach {
            port: choices.name(),
            layer: choices.word("layer"),
            group: GroupKey(choices.word("group")),
        },
        16 => Change::Detach {
            port: choices.name(),
            layer: choices.word("layer"),
            group: GroupKey(choices.word("group")),
        },
        17 | 18 => {
            let v6 = choices.flag();
            Change::PutRule { group: GroupKey(choices.word("group")), rule: Arc::new(rule(choices, v6)) }
        }
        19 => Change::RemoveRule { group: GroupKey(choices.word("group")), rule: choices.word("rule") },
        20 => Change::PutPool(PoolSpec {
            key: PoolKey(choices.word("pool")),
            name: "pool".into(),
            protocol: [6, 17, 1][usize::from(choices.below(3))],
            owner: choices.name(),
            ranges: (0..choices.below(3))
                .map(|_| {
                    let (v6, first) = (choices.flag(), u16::from(choices.byte()));
                    let last = first.wrapping_add(choices.below(5).into()).wrapping_sub(1);
                    PoolRange { address: choices.address(v6), first, last, reuse: choices.below(3).into() }
                })
                .collect(),
        }),
        21 => Change::RemovePool(PoolKey(choices.word("pool"))),
        22 if choices.flag() => Change::RemoveTag(choices.word("tag").to_string()),
        22 => Change::PutTag(TagSpec {
            id: choices.word("tag").to_string(),
            name: "tag".into(),
            addresses: AddressSet::one(choices.address(false)),
        }),
        _ if choices.flag() => Change::RemoveNeighbor { segment: 0, address: choices.address(false) },
        _ => {
            let v6 = choices.flag();
            Change::PutNeighbor(NeighborSpec {
                segment: choices.below(2).into(),
                address: choices.address(v6),
                mac: choices.mac(),
            })
        }
    }
}

fn segment(choices: &mut Choices<'_>) -> SegmentSpec {
    SegmentSpec {
        id: choices.below(2).into(),
        arp: [ArpMode::Flood, ArpMode::Local, ArpMode::Proxy][usize::from(choices.below(3))],
        host_mac_on_wire: choices.flag(),
        unknown_to_external: choices.flag(),
    }
}

fn settings(choices: &mut Choices<'_>) -> SwitchSettings {
    SwitchSettings {
        vxlan_port: if choices.below(8) == 0 { 0 } else { 4789 },
        copy_tos: choices.flag(),
        icmp_nat: choices.flag(),
        drop_loopback_hairpin: choices.flag(),
        removed_dip: [RemovedDip::Keep, RemovedDip::Rehash][usize::from(choices.below(2))],
        reset_on_block: choices.flag(),
        mid_stream: choices.flag(),
        ..SwitchSettings::default()
    }
}

/// Everything that can be looked at, as text.
fn image(switch: &Switch) -> String {
    let mut text = String::new();
    let mut put = |value: &dyn std::fmt::Debug| writeln!(text, "{value:?}").expect("memory takes it");
    put(switch.settings());
    put(&(switch.segments(), switch.neighbors(), switch.tags(), switch.pools(), switch.bindings()));
    for port in switch.ports() {
        let name = port.spec.name;
        put(&(
            &port,
            switch.layers(name),
            switch.flows(name, Duration::from_secs(1 << 20)),
            switch.meters(name),
        ));
        put(&[Direction::Out, Direction::In].map(|direction| switch.counters(name, direction)));
    }
    text
}

/// Sends a frame; whatever comes of a right frame is right.
fn send(switch: &mut Switch, from: Uuid, frame: &[u8], now: Duration) -> usize {
    let right = checksum::verify(frame).is_ok();
    let mut out = Output::default();
    let mut env = Env { now, routes: &mut Hops, observer: None };
    switch.transmit(from, &mut vec![Packet::new(frame), Packet::new(frame)], &mut env, &mut out);
    let pending = std::mem::take(&mut out.pending);
    switch.resume(pending, &mut env, &mut out);
    for (_, packet) in out.delivered.iter().filter(|_| right) {
        // A port may have become the one of tunnels: then what was data is read as a frame.
        let outer = checksum::verify_with(packet.data(), &[]);
        assert!(outer.is_ok(), "{outer:?}: {} of {}", wire::describe(packet.data()), wire::describe(frame));
    }
    for port in switch.ports() {
        let flows = switch.flow_count(port.spec.name).unwrap_or(0);
        assert!(flows <= 2 * MOST_FLOWS as usize, "{flows} flows");
    }
    out.delivered.len()
}

/// A switch with four ports, three layers on each and a dozen groups, the same for every input.
fn programmed() -> Switch {
    let mut switch =
        Switch::new(SwitchSettings { icmp_nat: true, mid_stream: true, ..SwitchSettings::default() });
    let kinds = [PortKind::External, PortKind::Host, PortKind::Endpoint, PortKind::Endpoint];
    for (number, kind) in (1_u8..).zip(kinds) {
        let spec = PortSpec {
            mac: Mac([2, 0, 0, 0, 0, number]),
            guards: Guards::empty(),
            vlan: 0,
            mtu: if number == 1 { 1280 } else { 1500 },
            enabled: true,
            segment: 0,
            ..port(&mut Choices(&[]), Uuid::from_u128(number.into()), kind)
        };
        switch.apply(&[Change::PutPort(spec)]).expect("a port like any other");
    }
    let everywhere = SegmentSpec { id: 0, unknown_to_external: true, ..SegmentSpec::default() };
    switch.apply(&[Change::PutSegment(everywhere)]).expect("a segment like any other");
    // Choices from a sequence that looks random; what is refused is left out.
    let mut state = 7_u32;
    let bytes: Vec<u8> = (0..8192)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        })
        .collect();
    let mut choices = Choices(&bytes);
    while choices.0.len() > 64 {
        let change = change(&mut choices);
        let ports = matches!(change, Change::PutPort(_) | Change::RemovePort(_) | Change::PutSegment(_));
        if !ports
            && !matches!(change, Change::RemoveLayer { .. } | Change::RemoveGroup(_) | Change::Settings(_))
        {
            let _ = switch.apply(&[change]);
        }
    }
    switch
}

/// Frames, each behind its port, whether its checksums are made right, and its length; seconds pass between them.
pub fn vfp_frames(data: &[u8]) -> Verdict {
    let mut switch = programmed();
    let mut choices = Choices(data);
    let mut now = Duration::from_secs(1000);
    let mut delivered = 0;
    for _ in 0..MOST_STEPS {
        if choices.0.is_empty() {
            break;
        }
        let (from, how) = (choices.name(), choices.byte());
        let length = usize::from(choices.byte()) | usize::from(how & 7) << 8;
        let mut frame = choices.take(length).to_vec();
        if how & 8 != 0 {
            let _ = checksum::fill(&mut frame);
        }
        now += Duration::from_secs(u64::from(how >> 5) * 40);
        delivered += send(&mut switch, from, &frame, now);
        switch.sweep(now, 3);
    }
    if delivered > 0 { Verdict::Read } else { Verdict::Refused }
}

/// Lists of changes, and frames between them: what is refused changes nothing, and whatever is done, packets stay
/// whole.
pub fn vfp_changes(data: &[u8]) -> Verdict {
    let mut switch = Switch::new(SwitchSettings::default());
    let mut choices = Choices(data);
    let mut done = false;
    for step in 0..MOST_STEPS as u64 {
        if choices.0.is_empty() {
            break;
        }
        let list: Vec<Change> = (0..choices.below(6)).map(|_| change(&mut choices)).collect();
        let before = image(&switch);
        match switch.apply(&list) {
            Ok(()) => done |= !list.is_empty(),
            Err(error) => {
                assert!(error.index < list.len() && !error.what.is_empty());
                assert_eq!(before, image(&switch), "refused, but something changed: {error}");
            }
        }
        let v6 = choices.flag();
        let (from, to) = (choices.address(v6), choices.address(v6));
        let frame = wire::build::FrameBuilder::eth(choices.mac(), choices.mac()).ip(from, to);
        let ports = (choices.byte().into(), choices.byte().into());
        let frame = match choices.below(4) {
            0 => frame.udp(ports.0, ports.1),
            1 => frame.sctp(ports.0, ports.1, 7),
            _ => frame.tcp(ports.0, ports.1, wire::TcpFlags::from_bits_truncate(choices.byte())),
        };
        let frame = frame.payload(&vec![7; usize::from(choices.byte()) * 8]).build();
        send(&mut switch, choices.name(), &frame, Duration::from_secs(1000 + step));
    }
    if done { Verdict::Read } else { Verdict::Refused }
}
