//! The one structural parse: every length is checked here, so that nobody behind it has to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::{Header, Malformed};
use crate::frame::{Arp, ArpOp, Fragment, Frame, Ip, Kind, L2, L4, TcpFlags, VlanTag, ethertype, proto};
use crate::{Mac, bytes};

/// Extension headers that are followed; more are refused, as each is another loop for an attacker.
const MAX_EXTENSIONS: usize = 8;

/// Reads an Ethernet frame. Trailing padding is allowed; everything else that does not fit its length fields is
/// refused, because a switch that lets it pass would hand the guess to the receiver.
#[inline]
pub fn parse(frame: &[u8]) -> Result<Frame, Malformed> {
    // Nearly all frames are one of these. Written as one expression each they are put together in registers, and what
    // the caller does not look at is not even read.
    if let Some(h) = frame.first_chunk::<{ 14 + 20 + 8 }>()
        && plain_ipv4(h, frame.len())
    {
        if h[23] == proto::TCP
            && let Some(t) = bytes::get::<20>(frame, 34)
            && tcp_fits(t, usize::from(be16(h, 16)) - 20)
        {
            return Ok(ipv4_frame(h, tcp_header(t)));
        }
        if h[23] == proto::UDP {
            let (sport, dport, len) = (be16(h, 34), be16(h, 36), be16(h, 38));
            if len >= 8 && len <= be16(h, 16) - 20 {
                return Ok(ipv4_frame(h, L4::Udp { sport, dport, len }));
            }
        }
    }
    general(frame)
}

/// Untagged IPv4 without options, not a fragment, whose length leaves room for an upper header of 8 bytes.
#[inline]
fn plain_ipv4(h: &[u8; 42], length: usize) -> bool {
    let total_len = be16(h, 16);
    be16(h, 12) == ethertype::IPV4
        && h[14] == 0x45
        // The two upper bits, of which one is reserved and one forbids to fragment, do not matter.
        && be16(h, 20) << 2 == 0
        && total_len >= 28
        && usize::from(total_len) + 14 <= length
}

#[inline]
fn tcp_fits(t: &[u8; 20], length: usize) -> bool {
    let header_len = usize::from(t[12] >> 4) * 4;
    header_len >= 20 && header_len <= length
}

#[inline]
fn ipv4_frame(h: &[u8; 42], l4: L4) -> Frame {
    let l2 =
        L2 { dst: Mac(part(h, 0)), src: Mac(part(h, 6)), vlan: None, ethertype: ethertype::IPV4, len: 14 };
    let ip = Ip {
        src: IpAddr::V4(Ipv4Addr::from(part::<4, 42>(h, 26))),
        dst: IpAddr::V4(Ipv4Addr::from(part::<4, 42>(h, 30))),
        proto: h[23],
        ttl: h[22],
        tos: h[15],
        offset: 14,
        header_len: 20,
        total_len: be16(h, 16),
        frag: Fragment { id: be16(h, 18).into(), offset: 0, more: false, dont: h[20] & 0x40 != 0 },
        l4,
    };
    Frame { l2, kind: Kind::Ip(ip) }
}

#[inline]
fn be16<const M: usize>(header: &[u8; M], at: usize) -> u16 {
    u16::from_be_bytes(part(header, at))
}

/// Any frame.
#[inline(never)]
fn general(frame: &[u8]) -> Result<Frame, Malformed> {
    let Some(h) = frame.first_chunk::<14>() else { return Err(short(Header::Ethernet, 14, frame)) };
    let mut l2 = L2 {
        dst: Mac(part(h, 0)),
        src: Mac(part(h, 6)),
        vlan: None,
        ethertype: u16::from_be_bytes(part(h, 12)),
        len: 14,
    };
    if l2.ethertype == ethertype::VLAN {
        let Some(&[b0, b1, t0, t1]) = bytes::get::<4>(frame, 14) else {
            return Err(short(Header::Vlan, 4, tail(frame, 14)));
        };
        l2.vlan = Some(VlanTag::from_bits(u16::from_be_bytes([b0, b1])));
        l2.ethertype = u16::from_be_bytes([t0, t1]);
        l2.len = 18;
    }
    let kind = match l2.ethertype {
        ethertype::IPV4 => Kind::Ip(ipv4(tail(frame, l2.len.into()), l2.len)?),
        ethertype::IPV6 => Kind::Ip(ipv6(tail(frame, l2.len.into()), l2.len)?),
        ethertype::ARP => arp(tail(frame, l2.len.into()))?,
        _ => Kind::Other,
    };
    Ok(Frame { l2, kind })
}

/// A field of a header whose length is known: one move, where taking the bytes one by one makes as many stores, which
/// the copy that follows then waits for.
#[inline]
fn part<const N: usize, const M: usize>(header: &[u8; M], at: usize) -> [u8; N] {
    header.get(at..).and_then(|rest| rest.first_chunk::<N>()).copied().unwrap_or([0; N])
}

#[inline]
fn tail(bytes: &[u8], at: usize) -> &[u8] {
    bytes.get(at..).unwrap_or_default()
}

#[cold]
fn short(header: Header, need: usize, have: &[u8]) -> Malformed {
    Malformed::Short { header, need, have: have.len() }
}

#[inline]
fn ipv4(bytes: &[u8], offset: u8) -> Result<Ip, Malformed> {
    let Some(h) = bytes.first_chunk::<20>() else { return Err(short(Header::Ipv4, 20, bytes)) };
    let version = h[0] >> 4;
    if version != 4 {
        return Err(Malformed::Version { header: Header::Ipv4, version });
    }
    let header_len = u16::from(h[0] & 15) * 4;
    if header_len < 20 {
        return Err(Malformed::HeaderLength { header: Header::Ipv4, stated: header_len.into(), least: 20 });
    }
    let total_len = u16::from_be_bytes([h[2], h[3]]);
    if total_len < header_len || usize::from(total_len) > bytes.len() {
        return Err(Malformed::TotalLength {
            header: Header::Ipv4,
            stated: total_len.into(),
            have: bytes.len(),
        });
    }
    let field = u16::from_be_bytes([h[6], h[7]]);
    let frag = Fragment {
        id: u16::from_be_bytes([h[4], h[5]]).into(),
        offset: (field & 0x1fff) << 3,
        more: field & 0x2000 != 0,
        dont: field & 0x4000 != 0,
    };
    let upper = bytes.get(usize::from(header_len)..usize::from(total_len)).unwrap_or_default();
    extent(Header::Ipv4, frag, upper.len(), header_len.into())?;
    let proto = h[9];
    Ok(Ip {
        src: IpAddr::V4(Ipv4Addr::from(part::<4, 20>(h, 12))),
        dst: IpAddr::V4(Ipv4Addr::from(part::<4, 20>(h, 16))),
        proto,
        ttl: h[8],
        tos: h[1],
        offset: offset.into(),
        header_len,
        total_len,
        frag,
        l4: if frag.offset == 0 { l4(upper, proto, false, frag.more)? } else { L4::None },
    })
}

/// A fragment must lie inside the largest packet, and all but the last are multiples of 8 bytes.
#[inline]
fn extent(header: Header, frag: Fragment, length: usize, header_len: usize) -> Result<(), Malformed> {
    let past = usize::from(frag.offset) + length + header_len > usize::from(u16::MAX);
    if (frag.more && !length.is_multiple_of(8)) || (frag.offset != 0 && past) {
        return Err(Malformed::FragmentExtent { header, offset: frag.offset, length });
    }
    Ok(())
}

#[inline]
fn ipv6(bytes: &[u8], offset: u8) -> Result<Ip, Malformed> {
    let Some(h) = bytes.first_chunk::<40>() else { return Err(short(Header::Ipv6, 40, bytes)) };
    let version = h[0] >> 4;
    if version != 6 {
        return Err(Malformed::Version { header: Header::Ipv6, version });
    }
    let payload_len = u16::from_be_bytes([h[4], h[5]]);
    let total_len = payload_len.checked_add(40).filter(|&total| usize::from(total) <= bytes.len());
    let Some(total_len) = total_len else {
        return Err(Malformed::TotalLength {
            header: Header::Ipv6,
            stated: payload_len.into(),
            have: bytes.len() - 40,
        });
    };
    let packet = bytes.get(..usize::from(total_len)).unwrap_or_default();
    let mut ip = Ip {
        src: IpAddr::V6(Ipv6Addr::from(part::<16, 40>(h, 8))),
        dst: IpAddr::V6(Ipv6Addr::from(part::<16, 40>(h, 24))),
        proto: h[6],
        ttl: h[7],
        tos: h[0] << 4 | h[1] >> 4,
        offset: offset.into(),
        header_len: 40,
        total_len,
        frag: Fragment::default(),
        l4: L4::None,
    };
    if matches!(ip.proto, proto::HOP_BY_HOP | proto::ROUTING | proto::FRAGMENT | proto::DESTINATION) {
        extensions(packet, &mut ip)?;
    }
    if ip.frag.offset == 0 {
        ip.l4 = l4(tail(packet, ip.header_len.into()), ip.proto, true, ip.frag.more)?;
    }
    Ok(ip)
}

/// Follows the chain of extension headers; on return `proto` and `header_len` are those of the upper layer.
#[cold]
fn extensions(packet: &[u8], ip: &mut Ip) -> Result<(), Malformed> {
    let mut fragmented = false;
    for place in 0..=MAX_EXTENSIONS {
        let header = match ip.proto {
            proto::HOP_BY_HOP => Header::HopByHop,
            proto::ROUTING => Header::Routing,
            proto::DESTINATION => Header::Destination,
            proto::FRAGMENT => Header::Fragment,
            _ => return Ok(()),
        };
        let twice = header == Header::Fragment && fragmented;
        if twice || place == MAX_EXTENSIONS || (header == Header::HopByHop && place != 0) {
            return Err(Malformed::Extension { header });
        }
        let rest = tail(packet, ip.header_len.into());
        let Some(&[next, units, f0, f1, i0, i1, i2, i3]) = rest.first_chunk::<8>() else {
            return Err(short(header, 8, rest));
        };
        let length = if header == Header::Fragment { 8 } else { (u16::from(units) + 1) * 8 };
        if usize::from(length) > rest.len() {
            return Err(short(header, length.into(), rest));
        }
        ip.proto = next;
        ip.header_len += length;
        if header == Header::Fragment {
            fragmented = true;
            let field = u16::from_be_bytes([f0, f1]);
            ip.frag = Fragment {
                id: u32::from_be_bytes([i0, i1, i2, i3]),
                offset: field & 0xfff8,
                more: field & 1 != 0,
                dont: false,
            };
            extent(Header::Ipv6, ip.frag, rest.len() - 8, 0)?;
            // The headers behind a later fragment's are a part of the data.
            if ip.frag.offset != 0 {
                return Ok(());
            }
        }
    }
    Ok(())
}

#[inline]
fn l4(bytes: &[u8], proto: u8, v6: bool, first: bool) -> Result<L4, Malformed> {
    match proto {
        proto::TCP => tcp(bytes),
        proto::UDP => udp(bytes, first),
        proto::ICMP if !v6 => {
            let Some(h) = bytes.first_chunk::<8>() else { return Err(short(Header::Icmp, 8, bytes)) };
            let id = if matches!(h[0], 0 | 8) { u16::from_be_bytes([h[4], h[5]]) } else { 0 };
            Ok(L4::Icmp { kind: h[0], code: h[1], id })
        }
        proto::ICMP6 if v6 => {
            let Some(h) = bytes.first_chunk::<8>() else { return Err(short(Header::Icmp6, 8, bytes)) };
            let id = if matches!(h[0], 128 | 129) { u16::from_be_bytes([h[4], h[5]]) } else { 0 };
            Ok(L4::Icmp6 { kind: h[0], code: h[1], id })
        }
        proto::SCTP => {
            let Some(h) = bytes.first_chunk::<12>() else { return Err(short(Header::Sctp, 12, bytes)) };
            Ok(L4::Sctp { sport: u16::from_be_bytes([h[0], h[1]]), dport: u16::from_be_bytes([h[2], h[3]]) })
        }
        _ => Ok(L4::Other),
    }
}

#[inline]
fn tcp(bytes: &[u8]) -> Result<L4, Malformed> {
    let Some(h) = bytes.first_chunk::<20>() else { return Err(short(Header::Tcp, 20, bytes)) };
    let header_len = (h[12] >> 4) * 4;
    if header_len < 20 {
        return Err(Malformed::HeaderLength { header: Header::Tcp, stated: header_len.into(), least: 20 });
    }
    if usize::from(header_len) > bytes.len() {
        return Err(short(Header::Tcp, header_len.into(), bytes));
    }
    Ok(tcp_header(h))
}

/// The fields of a header whose length was checked.
#[inline]
fn tcp_header(h: &[u8; 20]) -> L4 {
    L4::Tcp {
        sport: be16(h, 0),
        dport: be16(h, 2),
        seq: u32::from_be_bytes(part(h, 4)),
        ack: u32::from_be_bytes(part(h, 8)),
        flags: TcpFlags::from_bits_retain(h[13]),
        header_len: (h[12] >> 4) * 4,
        window: be16(h, 14),
    }
}

#[inline]
fn udp(bytes: &[u8], first: bool) -> Result<L4, Malformed> {
    let Some(h) = bytes.first_chunk::<8>() else { return Err(short(Header::Udp, 8, bytes)) };
    let len = u16::from_be_bytes([h[4], h[5]]);
    if len < 8 {
        return Err(Malformed::HeaderLength { header: Header::Udp, stated: len.into(), least: 8 });
    }
    // A first fragment holds a part only; a length below the packet's leaves bytes that no checksum covers.
    if usize::from(len) > bytes.len() && !first {
        return Err(Malformed::TotalLength { header: Header::Udp, stated: len.into(), have: bytes.len() });
    }
    Ok(L4::Udp { sport: u16::from_be_bytes([h[0], h[1]]), dport: u16::from_be_bytes([h[2], h[3]]), len })
}

fn arp(bytes: &[u8]) -> Result<Kind, Malformed> {
    let Some(h) = bytes.first_chunk::<8>() else { return Err(short(Header::Arp, 8, bytes)) };
    // Ethernet (1), IPv4 and the lengths of their addresses.
    if h[..6] != [0, 1, 8, 0, 6, 4] {
        return Ok(Kind::Other);
    }
    let Some(a) = bytes::get::<20>(bytes, 8) else { return Err(short(Header::Arp, 28, bytes)) };
    Ok(Kind::Arp(Arp {
        op: ArpOp::from_bits(u16::from_be_bytes([h[6], h[7]])),
        sender_mac: Mac([a[0], a[1], a[2], a[3], a[4], a[5]]),
        sender_ip: Ipv4Addr::new(a[6], a[7], a[8], a[9]),
        target_mac: Mac([a[10], a[11], a[12], a[13], a[14], a[15]]),
        target_ip: Ipv4Addr::new(a[16], a[17], a[18], a[19]),
    }))
}
