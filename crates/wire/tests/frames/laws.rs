//! Laws that hold for every frame: what is built is read, a difference is as good as a recomputation, a tunnel gives
//! back what was put in, and nothing that is read panics.

use std::net::IpAddr;

use crate::samples::{Spec, Upper, addresses, spec};
use proptest::prelude::*;
use wire::checksum::{self, Delta};
use wire::rewrite::{self, Rewrite, RewriteError};
use wire::vxlan::{self, Outer};
use wire::{Ip, Kind, L4, Mac, Packet, VlanTag, ipv4, ipv6, nd, parse, quoted, tcp, vlan};

fn ip(frame: &[u8]) -> Ip {
    *parse(frame).expect("the frame is read").ip().expect("it is IP")
}

/// Same fields, whatever the order in which a builder wrote them.
fn agrees(spec: &Spec, frame: &[u8]) {
    let parsed = parse(frame).expect("the frame is read");
    assert_eq!((parsed.l2.src, parsed.l2.dst, parsed.l2.vlan), (spec.src_mac, spec.dst_mac, spec.vlan));
    let ip = ip(frame);
    assert_eq!(
        (ip.src, ip.dst, ip.ttl, ip.tos, ip.proto),
        (spec.src, spec.dst, spec.ttl, spec.tos, spec.proto())
    );
    assert!(!ip.is_fragment());
    if !ip.is_v6() {
        assert_eq!((ip.frag.id, ip.frag.dont), (spec.ipid.into(), spec.df));
    }
    assert_eq!(&frame[ip.payload_offset()..ip.end()], &spec.payload);
    assert_eq!(ip.l4, spec.l4());
}

fn outer() -> impl Strategy<Value = Outer> {
    let link = (any::<[u8; 6]>(), any::<[u8; 6]>(), prop::option::of(0_u16..4096));
    let rest = (any::<(u32, u16, u8, u8, bool)>(), prop::sample::select(vec![vxlan::UDP_PORT, 9898]));
    (link, addresses(), rest).prop_map(
        |((src_mac, dst_mac, tag), (src, dst), ((hash, vni, ttl, tos, df), dst_port))| Outer {
            src_mac: Mac(src_mac),
            dst_mac: Mac(dst_mac),
            vlan: tag.map(VlanTag::new),
            src,
            dst,
            src_port: vxlan::source_port(hash),
            dst_port,
            vni: vni.into(),
            ttl,
            tos,
            df,
        },
    )
}

/// Everything that reads, on any bytes.
fn read_everything(frame: &[u8]) {
    let parsed = parse(frame);
    let line = wire::describe(frame);
    assert!(!line.contains('\n'), "{line}");
    let _ = (checksum::verify(frame), nd::parse(frame), vxlan::parse(frame), quoted::read(frame));
    if let Ok(Some(ip)) = parsed.as_ref().map(wire::Frame::ip) {
        assert!(ip.payload_offset() <= ip.end() && ip.end() <= frame.len());
        let _ = (tcp::mss(frame, ip), quoted::parse(frame, ip), nd::read(frame, ip));
    }
    let mut packet = Packet::new(frame);
    if let Some(tag) = vlan::clear(&mut packet) {
        let inside = wire::bytes::get_u16(packet.data(), 12) == Some(wire::ethertype::VLAN);
        // A second tag is the one that is replaced, when it is there in whole.
        let set = vlan::set(&mut packet, tag);
        assert!(inside || (set && packet.data() == frame));
    }
    let mut filled = frame.to_vec();
    assert_eq!(checksum::fill(&mut filled).is_ok(), parsed.is_ok() || checksum::fill(&mut filled).is_ok());
}

/// A change for this packet: sometimes more than it can take.
fn change_of(spec: &Spec, new: (IpAddr, IpAddr), which: u8, ports: (u16, u16)) -> Rewrite {
    let same = spec.src.is_ipv6() == new.0.is_ipv6();
    Rewrite {
        src: (same && which & 1 != 0).then_some(new.0),
        dst: (same && which & 2 != 0).then_some(new.1),
        sport: (which & 4 != 0).then_some(ports.0),
        dport: (which & 8 != 0).then_some(ports.1),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_built_is_read(spec in spec()) {
        let frame = spec.build();
        agrees(&spec, &frame);
        checksum::verify(&frame).expect("its checksums are right");
        read_everything(&frame);
    }

    #[test]
    fn filling_changes_nothing_that_was_right_and_mends_all_that_was_not(spec in spec(), mask in 1_u16..0xffff) {
        let frame = spec.build();
        let mut again = frame.clone();
        checksum::fill(&mut again).expect("it is a frame");
        let unchecked = matches!(spec.upper, Upper::Udp { checksum: false, .. }) && !spec.src.is_ipv6();
        prop_assert!(unchecked || again == frame);
        let ip = ip(&frame);
        let place = match ip.l4 {
            L4::Tcp { .. } => Some(16),
            L4::Udp { .. } if !unchecked => Some(6),
            L4::Sctp { .. } => Some(8),
            L4::Icmp { .. } | L4::Icmp6 { .. } => Some(2),
            _ => None,
        };
        let mut broken = frame.clone();
        let place = place.map_or(usize::from(ip.offset) + 10, |place| ip.l4_offset() + place);
        if matches!(ip.l4, L4::Other | L4::Udp { .. }) && (ip.is_v6() || unchecked || ip.l4 != L4::Other) {
            return Ok(());
        }
        let word = u16::from_be_bytes([broken[place], broken[place + 1]]) ^ mask;
        wire::bytes::set_u16(&mut broken, place, word);
        prop_assert!(checksum::verify(&broken).is_err());
        checksum::fill(&mut broken).expect("it is a frame");
        prop_assert_eq!(broken, again);
    }

    #[test]
    fn any_flipped_bit_is_seen(spec in spec(), at in any::<prop::sample::Index>(), bit in 0_u8..8) {
        let frame = spec.build();
        let ip = ip(&frame);
        let covered = match (&spec.upper, ip.is_v6()) {
            (Upper::Raw(_), false) => usize::from(ip.offset)..ip.l4_offset(),
            (Upper::Udp { checksum: false, .. }, false) | (Upper::Raw(_), true) => return Ok(()),
            _ => ip.l4_offset()..ip.end(),
        };
        let at = covered.start + at.index(covered.len());
        let udp = matches!(spec.upper, Upper::Udp { .. });
        // What is covered is another part then, whose sum may be right by chance.
        prop_assume!(!(udp && (4..6).contains(&(at - covered.start))));
        prop_assume!(at != usize::from(ip.offset));
        let mut broken = frame;
        broken[at] ^= 1 << bit;
        // And 0 says that there is no checksum.
        prop_assume!(!(udp && broken[covered.start + 6..covered.start + 8] == [0, 0]));
        prop_assert!(checksum::verify(&broken).is_err());
    }

    #[test]
    fn a_difference_is_as_good_as_a_recomputation(
        spec in spec(),
        new in addresses(),
        which in 0_u8..16,
        ports in any::<(u16, u16)>(),
        ttl in any::<bool>(),
        tos in any::<Option<u8>>(),
    ) {
        let frame = spec.build();
        let change = change_of(&spec, new, which, ports);
        let mut changed = frame.clone();
        let mut after = ip(&frame);
        match change.apply(&mut changed, &mut after) {
            Ok(()) => {}
            Err(RewriteError::NoPort) => {
                let without = matches!(spec.upper, Upper::Raw(_) | Upper::Echo { .. });
                prop_assert!(without);
                prop_assert_eq!(&changed, &frame);
                return Ok(());
            }
            Err(other) => panic!("{other}"),
        }
        if ttl {
            prop_assert_eq!(rewrite::decrement_ttl(&mut changed, &mut after), spec.ttl > 1);
        }
        if let Some(tos) = tos {
            prop_assert!(rewrite::tos(&mut changed, &mut after, tos));
        }
        prop_assert_eq!(ip(&changed), after);
        let mut mended = changed.clone();
        checksum::fill(&mut mended).expect("it is a frame");
        let unchecked = matches!(spec.upper, Upper::Udp { checksum: false, .. }) && !spec.src.is_ipv6();
        prop_assert!(unchecked || mended == changed, "{:?}", checksum::verify(&changed));
        // And back again.
        let undo = Rewrite {
            src: change.src.map(|_| spec.src),
            dst: change.dst.map(|_| spec.dst),
            sport: change.sport.and_then(|_| word(&frame, &spec, 0)),
            dport: change.dport.and_then(|_| word(&frame, &spec, 2)),
        };
        if !ttl && tos.is_none() {
            undo.apply(&mut changed, &mut after).expect("it had these fields");
            prop_assert_eq!(changed, frame);
        }
    }

    #[test]
    fn an_error_about_a_rewritten_packet_is_led_back(
        spec in spec(),
        new in addresses(),
        which in 0_u8..16,
        ports in any::<(u16, u16)>(),
        kind in prop::sample::select(vec![
            wire::build::IcmpError::TimeExceeded,
            wire::build::IcmpError::PortUnreachable,
            wire::build::IcmpError::PacketTooBig { mtu: 1400 },
        ]),
    ) {
        let frame = spec.build();
        let change = change_of(&spec, new, which, ports);
        let mut changed = frame.clone();
        let mut after = ip(&frame);
        prop_assume!(change.apply(&mut changed, &mut after).is_ok());
        let error = wire::build::icmp_error(&changed, after.dst, kind);
        let wanted = wire::build::icmp_error(&frame, after.dst, kind);
        let (Some(mut error), Some(wanted)) = (error, wanted) else { return Ok(()) };
        let about = ip(&error);
        let Some(quote) = quoted::parse(&error, &about) else { panic!("it quotes {:?}", spec.upper) };
        let undo = Rewrite {
            src: change.src.map(|_| spec.src),
            dst: change.dst.map(|_| spec.dst),
            sport: change.sport.and_then(|_| word(&frame, &spec, 0)),
            dport: change.dport.and_then(|_| word(&frame, &spec, 2)),
        };
        undo.apply_to_quote(&mut error, &about, &quote).expect("it is the quote of this frame");
        checksum::verify(&error).expect("the error's checksum follows");
        // Of SCTP the CRC covers what an error does not quote: it stays that of the rewritten packet.
        let sctp = matches!(spec.upper, Upper::Sctp { .. }).then(|| quote.l4_offset + 8..quote.l4_offset + 12);
        let start = about.l4_offset() + 8;
        for at in start..about.end() {
            if !sctp.as_ref().is_some_and(|crc| crc.contains(&at)) {
                prop_assert_eq!(error[at], wanted[at], "byte {} of the quote", at - start);
            }
        }
    }

    #[test]
    fn a_tunnel_gives_back_what_was_put_in(spec in spec(), outer in outer(), ipid in any::<u16>(), room in 0_usize..90) {
        let frame = spec.build();
        let mut packet = Packet::with_headroom(room, &frame);
        outer.push(&mut packet, ipid).expect("it is short enough");
        let mut by_template = Packet::new(&frame);
        let template = outer.template();
        template.push(&mut by_template, outer.src_port, ipid).expect("it is short enough");
        prop_assert_eq!(&packet, &by_template);
        prop_assert_eq!(packet.len(), frame.len() + template.outer_len());
        checksum::verify_with(packet.data(), &[outer.dst_port]).expect("all checksums are right");
        let parsed = parse(packet.data()).expect("it is read");
        prop_assert_eq!((parsed.l2.src, parsed.l2.dst, parsed.l2.vlan), (outer.src_mac, outer.dst_mac, outer.vlan));
        let Kind::Ip(ip) = parsed.kind else { panic!("{parsed:?}") };
        prop_assert_eq!((ip.src, ip.dst, ip.ttl, ip.tos), (outer.src, outer.dst, outer.ttl, outer.tos));
        prop_assert_eq!(ip.l4.ports(), Some((outer.src_port, outer.dst_port)));
        if !ip.is_v6() {
            prop_assert_eq!((ip.frag.id, ip.frag.dont), (ipid.into(), outer.df));
        }
        let (vni, at) = vxlan::parse(&packet.data()[ip.payload_offset()..ip.end()]).expect("it is VXLAN");
        prop_assert_eq!(vni, outer.vni);
        read_everything(packet.data());
        prop_assert!(packet.pull(ip.payload_offset() + at));
        prop_assert_eq!(packet.data(), frame);
    }

    #[test]
    fn fragments_make_the_whole(spec in spec(), mtu in 68_usize..1500, id in any::<u32>()) {
        let frame = Spec { df: false, ..spec }.build();
        let whole = ip(&frame);
        let fragments =
            if whole.is_v6() { ipv6::fragment(&frame, mtu, id) } else { ipv4::fragment(&frame, mtu) };
        if fragments.is_empty() {
            prop_assert!(whole.is_v6() && mtu < usize::from(whole.header_len) + 16);
            return Ok(());
        }
        let mut data = Vec::new();
        for (place, fragment) in fragments.iter().enumerate() {
            let part = match parse(fragment) {
                Ok(parsed) => *parsed.ip().expect("it is IP"),
                // The first may be too short for a header of TCP with options.
                Err(error) => {
                    let short = matches!(error, wire::Malformed::Short { .. });
                    prop_assert!(short, "{}", error);
                    return Ok(());
                }
            };
            checksum::verify(fragment).expect("the header's checksum is right");
            prop_assert!(usize::from(part.total_len) <= mtu);
            prop_assert_eq!(part.is_fragment(), fragments.len() > 1);
            prop_assert_eq!(part.frag.more, place + 1 < fragments.len());
            if fragments.len() > 1 {
                prop_assert_eq!(usize::from(part.frag.offset), data.len());
                prop_assert_eq!(part.frag.id, if whole.is_v6() { id } else { whole.frag.id });
            }
            let unfragmentable = if fragments.len() > 1 && whole.is_v6() { after_fragment_header(fragment, &part) } else { part.l4_offset() };
            data.extend_from_slice(&fragment[unfragmentable..part.end()]);
        }
        prop_assert!(frame[..whole.end()].ends_with(&data));
        prop_assert!(data.len() >= whole.l4_len());
    }

    #[test]
    fn deltas_add_up(words in prop::collection::vec(any::<(u16, u16)>(), 1..20), seed in 1_u16..) {
        // Any order, one by one or together, and back.
        let bytes = |side: fn(&(u16, u16)) -> u16| {
            let mut bytes = seed.to_be_bytes().to_vec();
            for pair in &words {
                bytes.extend_from_slice(&side(pair).to_be_bytes());
            }
            bytes
        };
        let (old, new) = (bytes(|pair| pair.0), bytes(|pair| pair.1));
        let (before, after) = (checksum::finish(checksum::ones(&old, 0)), checksum::finish(checksum::ones(&new, 0)));
        let delta = words.iter().rev().fold(Delta::NONE, |delta, (old, new)| delta.word16(*old, *new));
        let halves = words.iter().fold(Delta::NONE, |delta, (old, new)| delta.and(Delta::NONE.word16(*old, *new)));
        let stepped = words.iter().fold(before, |sum, (old, new)| checksum::adjust(sum, *old, *new));
        prop_assert_eq!((delta.apply(before), halves.apply(before), stepped), (after, after, after));
        prop_assert_eq!(delta.inverse().apply(after), before);
        prop_assert_eq!(Delta::from_bits(delta.bits()), delta);
    }

    #[test]
    fn a_tag_changes_nothing_but_itself(
        spec in spec(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        // Plain frames take a short way through the parse, tagged ones never do: both must find the same.
        let mut frame = Spec { vlan: None, ..spec }.build();
        for (at, byte) in damage {
            let at = 14 + at.index((frame.len() - 14).min(60));
            frame[at] = byte;
        }
        frame.truncate(14 + cut.map_or(frame.len(), |cut| cut.index(frame.len() - 14)));
        let mut tagged = Packet::new(&frame);
        prop_assert!(vlan::set(&mut tagged, VlanTag::new(7)));
        let mut with = parse(tagged.data());
        if let Ok(found) = &mut with {
            prop_assert_eq!(found.l2.vlan.take(), Some(VlanTag::new(7)));
            found.l2.len = 14;
            if let Kind::Ip(ip) = &mut found.kind {
                ip.offset = 14;
            }
        }
        prop_assert_eq!(parse(&frame), with);
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_everything(&bytes);
    }

    #[test]
    fn damaged_frames_are_read_without_panic(
        spec in spec(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut frame = spec.build();
        for (at, byte) in damage {
            let at = at.index(frame.len().min(120));
            frame[at] = byte;
        }
        read_everything(&frame);
        frame.truncate(cut.index(frame.len()));
        read_everything(&frame);
        for answer in [wire::build::echo_reply(&frame), wire::build::tcp_reset(&frame)].into_iter().flatten() {
            checksum::verify(&answer).expect("an answer is whole");
        }
    }
}

/// The port at this place, or the identifier of an echo.
fn word(frame: &[u8], spec: &Spec, at: usize) -> Option<u16> {
    let at = if matches!(spec.upper, Upper::Echo { .. }) { 4 } else { at };
    wire::bytes::get_u16(frame, ip(frame).l4_offset() + at)
}

/// Where a fragment's data begin: behind the fragment header, though more extension headers may follow in the first.
fn after_fragment_header(frame: &[u8], ip: &Ip) -> usize {
    let start = usize::from(ip.offset);
    let (mut kind, mut at) = (frame[start + 6], start + 40);
    while kind != wire::proto::FRAGMENT {
        kind = frame[at];
        at += usize::from(frame[at + 1]) * 8 + 8;
    }
    at + 8
}
