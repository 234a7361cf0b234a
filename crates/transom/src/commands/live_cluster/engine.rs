//! From kube-proxy's settings to the engine's.

use proxy::{Config, NodePortAddresses};
use proxy_config::ProxySettings;
use proxy_config::settings::NodePortAddresses as Asked;

/// The engine's settings. The network's name, which may be a pattern, is put in when the network is found.
pub(super) fn config(settings: &ProxySettings) -> Config {
    Config {
        // Overlay networks have one family.
        source_vip: settings.source_vips.v4.or(settings.source_vips.v6),
        enable_dsr: settings.enable_dsr,
        root_endpoint_name: settings.root_endpoint_name.clone(),
        forward_health_check_vip: settings.forward_health_check_vip,
        healthz_port: settings.healthz.map_or(0, |address| address.port()),
        sync_period: settings.sync_period,
        node_port_addresses: match &settings.node_port_addresses {
            Asked::All => NodePortAddresses::All,
            Asked::Primary => NodePortAddresses::Primary,
            Asked::Within(nets) => NodePortAddresses::Within(nets.clone()),
        },
        ..Config::default()
    }
}

/// Whether external addresses of Services are served.
pub(super) fn allows_external_ips(settings: &ProxySettings) -> bool {
    settings.gates.allow_service_external_ips()
}
