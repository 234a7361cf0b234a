//! Changing fields of a parsed frame in place, with every checksum that covers them corrected by difference.
//!
//! A checksum that was wrong stays wrong by the same amount, so that a rewrite never repairs a damaged packet.

use std::net::IpAddr;

use crate::checksum::{Delta, adjust, crc32c};
use crate::frame::{Ip, L4, proto};
use crate::quoted::Quoted;
use crate::{Mac, bytes};

/// New values of the fields that make a flow; what is `None` stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Rewrite {
    /// Source address.
    pub src: Option<IpAddr>,
    /// Destination address.
    pub dst: Option<IpAddr>,
    /// Source port of TCP, UDP and SCTP; the identifier of an echo request.
    pub sport: Option<u16>,
    /// Destination port of TCP, UDP and SCTP; the identifier of an echo reply.
    pub dport: Option<u16>,
}

/// Why a rewrite was refused; the frame is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum RewriteError {
    /// An address of the other family.
    #[error("an address of one IP version cannot be replaced by one of the other")]
    Family,
    /// A port for a packet without one: another protocol, or a later fragment.
    #[error("the packet has no port that could be replaced")]
    NoPort,
    /// The ports of a first fragment of SCTP: its CRC covers bytes that are not here.
    #[error("the ports of a fragmented SCTP packet cannot be replaced before it is put together")]
    SctpFragment,
    /// The frame is not the one that was parsed.
    #[error("the frame is shorter than its parse says")]
    Stale,
}

/// Where the fields of an upper layer are, from its beginning.
#[derive(Clone, Copy)]
struct Layout {
    sport: Option<usize>,
    dport: Option<usize>,
    checksum: Option<usize>,
    /// Whether the checksum covers the addresses.
    pseudo: bool,
}

impl Layout {
    const NONE: Self = Self { sport: None, dport: None, checksum: None, pseudo: false };

    /// Of the headers that are known; `echo` is the type of an ICMP message.
    fn of(proto: u8, v6: bool, echo: u8) -> Self {
        let ports = Self { sport: Some(0), dport: Some(2), checksum: None, pseudo: true };
        match proto {
            proto::TCP => Self { checksum: Some(16), ..ports },
            proto::UDP => Self { checksum: Some(6), ..ports },
            // The CRC is no sum; it does not cover the addresses.
            proto::SCTP => Self { pseudo: false, ..ports },
            proto::ICMP if !v6 => Self {
                sport: (echo == 8).then_some(4),
                dport: (echo == 0).then_some(4),
                checksum: Some(2),
                pseudo: false,
            },
            proto::ICMP6 if v6 => Self {
                sport: (echo == 128).then_some(4),
                dport: (echo == 129).then_some(4),
                checksum: Some(2),
                pseudo: true,
            },
            _ => Self::NONE,
        }
    }
}

impl Rewrite {
    /// Whether nothing changes.
    pub const fn is_empty(&self) -> bool {
        self.src.is_none() && self.dst.is_none() && self.sport.is_none() && self.dport.is_none()
    }

    /// Changes the packet whose parse gave `ip`, and `ip` with it.
    pub fn apply(&self, frame: &mut [u8], ip: &mut Ip) -> Result<(), RewriteError> {
        let echo = match ip.l4 {
            L4::Icmp { kind, .. } | L4::Icmp6 { kind, .. } => kind,
            _ => u8::MAX,
        };
        let layout = match ip.l4 {
            L4::None | L4::Other => Layout::NONE,
            _ => Layout::of(ip.proto, ip.is_v6(), echo),
        };
        self.check(ip.is_v6(), layout)?;
        let ports = self.sport.is_some() || self.dport.is_some();
        if ports && ip.proto == proto::SCTP && ip.is_fragment() {
            return Err(RewriteError::SctpFragment);
        }
        if frame.len() < ip.end() {
            return Err(RewriteError::Stale);
        }
        let places =
            Places { ip: ip.offset.into(), l4: ip.l4_offset(), v6: ip.is_v6(), udp: ip.proto == proto::UDP };
        self.write(frame, places, layout);
        if ports && ip.proto == proto::SCTP {
            seal_sctp(frame.get_mut(ip.l4_offset()..ip.end()).unwrap_or_default());
        }
        if let L4::Icmp { kind: 0, code: 0, .. } = ip.l4 {
            Self::mend_zeros(frame, ip);
        }
        self.follow(ip);
        Ok(())
    }

    /// Changes the packet that an ICMP error quotes, so that the error names the flow that the receiver knows. The
    /// checksum of the quote is corrected when it is quoted, the checksum of the error always. `quoted` comes from
    /// [`crate::quoted::parse`] of the same frame.
    pub fn apply_to_quote(&self, frame: &mut [u8], ip: &Ip, quoted: &Quoted) -> Result<(), RewriteError> {
        let v6 = quoted.src.is_ipv6();
        let echo = if quoted.ports.is_some() {
            bytes::get_u8(frame, quoted.l4_offset).unwrap_or(u8::MAX)
        } else {
            u8::MAX
        };
        let layout = match quoted.ports {
            Some(_) => Layout::of(quoted.proto, v6, echo),
            None => Layout::NONE,
        };
        self.check(v6, layout)?;
        let message = ip.l4_offset();
        let (start, end) = (message + 8, ip.end());
        if frame.len() < end || quoted.l4_offset < start {
            return Err(RewriteError::Stale);
        }
        let places = Places { ip: start, l4: quoted.l4_offset, v6, udp: quoted.proto == proto::UDP };
        // Inside the quote nothing behind its end may be touched, though padding may follow.
        let changed = self.write(frame.get_mut(..end).unwrap_or_default(), places, layout);
        correct(frame, message + 2, changed, false);
        Ok(())
    }

    fn check(&self, v6: bool, layout: Layout) -> Result<(), RewriteError> {
        if [self.src, self.dst].into_iter().flatten().any(|address| address.is_ipv6() != v6) {
            return Err(RewriteError::Family);
        }
        if (self.sport.is_some() && layout.sport.is_none())
            || (self.dport.is_some() && layout.dport.is_none())
        {
            return Err(RewriteError::NoPort);
        }
        Ok(())
    }

    /// Writes the fields and corrects the sums; returns the difference over all that changed, sums included.
    fn write(&self, frame: &mut [u8], at: Places, layout: Layout) -> Delta {
        let (src, dst, size) = if at.v6 { (8, 24, 16) } else { (12, 16, 4) };
        let mut addresses = Delta::NONE;
        for (offset, new) in [(src, self.src), (dst, self.dst)] {
            let place = frame.get_mut(at.ip + offset..).and_then(|rest| rest.get_mut(..size));
            if let (Some(place), Some(new)) = (place, new) {
                addresses = addresses.and(replace(place, new));
            }
        }
        let mut changed = addresses;
        if !at.v6 {
            changed = changed.and(correct(frame, at.ip + 10, addresses, false));
        }
        let mut ports = Delta::NONE;
        for (offset, new) in [(layout.sport, self.sport), (layout.dport, self.dport)] {
            if let (Some(offset), Some(new)) = (offset, new) {
                let place = at.l4 + offset;
                if let Some(old) = bytes::get_u16(frame, place) {
                    bytes::set_u16(frame, place, new);
                    ports = ports.word16(old, new);
                }
            }
        }
        changed = changed.and(ports);
        let covered = if layout.pseudo { addresses.and(ports) } else { ports };
        match layout.checksum {
            Some(offset) => changed.and(correct(frame, at.l4 + offset, covered, at.udp)),
            None => changed,
        }
    }

    /// The one message that a difference gets wrong, see [`Delta`].
    fn mend_zeros(frame: &mut [u8], ip: &Ip) {
        let message = frame.get_mut(ip.l4_offset()..ip.end()).unwrap_or_default();
        if !ip.is_fragment() && message.iter().all(|byte| *byte == 0) {
            bytes::set_u16(message, 2, 0xffff);
        }
    }

    fn follow(&self, ip: &mut Ip) {
        ip.src = self.src.unwrap_or(ip.src);
        ip.dst = self.dst.unwrap_or(ip.dst);
        match &mut ip.l4 {
            L4::Tcp { sport, dport, .. } | L4::Udp { sport, dport, .. } | L4::Sctp { sport, dport } => {
                *sport = self.sport.unwrap_or(*sport);
                *dport = self.dport.unwrap_or(*dport);
            }
            L4::Icmp { id, .. } | L4::Icmp6 { id, .. } => *id = self.sport.or(self.dport).unwrap_or(*id),
            L4::Other | L4::None => {}
        }
    }
}

#[derive(Clone, Copy)]
struct Places {
    ip: usize,
    l4: usize,
    v6: bool,
    udp: bool,
}

/// Replaces an address; the place has its size.
fn replace(place: &mut [u8], new: IpAddr) -> Delta {
    match new {
        IpAddr::V4(new) => {
            let old = bytes::get_u32(place, 0).unwrap_or_default();
            bytes::set_u32(place, 0, new.to_bits());
            Delta::NONE.word32(old, new.to_bits())
        }
        IpAddr::V6(new) => {
            let old = bytes::get_u128(place, 0).unwrap_or_default();
            bytes::set_u128(place, 0, new.to_bits());
            Delta::NONE.word128(old, new.to_bits())
        }
    }
}

/// Corrects the checksum at `at`, when there is one, and returns by how much it changed.
fn correct(frame: &mut [u8], at: usize, delta: Delta, udp: bool) -> Delta {
    let Some(old) = bytes::get_u16(frame, at) else { return Delta::NONE };
    let new = if udp { delta.apply_udp(old) } else { delta.apply(old) };
    bytes::set_u16(frame, at, new);
    Delta::NONE.word16(old, new)
}

/// The CRC of an SCTP packet, made anew: it cannot be corrected by a difference of sums.
fn seal_sctp(packet: &mut [u8]) {
    let (Some(head), Some(tail)) = (packet.get(..8), packet.get(12..)) else { return };
    let crc = crc32c(&[head, &[0; 4], tail]);
    bytes::set(packet, 8, &crc.to_le_bytes());
}

/// Writes both MAC addresses; `false` when there is no Ethernet header.
#[inline]
pub fn macs(frame: &mut [u8], dst: Mac, src: Mac) -> bool {
    frame.len() >= 14 && bytes::set_mac(frame, 0, dst) && bytes::set_mac(frame, 6, src)
}

/// Takes one from the time to live; `false`, and no change, when it would reach 0 and the packet must not go on.
#[inline]
pub fn decrement_ttl(frame: &mut [u8], ip: &mut Ip) -> bool {
    if ip.ttl <= 1 {
        return false;
    }
    let at = usize::from(ip.offset);
    let written = if ip.is_v6() {
        bytes::set_u8(frame, at + 7, ip.ttl - 1)
    } else if let Some(checksum) = bytes::get_u16(frame, at + 10) {
        let (old, new) = (u16::from_be_bytes([ip.ttl, 0]), u16::from_be_bytes([ip.ttl - 1, 0]));
        bytes::set_u8(frame, at + 8, ip.ttl - 1) && bytes::set_u16(frame, at + 10, adjust(checksum, old, new))
    } else {
        false
    };
    if written {
        ip.ttl -= 1;
    }
    written
}

/// Writes DSCP and ECN; `false` when the frame is not the one that was parsed.
#[inline]
pub fn tos(frame: &mut [u8], ip: &mut Ip, tos: u8) -> bool {
    let at = usize::from(ip.offset);
    let written = if ip.is_v6() {
        let Some(label) = bytes::get_u8(frame, at + 1) else { return false };
        bytes::set(frame, at, &[0x60 | tos >> 4, tos << 4 | label & 15])
    } else {
        let Some(checksum) = bytes::get_u16(frame, at + 10) else { return false };
        bytes::set_u8(frame, at + 1, tos)
            && bytes::set_u16(frame, at + 10, adjust(checksum, ip.tos.into(), tos.into()))
    };
    if written {
        ip.tos = tos;
    }
    written
}
