//! Load balancers: destinations chosen, replies led back.

use std::collections::HashSet;

use vfp::model::{Action, Change, Direction, Distribution, Hairpin, LbNat, RuleFlags, Transpose};
use wire::proto;

use crate::fixture::*;

/// LB_DSR on L1: the service has L2 and a far pod.
pub(crate) fn dsr(rig: &mut Rig, ips: Ips, lb: LbNat) -> vfp::model::GroupKey {
    if rig.switch.layers(L1).is_some_and(|layers| layers.is_empty()) {
        rig.layer(L1, "LB_DSR", 100, true);
    }
    rig.group(
        (L1, "LB_DSR"),
        Direction::Out,
        ips,
        100,
        vec![rule("lb", to_service(ips.vip(), proto::TCP, 80), Action::LbNat(lb))],
    )
}

#[test]
fn a_service_with_a_local_backend_both_ways() {
    for ips in FAMILIES {
        let mut rig = Rig::new();
        dsr(&mut rig, ips, balance(vec![dip(ips.pod(L2), 8080, Some(mac_of(L2)))], None));
        let (client, vip, backend) = ((ips.pod(L1), 50_000), (ips.vip(), 80), (ips.pod(L2), 8080));
        for flags in [SYN, ACK, ACK] {
            let frame = rig.one(L1, tcp((mac_of(L1), DR), client, vip, flags), L2);
            assert_eq!(read(&frame), (between(L1, L2), client, backend));
            let answer = if flags == SYN { SYN_ACK } else { ACK };
            let reply = rig.one(L2, tcp(between(L2, L1), backend, client, answer), L1);
            assert_eq!(read(&reply), (between(L2, L1), vip, client));
        }
        let counters = rig.switch.counters(L1, Direction::Out).unwrap();
        assert_eq!((counters.packets, counters.syn, counters.verified, counters.slow), (3, 1, 1, 2));
    }
}

#[test]
fn affinity_is_by_what_the_distribution_says() {
    for ips in FAMILIES {
        let dips: Vec<_> = (1..=8).map(|host| dip(ips.far(host), 8080, Some(ROUTER))).collect();
        // Whether ports matter, whether the protocol does.
        for (distribution, ports, protocols) in [
            (Distribution::FiveTuple, true, true),
            (Distribution::SourceProtocol, false, true),
            (Distribution::Source, false, false),
        ] {
            let mut rig = Rig::new();
            rig.layer(L1, "LB_DSR", 100, true);
            let lb = LbNat { distribution, ..balance(dips.clone(), None) };
            let rules = [proto::TCP, proto::UDP].map(|protocol| {
                rule(&protocol.to_string(), to_service(ips.vip(), protocol, 80), Action::LbNat(lb.clone()))
            });
            rig.group((L1, "LB_DSR"), Direction::Out, ips, 100, rules.to_vec());
            let macs = (mac_of(L1), DR);
            let mut by_tcp = HashSet::new();
            let mut by_udp = HashSet::new();
            let mut differs = false;
            for client in 0..32 {
                // Pods may have several addresses.
                let from = ips.far(100 + client);
                let mut tcp_of_client = HashSet::new();
                for port in 50_000..50_008 {
                    let frame = rig.one(L1, tcp(macs, (from, port), (ips.vip(), 80), SYN), EXT);
                    tcp_of_client.insert(read(&frame).2);
                    let frame = rig.one(L1, udp(macs, (from, port), (ips.vip(), 80)), EXT);
                    by_udp.insert((client, read(&frame).2));
                }
                assert_eq!(tcp_of_client.len() > 1, ports, "{distribution:?}");
                by_tcp.extend(tcp_of_client.iter().map(|&to| (client, to)));
                differs |= tcp_of_client.iter().any(|&to| !by_udp.contains(&(client, to)));
            }
            let used: HashSet<_> = by_tcp.iter().map(|(_, to)| to).collect();
            assert!(used.len() >= 6, "{distribution:?} uses {} of 8 for 32 clients", used.len());
            if !ports {
                assert_eq!(differs, protocols, "{distribution:?}");
            }
        }
    }
}

#[test]
fn a_service_without_destinations_drops() {
    let ips = Ips(false);
    let mut rig = Rig::new();
    dsr(&mut rig, ips, balance(Vec::new(), None));
    let frame = tcp((mac_of(L1), DR), (ips.pod(L1), 50_000), (ips.vip(), 80), SYN);
    rig.dropped(L1, frame, vfp::DropReason::NoDestination);
}

/// A node port: from the wire into the host's port, back out of it through the balancer with its source translated,
/// to a local pod; and all the way back.
#[test]
fn a_hairpin_at_the_host_and_its_replies() {
    for ips in FAMILIES {
        let mut rig = Rig::new();
        rig.pool("slb", proto::TCP, HOST, ips.node(), (60_000, 60_063));
        rig.layer(HOST, "SLB_HAIRPIN_LAYER", 50, true);
        rig.layer(HOST, "LB", 100, true);
        let mut hairpin = rule(
            "HairPin",
            to_service(ips.node(), proto::TCP, 30_080),
            Action::Transpose(Transpose { hairpin: Some(Hairpin::Back), ..Transpose::default() }),
        );
        hairpin.flags |= RuleFlags::SKIP_HAIRPIN;
        rig.group((HOST, "SLB_HAIRPIN_LAYER"), Direction::In, ips, 100, vec![hairpin]);
        let lb = balance(vec![dip(ips.pod(L2), 8080, Some(mac_of(L2)))], Some("slb"));
        rig.group(
            (HOST, "LB"),
            Direction::Out,
            ips,
            100,
            vec![rule("LB_HOST", to_service(ips.node(), proto::TCP, 30_080), Action::LbNat(lb))],
        );
        let (client, service, backend) = ((ips.outside(), 4000), (ips.node(), 30_080), (ips.pod(L2), 8080));
        let mut source = None;
        for flags in [SYN, ACK, ACK] {
            let frame = rig.one(EXT, tcp((ROUTER, mac_of(HOST)), client, service, flags), L2);
            let (macs, from, to) = read(&frame);
            assert_eq!((macs, from.0, to), ((ROUTER, mac_of(L2)), ips.node(), backend));
            assert!((60_000..=60_063).contains(&from.1));
            assert_eq!(*source.get_or_insert(from), from, "one port for the connection");
            let answer = if flags == SYN { SYN_ACK } else { ACK };
            // The backend answers to the node, whose MAC it may have in several ways.
            let reply = rig.one(L2, tcp(between(L2, HOST), backend, from, answer), EXT);
            assert_eq!(read(&reply), ((mac_of(HOST), ROUTER), service, client));
        }
        // The host itself uses the service, too: not hairpinned, so nothing goes back.
        let own = (ips.node(), 40_000);
        let frame = rig.one(HOST, tcp((mac_of(HOST), DR), own, service, SYN), L2);
        let (_, from, to) = read(&frame);
        assert_eq!(to, backend);
        let reply = rig.one(L2, tcp(between(L2, HOST), backend, from, SYN_ACK), HOST);
        assert_eq!((read(&reply).1, read(&reply).2), (service, own));
        assert_eq!(rig.switch.bindings().len(), 2);
    }
}

/// Source translated too, because the pod would not take a packet from itself.
#[test]
fn a_pod_reaches_itself_through_its_service() {
    for ips in FAMILIES {
        let mut rig = Rig::new();
        dsr(&mut rig, ips, balance(vec![dip(ips.pod(L1), 8080, Some(mac_of(L1)))], None));
        rig.layer(L1, "SLB_NAT_LAYER", 300, true);
        rig.pool("self", proto::TCP, L1, ips.node(), (50_000, 50_063));
        rig.group(
            (L1, "SLB_NAT_LAYER"),
            Direction::Out,
            ips,
            100,
            vec![rule("snat", to(ips.pod(L1)), dynnat("self"))],
        );
        let (client, vip, own) = ((ips.pod(L1), 40_000), (ips.vip(), 80), (ips.pod(L1), 8080));
        for flags in [SYN, ACK] {
            let frame = rig.one(L1, tcp((mac_of(L1), DR), client, vip, flags), L1);
            let (macs, from, to) = read(&frame);
            assert_eq!((macs, from.0, to), (between(L1, L1), ips.node(), own));
            let reply = rig.one(L1, tcp((mac_of(L1), DR), own, from, SYN_ACK), L1);
            assert_eq!((read(&reply).1, read(&reply).2), (vip, client));
        }
    }
}

#[test]
fn a_hairpin_into_another_port_and_back() {
    for ips in FAMILIES {
        let mut rig = Rig::new();
        rig.layer(L1, "TURN", 100, true);
        let turn = Transpose { hairpin: Some(Hairpin::Port(L3)), ..Transpose::default() };
        rig.group(
            (L1, "TURN"),
            Direction::Out,
            ips,
            100,
            vec![rule("turn", to(ips.vip()), Action::Transpose(turn))],
        );
        let (a, b) = ((ips.pod(L1), 1), (ips.vip(), 2));
        let frame = rig.one(L1, udp((mac_of(L1), DR), a, b), L3);
        assert_eq!(read(&frame), ((mac_of(L1), DR), a, b));
    }
}

#[test]
fn what_is_sent_back_for_ever_is_dropped() {
    let ips = Ips(false);
    let mut rig = Rig::new();
    // Whatever comes in goes back out, and out means to itself.
    rig.layer(L2, "BACK", 100, true);
    let back = Transpose { hairpin: Some(Hairpin::Back), ..Transpose::default() };
    rig.group(
        (L2, "BACK"),
        Direction::In,
        ips,
        100,
        vec![rule("back", to(ips.pod(L2)), Action::Transpose(back))],
    );
    let frame = udp(between(L1, L2), (ips.pod(L1), 1), (ips.pod(L2), 2));
    rig.dropped(L1, frame, vfp::DropReason::HairpinLoop);
    // Two ports that throw it at each other.
    for (port, other) in [(L2, L3), (L3, L2)] {
        let turn = Transpose { hairpin: Some(Hairpin::Port(other)), ..Transpose::default() };
        if port == L2 {
            rig.apply(&[Change::RemoveLayer { port: L2, layer: "BACK".into() }]);
        }
        rig.layer(port, "TURN", 100, false);
        rig.group(
            (port, "TURN"),
            Direction::In,
            ips,
            100,
            vec![rule("t", to(ips.pod(L2)), Action::Transpose(turn))],
        );
    }
    let frame = udp(between(L1, L2), (ips.pod(L1), 1), (ips.pod(L2), 3));
    rig.dropped(L1, frame, vfp::DropReason::HairpinLoop);
}

/// The destination's MAC only, as HNS does for local backends of the host.
#[test]
fn a_balancer_that_only_steers() {
    for ips in FAMILIES {
        let mut rig = Rig::new();
        let lb = LbNat {
            flags: vfp::model::LbFlags::FIX_MAC,
            ..balance(vec![dip(ips.pod(L2), 8080, Some(mac_of(L2)))], None)
        };
        dsr(&mut rig, ips, lb);
        let (client, vip) = ((ips.pod(L1), 50_000), (ips.vip(), 80));
        let frame = rig.one(L1, tcp((mac_of(L1), DR), client, vip, SYN), L2);
        assert_eq!(read(&frame), (between(L1, L2), client, vip));
        let reply = rig.one(L2, tcp(between(L2, L1), vip, client, SYN_ACK), L1);
        assert_eq!(read(&reply), (between(L2, L1), vip, client));
    }
}

/// A packet that was sent back at the host's port is, at the backend's port, a packet like any other: its replies go
/// out.
#[test]
fn coming_back_concerns_the_port_where_it_happened() {
    for ips in FAMILIES {
        let mut rig = Rig::new();
        rig.layer(HOST, "SLB_HAIRPIN_LAYER", 50, true);
        rig.layer(HOST, "SLB_LB_LAYER", 100, true);
        let hairpin = Transpose { hairpin: Some(Hairpin::Back), ..Transpose::default() };
        let mut hairpin = rule("HairPin", to_service(ips.vip(), proto::TCP, 80), Action::Transpose(hairpin));
        hairpin.flags |= RuleFlags::SKIP_HAIRPIN;
        rig.group((HOST, "SLB_HAIRPIN_LAYER"), Direction::In, ips, 100, vec![hairpin]);
        let steer = LbNat {
            flags: vfp::model::LbFlags::FIX_MAC,
            ..balance(vec![dip(ips.pod(L2), 8080, Some(mac_of(L2)))], None)
        };
        let to_vip = || to_service(ips.vip(), proto::TCP, 80);
        rig.group(
            (HOST, "SLB_LB_LAYER"),
            Direction::Out,
            ips,
            100,
            vec![rule("LB", to_vip(), Action::LbNat(steer))],
        );
        // The backend's port translates, keeps state, and answers straight to the wire.
        rig.layer(L2, "SLB_NAT_LAYER", 300, true);
        let nat = balance(vec![dip(ips.pod(L2), 8080, None)], None);
        rig.group(
            (L2, "SLB_NAT_LAYER"),
            Direction::In,
            ips,
            100,
            vec![rule("NAT", to_vip(), Action::LbNat(nat))],
        );
        let (client, vip, backend) = ((ips.outside(), 4000), (ips.vip(), 80), (ips.pod(L2), 8080));
        for (flags, answer) in [(SYN, SYN_ACK), (ACK, ACK), (ACK, ACK)] {
            let frame = rig.one(EXT, tcp((ROUTER, mac_of(HOST)), client, vip, flags), L2);
            assert_eq!((read(&frame).1, read(&frame).2), (client, backend));
            let reply = rig.one(L2, tcp((mac_of(L2), ROUTER), backend, client, answer), EXT);
            assert_eq!(read(&reply), ((mac_of(L2), ROUTER), vip, client));
        }
    }
}
