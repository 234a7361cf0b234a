//! What senders leave to adapters ([`Offload`]): finding the headers that it is about, doing the work here, and
//! preparing a frame for somebody else who will do it.

use crate::checksum::{self, finish, finish_udp, fold, ones, pseudo};
use crate::frame::{Ip, L4, TcpFlags};
use crate::{Malformed, Offload, Packet, bytes, vxlan};

/// Where the outer headers of a tunnel are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OuterLayout {
    /// Where IP begins.
    pub ip: usize,
    /// Where UDP begins.
    pub udp: usize,
    /// It is IPv6.
    pub v6: bool,
}

/// Where the headers are that an [`Offload`] speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The outer headers, when the frame is in a tunnel.
    pub outer: Option<OuterLayout>,
    /// Where the innermost Ethernet header begins: 0 outside of tunnels.
    pub ethernet: usize,
    /// Where the innermost IP header begins.
    pub ip: usize,
    /// The innermost packet is IPv6.
    pub v6: bool,
    /// Where TCP or UDP begins.
    pub l4: usize,
    /// It is TCP.
    pub tcp: bool,
    /// Where the payload begins.
    pub payload: usize,
    /// Where the innermost packet ends.
    pub end: usize,
    /// The sum of the pseudo header, not folded.
    pseudo: u32,
    /// The sender lowers its rate and says so (CWR).
    pub cwr: bool,
}

impl Layout {
    /// Finds the innermost TCP or UDP header of a frame, at most one VXLAN tunnel deep. `vxlan_port`: the UDP port of
    /// tunnels. `None`: there is none, or only a part of it (a fragment).
    pub fn of(frame: &[u8], vxlan_port: u16) -> Option<Self> {
        let parsed = crate::parse(frame).ok()?;
        let ip = parsed.ip()?;
        if let L4::Udp { dport, .. } = ip.l4
            && dport == vxlan_port
            && !ip.is_fragment()
            && let Ok((_, at)) = vxlan::parse(frame.get(ip.payload_offset()..ip.end())?)
        {
            let start = ip.payload_offset() + at;
            let inner = frame.get(start..ip.end())?;
            let parsed = crate::parse(inner).ok()?;
            let mut layout = Self::inside(parsed.ip()?, start)?;
            layout.outer = Some(OuterLayout { ip: ip.offset.into(), udp: ip.l4_offset(), v6: ip.is_v6() });
            return Some(layout);
        }
        Self::inside(ip, 0)
    }

    fn inside(ip: &Ip, start: usize) -> Option<Self> {
        let (tcp, cwr) = match ip.l4 {
            L4::Tcp { flags, .. } => (true, flags.contains(TcpFlags::CWR)),
            L4::Udp { .. } => (false, false),
            _ => return None,
        };
        if ip.is_fragment() {
            return None;
        }
        let length = match ip.l4 {
            L4::Udp { len, .. } => len,
            _ => u16::try_from(ip.l4_len()).ok()?,
        };
        Some(Self {
            outer: None,
            ethernet: start,
            ip: start + usize::from(ip.offset),
            v6: ip.is_v6(),
            l4: start + ip.l4_offset(),
            tcp,
            payload: start + ip.payload_offset(),
            end: start + ip.l4_offset() + usize::from(length),
            pseudo: pseudo(ip.src, ip.dst, ip.proto, length),
            cwr,
        })
    }

    /// Where the checksum is, from where TCP or UDP begins.
    pub const fn checksum_offset(&self) -> usize {
        if self.tcp { 16 } else { 6 }
    }
}

/// Computes a checksum that was left out: over everything from `start` to the end of the frame, the field's present
/// content (the sum of a pseudo header) included.
pub fn complete_from(frame: &mut [u8], start: usize, offset: usize) {
    let Some(covered) = frame.get(start..) else { return };
    let sum = ones(covered, 0);
    bytes::set_u16(frame, start + offset, finish_udp(sum));
}

/// Does what is left to do with a frame that is one packet. Frames of several segments are for [`segments`].
pub fn complete(packet: &mut Packet, vxlan_port: u16) {
    if !packet.offload.checksum {
        return;
    }
    packet.offload.checksum = false;
    let Some(layout) = Layout::of(packet.data(), vxlan_port) else { return };
    let frame = packet.data_mut();
    let at = layout.l4 + layout.checksum_offset();
    bytes::set_u16(frame, at, 0);
    let sum = ones(frame.get(layout.l4..layout.end).unwrap_or_default(), layout.pseudo);
    bytes::set_u16(frame, at, if layout.tcp { finish(sum) } else { finish_udp(sum) });
}

/// Writes into the checksum's field what whoever computes the rest begins with: the sum of the pseudo header.
pub fn prepare(frame: &mut [u8], layout: &Layout) {
    bytes::set_u16(frame, layout.l4 + layout.checksum_offset(), fold(layout.pseudo));
}

/// Bytes of the longest IP packet that a frame becomes on the wire, counted from the innermost IP header. `ip`, `l4`
/// and `ip_len` as they were read.
#[inline]
pub fn wire_len(packet: &Packet, ip: usize, l4: usize, ip_len: u16, tcp: bool) -> u32 {
    if packet.offload.segment == 0 {
        return u32::from(ip_len);
    }
    let header =
        if tcp { usize::from(bytes::get_u8(packet.data(), l4 + 12).unwrap_or(0x50) >> 4) * 4 } else { 8 };
    let segment = l4 - ip + header + usize::from(packet.offload.segment);
    u32::from(ip_len).min(u32::try_from(segment).unwrap_or(u32::MAX))
}

/// Cuts a frame that stands for several into these, as an adapter would, with all checksums. A frame that is one
/// packet comes back complete.
pub fn segments(packet: &Packet, vxlan_port: u16) -> Result<Vec<Packet>, Malformed> {
    let mut whole = packet.clone();
    let size = usize::from(packet.offload.segment);
    let layout = if size == 0 { None } else { Layout::of(packet.data(), vxlan_port) };
    let Some(layout) = layout.filter(|layout| layout.end - layout.payload > size) else {
        whole.offload.segment = 0;
        complete(&mut whole, vxlan_port);
        return Ok(vec![whole]);
    };
    let frame = packet.data();
    let headers = frame.get(..layout.payload).unwrap_or_default();
    let payload = frame.get(layout.payload..layout.end).unwrap_or_default();
    let last = payload.len().div_ceil(size) - 1;
    payload
        .chunks(size)
        .enumerate()
        .map(|(number, chunk)| {
            let mut piece = Packet::new(headers);
            piece.append(chunk);
            let frame = piece.data_mut();
            lengths(frame, &layout, headers.len() + chunk.len(), number);
            if layout.tcp {
                sequence(frame, layout.l4, number * size, (number == 0, number == last));
            }
            checksum::fill(frame)?;
            Ok(piece)
        })
        .collect()
}

/// Writes the lengths of a piece, and what tells its IP packets from the others.
#[expect(clippy::cast_possible_truncation, reason = "a piece is shorter than the frame that it was cut from")]
fn lengths(frame: &mut [u8], layout: &Layout, length: usize, number: usize) {
    let one = |frame: &mut [u8], ip: usize, v6: bool| {
        if v6 {
            bytes::set_u16(frame, ip + 4, (length - ip - 40) as u16);
        } else {
            bytes::set_u16(frame, ip + 2, (length - ip) as u16);
            let id = bytes::get_u16(frame, ip + 4).unwrap_or_default();
            bytes::set_u16(frame, ip + 4, id.wrapping_add(number as u16));
        }
    };
    one(frame, layout.ip, layout.v6);
    if !layout.tcp {
        bytes::set_u16(frame, layout.l4 + 4, (length - layout.l4) as u16);
    }
    if let Some(outer) = layout.outer {
        one(frame, outer.ip, outer.v6);
        bytes::set_u16(frame, outer.udp + 4, (length - outer.udp) as u16);
    }
}

/// Writes a segment's place in the stream; FIN and PSH belong to the last one, CWR to the first (RFC 3168).
#[expect(clippy::cast_possible_truncation, reason = "a frame is shorter than 64 KiB")]
fn sequence(frame: &mut [u8], tcp: usize, behind: usize, (first, last): (bool, bool)) {
    let Some(number) = bytes::get::<4>(frame, tcp + 4).map(|number| u32::from_be_bytes(*number)) else {
        return;
    };
    bytes::set(frame, tcp + 4, &number.wrapping_add(behind as u32).to_be_bytes());
    let Some(flags) = bytes::get_u8(frame, tcp + 13) else { return };
    let mut flags = TcpFlags::from_bits_retain(flags);
    if !last {
        flags.remove(TcpFlags::FIN | TcpFlags::PSH);
    }
    if !first {
        flags.remove(TcpFlags::CWR);
    }
    bytes::set_u8(frame, tcp + 13, flags.bits());
}

impl Packet {
    /// Whether the frame can go on a wire as it is.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.offload == Offload::NONE
    }
}

#[cfg(test)]
mod tests;
