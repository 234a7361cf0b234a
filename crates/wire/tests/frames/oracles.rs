//! Two other implementations as judges: what is built here they must read the same, and what they build must be read
//! the same here. Checksums are judged by smoltcp, structure by etherparse.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::samples::{Spec, Upper, spec};
use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice, VlanHeader, VlanId, VlanPcp};
use proptest::prelude::*;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire as theirs;
use wire::{Arp, ArpOp, Ip, Kind, L4, Mac, TcpFlags, VlanTag, build, nd, parse};

fn ip(frame: &[u8]) -> Ip {
    *parse(frame).expect("the frame is read").ip().expect("it is IP")
}

/// etherparse reads the same words.
fn same_structure(frame: &[u8]) {
    let ours = parse(frame).expect("the frame is read");
    let sliced = SlicedPacket::from_ethernet(frame).expect("etherparse reads the frame");
    let Some(etherparse::LinkSlice::Ethernet2(link)) = &sliced.link else { panic!("{sliced:?}") };
    assert_eq!((Mac(link.source()), Mac(link.destination())), (ours.l2.src, ours.l2.dst));
    let tag = sliced.link_exts.first().map(|extension| {
        let etherparse::LinkExtSlice::Vlan(vlan) = extension else { panic!("{extension:?}") };
        VlanTag {
            id: vlan.vlan_identifier().value(),
            pcp: vlan.priority_code_point().value(),
            dei: vlan.drop_eligible_indicator(),
        }
    });
    assert_eq!(tag, ours.l2.vlan);
    let Kind::Ip(ip) = ours.kind else { panic!("{ours:?}") };
    let payload = match &sliced.net {
        Some(NetSlice::Ipv4(v4)) => {
            let header = v4.header();
            assert_eq!(
                (IpAddr::V4(header.source_addr()), IpAddr::V4(header.destination_addr())),
                (ip.src, ip.dst)
            );
            assert_eq!((header.ttl(), header.total_len()), (ip.ttl, ip.total_len));
            assert_eq!(header.dcp().value() << 2 | header.ecn().value(), ip.tos);
            assert_eq!(
                (u32::from(header.identification()), header.dont_fragment()),
                (ip.frag.id, ip.frag.dont)
            );
            assert_eq!(header.more_fragments(), ip.frag.more);
            assert_eq!(header.fragments_offset().value() * 8, ip.frag.offset);
            assert_eq!(header.to_header().calc_header_checksum(), header.header_checksum());
            v4.payload()
        }
        Some(NetSlice::Ipv6(v6)) => {
            let header = v6.header();
            assert_eq!(
                (IpAddr::V6(header.source_addr()), IpAddr::V6(header.destination_addr())),
                (ip.src, ip.dst)
            );
            assert_eq!((header.hop_limit(), header.traffic_class()), (ip.ttl, ip.tos));
            assert_eq!(header.payload_length() + 40, ip.total_len);
            v6.payload()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!((payload.ip_number.0, payload.fragmented), (ip.proto, ip.is_fragment()));
    assert_eq!(payload.payload, &frame[ip.l4_offset()..ip.end()]);
    match (&sliced.transport, ip.l4) {
        (Some(TransportSlice::Tcp(tcp)), L4::Tcp { header_len, seq, ack, window, flags, .. }) => {
            assert_eq!(Some((tcp.source_port(), tcp.destination_port())), ip.l4.ports());
            assert_eq!(
                (tcp.sequence_number(), tcp.acknowledgment_number(), tcp.window_size()),
                (seq, ack, window)
            );
            assert_eq!(tcp.data_offset() * 4, header_len);
            let set = [
                (tcp.fin(), TcpFlags::FIN),
                (tcp.syn(), TcpFlags::SYN),
                (tcp.rst(), TcpFlags::RST),
                (tcp.psh(), TcpFlags::PSH),
                (tcp.ack(), TcpFlags::ACK),
                (tcp.urg(), TcpFlags::URG),
                (tcp.ece(), TcpFlags::ECE),
                (tcp.cwr(), TcpFlags::CWR),
            ];
            for (set, flag) in set {
                assert_eq!(set, flags.contains(flag));
            }
        }
        (Some(TransportSlice::Udp(udp)), L4::Udp { len, .. }) => {
            assert_eq!(Some((udp.source_port(), udp.destination_port())), ip.l4.ports());
            assert_eq!(udp.length(), len);
        }
        (Some(TransportSlice::Icmpv4(icmp)), L4::Icmp { kind, code, .. }) => {
            assert_eq!((icmp.type_u8(), icmp.code_u8()), (kind, code));
        }
        (Some(TransportSlice::Icmpv6(icmp)), L4::Icmp6 { kind, code, .. }) => {
            assert_eq!((icmp.type_u8(), icmp.code_u8()), (kind, code));
        }
        (None, L4::Sctp { .. } | L4::Other | L4::None) => {}
        // Of a fragment etherparse reads no upper layer, though the first has its header.
        (None, _) if ip.is_first() => {}
        (theirs, ours) => panic!("{theirs:?} and {ours:?}"),
    }
}

/// smoltcp finds every checksum right.
fn same_sums(spec: &Spec, frame: &[u8]) {
    let ip = ip(frame);
    let (src, dst): (theirs::IpAddress, theirs::IpAddress) = (ip.src.into(), ip.dst.into());
    if ip.src.is_ipv4() {
        let packet = theirs::Ipv4Packet::new_checked(&frame[ip.offset.into()..]).expect("it is IPv4");
        assert!(packet.verify_checksum());
    }
    let upper = &frame[ip.l4_offset()..ip.end()];
    match (&spec.upper, ip.src, ip.dst) {
        (Upper::Tcp { .. }, ..) => {
            let segment = theirs::TcpPacket::new_checked(upper).expect("it is TCP");
            assert!(segment.verify_checksum(&src, &dst));
            assert_eq!(segment.payload(), spec.payload);
        }
        (Upper::Udp { .. }, ..) => {
            let datagram = theirs::UdpPacket::new_checked(upper).expect("it is UDP");
            assert!(datagram.verify_checksum(&src, &dst));
            assert_eq!(datagram.payload(), spec.payload);
        }
        (Upper::Echo { id, seq, .. }, IpAddr::V4(_), _) => {
            let message = theirs::Icmpv4Packet::new_checked(upper).expect("it is ICMP");
            assert!(message.verify_checksum());
            assert_eq!((message.echo_ident(), message.echo_seq_no()), (*id, *seq));
        }
        (Upper::Echo { id, seq, .. }, IpAddr::V6(src), IpAddr::V6(dst)) => {
            let message = theirs::Icmpv6Packet::new_checked(upper).expect("it is ICMPv6");
            assert!(message.verify_checksum(&src, &dst));
            assert_eq!((message.echo_ident(), message.echo_seq_no()), (*id, *seq));
        }
        _ => {}
    }
}

/// The frame as etherparse builds it, of what its builder can do.
fn built_by_etherparse(spec: &Spec) -> Option<Vec<u8>> {
    let link = PacketBuilder::ethernet2(spec.src_mac.0, spec.dst_mac.0);
    let link = match spec.vlan {
        None => link.ip(headers(spec)?),
        Some(tag) => link
            .vlan(VlanHeader::Single(etherparse::SingleVlanHeader {
                pcp: VlanPcp::try_new(tag.pcp).ok()?,
                drop_eligible_indicator: tag.dei,
                vlan_id: VlanId::try_new(tag.id).ok()?,
                ether_type: etherparse::EtherType(0),
            }))
            .ip(headers(spec)?),
    };
    let mut frame = Vec::new();
    match &spec.upper {
        Upper::Tcp { sport, dport, flags, seq, ack, window, options } => {
            let mut header = etherparse::TcpHeader::new(*sport, *dport, *seq, *window);
            header.acknowledgment_number = *ack;
            header.fin = flags.contains(TcpFlags::FIN);
            header.syn = flags.contains(TcpFlags::SYN);
            header.rst = flags.contains(TcpFlags::RST);
            header.psh = flags.contains(TcpFlags::PSH);
            header.ack = flags.contains(TcpFlags::ACK);
            header.urg = flags.contains(TcpFlags::URG);
            header.ece = flags.contains(TcpFlags::ECE);
            header.cwr = flags.contains(TcpFlags::CWR);
            header.set_options_raw(options).ok()?;
            link.tcp_header(header).write(&mut frame, &spec.payload).ok()?;
        }
        Upper::Udp { sport, dport, checksum: true } => {
            link.udp(*sport, *dport).write(&mut frame, &spec.payload).ok()?;
        }
        Upper::Echo { request, id, seq } => {
            let step = match (spec.src.is_ipv6(), request) {
                (false, true) => link.icmpv4_echo_request(*id, *seq),
                (false, false) => link.icmpv4_echo_reply(*id, *seq),
                (true, true) => {
                    link.icmpv6_echo_request(*id, *seq).write(&mut frame, &spec.payload).ok()?;
                    return Some(frame);
                }
                (true, false) => {
                    link.icmpv6_echo_reply(*id, *seq).write(&mut frame, &spec.payload).ok()?;
                    return Some(frame);
                }
            };
            step.write(&mut frame, &spec.payload).ok()?;
        }
        _ => return None,
    }
    Some(frame)
}

fn headers(spec: &Spec) -> Option<etherparse::IpHeaders> {
    match (spec.src, spec.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut padded = spec.ipv4_options.clone();
            padded.resize(padded.len().next_multiple_of(4), 0);
            let header = etherparse::Ipv4Header {
                dscp: (spec.tos >> 2).try_into().ok()?,
                ecn: (spec.tos & 3).try_into().ok()?,
                identification: spec.ipid,
                dont_fragment: spec.df,
                time_to_live: spec.ttl,
                source: src.octets(),
                destination: dst.octets(),
                options: padded.as_slice().try_into().ok()?,
                ..etherparse::Ipv4Header::default()
            };
            Some(etherparse::IpHeaders::Ipv4(header, etherparse::Ipv4Extensions::default()))
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) if spec.extensions.is_empty() => {
            let header = etherparse::Ipv6Header {
                traffic_class: spec.tos,
                hop_limit: spec.ttl,
                source: src.octets(),
                destination: dst.octets(),
                ..etherparse::Ipv6Header::default()
            };
            Some(etherparse::IpHeaders::Ipv6(header, etherparse::Ipv6Extensions::default()))
        }
        _ => None,
    }
}

/// etherparse keeps one extension header of each kind, in the order that RFC 8200 recommends.
fn known_to_etherparse(spec: &Spec) -> bool {
    let kinds: Vec<u8> = spec.extensions.iter().map(|(kind, _)| *kind).collect();
    let routing = wire::proto::ROUTING;
    let destination = wire::proto::DESTINATION;
    let hop_by_hop = wire::proto::HOP_BY_HOP;
    let rest = kinds.strip_prefix(&[hop_by_hop]).unwrap_or(&kinds);
    [&[][..], &[destination], &[routing], &[destination, routing], &[routing, destination]].contains(&rest)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn they_read_what_is_built_here(spec in spec()) {
        // etherparse takes an IPv6 payload length of 0 for "up to the end", padding and all.
        let empty = spec.src.is_ipv6() && spec.payload.is_empty();
        let spec = Spec { padding: if empty { 0 } else { spec.padding }, ..spec };
        let frame = spec.build();
        same_sums(&spec, &frame);
        if known_to_etherparse(&spec) {
            same_structure(&frame);
        }
    }

    #[test]
    fn they_read_fragments(spec in spec(), offset in prop_oneof![Just(0), 0_u16..8000], more in any::<bool>(), id in any::<u32>()) {
        // A whole packet in pieces is in the laws; here it is about the fields.
        let spec = Spec { payload: vec![7; 64], extensions: Vec::new(), ..spec };
        let frame = spec.builder().fragment(id, offset, more).build();
        same_structure(&frame);
    }

    #[test]
    fn what_etherparse_builds_is_the_same_to_the_byte(spec in spec()) {
        let spec = Spec { padding: 0, ..spec };
        if let Some(frame) = built_by_etherparse(&spec) {
            prop_assert_eq!(spec.build(), frame);
        }
    }

    #[test]
    fn etherparse_refuses_what_is_refused_here(
        spec in spec(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let spec = Spec { extensions: Vec::new(), padding: 0, ..spec };
        let mut frame = spec.build();
        let headers = ip(&frame).payload_offset();
        let at = at.index(headers);
        frame[at] = byte;
        frame.truncate(frame.len() - cut.index(4));
        // Whatever passes the strict parse here must be readable for a lenient reader; the reverse is not asked.
        if let Ok(parsed) = parse(&frame) {
            let tags_inside = parsed.l2.vlan.is_some() && parsed.ip().is_none();
            if !tags_inside && parsed.ip().is_some_and(|ip| matches!(ip.l4, L4::Tcp { .. } | L4::Udp { .. })) {
                prop_assert!(SlicedPacket::from_ethernet(&frame).is_ok(), "{}", wire::describe(&frame));
            }
        }
    }

    #[test]
    fn what_smoltcp_emits_is_read(
        addresses in any::<(Ipv4Addr, Ipv4Addr)>(),
        ports in (1_u16.., 1_u16..),
        numbers in any::<(i32, i32, u16)>(),
        mss in any::<Option<u16>>(),
        payload in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let (src, dst) = addresses;
        let sums = ChecksumCapabilities::default();
        let segment = theirs::TcpRepr {
            src_port: ports.0,
            dst_port: ports.1,
            control: theirs::TcpControl::Syn,
            seq_number: theirs::TcpSeqNumber(numbers.0),
            ack_number: Some(theirs::TcpSeqNumber(numbers.1)),
            window_len: numbers.2,
            window_scale: Some(7),
            max_seg_size: mss,
            sack_permitted: true,
            sack_ranges: [None, None, None],
            timestamp: None,
            payload: &payload,
        };
        let header = theirs::Ipv4Repr {
            src_addr: src,
            dst_addr: dst,
            next_header: theirs::IpProtocol::Tcp,
            payload_len: segment.buffer_len(),
            hop_limit: 61,
        };
        let mut frame = vec![0; 14 + 20 + segment.buffer_len()];
        let link = theirs::EthernetRepr {
            src_addr: theirs::EthernetAddress([2; 6]),
            dst_addr: theirs::EthernetAddress([4; 6]),
            ethertype: theirs::EthernetProtocol::Ipv4,
        };
        link.emit(&mut theirs::EthernetFrame::new_unchecked(&mut frame[..]));
        header.emit(&mut theirs::Ipv4Packet::new_unchecked(&mut frame[14..]), &sums);
        segment.emit(
            &mut theirs::TcpPacket::new_unchecked(&mut frame[34..]),
            &src.into(),
            &dst.into(),
            &sums,
        );
        wire::checksum::verify(&frame).expect("its checksums are right");
        let ip = ip(&frame);
        prop_assert_eq!((ip.src, ip.dst, ip.ttl), (src.into(), dst.into(), 61));
        let L4::Tcp { sport, dport, flags, seq, ack, window, .. } = ip.l4 else { panic!("{ip:?}") };
        prop_assert_eq!((sport, dport, flags), (ports.0, ports.1, TcpFlags::SYN | TcpFlags::ACK));
        prop_assert_eq!((seq.cast_signed(), ack.cast_signed(), window), numbers);
        prop_assert_eq!(wire::tcp::mss(&frame, &ip), mss);
        prop_assert_eq!(&frame[ip.payload_offset()..], payload);
    }

    #[test]
    fn arp_is_the_same(macs in any::<([u8; 6], [u8; 6])>(), ips in any::<(Ipv4Addr, Ipv4Addr)>(), request in any::<bool>()) {
        let frame = if request {
            build::arp_request(Mac(macs.0), ips.0, ips.1)
        } else {
            build::arp_reply(Mac(macs.0), ips.0, Mac(macs.1), ips.1)
        };
        let packet = theirs::ArpPacket::new_checked(&frame[14..]).expect("it is ARP");
        let theirs::ArpRepr::EthernetIpv4 { operation, source_hardware_addr, source_protocol_addr, target_hardware_addr, target_protocol_addr } =
            theirs::ArpRepr::parse(&packet).expect("it is for Ethernet and IPv4")
        else {
            panic!("of another kind")
        };
        let op = if operation == theirs::ArpOperation::Request { ArpOp::Request } else { ArpOp::Reply };
        let read = Arp {
            op,
            sender_mac: Mac(source_hardware_addr.0),
            sender_ip: source_protocol_addr,
            target_mac: Mac(target_hardware_addr.0),
            target_ip: target_protocol_addr,
        };
        prop_assert_eq!(parse(&frame).expect("it is read").kind, Kind::Arp(read));
        prop_assert_eq!(op == ArpOp::Request, request);
    }

    #[test]
    fn neighbour_messages_are_the_same(mac in any::<[u8; 6]>(), ips in any::<(Ipv6Addr, Ipv6Addr)>(), solicited in any::<bool>()) {
        // smoltcp takes no addresses of groups, as it must.
        let single = |ip: Ipv6Addr| Ipv6Addr::from_bits(ip.to_bits() & u128::MAX >> 1 | 1);
        let (from, to) = (single(ips.0), single(ips.1));
        let mac = [mac[0] & 0xfe, mac[1], mac[2], mac[3], mac[4], mac[5]];
        let read = |frame: &[u8]| {
            let ip = ip(frame);
            let (IpAddr::V6(src), IpAddr::V6(dst)) = (ip.src, ip.dst) else { panic!("{ip:?}") };
            let packet = theirs::Icmpv6Packet::new_checked(&frame[ip.l4_offset()..ip.end()]).expect("ICMPv6");
            assert!(packet.verify_checksum(&src, &dst));
            let address = |option: Option<theirs::RawHardwareAddress>| {
                option.map(|address| Mac(address.as_bytes().try_into().expect("six bytes")))
            };
            match theirs::NdiscRepr::parse(&packet).expect("a neighbour message") {
                theirs::NdiscRepr::NeighborSolicit { target_addr, lladdr } => {
                    nd::Message::Solicitation { target: target_addr, source: address(lladdr) }
                }
                theirs::NdiscRepr::NeighborAdvert { flags, target_addr, lladdr } => nd::Message::Advertisement {
                    target: target_addr,
                    mac: address(lladdr),
                    router: flags.contains(theirs::NdiscNeighborFlags::ROUTER),
                    solicited: flags.contains(theirs::NdiscNeighborFlags::SOLICITED),
                    overrides: flags.contains(theirs::NdiscNeighborFlags::OVERRIDE),
                },
                other => panic!("{other:?}"),
            }
        };
        let asked = build::neighbor_solicitation(Mac(mac), from, to);
        prop_assert_eq!(nd::parse(&asked), Some(read(&asked)));
        let told = build::neighbor_advertisement(Mac(mac), from, Mac([2; 6]), to, solicited);
        prop_assert_eq!(nd::parse(&told), Some(read(&told)));
    }
}
