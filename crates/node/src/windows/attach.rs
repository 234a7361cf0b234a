//! Which port of the switch is whose: the host's interfaces, the pods' interfaces, the wire. Follows HNS.

use std::collections::BTreeMap;

use hcn::namespace::NamespaceType;
use hcn::{Endpoint, Guid, HcnExt, Namespace, Query};
use hns::Hns;
use ipnet::IpNet;
use uuid::Uuid;
use vfp::model::{PortKind, PortSpec};

use super::{MANAGEMENT, SwitchHandle};
use crate::stack::{InterfaceSpec, Route, Stack};

/// Who is behind a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Host { interface: usize },
    Pod { namespace: Guid, interface: usize },
}

/// The ports and who is behind them.
#[derive(Debug)]
pub(super) struct Attachments {
    seed: u64,
    seen: Option<u64>,
    external: Option<Uuid>,
    owners: BTreeMap<Uuid, Owner>,
    /// The pods' endpoints by name.
    names: BTreeMap<String, Guid>,
}

/// What of HNS is needed to tell.
struct Objects {
    endpoints: Vec<(Guid, Endpoint)>,
    namespaces: BTreeMap<Guid, Namespace>,
}

impl Objects {
    /// `None`: HNS did not answer, as a fault plan may want; what is known stays.
    fn read(hns: &Hns) -> Option<Self> {
        let hns = hns.actor("node");
        let endpoints = hns.list::<Endpoint>(&Query::all()).ok()?;
        let namespaces = hns.list::<Namespace>(&Query::all()).ok()?;
        Some(Self { endpoints, namespaces: namespaces.into_iter().collect() })
    }

    /// The endpoint of a port, by its adapter.
    fn endpoint(&self, port: &PortSpec) -> Option<&Endpoint> {
        let found = self.endpoints.iter().find(|(id, _)| id.derive("nic").uuid() == port.nic);
        found.map(|(_, endpoint)| endpoint)
    }

    /// The namespace of an endpoint, if it is a pod's.
    fn pod_namespace(&self, endpoint: &Endpoint) -> Option<Guid> {
        let id = endpoint.namespace.filter(|id| !id.is_nil())?;
        let own = self.namespaces.get(&id).and_then(|namespace| namespace.kind.clone());
        (own != Some(NamespaceType::HostDefault)).then_some(id)
    }
}

impl Attachments {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, seen: None, external: None, owners: BTreeMap::new(), names: BTreeMap::new() }
    }

    /// Takes over what has changed since the last time.
    pub(super) fn follow(
        &mut self,
        switch: &SwitchHandle,
        hns: &Hns,
        host: &mut Stack,
        pods: &mut BTreeMap<Guid, Stack>,
    ) {
        let generation = switch.generation();
        if self.seen == Some(generation) {
            return;
        }
        let Some(objects) = Objects::read(hns) else { return };
        self.seen = Some(generation);
        let ports = switch.ports();
        let gone: Vec<Uuid> =
            self.owners.keys().copied().filter(|own| !ports.iter().any(|port| port.name == *own)).collect();
        for port in gone {
            self.detach(port, host, pods);
        }
        for port in &ports {
            match port.kind {
                PortKind::External => self.external = Some(port.name),
                PortKind::Host => {
                    self.owners.insert(port.name, Owner::Host { interface: MANAGEMENT });
                }
                PortKind::Endpoint if self.owners.contains_key(&port.name) => {}
                PortKind::Endpoint => {
                    if let Some(endpoint) = objects.endpoint(port) {
                        self.attach(port, endpoint, objects.pod_namespace(endpoint), host, pods);
                    }
                }
            }
        }
    }

    fn attach(
        &mut self,
        port: &PortSpec,
        endpoint: &Endpoint,
        namespace: Option<Guid>,
        host: &mut Stack,
        pods: &mut BTreeMap<Guid, Stack>,
    ) {
        let interface = InterfaceSpec {
            name: port.nic_name.clone(),
            mac: port.mac,
            addresses: addresses(endpoint),
            mtu: port.mtu,
        };
        let owner = match namespace {
            None => Owner::Host { interface: host.add_interface(interface) },
            Some(namespace) => {
                let name = endpoint.name.clone().unwrap_or_default();
                let (seed, bits) = (self.seed, namespace.uuid().as_u64_pair());
                let pod =
                    pods.entry(namespace).or_insert_with(|| Stack::new(name.clone(), seed ^ bits.0 ^ bits.1));
                let interface = pod.add_interface(interface);
                for route in &endpoint.routes {
                    add_route(pod, interface, route);
                }
                self.names.insert(name, namespace);
                Owner::Pod { namespace, interface }
            }
        };
        self.owners.insert(port.name, owner);
    }

    fn detach(&mut self, port: Uuid, host: &mut Stack, pods: &mut BTreeMap<Guid, Stack>) {
        match self.owners.remove(&port) {
            Some(Owner::Host { interface }) => host.set_up(interface, false),
            Some(Owner::Pod { namespace, interface }) => {
                if let Some(pod) = pods.get_mut(&namespace) {
                    pod.set_up(interface, false);
                }
                let left =
                    |owner: &Owner| matches!(owner, Owner::Pod { namespace: own, .. } if *own == namespace);
                if !self.owners.values().any(left) {
                    pods.remove(&namespace);
                    self.names.retain(|_, own| *own != namespace);
                }
            }
            None => {}
        }
    }

    pub(super) fn external(&self) -> Option<Uuid> {
        self.external
    }

    pub(super) fn is_external(&self, port: Uuid) -> bool {
        self.external == Some(port)
    }

    pub(super) fn host_interface(&self, port: Uuid) -> Option<usize> {
        match self.owners.get(&port)? {
            Owner::Host { interface } => Some(*interface),
            Owner::Pod { .. } => None,
        }
    }

    pub(super) fn pod_interface(&self, port: Uuid) -> Option<(Guid, usize)> {
        match self.owners.get(&port)? {
            Owner::Pod { namespace, interface } => Some((*namespace, *interface)),
            Owner::Host { .. } => None,
        }
    }

    pub(super) fn host_port(&self, interface: usize) -> Option<Uuid> {
        self.port_of(Owner::Host { interface })
    }

    pub(super) fn pod_port(&self, namespace: Guid, interface: usize) -> Option<Uuid> {
        self.port_of(Owner::Pod { namespace, interface })
    }

    fn port_of(&self, owner: Owner) -> Option<Uuid> {
        self.owners.iter().find(|(_, own)| **own == owner).map(|(port, _)| *port)
    }

    pub(super) fn namespace_of(&self, name: &str) -> Option<Guid> {
        self.names.get(name).copied()
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }
}

/// An endpoint's addresses with the prefixes that HNS fills in.
fn addresses(endpoint: &Endpoint) -> Vec<IpNet> {
    let with_prefix = |config: &hcn::endpoint::IpConfig| {
        let address = config.ip_address.parse().ok()?;
        match config.prefix_length {
            0 => Some(IpNet::from(address)),
            length => IpNet::new(address, length).ok(),
        }
    };
    endpoint.ip_configurations.iter().filter_map(with_prefix).collect()
}

/// A route of an endpoint's document; what cannot be read is left out, as HNS has checked it.
fn add_route(pod: &mut Stack, interface: usize, route: &hcn::network::Route) {
    let (Ok(destination), via) = (route.destination_prefix.parse::<IpNet>(), route.next_hop.parse().ok())
    else {
        return;
    };
    pod.routes_mut().add(Route { destination, via, interface, metric: u32::from(route.metric) });
}
