//! kube-proxy's flags as they stand on Windows, with its names, defaults and rules.
//!
//! Flags that have an effect are fields of [`KubeProxyArgs`]; the others are rows of a table, accepted and told to
//! be without effect. Rules that concern several flags are checked together, and all that
//! is wrong is reported at once, as kube-proxy does.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::{ArgAction, Args};
use ipnet::IpNet;

use super::ignored::{Ignored, Kind, Notice, Row, Table};
use super::values::{FeatureGate, ListenAddress, NodePortAddress, OrBlank};
use super::values::{go_bool, go_duration, node_name, proxy_mode};

/// The port of the proxy's own health, which forwarded health checks are sent to.
pub const HEALTHZ_PORT: u16 = 10256;

/// kube-proxy's flags.
#[derive(Debug, Args)]
#[command(next_help_heading = "kube-proxy's Windows flags")]
pub struct KubeProxyArgs {
    /// The HNS network to work on [default: the one that is set up for the node]
    #[arg(long, value_name = "NAME", env = "KUBE_NETWORK", hide_env_values = true)]
    network_name: Option<String>,

    /// The address that traffic from load balancers to remote pods comes from, one per family, Overlay only
    /// [default: found by --source-vip-endpoint, else taken from the node's range]
    #[arg(long, value_name = "IP", value_delimiter = ',')]
    source_vip: Vec<OrBlank<IpAddr>>,

    /// Names of HNS endpoints whose address is the source VIP, first found first taken
    #[arg(long, value_name = "NAME", value_delimiter = ',',
          default_values_t = ["Calico_ep".to_owned(), "source_vip".to_owned()])]
    pub source_vip_endpoint: Vec<String>,

    /// Direct server return: answers of remote pods do not pass this node again
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = go_bool, action = ArgAction::Set)]
    pub enable_dsr: bool,

    /// The endpoint of the host's gateway, used by --forward-healthcheck-vip
    #[arg(long, value_name = "NAME", default_value = "cbr0")]
    root_hnsendpoint_name: String,

    /// Forward the health checks of a load balancer's address to this node's health port
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false",
          default_missing_value = "true", value_parser = go_bool, action = ArgAction::Set)]
    pub forward_healthcheck_vip: bool,

    /// Serve node ports only on the node's addresses in these networks, or on its `primary` addresses
    /// [default: all]
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub nodeport_addresses: Vec<NodePortAddress>,

    /// The node's name, if --node does not say it
    #[arg(long, value_name = "NAME", value_parser = node_name)]
    pub hostname_override: Option<String>,

    /// The node's primary address; nothing is bound to it. 0.0.0.0 and :: mean the Node's own
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    bind_address: IpAddr,

    /// Where forwarded health checks go: only the port counts, health is not served in this version
    #[arg(long, value_name = "IP[:PORT]", default_value = "0.0.0.0:10256")]
    healthz_bind_address: OrBlank<ListenAddress>,

    /// The port of --healthz-bind-address when that is a bare address; 0 switches health off
    #[arg(long, value_name = "PORT", default_value_t = HEALTHZ_PORT)]
    healthz_port: u16,

    /// How often HNS is compared with what is wanted when nothing seems to have changed
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = go_duration)]
    pub iptables_sync_period: Duration,

    /// The least time between two rounds of changes
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = go_duration)]
    pub iptables_min_sync_period: Duration,

    /// Name=true,… for kube-proxy's feature gates; AllowServiceExternalIPs is the one with an effect here
    #[arg(long, value_name = "NAME=BOOL", value_delimiter = ',')]
    feature_gates: Vec<FeatureGate>,

    /// `kernelspace` or blank, which is the same on Windows
    #[arg(long, value_name = "MODE", default_value = "kernelspace", value_parser = proxy_mode)]
    proxy_mode: String,

    /// How pods of this node are told from others: has no effect but for checking --cluster-cidr
    #[arg(long, value_name = "MODE", hide_short_help = true,
          value_parser = ["", "ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix"])]
    detect_local_mode: Option<String>,

    /// The pods' networks, one or one of each family: has no effect but is checked in ClusterCIDR mode
    #[arg(long, value_name = "CIDR", value_delimiter = ',', hide_short_help = true)]
    cluster_cidr: Vec<String>,

    #[command(flatten)]
    ignored: Ignored<WithoutEffect>,
}

/// Where the objects come from makes these idle.
const FROM_MANIFESTS: &str = "objects come from --manifests";
/// Nothing listens for them.
const NO_METRICS: &str = "no metrics are served yet";
/// They steer other platforms' data paths.
const NOT_WINDOWS: &str = "it concerns Linux only";

/// The flags that are accepted without effect, or refused.
#[derive(Debug, Default)]
struct WithoutEffect;

impl Table for WithoutEffect {
    const HEADING: &'static str = "kube-proxy's flags without effect";
    const GLOBAL: bool = false;
    const SHOWN: bool = true;
    const ROWS: &'static [Row] = &[
        row("config", Kind::RefusedText, "a configuration file is not read yet; give its settings as flags"),
        row("write-config-to", Kind::RefusedText, "a configuration file is not written yet"),
        row("cleanup", Kind::RefusedBool, "kube-proxy refuses it on Windows too; see `transom hns delete`"),
        row("init-only", Kind::RefusedBool, "kube-proxy refuses it on Windows too"),
        row("kubeconfig", Kind::Text, FROM_MANIFESTS),
        row("master", Kind::Text, FROM_MANIFESTS),
        row("kube-api-content-type", Kind::Text, FROM_MANIFESTS),
        row("kube-api-qps", Kind::Float, FROM_MANIFESTS),
        row("kube-api-burst", Kind::Int(0, i32::MAX as i64), FROM_MANIFESTS),
        row("config-sync-period", Kind::Duration, "edits of manifests are seen as they are saved"),
        row("metrics-bind-address", Kind::Listen, NO_METRICS),
        row("metrics-port", Kind::Int(1, 65_535), NO_METRICS),
        row("profiling", Kind::Bool, NO_METRICS),
        row("show-hidden-metrics-for-version", Kind::Text, NO_METRICS),
        row("bind-address-hard-fail", Kind::Bool, "nothing is listened on yet"),
        row("pod-interface-name-prefix", Kind::Text, "kube-proxy does not use it on Windows either"),
        row("pod-bridge-interface", Kind::Text, "kube-proxy does not use it on Windows either"),
        row("oom-score-adj", Kind::Int(-1000, 1000), NOT_WINDOWS),
        row("masquerade-all", Kind::Bool, NOT_WINDOWS),
        row("iptables-masquerade-bit", Kind::Int(0, 31), NOT_WINDOWS),
        row("iptables-localhost-nodeports", Kind::Bool, NOT_WINDOWS),
        row("conntrack-max-per-core", Kind::Int(0, i32::MAX as i64), NOT_WINDOWS),
        row("conntrack-min", Kind::Int(0, i32::MAX as i64), NOT_WINDOWS),
        row("conntrack-tcp-be-liberal", Kind::Bool, NOT_WINDOWS),
        row("conntrack-tcp-timeout-close-wait", Kind::Duration, NOT_WINDOWS),
        row("conntrack-tcp-timeout-established", Kind::Duration, NOT_WINDOWS),
        row("conntrack-udp-timeout", Kind::Duration, NOT_WINDOWS),
        row("conntrack-udp-timeout-stream", Kind::Duration, NOT_WINDOWS),
        row("ipvs-exclude-cidrs", Kind::Text, NOT_WINDOWS),
        row("ipvs-min-sync-period", Kind::Duration, NOT_WINDOWS),
        row("ipvs-scheduler", Kind::Text, NOT_WINDOWS),
        row("ipvs-strict-arp", Kind::Bool, NOT_WINDOWS),
        row("ipvs-sync-period", Kind::Duration, NOT_WINDOWS),
        row("ipvs-tcp-timeout", Kind::Duration, NOT_WINDOWS),
        row("ipvs-tcpfin-timeout", Kind::Duration, NOT_WINDOWS),
        row("ipvs-udp-timeout", Kind::Duration, NOT_WINDOWS),
    ];
}

const fn row(flag: &'static str, kind: Kind, reason: &'static str) -> Row {
    Row { flag, kind, reason }
}

/// What is known of a feature gate of kube-proxy 1.36.
enum Gate {
    /// It changes what the proxy does.
    Effective,
    /// It is on for good; upstream fails to start when it is switched off.
    Locked,
    /// It changes nothing here.
    Idle,
}

fn gate(name: &str) -> Option<Gate> {
    match name {
        "AllowServiceExternalIPs" => Some(Gate::Effective),
        "WinDSR" | "WinOverlay" | "PreferSameTrafficDistribution" | "MultiCIDRServiceAllocator" => {
            Some(Gate::Locked)
        }
        "AllAlpha"
        | "AllBeta"
        | "ComponentFlagz"
        | "ComponentStatusz"
        | "NativeHistograms"
        | "WindowsHostNetwork"
        | "ContextualLogging"
        | "LoggingAlphaOptions"
        | "LoggingBetaOptions" => Some(Gate::Idle),
        _ => None,
    }
}

impl KubeProxyArgs {
    /// The HNS network that was named, if one was.
    pub fn network_name(&self) -> Option<&str> {
        self.network_name.as_deref().map(str::trim).filter(|name| !name.is_empty())
    }

    /// The source VIPs that were given: at most one of each family.
    pub fn source_vips(&self) -> impl Iterator<Item = IpAddr> {
        self.source_vip.iter().filter_map(|ip| ip.0)
    }

    /// The name of the host's gateway endpoint; blank means the default, as in kube-proxy's configuration.
    pub fn root_hnsendpoint_name(&self) -> &str {
        let name = self.root_hnsendpoint_name.trim();
        if name.is_empty() { "cbr0" } else { name }
    }

    /// The primary node address that was given, if it is one.
    pub fn node_ip(&self) -> Option<IpAddr> {
        Some(self.bind_address).filter(|ip| !ip.is_unspecified())
    }

    /// Where the proxy's health is served; `None` when it is switched off.
    pub fn healthz_address(&self) -> Option<SocketAddr> {
        if self.healthz_port == 0 {
            return None;
        }
        let default = ListenAddress { ip: IpAddr::V4(Ipv4Addr::UNSPECIFIED), port: Some(HEALTHZ_PORT) };
        let address = self.healthz_bind_address.0.unwrap_or(default);
        Some(SocketAddr::new(address.ip, address.port.unwrap_or(self.healthz_port)))
    }

    /// Whether `spec.externalIPs` are served (gate `AllowServiceExternalIPs`, on by default).
    pub fn allow_service_external_ips(&self) -> bool {
        // As in Go's flags, the last one counts.
        let last = self.feature_gates.iter().rev().find(|gate| gate.name == "AllowServiceExternalIPs");
        last.is_none_or(|gate| gate.enabled)
    }

    /// What is wrong with the values taken together.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.iptables_sync_period.is_zero() {
            problems.push("--iptables-sync-period must be greater than 0".to_owned());
        } else if self.iptables_sync_period < self.iptables_min_sync_period {
            problems.push(format!(
                "--iptables-sync-period ({:?}) must not be shorter than --iptables-min-sync-period ({:?})",
                self.iptables_sync_period, self.iptables_min_sync_period
            ));
        }
        if self.nodeport_addresses.len() > 1 && self.nodeport_addresses.contains(&NodePortAddress::Primary) {
            problems.push("--nodeport-addresses: `primary` cannot be combined with anything else".to_owned());
        }
        for (family, v4) in [("IPv4", true), ("IPv6", false)] {
            if self.source_vips().filter(|ip| ip.is_ipv4() == v4).count() > 1 {
                problems.push(format!("--source-vip: only one {family} address can be the source VIP"));
            }
        }
        for wanted in &self.feature_gates {
            if matches!(gate(&wanted.name), Some(Gate::Locked)) && !wanted.enabled {
                problems.push(format!("--feature-gates: {} is locked to true", wanted.name));
            }
        }
        if self.detect_local_mode.as_deref() == Some("ClusterCIDR") {
            problems.extend(cluster_cidr_problem(&self.cluster_cidr));
        }
        problems
    }

    /// The flags that were given and have no effect.
    pub(super) fn notices(&self) -> Vec<Notice> {
        let mut notices = self.ignored.notices().to_vec();
        let checks_only = "pods of this node are told by their addresses";
        for (flag, given) in [
            ("--detect-local-mode", self.detect_local_mode.as_deref().is_some_and(|mode| !mode.is_empty())),
            ("--cluster-cidr", self.cluster_cidr.iter().any(|cidr| !cidr.is_empty())),
        ] {
            if given {
                notices.push(Notice { flag: flag.to_owned(), reason: checks_only });
            }
        }
        for wanted in &self.feature_gates {
            let reason = match gate(&wanted.name) {
                Some(Gate::Effective) => continue,
                Some(Gate::Locked) => "the gate is locked to true",
                Some(Gate::Idle) => "the gate changes nothing here",
                None => "the gate is not known; kube-proxy would refuse to start",
            };
            notices.push(Notice { flag: format!("--feature-gates={}", wanted.name), reason });
        }
        notices
    }
}

fn cluster_cidr_problem(cidrs: &[String]) -> Option<String> {
    let mut networks: Vec<IpNet> = Vec::new();
    for cidr in cidrs {
        match cidr.parse() {
            Ok(network) => networks.push(network),
            Err(_) => {
                return Some(format!(
                    "--cluster-cidr: {cidr:?} must be a valid CIDR block, such as 10.100.0.0/16"
                ));
            }
        }
    }
    match networks.as_slice() {
        [_] | [IpNet::V4(_), IpNet::V6(_)] | [IpNet::V6(_), IpNet::V4(_)] => None,
        _ => Some("--cluster-cidr must be either a single CIDR or one of each family".to_owned()),
    }
}
