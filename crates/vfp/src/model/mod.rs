//! What a controller programs: ports, layers, groups, rules, pools, tags, and the changes that bring them.
//!
//! These are plain values. They know nothing of packets or of how rules are found; [`crate::Switch::apply`] checks
//! them and puts them to work.

mod action;
mod change;
mod conditions;
mod port;
mod range;
mod rule;

pub use action::{
    Action, Decap, DecapFlags, Dip, Distribution, DynNat, DynNatFlags, EncapDestination, EncapFlags, Hairpin,
    LbFlags, LbNat, Meter, Nat, NatSide, NativeRoute, PaRoute, RouteEncap, Transpose, Tunnel,
};
pub use change::{ApplyError, Change, GroupKey, PoolKey, PoolRange, PoolSpec, TagSpec};
pub use conditions::{Conditions, PortRange, protocol};
pub use port::{
    ArpMode, FlowClass, FlowSettings, Guards, LbChoice, Limits, NatReply, NeighborSpec, PortKind, PortSpec,
    RemovedDip, SegmentSpec, SwitchSettings,
};
pub use range::{AddressRange, AddressSet};
pub use rule::{GroupSpec, LayerFlags, LayerSpec, Rule, RuleFlags};

/// Which way a frame goes, seen from what is attached to the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum Direction {
    /// It leaves the attached adapter into the switch.
    #[serde(rename = "OUT")]
    Out,
    /// It is delivered to the attached adapter.
    #[serde(rename = "IN")]
    In,
}

impl Direction {
    /// The other one.
    #[must_use]
    pub const fn reverse(self) -> Self {
        match self {
            Self::Out => Self::In,
            Self::In => Self::Out,
        }
    }

    /// 0 for OUT, 1 for IN.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// As [`Direction::index`].
    pub(crate) const fn number(self) -> u8 {
        self as u8
    }
}

impl std::fmt::Display for Direction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Out => "OUT",
            Self::In => "IN",
        })
    }
}

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub enum Family {
    /// IPv4.
    #[serde(rename = "IPv4")]
    V4,
    /// IPv6.
    #[serde(rename = "IPv6")]
    V6,
}

impl Family {
    /// The family of an address.
    pub const fn of(address: std::net::IpAddr) -> Self {
        match address {
            std::net::IpAddr::V4(_) => Self::V4,
            std::net::IpAddr::V6(_) => Self::V6,
        }
    }
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}
