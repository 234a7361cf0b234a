//! VXLAN (RFC 7348): the outer headers, and putting them in front of a frame.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::checksum::{finish, finish_udp, ones, pseudo_v6};
use crate::error::{Header, Malformed, TooLong};
use crate::frame::{VlanTag, ethertype, proto};
use crate::{Mac, Packet, bytes};

/// The port that IANA gave to VXLAN.
pub const UDP_PORT: u16 = 4789;

/// Bytes of the VXLAN header.
pub const HEADER_LEN: usize = 8;

/// The largest outer header: Ethernet with a tag, IPv6, UDP, VXLAN.
pub const MAX_OUTER: usize = 18 + 40 + 8 + HEADER_LEN;

/// The flag that says that the VNI is valid.
const FLAG_I: u8 = 0x08;

/// The header for a network; of the VNI the lower 24 bits count.
#[inline]
pub const fn header(vni: u32) -> [u8; HEADER_LEN] {
    let [_, a, b, c] = vni.to_be_bytes();
    [FLAG_I, 0, 0, 0, a, b, c, 0]
}

/// Reads the header at the beginning of a UDP payload: the VNI and where in the payload the inner frame begins.
/// Reserved bits are ignored, as the RFC asks.
#[inline]
pub fn parse(udp_payload: &[u8]) -> Result<(u32, usize), Malformed> {
    let Some(&[flags, _, _, _, a, b, c, _]) = udp_payload.first_chunk::<HEADER_LEN>() else {
        return Err(Malformed::Short { header: Header::Vxlan, need: HEADER_LEN, have: udp_payload.len() });
    };
    if flags & FLAG_I == 0 {
        return Err(Malformed::NoVni { flags });
    }
    Ok((u32::from_be_bytes([0, a, b, c]), HEADER_LEN))
}

/// By how many bytes the inner packet must be smaller than the underlay's MTU: outer IP, UDP, VXLAN and the inner
/// Ethernet header.
#[inline]
pub const fn encap_len(v6: bool) -> usize {
    if v6 { 70 } else { 50 }
}

/// The UDP source port for an inner flow with this hash, in 49152..=65535 as the RFC recommends: routers spread
/// tunnels by it.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the upper half was folded into the lower")]
pub const fn source_port(hash: u32) -> u16 {
    0xc000 | (hash ^ hash >> 16) as u16 & 0x3fff
}

/// The outer headers of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outer {
    /// MAC address of the node.
    pub src_mac: Mac,
    /// MAC address of the next hop.
    pub dst_mac: Mac,
    /// The underlay's tag.
    pub vlan: Option<VlanTag>,
    /// Address of the node. When only one of the two addresses is IPv6 the other is written IPv4-mapped.
    pub src: IpAddr,
    /// Address of the other node.
    pub dst: IpAddr,
    /// See [`source_port`].
    pub src_port: u16,
    /// Mostly [`UDP_PORT`].
    pub dst_port: u16,
    /// The network, 24 bits.
    pub vni: u32,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// DSCP and ECN.
    pub tos: u8,
    /// Don't fragment; without a meaning for IPv6.
    pub df: bool,
}

impl Outer {
    /// Puts the headers in front of the packet. `ipid` is the identification of IPv4, unused for IPv6.
    pub fn push(&self, packet: &mut Packet, ipid: u16) -> Result<(), TooLong> {
        self.template().push(packet, self.src_port, ipid)
    }

    /// The same headers as bytes that are ready but for what differs from packet to packet.
    pub fn template(&self) -> Template {
        let mut template = Template::new(
            self.vlan.is_some(),
            matches!((self.src, self.dst), (IpAddr::V4(_), IpAddr::V4(_))),
        );
        let out = &mut template.bytes[..];
        bytes::set_mac(out, 0, self.dst_mac);
        bytes::set_mac(out, 6, self.src_mac);
        if let Some(tag) = self.vlan {
            bytes::set_u16(out, 12, ethertype::VLAN);
            bytes::set_u16(out, 14, tag.bits());
        }
        let ip = template.ip.into();
        let kind = if template.v4 { ethertype::IPV4 } else { ethertype::IPV6 };
        bytes::set_u16(out, ip - 2, kind);
        template.sum = match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => self.ipv4(out, ip, src, dst),
            (src, dst) => self.ipv6(out, ip, mapped(src), mapped(dst)),
        };
        let udp = ip + if template.v4 { 20 } else { 40 };
        bytes::set_u16(out, udp + 2, self.dst_port);
        bytes::set(out, udp + 8, &header(self.vni));
        template
    }

    /// Returns the sum of the header without its lengths and identification.
    fn ipv4(&self, out: &mut [u8], at: usize, src: Ipv4Addr, dst: Ipv4Addr) -> u32 {
        bytes::set(out, at, &[0x45, self.tos]);
        bytes::set_u16(out, at + 6, if self.df { 0x4000 } else { 0 });
        bytes::set(out, at + 8, &[self.ttl, proto::UDP]);
        bytes::set(out, at + 12, &src.octets());
        bytes::set(out, at + 16, &dst.octets());
        ones(out.get(at..at + 20).unwrap_or_default(), 0)
    }

    /// Returns the sum of the pseudo header without its length.
    fn ipv6(&self, out: &mut [u8], at: usize, src: Ipv6Addr, dst: Ipv6Addr) -> u32 {
        bytes::set(out, at, &[0x60 | self.tos >> 4, self.tos << 4]);
        bytes::set(out, at + 6, &[proto::UDP, self.ttl]);
        bytes::set(out, at + 8, &src.octets());
        bytes::set(out, at + 24, &dst.octets());
        pseudo_v6(src, dst, proto::UDP, 0)
    }
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// Outer headers ready to be put in front of packets: only lengths, source port, identification and checksum are
/// written per packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Template {
    bytes: [u8; MAX_OUTER],
    /// Bytes in use.
    len: u8,
    /// Where IP begins.
    ip: u8,
    v4: bool,
    /// IPv4: the header's sum without length and identification. IPv6: the pseudo header's without the length.
    sum: u32,
}

impl Template {
    fn new(vlan: bool, v4: bool) -> Self {
        let ip: u8 = if vlan { 18 } else { 14 };
        let len = ip + if v4 { 36 } else { 56 };
        Self { bytes: [0; MAX_OUTER], len, ip, v4, sum: 0 }
    }

    /// Bytes that a packet grows by.
    #[inline]
    pub const fn outer_len(&self) -> usize {
        self.len as usize
    }

    /// Puts the headers in front of the packet; allocates only when its headroom is smaller than
    /// [`Template::outer_len`].
    #[inline]
    pub fn push(&self, packet: &mut Packet, src_port: u16, ipid: u16) -> Result<(), TooLong> {
        let udp_len = packet.len() + 8 + HEADER_LEN;
        let length = udp_len + if self.v4 { 20 } else { 40 };
        // IPv6 states the length behind its header, but nobody here handles packets above 65,535 bytes in whole.
        let (Ok(total16), Ok(udp16)) = (u16::try_from(length), u16::try_from(udp_len)) else {
            return Err(TooLong { length });
        };
        let room = packet.push_or_grow(self.len.into());
        // A copy of a known length is a few moves; of an unknown one it is a call.
        match self.len {
            50 => bytes::set(room, 0, self.first::<50>()),
            54 => bytes::set(room, 0, self.first::<54>()),
            70 => bytes::set(room, 0, self.first::<70>()),
            _ => bytes::set(room, 0, self.first::<MAX_OUTER>()),
        };
        let ip = usize::from(self.ip);
        if self.v4 {
            bytes::set_u16(room, ip + 2, total16);
            bytes::set_u16(room, ip + 4, ipid);
            bytes::set_u16(room, ip + 10, finish(self.sum + u32::from(total16) + u32::from(ipid)));
            bytes::set_u16(room, ip + 20, src_port);
            bytes::set_u16(room, ip + 24, udp16);
        } else {
            bytes::set_u16(room, ip + 4, udp16);
            bytes::set_u16(room, ip + 40, src_port);
            bytes::set_u16(room, ip + 44, udp16);
            let covered = packet.data_mut().get_mut(ip + 40..).unwrap_or_default();
            let sum = ones(covered, self.sum + u32::from(udp16));
            bytes::set_u16(covered, 6, finish_udp(sum));
        }
        Ok(())
    }

    #[inline]
    fn first<const N: usize>(&self) -> &[u8; N] {
        const { assert!(N <= MAX_OUTER) };
        self.bytes.first_chunk().unwrap_or(&[0; N])
    }
}
