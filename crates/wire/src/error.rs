//! What can be wrong with a frame.

use std::fmt;

/// A header, by the name that its standard gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Header {
    /// Ethernet II.
    Ethernet,
    /// An 802.1Q tag.
    Vlan,
    /// ARP for Ethernet and IPv4.
    Arp,
    /// IPv4 with its options.
    Ipv4,
    /// The fixed part of IPv6.
    Ipv6,
    /// IPv6 hop-by-hop options.
    HopByHop,
    /// An IPv6 routing header.
    Routing,
    /// IPv6 destination options.
    Destination,
    /// An IPv6 fragment header.
    Fragment,
    /// TCP with its options.
    Tcp,
    /// UDP.
    Udp,
    /// The common header of SCTP.
    Sctp,
    /// ICMP for IPv4.
    Icmp,
    /// ICMP for IPv6.
    Icmp6,
    /// VXLAN.
    Vxlan,
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ethernet => "Ethernet",
            Self::Vlan => "VLAN",
            Self::Arp => "ARP",
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
            Self::HopByHop => "IPv6 hop-by-hop",
            Self::Routing => "IPv6 routing",
            Self::Destination => "IPv6 destination options",
            Self::Fragment => "IPv6 fragment",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
            Self::Icmp => "ICMP",
            Self::Icmp6 => "ICMPv6",
            Self::Vxlan => "VXLAN",
        })
    }
}

/// Why bytes are not a frame that can be worked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Malformed {
    /// The bytes end inside a header.
    #[error("the {header} header needs {need} bytes, but {have} are left")]
    Short {
        /// The header that is cut.
        header: Header,
        /// Bytes that it needs.
        need: usize,
        /// Bytes that are there.
        have: usize,
    },
    /// The length that a header states for itself is below the least that is possible.
    #[error("the {header} header states its own length as {stated} bytes; at least {least} would be right")]
    HeaderLength {
        /// The header.
        header: Header,
        /// What it says.
        stated: usize,
        /// The least that would be right.
        least: usize,
    },
    /// The length field of a packet disagrees with the bytes that are there.
    #[error("the {header} length field says {stated} bytes, but there are {have}")]
    TotalLength {
        /// The header that holds the field.
        header: Header,
        /// What it says.
        stated: usize,
        /// Bytes that are there.
        have: usize,
    },
    /// The version field is not the one of the ethertype.
    #[error("the {header} header has version {version}")]
    Version {
        /// The header that the ethertype announced.
        header: Header,
        /// The version field.
        version: u8,
    },
    /// An extension header where it may not be, or too many of them.
    #[error("the {header} header is one too many or not at its place")]
    Extension {
        /// The header.
        header: Header,
    },
    /// A fragment that ends past 65,535 bytes, or one before the last whose length is no multiple of 8.
    #[error("the fragment at {offset} with {length} bytes cannot be part of an {header} packet")]
    FragmentExtent {
        /// The version of IP.
        header: Header,
        /// Where it begins, in bytes.
        offset: u16,
        /// Bytes of payload that it brings.
        length: usize,
    },
    /// A VXLAN header whose I bit is not set: the VNI is not valid (RFC 7348 section 5).
    #[error("the VXLAN header has flags {flags:#04x}; without 0x08 there is no valid VNI")]
    NoVni {
        /// The flags byte.
        flags: u8,
    },
}

/// An IP packet would be longer than its 16-bit length field can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("with {length} bytes the packet is longer than the 65535 that IP can state")]
pub struct TooLong {
    /// The length that it would have.
    pub length: usize,
}
