//! What the service knows about an object and v2 documents do not carry.

use crate::guid::Guid;
use crate::json::RawJson;
use crate::network::NetworkMode;

use super::documents::{Endpoint, EndpointState, Namespace, Network, PolicyList};

/// The service-owned members of a v1 document. Which ones a kind has is said at each; a member that is `None` is
/// left out of the document, unless the v2 document carries one of that name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// All kinds: `ActivityId`.
    pub activity_id: Option<Guid>,
    /// All kinds: `Version`, packed (see [`crate::Version::packed`]).
    pub version: Option<u64>,
    /// All kinds but endpoints: `State`, 1 = created.
    pub state: Option<u16>,
    /// Namespaces and policy lists: `Health`. Networks and endpoints carry theirs in v2 (`Health.Data`), which
    /// this replaces when given.
    pub health: Option<RawJson>,
    /// Namespaces and policy lists: `Resources`, HNS's internal tree. Networks and endpoints carry theirs in v2
    /// (`Health.Extra.Resources`), which this replaces when given.
    pub resources: Option<RawJson>,

    /// Networks: `ManagementIP`. Replaces what the v2 policy `ProviderAddress` says.
    pub management_ip: Option<String>,
    /// Networks: `DrMacAddress`. Replaces what the v2 policy of that name says.
    pub dr_mac_address: Option<String>,
    /// Networks: `CurrentEndpointCount`.
    pub current_endpoint_count: Option<u32>,
    /// Networks: `MaxConcurrentEndpoints`.
    pub max_concurrent_endpoints: Option<u32>,
    /// Networks: `TotalEndpoints`.
    pub total_endpoints: Option<u32>,

    /// Endpoints: `State`.
    pub endpoint_state: Option<EndpointState>,
    /// Endpoints: `VirtualNetworkName`.
    pub virtual_network_name: Option<String>,
    /// Endpoints: `Type`, the mode of the network.
    pub network_mode: Option<NetworkMode>,
    /// Endpoints: `AdditionalParams`, `{SwitchId, SwitchPortId}`.
    pub additional_params: Option<RawJson>,
    /// Endpoints: `StartTime`, in 100 ns since 1601.
    pub start_time: Option<u64>,
    /// Endpoints: `CreateProcessingStartTime`, in 100 ns since 1601.
    pub create_processing_start_time: Option<u64>,
    /// Endpoints: the gateway of the network, for an endpoint without a default route of its own (IPv4).
    pub gateway_address: Option<String>,
    /// Endpoints: as `gateway_address`, IPv6.
    pub gateway_address_v6: Option<String>,

    /// Namespaces: `Containers`.
    pub containers: Option<RawJson>,
}

impl Facts {
    /// The service-owned members of a network. Its management address and DR MAC are in the v2 document.
    pub fn of_network(network: &Network) -> Self {
        Self {
            activity_id: network.activity_id,
            version: network.version,
            state: network.state,
            current_endpoint_count: network.current_endpoint_count,
            max_concurrent_endpoints: network.max_concurrent_endpoints,
            total_endpoints: network.total_endpoints,
            ..Self::default()
        }
    }

    /// The service-owned members of an endpoint.
    pub fn of_endpoint(endpoint: &Endpoint) -> Self {
        Self {
            activity_id: endpoint.activity_id,
            version: endpoint.version,
            endpoint_state: endpoint.state.clone(),
            virtual_network_name: endpoint.virtual_network_name.clone(),
            network_mode: endpoint.network_mode.clone(),
            additional_params: endpoint.additional_params.clone(),
            start_time: endpoint.start_time,
            create_processing_start_time: endpoint.create_processing_start_time,
            ..Self::default()
        }
    }

    /// The service-owned members of a namespace.
    pub fn of_namespace(namespace: &Namespace) -> Self {
        Self {
            activity_id: namespace.activity_id,
            version: namespace.version,
            state: namespace.state,
            health: namespace.health.clone(),
            resources: namespace.resources.clone(),
            containers: namespace.containers.clone(),
            ..Self::default()
        }
    }

    /// The service-owned members of a policy list.
    pub fn of_policy_list(list: &PolicyList) -> Self {
        Self {
            activity_id: list.activity_id,
            version: list.version,
            state: list.state,
            health: list.health.clone(),
            resources: list.resources.clone(),
            ..Self::default()
        }
    }
}
