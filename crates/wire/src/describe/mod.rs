//! A frame as one line of text, in the style of tcpdump with link-level headers, as packet monitors show it.

mod icmp;

use std::fmt;

use crate::frame::{Arp, ArpOp, Frame, Ip, Kind, L4, TcpFlags, ethertype, proto};
use crate::{bytes, vxlan};

/// How many frames inside frames are shown.
const DEPTH: usize = 3;

/// One line about the frame; numbers of TCP are absolute. Never fails: of a frame that cannot be read the line says
/// why.
pub fn describe(frame: &[u8]) -> String {
    Description(frame).to_string()
}

/// The same, written where it is wanted.
#[derive(Debug, Clone, Copy)]
pub struct Description<'a>(pub &'a [u8]);

impl fmt::Display for Description<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.0, 0)
    }
}

fn write(f: &mut fmt::Formatter<'_>, frame: &[u8], depth: usize) -> fmt::Result {
    match crate::parse(frame) {
        Ok(parsed) => {
            link(f, &parsed, frame.len())?;
            match &parsed.kind {
                Kind::Ip(ip) => {
                    f.write_str(": ")?;
                    internet(f, frame, ip, depth)
                }
                Kind::Arp(arp) => {
                    f.write_str(": ")?;
                    resolution(f, arp, frame.len().saturating_sub(parsed.l2.len.into()))
                }
                Kind::Other => Ok(()),
            }
        }
        Err(error) => {
            if let (Some(dst), Some(src)) = (bytes::get_mac(frame, 0), bytes::get_mac(frame, 6)) {
                write!(f, "{src} > {dst}, ")?;
            }
            write!(f, "length {} [malformed: {error}]", frame.len())
        }
    }
}

fn link(f: &mut fmt::Formatter<'_>, frame: &Frame, length: usize) -> fmt::Result {
    let l2 = &frame.l2;
    write!(f, "{} > {}, ", l2.src, l2.dst)?;
    if let Some(tag) = l2.vlan {
        let drop_first = if tag.dei { ", DEI" } else { "" };
        write!(
            f,
            "ethertype 802.1Q (0x8100), length {length}: vlan {}, p {}{drop_first}, ",
            tag.id, tag.pcp
        )?;
    }
    if l2.ethertype < 1536 {
        write!(f, "802.3")?;
    } else {
        let name = match l2.ethertype {
            ethertype::IPV4 => "IPv4",
            ethertype::IPV6 => "IPv6",
            ethertype::ARP => "ARP",
            ethertype::VLAN => "802.1Q",
            0x88a8 => "802.1Q-QinQ",
            0x88cc => "LLDP",
            _ => "Unknown",
        };
        write!(f, "ethertype {name} ({:#06x})", l2.ethertype)?;
    }
    if l2.vlan.is_none() {
        write!(f, ", length {length}")?;
    }
    Ok(())
}

fn resolution(f: &mut fmt::Formatter<'_>, arp: &Arp, length: usize) -> fmt::Result {
    match arp.op {
        ArpOp::Request => write!(f, "Request who-has {} tell {}", arp.target_ip, arp.sender_ip)?,
        ArpOp::Reply => write!(f, "Reply {} is-at {}", arp.sender_ip, arp.sender_mac)?,
        ArpOp::Other(op) => write!(f, "op {op} {} for {}", arp.sender_ip, arp.target_ip)?,
    }
    write!(f, ", length {length}")
}

fn internet(f: &mut fmt::Formatter<'_>, frame: &[u8], ip: &Ip, depth: usize) -> fmt::Result {
    match ip.l4.ports() {
        Some((sport, dport)) => write!(f, "{}.{sport} > {}.{dport}: ", ip.src, ip.dst)?,
        None => write!(f, "{} > {}: ", ip.src, ip.dst)?,
    }
    upper(f, frame, ip, depth)?;
    if ip.is_fragment() {
        let more = if ip.frag.more { "+" } else { "" };
        write!(f, " (frag {}:{}@{}{more})", ip.frag.id, ip.l4_len(), ip.frag.offset)?;
    }
    Ok(())
}

fn upper(f: &mut fmt::Formatter<'_>, frame: &[u8], ip: &Ip, depth: usize) -> fmt::Result {
    let payload = frame.get(ip.payload_offset()..ip.end()).unwrap_or_default();
    match ip.l4 {
        L4::Tcp { flags, seq, ack, window, .. } => {
            f.write_str("Flags [")?;
            tcp_flags(f, flags)?;
            f.write_str("]")?;
            if payload.is_empty() {
                if flags.intersects(TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST) {
                    write!(f, ", seq {seq}")?;
                }
            } else {
                let end = seq.wrapping_add(u32::try_from(payload.len()).unwrap_or(0));
                write!(f, ", seq {seq}:{end}")?;
            }
            if flags.contains(TcpFlags::ACK) {
                write!(f, ", ack {ack}")?;
            }
            write!(f, ", win {window}")?;
            tcp_options(f, frame.get(ip.l4_offset() + 20..ip.payload_offset()).unwrap_or_default())?;
            write!(f, ", length {}", payload.len())
        }
        L4::Udp { dport, len, .. } => {
            let data = payload.get(..usize::from(len).saturating_sub(8)).unwrap_or(payload);
            let tunnel =
                if dport == vxlan::UDP_PORT && !ip.is_fragment() { vxlan::parse(data).ok() } else { None };
            match tunnel {
                Some((vni, at)) if depth < DEPTH => {
                    let flags = data.first().copied().unwrap_or_default();
                    write!(f, "VXLAN, flags [I] ({flags:#04x}), vni {vni}: ")?;
                    write(f, data.get(at..).unwrap_or_default(), depth + 1)
                }
                _ => write!(f, "UDP, length {}", len.saturating_sub(8)),
            }
        }
        L4::Sctp { .. } => {
            f.write_str("sctp")?;
            if let Some(&kind) = payload.first() {
                write!(f, " [{}]", Chunk(kind))?;
            }
            write!(f, ", length {}", ip.l4_len())
        }
        L4::Icmp { .. } | L4::Icmp6 { .. } => icmp::write(f, frame, ip),
        L4::Other | L4::None => write!(f, "{}, length {}", Protocol(ip.proto), ip.l4_len()),
    }
}

fn tcp_flags(f: &mut fmt::Formatter<'_>, flags: TcpFlags) -> fmt::Result {
    if flags.is_empty() {
        return f.write_str("none");
    }
    let letters = [
        (TcpFlags::FIN, "F"),
        (TcpFlags::SYN, "S"),
        (TcpFlags::RST, "R"),
        (TcpFlags::PSH, "P"),
        (TcpFlags::ACK, "."),
        (TcpFlags::URG, "U"),
        (TcpFlags::ECE, "E"),
        (TcpFlags::CWR, "W"),
    ];
    letters.iter().filter(|(flag, _)| flags.contains(*flag)).try_for_each(|(_, letter)| f.write_str(letter))
}

fn tcp_options(f: &mut fmt::Formatter<'_>, mut options: &[u8]) -> fmt::Result {
    let mut before = ", options [";
    while let Some(&kind) = options.first() {
        let length = if kind < 2 { 1 } else { usize::from(options.get(1).copied().unwrap_or(0)) };
        let Some(option) = options.get(..length).filter(|option| !option.is_empty()) else {
            write!(f, "{before}bad option {kind}")?;
            before = ",";
            break;
        };
        f.write_str(before)?;
        before = ",";
        match (kind, option) {
            (0, _) => f.write_str("eol")?,
            (1, _) => f.write_str("nop")?,
            (2, &[_, _, high, low]) => write!(f, "mss {}", u16::from_be_bytes([high, low]))?,
            (3, &[_, _, shift]) => write!(f, "wscale {shift}")?,
            (4, &[_, _]) => f.write_str("sackOK")?,
            (8, [_, _, rest @ ..]) if rest.len() == 8 => {
                let value = bytes::get_u32(rest, 0).unwrap_or_default();
                let echo = bytes::get_u32(rest, 4).unwrap_or_default();
                write!(f, "TS val {value} ecr {echo}")?;
            }
            (5, [_, _, rest @ ..]) => write!(f, "sack {}", rest.len() / 8)?,
            (kind, _) => write!(f, "unknown-{kind}")?,
        }
        options = options.get(length..).unwrap_or_default();
        if kind == 0 {
            break;
        }
    }
    if before == "," { f.write_str("]") } else { Ok(()) }
}

/// The name of an SCTP chunk.
struct Chunk(u8);

impl fmt::Display for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 15] = [
            "DATA",
            "INIT",
            "INIT ACK",
            "SACK",
            "HB REQ",
            "HB ACK",
            "ABORT",
            "SHUTDOWN",
            "SHUTDOWN ACK",
            "OP ERR",
            "COOKIE ECHO",
            "COOKIE ACK",
            "ECNE",
            "CWR",
            "SHUTDOWN COMPLETE",
        ];
        match NAMES.get(usize::from(self.0)) {
            Some(name) => f.write_str(name),
            None => write!(f, "chunk {}", self.0),
        }
    }
}

/// The name of a protocol.
pub(crate) struct Protocol(pub(crate) u8);

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            proto::ICMP => "icmp",
            proto::TCP => "tcp",
            proto::UDP => "udp",
            proto::SCTP => "sctp",
            proto::ICMP6 => "ipv6-icmp",
            proto::NO_NEXT => "no next header",
            2 => "igmp",
            4 => "ipip",
            41 => "ipv6",
            47 => "gre",
            50 => "esp",
            51 => "ah",
            number => return write!(f, "ip-proto-{number}"),
        })
    }
}

#[cfg(test)]
mod tests;
