//! What observers are told: frames at ports, drops, and, for those who ask, every decision.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use wire::{Mac, Offload};

use crate::DropReason;
use crate::model::Direction;
use crate::view::View;

/// Whether a frame comes to the layers of a port or has passed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Stage {
    /// Before the layers.
    Enter,
    /// Behind them.
    Leave,
}

/// Where and when a frame was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sighting {
    /// The port.
    pub port: Uuid,
    /// Which way.
    pub direction: Direction,
    /// Before or behind the layers.
    pub stage: Stage,
    /// The same for one packet from port to port.
    pub group: u64,
    /// The switch's time.
    pub now: Duration,
    /// What the frame's sender left to the adapter.
    pub offload: Offload,
}

/// A rule by its names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleRef {
    /// The layer.
    pub layer: Arc<str>,
    /// The group.
    pub group: Arc<str>,
    /// The rule's id.
    pub rule: Arc<str>,
    /// Its friendly name.
    pub name: Arc<str>,
    /// The word of its action.
    pub action: Cow<'static, str>,
}

/// How a packet relates to the flows of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum FlowUse {
    /// It opens one.
    Opens,
    /// It belongs to the direction that opened it.
    Main,
    /// It is a reply.
    Reply,
    /// It has none.
    None,
}

/// What a layer did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerEvent {
    /// The layer.
    pub layer: Arc<str>,
    /// The rule that decided; none: no rule matched.
    pub rule: Option<RuleRef>,
    /// The decision was kept with the flow; no rule was asked.
    pub from_flow: bool,
    /// The headers before.
    pub before: View,
    /// The headers after.
    pub after: View,
    /// The packet was dropped here.
    pub dropped: Option<DropReason>,
}

/// Why a frame goes where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// The port has the destination MAC.
    Mac,
    /// The port owns the NAT pool that the destination address and port belong to.
    NatOwner,
    /// Nobody here has the MAC: out of the external port.
    Unknown,
    /// Broadcast or multicast.
    Flood,
    /// A rule sent it there.
    Hairpin,
}

/// A decision.
#[expect(clippy::large_enum_variant, reason = "events are told by reference, one at a time")]
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Event {
    /// A packet comes to the layers of a port.
    Enter {
        /// The port.
        port: Uuid,
        /// Which way.
        direction: Direction,
        /// Its headers.
        view: View,
        /// Its flow.
        flow: FlowUse,
    },
    /// It passed a layer, or not.
    Layer(LayerEvent),
    /// It goes from a port to another.
    Forward {
        /// From here.
        from: Uuid,
        /// To there; none: to several.
        to: Option<Uuid>,
        /// Why.
        why: Why,
        /// Its headers.
        view: View,
    },
    /// A rule sent it back.
    Hairpin {
        /// The port.
        port: Uuid,
        /// Its headers.
        view: View,
    },
    /// It was dropped.
    Drop {
        /// The port.
        port: Uuid,
        /// Which way it went there.
        direction: Direction,
        /// Why.
        reason: DropReason,
        /// The rule that decided.
        rule: Option<RuleRef>,
    },
    /// It waits for a next hop to be resolved.
    Pending {
        /// The port.
        port: Uuid,
        /// The next hop.
        next_hop: IpAddr,
    },
    /// The switch answered ARP or neighbour discovery itself.
    Resolved {
        /// The port that asked.
        port: Uuid,
        /// For this address.
        address: IpAddr,
        /// With this MAC.
        mac: Mac,
    },
}

/// Somebody who watches.
pub trait Observer {
    /// A frame passes.
    fn seen(&mut self, at: &Sighting, frame: &[u8]);

    /// A frame was dropped.
    fn dropped(&mut self, at: &Sighting, reason: DropReason, rule: Option<&RuleRef>, frame: &[u8]);

    /// Decisions are wanted: every packet then takes the slow path.
    fn wants_events(&self) -> bool {
        false
    }

    /// A decision.
    fn event(&mut self, event: &Event) {
        let _ = event;
    }
}

/// Where a packet's outer header goes next, as the host's stack says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// The address is one of the host's own.
    Local,
    /// To this MAC.
    Via {
        /// The next hop's.
        mac: Mac,
        /// The host's on that way.
        source_mac: Mac,
    },
    /// It is being resolved.
    Pending,
    /// There is no way.
    Unreachable,
}

/// The host's stack, as far as the switch asks it.
pub trait HostRoutes {
    /// The next hop towards an address.
    fn next_hop(&mut self, compartment: u32, destination: IpAddr) -> NextHop;
}

/// A host without routes.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRoutes;

impl HostRoutes for NoRoutes {
    fn next_hop(&mut self, _: u32, _: IpAddr) -> NextHop {
        NextHop::Unreachable
    }
}

/// What packets meet besides the switch.
pub struct Env<'a> {
    /// The time, since any epoch; it never goes back.
    pub now: Duration,
    /// The host's stack.
    pub routes: &'a mut dyn HostRoutes,
    /// Somebody who watches.
    pub observer: Option<&'a mut dyn Observer>,
}
