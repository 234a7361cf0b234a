//! Flags of the commands that send packets through an emulated cluster or a lab: `trace`, `capture` and `vfp`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

use super::inputs::{InputOptions, NodeArgs};
use super::values::{self, ManifestPath};
use super::{Output, OutputArgs};

/// A name in a namespace: `NAME` (namespace `default`) or `NAMESPACE/NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// The namespace, if one was given.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

impl Name {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (namespace, name) = match text.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, text),
        };
        if name.is_empty() || name.contains('/') || namespace.as_deref() == Some("") {
            return Err(format!("{text:?} is no name: write NAME or NAMESPACE/NAME"));
        }
        Ok(Self { namespace, name: name.to_owned() })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// Where traffic comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A pod: `pod/NAME` or `pod/NAMESPACE/NAME`.
    Pod(Name),
    /// A node's own stack: `node` (the one of --node) or `node/NAME`.
    Node(Option<String>),
    /// A host outside the cluster: `external` or `external:IP`.
    External(Option<IpAddr>),
}

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(pod) = text.strip_prefix("pod/") {
            return Name::parse(pod).map(Self::Pod);
        }
        match text.split_once(['/', ':']) {
            None if text == "node" => Ok(Self::Node(None)),
            None if text == "external" => Ok(Self::External(None)),
            Some(("node", name)) if text.starts_with("node/") && !name.is_empty() => {
                Ok(Self::Node(Some(name.to_owned())))
            }
            Some(("external", address)) if text.starts_with("external:") => address
                .parse()
                .map(|address| Self::External(Some(address)))
                .map_err(|_| format!("{address:?} is no IP address; write external:203.0.113.9")),
            _ => Err(format!(
                "{text:?} is no place: write pod/NAME, pod/NAMESPACE/NAME, node, node/NAME or external:IP"
            )),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(name) => write!(f, "pod/{name}"),
            Self::Node(Some(name)) => write!(f, "node/{name}"),
            Self::Node(None) => f.write_str("node"),
            Self::External(Some(address)) => write!(f, "external:{address}"),
            Self::External(None) => f.write_str("external"),
        }
    }
}

/// Where traffic goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// A Service's port, by number or name: `svc/NAME:PORT` or `svc/NAMESPACE/NAME:PORT`.
    Service(Name, String),
    /// A pod's port: `pod/NAME:PORT` or `pod/NAMESPACE/NAME:PORT`.
    Pod(Name, u16),
    /// An address and port: `IP:PORT`.
    Address(SocketAddr),
}

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let port = |text: &str| -> Result<(Name, String), String> {
            let (name, port) = text
                .rsplit_once(':')
                .filter(|(_, port)| !port.is_empty())
                .ok_or_else(|| format!("{text:?} has no port: write NAME:PORT"))?;
            Ok((Name::parse(name)?, port.to_owned()))
        };
        if let Some(service) = text.strip_prefix("svc/").or_else(|| text.strip_prefix("service/")) {
            let (name, port) = port(service)?;
            return Ok(Self::Service(name, port));
        }
        if let Some(pod) = text.strip_prefix("pod/") {
            let (name, port) = port(pod)?;
            let number = port.parse().map_err(|_| format!("{port:?} is no port number"))?;
            return Ok(Self::Pod(name, number));
        }
        text.parse().map(Self::Address).map_err(|_| {
            format!(
                "{text:?} is no destination: write svc/NAME:PORT, pod/NAME:PORT or IP:PORT ([IP]:PORT for IPv6)"
            )
        })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(name, port) => write!(f, "svc/{name}:{port}"),
            Self::Pod(name, port) => write!(f, "pod/{name}:{port}"),
            Self::Address(address) => address.fmt(f),
        }
    }
}

/// A protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// A TCP connection: request, answer, close
    #[default]
    Tcp,
    /// A UDP datagram and its answer
    Udp,
}

/// One exchange, written `FROM=TO` with `/udp` behind for UDP: `pod/web-1=svc/api:80`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// From here.
    pub from: Origin,
    /// To there.
    pub to: Destination,
    /// By this protocol.
    pub protocol: Protocol,
}

impl FromStr for Flow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (from, to) = text
            .split_once('=')
            .ok_or_else(|| format!("{text:?} is no exchange: write FROM=TO, such as pod/web-1=svc/api:80"))?;
        let (to, protocol) = match to.strip_suffix("/udp") {
            Some(to) => (to, Protocol::Udp),
            None => (to.strip_suffix("/tcp").unwrap_or(to), Protocol::Tcp),
        };
        Ok(Self { from: from.parse()?, to: to.parse()?, protocol })
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let udp = if self.protocol == Protocol::Udp { "/udp" } else { "" };
        write!(f, "{}={}{udp}", self.from, self.to)
    }
}

/// How the emulated cluster is set up, beside [`NodeArgs`].
#[derive(Debug, Args)]
#[command(next_help_heading = "Emulated cluster")]
pub struct SimulationArgs {
    /// Load balancers let backends answer clients directly (kube-proxy's --enable-dsr)
    #[arg(
        long,
        value_name = "BOOL",
        default_value_t = false,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        action = clap::ArgAction::Set
    )]
    pub enable_dsr: bool,
    /// A number that all that is random in the emulated cluster follows from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// The cluster: manifests that are emulated in this process, or a lab that runs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Input")]
pub struct ClusterArgs {
    /// Files and folders with manifests, or `-` for standard input
    ///
    /// YAML or JSON with one or many documents; lists, such as the output of `kubectl get
    /// nodes,services,endpointslices,pods -A -o yaml`, are taken as they are. Folders are read with their
    /// subfolders. Where a Service has no EndpointSlices but its Pods are there, the slices are derived from them.
    #[arg(short = 'f', long, value_name = "PATH", num_args = 1.., required_unless_present = "lab")]
    pub manifests: Vec<ManifestPath>,

    /// A lab that runs (`transom lab up`), in place of manifests
    #[arg(
        long,
        value_name = "NAME",
        value_parser = values::lab_name,
        conflicts_with_all = [
            "manifests", "max_manifest_bytes", "strict", "network", "profile", "state", "faults", "enable_dsr", "seed"
        ]
    )]
    pub lab: Option<String>,

    /// Everything else that is said of the input.
    #[command(flatten)]
    pub common: InputOptions,
}

const TRACE_EXITS: &str = "\
Exit codes:
  0   the request was answered
  1   it was not; the verdict says why
  3   --strict: some input was refused
  64  the command line was wrong";

const TRACE_DOCUMENT: &str = "\
The document of -o json and -o yaml; fields may be added, none is renamed. What does not apply is left out.
  from, to            who asks, and what was asked for as on the command line
  protocol            TCP or UDP
  network, dsr        overlay or l2bridge; whether load balancers use direct server return
  client, target      the client's end and the one that it connects to, as ADDRESS:PORT
  request, reply, refusal
                      the ways of the first packet, the first answer, and a reset or ICMP error: lists of
      kind            port (it passes the layers of a switch port), wire (it leaves a machine) or kernel (it passes a
                      Linux node of a lab, which is not looked into)
      microseconds    virtual time; in a lab, real time since the exchange began
      node, port, direction
                      where; OUT is from the adapter into the switch, IN is to the adapter
      packet          sourceMac, destinationMac, vlan, source, destination, what, ttl as it came; the inner ones
                      if there is a tunnel {sourceMac, destinationMac, source, destination, vni}
      layers          {layer, rule {layer, group, rule, action}, kept, rewrites, dropped} in the order of passing;
                      kept: the decision is that of the connection's first packet
      rewrites        {field, from, to} of the port as a whole
      next            {kind: port, port, why}, {kind: dropped, reason, explanation, rule}, {kind: lost, reason}, or
                      kind delivered, back, several, sent, unseen
  backend             {name, address, sees, seesClient} of who answered
  verdict             {answered, outcome, microseconds, reason}
      outcome         answered, refused, reset, garbled, unreachable or timed-out
      reason          {kind, text, node, port, rule, service}; kind is one of dropped, no-backend, no-local-backend,
                      no-load-balancer, not-programmed, unknown-port, own-node-port, own-address, no-endpoint,
                      self-access, link, refused, unreachable, garbled, no-answer

Exit codes:
  0   the request was answered
  1   it was not; the verdict says why
  3   --strict: some input was refused
  64  the command line was wrong";

/// The exchange that is traced, and how much of it is shown.
#[derive(Debug, Args)]
pub struct ExchangeArgs {
    /// Where the traffic comes from: pod/NAME, pod/NAMESPACE/NAME, node, node/NAME, external or external:IP
    #[arg(long, value_name = "FROM")]
    pub from: Origin,
    /// Where it goes: svc/NAME:PORT, svc/NAMESPACE/NAME:PORT, pod/NAME:PORT or IP:PORT
    #[arg(long, value_name = "TO")]
    pub to: Destination,
    /// The protocol
    #[arg(long, value_enum, default_value_t)]
    pub proto: Protocol,
    /// Show every packet of the exchange, not just the first each way
    #[arg(long)]
    pub all: bool,
}

impl ExchangeArgs {
    /// The exchange.
    pub fn flow(&self) -> Flow {
        Flow { from: self.from.clone(), to: self.to.clone(), protocol: self.proto }
    }
}

/// `transom trace`.
#[derive(Debug, Args)]
#[command(after_help = TRACE_EXITS, after_long_help = TRACE_DOCUMENT)]
pub struct TraceCommand {
    /// The exchange.
    #[command(flatten)]
    pub exchange: ExchangeArgs,
    /// The form of what is printed.
    #[command(flatten)]
    pub output: OutputArgs,
    /// The cluster.
    #[command(flatten)]
    pub input: ClusterArgs,
    /// The nodes.
    #[command(flatten)]
    pub node: NodeArgs,
    /// The emulated cluster.
    #[command(flatten)]
    pub simulation: SimulationArgs,
}

/// `transom capture`.
#[derive(Debug, Args)]
pub struct CaptureCommand {
    /// The pcapng file to write; `-` for standard output
    #[arg(short = 'w', long = "write", value_name = "FILE")]
    pub file: PathBuf,
    /// An exchange to run, as FROM=TO[/udp] with the forms of `transom trace`; may be given several times
    ///
    /// With --lab, the capture ends behind the last of them.
    #[arg(long, value_name = "FROM=TO", required_unless_present = "lab")]
    pub send: Vec<Flow>,
    /// Only the ports of the node of --node; with --lab that needs no saying
    #[arg(long)]
    pub only_node: bool,
    /// When a capture of a lab ends.
    #[command(flatten)]
    pub end: CaptureEnd,
    /// The cluster.
    #[command(flatten)]
    pub input: ClusterArgs,
    /// The nodes.
    #[command(flatten)]
    pub node: NodeArgs,
    /// The emulated cluster.
    #[command(flatten)]
    pub simulation: SimulationArgs,
}

/// When a capture of a lab ends; without any of these, when it is told to.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "End of a lab's capture")]
pub struct CaptureEnd {
    /// After so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub duration: Option<u64>,
    /// After so many packets, each counted once for every place where it is seen
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub packets: Option<u64>,
}

/// `transom vfp`.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct VfpCommand {
    /// What to show.
    #[command(subcommand)]
    pub action: VfpAction,
}

/// What can be shown of a virtual switch.
#[derive(Debug, Subcommand)]
pub enum VfpAction {
    /// The ports of the switch
    Ports(VfpShow),
    /// The layers of a port, or of all ports
    Layers(VfpShow),
    /// The groups of a port
    Groups(VfpShow),
    /// The rules of a port with their counters
    Rules(VfpShow),
    /// The unified flows of a port
    Flows(VfpShow),
    /// The counters of a port
    Counters(VfpShow),
    /// NAT pools and the ports that are lent
    Nat(VfpShow),
    /// Which rules the first packet of a flow would hit, without sending one
    ProcessTuples(VfpTuples),
    /// Run a command line of vfpctrl as it is
    Ctrl(VfpCtrl),
}

/// A form of `transom vfp`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VfpFormat {
    /// Tables for people
    #[default]
    Table,
    /// The text of vfpctrl
    Vfpctrl,
    /// The JSON of vfpctrl /format 1; flows and NAT, which have none there, in a form of our own
    Json,
}

/// What the `transom vfp` commands share.
#[derive(Debug, Args)]
pub struct VfpTarget {
    /// Exchanges to run before, as FROM=TO[/udp] with the forms of `transom trace`
    #[arg(long, value_name = "FROM=TO")]
    pub send: Vec<Flow>,
    /// The cluster.
    #[command(flatten)]
    pub input: ClusterArgs,
    /// The nodes.
    #[command(flatten)]
    pub node: NodeArgs,
    /// The emulated cluster.
    #[command(flatten)]
    pub simulation: SimulationArgs,
}

/// `transom vfp ports` and its like.
#[derive(Debug, Args)]
pub struct VfpShow {
    /// The port: its name (GUID), its friendly name, its number, or pod/NAMESPACE/NAME; default: all ports
    #[arg(long, value_name = "PORT")]
    pub port: Option<String>,
    /// Only this layer
    #[arg(long, value_name = "LAYER")]
    pub layer: Option<String>,
    /// Only this group
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
    /// The form of what is printed
    #[arg(long, value_name = "FORM", value_enum, default_value_t, help_heading = "Output")]
    pub format: VfpFormat,
    /// The switch.
    #[command(flatten)]
    pub target: VfpTarget,
}

/// `transom vfp process-tuples`.
#[derive(Debug, Args)]
pub struct VfpTuples {
    /// The port: its name (GUID), its friendly name, its number, or pod/NAMESPACE/NAME
    #[arg(long, value_name = "PORT")]
    pub port: String,
    /// Protocol, source, source port, destination, destination port, direction (1 IN, 2 OUT), and flags (1 SYN, 2
    /// ping)
    #[arg(value_name = "TUPLE", num_args = 6..=11)]
    pub tuple: Vec<String>,
    /// The switch.
    #[command(flatten)]
    pub target: VfpTarget,
}

/// `transom vfp ctrl`.
#[derive(Debug, Args)]
pub struct VfpCtrl {
    /// The switch.
    #[command(flatten)]
    pub target: VfpTarget,
    /// The words of the command line, such as /port NAME /list-rule
    #[arg(last = true, required = true, value_name = "WORD")]
    pub words: Vec<String>,
}

impl From<VfpFormat> for Output {
    fn from(format: VfpFormat) -> Self {
        match format {
            VfpFormat::Json => Self::Json,
            VfpFormat::Table | VfpFormat::Vfpctrl => Self::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(namespace: Option<&str>, name: &str) -> Name {
        Name { namespace: namespace.map(str::to_owned), name: name.to_owned() }
    }

    #[test]
    fn places_are_read() {
        for (text, origin) in [
            ("pod/web-1", Origin::Pod(name(None, "web-1"))),
            ("pod/shop/web-1", Origin::Pod(name(Some("shop"), "web-1"))),
            ("node", Origin::Node(None)),
            ("node/win-1", Origin::Node(Some("win-1".to_owned()))),
            ("external", Origin::External(None)),
            ("external:203.0.113.9", Origin::External(Some([203, 0, 113, 9].into()))),
            ("external:2001:db8::9", Origin::External(Some("2001:db8::9".parse().unwrap()))),
        ] {
            assert_eq!(text.parse(), Ok(origin), "{text}");
        }
        for text in ["", "pod/", "web-1", "node/", "external:host", "pod/a/b/c", "nodes/x"] {
            assert!(text.parse::<Origin>().is_err(), "{text}");
        }
    }

    #[test]
    fn destinations_and_exchanges_are_read() {
        let service = Destination::Service(name(Some("shop"), "api"), "http".to_owned());
        assert_eq!("svc/shop/api:http".parse(), Ok(service));
        assert_eq!("pod/web-1:8080".parse(), Ok(Destination::Pod(name(None, "web-1"), 8080)));
        assert_eq!("10.96.0.10:53".parse(), Ok(Destination::Address(([10, 96, 0, 10], 53).into())));
        for text in ["svc/api", "svc/api:", "pod/web-1:http", "10.96.0.10", "api:80", "::1:80"] {
            assert!(text.parse::<Destination>().is_err(), "{text}");
        }
        let flow: Flow = "node=svc/dns:53/udp".parse().unwrap();
        assert_eq!(flow.protocol, Protocol::Udp);
        assert_eq!(flow.to, Destination::Service(name(None, "dns"), "53".to_owned()));
        assert!("pod/web-1".parse::<Flow>().unwrap_err().contains("FROM=TO"));
        for text in [
            "node=svc/dns:53/udp",
            "pod/shop/web-1=10.96.0.10:80",
            "node/win-1=pod/a:1",
            "external:2001:db8::9=[2001:db8::1]:80",
            "external=svc/shop/api:http/udp",
        ] {
            assert_eq!(
                text.parse::<Flow>().map(|flow| flow.to_string()).as_deref(),
                Ok(text),
                "as it was read"
            );
        }
    }
}
