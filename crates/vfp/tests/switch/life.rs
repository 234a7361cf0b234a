//! The life of flows: TCP, idle times, limits.

use std::time::Duration;

use vfp::DropReason;
use vfp::model::{Action, Conditions, Direction, FlowClass};

use crate::fixture::*;

fn rig(ips: Ips) -> Rig {
    let mut rig = Rig::new();
    rig.layer(L1, "ACL", 200, true);
    rig.group((L1, "ACL"), Direction::Out, ips, 100, vec![rule("a", Conditions::any(), Action::Allow)]);
    rig.group((L1, "ACL"), Direction::In, ips, 100, vec![rule("b", Conditions::any(), Action::Block)]);
    rig
}

struct Connection {
    ips: Ips,
    port: u16,
}

impl Connection {
    fn out(&self, rig: &mut Rig, flags: wire::TcpFlags) {
        let frame = tcp(between(L1, L2), (self.ips.pod(L1), self.port), (self.ips.pod(L2), 80), flags);
        rig.one(L1, frame, L2);
    }

    fn back(&self, rig: &mut Rig, flags: wire::TcpFlags) -> bool {
        let frame = tcp(between(L2, L1), (self.ips.pod(L2), 80), (self.ips.pod(L1), self.port), flags);
        rig.send(L2, frame).len() == 1
    }

    fn state(&self, rig: &Rig) -> &'static str {
        let flows = rig.switch.flows(L1, rig.now).unwrap();
        let flow = flows.iter().find(|flow| flow.main && flow.source.port() == self.port);
        flow.map_or("none", |flow| flow.state)
    }
}

#[test]
fn a_connection_from_its_syn_to_its_end() {
    for ips in FAMILIES {
        let mut rig = rig(ips);
        let one = Connection { ips, port: 1 };
        let mut states = Vec::new();
        for (out, flags) in [
            (true, SYN),
            (false, SYN_ACK),
            (true, ACK),
            (false, ACK),
            (true, FIN),
            (false, ACK),
            (false, FIN),
            (true, ACK),
        ] {
            if out {
                one.out(&mut rig, flags);
            } else {
                assert!(one.back(&mut rig, flags));
            }
            states.push(one.state(&rig));
        }
        let wanted = [
            "SYN",
            "SYN-ACK",
            "ESTABLISHED",
            "ESTABLISHED",
            "HALF-CLOSED",
            "HALF-CLOSED",
            "TIME-WAIT",
            "TIME-WAIT",
        ];
        assert_eq!(states, wanted);
        let counters = rig.switch.counters(L1, Direction::Out).unwrap();
        assert_eq!((counters.verified, counters.closed_by_fin), (1, 1));
        // A new SYN takes the old one's place.
        one.out(&mut rig, SYN);
        assert_eq!(one.state(&rig), "SYN");
        assert_eq!(rig.switch.counters(L1, Direction::Out).unwrap().reset_by_syn, 1);
    }
}

#[test]
fn idle_times_by_state() {
    let ips = Ips(false);
    let cases: [(&[(bool, wire::TcpFlags)], u64); 4] = [
        (&[(true, SYN)], 30),
        (&[(true, SYN), (false, SYN_ACK), (true, ACK)], 600),
        (&[(true, SYN), (false, SYN_ACK), (true, ACK), (true, FIN), (false, FIN)], 120),
        (&[(true, SYN), (false, RST)], 5),
    ];
    for (packets, seconds) in cases {
        let mut rig = rig(ips);
        rig.respec(L1, |spec| {
            spec.flows.half_ttl = Duration::from_secs(30);
            spec.flows.default_ttl = Duration::from_mins(10);
            spec.flows.time_wait_ttl = Duration::from_mins(2);
        });
        let one = Connection { ips, port: 1 };
        for &(out, flags) in packets {
            if out {
                one.out(&mut rig, flags);
            } else {
                assert!(one.back(&mut rig, flags));
            }
        }
        rig.pass(seconds - 1);
        rig.switch.sweep(rig.now, 10_000);
        assert_ne!(one.state(&rig), "none", "{packets:?}");
        // A reply finds it no more, though nobody swept.
        rig.pass(1);
        assert!(!one.back(&mut rig, ACK), "{packets:?}");
        rig.switch.sweep(rig.now, 10_000);
        assert_eq!(one.state(&rig), "none");
    }
}

#[test]
fn timeouts_are_counted_by_kind() {
    let ips = Ips(false);
    let mut rig = rig(ips);
    Connection { ips, port: 1 }.out(&mut rig, SYN);
    let two = Connection { ips, port: 2 };
    two.out(&mut rig, SYN);
    two.back(&mut rig, SYN_ACK);
    two.out(&mut rig, ACK);
    let three = Connection { ips, port: 3 };
    three.out(&mut rig, SYN);
    three.out(&mut rig, FIN);
    three.back(&mut rig, FIN);
    rig.pass(241);
    rig.switch.sweep(rig.now, 2);
    rig.switch.sweep(rig.now, 2);
    let counters = rig.switch.counters(L1, Direction::Out).unwrap();
    assert_eq!((counters.half_open_timeouts, counters.timed_out, counters.expired_to_time_wait), (1, 1, 1));
    assert_eq!(rig.switch.flow_count(L1), Some(0));
}

#[test]
fn a_rules_ttl_counts_before_the_ports() {
    let ips = Ips(false);
    let mut rig = Rig::new();
    rig.layer(L1, "ACL", 200, true);
    let short = vfp::model::Rule { ttl: 10, ..rule("a", Conditions::any(), Action::Allow) };
    rig.group((L1, "ACL"), Direction::Out, ips, 100, vec![short]);
    rig.one(L1, udp(between(L1, L2), (ips.pod(L1), 1), (ips.pod(L2), 2)), L2);
    assert_eq!(rig.switch.flows(L1, rig.now).unwrap()[0].ttl_left, 10);
    rig.pass(10);
    rig.switch.sweep(rig.now, 100);
    assert_eq!(rig.switch.flow_count(L1), Some(0));
}

#[test]
fn at_the_limit_new_flows_are_dropped_and_old_ones_pass() {
    for ips in FAMILIES {
        let mut rig = rig(ips);
        rig.respec(L1, |spec| {
            spec.flows.limits[0][FlowClass::Udp as usize] = 3;
            spec.flows.limits[0][FlowClass::HalfOpen as usize] = 1;
        });
        let frame = |port| udp(between(L1, L2), (ips.pod(L1), port), (ips.pod(L2), 2));
        for port in 1..=3 {
            rig.one(L1, frame(port), L2);
        }
        rig.dropped(L1, frame(4), DropReason::FlowLimit);
        rig.one(L1, frame(2), L2);
        let one = Connection { ips, port: 1 };
        one.out(&mut rig, SYN);
        let second = tcp(between(L1, L2), (ips.pod(L1), 2), (ips.pod(L2), 80), SYN);
        rig.dropped(L1, second.clone(), DropReason::FlowLimit);
        // The handshake is done: another may begin.
        one.back(&mut rig, SYN_ACK);
        one.out(&mut rig, ACK);
        rig.one(L1, second, L2);
        let counters = rig.switch.flow_counters(L1, Direction::Out).unwrap();
        assert_eq!(
            (counters[FlowClass::Udp as usize].count, counters[FlowClass::Udp as usize].maximum),
            (3, 3)
        );
        // Expired ones make room without a sweep.
        rig.pass(1000);
        rig.one(L1, frame(4), L2);
    }
}

#[test]
fn a_connection_picked_up_in_its_middle() {
    let ips = Ips(false);
    let mut rig = rig(ips);
    let one = Connection { ips, port: 1 };
    // Nothing is translated, so it may.
    one.out(&mut rig, ACK);
    assert_eq!(one.state(&rig), "ESTABLISHED");
    assert!(one.back(&mut rig, ACK));
    // Its first packet seen was an answer: a flow of the other direction.
    let frame = tcp(between(L1, L2), (ips.pod(L1), 9), (ips.pod(L2), 80), SYN_ACK);
    rig.one(L1, frame, L2);
    assert_eq!(Connection { ips, port: 9 }.state(&rig), "ESTABLISHED");
}

#[test]
fn strays_are_not_translated_unless_asked() {
    let ips = Ips(false);
    let mut rig = Rig::new();
    crate::balancer::dsr(&mut rig, ips, balance(vec![dip(ips.pod(L2), 8080, Some(mac_of(L2)))], None));
    let frame = || tcp((mac_of(L1), DR), (ips.pod(L1), 1), (ips.vip(), 80), ACK);
    rig.dropped(L1, frame(), DropReason::NonSyn);
    rig.settings(|settings| settings.mid_stream = true);
    rig.one(L1, frame(), L2);
}

#[test]
fn without_tracking_tcp_is_like_anything_else() {
    let ips = Ips(false);
    let mut rig = rig(ips);
    rig.respec(L1, |spec| spec.flows.track_tcp = false);
    let one = Connection { ips, port: 1 };
    for flags in [SYN, FIN, RST, ACK] {
        one.out(&mut rig, flags);
        assert!(one.back(&mut rig, flags));
        assert_eq!(one.state(&rig), "-");
    }
}
