//! What the proxy takes from its configuration: every setting in the type in which it is used, and where it came from
//! no longer matters.
//!
//! Precedence: with a file, the file's values and upstream's defaults; of the flags only the node's name, logging and
//! those that are no fields. Without a file, the flags over the defaults. The variable `KUBE_NETWORK` counts where no
//! network is named. It must not know how any of these is looked up.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;

use crate::address;
use crate::document::Document;
use crate::flags::{Cleanup, Flags};
use crate::gates::FeatureGates;
use crate::problem::{Problem, Problems};
use crate::types::KubeProxyConfiguration;
use crate::validate::places;

/// What settings are made of.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// The file that `--config` names.
    pub file: Option<&'a Document>,
    /// The flags that were given.
    pub flags: &'a Flags,
    /// The variable `KUBE_NETWORK`.
    pub kube_network: Option<&'a str>,
    /// The host's own name.
    pub host_name: &'a str,
}

/// The proxy's settings.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of kube-proxy's, under its name")]
pub struct ProxySettings {
    /// The configuration as a whole, defaults filled in: for `--write-config-to` and `/configz`.
    pub configuration: KubeProxyConfiguration,
    /// The node's name: what was said, else the host's.
    pub node_name: String,
    /// The same, where it was said.
    pub hostname_override: Option<String>,
    /// The HNS network, a name or a pattern; `None` leaves it to the program.
    pub network_name: Option<String>,
    /// The source VIPs that were given.
    pub source_vips: SourceVips,
    /// Direct server return for cluster IPs.
    pub enable_dsr: bool,
    /// The host's gateway endpoint.
    pub root_endpoint_name: String,
    /// A health check for each ingress address.
    pub forward_health_check_vip: bool,
    /// The node's primary address, where it is not the Node's own.
    pub node_ip: Option<IpAddr>,
    /// Where health is served; `None`: it is switched off.
    pub healthz: Option<SocketAddr>,
    /// Where metrics are served.
    pub metrics: SocketAddr,
    /// Whether an address that cannot be listened on ends the process; else it is tried again.
    pub bind_address_hard_fail: bool,
    /// Whether profiles are served beside the metrics.
    pub profiling: bool,
    /// Whether metrics that the previous release has hidden are shown.
    pub show_hidden_metrics: bool,
    /// How often HNS is compared with what is wanted.
    pub sync_period: Duration,
    /// The least time between two rounds of changes.
    pub min_sync_period: Duration,
    /// How often a source lists everything anew.
    pub config_sync_period: Duration,
    /// The addresses that node ports are served on.
    pub node_port_addresses: NodePortAddresses,
    /// How this node's pods are told from others; for checks only.
    pub detect_local_mode: DetectLocalMode,
    /// The pods' networks, as far as they are checked.
    pub cluster_cidrs: Vec<IpNet>,
    /// How the API server is reached.
    pub api: ApiConnection,
    /// Feature gates.
    pub gates: FeatureGates,
    /// What is logged and how.
    pub logging: LogSettings,
    /// Whether the process is a Windows service.
    pub windows_service: bool,
    /// What to do instead of serving.
    pub instead: Instead,
}

/// The source VIPs, at most one of each family.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SourceVips {
    /// Of IPv4.
    pub v4: Option<IpAddr>,
    /// Of IPv6.
    pub v6: Option<IpAddr>,
}

/// Which of the node's addresses serve node ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodePortAddresses {
    /// All.
    All,
    /// The primary one of each family.
    Primary,
    /// Those in one of the networks.
    Within(Vec<IpNet>),
}

/// How this node's pods are told from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DetectLocalMode {
    /// Not said.
    Unset,
    /// By `clusterCIDR`.
    ClusterCidr,
    /// By the Node's ranges.
    NodeCidr,
    /// By a bridge.
    BridgeInterface,
    /// By the beginning of an interface's name.
    InterfaceNamePrefix,
}

/// How the API server is reached.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiConnection {
    /// The path of a kubeconfig; without one and without `master`, the account of the pod.
    pub kubeconfig: Option<String>,
    /// An address that wins over the kubeconfig's.
    pub master: Option<String>,
    /// The content types that are accepted.
    pub accept_content_types: Option<String>,
    /// The content type of requests.
    pub content_type: String,
    /// Requests a second; zero and less: no limit.
    pub qps: f32,
    /// Requests at once.
    pub burst: u32,
}

impl ApiConnection {
    /// Whether the account of the pod that the process runs in is meant.
    pub fn is_in_cluster(&self) -> bool {
        self.kubeconfig.is_none() && self.master.is_none()
    }
}

/// What is logged and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// klog's `-v`.
    pub verbosity: u32,
    /// klog's `--vmodule`: patterns and their verbosity.
    pub vmodule: Vec<(String, u32)>,
    /// Whether lines are JSON.
    pub json: bool,
}

/// What to do instead of serving.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Instead {
    /// Write the configuration there and end.
    pub write_config_to: Option<String>,
    /// Remove load balancers and end.
    pub cleanup: Cleanup,
}

/// Settings and what to tell about them.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// The settings.
    pub settings: ProxySettings,
    /// What is odd: fields without effect, flags that a file pushes aside.
    pub warnings: Vec<String>,
}

impl Sources<'_> {
    /// The settings, or all that is wrong.
    pub fn resolve(&self) -> Result<Resolved, Problems> {
        let mut warnings = Vec::new();
        let mut configuration = KubeProxyConfiguration::default();
        if let Some(file) = self.file {
            configuration = file.configuration.clone();
            configuration.fill_in();
            warnings.extend(file.warnings.iter().cloned());
            warnings.extend(self.flags.pushed_aside().map(|flag| {
                format!("flag --{}: has no effect beside --config; set {} in the file", flag.name, flag.key)
            }));
            self.flags.apply_beside_file(&mut configuration);
        } else {
            configuration.fill_in();
            self.flags.apply(&mut configuration);
        }
        let mut problems = configuration.problems();
        let node_name = self.node_name(&configuration, &mut problems);
        let start = self.flags.start();
        if start.init_only {
            problems.push(
                crate::flags::INIT_ONLY
                    .problem("true", "is refused on Windows, as kube-proxy does; take it out"),
            );
        }
        let network_name =
            named(&configuration.winkernel.network_name).or_else(|| self.kube_network.and_then(named));
        if let Some(Err(wrong)) = network_name.as_deref().map(crate::validate::network_name)
            && named(&configuration.winkernel.network_name).is_none()
        {
            problems.push(places::NETWORK_NAME.problem(
                network_name.as_deref().unwrap_or_default(),
                format!("{wrong}; it comes from the variable KUBE_NETWORK"),
            ));
        }
        if !problems.is_empty() {
            return Err(Problems(problems));
        }
        configuration.hostname_override = self.override_written(&configuration);

        // None of these fails where the rules above have found nothing.
        let (gates, gate_warnings) = FeatureGates::of(&configuration.feature_gates).map_err(Problems)?;
        warnings.extend(gate_warnings);
        warnings.extend(idle(&configuration, self.file.is_some()));
        let metrics = address::listen(&configuration.metrics_bind_address).map_err(|wrong| {
            Problems(vec![places::METRICS.problem(&configuration.metrics_bind_address, wrong)])
        })?;
        let settings = settings(configuration, node_name, network_name, gates, metrics, start);
        Ok(Resolved { settings, warnings })
    }

    /// The flag, else the file, else the host; each trimmed and in lower case.
    fn node_name(&self, configuration: &KubeProxyConfiguration, problems: &mut Vec<Problem>) -> String {
        let flag = self.flags.hostname_override().unwrap_or_default();
        let file = &configuration.hostname_override;
        let (said, blank) = if !flag.is_empty() {
            (flag, "empty hostname-override is invalid; give the Node's name or leave the flag out")
        } else if !file.is_empty() {
            (file.as_str(), "empty hostname is invalid; give the Node's name or leave the field out")
        } else {
            (self.host_name, "the host has no name; give the Node's with --hostname-override")
        };
        let name = said.trim().to_lowercase();
        if name.is_empty() {
            problems.push(places::HOSTNAME.problem(said, blank));
        }
        name
    }

    /// What a written file says of the node's name: what was said, not what the host is called.
    fn override_written(&self, configuration: &KubeProxyConfiguration) -> String {
        let flag = self.flags.hostname_override().unwrap_or_default().trim().to_lowercase();
        if flag.is_empty() { configuration.hostname_override.clone() } else { flag }
    }
}

fn settings(
    configuration: KubeProxyConfiguration,
    node_name: String,
    network_name: Option<String>,
    gates: FeatureGates,
    metrics: SocketAddr,
    start: crate::flags::Start,
) -> ProxySettings {
    let c = &configuration;
    ProxySettings {
        hostname_override: (!c.hostname_override.is_empty()).then(|| node_name.clone()),
        node_name,
        network_name,
        source_vips: SourceVips::parse(&c.winkernel.source_vip).unwrap_or_default(),
        enable_dsr: c.winkernel.enable_dsr,
        root_endpoint_name: c.winkernel.root_hns_endpoint_name.trim().to_owned(),
        forward_health_check_vip: c.winkernel.forward_health_check_vip,
        node_ip: address::ip(&c.bind_address).filter(|ip| !ip.is_unspecified()),
        healthz: address::listen(&c.healthz_bind_address).ok(),
        metrics,
        bind_address_hard_fail: c.bind_address_hard_fail,
        profiling: c.enable_profiling,
        show_hidden_metrics: !c.show_hidden_metrics_for_version.is_empty(),
        sync_period: c.iptables.sync_period.to_std(),
        min_sync_period: c.iptables.min_sync_period.to_std(),
        config_sync_period: c.config_sync_period.to_std(),
        node_port_addresses: NodePortAddresses::of(&c.node_port_addresses),
        detect_local_mode: DetectLocalMode::of(&c.detect_local_mode),
        cluster_cidrs: c.cluster_cidr.split(',').filter_map(|part| address::network(part.trim())).collect(),
        api: ApiConnection {
            kubeconfig: named(&c.client_connection.kubeconfig),
            master: start.master.as_deref().and_then(named),
            accept_content_types: named(&c.client_connection.accept_content_types),
            content_type: c.client_connection.content_type.clone(),
            qps: c.client_connection.qps,
            burst: c.client_connection.burst.try_into().unwrap_or_default(),
        },
        gates,
        logging: LogSettings {
            verbosity: c.logging.verbosity,
            vmodule: c.logging.vmodule.iter().map(|v| (v.file_pattern.clone(), v.verbosity)).collect(),
            json: c.logging.format == "json",
        },
        windows_service: start.windows_service,
        instead: Instead { write_config_to: start.write_config_to, cleanup: start.cleanup },
        configuration,
    }
}

/// What a file or the flags say without effect.
fn idle(configuration: &KubeProxyConfiguration, from_file: bool) -> Vec<String> {
    let mut told = Vec::new();
    let mut tell = |given: bool, field: &str, reason: &str| {
        if given {
            told.push(format!("{field}: has no effect: {reason}"));
        }
    };
    let c = configuration;
    tell(
        c.windows_run_as_service,
        "windowsRunAsService",
        "the flag --windows-service is what makes a service",
    );
    tell(!c.port_range.is_empty(), "portRange", "kube-proxy does not use it any more");
    let buffers = [&c.logging.options.text, &c.logging.options.json]
        .iter()
        .any(|options| options.split_stream || options.info_buffer_size.0 != "0");
    tell(buffers, "logging.options", "each line is written at once, to one stream");
    // Flags tell this themselves.
    if from_file {
        tell(
            c.logging.flush_frequency.0.nanos() != 5_000_000_000,
            "logging.flushFrequency",
            "each line is written at once",
        );
        let checked_only = "pods of this node are told by their addresses";
        tell(!c.detect_local_mode.is_empty(), "detectLocalMode", checked_only);
    }
    told
}

/// The text, unless it is blank.
fn named(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

impl SourceVips {
    /// Reads addresses with commas between them; blank means none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut vips = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let ip = address::ip(part).filter(|ip| !ip.is_unspecified() && !ip.is_multicast()).ok_or(
                "must be the IP address of an HNS endpoint of this node, such as 10.244.1.2, or one of each family with a comma between them",
            )?;
            let (place, family) = if ip.is_ipv4() { (&mut vips.v4, "IPv4") } else { (&mut vips.v6, "IPv6") };
            if place.replace(ip).is_some() {
                return Err(format!("only one {family} address can be the source VIP"));
            }
        }
        Ok(vips)
    }

    /// Those that there are.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.v4.into_iter().chain(self.v6)
    }
}

impl NodePortAddresses {
    fn of(texts: &[String]) -> Self {
        match texts {
            [] => Self::All,
            [only] if only == "primary" => Self::Primary,
            several => Self::Within(several.iter().filter_map(|text| address::network(text)).collect()),
        }
    }
}

impl DetectLocalMode {
    fn of(text: &str) -> Self {
        match text {
            "ClusterCIDR" => Self::ClusterCidr,
            "NodeCIDR" => Self::NodeCidr,
            "BridgeInterface" => Self::BridgeInterface,
            "InterfaceNamePrefix" => Self::InterfaceNamePrefix,
            _ => Self::Unset,
        }
    }
}
