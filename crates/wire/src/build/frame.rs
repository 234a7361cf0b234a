//! A whole frame from its words, header by header.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::checksum::{self, finish, ones};
use crate::frame::{TcpFlags, VlanTag, ethertype, proto};
use crate::{Mac, bytes};

/// The largest IPv6 payload, and more than the largest IPv4 payload.
const MAX_IP: usize = 65_535;

/// Builds one frame; lengths and checksums are computed at the end.
///
/// What does not fit a length field cannot be built: of a payload that is too long the end is cut off.
#[derive(Debug, Clone)]
pub struct FrameBuilder {
    src_mac: Mac,
    dst_mac: Mac,
    vlan: Option<VlanTag>,
    ethertype: u16,
    ip: Option<(IpAddr, IpAddr)>,
    ttl: u8,
    tos: u8,
    ipid: u16,
    df: bool,
    fragment: Option<(u32, u16, bool)>,
    options: Vec<u8>,
    extensions: Vec<(u8, Vec<u8>)>,
    l4: Upper,
    payload: Vec<u8>,
    padding: usize,
}

#[derive(Debug, Clone)]
enum Upper {
    /// The payload follows IP at once; the protocol number.
    Raw(u8),
    Tcp {
        sport: u16,
        dport: u16,
        flags: TcpFlags,
        seq: u32,
        ack: u32,
        window: u16,
        options: Vec<u8>,
    },
    Udp {
        sport: u16,
        dport: u16,
        checksum: bool,
    },
    Sctp {
        sport: u16,
        dport: u16,
        tag: u32,
    },
    Icmp {
        v6: bool,
        kind: u8,
        code: u8,
        rest: [u8; 4],
    },
}

impl FrameBuilder {
    /// A frame from one station to another, with nothing in it yet.
    pub fn eth(src: impl Into<Mac>, dst: impl Into<Mac>) -> Self {
        Self {
            src_mac: src.into(),
            dst_mac: dst.into(),
            vlan: None,
            ethertype: 0x88b5,
            ip: None,
            ttl: 64,
            tos: 0,
            ipid: 0,
            df: false,
            fragment: None,
            options: Vec::new(),
            extensions: Vec::new(),
            l4: Upper::Raw(proto::NO_NEXT),
            payload: Vec::new(),
            padding: 0,
        }
    }

    /// With an 802.1Q tag of this id.
    #[must_use]
    pub fn vlan(self, id: u16) -> Self {
        self.tag(Some(VlanTag::new(id)))
    }

    /// With this tag, or none.
    #[must_use]
    pub fn tag(mut self, tag: Option<VlanTag>) -> Self {
        self.vlan = tag;
        self
    }

    /// With this ethertype and no IP; without both it is 0x88B5, which is for experiments.
    #[must_use]
    pub fn ethertype(mut self, ethertype: u16) -> Self {
        self.ethertype = ethertype;
        self.ip = None;
        self
    }

    /// IPv4 between these addresses.
    #[must_use]
    pub fn ipv4(self, src: impl Into<Ipv4Addr>, dst: impl Into<Ipv4Addr>) -> Self {
        self.ip(src.into(), dst.into())
    }

    /// IPv6 between these addresses.
    #[must_use]
    pub fn ipv6(self, src: impl Into<Ipv6Addr>, dst: impl Into<Ipv6Addr>) -> Self {
        self.ip(src.into(), dst.into())
    }

    /// IP between these addresses; when only one is IPv6 the other is written IPv4-mapped.
    #[must_use]
    pub fn ip(mut self, src: impl Into<IpAddr>, dst: impl Into<IpAddr>) -> Self {
        self.ip = Some((src.into(), dst.into()));
        self
    }

    /// Time to live, or hop limit; 64 when not said.
    #[must_use]
    pub fn ttl(mut self, ttl: u8) -> Self {
        self.ttl = ttl;
        self
    }

    /// DSCP and ECN.
    #[must_use]
    pub fn tos(mut self, tos: u8) -> Self {
        self.tos = tos;
        self
    }

    /// The identification of IPv4.
    #[must_use]
    pub fn ipid(mut self, id: u16) -> Self {
        self.ipid = id;
        self
    }

    /// Don't fragment (IPv4 only).
    #[must_use]
    pub fn df(mut self, df: bool) -> Self {
        self.df = df;
        self
    }

    /// A fragment: the identification (IPv4 has 16 bits of it), where it begins in bytes (rounded down to a
    /// multiple of 8), and whether more follow. When it begins past 0 the upper layer gives only its number, and the
    /// payload is all there is. The checksum of a first fragment covers the fragment only: real ones are cut from
    /// a whole packet.
    #[must_use]
    pub fn fragment(mut self, id: u32, offset: u16, more: bool) -> Self {
        self.fragment = Some((id, offset & 0xfff8, more));
        self
    }

    /// Options of IPv4, filled with zeros to a multiple of 4; at most 40 bytes.
    #[must_use]
    pub fn ipv4_options(mut self, options: &[u8]) -> Self {
        self.options = padded(options, 4, 40);
        self
    }

    /// A hop-by-hop, routing or destination options header of IPv6 (see [`proto`]) with this content behind its
    /// first two bytes, filled with zeros (padding options of one byte) to a multiple of 8.
    #[must_use]
    pub fn extension(mut self, kind: u8, content: &[u8]) -> Self {
        let mut body = vec![0; 2];
        body.extend_from_slice(content);
        self.extensions.push((kind, padded(&body, 8, 2048)));
        self
    }

    /// A payload of this protocol number, without a header that is known here.
    #[must_use]
    pub fn proto(mut self, number: u8) -> Self {
        self.l4 = Upper::Raw(number);
        self
    }

    /// A TCP segment.
    #[must_use]
    pub fn tcp(mut self, sport: u16, dport: u16, flags: TcpFlags) -> Self {
        self.l4 = Upper::Tcp { sport, dport, flags, seq: 0, ack: 0, window: 64_240, options: Vec::new() };
        self
    }

    /// TCP's sequence number.
    #[must_use]
    pub fn seq(mut self, number: u32) -> Self {
        if let Upper::Tcp { seq, .. } = &mut self.l4 {
            *seq = number;
        }
        self
    }

    /// TCP's acknowledgement number.
    #[must_use]
    pub fn ack(mut self, number: u32) -> Self {
        if let Upper::Tcp { ack, .. } = &mut self.l4 {
            *ack = number;
        }
        self
    }

    /// TCP's window; 64240 when not said.
    #[must_use]
    pub fn window(mut self, bytes: u16) -> Self {
        if let Upper::Tcp { window, .. } = &mut self.l4 {
            *window = bytes;
        }
        self
    }

    /// TCP's options, filled with zeros (end of options) to a multiple of 4; at most 40 bytes.
    #[must_use]
    pub fn tcp_options(mut self, bytes: &[u8]) -> Self {
        if let Upper::Tcp { options, .. } = &mut self.l4 {
            *options = padded(bytes, 4, 40);
        }
        self
    }

    /// TCP's option of the maximum segment size, and no other.
    #[must_use]
    pub fn mss(self, mss: u16) -> Self {
        let [high, low] = mss.to_be_bytes();
        self.tcp_options(&[2, 4, high, low])
    }

    /// A UDP datagram.
    #[must_use]
    pub fn udp(mut self, sport: u16, dport: u16) -> Self {
        self.l4 = Upper::Udp { sport, dport, checksum: true };
        self
    }

    /// A UDP datagram whose checksum is 0, as tunnels over IPv4 send.
    #[must_use]
    pub fn udp_unchecked(mut self, sport: u16, dport: u16) -> Self {
        self.l4 = Upper::Udp { sport, dport, checksum: false };
        self
    }

    /// An SCTP packet with a verification tag; the chunks are the payload.
    #[must_use]
    pub fn sctp(mut self, sport: u16, dport: u16, tag: u32) -> Self {
        self.l4 = Upper::Sctp { sport, dport, tag };
        self
    }

    /// An ICMP message with the 4 bytes behind its checksum.
    #[must_use]
    pub fn icmp(mut self, kind: u8, code: u8, rest: [u8; 4]) -> Self {
        self.l4 = Upper::Icmp { v6: false, kind, code, rest };
        self
    }

    /// An ICMPv6 message with the 4 bytes behind its checksum.
    #[must_use]
    pub fn icmp6(mut self, kind: u8, code: u8, rest: [u8; 4]) -> Self {
        self.l4 = Upper::Icmp { v6: true, kind, code, rest };
        self
    }

    /// An ICMP echo request or reply.
    #[must_use]
    pub fn icmp_echo(self, request: bool, id: u16, seq: u16) -> Self {
        self.icmp(if request { 8 } else { 0 }, 0, pair(id, seq))
    }

    /// An ICMPv6 echo request or reply.
    #[must_use]
    pub fn icmp6_echo(self, request: bool, id: u16, seq: u16) -> Self {
        self.icmp6(if request { 128 } else { 129 }, 0, pair(id, seq))
    }

    /// What the innermost header carries.
    #[must_use]
    pub fn payload(mut self, payload: &[u8]) -> Self {
        self.payload = payload.to_vec();
        self
    }

    /// Zeros behind the packet until the frame has this many bytes, as Ethernet adds below 60.
    #[must_use]
    pub fn pad_to(mut self, length: usize) -> Self {
        self.padding = length;
        self
    }

    /// The frame.
    pub fn build(self) -> Vec<u8> {
        let mut frame = Vec::with_capacity(128 + self.payload.len());
        frame.extend_from_slice(&self.dst_mac.0);
        frame.extend_from_slice(&self.src_mac.0);
        if let Some(tag) = self.vlan {
            put(&mut frame, ethertype::VLAN);
            put(&mut frame, tag.bits());
        }
        match self.ip {
            None => {
                put(&mut frame, self.ethertype);
                frame.extend_from_slice(&self.payload);
            }
            Some((IpAddr::V4(src), IpAddr::V4(dst))) => self.put_ipv4(&mut frame, src, dst),
            Some((src, dst)) => self.put_ipv6(&mut frame, mapped(src), mapped(dst)),
        }
        if frame.len() < self.padding {
            frame.resize(self.padding, 0);
        }
        frame
    }

    fn put_ipv4(&self, frame: &mut Vec<u8>, src: Ipv4Addr, dst: Ipv4Addr) {
        put(frame, ethertype::IPV4);
        let header_len = 20 + self.options.len();
        let upper = self.upper(src.into(), dst.into(), MAX_IP - header_len);
        let (id, offset, more) = self.fragment.unwrap_or((self.ipid.into(), 0, false));
        let [.., id_high, id_low] = id.to_be_bytes();
        let at = frame.len();
        frame.extend_from_slice(&[0x40 | octet(header_len / 4), self.tos]);
        put(frame, length(header_len + upper.len()));
        frame.extend_from_slice(&[id_high, id_low]);
        put(frame, u16::from(self.df) << 14 | u16::from(more) << 13 | offset >> 3);
        frame.extend_from_slice(&[self.ttl, self.number(), 0, 0]);
        frame.extend_from_slice(&src.octets());
        frame.extend_from_slice(&dst.octets());
        frame.extend_from_slice(&self.options);
        let header = frame.get_mut(at..).unwrap_or_default();
        let checksum = finish(ones(header, 0));
        bytes::set_u16(header, 10, checksum);
        frame.extend_from_slice(&upper);
    }

    fn put_ipv6(&self, frame: &mut Vec<u8>, src: Ipv6Addr, dst: Ipv6Addr) {
        put(frame, ethertype::IPV6);
        let mut headers = self.extensions.clone();
        if let Some((id, offset, more)) = self.fragment {
            let mut body = vec![0; 8];
            bytes::set_u16(&mut body, 2, offset | u16::from(more));
            bytes::set_u32(&mut body, 4, id);
            headers.push((proto::FRAGMENT, body));
        }
        let before: usize = headers.iter().map(|(_, body)| body.len()).sum();
        let upper = self.upper(src.into(), dst.into(), (MAX_IP - 40).saturating_sub(before));
        let mut kinds = headers.iter().map(|(kind, _)| *kind).chain([self.number()]);
        frame.extend_from_slice(&[0x60 | self.tos >> 4, self.tos << 4, 0, 0]);
        put(frame, length(before + upper.len()));
        frame.extend_from_slice(&[kinds.next().unwrap_or(proto::NO_NEXT), self.ttl]);
        frame.extend_from_slice(&src.octets());
        frame.extend_from_slice(&dst.octets());
        for (kind, body) in &headers {
            let at = frame.len();
            frame.extend_from_slice(body);
            bytes::set_u8(frame, at, kinds.next().unwrap_or(proto::NO_NEXT));
            if *kind != proto::FRAGMENT {
                bytes::set_u8(frame, at + 1, octet(body.len() / 8 - 1));
            }
        }
        frame.extend_from_slice(&upper);
    }

    fn number(&self) -> u8 {
        match &self.l4 {
            Upper::Raw(number) => *number,
            Upper::Tcp { .. } => proto::TCP,
            Upper::Udp { .. } => proto::UDP,
            Upper::Sctp { .. } => proto::SCTP,
            Upper::Icmp { v6: false, .. } => proto::ICMP,
            Upper::Icmp { v6: true, .. } => proto::ICMP6,
        }
    }

    /// The upper layer with its checksum, in at most `room` bytes.
    fn upper(&self, src: IpAddr, dst: IpAddr, room: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(60 + self.payload.len());
        if self.fragment.is_none_or(|(_, offset, _)| offset == 0) {
            self.put_l4(&mut out);
        }
        out.extend_from_slice(&self.payload);
        out.truncate(room);
        if self.fragment.is_some_and(|(_, _, more)| more) {
            out.truncate(out.len() & !7);
        }
        if self.fragment.is_none_or(|(_, offset, _)| offset == 0) {
            self.check(&mut out, src, dst);
        }
        out
    }

    fn put_l4(&self, out: &mut Vec<u8>) {
        match &self.l4 {
            Upper::Raw(_) => {}
            Upper::Tcp { sport, dport, flags, seq, ack, window, options } => {
                out.extend_from_slice(&pair(*sport, *dport));
                out.extend_from_slice(&seq.to_be_bytes());
                out.extend_from_slice(&ack.to_be_bytes());
                out.extend_from_slice(&[octet((20 + options.len()) / 4) << 4, flags.bits()]);
                put(out, *window);
                out.extend_from_slice(&[0; 4]);
                out.extend_from_slice(options);
            }
            Upper::Udp { sport, dport, .. } => {
                out.extend_from_slice(&pair(*sport, *dport));
                out.extend_from_slice(&[0; 4]);
            }
            Upper::Sctp { sport, dport, tag } => {
                out.extend_from_slice(&pair(*sport, *dport));
                out.extend_from_slice(&tag.to_be_bytes());
                out.extend_from_slice(&[0; 4]);
            }
            Upper::Icmp { kind, code, rest, .. } => {
                out.extend_from_slice(&[*kind, *code, 0, 0]);
                out.extend_from_slice(rest);
            }
        }
    }

    fn check(&self, out: &mut [u8], src: IpAddr, dst: IpAddr) {
        let pseudo = checksum::pseudo(src, dst, self.number(), length(out.len()));
        match &self.l4 {
            Upper::Raw(_) => {}
            Upper::Tcp { .. } => {
                let sum = finish(ones(out, pseudo));
                bytes::set_u16(out, 16, sum);
            }
            Upper::Udp { checksum, .. } => {
                let whole = length(out.len());
                bytes::set_u16(out, 4, whole);
                if *checksum {
                    let sum = checksum::finish_udp(ones(out, pseudo));
                    bytes::set_u16(out, 6, sum);
                }
            }
            Upper::Sctp { .. } => {
                let crc = checksum::crc32c(&[out]);
                bytes::set(out, 8, &crc.to_le_bytes());
            }
            Upper::Icmp { v6, .. } => {
                let sum = finish(ones(out, if *v6 { pseudo } else { 0 }));
                bytes::set_u16(out, 2, sum);
            }
        }
    }
}

fn padded(content: &[u8], unit: usize, most: usize) -> Vec<u8> {
    let mut padded = content.get(..most).unwrap_or(content).to_vec();
    padded.resize(padded.len().next_multiple_of(unit), 0);
    padded
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

fn put(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn pair(first: u16, second: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (first.to_be_bytes(), second.to_be_bytes());
    [a, b, c, d]
}

/// Lengths are bounded by what is put in; a number that does not fit would be the largest.
fn length(bytes: usize) -> u16 {
    u16::try_from(bytes).unwrap_or(u16::MAX)
}

fn octet(value: usize) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}
