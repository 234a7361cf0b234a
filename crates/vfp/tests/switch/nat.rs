//! NAT pools: sources translated, replies found, ports lent and given back.

use vfp::DropReason;
use vfp::model::{Action, Change, Direction, DynNat, DynNatFlags, Nat, NatReply, NatSide, PoolKey, PoolSpec};
use wire::proto;

use crate::fixture::*;

/// Everything but the pods' own range is translated to the node's address.
fn snat(rig: &mut Rig, ips: Ips, flags: DynNatFlags) {
    rig.layer(L1, "SLB_NAT_LAYER", 300, true);
    rig.pool("tcp", proto::TCP, L1, ips.node(), (50_000, 50_003));
    rig.pool("udp", proto::UDP, L1, ips.node(), (50_000, 50_003));
    rig.pool("echo", ips.echo(), L1, ips.node(), (50_000, 50_003));
    let rules = [("tcp", proto::TCP), ("udp", proto::UDP), ("echo", ips.echo())].map(|(key, protocol)| {
        let mut conditions = to(ips.outside());
        conditions.protocols.push(protocol);
        rule(key, conditions, Action::DynNat(DynNat { pool: PoolKey(key.into()), flags }))
    });
    rig.group((L1, "SLB_NAT_LAYER"), Direction::Out, ips, 100, rules.to_vec());
}

#[test]
fn replies_come_to_the_port_that_owns_the_pool() {
    for ips in FAMILIES {
        let mut rig = Rig::new();
        snat(&mut rig, ips, DynNatFlags::empty());
        let (client, server) = ((ips.pod(L1), 40_000), (ips.outside(), 443));
        for flags in [SYN, ACK] {
            let frame = rig.one(L1, tcp((mac_of(L1), ROUTER), client, server, flags), EXT);
            let (macs, from, to) = read(&frame);
            assert_eq!((macs, from.0, to), ((mac_of(L1), ROUTER), ips.node(), server));
            assert!((50_000..=50_003).contains(&from.1));
            // The wire sends it to the node's MAC: the pool's owner gets it.
            let answer = if flags == SYN { SYN_ACK } else { ACK };
            let reply = rig.one(EXT, tcp((ROUTER, mac_of(HOST)), server, from, answer), L1);
            assert_eq!(read(&reply), ((ROUTER, mac_of(L1)), server, client));
        }
        // A port of the node that no pool has is the host's.
        let other = (ips.node(), 50_004);
        assert_eq!(read(&rig.one(EXT, tcp((ROUTER, mac_of(HOST)), server, other, SYN), HOST)).2, other);
    }
}

#[test]
fn whose_frames_are_led_to_the_owner_is_a_setting() {
    for (nat_reply, other_pods) in [(NatReply::Everywhere, L1), (NatReply::FromWire, HOST)] {
        let (mut rig, ips) = (Rig::new(), FAMILIES[0]);
        snat(&mut rig, ips, DynNatFlags::empty());
        rig.settings(|settings| settings.nat_reply = nat_reply);
        let (server, outside) = ((ips.pod(L2), 443), (ips.outside(), 443));
        let frame = rig.one(L1, tcp((mac_of(L1), ROUTER), (ips.pod(L1), 40_000), outside, SYN), EXT);
        let lent = read(&frame).1;
        // From the wire always; from another pod, to the host's MAC, as the setting says.
        rig.one(EXT, tcp((ROUTER, mac_of(HOST)), outside, lent, SYN_ACK), L1);
        rig.one(L2, tcp((mac_of(L2), mac_of(HOST)), server, lent, SYN), other_pods);
    }
}

#[test]
fn a_pool_that_is_used_up_refuses_until_a_flow_is_gone() {
    for ips in FAMILIES {
        let mut rig = Rig::new();
        snat(&mut rig, ips, DynNatFlags::empty());
        let frame = |port: u16| udp((mac_of(L1), ROUTER), (ips.pod(L1), port), (ips.outside(), 53));
        let mut seen = Vec::new();
        for port in 1..=4 {
            seen.push(read(&rig.one(L1, frame(port), EXT)).1);
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 4);
        rig.dropped(L1, frame(5), DropReason::NatPool);
        let udp_pool = |rig: &Rig| rig.switch.pools().into_iter().find(|pool| pool.key == "udp").unwrap();
        assert_eq!((udp_pool(&rig).in_use, udp_pool(&rig).exhausted), (4, 1));
        rig.pass(250);
        rig.switch.sweep(rig.now, 1000);
        assert_eq!((udp_pool(&rig).in_use, rig.switch.flow_count(L1)), (0, Some(0)));
        rig.one(L1, frame(5), EXT);
    }
}

#[test]
fn a_connection_in_time_wait_gives_its_port_up() {
    let ips = Ips(false);
    let mut rig = Rig::new();
    snat(&mut rig, ips, DynNatFlags::RECLAIM_TIME_WAIT);
    let server = (ips.outside(), 443);
    let mut ports = Vec::new();
    for port in 1..=4 {
        let frame = rig.one(L1, tcp((mac_of(L1), ROUTER), (ips.pod(L1), port), server, SYN), EXT);
        ports.push(read(&frame).1);
    }
    let fifth = tcp((mac_of(L1), ROUTER), (ips.pod(L1), 5), server, SYN);
    rig.dropped(L1, fifth.clone(), DropReason::NatPool);
    rig.one(L1, tcp((mac_of(L1), ROUTER), (ips.pod(L1), 2), server, FIN), EXT);
    rig.one(EXT, tcp((ROUTER, mac_of(HOST)), server, ports[1], FIN), L1);
    assert_eq!(read(&rig.one(L1, fifth, EXT)).1, ports[1], "the port of the closed one");
}

#[test]
fn a_port_is_taken_from_the_closed_connection_that_makes_room() {
    let ips = Ips(false);
    let mut rig = Rig::new();
    snat(&mut rig, ips, DynNatFlags::RECLAIM_TIME_WAIT);
    let mut spec = pool("tcp", proto::TCP, L1, ips.node(), (50_000, 50_003));
    spec.ranges[0].reuse = 8;
    rig.apply(&[Change::PutPool(spec)]);
    let (busy, quiet) = ((ips.outside(), 443), (ips.outside(), 444));
    let send = |rig: &mut Rig, port, server, flags| {
        let frame = rig.one(L1, tcp((mac_of(L1), ROUTER), (ips.pod(L1), port), server, flags), EXT);
        read(&frame).1
    };
    let close = |rig: &mut Rig, port, server, outer| {
        send(rig, port, server, FIN);
        rig.one(EXT, tcp((ROUTER, mac_of(HOST)), server, outer, FIN), L1);
    };
    // The one that has waited longest went to another server: its port is free for the busy one anyhow, or taken.
    let other = send(&mut rig, 9, quiet, SYN);
    close(&mut rig, 9, quiet, other);
    let ports: Vec<_> = (1..=4).map(|port| send(&mut rig, port, busy, SYN)).collect();
    rig.pass(1);
    close(&mut rig, 3, busy, ports[2]);
    assert_eq!(
        send(&mut rig, 5, busy, SYN),
        ports[2],
        "the port of the one that was closed with this server"
    );
    let fifth = tcp((mac_of(L1), ROUTER), (ips.pod(L1), 6), busy, SYN);
    rig.dropped(L1, fifth, DropReason::NatPool);
    assert_eq!(send(&mut rig, 9, quiet, SYN), other, "the other one was left alone");
}

#[test]
fn udp_sockets_keep_their_port_where_the_rule_says_so() {
    for (flags, same) in [(DynNatFlags::REUSE_UDP, true), (DynNatFlags::empty(), false)] {
        let ips = Ips(false);
        let mut rig = Rig::new();
        snat(&mut rig, ips, flags);
        let mut spec = pool("udp", proto::UDP, L1, ips.node(), (50_000, 50_003));
        spec.ranges[0].reuse = 8;
        rig.apply(&[Change::PutPool(spec)]);
        let frame = |port| udp((mac_of(L1), ROUTER), (ips.pod(L1), 40_000), (ips.outside(), port));
        let first = read(&rig.one(L1, frame(1), EXT)).1;
        let second = read(&rig.one(L1, frame(2), EXT)).1;
        assert_eq!(first == second, same);
        // Both replies are told apart.
        for (from, to) in [(1, first), (2, second)] {
            let reply = rig.one(EXT, udp((ROUTER, mac_of(HOST)), (ips.outside(), from), to), L1);
            assert_eq!(read(&reply).2, (ips.pod(L1), 40_000));
        }
    }
}

#[test]
fn ports_of_a_pool_that_goes_are_not_used_on() {
    let ips = Ips(false);
    let mut rig = Rig::new();
    snat(&mut rig, ips, DynNatFlags::empty());
    let syn = |flags| tcp((mac_of(L1), ROUTER), (ips.pod(L1), 40_000), (ips.outside(), 443), flags);
    let first = read(&rig.one(L1, syn(SYN), EXT)).1;
    // Other ranges: the port is another one, too.
    let moved = pool("tcp", proto::TCP, L1, ips.node(), (51_000, 51_003));
    rig.apply(&[Change::PutPool(moved)]);
    let second = read(&rig.one(L1, syn(ACK), EXT)).1;
    assert!(first.1 < 51_000 && second.1 >= 51_000);
    // More ranges: it stays.
    let PoolSpec { ranges, .. } = pool("tcp", proto::TCP, L1, ips.node(), (52_000, 52_063));
    let mut more = pool("tcp", proto::TCP, L1, ips.node(), (51_000, 51_003));
    more.ranges.extend(ranges);
    rig.apply(&[Change::PutPool(more)]);
    assert_eq!(read(&rig.one(L1, syn(ACK), EXT)).1, second);
    rig.apply(&[Change::RemovePool(PoolKey("tcp".into()))]);
    rig.dropped(L1, syn(ACK), DropReason::NatPool);
    assert!(rig.switch.bindings().iter().all(|binding| binding.outer.port() >= 51_000));
}

#[test]
fn icmp_is_not_translated_unless_asked() {
    for ips in FAMILIES {
        let echo = |request, id| {
            let builder = eth((mac_of(L1), ROUTER), ips.pod(L1), ips.outside());
            let builder =
                if ips.0 { builder.icmp6_echo(request, id, 1) } else { builder.icmp_echo(request, id, 1) };
            builder.payload(b"ping").build()
        };
        let mut rig = Rig::new();
        snat(&mut rig, ips, DynNatFlags::empty());
        rig.dropped(L1, echo(true, 7), DropReason::IcmpNat);
        rig.settings(|settings| settings.icmp_nat = true);
        for _ in 0..2 {
            let frame = rig.one(L1, echo(true, 7), EXT);
            let (_, from, to) = read(&frame);
            assert_eq!((from.0, to.0), (ips.node(), ips.outside()));
            assert!((50_000..=50_003).contains(&from.1), "the identifier is translated");
            let reply = wire::build::echo_reply(&frame).unwrap();
            let mut reply = wire::Packet::new(&reply);
            wire::bytes::set_mac(reply.data_mut(), 0, mac_of(HOST));
            let back = rig.one(EXT, reply.into_vec(), L1);
            assert_eq!((read(&back).1.0, read(&back).2), (ips.outside(), (ips.pod(L1), 7)));
        }
        assert_eq!(rig.switch.bindings().len(), 1);
    }
}

/// A static translation of a port of the node to a pod, as a port mapping.
#[test]
fn a_mapped_port_both_ways() {
    for ips in FAMILIES {
        let mut rig = Rig::new();
        rig.layer(EXT, "MAP", 100, true);
        let nat = Nat {
            side: NatSide::Destination,
            address: Some(ips.pod(L1)),
            port: Some(80),
            mac: Some(mac_of(L1)),
        };
        rig.group(
            (EXT, "MAP"),
            Direction::Out,
            ips,
            100,
            vec![rule("map", to_service(ips.node(), proto::TCP, 8080), Action::Nat(nat))],
        );
        let (client, outer, pod) = ((ips.outside(), 4000), (ips.node(), 8080), (ips.pod(L1), 80));
        let frame = rig.one(EXT, tcp((ROUTER, mac_of(HOST)), client, outer, SYN), L1);
        assert_eq!(read(&frame), ((ROUTER, mac_of(L1)), client, pod));
        let reply = rig.one(L1, tcp((mac_of(L1), ROUTER), pod, client, SYN_ACK), EXT);
        assert_eq!(read(&reply), ((mac_of(L1), ROUTER), outer, client));
    }
}

#[test]
fn the_same_translated_ends_twice_are_a_conflict() {
    let ips = Ips(false);
    let mut rig = Rig::new();
    rig.layer(L1, "NAT", 100, true);
    let nat = Nat { side: NatSide::Source, address: Some(ips.node()), port: Some(1), mac: None };
    rig.group((L1, "NAT"), Direction::Out, ips, 100, vec![rule("n", to(ips.outside()), Action::Nat(nat))]);
    let frame = |port| udp((mac_of(L1), ROUTER), (ips.pod(L1), port), (ips.outside(), 53));
    rig.one(L1, frame(10), EXT);
    rig.dropped(L1, frame(11), DropReason::FlowConflict);
    rig.one(L1, frame(10), EXT);
    // When the first is gone the second may.
    rig.pass(300);
    rig.one(L1, frame(11), EXT);
}

#[test]
fn sctp_gets_a_new_crc_and_fragments_of_it_none() {
    for ips in FAMILIES {
        let mut rig = Rig::new();
        rig.layer(L1, "LB", 100, true);
        let lb = balance(vec![dip(ips.pod(L2), 8080, Some(mac_of(L2)))], None);
        rig.group(
            (L1, "LB"),
            Direction::Out,
            ips,
            100,
            vec![rule("lb", to_service(ips.vip(), proto::SCTP, 80), Action::LbNat(lb))],
        );
        let frame = || eth((mac_of(L1), DR), ips.pod(L1), ips.vip()).sctp(5000, 80, 7).payload(&[1; 64]);
        for _ in 0..2 {
            let out = rig.one(L1, frame().build(), L2);
            assert_eq!(read(&out).2, (ips.pod(L2), 8080));
        }
        rig.dropped(L1, frame().fragment(9, 0, true).build(), DropReason::Fragment);
        // A CRC that was wrong stays wrong.
        let mut wrong = frame().build();
        let at = wire::parse(&wrong).unwrap().ip().unwrap().l4_offset() + 8;
        wrong[at] ^= 1;
        let out = rig.one(L1, wrong, L2);
        assert!(wire::checksum::verify(&out).is_err());
    }
}
