//! The words of a parsed frame: what each header says and where it is.

use std::net::{IpAddr, Ipv4Addr};

use bitflags::bitflags;

use crate::Mac;

/// Ethertypes that are known here.
pub mod ethertype {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// An 802.1Q tag.
    pub const VLAN: u16 = 0x8100;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
}

/// IP protocol numbers that are known here.
pub mod proto {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// An IPv6 routing header.
    pub const ROUTING: u8 = 43;
    /// An IPv6 fragment header.
    pub const FRAGMENT: u8 = 44;
    /// ICMP for IPv6.
    pub const ICMP6: u8 = 58;
    /// Nothing follows.
    pub const NO_NEXT: u8 = 59;
    /// IPv6 destination options.
    pub const DESTINATION: u8 = 60;
    /// SCTP.
    pub const SCTP: u8 = 132;
}

/// A frame whose structure was checked by [`crate::parse`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Ethernet.
    pub l2: L2,
    /// What is in it.
    pub kind: Kind,
}

impl Frame {
    /// The IP header, when there is one.
    #[inline]
    pub fn ip(&self) -> Option<&Ip> {
        match &self.kind {
            Kind::Ip(ip) => Some(ip),
            _ => None,
        }
    }
}

/// The Ethernet header with its tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct L2 {
    /// Destination.
    pub dst: Mac,
    /// Source.
    pub src: Mac,
    /// The outermost 802.1Q tag.
    pub vlan: Option<VlanTag>,
    /// What follows, behind the tag; below 1536 it is the length of an 802.3 frame.
    pub ethertype: u16,
    /// Bytes of the header: 14, or 18 with a tag.
    pub len: u8,
}

/// An 802.1Q tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct VlanTag {
    /// VLAN id, 0 to 4095; 0 is a priority without a VLAN.
    pub id: u16,
    /// Priority, 0 to 7.
    pub pcp: u8,
    /// Whether the frame may be dropped first.
    pub dei: bool,
}

impl VlanTag {
    /// The tag with this id and no priority.
    pub const fn new(id: u16) -> Self {
        Self { id, pcp: 0, dei: false }
    }

    /// From the 16 bits behind the ethertype 0x8100.
    #[inline]
    pub const fn from_bits(bits: u16) -> Self {
        Self { id: bits & 0x0fff, pcp: (bits >> 13) as u8, dei: bits & 0x1000 != 0 }
    }

    /// The 16 bits behind the ethertype 0x8100; bits that have no place are dropped.
    #[inline]
    pub const fn bits(self) -> u16 {
        (self.pcp as u16) << 13 | (self.dei as u16) << 12 | self.id & 0x0fff
    }
}

/// What an Ethernet frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// IPv4 or IPv6.
    Ip(Ip),
    /// ARP for Ethernet and IPv4.
    Arp(Arp),
    /// Anything else, ARP for other hardware or protocols among it.
    Other,
}

/// An IP header with what is known of the layer above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ip {
    /// Source.
    pub src: IpAddr,
    /// Destination, of the same family.
    pub dst: IpAddr,
    /// The upper layer, behind the extension headers.
    pub proto: u8,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Type of service, or traffic class: DSCP and ECN.
    pub tos: u8,
    /// Where the header begins in the frame.
    pub offset: u16,
    /// Bytes up to the upper layer: options and extension headers are in it.
    pub header_len: u16,
    /// Bytes of the packet, header and payload; what is behind them in the frame is padding.
    pub total_len: u16,
    /// Fragmentation.
    pub frag: Fragment,
    /// The upper layer.
    pub l4: L4,
}

impl Ip {
    /// Whether the packet is a part of a larger one. An IPv6 fragment header around a whole packet makes none
    /// (RFC 6946).
    #[inline]
    pub const fn is_fragment(&self) -> bool {
        self.frag.more || self.frag.offset != 0
    }

    /// Whether the packet is the first part of a larger one.
    #[inline]
    pub const fn is_first(&self) -> bool {
        self.frag.more && self.frag.offset == 0
    }

    /// Whether the packet is a later part, without the upper layer's header.
    #[inline]
    pub const fn is_later(&self) -> bool {
        self.frag.offset != 0
    }

    /// Whether the packet is IPv6.
    #[inline]
    pub const fn is_v6(&self) -> bool {
        self.src.is_ipv6()
    }

    /// Where the upper layer begins in the frame.
    #[inline]
    pub const fn l4_offset(&self) -> usize {
        self.offset as usize + self.header_len as usize
    }

    /// Where the packet ends in the frame.
    #[inline]
    pub const fn end(&self) -> usize {
        self.offset as usize + self.total_len as usize
    }

    /// Bytes behind the headers of IP: the upper layer with its header.
    #[inline]
    pub const fn l4_len(&self) -> usize {
        (self.total_len - self.header_len) as usize
    }

    /// Where the data of the upper layer begin in the frame; without a known upper layer, where that begins.
    #[inline]
    pub const fn payload_offset(&self) -> usize {
        self.l4_offset() + self.l4.header_len()
    }
}

/// The fragment fields of IPv4, or of IPv6's fragment header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Fragment {
    /// Identification: 16 bits of IPv4 (in whole packets too), 32 bits of IPv6 (0 without the header).
    pub id: u32,
    /// Where this part begins in the whole, in bytes.
    pub offset: u16,
    /// Whether parts follow.
    pub more: bool,
    /// Whether a router must not fragment; never set for IPv6, where none may.
    pub dont: bool,
}

/// The header of the upper layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum L4 {
    /// TCP.
    Tcp {
        /// Source port.
        sport: u16,
        /// Destination port.
        dport: u16,
        /// Flags.
        flags: TcpFlags,
        /// Bytes of the header with its options: 20 to 60.
        header_len: u8,
        /// Sequence number.
        seq: u32,
        /// Acknowledgement number.
        ack: u32,
        /// Window, not scaled.
        window: u16,
    },
    /// UDP.
    Udp {
        /// Source port.
        sport: u16,
        /// Destination port.
        dport: u16,
        /// The length field: header and data, in the whole packet.
        len: u16,
    },
    /// SCTP.
    Sctp {
        /// Source port.
        sport: u16,
        /// Destination port.
        dport: u16,
    },
    /// ICMP for IPv4.
    Icmp {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
        /// Identifier of an echo request or reply, else 0.
        id: u16,
    },
    /// ICMP for IPv6.
    Icmp6 {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
        /// Identifier of an echo request or reply, else 0.
        id: u16,
    },
    /// A protocol that is not known here.
    Other,
    /// A later fragment: the header is in the first.
    None,
}

impl L4 {
    /// Source and destination port of TCP, UDP and SCTP.
    #[inline]
    pub const fn ports(&self) -> Option<(u16, u16)> {
        match *self {
            Self::Tcp { sport, dport, .. } | Self::Udp { sport, dport, .. } | Self::Sctp { sport, dport } => {
                Some((sport, dport))
            }
            _ => None,
        }
    }

    /// Bytes of the header; 0 when there is none that is known.
    #[inline]
    pub const fn header_len(&self) -> usize {
        match *self {
            Self::Tcp { header_len, .. } => header_len as usize,
            Self::Udp { .. } | Self::Icmp { .. } | Self::Icmp6 { .. } => 8,
            Self::Sctp { .. } => 12,
            Self::Other | Self::None => 0,
        }
    }
}

bitflags! {
    /// The flags of TCP.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct TcpFlags: u8 {
        /// No more data from the sender.
        const FIN = 1;
        /// Synchronise sequence numbers.
        const SYN = 2;
        /// Reset the connection.
        const RST = 4;
        /// Push.
        const PSH = 8;
        /// The acknowledgement number is valid.
        const ACK = 16;
        /// The urgent pointer is valid.
        const URG = 32;
        /// ECN echo.
        const ECE = 64;
        /// Congestion window reduced.
        const CWR = 128;
    }
}

/// What an ARP packet does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ArpOp {
    /// Who has the target address?
    Request,
    /// The sender has it.
    Reply,
    /// Another operation, by its number.
    Other(u16),
}

impl ArpOp {
    /// From the field of the header.
    pub const fn from_bits(bits: u16) -> Self {
        match bits {
            1 => Self::Request,
            2 => Self::Reply,
            other => Self::Other(other),
        }
    }

    /// The field of the header.
    pub const fn bits(self) -> u16 {
        match self {
            Self::Request => 1,
            Self::Reply => 2,
            Self::Other(bits) => bits,
        }
    }
}

/// ARP for Ethernet and IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arp {
    /// Request or reply.
    pub op: ArpOp,
    /// Who speaks.
    pub sender_mac: Mac,
    /// Who speaks.
    pub sender_ip: Ipv4Addr,
    /// Who is spoken to; zero in a request.
    pub target_mac: Mac,
    /// Who is asked for.
    pub target_ip: Ipv4Addr,
}
