//! Random layers, rules and packets: the engine against [`crate::reference`].
//!
//! The same steps go through three switches: one gets its packets one by one, one in batches, one with an observer
//! that wants every decision and so never takes the cached path. What comes out must be the same bytes, and those
//! that a packet gets that passes the layers one after the other.

use std::net::IpAddr;

use proptest::prelude::*;
use vfp::model::{
    Action, AddressSet, Change, Conditions, Direction, Distribution, EncapDestination, EncapFlags, GroupKey,
    GroupSpec, LayerFlags, LbNat, Nat, NatSide, PortRange, RemovedDip, RouteEncap, Rule, RuleFlags,
    SwitchSettings, Transpose,
};
use vfp::trace::{Event, RuleRef, Sighting};
use vfp::{DropReason, Env, Observer, Output};
use wire::{Packet, TcpFlags, proto};

use crate::fixture::*;
use crate::reference::{Fate, Group, Layer, Reference, ends, mac_of_dip};

/// How a rule is, in numbers that shrink well.
#[derive(Clone, Debug)]
struct RulePlan {
    priority: u32,
    flags: u8,
    /// Which conditions it has.
    on: (Option<u8>, Option<u8>, Option<u8>, Option<u8>),
    action: u8,
    value: u8,
}

#[derive(Clone, Debug)]
struct LayerPlan {
    stateful: bool,
    default_allow: bool,
    /// OUT and IN.
    groups: [Vec<Vec<RulePlan>>; 2],
}

#[derive(Clone, Debug)]
enum Op {
    Packet {
        out: bool,
        protocol: u8,
        source: u8,
        destination: u8,
        ports: (u8, u8),
        syn: bool,
    },
    /// What came out at the given step is answered.
    Reply {
        of: prop::sample::Index,
        syn: bool,
    },
    PutRule {
        layer: prop::sample::Index,
        out: bool,
        group: prop::sample::Index,
        id: u8,
        rule: RulePlan,
    },
    RemoveRule {
        layer: prop::sample::Index,
        out: bool,
        group: prop::sample::Index,
        id: prop::sample::Index,
    },
    Replace {
        layer: prop::sample::Index,
        out: bool,
        group: prop::sample::Index,
        rules: Vec<RulePlan>,
    },
}

fn rule_plan() -> impl Strategy<Value = RulePlan> {
    let some = |most| prop::option::weighted(0.4, 0..most);
    ((0..4_u32, 0..4_u8), (some(3_u8), some(4), some(4), some(3)), 0..10_u8, 0..8_u8)
        .prop_map(|((priority, flags), on, action, value)| RulePlan { priority, flags, on, action, value })
}

fn rules() -> impl Strategy<Value = Vec<RulePlan>> {
    proptest::collection::vec(rule_plan(), 0..4)
}

fn layer_plan() -> impl Strategy<Value = LayerPlan> {
    let groups = || proptest::collection::vec(rules(), 0..3);
    (prop::bool::weighted(0.7), prop::bool::weighted(0.8), groups(), groups()).prop_map(
        |(stateful, default_allow, out, into)| LayerPlan { stateful, default_allow, groups: [out, into] },
    )
}

fn op() -> impl Strategy<Value = Op> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        12 => (any::<bool>(), 0..3_u8, 0..4_u8, 0..4_u8, (0..3_u8, 0..3_u8), any::<bool>()).prop_map(
            |(out, protocol, source, destination, ports, syn)| Op::Packet { out, protocol, source, destination, ports, syn }
        ),
        8 => (index(), any::<bool>()).prop_map(|(of, syn)| Op::Reply { of, syn }),
        2 => (index(), any::<bool>(), index(), 0..6_u8, rule_plan())
            .prop_map(|(layer, out, group, id, rule)| Op::PutRule { layer, out, group, id, rule }),
        1 => (index(), any::<bool>(), index(), index())
            .prop_map(|(layer, out, group, id)| Op::RemoveRule { layer, out, group, id }),
        1 => (index(), any::<bool>(), index(), rules())
            .prop_map(|(layer, out, group, rules)| Op::Replace { layer, out, group, rules }),
    ]
}

fn address(ips: Ips, which: u8) -> IpAddr {
    match which {
        0 => ips.vip(),
        1 => ips.pod(L1),
        other => ips.far(other),
    }
}

/// What a rule of a layer can do depends on where the layer stands: NAT ports are lent by the last but one on the way
/// out, tunnels are put on by the last.
fn rule_of(ips: Ips, id: &str, plan: &RulePlan, out: bool, behind: usize) -> Rule {
    let mut conditions = Conditions::any();
    conditions.protocols.extend(plan.on.0.map(|which| protocol(ips, which)));
    if let Some(which) = plan.on.1 {
        conditions.sources = AddressSet::one(address(ips, which));
    }
    if let Some(which) = plan.on.2 {
        conditions.destinations = AddressSet::one(address(ips, which));
    }
    conditions.destination_ports.extend(plan.on.3.map(|which| PortRange::one(port_of(which))));
    let value = plan.value;
    let dips = (0..value % 4 + u8::from(value > 5)).map(|n| {
        let address = ips.far(2 + (n * 3 + value) % 6);
        dip(address, 8000 + u16::from(n), Some(mac_of_dip(address)))
    });
    let distribution = [Distribution::FiveTuple, Distribution::Source, Distribution::SourceProtocol];
    let nat = |side| Nat {
        side,
        address: (value & 1 != 0).then(|| ips.far(2 + value)),
        port: (value & 2 != 0).then_some(9000 + u16::from(value)),
        mac: None,
    };
    let mut flags = RuleFlags::empty();
    flags.set(RuleFlags::TERMINATING, plan.flags & 1 != 0);
    flags.set(RuleFlags::STATEFUL, plan.flags & 2 != 0);
    let action = match plan.action {
        0 | 1 => Action::Allow,
        2 => Action::Block,
        3 => Action::Nat(nat(NatSide::Destination)),
        // Behind the layer that lends ports nobody hides which one it was.
        4 if !out || behind > 0 => Action::Nat(nat(NatSide::Source)),
        5 | 6 => Action::LbNat(LbNat {
            distribution: distribution[usize::from(value % 3)],
            ..balance(dips.collect(), None)
        }),
        7 if out && behind == 1 => {
            flags |= RuleFlags::STATEFUL;
            dynnat(if ips.0 { "v6" } else { "v4" })
        }
        8 if out && behind == 0 => Action::RouteEncap(RouteEncap {
            source: IpAddr::from([192, 0, 2, 11]),
            destinations: vec![EncapDestination {
                pa: IpAddr::from([192, 0, 2, 20 + value]),
                ca_mac: Some(DR),
                vni: value.into(),
            }],
            source_mac: None,
            flags: EncapFlags::FIX_INNER_MAC,
        }),
        _ => Action::Transpose(Transpose {
            source_mac: (value & 1 != 0).then_some(DR),
            destination_mac: (value & 2 != 0 && out).then_some(mac_of(HOST)),
            decrement_ttl: value & 4 != 0,
            ..Transpose::default()
        }),
    };
    Rule { id: id.into(), name: id.into(), priority: plan.priority, flags, ttl: 0, conditions, action }
}

fn protocol(ips: Ips, which: u8) -> u8 {
    [proto::TCP, proto::UDP, ips.echo()][usize::from(which)]
}

fn port_of(which: u8) -> u16 {
    [80, 53, 8080][usize::from(which)]
}

struct Nosy;

impl Observer for Nosy {
    fn seen(&mut self, _: &Sighting, _: &[u8]) {}

    fn dropped(&mut self, _: &Sighting, _: DropReason, _: Option<&RuleRef>, _: &[u8]) {}

    fn wants_events(&self) -> bool {
        true
    }

    fn event(&mut self, _: &Event) {}
}

fn key(layer: usize, out: bool, group: usize) -> GroupKey {
    GroupKey(format!("{layer}/{out}/{group}").into())
}

struct Trial {
    ips: Ips,
    rigs: [Rig; 3],
    reference: Reference,
    generation: u32,
    /// For the one that gets batches: not sent yet, and what should come of them.
    waiting: Vec<Vec<u8>>,
    wanted: Vec<Delivered>,
    from: uuid::Uuid,
}

impl Trial {
    fn new(ips: Ips, removed: RemovedDip, layers: &[LayerPlan]) -> Self {
        let settings = || SwitchSettings {
            removed_dip: removed,
            mid_stream: true,
            icmp_errors: false,
            ..SwitchSettings::default()
        };
        let mut rigs = [(); 3].map(|()| Rig::with(settings()));
        let node = ips.node();
        let mut reference = Reference::new(removed, vec![(node, 60_000, 60_003)]);
        for rig in &mut rigs {
            rig.pool(if ips.0 { "v6" } else { "v4" }, proto::TCP, L1, node, (60_000, 60_003));
        }
        for (number, plan) in layers.iter().enumerate() {
            let mut groups = Vec::new();
            for (direction, lists) in [Direction::Out, Direction::In].into_iter().zip(&plan.groups) {
                for list in lists {
                    let out = direction == Direction::Out;
                    let rules = rules_of(ips, list, out, layers.len() - 1 - number);
                    groups.push(Group { direction, family: ips.family(), rules, generation: 0 });
                }
            }
            let flags = if plan.default_allow { LayerFlags::DEFAULT_ALLOW } else { LayerFlags::empty() };
            for rig in &mut rigs {
                let id = number.to_string();
                rig.layer_with(L1, &id, u32::try_from(number).unwrap(), plan.stateful, flags);
                let mut counts = [0, 0];
                for group in &groups {
                    let at = group.direction.index();
                    let key = key(number, group.direction == Direction::Out, counts[at]);
                    counts[at] += 1;
                    rig.apply(&[
                        Change::PutGroup(spec(&key, group, u32::try_from(counts[at]).unwrap())),
                        Change::Attach { port: L1, layer: id.as_str().into(), group: key },
                    ]);
                }
            }
            reference.layers.push(Layer {
                stateful: plan.stateful,
                default_allow: plan.default_allow,
                groups,
            });
        }
        Self { ips, rigs, reference, generation: 0, waiting: Vec::new(), wanted: Vec::new(), from: L1 }
    }

    /// One frame through everything; what came out of the engine.
    fn frame(&mut self, from: uuid::Uuid, frame: &[u8]) -> Option<(uuid::Uuid, Vec<u8>)> {
        let direction = if from == L1 { Direction::Out } else { Direction::In };
        let delivered = self.rigs[0].send(from, frame.to_vec());
        assert!(delivered.len() <= 1);
        let seen = delivered.first().map(|(_, frame)| ends(&inside(frame).0).0.1);
        let fate = self.reference.step(direction, frame, seen);
        match (&fate, delivered.first()) {
            (Fate::Dropped, None) => {}
            (Fate::Passes(wanted, tunnel), Some((to, got))) => {
                let (inner, outer) = inside(got);
                assert_eq!(
                    inner,
                    *wanted,
                    "\ngot    {}\nwanted {}\nof     {}",
                    wire::describe(&inner),
                    wire::describe(wanted),
                    wire::describe(frame)
                );
                assert_eq!(outer, *tunnel);
                let mac = wire::parse(got).unwrap().l2.dst;
                let place = match direction {
                    Direction::In => L1,
                    Direction::Out => {
                        [HOST, L1, L2].into_iter().find(|&port| mac_of(port) == mac).unwrap_or(EXT)
                    }
                };
                assert_eq!(*to, place);
            }
            _ => panic!(
                "{fate:?}\nbut {delivered:?}\nof {}, drops {:?}",
                wire::describe(frame),
                self.rigs[0].all_drops()
            ),
        }
        // Decisions told, and no cached path.
        let mut out = Output::default();
        let rig = &mut self.rigs[2];
        let mut env = Env { now: rig.now, routes: &mut rig.hops, observer: Some(&mut Nosy) };
        rig.switch.transmit(from, &mut vec![Packet::new(frame)], &mut env, &mut out);
        let watched: Delivered =
            out.delivered.into_iter().map(|(port, packet)| (port, packet.into_vec())).collect();
        assert_eq!(watched, delivered, "watching changes it");
        // Later, together.
        if self.from != from || self.waiting.len() == 32 {
            self.flush();
        }
        self.from = from;
        self.waiting.push(frame.to_vec());
        self.wanted.push(delivered.clone());
        delivered.into_iter().next()
    }

    fn flush(&mut self) {
        let together = self.rigs[1].send_all(self.from, &std::mem::take(&mut self.waiting));
        let wanted: Delivered = std::mem::take(&mut self.wanted).into_iter().flatten().collect();
        // Ports are worked on one after the other: in order for each of them.
        for port in [EXT, HOST, L1, L2, L3] {
            let of = |list: &Delivered| -> Vec<Vec<u8>> {
                list.iter().filter(|(to, _)| *to == port).map(|(_, frame)| frame.clone()).collect()
            };
            assert_eq!(of(&together), of(&wanted), "in a batch");
        }
    }

    fn change(
        &mut self,
        layer: prop::sample::Index,
        out: bool,
        group: prop::sample::Index,
        with: impl FnOnce(Ips, &mut Vec<Rule>, usize, GroupKey) -> Option<Change>,
    ) {
        let count = self.reference.layers.len();
        if count == 0 {
            return;
        }
        let layer = layer.index(count);
        let direction = if out { Direction::Out } else { Direction::In };
        let groups = &mut self.reference.layers[layer].groups;
        let here: Vec<usize> = (0..groups.len()).filter(|&at| groups[at].direction == direction).collect();
        if here.is_empty() {
            return;
        }
        let number = group.index(here.len());
        let group = &mut groups[here[number]];
        let Some(change) = with(self.ips, &mut group.rules, count - 1 - layer, key(layer, out, number))
        else {
            return;
        };
        self.generation += 1;
        group.generation = self.generation;
        let change = match change {
            Change::PutGroup(_) => {
                Change::PutGroup(spec(&key(layer, out, number), group, u32::try_from(number + 1).unwrap()))
            }
            change => change,
        };
        self.flush();
        for rig in &mut self.rigs {
            rig.apply(std::slice::from_ref(&change));
        }
    }
}

fn rules_of(ips: Ips, plans: &[RulePlan], out: bool, behind: usize) -> Vec<Rule> {
    plans.iter().enumerate().map(|(id, plan)| rule_of(ips, &id.to_string(), plan, out, behind)).collect()
}

fn spec(key: &GroupKey, group: &Group, priority: u32) -> GroupSpec {
    GroupSpec {
        family: group.family,
        ..crate::fixture::group(
            key,
            group.direction,
            Ips(group.family == vfp::model::Family::V6),
            priority,
            group.rules.clone(),
        )
    }
}

/// The frame in a tunnel, and the tunnel.
fn inside(frame: &[u8]) -> (Vec<u8>, Option<(IpAddr, IpAddr, u32)>) {
    let parsed = wire::parse(frame).unwrap();
    let ip = parsed.ip().unwrap();
    if ip.l4.ports().is_none_or(|(_, to)| to != wire::vxlan::UDP_PORT) {
        return (frame.to_vec(), None);
    }
    let payload = &frame[ip.payload_offset()..ip.end()];
    let (vni, at) = wire::vxlan::parse(payload).unwrap();
    (payload[at..].to_vec(), Some((ip.src, ip.dst, vni)))
}

fn build(
    ips: Ips,
    macs: (wire::Mac, wire::Mac),
    protocol: u8,
    (from, to): (End, End),
    flags: TcpFlags,
) -> Vec<u8> {
    let frame = eth(macs, from.0, to.0);
    match protocol {
        proto::TCP => frame.tcp(from.1, to.1, flags).payload(b"data").build(),
        proto::UDP => frame.udp(from.1, to.1).payload(b"data").build(),
        _ if ips.0 => frame.icmp6_echo(true, from.1, 1).build(),
        _ => frame.icmp_echo(true, from.1, 1).build(),
    }
}

fn run(ips: Ips, removed: RemovedDip, layers: &[LayerPlan], ops: Vec<Op>) {
    let mut trial = Trial::new(ips, removed, layers);
    let mut came: Vec<(uuid::Uuid, Vec<u8>)> = Vec::new();
    for op in ops {
        match op {
            Op::Packet { out, protocol: which, source, destination, ports, syn } => {
                let (from, macs) = if out { (L1, (mac_of(L1), ROUTER)) } else { (EXT, (ROUTER, mac_of(L1))) };
                let sides = (
                    (address(ips, source), 1000 + u16::from(ports.0)),
                    (address(ips, destination), port_of(ports.1)),
                );
                let flags = if syn { SYN } else { ACK };
                let frame = build(ips, macs, protocol(ips, which), sides, flags);
                came.extend(trial.frame(from, &frame));
            }
            Op::Reply { of, syn } => {
                if came.is_empty() {
                    continue;
                }
                let (to, frame) = came[of.index(came.len())].clone();
                let frame = inside(&frame).0;
                let protocol = wire::parse(&frame).unwrap().ip().unwrap().proto;
                let (a, b) = ends(&frame);
                let (from, macs) =
                    if to == L1 { (L1, (mac_of(L1), ROUTER)) } else { (EXT, (ROUTER, mac_of(L1))) };
                let frame = build(ips, macs, protocol, (b, a), if syn { SYN_ACK } else { ACK });
                came.extend(trial.frame(from, &frame));
            }
            Op::PutRule { layer, out, group, id, rule } => {
                trial.change(layer, out, group, |ips, rules, behind, group| {
                    let rule = rule_of(ips, &id.to_string(), &rule, out, behind);
                    match rules.iter_mut().find(|old| old.id == rule.id) {
                        Some(old) => *old = rule.clone(),
                        None => rules.push(rule.clone()),
                    }
                    Some(Change::PutRule { group, rule: rule.into() })
                });
            }
            Op::RemoveRule { layer, out, group, id } => {
                trial.change(layer, out, group, |_, rules, _, group| {
                    let at = (!rules.is_empty()).then(|| id.index(rules.len()))?;
                    let rule = rules.remove(at).id;
                    Some(Change::RemoveRule { group, rule })
                });
            }
            Op::Replace { layer, out, group, rules: plans } => {
                trial.change(layer, out, group, |ips, rules, behind, group| {
                    *rules = rules_of(ips, &plans, out, behind);
                    Some(Change::PutGroup(crate::fixture::group(&group, Direction::Out, ips, 0, Vec::new())))
                });
            }
        }
    }
    trial.flush();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn cached_watched_batched_and_layer_by_layer(
        v6 in any::<bool>(),
        removed in prop::sample::select(vec![RemovedDip::Keep, RemovedDip::KeepEstablished, RemovedDip::Rehash]),
        layers in proptest::collection::vec(layer_plan(), 1..4),
        ops in proptest::collection::vec(op(), 1..60),
    ) {
        run(Ips(v6), removed, &layers, ops);
    }
}
