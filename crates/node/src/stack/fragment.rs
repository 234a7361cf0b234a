//! Packets larger than a link: cut before they are sent, put together when they arrive. Pure but for the pieces
//! that are kept; knows nothing of interfaces and routes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use wire::{Ip, Kind, L4, TcpFlags, bytes, checksum, proto};

/// How long the pieces of an incomplete packet are kept (RFC 8200 names a minute).
const PATIENCE: Duration = Duration::from_mins(1);
/// How many incomplete packets are kept.
const MOST: usize = 64;

/// How a packet can be sent over a link.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// In parts, in order; a packet that is small enough is the only one.
    Parts(Vec<Vec<u8>>),
    /// Not at all: it must not be cut.
    TooBig,
}

/// Cuts a frame for a link that takes IP packets of up to `mtu` bytes. `own`: this stack is the packet's origin, so
/// that a TCP segment may be cut into segments and an IPv6 packet into fragments.
pub(super) fn fit(frame: Vec<u8>, mtu: usize, own: bool, id: u32) -> Fit {
    let Ok(wire::Frame { kind: Kind::Ip(ip), .. }) = wire::parse(&frame) else {
        // Not IP: nothing is known that could be cut.
        return Fit::Parts(vec![frame]);
    };
    if usize::from(ip.total_len) <= mtu {
        return Fit::Parts(vec![frame]);
    }
    let parts = match ip.l4 {
        L4::Tcp { .. } if own && !ip.is_fragment() => segments(&frame, &ip, mtu),
        _ if ip.is_v6() => own.then(|| fragments_v6(&frame, &ip, mtu, id)).flatten(),
        // What was sent here in one piece may be cut here, whatever it asks of routers.
        _ if ip.frag.dont && !own => None,
        _ => fragments_v4(&frame, &ip, mtu, id),
    };
    parts.map_or(Fit::TooBig, Fit::Parts)
}

/// Cuts a TCP segment into smaller ones, as segmentation offload does.
fn segments(frame: &[u8], ip: &Ip, mtu: usize) -> Option<Vec<Vec<u8>>> {
    let L4::Tcp { seq, flags, .. } = ip.l4 else { return None };
    let (start, end) = (ip.payload_offset(), ip.end());
    let headers = frame.get(..start)?;
    let payload = frame.get(start..end)?;
    let room = mtu.checked_sub(start - usize::from(ip.offset)).filter(|&room| room > 0)?;
    let mut sequence = seq;
    let mut parts = Vec::new();
    let count = payload.len().div_ceil(room);
    for (n, chunk) in payload.chunks(room).enumerate() {
        let mut part = headers.to_vec();
        part.extend_from_slice(chunk);
        set_length(&mut part, ip);
        let last = n + 1 == count;
        let flags = if last { flags } else { flags - (TcpFlags::FIN | TcpFlags::PSH) };
        bytes::set_u32(&mut part, ip.l4_offset() + 4, sequence);
        bytes::set_u8(&mut part, ip.l4_offset() + 13, flags.bits());
        checksum::fill(&mut part).ok()?;
        sequence = sequence.wrapping_add(u32::try_from(chunk.len()).ok()?);
        parts.push(part);
    }
    Some(parts)
}

/// Writes the length of a frame without padding into its IP header.
fn set_length(frame: &mut [u8], ip: &Ip) {
    let at = usize::from(ip.offset);
    let total = frame.len() - at;
    if ip.is_v6() {
        bytes::set_u16(frame, at + 4, u16::try_from(total.saturating_sub(40)).unwrap_or(u16::MAX));
    } else {
        bytes::set_u16(frame, at + 2, u16::try_from(total).unwrap_or(u16::MAX));
    }
}

/// Computes the checksum of an IPv4 header alone.
fn set_header_checksum(frame: &mut [u8], ip: &Ip) {
    let at = usize::from(ip.offset);
    bytes::set_u16(frame, at + 10, 0);
    let header = frame.get(at..at + usize::from(ip.header_len)).unwrap_or_default();
    let sum = checksum::finish(checksum::ones(header, 0));
    bytes::set_u16(frame, at + 10, sum);
}

fn fragments_v4(frame: &[u8], ip: &Ip, mtu: usize, id: u32) -> Option<Vec<Vec<u8>>> {
    let start = ip.l4_offset();
    let headers = frame.get(..start)?;
    let payload = frame.get(start..ip.end())?;
    // All but the last part are multiples of eight bytes.
    let room = mtu.checked_sub(usize::from(ip.header_len))? / 8 * 8;
    if room == 0 {
        return None;
    }
    let mut parts = Vec::new();
    let mut offset = usize::from(ip.frag.offset);
    let end = offset + payload.len();
    let [.., high, low] = if ip.is_fragment() || ip.frag.id != 0 { ip.frag.id } else { id }.to_be_bytes();
    for chunk in payload.chunks(room) {
        let mut part = headers.to_vec();
        part.extend_from_slice(chunk);
        set_length(&mut part, ip);
        let more = ip.frag.more || offset + chunk.len() < end;
        let field = u16::try_from(offset / 8).ok()? | if more { 0x2000 } else { 0 };
        bytes::set(&mut part, usize::from(ip.offset) + 4, &[high, low]);
        bytes::set_u16(&mut part, usize::from(ip.offset) + 6, field);
        set_header_checksum(&mut part, ip);
        offset += chunk.len();
        parts.push(part);
    }
    Some(parts)
}

fn fragments_v6(frame: &[u8], ip: &Ip, mtu: usize, id: u32) -> Option<Vec<Vec<u8>>> {
    // Extension headers would have to be told apart; no host here sends any.
    if ip.header_len != 40 {
        return None;
    }
    let start = ip.l4_offset();
    let headers = frame.get(..start)?;
    let payload = frame.get(start..ip.end())?;
    let room = mtu.checked_sub(48)? / 8 * 8;
    if room == 0 {
        return None;
    }
    let mut parts = Vec::new();
    let mut offset = 0;
    for chunk in payload.chunks(room) {
        let mut part = headers.to_vec();
        bytes::set_u8(&mut part, usize::from(ip.offset) + 6, proto::FRAGMENT);
        let more = u16::from(offset + chunk.len() < payload.len());
        part.extend_from_slice(&[ip.proto, 0]);
        part.extend_from_slice(&(u16::try_from(offset).ok()? | more).to_be_bytes());
        part.extend_from_slice(&id.to_be_bytes());
        part.extend_from_slice(chunk);
        set_length(&mut part, ip);
        offset += chunk.len();
        parts.push(part);
    }
    Some(parts)
}

/// Source, destination, protocol and identification.
type Key = (IpAddr, IpAddr, u8, u32);

#[derive(Debug)]
struct Pieces {
    until: Duration,
    /// By offset.
    parts: BTreeMap<u16, Vec<u8>>,
    /// Everything before the payload, of the first piece.
    headers: Option<Vec<u8>>,
    /// Bytes of the whole, once the last piece is here.
    total: Option<usize>,
}

/// Packets that arrive in pieces.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    packets: BTreeMap<Key, Pieces>,
}

impl Reassembly {
    /// Takes a piece; the whole packet comes back when it was the last one that was missing.
    pub(super) fn add(&mut self, now: Duration, frame: &[u8], ip: &Ip) -> Option<Vec<u8>> {
        self.packets.retain(|_, pieces| pieces.until > now);
        let key = (ip.src, ip.dst, ip.proto, ip.frag.id);
        if !self.packets.contains_key(&key) && self.packets.len() >= MOST {
            let oldest = self.packets.iter().min_by_key(|(_, pieces)| pieces.until).map(|(key, _)| *key);
            oldest.and_then(|key| self.packets.remove(&key));
        }
        let pieces = self.packets.entry(key).or_insert_with(|| Pieces {
            until: now + PATIENCE,
            parts: BTreeMap::new(),
            headers: None,
            total: None,
        });
        let payload = frame.get(ip.l4_offset()..ip.end())?;
        if !ip.frag.more {
            pieces.total = Some(usize::from(ip.frag.offset) + payload.len());
        }
        if ip.frag.offset == 0 {
            pieces.headers = frame.get(..ip.l4_offset()).map(<[u8]>::to_vec);
        }
        pieces.parts.entry(ip.frag.offset).or_insert_with(|| payload.to_vec());
        let whole = whole(pieces, ip)?;
        self.packets.remove(&key);
        Some(whole)
    }
}

fn whole(pieces: &Pieces, ip: &Ip) -> Option<Vec<u8>> {
    let total = pieces.total?;
    let mut frame = pieces.headers.clone()?;
    let mut payload = Vec::with_capacity(total);
    for (offset, piece) in &pieces.parts {
        // Overlapping pieces are an attack (RFC 5722); a hole is not filled yet.
        if usize::from(*offset) != payload.len() {
            return None;
        }
        payload.extend_from_slice(piece);
    }
    if payload.len() != total {
        return None;
    }
    let at = usize::from(ip.offset);
    if ip.is_v6() {
        frame.truncate(at + 40);
        bytes::set_u8(&mut frame, at + 6, ip.proto);
    } else {
        bytes::set_u16(&mut frame, at + 6, 0);
    }
    let total = frame.len() - at + payload.len();
    u16::try_from(total).ok()?;
    frame.extend_from_slice(&payload);
    set_length(&mut frame, ip);
    if !ip.is_v6() {
        set_header_checksum(&mut frame, ip);
    }
    Some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::Mac;
    use wire::build::FrameBuilder;

    fn builder(v6: bool) -> FrameBuilder {
        let eth = FrameBuilder::eth(Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        if v6 {
            eth.ip(ip("2001:db8::1"), ip("2001:db8::2"))
        } else {
            eth.ip(ip("192.0.2.1"), ip("192.0.2.2"))
        }
    }

    fn ip_of(frame: &[u8]) -> Ip {
        *wire::parse(frame).unwrap().ip().unwrap()
    }

    #[test]
    fn a_router_does_not_cut_what_must_not_be_cut() {
        let dont = builder(false).udp(1, 2).df(true).payload(&[0; 2000]).build();
        assert_eq!(fit(dont.clone(), 1500, false, 1), Fit::TooBig);
        assert_eq!(fit(dont.clone(), 3000, false, 1), Fit::Parts(vec![dont]));
        assert_eq!(fit(builder(true).udp(1, 2).payload(&[0; 2000]).build(), 1500, false, 1), Fit::TooBig);
    }

    proptest! {
        #[test]
        fn datagrams_are_cut_and_put_together(
            v6: bool,
            length in 0_usize..8000,
            mtu in 100_usize..1500,
            again in 60_usize..1500,
            swap: bool,
        ) {
            let payload: Vec<u8> = (0..length).map(|n| u8::try_from(n % 251).unwrap()).collect();
            let frame = builder(v6).udp(1, 2).payload(&payload).build();
            let Fit::Parts(mut parts) = fit(frame.clone(), mtu, true, 77) else { panic!("own packets are cut") };
            prop_assert!(parts.iter().all(|part| usize::from(ip_of(part).total_len) <= mtu));
            if !v6 {
                // A router on the way cuts them once more.
                parts = parts
                    .into_iter()
                    .flat_map(|part| match fit(part, again, false, 0) {
                        Fit::Parts(parts) => parts,
                        Fit::TooBig => Vec::new(),
                    })
                    .collect();
            }
            if swap {
                parts.reverse();
            }
            let mut reassembly = Reassembly::default();
            let mut got = None;
            if let [whole] = &parts[..] {
                got = Some(whole.clone());
            } else {
                for part in &parts {
                    checksum::verify(part).unwrap();
                    prop_assert!(got.is_none());
                    got = reassembly.add(Duration::ZERO, part, &ip_of(part));
                }
            }
            let got = got.unwrap();
            checksum::verify(&got).unwrap();
            let ip = ip_of(&got);
            prop_assert_eq!(&got[ip.payload_offset()..ip.end()], &payload[..]);
            prop_assert!(reassembly.packets.is_empty());
        }

        #[test]
        fn segments_carry_the_same_bytes(v6: bool, length in 1_usize..5000, mtu in 100_usize..1500) {
            let payload: Vec<u8> = (0..length).map(|n| u8::try_from(n % 251).unwrap()).collect();
            let flags = TcpFlags::ACK | TcpFlags::PSH | TcpFlags::FIN;
            let frame = builder(v6).tcp(1, 2, flags).seq(u32::MAX - 10).payload(&payload).build();
            let Fit::Parts(parts) = fit(frame, mtu, true, 0) else { panic!("own segments are cut") };
            let mut next = u32::MAX - 10;
            let mut got = Vec::new();
            for (n, part) in parts.iter().enumerate() {
                checksum::verify(part).unwrap();
                let ip = ip_of(part);
                prop_assert!(usize::from(ip.total_len) <= mtu);
                let L4::Tcp { seq, flags, .. } = ip.l4 else { panic!("a segment") };
                prop_assert_eq!(seq, next);
                prop_assert_eq!(flags.contains(TcpFlags::FIN), n + 1 == parts.len());
                let data = &part[ip.payload_offset()..ip.end()];
                next = next.wrapping_add(u32::try_from(data.len()).unwrap());
                got.extend_from_slice(data);
            }
            prop_assert_eq!(got, payload);
        }
    }
}
