//! What becomes of a running proxy when its configuration changes: which settings differ, and what each needs.
//!
//! kube-proxy ends when its file changes, so that it is started anew. Most settings can change under a running proxy;
//! the others say what must be made anew, so that nothing else is. It must not know how anything is made anew.

use std::fmt::Debug;

use crate::settings::ProxySettings;

/// What a changed setting needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Needs {
    /// Nothing: the next pass uses it.
    NextPass,
    /// Nothing: what is served or logged uses it at once.
    AtOnce,
    /// The health listener on its new address.
    HealthListener,
    /// The metrics listener on its new address.
    MetricsListener,
    /// A new connection to the API server; what is known of the cluster is listed anew.
    Connection,
    /// The proxy anew on another HNS network; what it has made on the old one is its to remove.
    Network,
    /// The proxy anew for another Node.
    Node,
    /// The process anew: it cannot change while it runs.
    Process,
}

/// A setting that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The setting as a file names it.
    pub key: &'static str,
    /// What it was.
    pub from: String,
    /// What it is.
    pub to: String,
    /// What that needs.
    pub needs: Needs,
}

/// Compares settings; nothing where all are the same.
pub fn changes(old: &ProxySettings, new: &ProxySettings) -> Vec<Change> {
    let mut found = Vec::new();
    let mut compare = |key, needs, from: &dyn Text, to: &dyn Text| {
        let (from, to) = (from.text(), to.text());
        if from != to {
            found.push(Change { key, from, to, needs });
        }
    };
    macro_rules! compare {
        ($($key:literal $needs:ident $($field:ident).+;)*) => {
            $(compare($key, Needs::$needs, &old.$($field).+, &new.$($field).+);)*
        };
    }
    compare! {
        "hostnameOverride" Node node_name;
        "winkernel.networkName" Network network_name;
        "winkernel.sourceVip" NextPass source_vips;
        "winkernel.enableDSR" NextPass enable_dsr;
        "winkernel.rootHnsEndpointName" NextPass root_endpoint_name;
        "winkernel.forwardHealthCheckVip" NextPass forward_health_check_vip;
        "bindAddress" NextPass node_ip;
        "nodePortAddresses" NextPass node_port_addresses;
        "iptables.syncPeriod" NextPass sync_period;
        "iptables.minSyncPeriod" NextPass min_sync_period;
        "detectLocalMode" NextPass detect_local_mode;
        "clusterCIDR" NextPass cluster_cidrs;
        "featureGates" NextPass gates;
        "healthzBindAddress" HealthListener healthz;
        "metricsBindAddress" MetricsListener metrics;
        "bindAddressHardFail" AtOnce bind_address_hard_fail;
        "enableProfiling" AtOnce profiling;
        "showHiddenMetricsForVersion" AtOnce show_hidden_metrics;
        "clientConnection.kubeconfig" Connection api.kubeconfig;
        "clientConnection.acceptContentTypes" Connection api.accept_content_types;
        "clientConnection.contentType" Connection api.content_type;
        "clientConnection.qps" Connection api.qps;
        "clientConnection.burst" Connection api.burst;
        "configSyncPeriod" Connection config_sync_period;
        "logging.verbosity" AtOnce logging.verbosity;
        "logging.vmodule" AtOnce logging.vmodule;
        "logging.format" Process logging.json;
    }
    found
}

/// A value as it is told: two texts differ exactly when the values do.
trait Text {
    fn text(&self) -> String;
}

impl<T: Debug> Text for T {
    fn text(&self) -> String {
        format!("{self:?}")
    }
}
