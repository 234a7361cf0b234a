//! `transom hns`: the objects of HNS, in the forms of Windows' own `hnsdiag`.

use clap::{Args, Subcommand, ValueEnum};

use super::OutputArgs;
use super::hns_at::HnsAt;
#[cfg(unix)]
use super::inputs::InputOptions;
use super::inputs::{NodeArgs, OptionalInputArgs, Profile};
#[cfg(unix)]
use super::values::ManifestPath;
#[cfg(unix)]
use hnsd::Address;

/// `transom hns`.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct HnsCommand {
    /// What to do with the objects.
    #[command(subcommand)]
    pub action: HnsAction,
}

impl HnsCommand {
    /// What is wrong with values that do not fit together.
    pub(super) fn problems(&self) -> Vec<String> {
        match &self.action {
            HnsAction::List(list) => list.input.problems(&list.node),
            HnsAction::Get(get) => get.input.problems(&get.node),
            HnsAction::Delete(delete) => delete.input.problems(&delete.node),
            #[cfg(unix)]
            HnsAction::Serve(_) => Vec::new(),
            HnsAction::Conformance(_) => Vec::new(),
        }
    }
}

/// What can be done with HNS's objects.
#[derive(Debug, Subcommand)]
pub enum HnsAction {
    /// List the objects of a kind, or of all kinds
    List(HnsList),
    /// Print one object whole
    Get(HnsGet),
    /// Delete one object, and what HNS deletes with it
    Delete(HnsDelete),
    /// Run the suite of behaviours that clients of HNS rely on, and report what this HNS does
    ///
    /// It makes networks, endpoints, namespaces and load balancers, and deletes them; objects that were there before
    /// are left alone. Ends with 1 when a case fails. Without --hns it runs on an emulated HNS in memory.
    Conformance(HnsConformance),
    /// Serve an emulated HNS to other processes until a signal comes
    ///
    /// The protocol is docs/hnsd.md's. Without manifests HNS is empty; with them, the node is set up as the cluster describes it.
    #[cfg(unix)]
    Serve(HnsServe),
}

/// `transom hns conformance`.
#[derive(Debug, Args)]
pub struct HnsConformance {
    /// Make networks of these types only; cases that need others are reported as out of scope
    #[arg(long, value_name = "TYPES", value_enum, default_value_t)]
    pub only: ConformanceScope,
    /// Run only cases whose name contains this
    #[arg(long, value_name = "TEXT")]
    pub cases: Option<String>,
    /// The host's adapter for overlay and bridge networks [default: HNS chooses]
    #[arg(long, value_name = "NAME", conflicts_with = "profile")]
    pub adapter: Option<String>,
    /// What the report says of the machine, such as 10.0.20348.2700
    #[arg(long, value_name = "TEXT")]
    pub build: Option<String>,
    /// The HNS to test: native for this Windows machine's, or another process': unix:PATH or token:FILE [default: an emulated one]
    #[arg(long, value_name = "HNS", conflicts_with = "profile")]
    pub hns: Option<HnsAt>,
    /// The Windows build that is emulated
    #[arg(long, value_name = "BUILD", value_enum, default_value = "ws2022")]
    pub profile: Profile,
    /// The form of what is printed.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Which networks a run of the suite may make.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ConformanceScope {
    /// All types: overlay and bridge networks take the host's adapter
    #[default]
    All,
    /// NAT networks, which leave the host's adapters alone
    Nat,
}

/// `transom hns list`.
#[derive(Debug, Args)]
pub struct HnsList {
    /// The kind of objects
    #[arg(value_enum, value_name = "KIND")]
    pub kind: ListKind,
    /// Only the object with this id
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// One JSON object per item, in the form of HNS v1, as `hnsdiag` prints it
    #[arg(short, long, conflicts_with = "output")]
    pub details: bool,
    /// The form of what is printed
    #[arg(short, long, value_name = "FORM", value_enum, default_value_t, help_heading = "Output")]
    pub output: ListOutput,
    /// The cluster.
    #[command(flatten)]
    pub input: OptionalInputArgs,
    /// The node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// A form of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ListOutput {
    /// Tables for people
    #[default]
    Text,
    /// As Windows' own `hnsdiag` prints it
    Hnsdiag,
    /// One JSON document
    Json,
    /// One YAML document
    Yaml,
}

/// `transom hns get`.
#[derive(Debug, Args)]
pub struct HnsGet {
    /// The kind of object
    #[arg(value_enum, value_name = "KIND")]
    pub kind: Kind,
    /// The object's id
    #[arg(value_name = "ID")]
    pub id: String,
    /// The form of what is printed.
    #[command(flatten)]
    pub output: OutputArgs,
    /// The cluster.
    #[command(flatten)]
    pub input: OptionalInputArgs,
    /// The node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// `transom hns delete`.
#[derive(Debug, Args)]
pub struct HnsDelete {
    /// The kind of object
    #[arg(value_enum, value_name = "KIND")]
    pub kind: Kind,
    /// The object's id
    #[arg(value_name = "ID")]
    pub id: String,
    /// The cluster.
    #[command(flatten)]
    pub input: OptionalInputArgs,
    /// The node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// `transom hns serve`.
#[cfg(unix)]
#[derive(Debug, Args)]
pub struct HnsServe {
    /// Where to listen: unix:PATH, or token:FILE for a free port of 127.0.0.1, which is left in the file with a secret
    #[arg(long, value_name = "ADDRESS", required = true)]
    pub listen: Vec<Address>,
    /// Files and folders with manifests, or `-` for standard input: the cluster that describes the node
    #[arg(short = 'f', long, value_name = "PATH", num_args = 1.., help_heading = "Input")]
    pub manifests: Vec<ManifestPath>,
    /// Everything else that is said of the input.
    #[command(flatten)]
    pub input: InputOptions,
    /// The node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// A kind of HNS object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Networks
    #[value(name = "network", alias = "networks")]
    Network,
    /// Endpoints
    #[value(name = "endpoint", alias = "endpoints")]
    Endpoint,
    /// Namespaces
    #[value(name = "namespace", alias = "namespaces")]
    Namespace,
    /// Load balancers
    #[value(name = "loadbalancer", alias = "loadbalancers", alias = "lb")]
    LoadBalancer,
}

/// A kind of HNS object, or all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ListKind {
    /// Networks
    #[value(name = "networks", alias = "network")]
    Networks,
    /// Endpoints, local and remote
    #[value(name = "endpoints", alias = "endpoint")]
    Endpoints,
    /// Namespaces
    #[value(name = "namespaces", alias = "namespace")]
    Namespaces,
    /// Load balancers
    #[value(name = "loadbalancers", alias = "loadbalancer", alias = "lb")]
    LoadBalancers,
    /// Everything
    #[value(name = "all")]
    All,
}
