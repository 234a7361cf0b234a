//! TTL, packet size, ICMP errors and who answers pings; bandwidth.

use vfp::DropReason;
use vfp::model::{Action, Conditions, Direction, LayerFlags, SwitchSettings, Transpose};
use wire::build::{IcmpError, icmp_error};
use wire::{L4, proto, quoted};

use crate::balancer::dsr;
use crate::fixture::*;

fn icmp(frame: &[u8]) -> (u8, u8) {
    match wire::parse(frame).unwrap().ip().unwrap().l4 {
        L4::Icmp { kind, code, .. } | L4::Icmp6 { kind, code, .. } => (kind, code),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_ttl_is_counted_down_and_runs_out() {
    for ips in FAMILIES {
        let mut rig = Rig::new();
        rig.layer(L1, "TTL", 100, false);
        let transpose = Transpose { decrement_ttl: true, ..Transpose::default() };
        rig.group(
            (L1, "TTL"),
            Direction::Out,
            ips,
            100,
            vec![rule("t", Conditions::any(), Action::Transpose(transpose))],
        );
        let frame = |ttl| {
            let frame = eth(between(L1, L2), ips.pod(L1), ips.pod(L2)).ttl(ttl);
            frame.udp(1, 2).payload(b"some data").build()
        };
        for ttl in [64, 2] {
            assert_eq!(rig.one(L1, frame(ttl), L2), frame(ttl - 1));
        }
        let error = rig.one(L1, frame(1), L1);
        assert_eq!(icmp(&error), if ips.0 { (3, 0) } else { (11, 0) });
        rig.settings(|settings| settings.icmp_errors = false);
        rig.dropped(L1, frame(1), DropReason::TtlExceeded);
    }
}

#[test]
fn packets_that_do_not_fit_are_cut_or_refused() {
    for ips in FAMILIES {
        let mut rig = Rig::new();
        rig.respec(EXT, |spec| spec.mtu = 1400);
        dsr(&mut rig, ips, balance(vec![dip(ips.far(5), 8080, Some(ROUTER))], None));
        let data: Vec<u8> = (0..1388_u32).map(|byte| byte.to_le_bytes()[0]).collect();
        let frame = |df| {
            let frame = eth((mac_of(L1), DR), ips.pod(L1), ips.vip()).df(df).ipid(77);
            frame.tcp(1000, 80, SYN).payload(&data).build()
        };
        let error = rig.one(L1, frame(true), L1);
        assert_eq!(icmp(&error), if ips.0 { (2, 0) } else { (3, 4) });
        let parsed = wire::parse(&error).unwrap();
        let at = parsed.ip().unwrap().l4_offset() + 4;
        assert_eq!(wire::bytes::get_u32(&error, at), Some(1400));
        let quote = quoted::parse(&error, parsed.ip().unwrap()).unwrap();
        assert_eq!((quote.dst, quote.ports), (ips.vip(), Some((1000, 80))), "in words that the sender knows");
        if ips.0 {
            continue;
        }
        let parts = rig.send(L1, frame(false));
        assert_eq!(parts.len(), 2);
        let mut whole = Vec::new();
        for (to, part) in &parts {
            let parsed = wire::parse(part).unwrap();
            let ip = parsed.ip().unwrap();
            assert_eq!((*to, ip.dst, parsed.l2.dst), (EXT, ips.far(5), ROUTER));
            assert!(ip.total_len <= 1400);
            whole.extend_from_slice(&part[ip.l4_offset()..ip.end()]);
        }
        let wanted =
            eth((mac_of(L1), ROUTER), ips.pod(L1), ips.far(5)).tcp(1000, 8080, SYN).payload(&data).build();
        assert_eq!(whole, wanted[34..]);
    }
}

#[test]
fn a_tunnel_leaves_less_room() {
    for ips in FAMILIES {
        let mut rig = Rig::new();
        crate::tunnels::overlay(&mut rig, ips, (Ips(false).node(), [192, 0, 2, 13].into()));
        let frame = |length: usize, df| {
            let header = if ips.0 { 48 } else { 28 };
            let frame = eth((mac_of(L1), ROUTER), ips.pod(L1), ips.far(5)).df(df);
            frame.udp(1, 2).payload(&vec![7; length - header]).build()
        };
        assert_eq!(rig.send(L1, frame(1450, true))[0].1.len(), 14 + 1500);
        let error = rig.one(L1, frame(1451, true), L1);
        let at = wire::parse(&error).unwrap().ip().unwrap().l4_offset() + 4;
        assert_eq!(wire::bytes::get_u32(&error, at), Some(1450));
        if !ips.0 {
            assert_eq!(
                wire::parse(&error).unwrap().ip().unwrap().src,
                Ips(false).node(),
                "the tunnel's near end"
            );
            let parts = rig.send(L1, frame(1451, false));
            assert_eq!(parts.len(), 2);
            assert!(parts.iter().all(|(to, part)| *to == EXT && part.len() <= 1514));
        }
    }
}

/// The host sends into its own tunnel: an error from its own address would be thrown away.
#[test]
fn a_tunnel_s_own_end_is_told_by_the_destination() {
    let (mut rig, ips) = (Rig::new(), Ips(false));
    crate::tunnels::overlay(&mut rig, ips, (ips.pod(L1), [192, 0, 2, 13].into()));
    let frame = eth((mac_of(L1), ROUTER), ips.pod(L1), ips.far(5)).df(true);
    let error = rig.one(L1, frame.udp(1, 2).payload(&[7; 1451 - 28]).build(), L1);
    let parsed = wire::parse(&error).unwrap();
    assert_eq!((icmp(&error), parsed.ip().unwrap().src), ((3, 4), ips.far(5)));
}

/// A router far away says that a translated packet did not arrive.
#[test]
fn errors_about_translated_connections() {
    for ips in FAMILIES {
        for nat in [false, true] {
            let mut rig = Rig::with(SwitchSettings { icmp_nat: nat, ..SwitchSettings::default() });
            dsr(&mut rig, ips, balance(vec![dip(ips.far(5), 8080, Some(ROUTER))], None));
            rig.layer(L1, "NAT", 300, true);
            rig.pool("tcp", proto::TCP, L1, ips.node(), (50_000, 50_063));
            rig.group(
                (L1, "NAT"),
                Direction::Out,
                ips,
                100,
                vec![rule("snat", to(ips.far(5)), dynnat("tcp"))],
            );
            let client = (ips.pod(L1), 1000);
            let sent = rig.one(L1, tcp((mac_of(L1), DR), client, (ips.vip(), 80), SYN), EXT);
            // Before any reply was seen, and after; from a router, and from the far end itself.
            for answered in [false, true] {
                if answered {
                    let (_, from, to) = read(&sent);
                    rig.one(EXT, tcp((ROUTER, mac_of(HOST)), to, from, SYN_ACK), L1);
                }
                for router in [ips.outside(), ips.far(5)] {
                    let mut error = icmp_error(&sent, router, IcmpError::TimeExceeded).unwrap();
                    wire::bytes::set_mac(&mut error, 0, mac_of(HOST));
                    if !nat {
                        // The host's own stack gets it: nobody else could.
                        rig.one(EXT, error, HOST);
                        continue;
                    }
                    let told = rig.one(EXT, error, L1);
                    let parsed = wire::parse(&told).unwrap();
                    let ip = parsed.ip().unwrap();
                    let seen = if router == ips.far(5) { ips.vip() } else { router };
                    assert_eq!((ip.src, ip.dst, parsed.l2.dst), (seen, client.0, mac_of(L1)));
                    let quote = quoted::parse(&told, ip).unwrap();
                    assert_eq!((quote.src, quote.dst, quote.ports), (client.0, ips.vip(), Some((1000, 80))));
                }
            }
            // The balancer alone: the error comes to the pod, which must not see another address than it used.
            let mut rig = Rig::with(SwitchSettings { icmp_nat: nat, ..SwitchSettings::default() });
            dsr(&mut rig, ips, balance(vec![dip(ips.far(5), 8080, Some(ROUTER))], None));
            let sent = rig.one(L1, tcp((mac_of(L1), DR), client, (ips.vip(), 80), SYN), EXT);
            let mut error = icmp_error(&sent, ips.outside(), IcmpError::HostUnreachable).unwrap();
            wire::bytes::set_mac(&mut error, 0, mac_of(L1));
            if nat {
                let told = rig.one(EXT, error, L1);
                let quote = quoted::parse(&told, wire::parse(&told).unwrap().ip().unwrap()).unwrap();
                assert_eq!((quote.dst, quote.ports), (ips.vip(), Some((1000, 80))));
            } else {
                rig.dropped(EXT, error, DropReason::IcmpNat);
            }
        }
    }
}

#[test]
fn errors_about_other_connections_pass() {
    for ips in FAMILIES {
        let mut rig = Rig::new();
        rig.layer(L1, "ACL", 200, true);
        rig.group((L1, "ACL"), Direction::Out, ips, 100, vec![rule("a", Conditions::any(), Action::Allow)]);
        let sent = rig.one(L1, udp(between(L1, L2), (ips.pod(L1), 1), (ips.pod(L2), 2)), L2);
        let error = icmp_error(&sent, ips.pod(L2), IcmpError::PortUnreachable).unwrap();
        assert_eq!(rig.one(L2, error.clone(), L1), error);
    }
}

#[test]
fn a_ping_is_answered_by_rule() {
    for ips in FAMILIES {
        let echo = |request| {
            let frame = eth((mac_of(L1), DR), ips.pod(L1), ips.vip());
            let frame = if ips.0 { frame.icmp6_echo(request, 7, 1) } else { frame.icmp_echo(request, 7, 1) };
            frame.payload(b"ping").build()
        };
        let mut rig = Rig::new();
        rig.layer_with(L1, "PING", 100, true, LayerFlags::DEFAULT_ALLOW | LayerFlags::PING_RESPONDER);
        let key = rig.group(
            (L1, "PING"),
            Direction::Out,
            ips,
            100,
            vec![rule("p", to(ips.vip()), Action::PingResponse)],
        );
        let reply = rig.one(L1, echo(true), L1);
        assert_eq!(reply, wire::build::echo_reply(&echo(true)).unwrap());
        rig.one(L1, echo(false), EXT);
        // From elsewhere it is answered back into the switch.
        let mut rig = Rig::new();
        rig.layer(L2, "PING", 100, true);
        rig.group(
            (L2, "PING"),
            Direction::In,
            ips,
            100,
            vec![rule("p", to(ips.pod(L2)), Action::PingResponse)],
        );
        let frame = eth(between(L1, L2), ips.pod(L1), ips.pod(L2));
        let frame = if ips.0 { frame.icmp6_echo(true, 7, 1) } else { frame.icmp_echo(true, 7, 1) };
        let reply = rig.one(L1, frame.build(), L1);
        assert_eq!(read(&reply).0, between(L2, L1));
        let _ = key;
    }
}

#[test]
fn bandwidth_is_capped() {
    let ips = Ips(false);
    let mut rig = Rig::new();
    rig.layer(L1, "QOS", 100, false);
    rig.group(
        (L1, "QOS"),
        Direction::Out,
        ips,
        100,
        vec![rule("q", Conditions::any(), Action::Qos { bytes_per_second: 10_000 })],
    );
    let frame = |port| eth(between(L1, L2), ips.pod(L1), ips.pod(L2)).udp(port, 2).payload(&[0; 958]).build();
    assert_eq!(frame(1).len(), 1000);
    // A second's worth at once, over all flows.
    let passed = (0..20).filter(|port| rig.send(L1, frame(*port)).len() == 1).count();
    assert_eq!(passed, 10);
    assert_eq!(rig.all_drops()[&DropReason::Qos], 10);
    // Then as much as time brings, without losses to rounding.
    let mut passed = 0;
    for _ in 0..3000 {
        rig.now += std::time::Duration::from_millis(1);
        passed += rig.send(L1, frame(1)).len();
    }
    assert_eq!(passed, 30);
}
