//! Layers, groups and rules.

use std::sync::Arc;

use bitflags::bitflags;
use serde::Serialize;

use super::{Action, Conditions, Direction, Family, GroupKey};

bitflags! {
    /// Flags of a rule; the numbers are those that dumps print.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct RuleFlags: u32 {
        /// Later groups of the layer are not asked.
        const TERMINATING = 1;
        /// A match makes a layer flow: later packets of the connection, both ways, follow it.
        const STATEFUL = 2;
        /// Matches TCP packets other than a first SYN only.
        const NON_SYN = 4;
        /// TCP states of the connection are followed.
        const TRACK_TCP = 8;
        /// Matches a first SYN only.
        const SYN = 16;
        /// Does not match a packet that was hairpinned already.
        const SKIP_HAIRPIN = 32;
        /// A hint of the tool; no effect.
        const OPTIMISE_CONDITION = 128;
        /// Matches are counted as audited.
        const AUDIT = 4096;
        /// Set on HNS' ACL rules; meaning unknown, no effect.
        const HNS_ACL = 8192;
        /// A copy goes to the observer.
        const MIRROR = 16384;
        /// Marks the monitoring ping; no effect.
        const MONITORING_PING = 32768;
    }
}

bitflags! {
    /// Flags of a layer; the numbers are those that dumps print.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct LayerFlags: u32 {
        /// A packet that no rule matches passes on unchanged; without it, it is dropped.
        const DEFAULT_ALLOW = 1;
        /// Rules of the layer may send packets back.
        const HAIRPIN = 2;
        /// The tenant id is forgotten on the way through.
        const CLEAR_TENANT = 4;
        /// Echo requests to the port's addresses may be answered here.
        const PING_RESPONDER = 16;
    }
}

/// One layer of one port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayerSpec {
    /// Its name, unique on the port.
    pub id: Arc<str>,
    /// The friendly name.
    pub name: Arc<str>,
    /// OUT walks layers by ascending priority, IN by descending.
    pub priority: u32,
    /// Matches of stateful rules make layer flows.
    pub stateful: bool,
    /// Flags.
    #[serde(serialize_with = "bits")]
    pub flags: LayerFlags,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn bits<S: serde::Serializer>(flags: &LayerFlags, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u32(flags.bits())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn rule_bits<S: serde::Serializer>(flags: &RuleFlags, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u32(flags.bits())
}

/// A group: rules of one direction and family. A group may hang in layers of several ports at once; its rules are
/// then the same on all of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupSpec {
    /// Unique in the switch.
    pub key: GroupKey,
    /// Its name, as dumps print it.
    pub id: Arc<str>,
    /// The friendly name.
    pub name: Arc<str>,
    /// Which packets.
    pub direction: Direction,
    /// Which packets.
    pub family: Family,
    /// Groups of a layer are asked by ascending priority.
    pub priority: u32,
    /// What a packet must fulfil for the group to be asked at all.
    pub conditions: Conditions,
    /// The rules, in any order.
    pub rules: Vec<Arc<Rule>>,
}

/// A rule: conditions and one action.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rule {
    /// Unique in the group.
    pub id: Arc<str>,
    /// The friendly name.
    pub name: Arc<str>,
    /// The lower number wins; among equals the one that was put first.
    pub priority: u32,
    /// Flags.
    #[serde(serialize_with = "rule_bits")]
    pub flags: RuleFlags,
    /// How long its flows live idle, in seconds; 0: as the port says.
    pub ttl: u32,
    /// What a packet must fulfil.
    pub conditions: Conditions,
    /// What is done.
    pub action: Action,
}
