//! What the plan depends on besides the Services: put together from settings, node, network and HNS version.

use std::net::IpAddr;

use hcn::network::NetworkMode;
use hcn::{Guid, Network};
use services::IpFamily;

use super::{NetworkState, Proxy};
use crate::config::NodePortAddresses;
use crate::plan::{AddressBook, NodeContext, RemoteSubnet};
use crate::status::{ConditionReason, ProxyCondition};

impl Proxy {
    /// Puts together what the plan depends on, and replans when it has changed.
    pub(super) fn rebuild_context(&mut self) {
        let Some(network) = self.network.clone() else { return };
        let overlay = network.overlay;
        let mut conditions = Vec::new();
        if overlay && !self.features.supports(hcn::Feature::RemoteSubnet) {
            conditions.push(ProxyCondition::new(
                ConditionReason::Unsupported,
                "overlay networks need HNS 9.2 or newer".to_owned(),
            ));
        }
        if overlay && self.node.host_mac().is_none() {
            conditions.push(ProxyCondition::new(
                ConditionReason::NodeFactsMissing,
                match self.node.addresses.first() {
                    Some(address) => format!(
                        "no interface of the host has the node's address {address}, so its MAC is not known"
                    ),
                    None => "the Node has no address".to_owned(),
                },
            ));
        }
        if !overlay && !self.config.source_vips.is_empty() {
            conditions.push(ProxyCondition::new(
                ConditionReason::SourceVipUnused,
                "--source-vip has no use on this network: only an overlay needs a source VIP".to_owned(),
            ));
        }
        if self.config.enable_dsr && !self.features.supports(hcn::Feature::Dsr) {
            conditions.push(ProxyCondition::new(
                ConditionReason::DsrUnsupported,
                "--enable-dsr needs HNS 9.3 to 9.x or 10.2 and newer; load balancers are made without it"
                    .to_owned(),
            ));
        }
        let gateway = self.gateway.and_then(|id| self.observed.endpoint(id));
        let health_check_families: Vec<IpFamily> = match (self.config.forward_health_check_vip, gateway) {
            (true, Some(gateway)) => gateway.addresses.iter().map(|&address| IpFamily::of(address)).collect(),
            (true, None) => {
                conditions.push(ProxyCondition::new(
                    ConditionReason::GatewayEndpointMissing,
                    format!(
                        "--forward-healthcheck-vip needs the host's gateway endpoint, but the network has none named {:?} (--root-hnsendpoint-name)",
                        self.config.root_endpoint_name
                    ),
                ));
                Vec::new()
            }
            (false, _) => Vec::new(),
        };
        if self.config.forward_health_check_vip && self.config.healthz_port == 0 {
            conditions.push(ProxyCondition::new(
                ConditionReason::HealthzPortMissing,
                "--forward-healthcheck-vip needs --healthz-bind-address for Services without a healthCheckNodePort".to_owned(),
            ));
        }
        for reason in [
            ConditionReason::Unsupported,
            ConditionReason::NodeFactsMissing,
            ConditionReason::SourceVipUnused,
            ConditionReason::DsrUnsupported,
            ConditionReason::GatewayEndpointMissing,
            ConditionReason::HealthzPortMissing,
        ] {
            self.clear_condition(reason);
        }
        self.conditions.extend(conditions);
        let context = NodeContext {
            overlay,
            features: self.features,
            enable_dsr: self.config.enable_dsr,
            health_check_families,
            healthz_port: self.config.healthz_port,
            node_port_addresses: self.node_port_addresses(),
            node_addresses: [IpFamily::V4, IpFamily::V6]
                .into_iter()
                .filter_map(|family| Some((family, self.node.address(family)?)))
                .collect(),
            book: AddressBook {
                own: self.node.addresses.clone(),
                others: self.node.other_nodes.clone(),
                subnets: network.subnets,
                remote_subnets: network.remote_subnets,
            },
        };
        if self.context.as_ref() != Some(&context) {
            self.replan(&context);
            self.context = Some(context);
        }
    }

    fn node_port_addresses(&self) -> Option<Vec<IpAddr>> {
        match &self.config.node_port_addresses {
            NodePortAddresses::All => None,
            NodePortAddresses::Primary => Some(
                [IpFamily::V4, IpFamily::V6]
                    .into_iter()
                    .filter_map(|family| self.node.address(family))
                    .collect(),
            ),
            NodePortAddresses::Within(nets) => {
                let mut addresses: Vec<IpAddr> = self
                    .node
                    .addresses
                    .iter()
                    .chain(self.node.interfaces.iter().flat_map(|interface| &interface.addresses))
                    .copied()
                    .filter(|address| nets.iter().any(|net| net.contains(address)))
                    .collect();
                addresses.sort_unstable();
                addresses.dedup();
                Some(addresses)
            }
        }
    }
}

/// The settings of a RemoteSubnetRoute policy.
#[derive(serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RemoteSubnetRoute {
    destination_prefix: String,
    isolation_id: u32,
    provider_address: String,
    #[serde(default)]
    distributed_router_mac_address: String,
}

pub(super) fn network_state(id: Guid, document: &Network) -> NetworkState {
    let remote_subnets = document
        .policies
        .iter()
        .filter(|policy| policy.kind.is("RemoteSubnetRoute"))
        .filter_map(|policy| {
            let read = policy.read::<RemoteSubnetRoute>().ok().and_then(|route| {
                Some(RemoteSubnet {
                    prefix: route.destination_prefix.parse().ok()?,
                    provider_address: route.provider_address.parse().ok()?,
                    isolation_id: route.isolation_id,
                    dr_mac: route.distributed_router_mac_address,
                })
            });
            if read.is_none() {
                tracing::warn!(policy = ?policy.settings, "A RemoteSubnetRoute policy cannot be read; it is passed over");
            }
            read
        })
        .collect();
    NetworkState {
        id,
        overlay: document.network_mode() == NetworkMode::Overlay,
        subnets: document.subnets().filter_map(|subnet| subnet.prefix.parse().ok()).collect(),
        remote_subnets,
    }
}

#[cfg(test)]
mod tests {
    use hcn::Policy;

    use super::*;

    /// kube-proxy panics on the second one.
    #[test]
    fn a_remote_subnet_that_cannot_be_read_is_passed_over() {
        let route = |prefix: &str, provider: &str| {
            Policy::new(
                "RemoteSubnetRoute",
                &serde_json::json!({
                    "DestinationPrefix": prefix, "IsolationId": 4096, "ProviderAddress": provider,
                    "DistributedRouterMacAddress": "00-11-22-33-44-55",
                }),
            )
        };
        let document = Network {
            mode: Some(NetworkMode::Overlay),
            policies: vec![
                route("10.50.2.0/24", "192.0.2.12"),
                route("10.50.3.0-24", "192.0.2.13"),
                route("10.50.4.0/24", ""),
                Policy::new("RemoteSubnetRoute", &serde_json::json!({})),
                route("10.50.5.0/24", "192.0.2.15"),
            ],
            ..Network::default()
        };
        let state = network_state(Guid::NIL, &document);
        assert!(state.overlay);
        let providers: Vec<String> =
            state.remote_subnets.iter().map(|subnet| subnet.provider_address.to_string()).collect();
        assert_eq!(providers, ["192.0.2.12", "192.0.2.15"]);
    }
}
