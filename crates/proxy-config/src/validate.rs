//! The rules of a configuration whose defaults are filled in. All that is wrong is found, not the first thing only.
//!
//! kube-proxy's rules, and some that it lacks: names and addresses for Windows are looked at before HNS is asked. It
//! must not know of the node or of HNS.

use std::fmt::Display;

use ipnet::IpNet;

use crate::address;
use crate::duration::GoDuration;
use crate::gates::FeatureGates;
use crate::problem::{Place, Problem};
use crate::settings::SourceVips;
use crate::types::KubeProxyConfiguration;

/// The minor version of Kubernetes whose kube-proxy this one stands in for.
pub const KUBERNETES_MINOR: u32 = 36;

/// Where settings are said.
pub(crate) mod places {
    use crate::problem::Place;

    macro_rules! places {
        ($($name:ident: $path:literal, $key:literal, $flag:literal;)*) => {
            $(pub(crate) const $name: Place =
                Place { path: concat!("KubeProxyConfiguration.", $path), key: $key, flag: $flag };)*
        };
    }

    places! {
        BIND_ADDRESS: "BindAddress", "bindAddress", "bind-address";
        BURST: "ClientConnection.Burst", "clientConnection.burst", "kube-api-burst";
        CLUSTER_CIDR: "ClusterCIDR", "clusterCIDR", "cluster-cidr";
        CONFIG_SYNC_PERIOD: "ConfigSyncPeriod", "configSyncPeriod", "config-sync-period";
        CONNTRACK_MAX: "Conntrack.MaxPerCore", "conntrack.maxPerCore", "conntrack-max-per-core";
        CONNTRACK_MIN: "Conntrack.Min", "conntrack.min", "conntrack-min";
        CONNTRACK_ESTABLISHED: "Conntrack.TCPEstablishedTimeout", "conntrack.tcpEstablishedTimeout",
            "conntrack-tcp-timeout-established";
        CONNTRACK_CLOSE_WAIT: "Conntrack.TCPCloseWaitTimeout", "conntrack.tcpCloseWaitTimeout",
            "conntrack-tcp-timeout-close-wait";
        CONNTRACK_UDP: "Conntrack.UDPTimeout", "conntrack.udpTimeout", "conntrack-udp-timeout";
        CONNTRACK_UDP_STREAM: "Conntrack.UDPStreamTimeout", "conntrack.udpStreamTimeout",
            "conntrack-udp-timeout-stream";
        DETECT_LOCAL_MODE: "DetectLocalMode", "detectLocalMode", "detect-local-mode";
        BRIDGE_INTERFACE: "DetectLocal.BridgeInterface", "detectLocal.bridgeInterface", "pod-bridge-interface";
        INTERFACE_PREFIX: "DetectLocal.InterfaceNamePrefix", "detectLocal.interfaceNamePrefix",
            "pod-interface-name-prefix";
        FEATURE_GATES: "FeatureGates", "featureGates", "feature-gates";
        HEALTHZ: "HealthzBindAddress", "healthzBindAddress", "healthz-bind-address";
        HIDDEN_METRICS: "ShowHiddenMetricsForVersion", "showHiddenMetricsForVersion",
            "show-hidden-metrics-for-version";
        HOSTNAME: "HostnameOverride", "hostnameOverride", "hostname-override";
        LOG_FORMAT: "Logging.Format", "logging.format", "logging-format";
        LOG_VMODULE: "Logging.VModule", "logging.vmodule", "vmodule";
        MASQUERADE_BIT: "IPTables.MasqueradeBit", "iptables.masqueradeBit", "iptables-masquerade-bit";
        METRICS: "MetricsBindAddress", "metricsBindAddress", "metrics-bind-address";
        MIN_SYNC_PERIOD: "MinSyncPeriod", "iptables.minSyncPeriod", "iptables-min-sync-period";
        MODE: "Mode", "mode", "proxy-mode";
        NETWORK_NAME: "Winkernel.NetworkName", "winkernel.networkName", "network-name";
        NODE_PORT_ADDRESSES: "NodePortAddresses", "nodePortAddresses", "nodeport-addresses";
        OOM_SCORE_ADJ: "OOMScoreAdj", "oomScoreAdj", "oom-score-adj";
        ROOT_ENDPOINT: "Winkernel.RootHnsEndpointName", "winkernel.rootHnsEndpointName", "root-hnsendpoint-name";
        SOURCE_VIP: "Winkernel.SourceVip", "winkernel.sourceVip", "source-vip";
        SYNC_PERIOD: "SyncPeriod", "iptables.syncPeriod", "iptables-sync-period";
    }
}
use places::{
    BIND_ADDRESS, BRIDGE_INTERFACE, BURST, CLUSTER_CIDR, CONFIG_SYNC_PERIOD, CONNTRACK_CLOSE_WAIT,
    CONNTRACK_ESTABLISHED, CONNTRACK_MAX, CONNTRACK_MIN, CONNTRACK_UDP, CONNTRACK_UDP_STREAM,
    DETECT_LOCAL_MODE, HEALTHZ, HIDDEN_METRICS, INTERFACE_PREFIX, LOG_FORMAT, LOG_VMODULE, MASQUERADE_BIT,
    METRICS, MIN_SYNC_PERIOD, MODE, NETWORK_NAME, NODE_PORT_ADDRESSES, OOM_SCORE_ADJ, ROOT_ENDPOINT,
    SOURCE_VIP, SYNC_PERIOD,
};

impl KubeProxyConfiguration {
    /// Everything that is wrong.
    pub fn problems(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        self.check_periods(&mut found);
        self.check_addresses(&mut found);
        self.check_pods_networks(&mut found);
        self.check_linux(&mut found);
        self.check_windows(&mut found);
        self.check_logging(&mut found);
        at_least_zero(BURST, self.client_connection.burst, &mut found);
        if !matches!(&*self.mode, "" | "kernelspace") {
            found.push(MODE.problem(
                &self.mode,
                "must be kernelspace or blank (blank means the most available, which is kernelspace)",
            ));
        }
        let previous = format!("1.{}", KUBERNETES_MINOR - 1);
        let hidden = &self.show_hidden_metrics_for_version;
        if !hidden.is_empty() && *hidden != previous {
            let right = format!("must be empty or the previous minor version, {previous}");
            found.push(HIDDEN_METRICS.problem(hidden, right));
        }
        if let Err(problems) = FeatureGates::of(&self.feature_gates) {
            found.extend(problems);
        }
        found
    }

    fn check_periods(&self, found: &mut Vec<Problem>) {
        let (sync, least) = (self.iptables.sync_period, self.iptables.min_sync_period);
        for (place, period) in [(CONFIG_SYNC_PERIOD, self.config_sync_period), (SYNC_PERIOD, sync)] {
            if period <= GoDuration::ZERO {
                found.push(place.problem(period, "must be greater than 0, such as 30s"));
            }
        }
        at_least_zero(MIN_SYNC_PERIOD, least, found);
        if sync < least {
            let wrong = format!("must be greater than or equal to the MinSyncPeriod field, which is {least}");
            found.push(SYNC_PERIOD.problem(sync, wrong));
        }
    }

    fn check_addresses(&self, found: &mut Vec<Problem>) {
        if address::ip(&self.bind_address).is_none() {
            let wrong = "not a valid textual representation of an IP address; it must be one such as 0.0.0.0 or 10.0.0.5";
            found.push(BIND_ADDRESS.problem(&self.bind_address, wrong));
        }
        // Health that is switched off has no address; metrics cannot be switched off.
        let healthz = Some(&self.healthz_bind_address).filter(|text| !text.is_empty());
        for (place, text) in [(HEALTHZ, healthz), (METRICS, Some(&self.metrics_bind_address))] {
            if let Some(text) = text
                && let Err(wrong) = address::listen(text)
            {
                found.push(place.problem(text, wrong));
            }
        }
        let several = self.node_port_addresses.len() > 1;
        for (index, text) in self.node_port_addresses.iter().enumerate() {
            if text == "primary" {
                if several {
                    let wrong = "can't use both 'primary' and CIDRs; give the one or the others";
                    found.push(NODE_PORT_ADDRESSES.problem_in(index, text, wrong));
                }
            } else if address::network(text).is_none() {
                let wrong = "must be a valid CIDR block such as 10.0.0.0/8, or the word primary alone";
                found.push(NODE_PORT_ADDRESSES.problem_in(index, text, wrong));
            }
        }
    }

    fn check_pods_networks(&self, found: &mut Vec<Problem>) {
        match &*self.detect_local_mode {
            "" | "NodeCIDR" => {}
            "ClusterCIDR" => found.extend(cluster_cidr(&self.cluster_cidr)),
            "BridgeInterface" => not_empty(BRIDGE_INTERFACE, &self.detect_local.bridge_interface, found),
            "InterfaceNamePrefix" => {
                not_empty(INTERFACE_PREFIX, &self.detect_local.interface_name_prefix, found);
            }
            other => {
                let wrong = "unsupported value; it must be ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix or blank";
                found.push(DETECT_LOCAL_MODE.problem(other, wrong));
            }
        }
    }

    /// What has no effect here; it is checked because a file is often shared with Linux nodes.
    fn check_linux(&self, found: &mut Vec<Problem>) {
        if let Some(score) = self.oom_score_adj.filter(|score| !(-1000..=1000).contains(score)) {
            found.push(OOM_SCORE_ADJ.problem(score, "must be within the range [-1000, 1000]"));
        }
        if let Some(bit) = self.iptables.masquerade_bit.filter(|bit| !(0..=31).contains(bit)) {
            found.push(MASQUERADE_BIT.problem(bit, "must be within the range [0, 31]"));
        }
        for (place, number) in
            [(CONNTRACK_MAX, self.conntrack.max_per_core), (CONNTRACK_MIN, self.conntrack.min)]
        {
            at_least_zero(place, number.unwrap_or_default(), found);
        }
        for (place, time) in [
            (CONNTRACK_ESTABLISHED, self.conntrack.tcp_established_timeout.unwrap_or_default()),
            (CONNTRACK_CLOSE_WAIT, self.conntrack.tcp_close_wait_timeout.unwrap_or_default()),
            (CONNTRACK_UDP, self.conntrack.udp_timeout),
            (CONNTRACK_UDP_STREAM, self.conntrack.udp_stream_timeout),
        ] {
            at_least_zero(place, time, found);
        }
    }

    fn check_windows(&self, found: &mut Vec<Problem>) {
        let winkernel = &self.winkernel;
        if let Err(wrong) = network_name(&winkernel.network_name) {
            found.push(NETWORK_NAME.problem(&winkernel.network_name, wrong));
        }
        if let Err(wrong) = SourceVips::parse(&winkernel.source_vip) {
            found.push(SOURCE_VIP.problem(&winkernel.source_vip, wrong));
        }
        if let Err(wrong) = plain_name(&winkernel.root_hns_endpoint_name) {
            found.push(ROOT_ENDPOINT.problem(&winkernel.root_hns_endpoint_name, wrong));
        }
    }

    fn check_logging(&self, found: &mut Vec<Problem>) {
        let logging = &self.logging;
        if !matches!(&*logging.format, "" | "text" | "json") {
            found
                .push(LOG_FORMAT.problem(&logging.format, "unsupported log format; it must be text or json"));
        }
        for (index, entry) in logging.vmodule.iter().enumerate() {
            let pattern = &entry.file_pattern;
            if pattern.is_empty() || pattern.contains(['=', ',']) {
                let wrong = "must be a file's name with * and ?, neither empty nor with = or , in it";
                found.push(LOG_VMODULE.problem_in(index, pattern, wrong));
            }
        }
    }
}

fn at_least_zero<T: PartialOrd + Default + Display>(place: Place, value: T, found: &mut Vec<Problem>) {
    if value < T::default() {
        found.push(place.problem(value, "must be greater than or equal to 0"));
    }
}

fn not_empty(place: Place, text: &str, found: &mut Vec<Problem>) {
    if text.is_empty() {
        found.push(place.problem(text, "must not be empty in the detectLocalMode that uses it"));
    }
}

/// One network, or one of each family.
fn cluster_cidr(text: &str) -> Option<Problem> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let networks: Vec<Option<IpNet>> = parts.iter().map(|part| address::network(part)).collect();
    if let Some(index) = networks.iter().position(Option::is_none) {
        let wrong = "must be a valid CIDR block, such as 10.244.0.0/16";
        return Some(CLUSTER_CIDR.problem_in(index, parts[index], wrong));
    }
    match networks[..] {
        [_] => None,
        [Some(one), Some(other)] if one.addr().is_ipv4() != other.addr().is_ipv4() => None,
        _ => Some(
            CLUSTER_CIDR
                .problem(text, "must be either a single CIDR or a dual-stack pair, one of each family"),
        ),
    }
}

/// The longest name that is taken for one.
const LONGEST_NAME: usize = 256;

fn plain_name(text: &str) -> Result<(), String> {
    if text.chars().any(char::is_control) {
        return Err("must be a name without control characters, such as cbr0".to_owned());
    }
    if text.len() > LONGEST_NAME {
        return Err(format!("must be a name of at most {LONGEST_NAME} bytes, not of {}", text.len()));
    }
    Ok(())
}

/// A name, or a regular expression where the text holds a sign that only one would.
pub(crate) fn network_name(text: &str) -> Result<(), String> {
    plain_name(text)?;
    let text = text.trim();
    if !text.contains(['*', '+', '?', '(', ')', '[', ']', '{', '}', '|', '^', '$', '\\']) {
        return Ok(());
    }
    match regex::Regex::new(text) {
        Ok(_) => Ok(()),
        Err(error) => {
            // The last line of the parser's report says what is wrong; the ones before it draw where.
            let report = error.to_string();
            let last = report.lines().last().unwrap_or_default().trim();
            let why = last.strip_prefix("error: ").unwrap_or(last);
            Err(format!(
                "is neither the name of a network nor a regular expression: {why}; give a name such as Calico, or a pattern such as Calico.*"
            ))
        }
    }
}
