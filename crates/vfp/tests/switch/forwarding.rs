//! From port to port: MACs, segments, floods, ARP and neighbour discovery, guards, VLAN.

use std::net::IpAddr;

use vfp::DropReason;
use vfp::model::{
    Action, ArpMode, Change, Conditions, Direction, Guards, NeighborSpec, PortKind, SegmentSpec, Transpose,
};
use wire::build::{self, FrameBuilder};
use wire::{Kind, Mac};

use crate::fixture::*;

fn frame(from: uuid::Uuid, to: Mac) -> Vec<u8> {
    let ips = Ips(false);
    udp((mac_of(from), to), (ips.pod(from), 1), (ips.outside(), 2))
}

fn ports(delivered: &Delivered) -> Vec<uuid::Uuid> {
    let mut ports: Vec<_> = delivered.iter().map(|(port, _)| *port).collect();
    ports.sort_unstable();
    ports
}

#[test]
fn frames_go_by_mac_within_their_segment() {
    let mut rig = Rig::new();
    rig.one(L1, frame(L1, mac_of(L2)), L2);
    rig.one(L1, frame(L1, mac_of(HOST)), HOST);
    rig.one(HOST, frame(HOST, mac_of(L3)), L3);
    rig.one(EXT, frame(EXT, mac_of(L1)), L1);
    // Another segment's port is as unknown as any other MAC: out to the wire.
    rig.one(L1, frame(L1, mac_of(L3)), EXT);
    rig.one(HOST, frame(HOST, ROUTER), EXT);
    // From the wire to nobody.
    rig.dropped(EXT, frame(EXT, ROUTER), DropReason::Forwarding);
    // A segment that is not of the wire.
    rig.apply(&[Change::PutSegment(SegmentSpec { id: 1, ..SegmentSpec::default() })]);
    rig.dropped(L1, frame(L1, mac_of(L3)), DropReason::Forwarding);
    rig.one(L1, frame(L1, mac_of(L2)), L2);
}

#[test]
fn of_two_ports_with_one_mac_the_host_comes_first() {
    let mut rig = Rig::new();
    let source_vip = uuid::Uuid::from_u128(9);
    let mut spec = port(source_vip, PortKind::Endpoint, 1);
    spec.mac = mac_of(HOST);
    rig.apply(&[Change::PutPort(spec)]);
    rig.one(L1, frame(L1, mac_of(HOST)), HOST);
    // Whoever is in the same segment, in the order of ports.
    rig.respec(L2, |spec| spec.mac = mac_of(L3));
    rig.one(L1, frame(L1, mac_of(L3)), L2);
    rig.one(EXT, frame(EXT, mac_of(L3)), L2);
    rig.apply(&[Change::RemovePort(L2)]);
    rig.one(EXT, frame(EXT, mac_of(L3)), L3);
}

#[test]
fn broadcasts_reach_the_segment() {
    let mut rig = Rig::new();
    for to in [Mac::BROADCAST, Mac([1, 0, 0x5e, 0, 0, 1])] {
        assert_eq!(ports(&rig.send(L1, frame(L1, to))), [EXT, HOST, L2]);
        assert_eq!(ports(&rig.send(EXT, frame(EXT, to))), [HOST, L1, L2, L3]);
        assert_eq!(ports(&rig.send(HOST, frame(HOST, to))), [EXT, L1, L2, L3]);
        // Neither IP nor ARP.
        let other = FrameBuilder::eth(mac_of(L1), to).ethertype(0x88cc).payload(&[0; 46]).build();
        assert_eq!(ports(&rig.send(L1, other)), [EXT, HOST, L2]);
    }
    // An overlay keeps its broadcasts from the wire.
    rig.apply(&[Change::PutSegment(SegmentSpec { id: 1, arp: ArpMode::Proxy, ..SegmentSpec::default() })]);
    assert_eq!(ports(&rig.send(L1, frame(L1, Mac::BROADCAST))), [HOST, L2]);
    assert_eq!(ports(&rig.send(EXT, frame(EXT, Mac::BROADCAST))), [HOST, L3]);
}

fn ask(ips: Ips, mac: Mac, from: IpAddr, target: IpAddr) -> Vec<u8> {
    match (from, target) {
        (IpAddr::V4(from), IpAddr::V4(target)) => build::arp_request(mac, from, target),
        (IpAddr::V6(from), IpAddr::V6(target)) => build::neighbor_solicitation(mac, from, target),
        _ => panic!("{ips:?}"),
    }
}

fn answer(from: (Mac, IpAddr), to: (Mac, IpAddr)) -> Vec<u8> {
    match (from.1, to.1) {
        (IpAddr::V4(address), IpAddr::V4(target)) => build::arp_reply(from.0, address, to.0, target),
        (IpAddr::V6(address), IpAddr::V6(target)) => {
            build::neighbor_advertisement(from.0, address, to.0, target, true)
        }
        _ => panic!("of one family"),
    }
}

/// Whose MAC a message tells.
fn told(frame: &[u8]) -> Mac {
    let parsed = wire::parse(frame).unwrap();
    match &parsed.kind {
        Kind::Arp(arp) => arp.sender_mac,
        _ => match wire::nd::parse(frame).unwrap() {
            wire::nd::Message::Solicitation { source, .. } => source.unwrap(),
            wire::nd::Message::Advertisement { mac, .. } => mac.unwrap(),
        },
    }
}

#[test]
fn neighbours_are_found_by_flood() {
    for ips in FAMILIES {
        let mut rig = Rig::new();
        let request = ask(ips, mac_of(L1), ips.pod(L1), ips.pod(L2));
        let delivered = rig.send(L1, request.clone());
        assert_eq!(ports(&delivered), [EXT, HOST, L2]);
        assert!(delivered.iter().all(|(_, frame)| *frame == request));
        let reply = answer((mac_of(L2), ips.pod(L2)), (mac_of(L1), ips.pod(L1)));
        assert_eq!(rig.one(L2, reply.clone(), L1), reply);
    }
}

#[test]
fn the_switch_answers_for_those_it_was_told_of() {
    for ips in FAMILIES {
        for arp in [ArpMode::Flood, ArpMode::Local, ArpMode::Proxy] {
            let mut rig = Rig::new();
            rig.apply(&[
                Change::PutSegment(SegmentSpec { id: 1, arp, ..SegmentSpec::default() }),
                Change::PutNeighbor(NeighborSpec { segment: 1, address: ips.far(5), mac: DR }),
            ]);
            let answered = rig.one(L1, ask(ips, mac_of(L1), ips.pod(L1), ips.far(5)), L1);
            assert_eq!(answered, answer((DR, ips.far(5)), (mac_of(L1), ips.pod(L1))));
            let delivered = rig.send(L1, ask(ips, mac_of(L1), ips.pod(L1), ips.far(6)));
            let wanted: &[uuid::Uuid] = match arp {
                ArpMode::Flood => &[EXT, HOST, L2],
                ArpMode::Local => &[HOST, L2],
                ArpMode::Proxy => &[],
            };
            assert_eq!(ports(&delivered), wanted, "{arp:?}");
            // The other segment knows nothing of it; the host lies in both.
            assert_eq!(ports(&rig.send(L3, ask(ips, mac_of(L3), ips.pod(L3), ips.far(5)))), [EXT, HOST]);
            assert_eq!(told(&rig.one(HOST, ask(ips, mac_of(HOST), ips.node(), ips.far(5)), HOST)), DR);
            rig.apply(&[Change::RemoveNeighbor { segment: 1, address: ips.far(5) }]);
            assert_eq!(ports(&rig.send(L1, ask(ips, mac_of(L1), ips.pod(L1), ips.far(5)))), wanted);
        }
    }
}

#[test]
fn on_the_wire_the_hosts_mac_stands_for_the_pods() {
    for ips in FAMILIES {
        let mut rig = Rig::new();
        let segment = SegmentSpec {
            id: 1,
            host_mac_on_wire: true,
            unknown_to_external: true,
            ..SegmentSpec::default()
        };
        rig.apply(&[Change::PutSegment(segment)]);
        let delivered = rig.send(L1, ask(ips, mac_of(L1), ips.pod(L1), ips.outside()));
        for (to, frame) in &delivered {
            let mac = if *to == EXT { mac_of(HOST) } else { mac_of(L1) };
            assert_eq!((told(frame), wire::parse(frame).unwrap().l2.src), (mac, mac), "{to}");
        }
        // The answer comes to the host's MAC, and is the pod's.
        let reply = rig.one(EXT, answer((ROUTER, ips.outside()), (mac_of(HOST), ips.pod(L1))), L1);
        assert_eq!(reply, answer((ROUTER, ips.outside()), (mac_of(L1), ips.pod(L1))));
        // Somebody on the wire asks for the pod: it alone is asked, and answers with the host's MAC.
        rig.one(EXT, ask(ips, ROUTER, ips.outside(), ips.pod(L1)), L1);
        let reply = rig.one(L1, answer((mac_of(L1), ips.pod(L1)), (ROUTER, ips.outside())), EXT);
        assert_eq!(reply, answer((mac_of(HOST), ips.pod(L1)), (ROUTER, ips.outside())));
    }
}

#[test]
fn guards_refuse_what_is_not_the_adapters() {
    for ips in FAMILIES {
        let mut rig = Rig::new();
        let spoof = |from: IpAddr, mac: Mac| udp((mac, mac_of(L2)), (from, 1), (ips.pod(L2), 2));
        rig.one(L1, spoof(ips.far(9), Mac([2, 9, 9, 9, 9, 9])), L2);
        rig.respec(L1, |spec| {
            spec.guards = Guards::MAC
                | Guards::SPOOF_V4
                | Guards::SPOOF_V6
                | Guards::DHCP
                | Guards::BLOCK_NON_IP
                | Guards::ARP
                | Guards::ND;
        });
        let reason = if ips.0 { DropReason::SpoofV6 } else { DropReason::SpoofV4 };
        rig.dropped(L1, spoof(ips.far(9), mac_of(L1)), reason);
        rig.dropped(L1, spoof(ips.pod(L1), Mac([2, 9, 9, 9, 9, 9])), DropReason::MacSpoofing);
        // Known flows are not exempt.
        rig.dropped(L1, spoof(ips.far(9), Mac([2, 9, 9, 9, 9, 9])), DropReason::MacSpoofing);
        rig.one(L1, spoof(ips.pod(L1), mac_of(L1)), L2);
        let server = if ips.0 { 547 } else { 67 };
        rig.dropped(L1, udp(between(L1, L2), (ips.pod(L1), server), (ips.pod(L2), 68)), DropReason::Guard);
        let other = FrameBuilder::eth(mac_of(L1), mac_of(L2)).ethertype(0x88cc).payload(&[0; 46]).build();
        rig.dropped(L1, other, DropReason::Guard);
        rig.dropped(L1, ask(ips, mac_of(L1), ips.far(9), ips.pod(L2)), DropReason::Arp);
        rig.dropped(L1, answer((mac_of(L1), ips.far(9)), (mac_of(L2), ips.pod(L2))), DropReason::Arp);
        assert_eq!(rig.send(L1, ask(ips, mac_of(L1), ips.pod(L1), ips.pod(L2))).len(), 3);
    }
}

#[test]
fn a_port_without_broadcasts_and_one_that_is_blocked() {
    let mut rig = Rig::new();
    rig.respec(L2, |spec| spec.guards = Guards::BLOCK_BROADCAST);
    assert_eq!(ports(&rig.send(L1, frame(L1, Mac::BROADCAST))), [EXT, HOST]);
    rig.one(L1, frame(L1, mac_of(L2)), L2);
    rig.respec(L2, |spec| spec.enabled = false);
    rig.dropped(L1, frame(L1, mac_of(L2)), DropReason::BlockedPort);
    rig.dropped(L2, frame(L2, mac_of(L1)), DropReason::BlockedPort);
    let ips = Ips(false);
    rig.dropped(L2, ask(ips, mac_of(L2), ips.pod(L2), ips.pod(L1)), DropReason::BlockedPort);
}

#[test]
fn tags_go_on_are_changed_and_come_off() {
    for ips in FAMILIES {
        let plain = || udp(between(L1, L2), (ips.pod(L1), 1), (ips.pod(L2), 2));
        let tagged = |id| {
            let frame = eth(between(L1, L2), ips.pod(L1), ips.pod(L2)).vlan(id);
            frame.udp(1, 2).payload(b"some data").build()
        };
        for (vlan, input, output) in [
            (7, plain(), tagged(7)),
            (7, tagged(8), tagged(7)),
            (0, tagged(8), plain()),
            (0, plain(), plain()),
        ] {
            let mut rig = Rig::new();
            rig.layer(L1, "VLAN", 100, false);
            let transpose = Transpose { vlan: Some(vlan), ..Transpose::default() };
            rig.group(
                (L1, "VLAN"),
                Direction::Out,
                ips,
                100,
                vec![rule("v", Conditions::any(), Action::Transpose(transpose))],
            );
            for _ in 0..2 {
                assert_eq!(rig.one(L1, input.clone(), L2), output);
            }
        }
    }
}

/// One flow whose frames come with other MACs is not sent where the first went.
#[test]
fn frames_of_one_flow_go_by_their_own_macs() {
    let ips = Ips(false);
    let mut rig = Rig::new();
    for _ in 0..2 {
        for port in [L2, HOST, EXT] {
            let mac = if port == EXT { ROUTER } else { mac_of(port) };
            rig.one(L1, udp((mac_of(L1), mac), (ips.pod(L1), 1), (ips.pod(L2), 2)), port);
        }
    }
}

#[test]
fn ports_that_come_and_go() {
    let ips = Ips(false);
    let mut rig = Rig::new();
    rig.one(L1, frame(L1, mac_of(L2)), L2);
    rig.apply(&[Change::RemovePort(L2)]);
    rig.one(L1, frame(L1, mac_of(L2)), EXT);
    // Its number is given to another, which must not get its frames.
    let new = uuid::Uuid::from_u128(77);
    rig.apply(&[Change::PutPort(port(new, PortKind::Endpoint, 1))]);
    rig.one(L1, frame(L1, mac_of(L2)), EXT);
    rig.one(L1, frame(L1, mac_of(new)), new);
    assert!(rig.send(L2, frame(L2, mac_of(L1))).is_empty());
    let _ = ips;
}
