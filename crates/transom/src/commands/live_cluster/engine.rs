//! From kube-proxy's settings to the engine's.

use proxy::{Config, NodePortAddresses};
use proxy_config::ProxySettings;
use proxy_config::settings::NodePortAddresses as Said;

use crate::cli::kube_proxy::EngineArgs;

/// The engine's settings. The network's name, which may be a pattern, is put in when the network is found.
pub(in crate::commands) fn config(settings: &ProxySettings, engine: &EngineArgs) -> Config {
    Config {
        source_vips: settings.source_vips.iter().collect(),
        source_vip_endpoints: engine.source_vip_endpoint.clone(),
        parallel_calls: engine.hns_parallel_calls.into(),
        verify_writes: engine.hns_verify_writes,
        reapply_after_restart: engine.hns_reapply_after_restart,
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

#[cfg(test)]
mod tests {
    use clap::Parser;
    use proxy_config::{Flags, Sources};

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        engine: EngineArgs,
    }

    fn of(flags: &str) -> Config {
        let line = Line::parse_from(["transom"].into_iter().chain(flags.split_whitespace()));
        let sources =
            Sources { file: None, flags: &Flags::default(), kube_network: None, host_name: "win-1" };
        let settings = sources.resolve().expect("the defaults are right").settings;
        config(&settings, &line.engine)
    }

    #[test]
    fn what_kube_proxy_has_no_flags_for_reaches_the_engine() {
        let (usual, engine) = (of(""), Config::default());
        let told =
            |config: &Config| (config.parallel_calls, config.verify_writes, config.reapply_after_restart);
        assert_eq!(usual.source_vip_endpoints, engine.source_vip_endpoints);
        assert_eq!(told(&usual), told(&engine));
        let all = of(
            "--hns-parallel-calls 4 --hns-verify-writes --hns-reapply-after-restart --source-vip-endpoint a,b",
        );
        assert_eq!(all.source_vip_endpoints, ["a", "b"]);
        assert_eq!(told(&all), (4, true, true));
    }
}
