//! Fragmented packets.

use vfp::DropReason;
use wire::proto;

use crate::balancer::dsr;
use crate::fixture::*;

fn cut(ips: Ips, frame: &[u8]) -> Vec<Vec<u8>> {
    let parts = if ips.0 { wire::ipv6::fragment(frame, 1280, 77) } else { wire::ipv4::fragment(frame, 1280) };
    assert_eq!(parts.len(), 3);
    parts
}

fn rig(ips: Ips) -> Rig {
    let mut rig = Rig::new();
    rig.layer(L1, "LB_DSR", 100, true);
    let lb = balance(vec![dip(ips.pod(L2), 8080, Some(mac_of(L2)))], None);
    rig.group(
        (L1, "LB_DSR"),
        vfp::model::Direction::Out,
        ips,
        100,
        vec![rule("lb", to_service(ips.vip(), proto::UDP, 80), vfp::model::Action::LbNat(lb))],
    );
    rig
}

fn data() -> Vec<u8> {
    (0..3000_u32).map(|byte| byte.to_le_bytes()[0]).collect()
}

fn datagram(ips: Ips, id: u16) -> Vec<u8> {
    eth((mac_of(L1), DR), ips.pod(L1), ips.vip()).ipid(id).udp(1000, 80).payload(&data()).build()
}

#[test]
fn all_parts_follow_the_first() {
    for ips in FAMILIES {
        let mut rig = rig(ips);
        for (round, id) in [1, 2].into_iter().enumerate() {
            // The flow is new, and then it is known.
            let parts = cut(ips, &datagram(ips, id));
            let mut whole = Vec::new();
            for part in parts {
                let out = rig.one(L1, part, L2);
                let parsed = wire::parse(&out).unwrap();
                let ip = parsed.ip().unwrap();
                assert_eq!((ip.dst, parsed.l2.dst), (ips.pod(L2), mac_of(L2)), "round {round}");
                whole.extend_from_slice(&out[ip.l4_offset()..ip.end()]);
            }
            let wanted = eth((mac_of(L1), mac_of(L2)), ips.pod(L1), ips.pod(L2))
                .udp(1000, 8080)
                .payload(&data())
                .build();
            let at = wire::parse(&wanted).unwrap().ip().unwrap().l4_offset();
            assert_eq!(whole, wanted[at..], "put together it is the translated datagram, checksum and all");
        }
        assert_eq!(rig.switch.flow_count(L1), Some(1));
    }
}

#[test]
fn a_later_part_before_the_first_is_dropped() {
    for ips in FAMILIES {
        let mut rig = rig(ips);
        let [first, second, third]: [Vec<u8>; 3] = cut(ips, &datagram(ips, 1)).try_into().unwrap();
        rig.dropped(L1, second.clone(), DropReason::Fragment);
        rig.one(L1, first, L2);
        rig.one(L1, third, L2);
        rig.one(L1, second.clone(), L2);
        // What was remembered is forgotten after two seconds.
        rig.pass(2);
        rig.dropped(L1, second, DropReason::Fragment);
    }
}

#[test]
fn parts_that_nobody_translates_pass() {
    for ips in FAMILIES {
        let mut rig = Rig::new();
        dsr(&mut rig, ips, balance(vec![dip(ips.pod(L2), 8080, Some(mac_of(L2)))], None));
        let frame = eth(between(L1, L2), ips.pod(L1), ips.pod(L2)).udp(1, 2).payload(&data()).build();
        for part in cut(ips, &frame) {
            assert_eq!(rig.one(L1, part.clone(), L2), part);
        }
    }
}
