//! Flags of `transom lab`: a cluster's network with real packets on this machine.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use lab::names::LabName;

use super::OutputArgs;
use super::inputs::{NetworkType, Profile};
use super::traffic::{CaptureEnd, ExchangeArgs, Flow, Name};
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
    /// Send one request and show what the switches of the Windows nodes did with its packets; `transom trace --lab`
    Trace(LabTrace),
    /// Write what the ports of the Windows nodes' switches see to a pcapng file; `transom capture --lab`
    Capture(LabCapture),
    /// Let something go wrong: HNS calls, links, processes
    Fault(LabFault),
    /// Print all that a lab holds as one JSON document, for bug reports
    Snapshot(LabSnapshot),
    /// Lead packets for an external or ingress address to a node
    Route(LabRoute),
    /// Make a pod on a Windows node without an endpoint, for a CNI plugin to give it one; or take it away
    ///
    /// A sandbox is what a container runtime makes before it calls a CNI plugin: a network namespace, which `lab exec` enters, and
    /// the namespace of HNS that stands for it. The plugin gets the latter's id as CNI_NETNS; the endpoint that it attaches
    /// becomes the sandbox's interface.
    Sandbox(LabSandbox),
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
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
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
    /// Nothing answers in pods: bring your own servers
    #[arg(long)]
    pub without_responder: bool,
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

/// `transom lab trace`.
#[derive(Debug, Args)]
pub struct LabTrace {
    /// The exchange.
    #[command(flatten)]
    pub exchange: ExchangeArgs,
    /// The node that `--from node` means
    #[arg(long, value_name = "NODE")]
    pub node: Option<String>,
    /// The form of what is printed.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Which lab.
    #[command(flatten)]
    pub name: LabNameArgs,
}

/// `transom lab capture`.
#[derive(Debug, Args)]
pub struct LabCapture {
    /// The pcapng file to write; `-` for standard output
    #[arg(short = 'w', long = "write", value_name = "FILE")]
    pub file: PathBuf,
    /// Only this node; without it, all Windows nodes
    #[arg(long, value_name = "NODE")]
    pub node: Option<String>,
    /// An exchange to run, as FROM=TO[/udp]; the capture ends behind the last of them
    #[arg(long, value_name = "FROM=TO")]
    pub send: Vec<Flow>,
    /// When it ends.
    #[command(flatten)]
    pub end: CaptureEnd,
    /// Which lab.
    #[command(flatten)]
    pub name: LabNameArgs,
}

/// `transom lab fault`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("fault").required(true).multiple(false))]
pub struct LabFault {
    /// The node
    #[arg(value_name = "NODE", required_unless_present = "kill", conflicts_with = "kill")]
    pub node: Option<String>,
    /// A file with a plan of faults in YAML for the node's HNS, or - for standard input; in place of the one of before
    #[arg(long, value_name = "FILE", group = "fault")]
    pub plan: Option<PathBuf>,
    /// End all faults of the node: of its HNS, whose hanging calls go on, and of its link
    #[arg(long, group = "fault")]
    pub clear: bool,
    /// Restart the node's HNS
    #[arg(long, group = "fault")]
    pub restart_hns: bool,
    /// What HNS loses in the restart of --restart-hns
    #[arg(long, value_name = "WHAT", value_enum, default_value_t, conflicts_with_all = ["plan", "clear", "link", "kill"])]
    pub loss: HnsLoss,
    /// The node's link: good, or cut, loss=5%, delay=20ms, rate=10Mbit, several with commas
    #[arg(long, value_name = "STATE", group = "fault")]
    pub link: Option<LinkState>,
    /// Kill a process of the lab, as `lab status` names it; it is started again
    #[arg(long, value_name = "PROCESS", group = "fault")]
    pub kill: Option<String>,
    /// Which lab.
    #[command(flatten)]
    pub name: LabNameArgs,
}

/// What an HNS loses in a restart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum HnsLoss {
    /// Nothing
    #[default]
    None,
    /// All load balancers
    #[value(name = "loadbalancers")]
    LoadBalancers,
    /// All endpoints, and the load balancers with them
    Endpoints,
    /// Everything
    Everything,
}

/// How a link is worse than it could be; the default is a good one.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LinkState {
    /// Nothing passes.
    pub cut: bool,
    /// The part of frames that is lost, 0 to 1.
    pub loss: f64,
    /// How long each frame takes.
    pub delay: Duration,
    /// Bytes in a second; 0: as many as come.
    pub rate: u64,
}

impl std::str::FromStr for LinkState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut state = Self::default();
        if text == "good" {
            return Ok(state);
        }
        for part in text.split(',') {
            let wrong = || {
                format!("{part:?} is no state of a link: write good, cut, loss=5%, delay=20ms or rate=10Mbit")
            };
            let number =
                |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
            match part.split_once('=') {
                None if part == "cut" => state.cut = true,
                Some(("loss", loss)) => {
                    let parts = loss.strip_suffix('%').and_then(number).map(|percent| percent / 100.0);
                    state.loss = parts.filter(|parts| *parts <= 1.0).ok_or_else(wrong)?;
                }
                Some(("delay", delay)) => {
                    let seconds = match delay.strip_suffix("ms") {
                        Some(milliseconds) => number(milliseconds).map(|number| number / 1000.0),
                        None => delay.strip_suffix('s').and_then(number),
                    };
                    let seconds = seconds.filter(|seconds| *seconds <= 60.0).ok_or_else(wrong)?;
                    state.delay = Duration::from_secs_f64(seconds);
                }
                Some(("rate", rate)) => state.rate = bytes_per_second(rate).ok_or_else(wrong)?,
                _ => return Err(wrong()),
            }
        }
        Ok(state)
    }
}

/// A rate as `tc` writes it: in bits with `kbit`, `Mbit` and `Gbit`.
fn bytes_per_second(text: &str) -> Option<u64> {
    let units = [("kbit", 125), ("Mbit", 125_000), ("Gbit", 125_000_000)];
    let (number, unit) = units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    number.parse::<u64>().ok().filter(|number| *number > 0)?.checked_mul(*unit)
}

/// `transom lab snapshot`.
#[derive(Debug, Args)]
pub struct LabSnapshot {
    /// The file to write, in place of standard output
    #[arg(short = 'w', long = "write", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Which lab.
    #[command(flatten)]
    pub name: LabNameArgs,
}

/// `transom lab route`.
#[derive(Debug, Args)]
pub struct LabRoute {
    /// The address
    #[arg(value_name = "ADDRESS")]
    pub address: IpAddr,
    /// The node that gets its packets
    #[arg(value_name = "NODE")]
    pub node: String,
    /// Which lab.
    #[command(flatten)]
    pub name: LabNameArgs,
}

/// `transom lab sandbox`.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct LabSandbox {
    /// What to do.
    #[command(subcommand)]
    pub action: SandboxAction,
}

/// What can be done with a sandbox.
#[derive(Debug, Subcommand)]
pub enum SandboxAction {
    /// Make one; prints the id of its HNS namespace, which a CNI plugin is given as CNI_NETNS
    Add(SandboxAdd),
    /// Take one away; the plugin's DEL comes before
    Remove(SandboxRemove),
}

/// `transom lab sandbox add`.
#[derive(Debug, Args)]
pub struct SandboxAdd {
    /// The pod's name
    #[arg(value_name = "NAMESPACE/NAME", value_parser = Name::parse)]
    pub pod: Name,
    /// The Windows node
    #[arg(long, value_name = "NODE")]
    pub node: String,
    /// The form of what is printed.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Which lab.
    #[command(flatten)]
    pub name: LabNameArgs,
}

/// `transom lab sandbox remove`.
#[derive(Debug, Args)]
pub struct SandboxRemove {
    /// The pod's name
    #[arg(value_name = "NAMESPACE/NAME", value_parser = Name::parse)]
    pub pod: Name,
    /// Which lab.
    #[command(flatten)]
    pub name: LabNameArgs,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_links_are_read() {
        let good = LinkState::default();
        let ms = Duration::from_millis;
        for (text, state) in [
            ("good", good),
            ("cut", LinkState { cut: true, ..good }),
            ("loss=2.5%", LinkState { loss: 0.025, ..good }),
            ("delay=20ms", LinkState { delay: ms(20), ..good }),
            ("delay=1.5s,loss=100%", LinkState { delay: ms(1500), loss: 1.0, ..good }),
            ("rate=10Mbit", LinkState { rate: 1_250_000, ..good }),
            ("rate=64kbit", LinkState { rate: 8_000, ..good }),
        ] {
            assert_eq!(text.parse::<LinkState>(), Ok(state), "{text}");
        }
        for text in [
            "",
            "bad",
            "loss=5",
            "loss=101%",
            "loss=-1%",
            "delay=20",
            "delay=2m",
            "rate=0Mbit",
            "rate=10",
            "good,cut",
        ] {
            assert!(text.parse::<LinkState>().unwrap_err().contains("write good, cut, loss=5%"), "{text}");
        }
    }
}
