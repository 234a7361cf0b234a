//! All checksums of a frame: are they right, and make them right.

use crate::checksum::{crc32c, finish, finish_udp, fold, ones, pseudo};
use crate::error::{Header, Malformed};
use crate::frame::{Ip, L4};
use crate::{bytes, vxlan};

/// How many frames inside frames are looked into.
const DEPTH: usize = 4;

/// A frame that a receiver would drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadChecksum {
    /// The frame, or one inside it, cannot be read.
    #[error("{error}, {depth} tunnels deep")]
    Malformed {
        /// Why.
        error: Malformed,
        /// 0 for the frame itself, 1 for one in VXLAN.
        depth: usize,
    },
    /// A checksum is wrong.
    #[error("the {header} checksum is {found:#06x}, but {right:#06x} would be right, {depth} tunnels deep")]
    Wrong {
        /// The header that holds it.
        header: Header,
        /// What it says.
        found: u32,
        /// What it should say.
        right: u32,
        /// 0 for the frame itself, 1 for one in VXLAN.
        depth: usize,
    },
}

/// Checks every checksum of a frame and of the frames that it carries in VXLAN on port 4789. Of a fragment only the
/// IPv4 header is checked, as the rest covers the whole packet.
pub fn verify(frame: &[u8]) -> Result<(), BadChecksum> {
    verify_with(frame, &[vxlan::UDP_PORT])
}

/// The same with other UDP destination ports on which VXLAN is expected.
pub fn verify_with(frame: &[u8], vxlan_ports: &[u16]) -> Result<(), BadChecksum> {
    let mut frame = frame;
    for depth in 0..=DEPTH {
        let parsed = crate::parse(frame).map_err(|error| BadChecksum::Malformed { error, depth })?;
        let Some(ip) = parsed.ip() else { return Ok(()) };
        let wrong = |(header, found, right)| BadChecksum::Wrong { header, found, right, depth };
        header_of(frame, ip).map_or(Ok(()), |bad| Err(wrong(bad)))?;
        upper_of(frame, ip).map_or(Ok(()), |bad| Err(wrong(bad)))?;
        let Some(inner) = inner(frame, ip, vxlan_ports) else { return Ok(()) };
        frame = frame.get(inner).unwrap_or_default();
    }
    Ok(())
}

type Wrong = (Header, u32, u32);

/// Judges as a receiver does: the sum over everything, the field included, is 0xFFFF. The field may then still be
/// the other zero of the ones' complement, which is as good.
fn differ(header: Header, data: &[u8], at: usize, initial: u32) -> Option<Wrong> {
    let found = bytes::get_u16(data, at)?;
    if fold(ones(data, initial)) == 0xffff {
        return None;
    }
    let sum = ones(data.get(at + 2..)?, ones(data.get(..at)?, initial));
    let right = if header == Header::Udp { finish_udp(sum) } else { finish(sum) };
    Some((header, found.into(), right.into()))
}

fn header_of(frame: &[u8], ip: &Ip) -> Option<Wrong> {
    if ip.is_v6() {
        return None;
    }
    let header = frame.get(usize::from(ip.offset)..ip.l4_offset())?;
    differ(Header::Ipv4, header, 10, 0)
}

/// Where the checksum of the upper layer is, relative to it.
fn place(l4: &L4) -> Option<(Header, usize)> {
    match l4 {
        L4::Tcp { .. } => Some((Header::Tcp, 16)),
        L4::Udp { .. } => Some((Header::Udp, 6)),
        L4::Sctp { .. } => Some((Header::Sctp, 8)),
        L4::Icmp { .. } => Some((Header::Icmp, 2)),
        L4::Icmp6 { .. } => Some((Header::Icmp6, 2)),
        L4::Other | L4::None => None,
    }
}

/// The bytes that the upper layer's checksum covers.
fn covered(ip: &Ip) -> std::ops::Range<usize> {
    let start = ip.l4_offset();
    match ip.l4 {
        L4::Udp { len, .. } => start..start + usize::from(len),
        _ => start..ip.end(),
    }
}

/// The sum that the upper layer's checksum begins with.
fn initial(ip: &Ip, length: usize) -> u32 {
    match ip.l4 {
        L4::Icmp { .. } => 0,
        _ => pseudo(ip.src, ip.dst, ip.proto, u16::try_from(length).unwrap_or(u16::MAX)),
    }
}

fn upper_of(frame: &[u8], ip: &Ip) -> Option<Wrong> {
    if ip.is_fragment() {
        return None;
    }
    let (header, at) = place(&ip.l4)?;
    let data = frame.get(covered(ip))?;
    if header == Header::Sctp {
        let found = u32::from_le_bytes(*bytes::get(data, at)?);
        let right = crc32c(&[data.get(..8)?, &[0; 4], data.get(12..)?]);
        return (found != right).then_some((header, found, right));
    }
    if header == Header::Udp && bytes::get_u16(data, at) == Some(0) {
        // Nothing was computed: over IPv4 that is allowed, over IPv6 it is not.
        let right = || finish_udp(ones(data, initial(ip, data.len())));
        return ip.is_v6().then(|| (header, 0, right().into()));
    }
    differ(header, data, at, initial(ip, data.len()))
}

/// Where the frame inside a VXLAN packet is.
fn inner(frame: &[u8], ip: &Ip, vxlan_ports: &[u16]) -> Option<std::ops::Range<usize>> {
    let L4::Udp { dport, .. } = ip.l4 else { return None };
    if ip.is_fragment() || !vxlan_ports.contains(&dport) {
        return None;
    }
    let payload = ip.payload_offset()..covered(ip).end;
    // Without the I bit it is something else that uses the port.
    let (_, at) = vxlan::parse(frame.get(payload.clone())?).ok()?;
    Some(payload.start + at..payload.end)
}

/// Computes every checksum of a frame and of the frames that it carries in VXLAN on port 4789, the innermost first.
/// Of a fragment only the IPv4 header is done; an outer UDP checksum of 0 over IPv4, which VXLAN recommends, stays.
pub fn fill(frame: &mut [u8]) -> Result<(), Malformed> {
    fill_at(frame, 0)
}

fn fill_at(frame: &mut [u8], depth: usize) -> Result<(), Malformed> {
    let parsed = crate::parse(frame)?;
    let Some(ip) = parsed.ip() else { return Ok(()) };
    let inner = inner(frame, ip, &[vxlan::UDP_PORT]).filter(|_| depth < DEPTH);
    let tunnel = inner.is_some();
    if let Some(inner) = inner {
        fill_at(frame.get_mut(inner).unwrap_or_default(), depth + 1)?;
    }
    if !ip.is_v6() {
        let header = frame.get_mut(usize::from(ip.offset)..ip.l4_offset()).unwrap_or_default();
        bytes::set_u16(header, 10, 0);
        let checksum = finish(ones(header, 0));
        bytes::set_u16(header, 10, checksum);
    }
    let Some((header, at)) = place(&ip.l4).filter(|_| !ip.is_fragment()) else { return Ok(()) };
    let data = frame.get_mut(covered(ip)).unwrap_or_default();
    if header == Header::Sctp {
        bytes::set_u32(data, at, 0);
        let checksum = crc32c(&[data]);
        bytes::set(data, at, &checksum.to_le_bytes());
        return Ok(());
    }
    if tunnel && !ip.is_v6() && bytes::get_u16(data, at) == Some(0) {
        return Ok(());
    }
    bytes::set_u16(data, at, 0);
    let sum = ones(data, initial(ip, data.len()));
    bytes::set_u16(data, at, if header == Header::Udp { finish_udp(sum) } else { finish(sum) });
    Ok(())
}
