//! Policy changes under live flows.

use std::collections::HashSet;
use std::net::IpAddr;

use vfp::DropReason;
use vfp::model::{
    Action, Change, Conditions, Dip, Direction, GroupKey, LbFlags, LbNat, Nat, NatSide, RemovedDip, Rule,
    SwitchSettings,
};
use wire::proto;

use crate::balancer::dsr;
use crate::fixture::*;

fn dips(ips: Ips, hosts: impl IntoIterator<Item = u8>) -> Vec<Dip> {
    hosts.into_iter().map(|host| dip(ips.far(host), 8080, Some(ROUTER))).collect()
}

fn put(key: &GroupKey, ips: Ips, dips: Vec<Dip>) -> Change {
    Change::PutRule {
        group: key.clone(),
        rule: rule("lb", to_service(ips.vip(), proto::TCP, 80), Action::LbNat(balance(dips, None))).into(),
    }
}

struct Clients {
    ips: Ips,
}

impl Clients {
    fn frame(&self, port: u16, flags: wire::TcpFlags) -> Vec<u8> {
        tcp((mac_of(L1), DR), (self.ips.pod(L1), port), (self.ips.vip(), 80), flags)
    }

    /// The destination of each of 64 connections.
    fn destinations(&self, rig: &mut Rig, flags: wire::TcpFlags) -> Vec<IpAddr> {
        (1000..1064).map(|port| read(&rig.one(L1, self.frame(port, flags), EXT)).2.0).collect()
    }

    /// Handshakes all through.
    fn open(&self, rig: &mut Rig) -> Vec<IpAddr> {
        let chosen = self.destinations(rig, SYN);
        for (port, &backend) in (1000..).zip(&chosen) {
            let reply = tcp((ROUTER, mac_of(L1)), (backend, 8080), (self.ips.pod(L1), port), SYN_ACK);
            rig.one(EXT, reply, L1);
        }
        assert_eq!(self.destinations(rig, ACK), chosen);
        chosen
    }
}

#[test]
fn a_destination_that_goes_takes_new_flows_only_with_it() {
    for ips in FAMILIES {
        for (mode, established, keeps) in [
            (RemovedDip::KeepEstablished, true, true),
            (RemovedDip::KeepEstablished, false, false),
            (RemovedDip::Keep, true, true),
            (RemovedDip::Keep, false, true),
            (RemovedDip::Rehash, true, false),
            (RemovedDip::Rehash, false, false),
        ] {
            let mut rig = Rig::with(SwitchSettings { removed_dip: mode, ..SwitchSettings::default() });
            let key = dsr(&mut rig, ips, balance(dips(ips, 1..=4), None));
            let clients = Clients { ips };
            let before =
                if established { clients.open(&mut rig) } else { clients.destinations(&mut rig, SYN) };
            assert_eq!(before.iter().collect::<HashSet<_>>().len(), 4);
            rig.apply(&[put(&key, ips, dips(ips, 1..=3))]);
            let flags = if established { ACK } else { SYN };
            let after = clients.destinations(&mut rig, flags);
            for (old, new) in before.iter().zip(&after) {
                if *old == ips.far(4) {
                    assert_eq!(old == new, keeps, "{mode:?}, established {established}");
                } else {
                    assert_eq!(old, new, "only flows of the one that went may move");
                }
            }
            // A second change, and the whole group replaced: still the same.
            rig.apply(&[put(&key, ips, dips(ips, [3, 2, 1, 9]))]);
            let later = clients.destinations(&mut rig, flags);
            for (old, new) in after.iter().zip(&later) {
                assert!(
                    old == new || *old == ips.far(4) && !keeps,
                    "a destination that came takes no old flow"
                );
            }
            // New connections never go to the one that went.
            let fresh = read(&rig.one(L1, clients.frame(2000, SYN), EXT)).2.0;
            assert_ne!(fresh, ips.far(4));
        }
    }
}

#[test]
fn connections_outlive_their_load_balancer_when_kept() {
    let ips = Ips(false);
    for (mode, keeps) in [(RemovedDip::KeepEstablished, true), (RemovedDip::Rehash, false)] {
        let mut rig = Rig::with(SwitchSettings { removed_dip: mode, ..SwitchSettings::default() });
        let key = dsr(&mut rig, ips, balance(dips(ips, 1..=4), None));
        let clients = Clients { ips };
        let before = clients.open(&mut rig);
        rig.apply(&[Change::RemoveRule { group: key.clone(), rule: "lb".into() }]);
        let after: Vec<_> = clients.destinations(&mut rig, ACK);
        if keeps {
            assert_eq!(before, after);
            let reply = tcp((ROUTER, mac_of(L1)), (before[0], 8080), (ips.pod(L1), 1000), ACK);
            assert_eq!(read(&rig.one(EXT, reply, L1)).1, (ips.vip(), 80));
        } else {
            assert!(after.iter().all(|to| *to == ips.vip()));
        }
        rig.apply(&[put(&key, ips, dips(ips, 1..=4))]);
        assert_eq!(clients.destinations(&mut rig, ACK) == before, keeps || mode == RemovedDip::Rehash);
    }
}

/// A change in one layer leaves the choices of the others: NAT port, destination.
#[test]
fn only_the_changed_layer_decides_anew() {
    for ips in FAMILIES {
        let mut rig = Rig::new();
        let dips = (1..=8).map(|host| dip(ips.far(host), 8080, Some(ROUTER))).collect();
        rig.pool("slb", proto::TCP, L1, ips.node(), (60_000, 60_063));
        dsr(&mut rig, ips, balance(dips, Some("slb")));
        rig.layer(L1, "ACL", 200, true);
        let acl = rig.group(
            (L1, "ACL"),
            Direction::Out,
            ips,
            100,
            vec![rule("a", Conditions::any(), Action::Allow)],
        );
        let clients = Clients { ips };
        let first = read(&rig.one(L1, clients.frame(1, SYN), EXT));
        // Ports lent to others in between would be seen if it asked again.
        for port in 2..20 {
            rig.one(L1, clients.frame(port, SYN), EXT);
        }
        let lent = rig.switch.bindings();
        for number in 0..5 {
            let id = format!("b{number}");
            rig.apply(&[Change::PutRule {
                group: acl.clone(),
                rule: rule(&id, to(ips.outside()), Action::Block).into(),
            }]);
            assert_eq!(read(&rig.one(L1, clients.frame(1, ACK), EXT)), first);
        }
        assert_eq!(rig.switch.bindings(), lent);
        // Blocked from now on; the reply, too, as the connection is over.
        rig.apply(&[Change::PutRule {
            group: acl.clone(),
            rule: Rule { priority: 1, ..rule("c", to(first.2.0), Action::Block) }.into(),
        }]);
        rig.dropped(L1, clients.frame(1, ACK), DropReason::Acl);
        rig.dropped(L1, clients.frame(1, ACK), DropReason::Acl);
        let reply = tcp((ROUTER, mac_of(HOST)), first.2, first.1, ACK);
        rig.dropped(EXT, reply.clone(), DropReason::Acl);
        // And allowed again: the same connection with the same choices.
        rig.apply(&[Change::RemoveRule { group: acl, rule: "c".into() }]);
        assert_eq!(read(&rig.one(L1, clients.frame(1, ACK), EXT)), first);
        assert_eq!(read(&rig.one(EXT, reply, L1)).1, (ips.vip(), 80));
    }
}

#[test]
fn both_ends_of_a_blocked_connection_are_reset_when_asked() {
    for ips in FAMILIES {
        let mut rig = Rig::with(SwitchSettings { reset_on_block: true, ..SwitchSettings::default() });
        let key = dsr(&mut rig, ips, balance(vec![dip(ips.pod(L2), 8080, Some(mac_of(L2)))], None));
        rig.layer(L1, "ACL", 200, true);
        let acl = rig.group(
            (L1, "ACL"),
            Direction::Out,
            ips,
            100,
            vec![rule("a", Conditions::any(), Action::Allow)],
        );
        let clients = Clients { ips };
        rig.one(L1, clients.frame(1, SYN), L2);
        rig.one(L2, tcp(between(L2, L1), (ips.pod(L2), 8080), (ips.pod(L1), 1), SYN_ACK), L1);
        rig.one(L1, clients.frame(1, ACK), L2);
        rig.apply(&[Change::PutGroup(group(
            &acl,
            Direction::Out,
            ips,
            100,
            vec![rule("b", Conditions::any(), Action::Block)],
        ))]);
        let resets = rig.send(L1, clients.frame(1, ACK));
        assert_eq!(resets.len(), 2, "{resets:?}");
        let flags = |frame: &[u8]| match wire::parse(frame).unwrap().ip().unwrap().l4 {
            wire::L4::Tcp { flags, .. } => flags,
            other => panic!("{other:?}"),
        };
        assert!(resets.iter().all(|(_, frame)| flags(frame).contains(RST)));
        let at = |port| read(&resets.iter().find(|(to, _)| *to == port).unwrap().1);
        assert_eq!(at(L1), ((DR, mac_of(L1)), (ips.vip(), 80), (ips.pod(L1), 1)));
        assert_eq!(at(L2), (between(L1, L2), (ips.pod(L1), 1), (ips.pod(L2), 8080)));
        assert_eq!(rig.switch.counters(L1, Direction::Out).unwrap().reset_injected, 1);
        // Once.
        rig.dropped(L1, clients.frame(1, ACK), DropReason::Acl);
        let _ = key;
    }
}

#[test]
fn what_is_counted_belongs_to_the_rules_of_its_time() {
    let ips = Ips(false);
    let mut rig = Rig::new();
    rig.layer(L1, "ACL", 200, true);
    let acl =
        rig.group((L1, "ACL"), Direction::Out, ips, 100, vec![rule("a", Conditions::any(), Action::Allow)]);
    let frame = || udp(between(L1, L2), (ips.pod(L1), 1), (ips.pod(L2), 2));
    let matched = |rig: &Rig| -> Vec<u64> {
        let layers = rig.switch.layers(L1).unwrap();
        layers[0].groups[0].counters.iter().map(|counters| counters.matched_packets).collect()
    };
    for _ in 0..3 {
        rig.one(L1, frame(), L2);
    }
    let first = Rule { priority: 1, ..rule("first", Conditions::any(), Action::Allow) };
    rig.apply(&[Change::PutRule { group: acl.clone(), rule: first.into() }]);
    for _ in 0..4 {
        rig.one(L1, frame(), L2);
    }
    assert_eq!(matched(&rig), [4, 3]);
    assert_eq!(rig.switch.flows(L1, rig.now).unwrap()[0].packets, 4);
    // A change that means nothing to the flow leaves its counters alone.
    rig.apply(&[Change::PutRule { group: acl, rule: rule("never", to(ips.vip()), Action::Block).into() }]);
    rig.one(L1, frame(), L2);
    assert_eq!(rig.switch.flows(L1, rig.now).unwrap()[0].packets, 5);
}

/// Backends that still have the service's address in the packet are told apart by their MAC; the one that left keeps
/// its connections, and the translation at its own port does, too, although its rule is gone.
#[test]
fn a_backend_that_left_keeps_what_is_translated_at_its_own_port() {
    for ips in FAMILIES {
        for (mode, keeps) in [(RemovedDip::KeepEstablished, true), (RemovedDip::Rehash, false)] {
            let mut rig = Rig::with(SwitchSettings { removed_dip: mode, ..SwitchSettings::default() });
            rig.layer(HOST, "LB", 100, true);
            let pods = [L1, L2];
            let balanced = |pods: &[uuid::Uuid]| {
                let dips = pods.iter().map(|&pod| dip(ips.pod(pod), 8080, Some(mac_of(pod)))).collect();
                let lb = balance(dips, None);
                let flags = lb.flags - LbFlags::REWRITE_ADDRESS - LbFlags::REWRITE_PORT;
                let action = Action::LbNat(LbNat { flags, ..lb });
                rule("lb", to_service(ips.vip(), proto::TCP, 80), action)
            };
            let key = rig.group((HOST, "LB"), Direction::Out, ips, 100, vec![balanced(&pods)]);
            let rest = || Rule { priority: 65_000, ..rule("rest", Conditions::any(), Action::Allow) };
            let readdressed = pods.map(|pod| {
                rig.layer(pod, "NAT", 100, true);
                let side = NatSide::Destination;
                let nat = Nat { side, address: Some(ips.pod(pod)), port: Some(8080), mac: None };
                let nat = rule("nat", to_service(ips.vip(), proto::TCP, 80), Action::Nat(nat));
                rig.group((pod, "NAT"), Direction::In, ips, 100, vec![nat, rest()])
            });
            let client = |port| (ips.pod(HOST), port);
            let ask = |port, flags| tcp((mac_of(HOST), DR), client(port), (ips.vip(), 80), flags);
            let backend_of = |rig: &mut Rig, port, flags| {
                let mut delivered = rig.send(HOST, ask(port, flags));
                let (pod, frame) = delivered.pop().expect("one of them gets it");
                (pod, read(&frame).2)
            };
            let mut chosen = Vec::new();
            for port in 1000..1032 {
                let (pod, end) = backend_of(&mut rig, port, SYN);
                assert_eq!(end, (ips.pod(pod), 8080));
                rig.one(pod, tcp(between(pod, HOST), end, client(port), SYN_ACK), HOST);
                assert_eq!(backend_of(&mut rig, port, ACK), (pod, end));
                chosen.push((port, pod));
            }
            assert!(pods.iter().all(|pod| chosen.iter().any(|(_, other)| other == pod)));
            rig.apply(&[
                Change::PutRule { group: key.clone(), rule: balanced(&[L1]).into() },
                Change::RemoveRule { group: readdressed[1].clone(), rule: "nat".into() },
            ]);
            for (port, pod) in chosen {
                if pod == L2 && !keeps {
                    // It is L1's now, which never saw the beginning.
                    rig.dropped(HOST, ask(port, ACK), DropReason::NonSyn);
                    continue;
                }
                let end = (ips.pod(pod), 8080);
                assert_eq!(backend_of(&mut rig, port, ACK), (pod, end), "{mode:?}");
                let reply = rig.one(pod, tcp(between(pod, HOST), end, client(port), ACK), HOST);
                assert_eq!(read(&reply).1, (ips.vip(), 80));
            }
            assert_eq!(backend_of(&mut rig, 2000, SYN).0, L1, "a new connection never goes to it");
        }
    }
}
