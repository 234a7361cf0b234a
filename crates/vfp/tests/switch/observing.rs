//! What observers see, and that looking changes nothing.

use vfp::model::{Action, Conditions, Direction};
use vfp::trace::{Event, FlowUse, RuleRef, Sighting, Stage};
use vfp::{DropReason, Env, Observer, Output};
use wire::Packet;

use crate::balancer::dsr;
use crate::fixture::*;

#[derive(Default)]
struct Watch {
    events: bool,
    seen: Vec<(Sighting, Vec<u8>)>,
    dropped: Vec<(Sighting, DropReason, Option<String>)>,
    told: Vec<Event>,
}

impl Observer for Watch {
    fn seen(&mut self, at: &Sighting, frame: &[u8]) {
        self.seen.push((*at, frame.to_vec()));
    }

    fn dropped(&mut self, at: &Sighting, reason: DropReason, rule: Option<&RuleRef>, _: &[u8]) {
        self.dropped.push((*at, reason, rule.map(|rule| format!("{}/{}", rule.layer, rule.rule))));
    }

    fn wants_events(&self) -> bool {
        self.events
    }

    fn event(&mut self, event: &Event) {
        self.told.push(event.clone());
    }
}

fn watched(rig: &mut Rig, from: uuid::Uuid, frame: &[u8], events: bool) -> (Watch, Delivered) {
    let mut watch = Watch { events, ..Watch::default() };
    let mut out = Output::default();
    let mut env = Env { now: rig.now, routes: &mut rig.hops, observer: Some(&mut watch) };
    rig.switch.transmit(from, &mut vec![Packet::new(frame)], &mut env, &mut out);
    (watch, out.delivered.into_iter().map(|(port, packet)| (port, packet.into_vec())).collect())
}

#[test]
fn a_packet_is_seen_at_every_port_under_one_number() {
    for ips in FAMILIES {
        let mut rig = Rig::new();
        dsr(&mut rig, ips, balance(vec![dip(ips.pod(L2), 8080, Some(mac_of(L2)))], None));
        let frame = tcp((mac_of(L1), DR), (ips.pod(L1), 1), (ips.vip(), 80), SYN);
        for events in [false, true, false] {
            let (watch, delivered) = watched(&mut rig, L1, &frame, events);
            let at: Vec<_> = watch.seen.iter().map(|(at, _)| (at.port, at.direction, at.stage)).collect();
            let wanted = [
                (L1, Direction::Out, Stage::Enter),
                (L1, Direction::Out, Stage::Leave),
                (L2, Direction::In, Stage::Enter),
                (L2, Direction::In, Stage::Leave),
            ];
            assert_eq!(at, wanted);
            assert!(watch.seen.iter().all(|(at, _)| at.group == watch.seen[0].0.group));
            assert_eq!(watch.seen[0].1, frame);
            assert_eq!(watch.seen[3].1, delivered[0].1);
            assert_eq!(watch.told.is_empty(), !events);
        }
    }
}

#[test]
fn decisions_are_told_and_stay_the_same() {
    let ips = Ips(false);
    let mut rig = Rig::new();
    let dips = (1..=8).map(|host| dip(ips.far(host), 8080, Some(ROUTER))).collect();
    rig.pool("slb", wire::proto::TCP, L1, ips.node(), (60_000, 60_063));
    dsr(&mut rig, ips, balance(dips, Some("slb")));
    let frame = tcp((mac_of(L1), DR), (ips.pod(L1), 1), (ips.vip(), 80), SYN);
    let first = rig.one(L1, frame.clone(), EXT);
    for number in 0..3 {
        let (watch, delivered) = watched(&mut rig, L1, &frame, true);
        assert_eq!(delivered, [(EXT, first.clone())], "{number}");
        let layers: Vec<_> = watch
            .told
            .iter()
            .filter_map(|event| match event {
                Event::Layer(layer) => {
                    Some((layer.layer.to_string(), layer.rule.as_ref()?.rule.to_string(), layer.from_flow))
                }
                _ => None,
            })
            .collect();
        assert_eq!(layers, [("LB_DSR".to_owned(), "lb".to_owned(), true)]);
        assert!(matches!(watch.told[0], Event::Enter { port: L1, flow: FlowUse::Main, .. }));
        assert!(watch.told.iter().any(|event| matches!(event, Event::Forward { to: Some(EXT), .. })));
    }
    assert_eq!(rig.switch.bindings().len(), 1);
}

#[test]
fn drops_are_told_with_the_rule() {
    let ips = Ips(false);
    let mut rig = Rig::new();
    rig.layer(L1, "ACL", 200, true);
    let key =
        rig.group((L1, "ACL"), Direction::Out, ips, 100, vec![rule("a", Conditions::any(), Action::Allow)]);
    let frame = udp(between(L1, L2), (ips.pod(L1), 1), (ips.pod(L2), 2));
    rig.one(L1, frame.clone(), L2);
    rig.apply(&[vfp::model::Change::PutGroup(group(
        &key,
        Direction::Out,
        ips,
        100,
        vec![rule("b", Conditions::any(), Action::Block)],
    ))]);
    // The first is decided, the second is known.
    for _ in 0..2 {
        let (watch, delivered) = watched(&mut rig, L1, &frame, false);
        assert!(delivered.is_empty());
        assert_eq!(watch.dropped.len(), 1);
        assert_eq!((watch.dropped[0].1, watch.dropped[0].2.as_deref()), (DropReason::Acl, Some("ACL/b")));
    }
}
