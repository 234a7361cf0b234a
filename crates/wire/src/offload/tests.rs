//! Cutting frames and completing checksums, against the checks of whole frames.

use super::*;
use crate::build::FrameBuilder;
use crate::vxlan::{Outer, UDP_PORT};
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

#[derive(Clone, Copy, Debug)]
struct Shape {
    v6: bool,
    tcp: bool,
    /// None: no tunnel; else whether the outer packet is IPv6.
    tunnel: Option<bool>,
}

const FLAGS: TcpFlags = TcpFlags::ACK.union(TcpFlags::PSH).union(TcpFlags::FIN).union(TcpFlags::CWR);

fn frame(shape: Shape, payload: &[u8]) -> Packet {
    let frame = FrameBuilder::eth([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let frame = if shape.v6 {
        frame.ipv6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2))
    } else {
        frame.ipv4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)).ipid(65_535)
    };
    let frame = if shape.tcp {
        frame.tcp(1000, 80, FLAGS).seq(u32::MAX - 10).tcp_options(&[1, 1, 1, 1])
    } else {
        frame.udp(1000, 53)
    };
    let mut packet = Packet::new(&frame.payload(payload).build());
    if let Some(v6) = shape.tunnel {
        let (src, dst) = if v6 {
            (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into())
        } else {
            (Ipv4Addr::new(192, 0, 2, 1).into(), Ipv4Addr::new(192, 0, 2, 2).into())
        };
        let outer = Outer {
            src_mac: [2; 6].into(),
            dst_mac: [4; 6].into(),
            vlan: None,
            src,
            dst,
            src_port: 50_000,
            dst_port: UDP_PORT,
            vni: 4096,
            ttl: 64,
            tos: 0,
            df: false,
        };
        outer.push(&mut packet, 7).unwrap();
    }
    packet
}

fn shapes() -> impl Strategy<Value = Shape> {
    (any::<bool>(), any::<bool>(), proptest::option::of(any::<bool>())).prop_map(|(v6, tcp, tunnel)| Shape {
        v6,
        tcp,
        tunnel,
    })
}

proptest! {
    #[test]
    fn pieces_are_right_packets_with_all_the_payload(
        shape in shapes(), length in 1..5000_usize, size in 1..1500_u16, fill in any::<u8>(),
    ) {
        let payload: Vec<u8> = (0..=250).cycle().take(length).map(|n: u8| n ^ fill).collect();
        let mut packet = frame(shape, &payload);
        packet.offload = Offload { checksum: true, segment: size };
        let before = Layout::of(packet.data(), UDP_PORT).unwrap();
        bytes::set_u16(packet.data_mut(), before.l4 + before.checksum_offset(), 0x1234);
        let pieces = segments(&packet, UDP_PORT).unwrap();
        prop_assert_eq!(pieces.len(), length.div_ceil(size.into()));
        let mut joined = Vec::new();
        for (number, piece) in pieces.iter().enumerate() {
            prop_assert!(piece.is_complete());
            prop_assert_eq!(checksum::verify(piece.data()), Ok(()));
            let layout = Layout::of(piece.data(), UDP_PORT).unwrap();
            prop_assert_eq!(layout.end, piece.len());
            prop_assert!(layout.end - layout.payload <= size.into());
            if shape.tcp {
                let seq = u32::from_be_bytes(*bytes::get::<4>(piece.data(), layout.l4 + 4).unwrap());
                prop_assert_eq!(seq, (u32::MAX - 10).wrapping_add(u32::try_from(joined.len()).unwrap()));
                let flags = TcpFlags::from_bits_retain(piece.data()[layout.l4 + 13]);
                let last = number + 1 == pieces.len();
                prop_assert_eq!(flags.contains(TcpFlags::FIN | TcpFlags::PSH), last);
                prop_assert_eq!(layout.cwr, number == 0);
                prop_assert!(flags.contains(TcpFlags::ACK));
            }
            joined.extend_from_slice(&piece.data()[layout.payload..]);
        }
        prop_assert_eq!(joined, payload);
    }

    #[test]
    fn what_was_left_out_is_computed_to_what_it_was(shape in shapes(), length in 0..2000_usize) {
        let right = frame(shape, &vec![0xa5; length]);
        let mut packet = right.clone();
        let layout = Layout::of(packet.data(), UDP_PORT).unwrap();
        // With what the adapter's side expects in the field, and by our own means.
        prepare(packet.data_mut(), &layout);
        let mut other = packet.clone();
        complete_from(other.data_mut(), layout.l4, layout.checksum_offset());
        packet.offload.checksum = true;
        complete(&mut packet, UDP_PORT);
        prop_assert!(packet.is_complete());
        let (whole, by_field) = (checksum::verify(packet.data()), checksum::verify(other.data()));
        prop_assert_eq!(whole, Ok(()));
        prop_assert_eq!(by_field, Ok(()));
    }
}

#[test]
fn a_long_frame_counts_as_long_as_its_longest_segment() {
    let mut packet = frame(Shape { v6: false, tcp: true, tunnel: None }, &[0; 9000]);
    let length = u16::try_from(packet.len() - 14).unwrap();
    assert_eq!(wire_len(&packet, 14, 34, length, true), u32::from(length));
    packet.offload.segment = 1400;
    assert_eq!(wire_len(&packet, 14, 34, length, true), 20 + 24 + 1400);
    packet.offload.segment = u16::MAX;
    assert_eq!(wire_len(&packet, 14, 34, length, true), u32::from(length));
}

#[test]
fn fragments_and_other_protocols_have_no_layout() {
    let fragment = FrameBuilder::eth([2; 6], [4; 6])
        .ipv4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
        .fragment(9, 0, true)
        .udp(1, 2)
        .payload(&[0; 64])
        .build();
    assert_eq!(Layout::of(&fragment, UDP_PORT), None);
    let echo = FrameBuilder::eth([2; 6], [4; 6])
        .ipv4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
        .icmp_echo(true, 1, 1)
        .build();
    assert_eq!(Layout::of(&echo, UDP_PORT), None);
    assert_eq!(Layout::of(&[], UDP_PORT), None);
}
