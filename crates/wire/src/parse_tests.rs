//! The parse of frames that were built here, and of what is broken.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::build::FrameBuilder;
use crate::*;

const A: Mac = Mac([0x0e, 0x2a, 10, 50, 1, 5]);
const B: Mac = Mac([0, 0x15, 0x5d, 0xaa, 0, 0x11]);
const SRC: Ipv4Addr = Ipv4Addr::new(10, 50, 1, 5);
const DST: Ipv4Addr = Ipv4Addr::new(10, 60, 0, 20);
const SRC6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, 5);
const DST6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 2, 0, 0, 0, 6);

fn tcp() -> FrameBuilder {
    FrameBuilder::eth(A, B).ipv4(SRC, DST).tcp(50_000, 80, TcpFlags::SYN).seq(7).mss(1410)
}

fn ip(frame: &[u8]) -> Ip {
    *parse(frame).unwrap().ip().expect("an IP packet")
}

#[test]
fn a_tcp_segment_with_a_tag_and_padding() {
    let frame = tcp().vlan(10).ipid(9).df(true).ttl(3).tos(4).pad_to(100).build();
    let parsed = parse(&frame).unwrap();
    assert_eq!(
        parsed.l2,
        L2 { dst: B, src: A, vlan: Some(VlanTag::new(10)), ethertype: ethertype::IPV4, len: 18 }
    );
    let ip = ip(&frame);
    assert_eq!((ip.src, ip.dst, ip.proto), (SRC.into(), DST.into(), proto::TCP));
    assert_eq!((ip.ttl, ip.tos, ip.offset, ip.header_len, ip.total_len), (3, 4, 18, 20, 44));
    assert_eq!(ip.frag, Fragment { id: 9, offset: 0, more: false, dont: true });
    assert_eq!(ip.l4.ports(), Some((50_000, 80)));
    assert_eq!((ip.l4_offset(), ip.payload_offset(), ip.end()), (38, 62, 62));
    let L4::Tcp { flags, header_len, seq, ack, window, .. } = ip.l4 else { panic!("{ip:?}") };
    assert_eq!((flags, header_len, seq, ack, window), (TcpFlags::SYN, 24, 7, 0, 64_240));
    checksum::verify(&frame).unwrap();
}

#[test]
fn extension_headers_are_walked() {
    let frame = FrameBuilder::eth(A, B)
        .ipv6(SRC6, DST6)
        .extension(proto::HOP_BY_HOP, &[])
        .extension(proto::DESTINATION, &[1, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        .fragment(0xdead_beef, 0, true)
        .udp(53, 5353)
        .payload(&[1; 16])
        .build();
    let ip = ip(&frame);
    assert_eq!((ip.header_len, ip.proto, ip.total_len), (40 + 8 + 16 + 8, proto::UDP, 40 + 8 + 16 + 8 + 24));
    assert!(ip.is_first() && ip.is_fragment() && !ip.is_later());
    assert_eq!((ip.frag.id, ip.l4.ports()), (0xdead_beef, Some((53, 5353))));
}

#[test]
fn a_later_fragment_has_no_upper_header() {
    for frame in [
        FrameBuilder::eth(A, B).ipv4(SRC, DST).udp(1, 2).fragment(5, 1480, false).payload(b"abc").build(),
        FrameBuilder::eth(A, B).ipv6(SRC6, DST6).udp(1, 2).fragment(5, 1480, false).payload(b"abc").build(),
    ] {
        let ip = ip(&frame);
        assert!(ip.is_later());
        assert_eq!((ip.l4, ip.proto, ip.frag.offset, ip.l4_len()), (L4::None, proto::UDP, 1480, 3));
    }
}

#[test]
fn every_protocol_is_read() {
    let v4 = || FrameBuilder::eth(A, B).ipv4(SRC, DST);
    let v6 = || FrameBuilder::eth(A, B).ipv6(SRC6, DST6);
    let cases = [
        (v4().icmp_echo(true, 7, 1).build(), L4::Icmp { kind: 8, code: 0, id: 7 }),
        (v4().icmp(3, 1, [0, 7, 0, 7]).build(), L4::Icmp { kind: 3, code: 1, id: 0 }),
        (v6().icmp6_echo(false, 7, 1).build(), L4::Icmp6 { kind: 129, code: 0, id: 7 }),
        (v4().sctp(3, 4, 99).build(), L4::Sctp { sport: 3, dport: 4 }),
        (v6().udp(3, 4).payload(b"x").build(), L4::Udp { sport: 3, dport: 4, len: 9 }),
        (v4().proto(47).payload(b"gre").build(), L4::Other),
        (v6().icmp_echo(true, 7, 1).build(), L4::Other),
        (v4().icmp6_echo(true, 7, 1).build(), L4::Other),
    ];
    for (frame, l4) in cases {
        assert_eq!(ip(&frame).l4, l4);
        checksum::verify(&frame).unwrap();
    }
}

#[test]
fn arp_is_read_and_other_arp_is_not() {
    let frame = build::arp_reply(A, SRC, B, DST);
    let arp = Arp { op: ArpOp::Reply, sender_mac: A, sender_ip: SRC, target_mac: B, target_ip: DST };
    assert_eq!(parse(&frame).unwrap().kind, Kind::Arp(arp));
    let mut other = frame;
    other[15] = 6;
    assert_eq!(parse(&other).unwrap().kind, Kind::Other);
}

#[test]
fn every_cut_of_a_frame_is_refused() {
    for frame in [tcp().build(), tcp().vlan(1).build(), build::arp_request(A, SRC, DST), {
        FrameBuilder::eth(A, B).ipv6(SRC6, DST6).extension(proto::ROUTING, &[0; 20]).udp(1, 2).build()
    }] {
        parse(&frame).unwrap();
        for length in 0..frame.len() {
            assert!(parse(&frame[..length]).is_err(), "{length} of {} bytes", frame.len());
        }
    }
}

#[test]
fn lengths_that_lie_are_refused() {
    let change = |at: usize, value: u8| {
        let mut frame = tcp().build();
        frame[at] = value;
        parse(&frame).unwrap_err()
    };
    assert_eq!(change(14, 0x55), Malformed::Version { header: Header::Ipv4, version: 5 });
    assert_eq!(change(14, 0x44), Malformed::HeaderLength { header: Header::Ipv4, stated: 16, least: 20 });
    assert_eq!(change(17, 45), Malformed::TotalLength { header: Header::Ipv4, stated: 45, have: 44 });
    assert_eq!(change(17, 19), Malformed::TotalLength { header: Header::Ipv4, stated: 19, have: 44 });
    assert_eq!(change(46, 0x40), Malformed::HeaderLength { header: Header::Tcp, stated: 16, least: 20 });
    assert_eq!(change(46, 0x70), Malformed::Short { header: Header::Tcp, need: 28, have: 24 });
    let mut udp = FrameBuilder::eth(A, B).ipv4(SRC, DST).udp(1, 2).payload(b"x").build();
    udp[39] = 10;
    assert_eq!(parse(&udp), Err(Malformed::TotalLength { header: Header::Udp, stated: 10, have: 9 }));
    udp[39] = 7;
    assert_eq!(parse(&udp), Err(Malformed::HeaderLength { header: Header::Udp, stated: 7, least: 8 }));
}

#[test]
fn impossible_fragments_are_refused() {
    let past = FrameBuilder::eth(A, B).ipv4(SRC, DST).udp(1, 2).fragment(1, 65_528, false).payload(&[0; 8]);
    let found = parse(&past.build()).unwrap_err();
    assert_eq!(found, Malformed::FragmentExtent { header: Header::Ipv4, offset: 65_528, length: 8 });
    let mut uneven =
        FrameBuilder::eth(A, B).ipv6(SRC6, DST6).udp(1, 2).fragment(1, 8, false).payload(&[0; 9]).build();
    uneven[57] |= 1;
    let found = parse(&uneven).unwrap_err();
    assert_eq!(found, Malformed::FragmentExtent { header: Header::Ipv6, offset: 8, length: 9 });
}

#[test]
fn extension_headers_are_bounded() {
    let chain = |kind: u8, count: usize| {
        let mut builder = FrameBuilder::eth(A, B).ipv6(SRC6, DST6).udp(1, 2);
        for _ in 0..count {
            builder = builder.extension(kind, &[]);
        }
        parse(&builder.build())
    };
    assert!(chain(proto::DESTINATION, 8).is_ok());
    assert_eq!(chain(proto::DESTINATION, 9), Err(Malformed::Extension { header: Header::Destination }));
    assert_eq!(chain(proto::HOP_BY_HOP, 2), Err(Malformed::Extension { header: Header::HopByHop }));
}

#[test]
fn the_tunnel_of_both_families() {
    let inner = tcp().build();
    let nodes = [
        (IpAddr::from([192, 0, 2, 11]), IpAddr::from([192, 0, 2, 12]), 50),
        (IpAddr::from(SRC6), IpAddr::from(DST6), 70),
    ];
    for (src, dst, grows) in nodes {
        for vlan in [None, Some(VlanTag::new(7))] {
            let outer = vxlan::Outer {
                src_mac: A,
                dst_mac: B,
                vlan,
                src,
                dst,
                src_port: vxlan::source_port(0x1234_5678),
                dst_port: vxlan::UDP_PORT,
                vni: 4096,
                ttl: 64,
                tos: 0x28,
                df: true,
            };
            let mut packet = Packet::new(&inner);
            outer.push(&mut packet, 77).unwrap();
            assert_eq!(packet.len(), inner.len() + grows + if vlan.is_some() { 4 } else { 0 });
            checksum::verify(packet.data()).unwrap();
            let ip = ip(packet.data());
            assert_eq!((ip.src, ip.dst, ip.ttl, ip.tos), (src, dst, 64, 0x28));
            assert_eq!(ip.l4.ports(), Some((vxlan::source_port(0x1234_5678), 4789)));
            let (vni, at) = vxlan::parse(&packet.data()[ip.payload_offset()..]).unwrap();
            assert_eq!(vni, 4096);
            let whole = ip.payload_offset() + at;
            assert!(packet.pull(whole));
            assert_eq!(packet.data(), inner);
        }
    }
}
