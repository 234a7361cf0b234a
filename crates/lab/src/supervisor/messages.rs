//! What a lab's supervisor is told, and what it tells.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::plan::Settings;

/// How a lab is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct LabConfig {
    /// Its name.
    pub name: String,
    /// The folder that labs keep their files under.
    pub run: PathBuf,
    /// Its network.
    pub network: Settings,
    /// The Windows build of every node; none: what each Node says.
    pub profile: Option<String>,
    /// Load balancers let backends answer clients directly.
    pub dsr: bool,
    /// Pods may reach themselves through a Service (the CNI plugin's loopback option of DSR).
    pub loopback: bool,
    /// The HNS network's name.
    pub hns_network: String,
    /// The host's own endpoint on a bridge.
    pub root_endpoint: String,
    /// Switches of HNS in YAML.
    pub switches: String,
    /// Fault plans in YAML, by node; the empty name is every node's.
    pub faults: BTreeMap<String, String>,
    /// A proxy runs on every Windows node.
    pub proxies: bool,
    /// The built-in programs answer in pods and on nodes.
    pub answers: bool,
}

/// What a supervisor tells whoever started it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromSupervisor {
    /// What is being done.
    Step(String),
    /// Something in the cluster that could not be brought about; the rest goes on.
    Problem(String),
    /// The lab is there.
    Ready(Status),
    /// It is not.
    Failed(String),
}

/// What a lab is made of at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// Its network.
    pub network: String,
    /// Direct server return.
    pub dsr: bool,
    /// Its nodes.
    pub nodes: Vec<NodeStatus>,
    /// Its pods.
    pub pods: Vec<PodStatus>,
    /// Its processes.
    pub processes: Vec<ProcessStatus>,
    /// Where packets for external and ingress addresses are led to.
    pub vips: BTreeMap<IpAddr, String>,
    /// What could not be brought about when the manifests were last read.
    pub problems: Vec<String>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// It is an emulated Windows node.
    pub windows: bool,
    /// Its build.
    pub profile: Option<String>,
    /// Its network namespace; of a Windows node the host compartment.
    pub namespace: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Where its HNS listens.
    pub hns: Option<PathBuf>,
    /// The file that clients of its HNS over TCP read.
    pub token: Option<PathBuf>,
    /// The device that is its port in the namespace of the underlay.
    pub port: Option<String>,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodStatus {
    /// `namespace/name`.
    pub name: String,
    /// Its node.
    pub node: String,
    /// Its network namespace.
    pub namespace: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// It is a sandbox, and this its namespace of HNS: what a CNI plugin is given as `CNI_NETNS`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<hcn::Guid>,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessStatus {
    /// What it is.
    pub name: String,
    /// Its number; none: it is about to be started again.
    pub pid: Option<u32>,
    /// How often it was started again.
    pub restarts: u32,
}

/// What a supervisor's socket answers.
pub mod methods {
    /// `{}` → [`Status`](super::Status).
    pub const STATUS: &str = "lab.status";
    /// `{}`: the manifests were changed → `{"problems": […]}` when the lab follows.
    pub const APPLY: &str = "lab.apply";
    /// `{"process": NAME, "kill": bool}`: a process is ended and started again.
    pub const RESTART: &str = "lab.restart";
    /// `{"address": IP, "node": NAME}`: packets for an external or ingress address go to a node.
    pub const LEAD: &str = "lab.lead";
    /// `{"name": NAMESPACE/NAME, "node": NAME}`: a pod without endpoints on a Windows node → `{"netns": GUID, "namespace": NAME}`.
    pub const ADD_SANDBOX: &str = "lab.add-sandbox";
    /// `{"name": NAMESPACE/NAME}`: such a pod goes.
    pub const REMOVE_SANDBOX: &str = "lab.remove-sandbox";
    /// `{}`: the supervisor and all that it started ends; what it made is taken away by whoever asked.
    pub const STOP: &str = "lab.stop";
}
