//! What a rule or a group asks of a packet.

use std::fmt;

use serde::Serialize;
use smallvec::SmallVec;
use wire::Mac;

use super::AddressSet;

/// IP protocol numbers that conditions name, the two private ones of VFP included.
pub mod protocol {
    /// ICMP.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// ICMPv6.
    pub const ICMP6: u8 = 58;
    /// SCTP.
    pub const SCTP: u8 = 132;
    /// Encrypted VXLAN; VFP's own number.
    pub const VXLAN_ENCRYPTED: u8 = 251;
    /// VXLAN; VFP's own number. A condition on it means UDP to the switch's VXLAN port.
    pub const VXLAN: u8 = 252;
}

/// First and last port, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct PortRange {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

impl PortRange {
    /// One port.
    pub const fn one(port: u16) -> Self {
        Self { first: port, last: port }
    }

    /// Whether a port lies in it.
    pub const fn contains(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

/// Everything must hold; within one list one entry must match; an empty list means *any*.
///
/// A condition on ports never matches a packet without ports. Ports of ICMP are not matched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Conditions {
    /// IP protocols; see [`protocol`].
    pub protocols: SmallVec<[u8; 4]>,
    /// Source addresses.
    pub sources: AddressSet,
    /// Destination addresses.
    pub destinations: AddressSet,
    /// Source ports.
    pub source_ports: SmallVec<[PortRange; 1]>,
    /// Destination ports.
    pub destination_ports: SmallVec<[PortRange; 1]>,
    /// Source MACs.
    pub source_macs: SmallVec<[Mac; 1]>,
    /// Destination MACs.
    pub destination_macs: SmallVec<[Mac; 1]>,
    /// VLAN ids, first and last; an untagged frame has id 0.
    pub vlans: Option<(u16, u16)>,
    /// The tenant (VSID, VNI) that an outer header or an earlier layer gave.
    pub tenant: Option<u32>,
    /// A tag that must hold the source.
    pub source_tag: Option<String>,
    /// A tag that must hold the destination.
    pub destination_tag: Option<String>,
    /// Metadata that an earlier layer must have set.
    pub mark: Option<u32>,
    /// The outer (tunnel) header must be there (true) or absent (false).
    pub encapsulated: Option<bool>,
}

impl Conditions {
    /// No condition: everything matches.
    pub fn any() -> Self {
        Self::default()
    }

    /// Whether there is no condition at all.
    pub fn is_any(&self) -> bool {
        *self == Self::default()
    }
}
