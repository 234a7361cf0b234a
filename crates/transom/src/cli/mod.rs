//! The command line: every command, flag and help text, and the checks that need no other input.
//!
//! Definitions only. What a command does is in [`crate::commands`]; this module must not know of HNS, manifests or
//! how anything is printed.

pub mod completions;
pub mod hns;
pub mod hns_at;
mod ignored;
pub mod inputs;
pub mod install;
pub mod kube_proxy;
#[cfg(target_os = "linux")]
pub mod lab;
pub mod logging;
pub mod proxy_status;
pub mod services;
pub mod traffic;
pub mod values;
pub mod windows;
#[cfg(target_os = "linux")]
pub mod wine;

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

pub use ignored::Notice;

/// Windows node networking for Kubernetes: a service proxy and an emulated HNS.
///
/// Reads a cluster's Services, EndpointSlices and Nodes, works out what the Host Network Service (HNS) of one
/// Windows node must hold, and brings it there with the fewest calls. HNS is emulated in this process, so
/// everything runs on Linux.
#[derive(Debug, Parser)]
#[command(
    name = "transom",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = EXIT_CODES
)]
pub struct Cli {
    /// How much is logged and how.
    #[command(flatten)]
    pub logging: logging::LoggingArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0   done; plan: nothing differs
  1   the work could not be done; trace: the request was not answered
  2   plan: wanted and observed differ
  3   --strict: some input was refused, the rest was served
  4   proxy --once: some HNS objects could not be brought to what is wanted
  any lab exec, wine: what the program ended with
  64  the command line was wrong";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Set up the node that a cluster describes and keep its load balancers in step
    ///
    /// Sets up the emulated node: the HNS network from the Node's podCIDR and address, a route to each other node,
    /// the endpoints of the pods that run on it. Then works out what HNS must hold for the cluster's Services,
    /// brings it there and prints what was done. Without --once it stays and applies edits of the manifests as
    /// they are saved.
    Proxy(ProxyCommand),
    /// Show what would be created, modified and deleted, and why; ends with 2 when there is a difference
    ///
    /// Compares what HNS must hold for the cluster's Services with what it holds, and changes nothing. With
    /// --state, what HNS holds is what an earlier run left there.
    Plan(PlanCommand),
    /// List, show and delete the objects that HNS holds
    Hns(hns::HnsCommand),
    /// Show each service port of the node: frontends, backends, what was left out and why
    Services(services::ServicesCommand),
    /// Send one request through the whole cluster in memory and show each hop, rule and rewrite, both ways
    ///
    /// Every node of the cluster is emulated: Windows nodes with HNS, the virtual switch and a proxy, Linux nodes with
    /// VXLAN or routes, a router, and a host outside. Ends with 1 when the request is not answered, and says which
    /// rule or missing object is to blame.
    Trace(traffic::TraceCommand),
    /// Send requests through the whole cluster in memory and write what every port saw to a pcapng file
    Capture(traffic::CaptureCommand),
    /// Show the virtual switch of a node: ports, layers, groups, rules, flows, counters, NAT
    Vfp(traffic::VfpCommand),
    /// Run a cluster's network with real packets on this machine
    #[cfg(target_os = "linux")]
    Lab(lab::LabCommand),
    /// Run a Windows program under Wine, against the HNS of a lab's node or of another process
    ///
    /// Prepares a Wine prefix with Transom's computenetwork.dll and vmcompute.dll, so that programs which call the HCN API find
    /// it, and runs the program there. With a lab's node, it runs in the node's network namespace: its sockets are the node's.
    #[cfg(target_os = "linux")]
    Wine(wine::WineCommand),
    /// A program of a lab's own
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    LabPart(lab::LabPartCommand),
    /// Print the manifests that run the proxy on a cluster's Windows nodes
    ///
    /// They are what `kubectl kustomize deploy/overlays/CNI` gives, with what the flags say put in: a HostProcess
    /// DaemonSet, its account and rights, and its configuration. docs/deploy.md has the whole way.
    Install(install::InstallCommand),
    /// Print a completion script for a shell
    Completions(completions::CompletionsCommand),
}

/// `transom proxy`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ProxyCommand {
    /// What to ask a proxy that runs, in place of running one.
    #[command(subcommand)]
    pub action: Option<proxy_status::ProxyAction>,
    /// The cluster.
    #[command(flatten)]
    pub input: inputs::ClusterArgs,
    /// The node.
    #[command(flatten)]
    pub node: inputs::NodeArgs,
    /// Which HNS.
    #[command(flatten)]
    pub hns: inputs::HnsArgs,
    /// Services and priorities of Windows.
    #[command(flatten)]
    pub windows: windows::WindowsArgs,
    /// Bring HNS to what is wanted once, print what was done, and end
    #[arg(long, help_heading = "Input")]
    pub once: bool,
    /// kube-proxy's flags.
    #[command(flatten)]
    pub flags: kube_proxy::KubeProxyArgs,
}

/// `transom plan`.
#[derive(Debug, Args)]
pub struct PlanCommand {
    /// The cluster.
    #[command(flatten)]
    pub input: inputs::ClusterArgs,
    /// The node.
    #[command(flatten)]
    pub node: inputs::NodeArgs,
    /// Which HNS.
    #[command(flatten)]
    pub hns: inputs::HnsArgs,
    /// Services and priorities of Windows.
    #[command(flatten)]
    pub windows: windows::WindowsArgs,
    /// The form of what is printed.
    #[command(flatten)]
    pub output: OutputArgs,
    /// kube-proxy's flags.
    #[command(flatten)]
    pub flags: kube_proxy::KubeProxyArgs,
}

/// The form of what is printed.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// The form of what is printed
    #[arg(short, long, value_name = "FORM", value_enum, default_value_t)]
    pub output: Output,
}

/// A form of output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Tables and sentences for people
    #[default]
    Text,
    /// One JSON document
    Json,
    /// One YAML document
    Yaml,
}

impl Cli {
    /// Reads and checks a command line, whose first element is the program's name.
    ///
    /// An error is either something wrong with the line or a request for help or the version; clap's
    /// `use_stderr` tells them apart and `print` shows them.
    pub fn from_args<I, T>(args: I) -> Result<Self, clap::Error>
    where
        I: IntoIterator<Item = T>,
        T: Into<OsString> + Clone,
    {
        let mut cli = Self::try_parse_from(args)?;
        let mut problems: Vec<String> = Vec::new();
        let declared_elsewhere = cli.declared_elsewhere();
        if let Some(flags) = cli.kube_proxy_mut() {
            problems.extend(flags.also(declared_elsewhere).err());
        }
        problems.extend(cli.problems());
        if problems.is_empty() {
            return Ok(cli);
        }
        // As upstream does, all that is wrong is said at once.
        let mut command = Self::command();
        Err(command.error(ErrorKind::ValueValidation, problems.join("\nerror: ")))
    }

    /// kube-proxy's flags, of the commands that have them.
    pub fn kube_proxy(&self) -> Option<&kube_proxy::KubeProxyArgs> {
        match &self.command {
            Command::Proxy(proxy) => Some(&proxy.flags),
            Command::Plan(plan) => Some(&plan.flags),
            _ => None,
        }
    }

    /// The same, to be completed.
    pub fn kube_proxy_mut(&mut self) -> Option<&mut kube_proxy::KubeProxyArgs> {
        match &mut self.command {
            Command::Proxy(proxy) => Some(&mut proxy.flags),
            Command::Plan(plan) => Some(&mut plan.flags),
            _ => None,
        }
    }

    /// How to log: the flags, and what a configuration file says where they say nothing.
    pub fn log_settings(&self) -> crate::logging::Settings {
        let file = self.kube_proxy().filter(|flags| flags.config().is_some());
        let file = file.and_then(kube_proxy::KubeProxyArgs::settings).map(|settings| &settings.logging);
        self.logging.settings(self.is_service(), file)
    }

    /// Whether this process is a service of Windows'.
    pub fn is_service(&self) -> bool {
        matches!(&self.command, Command::Proxy(proxy) if proxy.windows.as_service())
    }

    /// Flags of kube-proxy that stand beside others of their kind.
    fn declared_elsewhere(&self) -> Vec<(&'static str, String)> {
        let mut flags = self.logging.given();
        if let Command::Proxy(proxy) = &self.command
            && proxy.windows.is_given()
        {
            flags.push(("windows-service", "true".to_owned()));
        }
        flags
    }

    /// What is wrong with values that each parse but do not fit together.
    fn problems(&mut self) -> Vec<String> {
        let mut problems: Vec<String> = self.logging.problems().into_iter().collect();
        let host_name = crate::host::name();
        if let Some(flags) = self.kube_proxy_mut() {
            problems.extend(flags.problems(&host_name));
        }
        match &self.command {
            Command::Proxy(proxy) => {
                problems.extend(proxy.input.problems(&proxy.flags));
                problems.extend(hns_at::HnsAt::problems(proxy.hns.hns.as_ref(), &proxy.node));
                problems.extend(proxy.windows.problems(proxy.once));
            }
            Command::Plan(plan) => {
                problems.extend(plan.input.problems(&plan.flags));
                problems.extend(hns_at::HnsAt::problems(plan.hns.hns.as_ref(), &plan.node));
            }
            Command::Hns(hns) => problems.extend(hns.problems()),
            Command::Services(_)
            | Command::Trace(_)
            | Command::Capture(_)
            | Command::Vfp(_)
            | Command::Install(_)
            | Command::Completions(_) => {}
            #[cfg(target_os = "linux")]
            Command::Lab(_) | Command::Wine(_) | Command::LabPart(_) => {}
        }
        problems
    }

    /// The flags that were given and have no effect, to be told to the user.
    pub fn notices(&self) -> Vec<Notice> {
        let mut notices = self.logging.notices();
        match &self.command {
            Command::Proxy(proxy) => {
                notices.extend(proxy.windows.notices(true));
                notices.extend(proxy.flags.notices(proxy.input.manifests.is_empty()));
            }
            Command::Plan(plan) => {
                notices.extend(plan.windows.notices(false));
                notices.extend(plan.flags.notices(false));
            }
            Command::Hns(_)
            | Command::Services(_)
            | Command::Trace(_)
            | Command::Capture(_)
            | Command::Vfp(_)
            | Command::Install(_)
            | Command::Completions(_) => {}
            #[cfg(target_os = "linux")]
            Command::Lab(_) | Command::Wine(_) | Command::LabPart(_) => {}
        }
        notices
    }
}

#[cfg(test)]
mod tests;
