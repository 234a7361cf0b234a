//! From kube-proxy's settings to the engine's.

use proxy::{Config, NodePortAddresses};
use proxy_config::ProxySettings;
use proxy_config::settings::NodePortAddresses as Said;
use services::IpFamily;

/// The engine's settings for a primary family. The network's name, which may be a pattern, is put in when the network is found.
pub(in crate::commands) fn config(
    settings: &ProxySettings,
    endpoints: &[String],
    family: IpFamily,
) -> Config {
    Config {
        source_vip: settings.source_vips.iter().find(|&address| IpFamily::of(address) == family),
        source_vip_endpoints: endpoints.to_vec(),
        enable_dsr: settings.enable_dsr,
        root_endpoint_name: settings.root_endpoint_name.clone(),
        forward_health_check_vip: settings.forward_health_check_vip,
        healthz_port: settings.healthz.map_or(0, |address| address.port()),
        sync_period: settings.sync_period,
        node_port_addresses: match &settings.node_port_addresses {
            Said::All => NodePortAddresses::All,
            Said::Primary => NodePortAddresses::Primary,
            Said::Within(networks) => NodePortAddresses::Within(networks.clone()),
        },
        ..Config::default()
    }
}
