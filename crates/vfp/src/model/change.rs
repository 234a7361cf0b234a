//! Changes to a switch's policy, and why one is refused.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use serde::Serialize;
use uuid::Uuid;

use super::{AddressSet, GroupSpec, LayerSpec, NeighborSpec, PortSpec, Rule, SegmentSpec, SwitchSettings};

/// A group's name in the switch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct GroupKey(pub Arc<str>);

impl fmt::Display for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A NAT pool's name in the switch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct PoolKey(pub Arc<str>);

impl fmt::Display for PoolKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Ports of one address that a pool may give out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct PoolRange {
    /// The address that stands in the packets.
    pub address: IpAddr,
    /// The first port.
    pub first: u16,
    /// The last port.
    pub last: u16,
    /// How many connections to different remotes may share one port; at least 1.
    pub reuse: u32,
}

/// A NAT pool: one protocol's ports of one address, owned by one switch port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PoolSpec {
    /// Unique in the switch.
    pub key: PoolKey,
    /// The friendly name.
    pub name: Arc<str>,
    /// The IP protocol whose ports (or ICMP identifiers) it gives out.
    pub protocol: u8,
    /// The switch port that replies to its ports are delivered to.
    pub owner: Uuid,
    /// What it gives out.
    pub ranges: Vec<PoolRange>,
}

/// A named set of addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TagSpec {
    /// Unique in the switch.
    pub id: String,
    /// The friendly name.
    pub name: String,
    /// The addresses.
    pub addresses: AddressSet,
}

/// One change. [`crate::Switch::apply`] takes a list of them: all or none is done, and no packet sees a part of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Replaces the settings.
    Settings(SwitchSettings),
    /// Makes a segment or replaces its settings.
    PutSegment(SegmentSpec),
    /// Takes a segment away; no port may lie in it.
    RemoveSegment(u32),
    /// Makes a port or replaces its properties; its layers and flows stay.
    PutPort(PortSpec),
    /// Takes a port away, with its layers, flows and bindings. Groups stay.
    RemovePort(Uuid),
    /// Makes a layer of a port or replaces its properties; its groups stay.
    PutLayer {
        /// The port.
        port: Uuid,
        /// The layer.
        layer: LayerSpec,
    },
    /// Takes a layer away. Its groups stay.
    RemoveLayer {
        /// The port.
        port: Uuid,
        /// The layer.
        layer: Arc<str>,
    },
    /// Makes a group, or replaces it and all its rules as a unit.
    PutGroup(GroupSpec),
    /// Takes a group away; it may hang nowhere.
    RemoveGroup(GroupKey),
    /// Hangs a group into a layer of a port.
    Attach {
        /// The port.
        port: Uuid,
        /// The layer.
        layer: Arc<str>,
        /// The group.
        group: GroupKey,
    },
    /// Takes a group out of a layer of a port.
    Detach {
        /// The port.
        port: Uuid,
        /// The layer.
        layer: Arc<str>,
        /// The group.
        group: GroupKey,
    },
    /// Puts a rule into a group, new or in place of the one with its id.
    PutRule {
        /// The group.
        group: GroupKey,
        /// The rule.
        rule: Arc<Rule>,
    },
    /// Takes a rule out of a group.
    RemoveRule {
        /// The group.
        group: GroupKey,
        /// The rule's id.
        rule: Arc<str>,
    },
    /// Makes a pool, or replaces it; bindings on ports that it still has stay.
    PutPool(PoolSpec),
    /// Takes a pool away. Rules that name it drop packets, and connections that had its ports ask anew.
    RemovePool(PoolKey),
    /// Makes a tag or replaces its addresses.
    PutTag(TagSpec),
    /// Takes a tag away. Rules that name it match nothing.
    RemoveTag(String),
    /// The switch answers ARP and neighbour solicitations for an address.
    PutNeighbor(NeighborSpec),
    /// It does no longer.
    RemoveNeighbor {
        /// In which segment.
        segment: u32,
        /// The address.
        address: IpAddr,
    },
}

/// Why a list of changes was refused; nothing of it was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("change {index}: {what}")]
pub struct ApplyError {
    /// Which change, counted from 0.
    pub index: usize,
    /// What is wrong, and what would be right.
    pub what: String,
}
