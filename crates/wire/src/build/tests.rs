//! Who gets an answer, and what is in it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::*;
use crate::frame::{L4, TcpFlags, proto};
use crate::{Mac, checksum, ipv4, parse};

const A: Mac = Mac([2, 0, 0, 0, 0, 1]);
const B: Mac = Mac([2, 0, 0, 0, 0, 2]);
const SRC: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const DST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const SRC6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const DST6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
const ROUTER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 254));

fn v4() -> FrameBuilder {
    FrameBuilder::eth(A, B).vlan(9).ipv4(SRC, DST)
}

fn v6() -> FrameBuilder {
    FrameBuilder::eth(A, B).ipv6(SRC6, DST6)
}

#[test]
fn a_reset_has_the_numbers_that_the_sender_accepts() {
    let reset = |flags: TcpFlags, payload: &[u8]| {
        let segment = v4().tcp(5, 6, flags).seq(u32::MAX).ack(77).payload(payload).build();
        tcp_reset(&segment).map(|frame| {
            checksum::verify(&frame).unwrap();
            let parsed = parse(&frame).unwrap();
            assert_eq!((parsed.l2.src, parsed.l2.dst, parsed.l2.vlan.map(|tag| tag.id)), (B, A, Some(9)));
            let ip = parsed.ip().unwrap();
            assert_eq!((ip.src, ip.dst, ip.l4.ports()), (DST.into(), SRC.into(), Some((6, 5))));
            let L4::Tcp { flags, seq, ack, .. } = ip.l4 else { panic!("{ip:?}") };
            (flags, seq, ack)
        })
    };
    let answer = TcpFlags::RST | TcpFlags::ACK;
    assert_eq!(reset(TcpFlags::SYN, b""), Some((answer, 0, 0)));
    assert_eq!(reset(TcpFlags::SYN, b"abc"), Some((answer, 0, 3)));
    assert_eq!(reset(TcpFlags::FIN, b"abc"), Some((answer, 0, 3)));
    assert_eq!(reset(TcpFlags::empty(), b"abc"), Some((answer, 0, 2)));
    assert_eq!(reset(TcpFlags::ACK, b"abc"), Some((TcpFlags::RST, 77, 0)));
    assert_eq!(reset(TcpFlags::RST, b""), None);
    assert_eq!(reset(answer, b""), None);
}

#[test]
fn the_family_of_the_original_decides_how_an_error_is_said() {
    let said = |frame: &[u8], from: IpAddr, kind| {
        let error = icmp_error(frame, from, kind).unwrap();
        checksum::verify(&error).unwrap();
        let ip = *parse(&error).unwrap().ip().unwrap();
        let word = crate::bytes::get_u32(&error, ip.l4_offset() + 4).unwrap();
        match ip.l4 {
            L4::Icmp { kind, code, .. } | L4::Icmp6 { kind, code, .. } => (ip.proto, kind, code, word),
            other => panic!("{other:?}"),
        }
    };
    let (frame, frame6) = (v4().udp(1, 2).build(), v6().udp(1, 2).build());
    let cases = [
        (IcmpError::FragmentationNeeded { mtu: 1450 }, (3, 4, 1450), (2, 0, 1450)),
        (IcmpError::PacketTooBig { mtu: 1430 }, (3, 4, 1430), (2, 0, 1430)),
        (IcmpError::PacketTooBig { mtu: 70_000 }, (3, 4, 65_535), (2, 0, 70_000)),
        (IcmpError::TimeExceeded, (11, 0, 0), (3, 0, 0)),
        (IcmpError::HostUnreachable, (3, 1, 0), (1, 3, 0)),
        (IcmpError::PortUnreachable, (3, 3, 0), (1, 4, 0)),
        (IcmpError::AdminProhibited, (3, 13, 0), (1, 1, 0)),
    ];
    for (kind, (of4, code4, word4), (of6, code6, word6)) in cases {
        assert_eq!(said(&frame, ROUTER, kind), (proto::ICMP, of4, code4, word4), "{kind:?}");
        assert_eq!(said(&frame6, DST6.into(), kind), (proto::ICMP6, of6, code6, word6), "{kind:?}");
    }
}

#[test]
fn an_error_goes_back_with_the_tag_and_within_the_least_mtu() {
    let large = v4().df(true).udp(1, 2).payload(&[7; 1472]).build();
    let error = icmp_error(&large, ROUTER, IcmpError::FragmentationNeeded { mtu: 1450 }).unwrap();
    let parsed = parse(&error).unwrap();
    assert_eq!((parsed.l2.src, parsed.l2.dst, parsed.l2.vlan.map(|tag| tag.id)), (B, A, Some(9)));
    let ip = parsed.ip().unwrap();
    assert_eq!((ip.src, ip.dst, ip.total_len), (ROUTER, SRC.into(), 576));
    assert_eq!(error[ip.l4_offset() + 8..], large[18..18 + 548]);
    let large = v6().udp(1, 2).payload(&[7; 1472]).build();
    let error = icmp_error(&large, DST6.into(), IcmpError::PacketTooBig { mtu: 1430 }).unwrap();
    assert_eq!(parse(&error).unwrap().ip().unwrap().total_len, 1280);
}

#[test]
fn who_must_not_be_told_is_not() {
    let datagram = v4().udp(1, 2).payload(&[0; 2000]).build();
    let fragments = ipv4::fragment(&datagram, 1500);
    let eth = |dst: Mac| FrameBuilder::eth(A, dst);
    let silent = [
        ("a later fragment", fragments[1].clone()),
        ("an error", icmp_error(&datagram, ROUTER, IcmpError::TimeExceeded).unwrap()),
        ("a redirect", v4().icmp(5, 0, [0; 4]).build()),
        ("an ARP request", arp_request(A, SRC, DST)),
        ("a frame to all", eth(Mac::BROADCAST).ipv4(SRC, DST).udp(1, 2).build()),
        ("a packet to a group", eth(B).ipv4(SRC, [224, 0, 0, 1]).udp(1, 2).build()),
        ("a packet to all", eth(B).ipv4(SRC, [255; 4]).udp(1, 2).build()),
        ("a packet from nobody", eth(B).ipv4([0; 4], DST).udp(1, 2).build()),
        ("a packet from a group", eth(B).ipv4([224, 0, 0, 1], DST).udp(1, 2).build()),
        ("a packet from within", eth(B).ipv4([127, 0, 0, 1], DST).udp(1, 2).build()),
        ("a packet of the other family", v6().udp(1, 2).build()),
        ("no frame", vec![0; 20]),
    ];
    for (name, frame) in silent {
        assert_eq!(icmp_error(&frame, ROUTER, IcmpError::PortUnreachable), None, "{name}");
    }
    assert!(icmp_error(&fragments[0], ROUTER, IcmpError::PortUnreachable).is_some(), "a first fragment");
    assert!(
        icmp_error(&v4().icmp_echo(true, 1, 1).build(), ROUTER, IcmpError::HostUnreachable).is_some(),
        "an echo"
    );
}

#[test]
fn an_echo_comes_back_whole() {
    let request = v4().icmp_echo(true, 7, 3).payload(b"abcde").pad_to(64).build();
    let reply = echo_reply(&request).unwrap();
    let ip = *parse(&reply).unwrap().ip().unwrap();
    assert_eq!((ip.src, ip.dst, ip.l4), (DST.into(), SRC.into(), L4::Icmp { kind: 0, code: 0, id: 7 }));
    assert_eq!(reply[ip.payload_offset()..ip.end()], *b"abcde");
    assert_eq!(echo_reply(&reply), None, "a reply is no request");
    assert_eq!(echo_reply(&v4().icmp_echo(true, 7, 3).fragment(1, 0, true).payload(&[0; 8]).build()), None);
    assert_eq!(echo_reply(&neighbor_solicitation(A, SRC6, DST6)), None);
    assert!(echo_reply(&v6().icmp6_echo(true, 7, 3).build()).is_some());
}

#[test]
fn what_does_not_fit_is_cut() {
    let frame = v4().ipv4_options(&[1; 60]).udp(1, 2).payload(&vec![7; 70_000]).build();
    let ip = *parse(&frame).unwrap().ip().unwrap();
    assert_eq!((ip.header_len, ip.total_len), (60, 65_535));
    checksum::verify(&frame).unwrap();
    let frame = v6()
        .extension(proto::DESTINATION, &[0; 3000])
        .tcp(1, 2, TcpFlags::ACK)
        .payload(&vec![7; 70_000])
        .build();
    let ip = *parse(&frame).unwrap().ip().unwrap();
    assert_eq!((ip.header_len, ip.total_len), (40 + 2048, 65_535));
    checksum::verify(&frame).unwrap();
}
