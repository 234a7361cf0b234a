//! Reading a frame for the cached path.
//!
//! [`quick`] takes what nearly every packet is (TCP or UDP over IPv4 without options or fragments, untagged, in at
//! most one VXLAN header) and checks everything about it that [`wire::parse`] would check; anything else is left to
//! [`careful`], which goes by `wire::parse`.

use wire::bytes::get;
use wire::quoted::Quoted;
use wire::{Frame, Kind, L4, proto};

use super::key::{Addr, Ends, Key};
use super::pair::L2Id;

/// Where the parts of a frame are that a transposition touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meta {
    /// Bytes of the outer header, up to the inner Ethernet header; 0: none.
    pub(crate) outer: u16,
    /// Where the (inner) Ethernet header's type field ends and IP begins.
    pub(crate) ip: u16,
    /// Where the layer above IP begins.
    pub(crate) l4: u16,
    /// Bytes of the (inner) IP packet.
    pub(crate) ip_len: u16,
    pub(crate) proto: u8,
    pub(crate) ttl: u8,
    pub(crate) tos: u8,
    /// TCP flags, else 0.
    pub(crate) tcp: u8,
    /// The header of the layer above is there.
    pub(crate) has_l4: bool,
    /// Don't fragment; always of IPv6.
    pub(crate) df: bool,
    /// It is no fragment.
    pub(crate) whole: bool,
}

/// The parts of an outer header that tell tunnels apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TunnelId {
    pub(crate) l2: L2Id,
    pub(crate) src: [u8; 16],
    pub(crate) dst: [u8; 16],
    pub(crate) vni: u32,
}

/// What was read of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen<A> {
    pub(crate) ends: Ends<A>,
    pub(crate) l2: L2Id,
    pub(crate) meta: Meta,
    pub(crate) tunnel: Option<TunnelId>,
}

impl<A: Addr> Seen<A> {
    #[inline]
    pub(crate) fn key(&self, direction: u8, tunnel: u16) -> Key<A> {
        Key { ends: self.ends, proto: self.meta.proto, direction, tunnel }
    }
}

/// Reads TCP or UDP over IPv4 into `seen`, and gives its ends and protocol once more: what was just written in pieces
/// is slow to read as a whole. `vxlan`: the UDP port whose packets are looked into, 0 for none. `None`: it is something
/// else, and what `seen` holds means nothing.
#[inline]
pub(crate) fn quick(frame: &[u8], vxlan: u16, seen: &mut Seen<[u8; 4]>) -> Option<(Ends<[u8; 4]>, u8)> {
    let (ends, proto) = plain(frame, 0, seen)?;
    if vxlan != 0 && ends.dport == vxlan && proto == proto::UDP {
        let outer = *seen;
        return inner(frame, &outer, seen);
    }
    Some((ends, proto))
}

#[inline]
fn inner(frame: &[u8], outer: &Seen<[u8; 4]>, seen: &mut Seen<[u8; 4]>) -> Option<(Ends<[u8; 4]>, u8)> {
    let at = usize::from(outer.meta.l4) + 8;
    let header = get::<8>(frame, at)?;
    // RFC 7348: the I bit is set; reserved bits are ignored.
    if header[0] & 0x08 == 0 {
        return None;
    }
    let found = plain(frame, at + 8, seen)?;
    let (mut src, mut dst) = ([0; 16], [0; 16]);
    src[12..].copy_from_slice(&outer.ends.src);
    dst[12..].copy_from_slice(&outer.ends.dst);
    let vni = u32::from_be_bytes([0, header[4], header[5], header[6]]);
    seen.tunnel = Some(TunnelId { l2: outer.l2, src, dst, vni });
    // The outer length decides where the inner frame ends.
    (usize::from(seen.meta.ip) + usize::from(seen.meta.ip_len)
        <= usize::from(outer.meta.ip) + usize::from(outer.meta.ip_len))
    .then_some(found)
}

/// One Ethernet header at `start`.
#[inline]
fn plain(frame: &[u8], start: usize, seen: &mut Seen<[u8; 4]>) -> Option<(Ends<[u8; 4]>, u8)> {
    // Ethernet, IPv4 and eight bytes above it.
    let head = get::<42>(frame, start)?;
    if head[12] != 0x08 || head[13] != 0 || head[14] != 0x45 {
        return None;
    }
    let ip_len = u16::from_be_bytes([head[16], head[17]]);
    // No more fragments, no offset, and the reserved bit clear.
    if head[20] & 0xbf != 0 || head[21] != 0 {
        return None;
    }
    let end = start + 14 + usize::from(ip_len);
    if end > frame.len() {
        return None;
    }
    let (proto, mut tcp) = (head[23], 0);
    match proto {
        proto::TCP => {
            let [offset, flags] = *get::<2>(frame, start + 46)?;
            tcp = flags;
            let offset = offset >> 4;
            if offset < 5 || 20 + usize::from(offset) * 4 > usize::from(ip_len) {
                return None;
            }
        }
        proto::UDP => {
            let length = u16::from_be_bytes([head[38], head[39]]);
            if length < 8 || usize::from(length) + 20 > usize::from(ip_len) {
                return None;
            }
        }
        _ => return None,
    }
    let at = u16::try_from(start).ok()?;
    let ends = Ends {
        src: [head[26], head[27], head[28], head[29]],
        dst: [head[30], head[31], head[32], head[33]],
        sport: u16::from_be_bytes([head[34], head[35]]),
        dport: u16::from_be_bytes([head[36], head[37]]),
    };
    seen.ends = ends;
    seen.l2 = L2Id::of(head.first_chunk()?, 0);
    seen.meta = Meta {
        outer: at,
        ip: at + 14,
        l4: at + 34,
        ip_len,
        proto,
        ttl: head[22],
        tos: head[15],
        tcp,
        has_l4: true,
        df: head[20] & 0x40 != 0,
        whole: true,
    };
    seen.tunnel = None;
    Some((ends, proto))
}

/// What a frame is, read with care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Careful {
    /// IPv4.
    V4(Seen<[u8; 4]>, Extra),
    /// IPv6.
    V6(Seen<[u8; 16]>, Extra),
    /// ARP, another ethertype.
    Other,
}

/// What the careful reading knows besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extra {
    /// ICMP type and code.
    pub(crate) icmp: Option<(u8, u8)>,
    /// Identification, when the packet is a fragment.
    pub(crate) fragment: Option<u32>,
    /// It is a fragment other than the first.
    pub(crate) later: bool,
    /// The packet that an ICMP error tells of; offsets count from the (inner) Ethernet header.
    pub(crate) quoted: Option<Quoted>,
}

impl Extra {
    /// An ICMP message that is no echo: it tells of another packet, or of the neighbourhood.
    pub(crate) fn is_icmp_message(self) -> bool {
        self.icmp.is_some_and(|(kind, _)| !matches!(kind, 0 | 8 | 128 | 129))
    }
}

/// Reads any frame that [`wire::parse`] accepted. `None`: an inner frame is malformed.
pub(crate) fn careful(bytes: &[u8], frame: &Frame, vxlan: u16) -> Option<Careful> {
    let Kind::Ip(ip) = &frame.kind else { return Some(Careful::Other) };
    if vxlan != 0
        && let L4::Udp { dport, .. } = ip.l4
        && dport == vxlan
        && !ip.is_fragment()
        && let Some(payload) = bytes.get(ip.payload_offset()..ip.end())
        && let Ok((vni, at)) = wire::vxlan::parse(payload)
    {
        let start = ip.payload_offset() + at;
        let inner = bytes.get(start..ip.end())?;
        let parsed = wire::parse(inner).ok()?;
        let tunnel = TunnelId { l2: l2_of(frame), src: wide(ip.src), dst: wide(ip.dst), vni };
        return one(inner, &parsed, start, Some(tunnel));
    }
    one(bytes, frame, 0, None)
}

fn wide(address: std::net::IpAddr) -> [u8; 16] {
    match address {
        std::net::IpAddr::V4(v4) => {
            let mut wide = [0; 16];
            wide[12..].copy_from_slice(&v4.octets());
            wide
        }
        std::net::IpAddr::V6(v6) => v6.octets(),
    }
}

fn l2_of(frame: &Frame) -> L2Id {
    let mut macs = [0; 12];
    macs[..6].copy_from_slice(&frame.l2.dst.0);
    macs[6..].copy_from_slice(&frame.l2.src.0);
    L2Id::of(&macs, frame.l2.vlan.map_or(0, |tag| tag.id))
}

/// `bytes`: the frame itself; `start`: where it begins in the outermost one.
fn one(bytes: &[u8], frame: &Frame, start: usize, tunnel: Option<TunnelId>) -> Option<Careful> {
    let Kind::Ip(ip) = &frame.kind else { return Some(Careful::Other) };
    let (mut icmp, mut tcp) = (None, 0);
    let (sport, dport) = match ip.l4 {
        L4::Tcp { sport, dport, flags, .. } => {
            tcp = flags.bits();
            (sport, dport)
        }
        L4::Icmp { kind, code, id } | L4::Icmp6 { kind, code, id } => {
            icmp = Some((kind, code));
            (id, id)
        }
        other => other.ports().unwrap_or((0, 0)),
    };
    let extra = Extra {
        icmp,
        fragment: ip.is_fragment().then_some(ip.frag.id),
        later: ip.is_later(),
        quoted: icmp.and_then(|_| wire::quoted::parse(bytes, ip)),
    };
    let at = |offset: usize| u16::try_from(start + offset).ok();
    let meta = Meta {
        outer: at(0)?,
        ip: at(ip.offset.into())?,
        l4: at(ip.l4_offset())?,
        ip_len: ip.total_len,
        proto: ip.proto,
        ttl: ip.ttl,
        tos: ip.tos,
        tcp,
        has_l4: !ip.is_later(),
        df: ip.frag.dont || ip.is_v6(),
        whole: !ip.is_fragment(),
    };
    let l2 = l2_of(frame);
    Some(if ip.is_v6() {
        let ends = Ends { src: Addr::of(ip.src), dst: Addr::of(ip.dst), sport, dport };
        Careful::V6(Seen { ends, l2, meta, tunnel }, extra)
    } else {
        let ends = Ends { src: Addr::of(ip.src), dst: Addr::of(ip.dst), sport, dport };
        Careful::V4(Seen { ends, l2, meta, tunnel }, extra)
    })
}
