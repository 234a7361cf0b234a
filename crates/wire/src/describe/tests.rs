//! Lines of every kind of frame, kept as snapshots.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::describe;
use crate::build::{self, FrameBuilder, IcmpError};
use crate::frame::{TcpFlags, proto};
use crate::{Mac, Packet, vxlan};

const POD: Mac = Mac([0x0e, 0x2a, 10, 50, 1, 5]);
const NODE: Mac = Mac([0, 0x15, 0x5d, 0xaa, 0x11, 0x11]);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 50, 1, 5);
const SERVICE: Ipv4Addr = Ipv4Addr::new(10, 60, 0, 20);
const CLIENT6: Ipv6Addr = Ipv6Addr::new(0xfd00, 50, 0, 1, 0, 0, 0, 5);
const SERVICE6: Ipv6Addr = Ipv6Addr::new(0xfd00, 60, 0, 0, 0, 0, 0, 20);

fn v4() -> FrameBuilder {
    FrameBuilder::eth(POD, NODE).ipv4(CLIENT, SERVICE)
}

fn v6() -> FrameBuilder {
    FrameBuilder::eth(POD, NODE).ipv6(CLIENT6, SERVICE6)
}

fn syn() -> FrameBuilder {
    v4().tcp(50_000, 80, TcpFlags::SYN).seq(1)
}

fn lines(frames: &[Vec<u8>]) -> String {
    frames.iter().map(|frame| describe(frame) + "\n").collect()
}

#[test]
fn transport() {
    insta::assert_snapshot!(lines(&[
        syn().build(),
        syn().vlan(10).tcp_options(&[2, 4, 5, 130, 1, 3, 3, 8, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 7]).build(),
        v4().tcp(80, 50_000, TcpFlags::SYN | TcpFlags::ACK).seq(7).ack(2).build(),
        v4().tcp(80, 50_000, TcpFlags::PSH | TcpFlags::ACK).seq(u32::MAX).ack(2).payload(b"hello").build(),
        v4().tcp(80, 50_000, TcpFlags::empty()).tcp_options(&[5, 10, 0, 0, 0, 1, 0, 0, 0, 2, 99, 0]).build(),
        v6().tcp(80, 50_000, TcpFlags::all()).build(),
        v4().udp(53, 5353).payload(b"answer").build(),
        v6().extension(proto::HOP_BY_HOP, &[]).udp(53, 5353).payload(b"answer").build(),
        v4().sctp(5, 6, 7).payload(&[1, 0, 0, 4]).build(),
        v4().proto(47).payload(b"tunnel").build(),
        v4().proto(253).build(),
    ]));
}

#[test]
fn control() {
    let big = v4().df(true).udp(1, 2).payload(&[0; 1472]).build();
    let big6 = v6().udp(1, 2).payload(&[0; 1472]).build();
    let about = |original: &[u8], kind| {
        let from = crate::parse(original).unwrap().ip().unwrap().dst;
        build::icmp_error(original, from, kind).unwrap()
    };
    insta::assert_snapshot!(lines(&[
        v4().icmp_echo(true, 7, 1).payload(&[0; 32]).build(),
        v4().icmp_echo(false, 7, 1).build(),
        about(&big, IcmpError::FragmentationNeeded { mtu: 1450 }),
        about(&big, IcmpError::TimeExceeded),
        about(&big, IcmpError::HostUnreachable),
        about(&big, IcmpError::PortUnreachable),
        about(&big, IcmpError::AdminProhibited),
        v4().icmp(5, 1, [0; 4]).build(),
        v4().icmp(13, 0, [0; 4]).build(),
        v6().icmp6_echo(true, 7, 1).payload(&[0; 32]).build(),
        v6().icmp6_echo(false, 7, 1).build(),
        about(&big6, IcmpError::PacketTooBig { mtu: 1430 }),
        about(&big6, IcmpError::TimeExceeded),
        about(&big6, IcmpError::HostUnreachable),
        about(&big6, IcmpError::PortUnreachable),
        about(&big6, IcmpError::AdminProhibited),
        build::neighbor_solicitation(POD, CLIENT6, SERVICE6),
        build::neighbor_advertisement(NODE, SERVICE6, POD, CLIENT6, true),
        v6().icmp6(135, 0, [0; 4]).build(),
        build::arp_request(POD, CLIENT, SERVICE),
        build::arp_reply(NODE, SERVICE, POD, CLIENT),
        build::gratuitous(POD, CLIENT),
    ]));
}

#[test]
fn the_rest() {
    let mut tunnel = Packet::new(&syn().build());
    vxlan::Outer {
        src_mac: NODE,
        dst_mac: POD,
        vlan: None,
        src: Ipv4Addr::new(192, 0, 2, 11).into(),
        dst: Ipv4Addr::new(192, 0, 2, 12).into(),
        src_port: 50_001,
        dst_port: vxlan::UDP_PORT,
        vni: 4096,
        ttl: 64,
        tos: 0,
        df: false,
    }
    .push(&mut tunnel, 0)
    .unwrap();
    let mut cut = syn().build();
    cut.truncate(40);
    insta::assert_snapshot!(lines(&[
        tunnel.data().to_vec(),
        v4().udp(1, vxlan::UDP_PORT).payload(&[0; 8]).build(),
        v4().udp(53, 5353).fragment(9, 0, true).payload(&[0; 16]).build(),
        v4().udp(53, 5353).fragment(9, 24, false).payload(&[0; 5]).build(),
        v6().udp(53, 5353).fragment(9, 24, true).payload(&[0; 8]).build(),
        FrameBuilder::eth(POD, NODE).ethertype(0x88cc).payload(b"lldp").build(),
        FrameBuilder::eth(POD, NODE).vlan(7).ethertype(0x8100).payload(&[0; 4]).build(),
        FrameBuilder::eth(POD, NODE).ethertype(38).payload(&[0x42; 38]).build(),
        cut,
        vec![1, 2, 3],
        Vec::new(),
    ]));
}
