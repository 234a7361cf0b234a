//! Why a packet was dropped.

use serde::{Deserialize, Serialize};

/// Why a packet was dropped; each is counted by port and direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u16)]
pub enum DropReason {
    /// The port is disabled.
    BlockedPort,
    /// A guard refuses broadcasts.
    Broadcast,
    /// The frame is malformed.
    Malformed,
    /// A guard refuses frames that are neither IP nor ARP, or DHCP servers.
    Guard,
    /// The source MAC is not the port's.
    MacSpoofing,
    /// The IPv4 source is not the port's.
    SpoofV4,
    /// The IPv6 source is not the port's.
    SpoofV6,
    /// A rule blocks it.
    Acl,
    /// No rule of a layer without default-allow matches.
    NoRuleMatch,
    /// No port has the destination MAC.
    Forwarding,
    /// The host's stack has no next hop.
    PaRoute,
    /// A fragment whose first part was not seen, or that cannot be translated.
    Fragment,
    /// A NAT pool is used up, or not there.
    NatPool,
    /// A flow limit is reached.
    FlowLimit,
    /// Another connection has the translated addresses and ports already.
    FlowConflict,
    /// TCP without a flow, in a layer that would translate it.
    NonSyn,
    /// ICMP that would need a translation.
    IcmpNat,
    /// A load balancer without destinations.
    NoDestination,
    /// Sent back and forth too often.
    HairpinLoop,
    /// A hairpinned packet would go back to its sender.
    LoopbackHairpin,
    /// Larger than the way allows, and not to be fragmented.
    MtuExceeded,
    /// The TTL is used up.
    TtlExceeded,
    /// The port's bandwidth is used up.
    Qos,
    /// ARP or neighbour discovery that nobody answers, or that a guard refuses.
    Arp,
    /// Answered by the switch itself.
    Answered,
}

impl DropReason {
    /// All of them.
    pub const ALL: [Self; 25] = [
        Self::BlockedPort,
        Self::Broadcast,
        Self::Malformed,
        Self::Guard,
        Self::MacSpoofing,
        Self::SpoofV4,
        Self::SpoofV6,
        Self::Acl,
        Self::NoRuleMatch,
        Self::Forwarding,
        Self::PaRoute,
        Self::Fragment,
        Self::NatPool,
        Self::FlowLimit,
        Self::FlowConflict,
        Self::NonSyn,
        Self::IcmpNat,
        Self::NoDestination,
        Self::HairpinLoop,
        Self::LoopbackHairpin,
        Self::MtuExceeded,
        Self::TtlExceeded,
        Self::Qos,
        Self::Arp,
        Self::Answered,
    ];

    /// Its place among the counters.
    pub const fn index(self) -> usize {
        self as usize
    }

    pub(crate) fn from_index(index: u16) -> Self {
        Self::ALL.get(usize::from(index)).copied().unwrap_or(Self::Acl)
    }

    /// What it means, for people.
    pub const fn explain(self) -> &'static str {
        match self {
            Self::BlockedPort => "the port is disabled",
            Self::Broadcast => "the port takes no broadcasts",
            Self::Malformed => "the frame is malformed",
            Self::Guard => "a guard of the port refuses it",
            Self::MacSpoofing => "the source MAC is not the port's",
            Self::SpoofV4 => "the IPv4 source is not the port's",
            Self::SpoofV6 => "the IPv6 source is not the port's",
            Self::Acl => "a rule blocks it",
            Self::NoRuleMatch => "no rule matches and the layer does not allow by default",
            Self::Forwarding => "no port of the switch has the destination MAC",
            Self::PaRoute => "the host's stack has no next hop for it",
            Self::Fragment => "a fragment without its first part, or one that cannot be translated",
            Self::NatPool => "the NAT pool is used up or missing",
            Self::FlowLimit => "the port has as many flows as it may",
            Self::FlowConflict => "another connection has the translated addresses and ports",
            Self::NonSyn => "TCP without a flow where it would have to be translated",
            Self::IcmpNat => "ICMP cannot be translated",
            Self::NoDestination => "the load balancer has no destination",
            Self::HairpinLoop => "it was sent back too often",
            Self::LoopbackHairpin => "it would go back to its sender",
            Self::MtuExceeded => "it is larger than the way allows",
            Self::TtlExceeded => "its TTL is used up",
            Self::Qos => "the port's bandwidth is used up",
            Self::Arp => "nobody answers for the address",
            Self::Answered => "the switch answered itself",
        }
    }
}

impl std::fmt::Display for DropReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_place() {
        for (index, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason.index(), index);
            assert_eq!(DropReason::from_index(u16::try_from(index).unwrap()), reason);
        }
    }
}
