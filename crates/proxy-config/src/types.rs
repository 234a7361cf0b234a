//! `KubeProxyConfiguration` of `kubeproxy.config.k8s.io/v1alpha1`: every field with its type, as in a file.
//!
//! A field that may be absent with another meaning than zero is an `Option`. What a field means on Windows is said
//! with it; what is checked is in [`crate::validate`], what is filled in is in [`crate::defaults`].

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::duration::GoDuration;
use crate::section::{Field, Findings, section};
use crate::value::Value;

/// The `apiVersion` of the only version there is.
pub const API_VERSION: &str = "kubeproxy.config.k8s.io/v1alpha1";
/// The `kind`.
pub const KIND: &str = "KubeProxyConfiguration";

section! {
    /// kube-proxy's whole configuration.
    pub struct KubeProxyConfiguration {
        /// Feature gates by name.
        omit "featureGates" feature_gates: BTreeMap<String, bool>,
        /// How the API server is reached.
        "clientConnection" client_connection: ClientConnection,
        /// What is logged and how.
        "logging" logging: Logging,
        /// The node's name, where it is not the host's.
        "hostnameOverride" hostname_override: String,
        /// The node's primary address; nothing is bound to it.
        "bindAddress" bind_address: String,
        /// Where health is served.
        "healthzBindAddress" healthz_bind_address: String,
        /// Where metrics are served.
        "metricsBindAddress" metrics_bind_address: String,
        /// Whether an address that cannot be listened on ends the process.
        "bindAddressHardFail" bind_address_hard_fail: bool,
        /// Whether profiles are served beside the metrics.
        "enableProfiling" enable_profiling: bool,
        /// The release whose hidden metrics are shown.
        "showHiddenMetricsForVersion" show_hidden_metrics_for_version: String,
        /// `kernelspace` or blank.
        "mode" mode: String,
        /// On Windows its two periods are the proxy's own.
        "iptables" iptables: Iptables,
        /// Linux only.
        "ipvs" ipvs: Ipvs,
        /// Linux only.
        "nftables" nftables: Nftables,
        /// What concerns Windows only.
        "winkernel" winkernel: Winkernel,
        /// How this node's pods are told from others; on Windows for checks only.
        "detectLocalMode" detect_local_mode: String,
        /// What the modes by interface need.
        "detectLocal" detect_local: DetectLocal,
        /// The pods' networks.
        "clusterCIDR" cluster_cidr: String,
        /// The addresses that node ports are served on.
        "nodePortAddresses" node_port_addresses: Vec<String>,
        /// Linux only.
        "oomScoreAdj" oom_score_adj: Option<i32>,
        /// Linux only.
        "conntrack" conntrack: Conntrack,
        /// How often sources list everything anew.
        "configSyncPeriod" config_sync_period: GoDuration,
        /// Not used any more.
        "portRange" port_range: String,
        /// Has no effect: the flag is what makes the process a service.
        omit "windowsRunAsService" windows_run_as_service: bool,
    }
}

section! {
    /// `clientConnection`.
    pub struct ClientConnection {
        /// The path of a kubeconfig; blank means the account of the pod.
        "kubeconfig" kubeconfig: String,
        /// The content types that are accepted.
        "acceptContentTypes" accept_content_types: String,
        /// The content type of requests.
        "contentType" content_type: String,
        /// Requests a second.
        "qps" qps: f32,
        /// Requests at once.
        "burst" burst: i32,
    }
}

section! {
    /// `logging`.
    pub struct Logging {
        /// `text` or `json`.
        omit "format" format: String,
        /// How long lines may wait.
        "flushFrequency" flush_frequency: FlushFrequency,
        /// klog's `-v`.
        "verbosity" verbosity: u32,
        /// klog's `--vmodule`.
        omit "vmodule" vmodule: Vec<Vmodule>,
        /// What concerns one format only.
        "options" options: LoggingOptions,
    }
}

section! {
    /// An element of `logging.vmodule`.
    pub struct Vmodule {
        /// A file's name with `*` and `?`.
        "filePattern" file_pattern: String,
        /// Its verbosity.
        "verbosity" verbosity: u32,
    }
}

section! {
    /// `logging.options`.
    pub struct LoggingOptions {
        /// Of the text format.
        "text" text: StreamOptions,
        /// Of the JSON format.
        "json" json: StreamOptions,
    }
}

section! {
    /// `logging.options.text` and `logging.options.json`.
    pub struct StreamOptions {
        /// Errors to one stream, everything else to another.
        omit "splitStream" split_stream: bool,
        /// How much may wait.
        "infoBufferSize" info_buffer_size: Quantity,
    }
}

section! {
    /// `iptables`.
    pub struct Iptables {
        /// Linux only.
        "masqueradeBit" masquerade_bit: Option<i32>,
        /// Linux only.
        "masqueradeAll" masquerade_all: bool,
        /// Linux only.
        "localhostNodePorts" localhost_node_ports: Option<bool>,
        /// How often HNS is compared with what is wanted.
        "syncPeriod" sync_period: GoDuration,
        /// The least time between two rounds of changes.
        "minSyncPeriod" min_sync_period: GoDuration,
    }
}

section! {
    /// `ipvs`.
    pub struct Ipvs {
        /// Linux only.
        "syncPeriod" sync_period: GoDuration,
        /// Linux only.
        "minSyncPeriod" min_sync_period: GoDuration,
        /// Linux only.
        "scheduler" scheduler: String,
        /// Linux only.
        "excludeCIDRs" exclude_cidrs: Vec<String>,
        /// Linux only.
        "strictARP" strict_arp: bool,
        /// Linux only.
        "tcpTimeout" tcp_timeout: GoDuration,
        /// Linux only.
        "tcpFinTimeout" tcp_fin_timeout: GoDuration,
        /// Linux only.
        "udpTimeout" udp_timeout: GoDuration,
    }
}

section! {
    /// `nftables`.
    pub struct Nftables {
        /// Linux only.
        "masqueradeBit" masquerade_bit: Option<i32>,
        /// Linux only.
        "masqueradeAll" masquerade_all: bool,
        /// Linux only.
        "syncPeriod" sync_period: GoDuration,
        /// Linux only.
        "minSyncPeriod" min_sync_period: GoDuration,
    }
}

section! {
    /// `winkernel`.
    pub struct Winkernel {
        /// The HNS network; blank: the variable `KUBE_NETWORK` says it.
        "networkName" network_name: String,
        /// Where traffic from load balancers to remote pods comes from, on overlays.
        "sourceVip" source_vip: String,
        /// Direct server return for cluster IPs.
        "enableDSR" enable_dsr: bool,
        /// The host's gateway endpoint.
        "rootHnsEndpointName" root_hns_endpoint_name: String,
        /// A health check for each ingress address.
        "forwardHealthCheckVip" forward_health_check_vip: bool,
    }
}

section! {
    /// `detectLocal`.
    pub struct DetectLocal {
        /// For the mode `BridgeInterface`.
        "bridgeInterface" bridge_interface: String,
        /// For the mode `InterfaceNamePrefix`.
        "interfaceNamePrefix" interface_name_prefix: String,
    }
}

section! {
    /// `conntrack`.
    pub struct Conntrack {
        /// Linux only.
        "maxPerCore" max_per_core: Option<i32>,
        /// Linux only.
        "min" min: Option<i32>,
        /// Linux only.
        "tcpEstablishedTimeout" tcp_established_timeout: Option<GoDuration>,
        /// Linux only.
        "tcpCloseWaitTimeout" tcp_close_wait_timeout: Option<GoDuration>,
        /// Linux only.
        "tcpBeLiberal" tcp_be_liberal: bool,
        /// Linux only.
        "udpTimeout" udp_timeout: GoDuration,
        /// Linux only.
        "udpStreamTimeout" udp_stream_timeout: GoDuration,
    }
}

/// `logging.flushFrequency`: a duration, or a whole number of nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlushFrequency(pub GoDuration);

impl Field for FlushFrequency {
    fn read(&mut self, value: &Value, path: &str, findings: &mut Findings) {
        match value {
            Value::Int(nanos) if i64::try_from(*nanos).is_ok() => {
                self.0 = GoDuration::from_nanos(i64::try_from(*nanos).unwrap_or_default());
            }
            other => self.0.read(other, path, findings),
        }
    }

    fn write(&self) -> Json {
        self.0.write()
    }

    fn is_empty(&self) -> bool {
        self.0.is_zero()
    }
}

/// An amount as Kubernetes writes it, such as `0` or `64Ki`: kept as it was written, since nothing here buffers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantity(pub String);

impl Default for Quantity {
    fn default() -> Self {
        Self("0".to_owned())
    }
}

impl Field for Quantity {
    fn read(&mut self, value: &Value, path: &str, findings: &mut Findings) {
        match value {
            Value::Int(number) => self.0 = number.to_string(),
            Value::Float(number) => self.0 = number.to_string(),
            other => self.0.read(other, path, findings),
        }
    }

    fn write(&self) -> Json {
        Json::String(self.0.clone())
    }

    fn is_empty(&self) -> bool {
        self.0 == "0"
    }
}
