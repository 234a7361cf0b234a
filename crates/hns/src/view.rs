//! What HNS prints of an object: the v2 or v1 document with the members that the service owns.
//!
//! A [`Snapshot`] is taken under the lock (it only clones pointers) and printed outside.

use std::sync::Arc;
use std::time::Duration;

use hcn::json::{Extra, RawJson};
use hcn::network::{ExtraParams, Health, NetworkMode};
use hcn::query::QueryFlags;
use hcn::v1::{self, EndpointState, Facts};
use hcn::{Endpoint, Network, Policy, Query};
use serde_json::{Value, json};

use crate::network::has_management_address;
use crate::record::{EndpointRecord, NetworkRecord, Object};
use crate::state::State;
use crate::tx::Env;

/// An object and what printing it needs of others.
pub(crate) struct Snapshot {
    object: Object,
    network: Option<Arc<NetworkRecord>>,
    endpoints: usize,
    now: Duration,
}

impl Snapshot {
    pub(crate) fn of(state: &State, object: Object, now: Duration) -> Self {
        let (network, endpoints) = match &object {
            Object::Endpoint(record) => (state.networks.get(record.network).cloned(), 0),
            Object::Network(_) => (None, state.endpoint_count(object.id())),
            _ => (None, 0),
        };
        Self { object, network, endpoints, now }
    }

    pub(crate) fn print(&self, env: &Env, query: &Query) -> String {
        let detailed = query.flags.contains(QueryFlags::DETAILED);
        if query.wants_v2() { self.print_v2(env, detailed) } else { self.print_v1(env, detailed) }
    }

    fn print_v2(&self, env: &Env, detailed: bool) -> String {
        let base = |extra: &mut Extra, state: u16| {
            if env.switches.v2_base_fields {
                extra.set("Version", RawJson::of(&env.version.packed()));
                extra.set("State", RawJson::of(&state));
            }
        };
        match &self.object {
            Object::Network(record) => {
                let mut doc = self.network_doc(record, detailed);
                base(&mut doc.extra, record.state);
                doc.to_json()
            }
            Object::Endpoint(record) => {
                let mut doc = self.endpoint_doc(record, detailed);
                base(&mut doc.extra, record.state);
                doc.to_json()
            }
            Object::Namespace(record) => {
                let mut doc = record.doc.clone();
                base(&mut doc.extra, record.state);
                doc.to_json()
            }
            Object::Balancer(record) => {
                let mut doc = record.doc.clone();
                base(&mut doc.extra, record.state);
                if detailed {
                    doc.extra.set("Resources", self.resources());
                }
                doc.to_json()
            }
            Object::Route(record) => {
                let mut doc = record.doc.clone();
                base(&mut doc.extra, record.state);
                doc.to_json()
            }
        }
    }

    /// The v1 document.
    pub(crate) fn print_v1(&self, env: &Env, detailed: bool) -> String {
        let facts = Facts {
            version: Some(env.version.packed()),
            resources: detailed.then(|| self.resources()),
            ..Facts::default()
        };
        let healthy = || Some(RawJson::of(&json!({"LastErrorCode": 0, "LastUpdateTime": 0})));
        match &self.object {
            Object::Network(record) => {
                let facts = Facts {
                    state: Some(record.state),
                    health: healthy(),
                    current_endpoint_count: u32::try_from(self.endpoints).ok(),
                    ..facts
                };
                let mut doc = v1::network_from_v2(&self.network_doc(record, detailed), &facts);
                doc.mode = Some(record.doc.network_mode());
                doc.extensions = record
                    .extensions
                    .iter()
                    .map(|extension| v1::Extension {
                        id: extension.id.clone(),
                        is_enabled: Some(extension.enabled),
                        ..v1::Extension::default()
                    })
                    .collect();
                doc.to_json()
            }
            Object::Endpoint(record) => {
                let network = self.network.as_deref();
                let switch = json!({"SwitchId": network.and_then(|network| network.layer), "SwitchPortId": record.port});
                let facts = Facts {
                    health: healthy(),
                    endpoint_state: Some(EndpointState::from_number(u32::from(record.state))),
                    virtual_network_name: network.and_then(|network| network.doc.name.clone()),
                    network_mode: network.map(|network| network.doc.network_mode()),
                    additional_params: record.port.map(|_| RawJson::of(&switch)),
                    ..facts
                };
                let mut doc = v1::endpoint_from_v2(&self.endpoint_doc(record, detailed), &facts);
                doc.shared_containers = Some(RawJson::of(&record.containers));
                doc.to_json()
            }
            Object::Namespace(record) => {
                let facts = Facts { state: Some(record.state), health: healthy(), ..facts };
                v1::namespace_from_v2(&record.doc, &facts).to_json()
            }
            Object::Balancer(record) => {
                let facts = Facts { state: Some(record.state), health: healthy(), ..facts };
                v1::policy_list_from_load_balancer(&record.doc, &facts).to_json()
            }
            Object::Route(record) => {
                let facts = Facts { state: Some(record.state), health: healthy(), ..facts };
                v1::policy_list_from_route(&record.doc, &facts).to_json()
            }
        }
    }

    /// A network with what HNS adds to it, part of which appears some time after creation.
    fn network_doc(&self, record: &NetworkRecord, detailed: bool) -> Network {
        let mut doc = record.doc.clone();
        if self.now >= record.ready_at {
            let has = |doc: &Network, kind: &str| doc.policies.iter().any(|policy| policy.kind.is(kind));
            if let Some(address) = record.management.filter(|_| !has(&doc, "ProviderAddress")) {
                doc.policies
                    .push(Policy::new("ProviderAddress", &json!({"ProviderAddress": address.to_string()})));
            }
            if let Some(mac) = record.dr_mac.as_ref().filter(|_| !has(&doc, "DrMacAddress")) {
                doc.policies.push(Policy::new("DrMacAddress", &json!({"Address": mac})));
            }
        }
        let params = ExtraParams {
            layered_on: record.layer.filter(|_| has_management_address(&record.doc.network_mode())),
            resources: detailed.then(|| self.resources()),
            ..ExtraParams::default()
        };
        doc.health = (params != ExtraParams::default())
            .then(|| Health { extra_params: Some(params), ..Health::default() });
        doc
    }

    fn endpoint_doc(&self, record: &EndpointRecord, detailed: bool) -> Endpoint {
        let mut doc = record.doc.clone();
        let mode = self.network.as_ref().map(|network| network.doc.network_mode());
        let bridged = matches!(mode, Some(NetworkMode::L2Bridge | NetworkMode::L2Tunnel | NetworkMode::Nat));
        if bridged && !doc.policies.iter().any(|policy| policy.kind.is("L2Driver")) {
            doc.policies.push(Policy { settings: None, ..Policy::new("L2Driver", &()) });
        }
        let params = ExtraParams {
            shared_containers: (!record.containers.is_empty()).then(|| RawJson::of(&record.containers)),
            resources: detailed.then(|| self.resources()),
            ..ExtraParams::default()
        };
        doc.health = (params != ExtraParams::default())
            .then(|| Health { extra_params: Some(params), ..Health::default() });
        doc
    }

    /// The internal resource tree: what was allocated for the object. Its exact content in a real HNS is not known.
    fn resources(&self) -> RawJson {
        let allocator = |tag: &str, value: Value| json!({"Tag": tag, "Allocation": value});
        let blocks = |blocks: &[crate::ports::Block]| -> Vec<Value> {
            let block =
                |block: &crate::ports::Block| json!({"Space": block.space.to_string(), "Block": block.index});
            blocks.iter().map(block).collect()
        };
        let mut allocators = Vec::new();
        match &self.object {
            Object::Network(record) => {
                allocators.extend(record.layer.map(|layer| allocator("Layer", json!(layer))));
                allocators.extend(record.adapter.as_ref().map(|name| allocator("Adapter", json!(name))));
                allocators.push(allocator("Endpoints", json!(self.endpoints)));
            }
            Object::Endpoint(record) => {
                allocators.extend(record.port.map(|port| allocator("SwitchPort", json!(port))));
                allocators.extend(record.vnic_name.as_ref().map(|name| allocator("VirtualNic", json!(name))));
                allocators.push(allocator("PortBlocks", json!(blocks(&record.blocks))));
            }
            Object::Balancer(record) => {
                let frontends: Vec<String> = record.frontends.iter().map(ToString::to_string).collect();
                allocators.push(allocator("Frontends", json!(frontends)));
                allocators.push(allocator("PortBlocks", json!(blocks(&record.blocks))));
            }
            Object::Namespace(record) => {
                allocators.push(allocator("Compartment", json!(record.doc.namespace_id)));
            }
            Object::Route(_) => {}
        }
        RawJson::of(&json!({"ID": self.object.id(), "State": 1, "Allocators": allocators}))
    }
}
