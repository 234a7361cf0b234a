//! Flags that several commands share: the cluster that is read and the node that is emulated.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::hns_at::HnsAt;
use super::kube_proxy::KubeProxyArgs;
use super::values::{self, ManifestPath};

/// The largest manifest file that is read unless the user says otherwise: 90 MiB, some 200,000 endpoints as `kubectl`
/// writes them.
pub const DEFAULT_MAX_MANIFEST_BYTES: &str = "90MiB";

/// The cluster, for commands that cannot do without one.
#[derive(Debug, Args)]
#[command(next_help_heading = "Input")]
pub struct InputArgs {
    /// Files and folders with manifests, or `-` for standard input
    ///
    /// YAML or JSON with one or many documents; lists, such as the output of `kubectl get
    /// nodes,services,endpointslices,pods -A -o yaml`, are taken as they are. Folders are read with their
    /// subfolders. Where a Service has no EndpointSlices but its Pods are there, the slices are derived from them.
    #[arg(short = 'f', long, value_name = "PATH", num_args = 1.., required = true)]
    pub manifests: Vec<ManifestPath>,

    /// Everything else that is said of the input.
    #[command(flatten)]
    pub common: InputOptions,
}

/// The cluster, for the proxy, which can also write its configuration or clean up without one.
#[derive(Debug, Args)]
#[command(next_help_heading = "Input")]
pub struct ClusterArgs {
    /// Files and folders with manifests, or `-` for standard input
    ///
    /// YAML or JSON with one or many documents; lists, such as the output of `kubectl get
    /// nodes,services,endpointslices,pods -A -o yaml`, are taken as they are. Folders are read with their
    /// subfolders. Where a Service has no EndpointSlices but its Pods are there, the slices are derived from them.
    #[arg(short = 'f', long, value_name = "PATH", num_args = 1..)]
    pub manifests: Vec<ManifestPath>,

    /// Everything else that is said of the input.
    #[command(flatten)]
    pub common: InputOptions,
}

/// The cluster, for commands that can also work on a stored HNS alone.
#[derive(Debug, Args)]
#[command(next_help_heading = "Input")]
pub struct OptionalInputArgs {
    /// Files and folders with manifests, or `-` for standard input: the cluster that describes the node
    ///
    /// Without it, --state names the emulated HNS to work on, or --hns another one.
    #[arg(short = 'f', long, value_name = "PATH", num_args = 1..)]
    pub manifests: Vec<ManifestPath>,

    /// The HNS to work on: native, emulated or the address of another process' [default: on Windows native, if nothing
    /// is said of an emulated one; else emulated]
    ///
    /// native is the HNS of this Windows machine, emulated one in this process. An address is that of another process: unix:PATH,
    /// or a path with a slash in it, is a Unix socket; token:FILE is a port whose address and token the server has left in a file.
    #[arg(long, value_name = "HNS")]
    pub hns: Option<HnsAt>,

    /// The HNS of a node of a lab that runs (`transom lab up`); with --node where it has several Windows nodes
    #[arg(
        long,
        value_name = "NAME",
        value_parser = values::lab_name,
        conflicts_with_all =
            ["manifests", "hns", "max_manifest_bytes", "strict", "network", "profile", "state", "faults"]
    )]
    pub lab: Option<String>,

    /// Everything else that is said of the input.
    #[command(flatten)]
    pub common: InputOptions,
}

/// What is said of the input beside its place.
#[derive(Debug, Args)]
#[command(next_help_heading = "Input")]
pub struct InputOptions {
    /// The Windows node to work on, by its Node's name [default: the cluster's only Windows node]
    #[arg(long, value_name = "NAME", value_parser = values::node_name)]
    pub node: Option<String>,

    /// Refuse to read a larger manifest file, such as 1000000, 64MiB or 1GB
    #[arg(long, value_name = "BYTES", default_value = DEFAULT_MAX_MANIFEST_BYTES, value_parser = values::bytes)]
    pub max_manifest_bytes: u64,

    /// End with exit code 3 when any part of the input was refused; the rest is served all the same
    #[arg(long)]
    pub strict: bool,
}

impl OptionalInputArgs {
    pub(super) fn problems(&self, node: &NodeArgs) -> Vec<String> {
        let mut problems = HnsAt::problems(self.hns.as_ref(), node);
        if let Some(hns @ (HnsAt::Native | HnsAt::Server(_))) = &self.hns
            && !self.manifests.is_empty()
        {
            problems.push(format!(
                "--hns {hns} cannot be used with '--manifests <PATH>...', which describe a node that is emulated here"
            ));
        }
        let is_native = HnsAt::or_default_without(self.hns.as_ref(), node, &self.manifests) == HnsAt::Native;
        let has_source = is_native || matches!(self.hns, Some(HnsAt::Server(_))) || self.lab.is_some();
        if !has_source && self.manifests.is_empty() && node.state.is_none() {
            problems.push(
                "nothing says which HNS is meant; give --manifests <PATH>... for a node that is emulated here, --state <FILE> \
                 for one of an earlier run, or --hns <HNS>"
                    .to_owned(),
            );
        }
        problems
    }
}

impl ClusterArgs {
    pub(super) fn problems(&self, flags: &KubeProxyArgs) -> Vec<String> {
        let mut problems = Vec::new();
        if let (Some(node), Some(host)) = (&self.common.node, flags.hostname_override())
            && *node != host
        {
            problems.push(format!(
                "--node {node} and --hostname-override {host} name different nodes; give one of them"
            ));
        }
        if self.manifests.iter().filter(|path| **path == ManifestPath::StandardInput).count() > 1 {
            problems.push("--manifests: standard input (`-`) can be read only once".to_owned());
        }
        for flag in ["kubeconfig", "master"] {
            if !self.manifests.is_empty() && flags.says(flag) {
                problems.push(format!(
                    "--{flag} cannot be used with '--manifests <PATH>...': the cluster is read from one of them"
                ));
            }
        }
        problems
    }
}

/// The emulated node and its HNS.
#[derive(Debug, Args)]
#[command(next_help_heading = "Emulated node")]
pub struct NodeArgs {
    /// The kind of HNS network that the node's pods are on
    #[arg(long, value_name = "TYPE", value_enum, default_value_t)]
    pub network: NetworkType,

    /// The Windows build that is emulated [default: by the Node's label node.kubernetes.io/windows-build, else
    /// ws2022]
    #[arg(long, value_name = "BUILD", value_enum)]
    pub profile: Option<Profile>,

    /// A file that keeps the emulated HNS between runs [default: HNS lives in memory and ends with the command]
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,

    /// A plan of faults in YAML: which HNS calls fail or are slow, how often, with which seed
    #[arg(long, value_name = "FILE")]
    pub faults: Option<PathBuf>,
}

impl NodeArgs {
    /// The flags that were given and concern an emulated HNS only.
    pub(super) fn of_emulated(&self) -> Vec<&'static str> {
        [
            (self.profile.is_some(), "--profile <BUILD>"),
            (self.state.is_some(), "--state <FILE>"),
            (self.faults.is_some(), "--faults <FILE>"),
        ]
        .into_iter()
        .filter_map(|(given, flag)| given.then_some(flag))
        .collect()
    }
}

/// Which HNS, for commands that also need the cluster.
#[derive(Debug, Args)]
#[command(next_help_heading = "HNS")]
pub struct HnsArgs {
    /// The HNS to work on: native, emulated or the address of another process' [default: on Windows native, if nothing
    /// is said of an emulated one; else emulated]
    ///
    /// native is the HNS of this Windows machine, emulated one in this process. An address is that of another process: unix:PATH,
    /// or a path with a slash in it, is a Unix socket; token:FILE is a port whose address and token the server has left in a file.
    /// Only the node of an emulated HNS is set up by Transom; elsewhere a CNI plugin does that.
    #[arg(long, value_name = "HNS")]
    pub hns: Option<HnsAt>,
}

/// A kind of HNS network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum NetworkType {
    /// VXLAN between nodes
    #[default]
    Overlay,
    /// Pods bridged to the node's own network
    L2bridge,
}

/// A Windows build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// Windows Server 2019
    Ws2019,
    /// Windows Server 2022
    Ws2022,
    /// Windows Server 2025
    Ws2025,
    /// The newest HNS known
    Newest,
}
