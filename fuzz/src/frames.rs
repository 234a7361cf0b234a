//! Frames and captures: bytes from a network or a file.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::build::{self, IcmpError};
use wire::pcapng::{About, Block, PacketMeta, Reader, Writer};
use wire::rewrite::{self, Rewrite};
use wire::{Ip, Packet, checksum, ipv4, ipv6, nd, parse, quoted, tcp, vlan, vxlan};

use crate::Verdict;

/// A frame, to every reader of frames.
pub fn wire_parse(data: &[u8]) -> Verdict {
    let line = wire::describe(data);
    assert!(!line.contains(['\n', '\t']), "more than a line: {line}");
    let _ = (nd::parse(data), vxlan::parse(data), quoted::read(data), checksum::verify(data));
    let mut packet = Packet::new(data);
    if let Some(tag) = vlan::clear(&mut packet) {
        let inside = wire::bytes::get_u16(packet.data(), 12) == Some(wire::ethertype::VLAN);
        // A second tag is the one that is replaced, when it is there in whole.
        let set = vlan::set(&mut packet, tag);
        assert!(inside || (set && packet.data() == data), "the tag came back otherwise");
    }
    let parsed = parse(data);
    assert_eq!(
        parsed.is_err(),
        line.contains("[malformed: ") && !line.contains("VXLAN"),
        "{parsed:?}: {line}"
    );
    let Ok(parsed) = parsed else { return Verdict::Refused };
    let mut filled = data.to_vec();
    if checksum::fill(&mut filled).is_ok() {
        checksum::verify(&filled).expect("filled checksums are right");
    }
    if let Some(ip) = parsed.ip() {
        assert!(
            ip.l4_offset() <= ip.payload_offset()
                && ip.payload_offset() <= ip.end()
                && ip.end() <= data.len()
        );
        let _ = tcp::mss(data, ip);
        clamp(&filled, ip);
        fragments(&filled, ip);
    }
    Verdict::Read
}

fn clamp(frame: &[u8], ip: &Ip) {
    let right = checksum::verify(frame).is_ok();
    let mut clamped = frame.to_vec();
    if tcp::clamp_mss(&mut clamped, ip, 1000) {
        assert!(tcp::mss(&clamped, ip).is_some_and(|mss| mss == 1000));
        assert!(!right || checksum::verify(&clamped).is_ok(), "clamping broke a checksum");
    } else {
        assert_eq!(clamped, frame, "nothing had to change");
    }
}

/// The parts of a packet are its bytes again.
fn fragments(frame: &[u8], ip: &Ip) {
    for mtu in [68, 576, 1280] {
        let parts = if ip.is_v6() { ipv6::fragment(frame, mtu, 7) } else { ipv4::fragment(frame, mtu) };
        if ip.is_v6() || parts.len() < 2 {
            continue;
        }
        let mut data = Vec::new();
        for part in &parts {
            // A first part may be too short for the header of the upper layer.
            let Ok(parsed) = parse(part) else { return };
            let Some(part_ip) = parsed.ip() else { panic!("it was IP") };
            assert!(usize::from(part_ip.total_len) <= mtu);
            data.extend_from_slice(&part[part_ip.l4_offset()..part_ip.end()]);
        }
        assert_eq!(data, frame[ip.l4_offset()..ip.end()]);
    }
}

/// Two bytes that choose, then a frame that is answered by an ICMP error, an echo or a reset.
pub fn wire_build_error(data: &[u8]) -> Verdict {
    let [choice, mtu, frame @ ..] = data else { return Verdict::Refused };
    let mtu = u16::from(*mtu) << 8 | 0x5a;
    let kind = match choice % 6 {
        0 => IcmpError::FragmentationNeeded { mtu },
        1 => IcmpError::PacketTooBig { mtu: u32::from(mtu) << 8 },
        2 => IcmpError::TimeExceeded,
        3 => IcmpError::HostUnreachable,
        4 => IcmpError::PortUnreachable,
        _ => IcmpError::AdminProhibited,
    };
    let mut verdict = Verdict::Refused;
    for from in [IpAddr::from([192, 0, 2, 1]), IpAddr::V6(Ipv6Addr::from_bits(0xfd << 120 | 1))] {
        let Some(error) = build::icmp_error(frame, from, kind) else { continue };
        verdict = Verdict::Read;
        let (reply, ip) = answer(frame, &error);
        assert_eq!(reply.src, from);
        assert!(usize::from(reply.total_len) <= if reply.is_v6() { 1280 } else { 576 });
        let quote = quoted::parse(&error, &reply).expect("it quotes the packet");
        assert_eq!((quote.src, quote.dst, quote.proto), (ip.src, ip.dst, ip.proto));
        assert!(build::icmp_error(&error, from, kind).is_none(), "an error about an error");
    }
    for reply in [build::echo_reply(frame), build::tcp_reset(frame)].into_iter().flatten() {
        verdict = Verdict::Read;
        let (reply_ip, ip) = answer(frame, &reply);
        assert_eq!((reply_ip.src, reply_ip.proto), (ip.dst, ip.proto));
        assert!(
            build::echo_reply(&reply).is_none() && build::tcp_reset(&reply).is_none(),
            "it would go on forever"
        );
    }
    verdict
}

/// An answer is whole, and goes where the frame came from.
fn answer(frame: &[u8], reply: &[u8]) -> (Ip, Ip) {
    checksum::verify(reply).expect("an answer is whole");
    let (to, from) = (parse(frame).expect("it was answered"), parse(reply).expect("it was verified"));
    assert_eq!((from.l2.dst, from.l2.vlan), (to.l2.src, to.l2.vlan));
    let (ip, reply) = (*to.ip().expect("it was answered"), *from.ip().expect("it is IP"));
    assert_eq!(reply.dst, ip.src);
    (reply, ip)
}

/// Six bytes of new addresses and ports, then a frame: rewriting keeps right checksums right, and can be undone.
pub fn wire_rewrite(data: &[u8]) -> Verdict {
    let [which, a, b, c, d, ttl, frame @ ..] = data else { return Verdict::Refused };
    let mut frame = frame.to_vec();
    let Ok(Some(mut ip)) = parse(&frame).map(|parsed| parsed.ip().copied()) else { return Verdict::Refused };
    let right = checksum::fill(&mut frame).is_ok();
    let address = |last: u8| match ip.src {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::new(10, *a, *b, last)),
        IpAddr::V6(_) => {
            IpAddr::V6(Ipv6Addr::from([*a, 0, *b, 0, 0xff, 0xff, *c, *d, 0, 0, 1, 0, 255, 0, 0, last]))
        }
    };
    let change = Rewrite {
        src: (which & 1 != 0).then(|| address(*c)),
        dst: (which & 2 != 0).then(|| address(*d)),
        sport: (which & 4 != 0).then(|| u16::from_be_bytes([*a, *c])),
        dport: (which & 8 != 0).then(|| u16::from_be_bytes([*b, *d])),
    };
    let before = (frame.clone(), ip);
    if change.apply(&mut frame, &mut ip).is_err() {
        assert_eq!((&frame, ip), (&before.0, before.1), "it was refused");
        return Verdict::Refused;
    }
    // A port may have become the one of tunnels: then what was data is read as a frame.
    let ports: &[u16] = if change.dport == Some(vxlan::UDP_PORT) { &[] } else { &[vxlan::UDP_PORT] };
    assert!(!right || checksum::verify_with(&frame, ports).is_ok(), "{:?}", checksum::verify(&frame));
    let read = parse(&frame).expect("it is still a frame");
    assert_eq!(read.ip(), Some(&ip), "the frame is not what the parse was made to say");
    if *ttl & 1 != 0 && rewrite::decrement_ttl(&mut frame, &mut ip) {
        assert!(rewrite::tos(&mut frame, &mut ip, *ttl));
        assert!(!right || checksum::verify_with(&frame, ports).is_ok(), "{:?}", checksum::verify(&frame));
        assert_eq!(parse(&frame).expect("it is still a frame").ip(), Some(&ip));
    }
    quote(&frame, &ip, &change, right);
    Verdict::Read
}

/// The packet that an error quotes is rewritten too.
fn quote(frame: &[u8], ip: &Ip, change: &Rewrite, right: bool) {
    let Some(quoted) = quoted::parse(frame, ip) else { return };
    let mut led_back = frame.to_vec();
    let ports = quoted.ports.is_some();
    let change =
        Rewrite { sport: change.sport.filter(|_| ports), dport: change.dport.filter(|_| ports), ..*change };
    if change.apply_to_quote(&mut led_back, ip, &quoted).is_ok() {
        assert!(!right || checksum::verify(&led_back).is_ok(), "{:?}", checksum::verify(&led_back));
        let again = quoted::parse(&led_back, ip).expect("it still quotes");
        assert_eq!(again.src, change.src.unwrap_or(quoted.src));
        assert_eq!(again.dst, change.dst.unwrap_or(quoted.dst));
    }
}

/// A capture; what is read of it is written and read again.
pub fn pcapng_reader(data: &[u8]) -> Verdict {
    let mut failed = false;
    let mut blocks = 0;
    for block in Reader::new(data) {
        assert!(!failed, "nothing comes after an error");
        failed = block.is_err();
        blocks += usize::from(matches!(block, Ok(Block::Packet(_) | Block::Interface(_))));
    }
    let Ok(packets) = Reader::new(data).packets() else { return Verdict::Refused };
    assert!(!failed, "one reader refuses what the other takes");
    let mut writer = Writer::new(Vec::new(), &About::default()).expect("memory takes it");
    for (interface, packet) in &packets {
        let number = writer.add_interface(&interface.name, &interface.description).expect("memory takes it");
        let comments: Vec<&str> = packet.comments.iter().map(String::as_str).collect();
        let meta = PacketMeta {
            interface: number,
            nanos: packet.nanos,
            direction: packet.direction,
            id: packet.id,
            comments: &comments,
        };
        writer.packet(&meta, packet.data).expect("memory takes it");
    }
    let written = writer.finish().expect("memory takes it");
    let again = Reader::new(&written).packets().expect("own captures are read");
    assert_eq!(again.len(), packets.len());
    for ((_, old), (_, new)) in packets.iter().zip(&again) {
        assert_eq!(
            (old.nanos, old.direction, old.id, old.data),
            (new.nanos, new.direction, new.id, new.data)
        );
        // Replacing what is no UTF-8 may have made it too long.
        assert!(old.comments.iter().zip(&new.comments).all(|(old, new)| old.starts_with(new.as_str())));
        assert_eq!(old.comments.len(), new.comments.len());
    }
    if blocks > 0 { Verdict::Read } else { Verdict::Refused }
}
