//! VXLAN: put on, carried to the next hop, taken off.

use std::net::IpAddr;

use vfp::DropReason;
use vfp::NextHop;
use vfp::model::{
    Action, AddressSet, Change, Conditions, Decap, DecapFlags, Direction, EncapDestination, EncapFlags,
    NativeRoute, PaRoute, RouteEncap, Transpose,
};
use wire::{Packet, vxlan};

use crate::fixture::*;

const VNI: u32 = 4096;

fn peer() -> IpAddr {
    IpAddr::from([192, 0, 2, 13])
}

fn local() -> IpAddr {
    IpAddr::from([192, 0, 2, 11])
}

/// The far pods are behind the peer; the outer header is the underlay's family.
pub(crate) fn overlay(rig: &mut Rig, ips: Ips, (from, to): (IpAddr, IpAddr)) {
    rig.layer(L1, "VNET_ENCAP_LAYER", 400, false);
    rig.layer(L1, "VNET_PA_ROUTE_LAYER", 500, false);
    let encap = RouteEncap {
        source: from,
        destinations: vec![EncapDestination { pa: to, ca_mac: Some(DR), vni: VNI }],
        source_mac: None,
        flags: EncapFlags::LOOKUP | EncapFlags::FIX_INNER_MAC,
    };
    let far: Vec<IpAddr> = (0..=255).map(|host| ips.far(host)).collect();
    let conditions = Conditions { destinations: far.into_iter().collect(), ..Conditions::any() };
    rig.group(
        (L1, "VNET_ENCAP_LAYER"),
        Direction::Out,
        ips,
        100,
        vec![rule("ENCAP", conditions, Action::RouteEncap(encap))],
    );
    let outer = Ips(from.is_ipv6());
    rig.group(
        (L1, "VNET_PA_ROUTE_LAYER"),
        Direction::Out,
        outer,
        100,
        vec![rule(
            "PA_ROUTE",
            Conditions { encapsulated: Some(true), ..Conditions::any() },
            Action::PaRoute(PaRoute::default()),
        )],
    );
    rig.layer(EXT, "VNET_DECAP_LAYER", 100, false);
    let decap = Conditions {
        encapsulated: Some(true),
        tenant: Some(VNI),
        destinations: AddressSet::one(from),
        ..Conditions::any()
    };
    rig.group(
        (EXT, "VNET_DECAP_LAYER"),
        Direction::Out,
        outer,
        100,
        vec![rule(
            "DECAP",
            decap,
            Action::Decap(Decap {
                flags: DecapFlags::KEEP_INNER_MAC | DecapFlags::PUSH_VSID,
                destination_mac: None,
            }),
        )],
    );
    rig.layer(EXT, "INTERNAL_L2_REWRITE_LAYER", 200, false);
    let mut inner = to_pod(ips);
    inner.tenant = Some(VNI);
    let rewrite = Transpose { destination_mac: Some(mac_of(L1)), ..Transpose::default() };
    rig.group(
        (EXT, "INTERNAL_L2_REWRITE_LAYER"),
        Direction::Out,
        ips,
        100,
        vec![rule("L2", inner, Action::Transpose(rewrite))],
    );
}

fn to_pod(ips: Ips) -> Conditions {
    let mut conditions = to(ips.pod(L1));
    conditions.destination_macs.push(DR);
    conditions
}

fn outer(from: IpAddr, to: IpAddr, macs: (wire::Mac, wire::Mac), src_port: u16, ttl: u8) -> vxlan::Outer {
    vxlan::Outer {
        src_mac: macs.0,
        dst_mac: macs.1,
        vlan: None,
        src: from,
        dst: to,
        src_port,
        dst_port: vxlan::UDP_PORT,
        vni: VNI,
        ttl,
        tos: 0,
        df: false,
    }
}

/// The source port and identification of a tunnelled frame, and the frame in it.
fn unwrap(frame: &[u8]) -> (u16, u16, &[u8]) {
    let parsed = wire::parse(frame).unwrap();
    let ip = parsed.ip().unwrap();
    let (sport, dport) = ip.l4.ports().unwrap();
    assert_eq!(dport, vxlan::UDP_PORT);
    let payload = &frame[ip.payload_offset()..ip.end()];
    let (vni, at) = vxlan::parse(payload).unwrap();
    assert_eq!(vni, VNI);
    let id = if ip.is_v6() { 0 } else { u16::from_be_bytes([frame[18], frame[19]]) };
    (sport, id, &payload[at..])
}

#[test]
fn a_frame_for_a_far_pod_byte_by_byte_and_its_answer() {
    let v6 = (
        IpAddr::from([0xfd, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]),
        IpAddr::from([0xfd, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]),
    );
    for ips in FAMILIES {
        for underlay in [(local(), peer()), v6] {
            let mut rig = Rig::new();
            overlay(&mut rig, ips, underlay);
            let (a, b) = ((ips.pod(L1), 1000), (ips.far(5), 8080));
            let mut ports = std::collections::HashSet::new();
            for round in 0..3 {
                let flags = if round == 0 { SYN } else { ACK };
                let frame = rig.one(L1, tcp((mac_of(L1), ROUTER), a, b, flags), EXT);
                let (sport, id, _) = unwrap(&frame);
                assert!(sport >= 49_152);
                ports.insert(sport);
                let mut wanted = Packet::new(&tcp((mac_of(L1), DR), a, b, flags));
                outer(underlay.0, underlay.1, (mac_of(HOST), ROUTER), sport, 64)
                    .push(&mut wanted, id)
                    .unwrap();
                assert_eq!(frame, wanted.into_vec());
                // The peer answers.
                let inner = tcp((DR, DR), b, a, if round == 0 { SYN_ACK } else { ACK });
                let mut answer = Packet::new(&inner);
                outer(underlay.1, underlay.0, (ROUTER, mac_of(HOST)), 50_000, 60)
                    .push(&mut answer, 1)
                    .unwrap();
                let delivered = rig.one(EXT, answer.into_vec(), L1);
                assert_eq!(delivered, tcp((DR, mac_of(L1)), b, a, if round == 0 { SYN_ACK } else { ACK }));
            }
            assert_eq!(ports.len(), 1, "routers keep a flow on one way");
            assert_eq!(rig.hops.1, 1, "the next hop is remembered");
            // Other flows go by other ways.
            for port in 2000..2032 {
                let frame = rig.one(L1, tcp((mac_of(L1), ROUTER), (a.0, port), b, SYN), EXT);
                ports.insert(unwrap(&frame).0);
            }
            assert!(ports.len() > 24, "{ports:?}");
        }
    }
}

#[test]
fn tunnels_to_others_or_of_other_networks_are_the_hosts() {
    let ips = Ips(false);
    let mut rig = Rig::new();
    overlay(&mut rig, ips, (local(), peer()));
    for (vni, to) in [(VNI + 1, local()), (VNI, IpAddr::from([192, 0, 2, 99]))] {
        let mut frame = Packet::new(&udp((DR, DR), (ips.far(5), 1), (ips.pod(L1), 2)));
        let header = vxlan::Outer { vni, ..outer(peer(), to, (ROUTER, mac_of(HOST)), 50_000, 60) };
        header.push(&mut frame, 1).unwrap();
        let frame = frame.into_vec();
        assert_eq!(rig.one(EXT, frame.clone(), HOST), frame);
    }
}

#[test]
fn the_outer_header_is_as_the_settings_say() {
    let ips = Ips(false);
    let mut rig = Rig::new();
    overlay(&mut rig, ips, (local(), peer()));
    let inner =
        eth((mac_of(L1), ROUTER), ips.pod(L1), ips.far(5)).tos(0x2e << 2).udp(1, 2).payload(b"x").build();
    let of = |frame: &[u8]| {
        let parsed = wire::parse(frame).unwrap();
        let ip = parsed.ip().unwrap();
        (ip.ttl, ip.tos, ip.frag.dont)
    };
    assert_eq!(of(&rig.one(L1, inner.clone(), EXT)), (64, 0, false));
    rig.settings(|settings| {
        settings.outer_ttl = 99;
        settings.outer_df = true;
        settings.copy_tos = true;
        settings.vxlan_source_base = 1000;
        settings.vxlan_source_range = 1;
    });
    let frame = rig.one(L1, inner, EXT);
    assert_eq!((of(&frame), unwrap(&frame).0), ((99, 0x2e << 2, true), 1000));
}

#[test]
fn a_next_hop_that_is_not_known_yet() {
    for ips in FAMILIES {
        let mut rig = Rig::new();
        overlay(&mut rig, ips, (local(), peer()));
        rig.hops.0.insert(peer(), NextHop::Pending);
        let frame = udp((mac_of(L1), ROUTER), (ips.pod(L1), 1), (ips.far(5), 2));
        assert!(rig.send(L1, frame.clone()).is_empty());
        let waiting = std::mem::take(&mut rig.pending);
        assert_eq!((waiting.len(), waiting[0].next_hop, waiting[0].port), (1, peer(), L1));
        assert_eq!(waiting[0].packet.data(), frame);
        assert_eq!(rig.switch.flow_count(L1), Some(0));
        rig.hops.0.insert(peer(), NextHop::Via { mac: ROUTER, source_mac: mac_of(HOST) });
        let mut out = vfp::Output::default();
        let mut env = vfp::Env { now: rig.now, routes: &mut rig.hops, observer: None };
        rig.switch.resume(waiting, &mut env, &mut out);
        assert_eq!((out.delivered.len(), out.delivered[0].0), (1, EXT));
        rig.hops.0.insert(peer(), NextHop::Unreachable);
        rig.one(L1, frame.clone(), EXT);
        // It ages, also for flows that live; then it is asked for again.
        rig.pass(31);
        rig.dropped(L1, frame.clone(), DropReason::PaRoute);
        rig.hops.0.insert(peer(), NextHop::Via { mac: DR, source_mac: mac_of(HOST) });
        let moved = rig.one(L1, frame, EXT);
        assert_eq!(wire::parse(&moved).unwrap().l2.dst, DR);
    }
}

#[test]
fn packets_of_the_pods_own_go_natively_where_the_rule_says() {
    for ips in FAMILIES {
        for native in [NativeRoute::Never, NativeRoute::ToMac(DR), NativeRoute::Readdressed] {
            let mut rig = Rig::new();
            rig.layer(L1, "LB", 100, true);
            let lb = balance(vec![dip(ips.far(5), 8080, None)], None);
            rig.group(
                (L1, "LB"),
                Direction::Out,
                ips,
                100,
                vec![rule("lb", to_service(ips.vip(), wire::proto::TCP, 80), Action::LbNat(lb))],
            );
            rig.layer(L1, "PA", 500, false);
            rig.group(
                (L1, "PA"),
                Direction::Out,
                ips,
                100,
                vec![rule(
                    "pa",
                    Conditions::any(),
                    Action::PaRoute(PaRoute { native, ..PaRoute::default() }),
                )],
            );
            rig.hops.0.insert(ips.node(), NextHop::Local);
            let routed = (mac_of(HOST), ROUTER);
            let send = |rig: &mut Rig, to| {
                let frame = tcp((mac_of(L1), DR), (ips.pod(L1), 1), to, SYN);
                let delivered = rig.send(L1, frame);
                (delivered[0].0, read(&delivered[0].1).0)
            };
            let kept = (EXT, (mac_of(L1), DR));
            let (service, other, host) = match native {
                NativeRoute::Never => (kept, kept, kept),
                NativeRoute::ToMac(_) => ((EXT, routed), (EXT, routed), (HOST, between(L1, HOST))),
                NativeRoute::Readdressed => ((EXT, routed), kept, kept),
            };
            assert_eq!(send(&mut rig, (ips.vip(), 80)), service, "{native:?}");
            assert_eq!(send(&mut rig, (ips.far(6), 80)), other, "{native:?}");
            assert_eq!(send(&mut rig, (ips.node(), 80)), host, "{native:?}");
        }
    }
}

#[test]
fn a_tunnel_to_oneself_is_none() {
    let ips = Ips(false);
    let mut rig = Rig::new();
    overlay(&mut rig, ips, (local(), local()));
    let frame = rig.one(L1, udp((mac_of(L1), ROUTER), (ips.pod(L1), 1), (ips.far(5), 2)), HOST);
    assert_eq!(read(&frame).0, between(L1, HOST));
}

/// The group of tunnels hangs at the host's port, too: what is on its way to a local pod there stays so.
#[test]
fn at_the_hosts_port_a_tunnel_to_oneself_changes_nothing() {
    let ips = Ips(false);
    let mut rig = Rig::new();
    rig.layer(HOST, "VNET_ENCAP_LAYER", 400, false);
    let encap = RouteEncap {
        source: local(),
        destinations: vec![EncapDestination { pa: local(), ca_mac: Some(DR), vni: VNI }],
        source_mac: None,
        flags: EncapFlags::FIX_INNER_MAC,
    };
    let rules = vec![rule("ENCAP", to(ips.pod(L1)), Action::RouteEncap(encap))];
    rig.group((HOST, "VNET_ENCAP_LAYER"), Direction::Out, ips, 100, rules);
    let frame = udp(between(HOST, L1), (ips.node(), 1), (ips.pod(L1), 2));
    assert_eq!(rig.one(HOST, frame.clone(), L1), frame);
}

#[test]
fn flows_of_two_tunnels_are_two() {
    let ips = Ips(false);
    let mut rig = Rig::new();
    overlay(&mut rig, ips, (local(), peer()));
    for tos_of in 0..2 {
        for from in [peer(), IpAddr::from([192, 0, 2, 14])] {
            let mut frame = Packet::new(&udp((DR, DR), (ips.far(5), 1), (ips.pod(L1), 2)));
            outer(from, local(), (ROUTER, mac_of(HOST)), 50_000, 60).push(&mut frame, tos_of).unwrap();
            rig.one(EXT, frame.into_vec(), L1);
        }
    }
    assert_eq!(rig.switch.flow_count(EXT), Some(2));
    let _ = Change::RemovePort(EXT);
}
