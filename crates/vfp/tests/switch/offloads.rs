//! What senders leave to adapters: a frame that stands for several segments is translated and tunnelled as its segments
//! would be.

use vfp::model::{Action, Direction};
use vfp::{Env, Output};
use wire::offload::segments;
use wire::{Offload, Packet, proto, vxlan};

use crate::fixture::*;

fn pass(rig: &mut Rig, frame: &[u8], offload: Offload) -> Vec<(uuid::Uuid, Packet)> {
    let mut packet = Packet::new(frame);
    packet.offload = offload;
    let mut out = Output::default();
    let mut env = Env { now: rig.now, routes: &mut rig.hops, observer: None };
    rig.switch.transmit(L1, &mut vec![packet], &mut env, &mut out);
    out.delivered
}

fn cut(packet: &Packet) -> Vec<Vec<u8>> {
    let pieces = segments(packet, vxlan::UDP_PORT).unwrap();
    pieces.into_iter().map(Packet::into_vec).collect()
}

/// The innermost packets without what tells one outer packet from the other.
fn inner(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let strip = |frame: &Vec<u8>| {
        wire::checksum::verify(frame).unwrap();
        assert!(frame.len() <= 1514, "{} bytes", frame.len());
        frame[50..].to_vec()
    };
    frames.iter().map(strip).collect()
}

#[test]
fn one_large_frame_is_treated_as_its_segments() {
    for ips in FAMILIES {
        let mut rig = Rig::new();
        crate::tunnels::overlay(&mut rig, ips, (Ips(false).node(), [192, 0, 2, 13].into()));
        rig.layer(L1, "LB_DSR", 100, true);
        let lb = balance(vec![dip(ips.far(5), 8080, Some(ROUTER))], None);
        rig.group(
            (L1, "LB_DSR"),
            Direction::Out,
            ips,
            100,
            vec![rule("lb", to_service(ips.vip(), proto::TCP, 80), Action::LbNat(lb))],
        );
        let payload: Vec<u8> = (0..20_000_u32).map(|byte| byte.to_le_bytes()[0]).collect();
        let frame = |flags, data: &[u8]| {
            let frame = eth((mac_of(L1), ROUTER), ips.pod(L1), ips.vip());
            frame.tcp(1000, 80, flags).seq(7).payload(data).build()
        };
        rig.one(L1, frame(SYN, &[]), EXT);
        let size = if ips.0 { 1390 } else { 1410 };
        let offload = Offload { checksum: true, segment: size };
        let large = frame(ACK, &payload);
        let out = pass(&mut rig, &large, offload);
        let [(port, packet)] = &out[..] else { panic!("{} frames", out.len()) };
        assert_eq!((*port, packet.offload), (EXT, offload));

        let mut sent = Packet::new(&large);
        sent.offload = offload;
        let one_by_one: Vec<Vec<u8>> =
            cut(&sent).into_iter().map(|segment| rig.one(L1, segment, EXT)).collect();
        assert_eq!(inner(&cut(packet)), inner(&one_by_one));

        // A segment that does not fit is told of like any packet that does not.
        let large = pass(&mut rig, &large, Offload { checksum: true, segment: size + 1 });
        assert_eq!(large.len(), 1);
        assert_eq!(large[0].0, L1, "an ICMP error");
        assert!(large[0].1.is_complete());
    }
}

#[test]
fn a_datagram_that_is_cut_has_its_checksum_before() {
    let ips = Ips(false);
    let mut rig = Rig::new();
    rig.respec(EXT, |spec| spec.mtu = 1400);
    let data = vec![0x5a; 1450];
    let right = eth((mac_of(L1), ROUTER), ips.pod(L1), ips.far(5)).udp(1, 2).payload(&data).build();
    let mut left = right.clone();
    left[40..42].fill(0xee);
    let out = pass(&mut rig, &left, Offload { checksum: true, segment: 0 });
    let parts: Vec<&[u8]> = out.iter().map(|(_, part)| part.data()).collect();
    assert_eq!(parts.len(), 2);
    assert!(out.iter().all(|(port, part)| *port == EXT && part.is_complete()));
    let whole: Vec<u8> = parts.iter().flat_map(|part| part[34..].to_vec()).collect();
    assert_eq!(whole, right[34..]);
}
