//! The beginning of a packet that an ICMP error quotes: which flow the error is about.
//!
//! Lengths are not checked against the packet's own fields, because the quote may end anywhere behind the first
//! 8 bytes of the upper layer (RFC 792), and routers change fields before they quote.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::bytes;
use crate::frame::{Ip, L4, proto};

/// What a quote says about the flow of the packet. Offsets count from the beginning of what was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quoted {
    /// Source of the packet that failed.
    pub src: IpAddr,
    /// Its destination.
    pub dst: IpAddr,
    /// Its upper layer.
    pub proto: u8,
    /// Source and destination port of TCP, UDP and SCTP; of an echo request or reply the identifier twice.
    pub ports: Option<(u16, u16)>,
    /// Where its upper layer begins.
    pub l4_offset: usize,
}

/// Reads the quote in a frame that holds an ICMP error, with offsets that count from the beginning of the frame;
/// `None` when the frame is none or quotes too little.
pub fn parse(frame: &[u8], ip: &Ip) -> Option<Quoted> {
    let error = match ip.l4 {
        L4::Icmp { kind, .. } => matches!(kind, 3 | 4 | 5 | 11 | 12),
        L4::Icmp6 { kind, .. } => kind < 128,
        _ => false,
    };
    let at = ip.l4_offset() + 8;
    let mut quoted = read(frame.get(at..ip.end()).filter(|_| error)?)?;
    quoted.l4_offset += at;
    Some(quoted)
}

/// Reads a quote: an IP packet, perhaps cut.
pub fn read(packet: &[u8]) -> Option<Quoted> {
    let (src, dst, proto, l4_offset, first) = match packet.first()? >> 4 {
        4 => v4(packet)?,
        6 => v6(packet)?,
        _ => return None,
    };
    let word = |at: usize| bytes::get_u16(packet, l4_offset + at);
    let kind = bytes::get_u8(packet, l4_offset);
    let ports = match proto {
        proto::TCP | proto::UDP | proto::SCTP if first => word(0).zip(word(2)),
        proto::ICMP if first && src.is_ipv4() && matches!(kind, Some(0 | 8)) => word(4).zip(word(4)),
        proto::ICMP6 if first && src.is_ipv6() && matches!(kind, Some(128 | 129)) => word(4).zip(word(4)),
        _ => None,
    };
    Some(Quoted { src, dst, proto, ports, l4_offset })
}

type Read = (IpAddr, IpAddr, u8, usize, bool);

fn v4(packet: &[u8]) -> Option<Read> {
    let header = packet.first_chunk::<20>()?;
    let length = usize::from(header[0] & 15) * 4;
    // The upper three bits are flags.
    let first = bytes::get_u16(header, 6)? << 3 == 0;
    let address = |at: usize| bytes::get_u32(header, at).map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)));
    (length >= 20).then_some((address(12)?, address(16)?, header[9], length, first))
}

fn v6(packet: &[u8]) -> Option<Read> {
    let header = packet.first_chunk::<40>()?;
    let address = |at: usize| bytes::get_u128(header, at).map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits)));
    let (mut proto, mut at, mut first) = (header[6], 40, true);
    // As many as the parse follows.
    for _ in 0..8 {
        let length = match proto {
            proto::HOP_BY_HOP | proto::ROUTING | proto::DESTINATION => {
                usize::from(bytes::get_u8(packet, at + 1)?) * 8 + 8
            }
            proto::FRAGMENT => {
                first = bytes::get_u16(packet, at + 2)? & 0xfff8 == 0;
                8
            }
            _ => break,
        };
        proto = bytes::get_u8(packet, at)?;
        at += length;
        if !first {
            break;
        }
    }
    Some((address(8)?, address(24)?, proto, at, first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{FrameBuilder, IcmpError, icmp_error};
    use crate::{Mac, TcpFlags};

    #[test]
    fn the_flow_of_the_original_is_found() {
        let eth = || FrameBuilder::eth(Mac([2; 6]), Mac([4; 6]));
        let (a, b) = (Ipv6Addr::from_bits(1 << 100), Ipv6Addr::from_bits(2 << 100));
        let cases = [
            (eth().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(7, 8, TcpFlags::ACK), proto::TCP, Some((7, 8))),
            (eth().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).icmp_echo(true, 9, 1), proto::ICMP, Some((9, 9))),
            (eth().ipv6(a, b).extension(proto::DESTINATION, &[0; 9]).udp(7, 8), proto::UDP, Some((7, 8))),
            (eth().ipv6(a, b).fragment(1, 0, true).udp(7, 8), proto::UDP, Some((7, 8))),
            (eth().ipv6(a, b).proto(47), 47, None),
        ];
        for (builder, proto, ports) in cases {
            let original = builder.payload(&[0; 2000]).build();
            let of = *crate::parse(&original).unwrap().ip().unwrap();
            let error = icmp_error(&original, of.dst, IcmpError::TimeExceeded).unwrap();
            let ip = *crate::parse(&error).unwrap().ip().unwrap();
            let quoted = parse(&error, &ip).unwrap();
            assert_eq!((quoted.src, quoted.dst, quoted.proto, quoted.ports), (of.src, of.dst, proto, ports));
            let (quote, whole) = (&error[quoted.l4_offset..ip.end()], &original[of.l4_offset()..]);
            assert!(quote.len() > 400 && whole.starts_with(quote));
            assert_eq!(parse(&original, &of), None, "no error quotes nothing");
            for length in 0..quote.len() {
                let _ = read(&original[14..14 + length]);
            }
        }
    }
}
