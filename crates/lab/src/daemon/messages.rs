//! What a node and its supervisor say to each other, and the names of what a node's server answers besides HCN.

use std::net::IpAddr;
use std::path::PathBuf;

use hcn::Guid;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use wire::Mac;

use crate::pump::Seat;
use crate::tap::Abilities;

/// How a node is started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeConfig {
    /// Its name.
    pub name: String,
    /// The network namespace of its host, where clients over TCP are.
    pub namespace: String,
    /// The Windows build: a profile's name.
    pub profile: String,
    /// The adapter's MAC, which the host's interface takes over.
    #[serde(with = "mac")]
    pub mac: Mac,
    /// The host's addresses.
    pub addresses: Vec<IpNet>,
    /// The host's default routers.
    pub routers: Vec<IpAddr>,
    /// Where HNS keeps its objects.
    pub state: PathBuf,
    /// Where it listens.
    pub socket: PathBuf,
    /// What clients over TCP read.
    pub token: PathBuf,
    /// A fault plan in YAML.
    pub faults: Option<String>,
    /// Switches of HNS in YAML.
    pub switches: String,
    /// The user and group that it goes on as; none: the same.
    pub user: Option<u32>,
}

/// MACs as text.
mod mac {
    use serde::{Deserialize as _, Deserializer, Serializer};
    use wire::Mac;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    pub(super) fn serialize<S: Serializer>(mac: &Mac, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(mac)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Mac, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Who makes devices calls HNS under this name.
pub const SUPERVISOR: &str = "cni";

/// What a node is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToNode {
    /// The first message.
    Start(Box<NodeConfig>),
    /// A device takes a seat; its descriptor comes along.
    Attach {
        /// Where it belongs.
        seat: Seat,
        /// What it was found to be able to.
        abilities: Abilities,
    },
    /// A seat is empty again.
    Detach {
        /// Which.
        seat: Seat,
    },
    /// The namespaces of HNS whose endpoints get devices as soon as they are attached.
    Sandboxes(Vec<Guid>),
    /// It is to end.
    Stop,
}

/// What a node tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromNode {
    /// It serves.
    Ready,
    /// It does not.
    Failed(String),
}

/// An endpoint that wants a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatSpec {
    /// The endpoint.
    pub endpoint: Guid,
    /// Its name; of a pod's `namespace/name`.
    pub name: String,
    /// It is the host's own.
    pub host: bool,
    /// The namespace of HNS that it is attached to.
    pub sandbox: Option<Guid>,
    /// The name servers that it was given.
    pub servers: Vec<IpAddr>,
    /// Its port of the switch.
    pub port: Uuid,
    /// The device's MAC.
    #[serde(with = "mac")]
    pub mac: Mac,
    /// The device's addresses.
    pub addresses: Vec<IpNet>,
    /// Default routers.
    pub gateways: Vec<IpAddr>,
    /// The largest packet.
    pub mtu: u16,
}

/// What a node's server answers besides HCN.
pub mod methods {
    /// `{}` → a list of [`SeatSpec`](super::SeatSpec): the attached endpoints.
    pub const SEATS: &str = "node.seats";
    /// `{}` → counters of devices and wire, drops by port, errors of the datapath.
    pub const STATUS: &str = "node.status";
    /// `{"plan": YAML}` replaces the fault plan, `{"clear": true}` ends all faults and lets hanging calls go on;
    /// `{}` → the rules and how often they struck.
    pub const FAULTS: &str = "node.faults";
    /// `{"loss": "none" | "loadbalancers" | "endpoints" | "all"}`: HNS restarts and loses that.
    pub const RESTART: &str = "node.restart";
    /// A [`Degraded`](crate::pump::Degraded) wire.
    pub const DEGRADE: &str = "node.degrade";
    /// `{"words": […]}` → the text of Windows' tool.
    pub const VFPCTRL: &str = "node.vfpctrl";
    /// A stream: `{"frames": bool}` → what is seen at the switch's ports, checksums that were left to an adapter filled in.
    pub const WATCH: &str = "node.watch";
}
