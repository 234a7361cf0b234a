//! Flags of `transom lab`: a cluster's network with real packets on this machine.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use lab::names::LabName;

use super::OutputArgs;
use super::inputs::{NetworkType, Profile};
use super::traffic::Name;
use super::values::ManifestPath;

/// `transom lab`.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct LabCommand {
    /// What to do with a lab.
    #[command(subcommand)]
    pub action: LabAction,
}

/// What can be done with a lab.
#[derive(Debug, Subcommand)]
pub enum LabAction {
    /// Make the cluster that manifests describe: nodes, pods, Services, with real packets
    ///
    /// Windows nodes are emulated: a process each, with HNS and the virtual switch, and a proxy beside it; their pods and
    /// the host are network namespaces. Linux nodes are network namespaces with the kernel's VXLAN or routes. Needs root
    /// (or `unshare --user --map-root-user --net --mount`), /dev/net/tun, iproute2 and nftables.
    Up(LabUp),
    /// End a lab and take away all that it made, also what a crash has left
    Down(LabDown),
    /// Show nodes, pods, processes and where they are
    Status(LabStatus),
    /// Run a program in a pod, on a node, or outside of the cluster
    ///
    /// The program runs in the network namespace, with the pod's host name, name servers and hosts file; files and
    /// processes are this machine's. The exit code is the program's.
    Exec(LabExec),
    /// Show the logs of a lab's processes
    Logs(LabLogs),
    /// Make a lab follow manifests that have changed
    Apply(LabApply),
}

/// Which lab.
#[derive(Debug, Args)]
pub struct LabNameArgs {
    /// The lab's name
    #[arg(long, value_name = "NAME", default_value_t = LabName::standard())]
    pub name: LabName,
}

/// `transom lab up`.
#[derive(Debug, Args)]
pub struct LabUp {
    /// Files, folders or - for standard input, with Nodes, Pods, Services and EndpointSlices
    #[arg(short = 'f', long, value_name = "PATH", required = true, num_args = 1..)]
    pub manifests: Vec<ManifestPath>,
    /// Which lab.
    #[command(flatten)]
    pub name: LabNameArgs,
    /// How pods of different nodes reach each other
    #[arg(long, value_enum, default_value_t, value_name = "TYPE")]
    pub network: NetworkType,
    /// The Windows build of every node; without it, what each Node's label says
    #[arg(long, value_enum, value_name = "BUILD")]
    pub profile: Option<Profile>,
    /// Load balancers let backends answer clients directly (kube-proxy's --enable-dsr)
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub enable_dsr: bool,
    /// Pods may reach themselves through a Service (the CNI plugin's loopback option of DSR)
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub loopback_dsr: bool,
    /// No proxy on Windows nodes: bring your own
    #[arg(long)]
    pub without_proxy: bool,
    /// A file with a fault plan for every Windows node's HNS
    #[arg(long, value_name = "FILE")]
    pub faults: Option<PathBuf>,
    /// A file with switches of the emulated HNS, a YAML mapping
    #[arg(long, value_name = "FILE")]
    pub switches: Option<PathBuf>,
}

/// `transom lab down`.
#[derive(Debug, Args)]
pub struct LabDown {
    /// Which lab.
    #[command(flatten)]
    pub name: LabNameArgs,
}

/// `transom lab status`.
#[derive(Debug, Args)]
pub struct LabStatus {
    /// Which lab.
    #[command(flatten)]
    pub name: LabNameArgs,
    /// The form of what is printed.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Where a program runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A pod.
    Pod(Name),
    /// A node's host.
    Node(String),
    /// The client outside of the cluster.
    Outside,
    /// The router of the underlay.
    Router,
    /// The bridges of the underlay.
    Underlay,
}

impl std::str::FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "outside" => return Ok(Self::Outside),
            "router" => return Ok(Self::Router),
            "underlay" => return Ok(Self::Underlay),
            _ => {}
        }
        if let Some(node) = text.strip_prefix("node/") {
            return if node.is_empty() {
                Err("name the node: node/NAME".to_owned())
            } else {
                Ok(Self::Node(node.to_owned()))
            };
        }
        Name::parse(text.strip_prefix("pod/").unwrap_or(text)).map(Self::Pod)
    }
}

/// `transom lab exec`.
#[derive(Debug, Args)]
pub struct LabExec {
    /// Where: POD, NAMESPACE/POD, node/NAME, outside, router or underlay
    #[arg(value_name = "PLACE")]
    pub place: Place,
    /// Which lab.
    #[command(flatten)]
    pub name: LabNameArgs,
    /// The program and its arguments
    #[arg(value_name = "COMMAND", required = true, num_args = 1.., last = true)]
    pub command: Vec<OsString>,
}

/// `transom lab logs`.
#[derive(Debug, Args)]
pub struct LabLogs {
    /// A process, as `lab status` names it; without one, all of them
    #[arg(value_name = "PROCESS")]
    pub process: Option<String>,
    /// Which lab.
    #[command(flatten)]
    pub name: LabNameArgs,
    /// Show the last lines only, of each process
    #[arg(long, value_name = "N")]
    pub tail: Option<usize>,
}

/// `transom lab apply`.
#[derive(Debug, Args)]
pub struct LabApply {
    /// Files, folders or - for standard input, in place of those of before; without any, those of before are read again
    #[arg(short = 'f', long, value_name = "PATH", num_args = 1..)]
    pub manifests: Vec<ManifestPath>,
    /// Which lab.
    #[command(flatten)]
    pub name: LabNameArgs,
}

/// Programs that a lab starts; nobody else does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LabPart {
    /// Keeps the lab
    Supervisor,
    /// A Windows node
    Node,
    /// What pods answer
    Responder,
}

/// `transom lab-part`.
#[derive(Debug, Args)]
pub struct LabPartCommand {
    /// Which
    #[arg(value_enum)]
    pub part: LabPart,
}
