//! Captures open in Wireshark: every kind of frame goes through the pcapng writer into tshark, which must decode it
//! with good checksums, name the interfaces, and show the comments.
//!
//! tshark is Debian's package of this name. Without it these tests fail: an unread capture proves nothing.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Command;

use wire::build::{self, FrameBuilder, IcmpError};
use wire::pcapng::{About, Direction, PacketMeta, Writer};
use wire::vxlan::{self, Outer};
use wire::{Mac, Packet, TcpFlags, VlanTag, ipv4, ipv6, proto};

const POD: Mac = Mac([0x0e, 0x2a, 10, 50, 1, 5]);
const NODE: Mac = Mac([0, 0x15, 0x5d, 0xaa, 0, 0x11]);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 50, 1, 5);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 50, 2, 5);
const CLIENT6: Ipv6Addr = Ipv6Addr::new(0xfd00, 50, 0, 1, 0, 0, 0, 5);
const SERVER6: Ipv6Addr = Ipv6Addr::new(0xfd00, 50, 0, 2, 0, 0, 0, 5);

/// The fields that are asked for; a field that a packet has twice (outer and inner) has its values with a comma.
const FIELDS: &[&str] = &[
    "frame.interface_name",
    "frame.interface_description",
    "frame.time_epoch",
    "frame.comment",
    "frame.packet_flags_direction",
    "eth.src",
    "eth.dst",
    "eth.type",
    "vlan.id",
    "vlan.priority",
    "arp.opcode",
    "arp.src.proto_ipv4",
    "arp.dst.proto_ipv4",
    "ip.src",
    "ip.dst",
    "ip.ttl",
    "ip.id",
    "ip.flags.df",
    "ip.flags.mf",
    "ip.checksum.status",
    "ipv6.src",
    "ipv6.dst",
    "ipv6.hlim",
    "ipv6.nxt",
    "ipv6.fraghdr.ident",
    "ipv6.fraghdr.more",
    "ipv6.hopopts.nxt",
    "ipv6.dstopts.nxt",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.flags.str",
    "tcp.seq_raw",
    "tcp.ack_raw",
    "tcp.options.mss_val",
    "tcp.checksum.status",
    "udp.srcport",
    "udp.dstport",
    "udp.length",
    "udp.checksum.status",
    "sctp.srcport",
    "sctp.dstport",
    "sctp.checksum.status",
    "icmp.type",
    "icmp.code",
    "icmp.ident",
    "icmp.mtu",
    "icmp.checksum.status",
    "icmpv6.type",
    "icmpv6.code",
    "icmpv6.echo.identifier",
    "icmpv6.nd.ns.target_address",
    "icmpv6.nd.na.target_address",
    "icmpv6.nd.na.flag.s",
    "icmpv6.opt.linkaddr",
    "icmpv6.checksum.status",
    "vxlan.vni",
    "vxlan.flags",
    "_ws.malformed",
    "_ws.expert.message",
];

/// tshark's status of a checksum: 1 is good, 2 was not looked at, 3 is missing.
const GOOD: &str = "1";

type Fields = BTreeMap<&'static str, String>;

/// What tshark makes of a capture, packet by packet. Fields that a packet does not have are left out.
fn dissect(capture: &[u8], reassemble: bool) -> Vec<Fields> {
    let mut file = tempfile::Builder::new().suffix(".pcapng").tempfile().expect("a temporary file");
    file.write_all(capture).expect("it can be written");
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(file.path()).args([
        "-T",
        "fields",
        "-E",
        "separator=/t",
        "-E",
        "occurrence=a",
    ]);
    for check in ["ip", "tcp", "udp"] {
        command.arg("-o").arg(format!("{check}.check_checksum:TRUE"));
    }
    for family in ["ip", "ipv6"] {
        command.arg("-o").arg(format!("{family}.defragment:{}", if reassemble { "TRUE" } else { "FALSE" }));
    }
    // The sum of RFC 9260, where tshark else looks at none.
    command.args(["-o", "sctp.checksum:CRC 32c"]);
    for field in FIELDS {
        command.arg("-e").arg(field);
    }
    let output = clean(&mut command)
        .output()
        .unwrap_or_else(|error| panic!("tshark cannot be run ({error}); `apt-get install tshark` brings it"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tshark failed: {errors}");
    let text = String::from_utf8(output.stdout).expect("tshark writes UTF-8");
    let packet = |line: &str| -> Fields {
        // Newer versions write flags as words.
        let values = line.split('\t').map(|value| value.replace("True", "1").replace("False", "0"));
        FIELDS.iter().copied().zip(values).filter(|(_, value)| !value.is_empty()).collect()
    };
    text.lines().map(packet).collect()
}

/// Without the settings of the user who runs the tests.
fn clean(command: &mut Command) -> &mut Command {
    let nowhere = Path::new(env!("CARGO_TARGET_TMPDIR"));
    command
        .env("HOME", nowhere)
        .env("XDG_CONFIG_HOME", nowhere)
        .env("WIRESHARK_CONFIG_DIR", nowhere)
        .env("LC_ALL", "C.UTF-8")
}

/// One frame on an interface of its own.
fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &About::default()).expect("memory takes it");
    writer.add_interface("port", "").expect("memory takes it");
    for frame in frames {
        writer.packet(&PacketMeta::default(), frame).expect("memory takes it");
    }
    writer.finish().expect("memory takes it")
}

/// A name, a frame, and fields with what tshark must say of them.
type Case<'a> = (&'a str, Vec<u8>, &'a [(&'a str, &'a str)]);

/// What tshark must say of frames; packets that it finds malformed fail at once.
fn expect(cases: &[Case<'_>]) {
    let frames: Vec<Vec<u8>> = cases.iter().map(|(_, frame, _)| frame.clone()).collect();
    let found = dissect(&capture(&frames), false);
    assert_eq!(found.len(), cases.len());
    for ((name, frame, wanted), found) in cases.iter().zip(&found) {
        let line = wire::describe(frame);
        assert!(!found.contains_key("_ws.malformed"), "{name}: {line}\n{found:#?}");
        for (field, value) in *wanted {
            let got = found.get(field).map_or("", String::as_str);
            assert_eq!(got, *value, "{name}: {field} of {line}\n{found:#?}");
        }
    }
}

fn v4() -> FrameBuilder {
    FrameBuilder::eth(POD, NODE).ipv4(CLIENT, SERVER)
}

fn v6() -> FrameBuilder {
    FrameBuilder::eth(POD, NODE).ipv6(CLIENT6, SERVER6)
}

fn tunnel(frame: &[u8], src: IpAddr, dst: IpAddr) -> Vec<u8> {
    let outer = Outer {
        src_mac: NODE,
        dst_mac: Mac([0x66, 0, 0, 0, 0, 0x12]),
        vlan: None,
        src,
        dst,
        src_port: vxlan::source_port(7),
        dst_port: vxlan::UDP_PORT,
        vni: 4096,
        ttl: 63,
        tos: 0,
        df: false,
    };
    let mut packet = Packet::new(frame);
    outer.push(&mut packet, 0x1234).expect("it is short");
    packet.data().to_vec()
}

#[test]
fn transport_over_both_families() {
    let syn = TcpFlags::SYN;
    let answer = TcpFlags::SYN | TcpFlags::ACK;
    expect(&[
        (
            "TCP",
            v4().ttl(128).ipid(0x77).df(true).tcp(50_000, 8080, syn).seq(7).mss(1410).build(),
            &[
                ("eth.src", "0e:2a:0a:32:01:05"),
                ("eth.dst", "00:15:5d:aa:00:11"),
                ("ip.src", "10.50.1.5"),
                ("ip.dst", "10.50.2.5"),
                ("ip.ttl", "128"),
                ("ip.id", "0x0077"),
                ("ip.flags.df", "1"),
                ("ip.checksum.status", GOOD),
                ("tcp.srcport", "50000"),
                ("tcp.dstport", "8080"),
                ("tcp.flags.str", "··········S·"),
                ("tcp.seq_raw", "7"),
                ("tcp.options.mss_val", "1410"),
                ("tcp.checksum.status", GOOD),
            ],
        ),
        (
            "TCP in a VLAN",
            v6().tag(Some(VlanTag { id: 42, pcp: 5, dei: false }))
                .tcp(8080, 50_000, answer)
                .ack(8)
                .payload(b"x")
                .build(),
            &[
                ("vlan.id", "42"),
                ("vlan.priority", "5"),
                ("ipv6.src", "fd00:32:0:1::5"),
                ("ipv6.dst", "fd00:32:0:2::5"),
                ("ipv6.hlim", "64"),
                ("tcp.flags.str", "·······A··S·"),
                ("tcp.ack_raw", "8"),
                ("tcp.checksum.status", GOOD),
            ],
        ),
        (
            "UDP",
            v4().udp(40_000, 40_001).payload(b"odd").build(),
            &[
                ("udp.srcport", "40000"),
                ("udp.dstport", "40001"),
                ("udp.length", "11"),
                ("udp.checksum.status", GOOD),
            ],
        ),
        (
            "UDP over IPv6",
            v6().udp(40_000, 40_001).payload(b"even").build(),
            &[("udp.checksum.status", GOOD)],
        ),
        (
            "UDP without a checksum",
            v4().udp_unchecked(40_000, 40_001).build(),
            &[("udp.checksum.status", "3")],
        ),
        (
            "SCTP",
            v4().sctp(4000, 4001, 9).payload(&[3, 0, 0, 16, 0, 0, 0, 1, 0, 0, 255, 255, 0, 0, 0, 0]).build(),
            &[("sctp.srcport", "4000"), ("sctp.dstport", "4001"), ("sctp.checksum.status", GOOD)],
        ),
        (
            "extension headers",
            v6().extension(proto::HOP_BY_HOP, &[])
                .extension(proto::DESTINATION, &[1, 4, 0, 0, 0, 0])
                .udp(40_000, 40_001)
                .build(),
            &[
                ("ipv6.nxt", "0"),
                ("ipv6.hopopts.nxt", "60"),
                ("ipv6.dstopts.nxt", "17"),
                ("udp.dstport", "40001"),
                ("udp.checksum.status", GOOD),
            ],
        ),
    ]);
}

#[test]
fn control_messages_of_both_families() {
    let big = v4().df(true).udp(40_000, 40_001).payload(&[0; 1472]).build();
    let big6 = v6().udp(40_000, 40_001).payload(&[0; 1472]).build();
    let segment = v4().tcp(50_000, 81, TcpFlags::SYN).seq(41).build();
    let about =
        |frame: &[u8], from: IpAddr, kind| build::icmp_error(frame, from, kind).expect("it may be sent");
    expect(&[
        (
            "echo request",
            v4().icmp_echo(true, 7, 1).payload(&[1; 32]).build(),
            &[("icmp.type", "8"), ("icmp.ident", "7"), ("icmp.checksum.status", GOOD)],
        ),
        (
            "echo reply",
            build::echo_reply(&v4().icmp_echo(true, 7, 1).payload(&[1; 32]).build()).expect("there is one"),
            &[("icmp.type", "0"), ("ip.src", "10.50.2.5"), ("icmp.checksum.status", GOOD)],
        ),
        (
            "echo over IPv6",
            build::echo_reply(&v6().icmp6_echo(true, 7, 1).payload(&[1; 32]).build()).expect("there is one"),
            &[("icmpv6.type", "129"), ("icmpv6.echo.identifier", "0x0007"), ("icmpv6.checksum.status", GOOD)],
        ),
        (
            "fragmentation needed",
            about(&big, SERVER.into(), IcmpError::FragmentationNeeded { mtu: 1450 }),
            &[
                ("icmp.type", "3"),
                ("icmp.code", "4"),
                ("icmp.mtu", "1450"),
                ("icmp.checksum.status", GOOD),
                // The packet, then the one that it quotes.
                ("ip.src", "10.50.2.5,10.50.1.5"),
                ("ip.dst", "10.50.1.5,10.50.2.5"),
                ("udp.dstport", "40001"),
            ],
        ),
        (
            "packet too big",
            about(&big6, SERVER6.into(), IcmpError::PacketTooBig { mtu: 1430 }),
            &[("icmpv6.type", "2"), ("icmpv6.checksum.status", GOOD), ("udp.dstport", "40001")],
        ),
        (
            "time exceeded",
            about(&segment, SERVER.into(), IcmpError::TimeExceeded),
            &[("icmp.type", "11"), ("icmp.code", "0"), ("tcp.dstport", "81"), ("icmp.checksum.status", GOOD)],
        ),
        (
            "prohibited",
            about(&big6, SERVER6.into(), IcmpError::AdminProhibited),
            &[("icmpv6.type", "1"), ("icmpv6.code", "1"), ("icmpv6.checksum.status", GOOD)],
        ),
        (
            "reset",
            build::tcp_reset(&segment).expect("there is one"),
            &[
                ("tcp.flags.str", "·······A·R··"),
                ("tcp.srcport", "81"),
                ("tcp.ack_raw", "42"),
                ("tcp.checksum.status", GOOD),
            ],
        ),
    ]);
}

#[test]
fn neighbours_of_both_families() {
    expect(&[
        (
            "ARP request",
            build::arp_request(POD, CLIENT, SERVER),
            &[
                ("eth.dst", "ff:ff:ff:ff:ff:ff"),
                ("arp.opcode", "1"),
                ("arp.src.proto_ipv4", "10.50.1.5"),
                ("arp.dst.proto_ipv4", "10.50.2.5"),
            ],
        ),
        (
            "ARP reply",
            build::arp_reply(NODE, SERVER, POD, CLIENT),
            &[("arp.opcode", "2"), ("eth.dst", "0e:2a:0a:32:01:05")],
        ),
        (
            "solicitation",
            build::neighbor_solicitation(POD, CLIENT6, SERVER6),
            &[
                ("eth.dst", "33:33:ff:00:00:05"),
                ("ipv6.dst", "ff02::1:ff00:5"),
                ("ipv6.hlim", "255"),
                ("icmpv6.nd.ns.target_address", "fd00:32:0:2::5"),
                ("icmpv6.opt.linkaddr", "0e:2a:0a:32:01:05"),
                ("icmpv6.checksum.status", GOOD),
            ],
        ),
        (
            "advertisement",
            build::neighbor_advertisement(NODE, SERVER6, POD, CLIENT6, true),
            &[
                ("icmpv6.nd.na.target_address", "fd00:32:0:2::5"),
                ("icmpv6.nd.na.flag.s", "1"),
                ("icmpv6.opt.linkaddr", "00:15:5d:aa:00:11"),
                ("icmpv6.checksum.status", GOOD),
            ],
        ),
    ]);
}

#[test]
fn tunnels_of_both_families() {
    let inner = v4().tcp(50_000, 8080, TcpFlags::SYN).build();
    let inner6 = v6().udp(40_000, 40_001).payload(b"x").build();
    let (node, peer) = (Ipv4Addr::new(192, 0, 2, 11), Ipv4Addr::new(192, 0, 2, 12));
    expect(&[
        (
            "over IPv4",
            tunnel(&inner, node.into(), peer.into()),
            &[
                ("eth.src", "00:15:5d:aa:00:11,0e:2a:0a:32:01:05"),
                ("eth.dst", "66:00:00:00:00:12,00:15:5d:aa:00:11"),
                ("ip.src", "192.0.2.11,10.50.1.5"),
                ("ip.dst", "192.0.2.12,10.50.2.5"),
                ("ip.ttl", "63,64"),
                ("ip.id", "0x1234,0x0000"),
                ("ip.checksum.status", "1,1"),
                ("udp.srcport", "49159"),
                ("udp.dstport", "4789"),
                ("udp.checksum.status", "3"),
                ("vxlan.vni", "4096"),
                ("vxlan.flags", "0x0800"),
                ("tcp.srcport", "50000"),
                ("tcp.checksum.status", GOOD),
            ],
        ),
        (
            "over IPv6",
            tunnel(&inner6, CLIENT6.into(), SERVER6.into()),
            &[
                ("ipv6.src", "fd00:32:0:1::5,fd00:32:0:1::5"),
                ("ipv6.hlim", "63,64"),
                ("udp.srcport", "49159,40000"),
                ("udp.dstport", "4789,40001"),
                ("udp.checksum.status", "1,1"),
                ("vxlan.vni", "4096"),
            ],
        ),
    ]);
}

#[test]
fn fragments_of_both_families() {
    let frame = v4().ipid(0x99).udp(40_000, 40_001).payload(&[7; 2000]).build();
    let frame6 = v6().udp(40_000, 40_001).payload(&[7; 2000]).build();
    let parts = [ipv4::fragment(&frame, 1500), ipv6::fragment(&frame6, 1500, 0xabcd)].concat();
    let apart = dissect(&capture(&parts), false);
    let field = |packet: &Fields, name: &str| packet.get(name).cloned().unwrap_or_default();
    let read = |names: [&str; 3]| {
        apart.iter().map(|packet| names.map(|name| field(packet, name))).collect::<Vec<_>>()
    };
    assert_eq!(
        read(["ip.id", "ip.flags.mf", "ip.checksum.status"]),
        [["0x0099", "1", GOOD], ["0x0099", "0", GOOD], ["", "", ""], ["", "", ""]]
    );
    assert_eq!(
        read(["ipv6.fraghdr.ident", "ipv6.fraghdr.more", "ipv6.nxt"]),
        [["", "", ""], ["", "", ""], ["0x0000abcd", "1", "44"], ["0x0000abcd", "0", "44"]]
    );
    // Put together they are the datagram again, whose checksum covers all of it.
    let whole = dissect(&capture(&parts), true);
    for last in [1, 3] {
        let read = ["udp.dstport", "udp.length", "udp.checksum.status"].map(|name| field(&whole[last], name));
        assert_eq!(read, ["40001", "2008", GOOD], "{:#?}", whole[last]);
    }
}

#[test]
fn interfaces_times_directions_and_comments() {
    let about = About { hardware: "emulated", os: "Windows", application: "Transom", comment: "one node" };
    let mut writer = Writer::new(Vec::new(), &about).expect("memory takes it");
    let pod = writer.add_interface("pod-a", "Port of pod a").expect("memory takes it");
    let adapter = writer.add_interface("Ethernet", "Physical adapter").expect("memory takes it");
    let frame = v4().udp(40_000, 40_001).build();
    let comments = ["VFP ACL_ENDPOINT_LAYER", "dropped: no rule – déjà vu"];
    let metas = [
        PacketMeta {
            interface: pod,
            nanos: 1_700_000_000_123_456_789,
            direction: Some(Direction::Inbound),
            id: Some(1),
            comments: &comments,
        },
        PacketMeta {
            interface: adapter,
            nanos: 1_700_000_000_123_456_790,
            direction: Some(Direction::Outbound),
            id: Some(1),
            comments: &[],
        },
    ];
    for meta in &metas {
        writer.packet(meta, &frame).expect("memory takes it");
    }
    let found = dissect(&writer.finish().expect("memory takes it"), false);
    let field = |at: usize, name: &str| found[at].get(name).map_or("", String::as_str);
    assert_eq!((field(0, "frame.interface_name"), field(1, "frame.interface_name")), ("pod-a", "Ethernet"));
    assert_eq!(field(0, "frame.interface_description"), "Port of pod a");
    assert_eq!(field(0, "frame.time_epoch"), "1700000000.123456789");
    assert_eq!(field(1, "frame.time_epoch"), "1700000000.123456790");
    assert_eq!(field(0, "frame.comment"), "VFP ACL_ENDPOINT_LAYER,dropped: no rule – déjà vu");
    assert_eq!(field(1, "frame.comment"), "");
    assert_eq!(
        (field(0, "frame.packet_flags_direction"), field(1, "frame.packet_flags_direction")),
        ("0x00000001", "0x00000002")
    );
}

/// The net itself: a broken checksum is seen, so that "good" above means something.
#[test]
fn a_broken_checksum_is_seen() {
    let mut frame = v4().tcp(50_000, 8080, TcpFlags::SYN).build();
    frame[51] ^= 1;
    frame[25] ^= 1;
    let found = dissect(&capture(&[frame]), false);
    assert_eq!(found[0].get("tcp.checksum.status").map(String::as_str), Some("0"));
    assert_eq!(found[0].get("ip.checksum.status").map(String::as_str), Some("0"));
}
