//! Settings by name, as the tables say them.

use proxy_config::ProxySettings;
use proxy_config::settings::{DetectLocalMode, NodePortAddresses};
use serde_json::{Value as Json, json};

/// A setting; `file.a.b` is a field of the configuration as it would be written, `gates.NAME` a gate.
pub(crate) fn value(settings: &ProxySettings, name: &str) -> Option<Json> {
    if let Some(path) = name.strip_prefix("file.") {
        let whole = settings.configuration.to_json();
        return Some(path.split('.').fold(&whole, |value, key| &value[key]).clone());
    }
    if let Some(gate) = name.strip_prefix("gates.") {
        return Some(json!(settings.gates.is_enabled(gate)));
    }
    let text = |value: &dyn ToString| Json::String(value.to_string());
    Some(match name {
        "node_name" => json!(settings.node_name),
        "hostname_override" => json!(settings.hostname_override),
        "network_name" => json!(settings.network_name),
        "source_vips" => settings.source_vips.iter().map(|ip| text(&ip)).collect(),
        "enable_dsr" => json!(settings.enable_dsr),
        "root_endpoint_name" => json!(settings.root_endpoint_name),
        "forward_health_check_vip" => json!(settings.forward_health_check_vip),
        "node_ip" => json!(settings.node_ip),
        "healthz" => json!(settings.healthz),
        "metrics" => json!(settings.metrics),
        "bind_address_hard_fail" => json!(settings.bind_address_hard_fail),
        "profiling" => json!(settings.profiling),
        "show_hidden_metrics" => json!(settings.show_hidden_metrics),
        "sync_period" => json!(settings.sync_period.as_secs_f64()),
        "min_sync_period" => json!(settings.min_sync_period.as_secs_f64()),
        "config_sync_period" => json!(settings.config_sync_period.as_secs_f64()),
        "node_port_addresses" => match &settings.node_port_addresses {
            NodePortAddresses::All => json!("all"),
            NodePortAddresses::Primary => json!("primary"),
            NodePortAddresses::Within(networks) => networks.iter().map(|network| text(network)).collect(),
        },
        "detect_local_mode" => json!(match settings.detect_local_mode {
            DetectLocalMode::Unset => "",
            DetectLocalMode::ClusterCidr => "ClusterCIDR",
            DetectLocalMode::NodeCidr => "NodeCIDR",
            DetectLocalMode::BridgeInterface => "BridgeInterface",
            DetectLocalMode::InterfaceNamePrefix => "InterfaceNamePrefix",
        }),
        "cluster_cidrs" => settings.cluster_cidrs.iter().map(|network| text(network)).collect(),
        "kubeconfig" => json!(settings.api.kubeconfig),
        "master" => json!(settings.api.master),
        "in_cluster" => json!(settings.api.is_in_cluster()),
        "content_type" => json!(settings.api.content_type),
        "qps" => json!(settings.api.qps),
        "burst" => json!(settings.api.burst),
        "verbosity" => json!(settings.logging.verbosity),
        "vmodule" => {
            settings.logging.vmodule.iter().map(|(pattern, n)| text(&format!("{pattern}={n}"))).collect()
        }
        "json_logs" => json!(settings.logging.json),
        "windows_service" => json!(settings.windows_service),
        "write_config_to" => json!(settings.instead.write_config_to),
        "cleanup" => json!(format!("{:?}", settings.instead.cleanup)),
        _ => return None,
    })
}
