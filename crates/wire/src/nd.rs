//! Neighbour discovery as it is read (RFC 4861): who asks for an IPv6 address, and who has it.

use std::net::{IpAddr, Ipv6Addr};

use crate::frame::{Ip, L4};
use crate::{Mac, bytes};

/// A neighbour solicitation or advertisement that passed the checks of RFC 4861 sections 7.1.1 and 7.1.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// Who has the target?
    Solicitation {
        /// The address that is asked for.
        target: Ipv6Addr,
        /// The MAC address of who asks; not there in a probe for a duplicate.
        source: Option<Mac>,
    },
    /// The target is here.
    Advertisement {
        /// The address that is told of.
        target: Ipv6Addr,
        /// Its MAC address; may be left out in an answer to who knows it already.
        mac: Option<Mac>,
        /// The sender is a router.
        router: bool,
        /// The answer to a solicitation.
        solicited: bool,
        /// Replaces what the receiver knows.
        overrides: bool,
    },
}

const SOURCE_LINK_LAYER: u8 = 1;
const TARGET_LINK_LAYER: u8 = 2;

/// Reads the message of a frame whose parse gave `ip`; `None` when it is another or breaks a rule, in which case it
/// must be ignored. The checksum is not looked at.
pub fn read(frame: &[u8], ip: &Ip) -> Option<Message> {
    let L4::Icmp6 { kind: kind @ (135 | 136), code: 0, .. } = ip.l4 else { return None };
    // A hop limit of 255 shows that no router was between.
    let (IpAddr::V6(src), IpAddr::V6(dst), 255, false) = (ip.src, ip.dst, ip.ttl, ip.is_fragment()) else {
        return None;
    };
    let message = frame.get(ip.l4_offset()..ip.end())?;
    let flags = bytes::get_u8(message, 4)?;
    let target = Ipv6Addr::from_bits(bytes::get_u128(message, 8)?);
    let options = message.get(24..)?;
    if target.is_multicast() {
        return None;
    }
    if kind == 135 {
        let Link(source) = link_layer(options, SOURCE_LINK_LAYER)?;
        let probe = src.is_unspecified();
        let to_solicited_node = dst.segments()[..7] == crate::build::solicited_node(target).segments()[..7];
        if probe && (source.is_some() || !to_solicited_node) {
            return None;
        }
        return Some(Message::Solicitation { target, source });
    }
    let solicited = flags & 0x40 != 0;
    if solicited && dst.is_multicast() {
        return None;
    }
    let Link(mac) = link_layer(options, TARGET_LINK_LAYER)?;
    Some(Message::Advertisement {
        target,
        mac,
        router: flags & 0x80 != 0,
        solicited,
        overrides: flags & 0x20 != 0,
    })
}

/// Reads the message of a frame.
pub fn parse(frame: &[u8]) -> Option<Message> {
    read(frame, crate::parse(frame).ok()?.ip()?)
}

/// A link-layer address, when the option is there.
struct Link(Option<Mac>);

/// The first option of this kind; `None` when the options are malformed, which makes the whole message
/// invalid.
fn link_layer(mut options: &[u8], wanted: u8) -> Option<Link> {
    let mut found = None;
    while !options.is_empty() {
        let length = usize::from(bytes::get_u8(options, 1)?) * 8;
        let option = options.get(..length).filter(|option| !option.is_empty())?;
        if option.first() == Some(&wanted) && length == 8 {
            found = found.or(bytes::get_mac(option, 2));
        }
        options = options.get(length..)?;
    }
    Some(Link(found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{
        FrameBuilder, all_nodes, multicast_mac, neighbor_advertisement, neighbor_solicitation, solicited_node,
    };

    const A: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const B: Mac = Mac([2, 0, 0, 0, 0, 2]);
    const IP_A: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
    const IP_B: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0x12, 0x3456);

    #[test]
    fn what_is_built_is_read() {
        let asked = neighbor_solicitation(A, IP_A, IP_B);
        assert_eq!(parse(&asked), Some(Message::Solicitation { target: IP_B, source: Some(A) }));
        assert_eq!(asked[..6], [0x33, 0x33, 0xff, 0x12, 0x34, 0x56]);
        let probe = neighbor_solicitation(A, Ipv6Addr::UNSPECIFIED, IP_B);
        assert_eq!(parse(&probe), Some(Message::Solicitation { target: IP_B, source: None }));
        for (to, solicited) in [(IP_A, true), (all_nodes(), false)] {
            let told = neighbor_advertisement(B, IP_B, multicast_mac(to), to, solicited);
            let wanted = Message::Advertisement {
                target: IP_B,
                mac: Some(B),
                router: false,
                solicited,
                overrides: true,
            };
            assert_eq!(parse(&told), Some(wanted));
        }
        for frame in [asked, probe] {
            crate::checksum::verify(&frame).unwrap();
        }
    }

    #[test]
    fn broken_rules_make_it_nothing() {
        let message = |kind: u8, ttl: u8, target: Ipv6Addr, options: &[u8]| {
            let body = [&target.octets()[..], options].concat();
            let to = solicited_node(IP_B);
            parse(
                &FrameBuilder::eth(A, B)
                    .ipv6(IP_A, to)
                    .ttl(ttl)
                    .icmp6(kind, 0, [0x40, 0, 0, 0])
                    .payload(&body)
                    .build(),
            )
        };
        let mac_option = [1, 1, 2, 0, 0, 0, 0, 1];
        assert!(message(135, 255, IP_B, &mac_option).is_some());
        assert_eq!(message(135, 254, IP_B, &mac_option), None, "came through a router");
        assert_eq!(message(135, 255, all_nodes(), &mac_option), None, "nobody is a group");
        assert_eq!(message(135, 255, IP_B, &[1, 0, 0, 0, 0, 0, 0, 0]), None, "an option of length 0");
        assert_eq!(message(135, 255, IP_B, &[1, 2, 0, 0, 0, 0, 0, 0]), None, "an option past the end");
        assert_eq!(message(136, 255, IP_B, &[]), None, "solicited, and to a group");
        assert_eq!(message(134, 255, IP_B, &[]), None, "another message");
    }
}
