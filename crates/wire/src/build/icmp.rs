//! ICMP errors about a frame (RFC 792, RFC 1122 section 3.2.2, RFC 1812 section 4.3.2, RFC 4443).

use std::net::IpAddr;

use crate::build::FrameBuilder;
use crate::frame::{Ip, Kind, L4};

/// What went wrong. IPv4 and IPv6 say it with other numbers: the family of the original decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IcmpError {
    /// Too large for the next link and not to be fragmented; the largest packet that fits. For IPv6 the same as
    /// [`IcmpError::PacketTooBig`].
    FragmentationNeeded {
        /// Bytes of the largest IP packet.
        mtu: u16,
    },
    /// Too large for the next link. For IPv4 the same as [`IcmpError::FragmentationNeeded`].
    PacketTooBig {
        /// Bytes of the largest IP packet.
        mtu: u32,
    },
    /// The time to live reached 0.
    TimeExceeded,
    /// Nobody has the address.
    HostUnreachable,
    /// Nobody listens on the port.
    PortUnreachable,
    /// A filter refuses it.
    AdminProhibited,
}

/// The whole frame that tells the sender of `original` about an error. It goes back to the station that it came
/// from, with the same tag.
///
/// `None` when no error may be sent (about an ICMP error, a later fragment, a group or an impossible source), when
/// `original` is not IP, or when `from` is of the other family. "Packet too big" might be about a group (RFC 4443
/// section 2.4), but a frame to a group does not tell which station should answer.
pub fn icmp_error(original: &[u8], from: IpAddr, kind: IcmpError) -> Option<Vec<u8>> {
    let frame = crate::parse(original).ok()?;
    let Kind::Ip(ip) = frame.kind else { return None };
    let forbidden = ip.is_later()
        || is_error(&ip)
        || frame.l2.dst.is_multicast()
        || frame.l2.src.is_multicast()
        || is_group(ip.dst)
        || !is_station(ip.src);
    if forbidden || from.is_ipv6() != ip.is_v6() {
        return None;
    }
    let packet = original.get(usize::from(ip.offset)..ip.end())?;
    let reply = FrameBuilder::eth(frame.l2.dst, frame.l2.src).tag(frame.l2.vlan).ip(from, ip.src);
    Some(if ip.is_v6() {
        let (kind, code, rest) = numbers_v6(kind);
        // The whole answer stays within the least MTU of IPv6.
        reply.icmp6(kind, code, rest).payload(cut(packet, 1280 - 40 - 8)).build()
    } else {
        let (kind, code, rest) = numbers_v4(kind);
        // The precedence of network control, and at most 576 bytes in all (RFC 1812).
        reply.tos(0xc0).icmp(kind, code, rest).payload(cut(packet, 576 - 20 - 8)).build()
    })
}

fn cut(packet: &[u8], most: usize) -> &[u8] {
    packet.get(..most).unwrap_or(packet)
}

fn numbers_v4(kind: IcmpError) -> (u8, u8, [u8; 4]) {
    let with_mtu = |mtu: u16| {
        let [high, low] = mtu.to_be_bytes();
        (3, 4, [0, 0, high, low])
    };
    match kind {
        IcmpError::FragmentationNeeded { mtu } => with_mtu(mtu),
        IcmpError::PacketTooBig { mtu } => with_mtu(u16::try_from(mtu).unwrap_or(u16::MAX)),
        IcmpError::TimeExceeded => (11, 0, [0; 4]),
        IcmpError::HostUnreachable => (3, 1, [0; 4]),
        IcmpError::PortUnreachable => (3, 3, [0; 4]),
        IcmpError::AdminProhibited => (3, 13, [0; 4]),
    }
}

fn numbers_v6(kind: IcmpError) -> (u8, u8, [u8; 4]) {
    match kind {
        IcmpError::FragmentationNeeded { mtu } => (2, 0, u32::from(mtu).to_be_bytes()),
        IcmpError::PacketTooBig { mtu } => (2, 0, mtu.to_be_bytes()),
        IcmpError::TimeExceeded => (3, 0, [0; 4]),
        IcmpError::HostUnreachable => (1, 3, [0; 4]),
        IcmpError::PortUnreachable => (1, 4, [0; 4]),
        IcmpError::AdminProhibited => (1, 1, [0; 4]),
    }
}

/// Whether the packet is itself an error, or a redirect, about which no error may be sent.
fn is_error(ip: &Ip) -> bool {
    match ip.l4 {
        L4::Icmp { kind, .. } => matches!(kind, 3 | 4 | 5 | 11 | 12),
        L4::Icmp6 { kind, .. } => kind < 128 || kind == 137,
        _ => false,
    }
}

fn is_group(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_multicast() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_multicast(),
    }
}

/// Whether the address can be one host.
pub(super) fn is_station(address: IpAddr) -> bool {
    !address.is_unspecified() && !address.is_loopback() && !is_group(address)
}
