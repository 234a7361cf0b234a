//! What those ask who join the switch to the rest of an emulated machine.

use std::net::IpAddr;

use hcn::Guid;
use ipnet::IpNet;
use uuid::Uuid;
use vfp::model::SwitchSettings;

use super::Hns;
use crate::namespace::DEFAULT_COMPARTMENT;
use crate::network::has_management_address;
use crate::policies;
use crate::program::{self, HostPorts};
use crate::record::EndpointRecord;
use crate::state::State;

/// An attached endpoint on the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointPort {
    /// The endpoint.
    pub endpoint: Guid,
    /// Its network.
    pub network: Guid,
    /// The switch port, as the engine names it.
    pub port: Uuid,
    /// The namespace it is in, if any.
    pub namespace: Option<Guid>,
    /// The compartment whose stack has the adapter; 1 is the host's own. None where nothing says: an endpoint
    /// that is attached to a virtual machine or a container by name.
    pub compartment: Option<u32>,
    /// The adapter's MAC.
    pub mac: hcn::Mac,
    /// The adapter's addresses with their prefixes.
    pub addresses: Vec<IpNet>,
    /// Default gateways.
    pub gateways: Vec<IpAddr>,
}

/// A prefix that the host's stack reaches directly on the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRoute {
    /// The network.
    pub network: Guid,
    /// Its subnet.
    pub prefix: IpNet,
    /// The host's own address in it, on networks whose gateway the host is.
    pub gateway: Option<IpAddr>,
}

impl Hns {
    /// The host's port of the switch; it is there from the start and has the same id after every start.
    pub fn host_port(&self) -> Uuid {
        HostPorts::of(&self.inner.env.host).host
    }

    /// The port towards the wire.
    pub fn external_port(&self) -> Uuid {
        HostPorts::of(&self.inner.env.host).external
    }

    /// The settings that the switch starts with. A VxlanPort policy changes them later.
    pub fn switch_settings(&self) -> SwitchSettings {
        program::settings(&self.inner.env)
    }

    /// The attached endpoints of all networks, first created first.
    pub fn endpoint_ports(&self) -> Vec<EndpointPort> {
        let state = self.inner.state.read();
        state.endpoints.iter().filter_map(|record| seat(&state, record)).collect()
    }

    /// The attached endpoints of a namespace.
    pub fn ports_of_namespace(&self, namespace: Guid) -> Vec<EndpointPort> {
        let mut ports = self.endpoint_ports();
        ports.retain(|port| port.namespace == Some(namespace));
        ports
    }

    /// The attached endpoints of a compartment; 1 is the host's own.
    pub fn ports_of_compartment(&self, compartment: u32) -> Vec<EndpointPort> {
        let mut ports = self.endpoint_ports();
        ports.retain(|port| port.compartment == Some(compartment));
        ports
    }

    /// An endpoint's port, while it is attached.
    pub fn port_of(&self, endpoint: Guid) -> Option<EndpointPort> {
        let state = self.inner.state.read();
        state.endpoints.get(endpoint).and_then(|record| seat(&state, record))
    }

    /// The endpoint that has a port.
    pub fn endpoint_of(&self, port: Uuid) -> Option<Guid> {
        let state = self.inner.state.read();
        let has =
            |record: &&std::sync::Arc<EndpointRecord>| record.port.is_some_and(|own| own.uuid() == port);
        state.endpoints.iter().find(has).and_then(|record| record.doc.id)
    }

    /// The number of a network's segment of the switch.
    pub fn segment_of(&self, network: Guid) -> Option<u32> {
        let state = self.inner.state.read();
        state.networks.get(network).map(|record| program::segment(record))
    }

    /// The network whose segment has this number.
    pub fn network_of_segment(&self, segment: u32) -> Option<Guid> {
        let state = self.inner.state.read();
        let found = state.networks.iter().find(|record| program::segment(record) == segment);
        found.and_then(|record| record.doc.id)
    }

    /// The subnets that the host's stack reaches directly on the switch: those of overlays and of networks with a
    /// HostRoute policy, and those whose gateway the host is.
    pub fn host_routes(&self) -> Vec<HostRoute> {
        use hcn::network::NetworkMode;
        let now = self.now();
        let state = self.inner.state.read();
        let mut routes = Vec::new();
        for record in state.networks.iter() {
            let mode = record.doc.network_mode();
            let translated = matches!(
                mode,
                NetworkMode::Nat | NetworkMode::Ics | NetworkMode::ConstrainedIcs | NetworkMode::Internal
            );
            let asked = record.doc.policies.iter().any(|policy| policy.kind.is("HostRoute"));
            let waits = has_management_address(&mode) && now < record.ready_at;
            if waits || !(translated || asked || mode == NetworkMode::Overlay) {
                continue;
            }
            for subnet in record.doc.subnets() {
                let Ok(prefix) = subnet.prefix.parse::<IpNet>() else { continue };
                let gateway = subnet.gateway().and_then(|hop| hop.parse().ok()).filter(|_| translated);
                let network = record.doc.id.unwrap_or_default();
                routes.push(HostRoute { network, prefix: prefix.trunc(), gateway });
            }
        }
        routes
    }

    /// What the datapath refused, at most the first 64 times: each is a bug.
    pub fn datapath_errors(&self) -> Vec<String> {
        self.inner.program.as_ref().map(|program| program.lock().errors().to_vec()).unwrap_or_default()
    }

    /// Programs what has come about by time alone: management addresses that have appeared. Every call does this
    /// first; whoever moves packets without calling does it when the clock has moved.
    pub fn catch_up(&self) {
        let inner = &*self.inner;
        let Some(program) = &inner.program else { return };
        let now = self.now();
        if program.lock().due().is_some_and(|due| due <= now) {
            let state = inner.state.read();
            program.lock().follow(&state, &inner.env, now, &[], program::Bend::default());
        }
    }

    /// Brings the datapath to a state that was put in place of another.
    pub(super) fn reprogram(&self, state: &State, lost: bool) {
        let inner = &*self.inner;
        if let Some(program) = &inner.program {
            program.lock().rebuild(state, &inner.env, self.now(), lost);
        }
    }
}

fn seat(state: &State, record: &EndpointRecord) -> Option<EndpointPort> {
    let port = record.port?;
    let namespace = record.doc.namespace.and_then(|id| state.namespaces.get(id));
    let default = namespace
        .is_some_and(|namespace| namespace.doc.kind == Some(hcn::namespace::NamespaceType::HostDefault))
        .then_some(DEFAULT_COMPARTMENT);
    let number = namespace.and_then(|namespace| namespace.doc.namespace_id);
    let addresses = record.doc.ip_configurations.iter().filter_map(|config| {
        let address: IpAddr = config.ip_address.parse().ok()?;
        IpNet::new(address, config.prefix_length).ok()
    });
    let gateways = record.doc.routes.iter().filter(|route| policies::is_default(&route.destination_prefix));
    Some(EndpointPort {
        endpoint: record.doc.id.unwrap_or_default(),
        network: record.network,
        port: port.uuid(),
        namespace: record.doc.namespace,
        compartment: record.compartment.or(default).or(number).filter(|&number| number != 0),
        mac: record.mac.unwrap_or_default(),
        addresses: addresses.collect(),
        gateways: gateways.filter_map(|route| route.next_hop.parse().ok()).collect(),
    })
}
