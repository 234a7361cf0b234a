//! Brings an HNS to hold what a [`NodeSpec`] asks for, and keeps it there. Every step looks before it acts, so it
//! can be repeated at any time, also over an HNS that kept its state from an earlier run.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use hcn::endpoint::IpConfig;
use hcn::modify::{
    EndpointRequest, ModifyNamespace, ModifyNetwork, NamespaceRequestResource, NetworkResource, RequestType,
};
use hcn::namespace::NamespaceType;
use hcn::network::{Ipam, IpamType, NetworkMode, Route, Subnet};
use hcn::policy::PolicyList;
use hcn::policy::endpoint::{EndpointPolicy, NatFlags, OutboundNat, SdnRoute};
use hcn::query::SchemaVersion;
use hcn::{Endpoint, ErrorClass, Guid, Hcn, HcnExt, Kind, Namespace, Network, Policy, Query};
use ipnet::IpNet;

use crate::spec::{NetworkKind, NodeSpec, PodSpec};

/// The `Owner` of objects made here.
const OWNER: &str = "cni";

/// The namespace in which a network's id is derived from its name.
const NODES: Guid = Guid::from_u128(0x5f0a_3f0c_9d5e_4c1b_8a52_6e0d_52b7_11aa);

/// A step that HNS refused.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}: {error}")]
pub struct FurnishError {
    /// The step.
    pub what: String,
    /// HNS's answer.
    pub error: hcn::Error,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Furnished {
    /// Objects made or policies added.
    pub added: usize,
    /// Objects or policies removed.
    pub removed: usize,
}

/// How pods' packets leave a node, as a CNI plugin's configuration says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Egress {
    /// Destinations that see the pod's own address; all others see the node's (OutBoundNAT).
    pub exceptions: Vec<IpNet>,
    /// Destinations that belong to the pod network although no node has them: Services, the node itself (SDNRoute).
    pub encapsulated: Vec<IpNet>,
    /// A pod may reach itself through a Service: the CNI plugin's loopback option of DSR, an OutBoundNAT policy for the
    /// pod's own address.
    pub loopback: bool,
}

/// Furnishes one HNS.
pub struct Furnisher {
    hcn: Arc<dyn Hcn>,
    egress: Option<Egress>,
    pods: bool,
}

impl Egress {
    /// The policies of a pod with these addresses: those of other families would be refused.
    fn policies(&self, addresses: &[IpAddr]) -> Vec<Policy> {
        let texts = |nets: &[IpNet]| -> Vec<String> {
            let served = |net: &&IpNet| addresses.iter().any(|own| own.is_ipv4() == net.addr().is_ipv4());
            nets.iter().filter(served).map(ToString::to_string).collect()
        };
        let nat = OutboundNat { exceptions: texts(&self.exceptions), ..OutboundNat::default() };
        let route = |destination_prefix| {
            let route = SdnRoute { destination_prefix, need_encap: true, ..SdnRoute::default() };
            Policy::from(EndpointPolicy::SdnRoute(route))
        };
        let routes = texts(&self.encapsulated).into_iter().map(route);
        let own = addresses.iter().filter(|_| self.loopback).map(|own| {
            let flags = if own.is_ipv6() { NatFlags::IPV6 } else { NatFlags::default() };
            let nat = OutboundNat { destinations: vec![own.to_string()], flags, ..OutboundNat::default() };
            Policy::from(EndpointPolicy::OutboundNat(nat))
        });
        std::iter::once(Policy::from(EndpointPolicy::OutboundNat(nat))).chain(routes).chain(own).collect()
    }
}

trait Step<T> {
    fn step(self, what: impl FnOnce() -> String) -> Result<T, FurnishError>;
}

impl<T> Step<T> for hcn::Result<T> {
    fn step(self, what: impl FnOnce() -> String) -> Result<T, FurnishError> {
        self.map_err(|error| FurnishError { what: what(), error })
    }
}

impl Furnisher {
    /// Acts on this HNS.
    pub fn new(hcn: Arc<dyn Hcn>) -> Self {
        Self { hcn, egress: None, pods: true }
    }

    /// Gives pods that are made from now on these policies.
    #[must_use]
    pub fn with_egress(mut self, egress: Egress) -> Self {
        self.egress = Some(egress);
        self
    }

    /// Makes the network and the host's endpoint only; pods that are there stay.
    #[must_use]
    pub fn without_pods(mut self) -> Self {
        self.pods = false;
        self
    }

    /// Makes what is missing and removes what this furnisher made and the spec no longer asks for.
    pub fn furnish(&self, spec: &NodeSpec) -> Result<Furnished, FurnishError> {
        let mut done = Furnished::default();
        let network = self.network(spec, &mut done)?;
        if spec.kind == NetworkKind::Overlay {
            self.remote_subnets(spec, network, &mut done)?;
        }
        self.endpoints(spec, network, &mut done)?;
        Ok(done)
    }

    fn network(&self, spec: &NodeSpec, done: &mut Furnished) -> Result<Guid, FurnishError> {
        let name = &spec.network_name;
        let found: Vec<(Guid, Network)> =
            self.hcn.list(&Query::by_name(name)).step(|| format!("look for network {name}"))?;
        if let Some((id, _)) = found.first() {
            return Ok(*id);
        }
        let id = NODES.derive(&format!("{}/{name}", spec.name));
        let mode = match spec.kind {
            NetworkKind::Overlay => NetworkMode::Overlay,
            NetworkKind::L2Bridge => NetworkMode::L2Bridge,
        };
        let subnets = spec.pod_cidrs.iter().map(|cidr| subnet(spec, cidr)).collect();
        let document = Network {
            id: Some(id),
            owner: Some(OWNER.to_owned()),
            name: Some(name.clone()),
            mode: Some(mode),
            ipams: vec![Ipam { kind: Some(IpamType::Static), subnets, ..Ipam::default() }],
            schema_version: Some(SchemaVersion::V2),
            ..Network::default()
        };
        let id = self.hcn.make(id, &document).step(|| format!("create network {name}"))?;
        done.added += 1;
        Ok(id)
    }

    /// One RemoteSubnetRoute for each other node's pods.
    fn remote_subnets(
        &self,
        spec: &NodeSpec,
        network: Guid,
        done: &mut Furnished,
    ) -> Result<(), FurnishError> {
        let document: Network = self.hcn.get(network).step(|| format!("read network {network}"))?;
        let wanted: BTreeMap<String, Policy> = spec
            .peers
            .iter()
            .flat_map(|peer| {
                peer.pod_cidrs.iter().map(|cidr| {
                    let settings = route_settings(cidr, spec.vsid, peer.address, &peer.tunnel_mac);
                    (settings.clone(), route_policy(&settings))
                })
            })
            .collect();
        let mut present = BTreeSet::new();
        for policy in document.policies.iter().filter(|policy| policy.kind.is("RemoteSubnetRoute")) {
            let settings =
                policy.settings.as_ref().map(|settings| settings.get().to_owned()).unwrap_or_default();
            if wanted.contains_key(&settings) {
                present.insert(settings);
            } else {
                self.change_policy(network, RequestType::Remove, policy)?;
                done.removed += 1;
            }
        }
        for (settings, policy) in &wanted {
            if !present.contains(settings) {
                self.change_policy(network, RequestType::Add, policy)?;
                done.added += 1;
            }
        }
        Ok(())
    }

    fn change_policy(
        &self,
        network: Guid,
        request: RequestType,
        policy: &Policy,
    ) -> Result<(), FurnishError> {
        let what = format!("{} a RemoteSubnetRoute of network {network}", request.name().to_lowercase());
        let list = PolicyList { policies: vec![policy.clone()], ..PolicyList::default() };
        let request = ModifyNetwork::new(NetworkResource::Policy, request, &list);
        self.hcn.modify(Kind::Network, network, &request.to_json()).step(|| what)
    }

    fn endpoints(&self, spec: &NodeSpec, network: Guid, done: &mut Furnished) -> Result<(), FurnishError> {
        let present: BTreeMap<Guid, Endpoint> = self
            .hcn
            .list::<Endpoint>(&Query::endpoints_of(network))
            .step(|| format!("list the endpoints of network {network}"))?
            .into_iter()
            .collect();
        let pods = spec.pods.iter().filter(|_| self.pods);
        let mut wanted: BTreeMap<Guid, PodSpec> =
            pods.map(|pod| (network.derive(&format!("pod/{}", pod.name)), pod.clone())).collect();
        // Pods that are gone go first: their addresses may be given to new ones.
        for (id, endpoint) in &present {
            let stale = match wanted.get(id) {
                Some(pod) => endpoint.addresses().collect::<Vec<_>>() != pod.addresses,
                None => {
                    self.pods
                        && endpoint.owner.as_deref() == Some(OWNER)
                        && endpoint.name.as_deref() != Some(&*spec.root_endpoint)
                }
            };
            if stale {
                self.remove_pod(*id)?;
                done.removed += 1;
            } else {
                wanted.remove(id);
            }
        }
        if spec.kind == NetworkKind::L2Bridge {
            let id = network.derive("host");
            if !present.contains_key(&id) {
                self.host_endpoint(spec, network, id)?;
                done.added += 1;
            }
        }
        for (id, pod) in wanted {
            self.add_pod(spec, network, id, &pod)?;
            done.added += 1;
        }
        Ok(())
    }

    fn host_endpoint(&self, spec: &NodeSpec, network: Guid, id: Guid) -> Result<(), FurnishError> {
        let name = &spec.root_endpoint;
        let addresses: Vec<IpAddr> = spec.pod_cidrs.iter().filter_map(host_address).collect();
        let endpoint = document(id, name, &addresses);
        self.hcn
            .make_endpoint(network, id, &endpoint)
            .step(|| format!("create the host's endpoint {name}"))?;
        let body = r#"{"SystemType":"Host","CompartmentId":1}"#;
        self.hcn
            .output_v1(hcn::api::V1Method::Post, &format!("/endpoints/{id}/attach"), body)
            .step(|| format!("attach the host's endpoint {name}"))?;
        Ok(())
    }

    fn add_pod(&self, spec: &NodeSpec, network: Guid, id: Guid, pod: &PodSpec) -> Result<(), FurnishError> {
        let mut endpoint = document(id, &pod.name, &pod.addresses);
        if let Some(egress) = &self.egress {
            endpoint.policies = egress.policies(&pod.addresses);
            if spec.kind == NetworkKind::L2Bridge {
                endpoint.routes = spec.pod_cidrs.iter().filter_map(by_host).collect();
            }
        }
        let id = self
            .hcn
            .make_endpoint(network, id, &endpoint)
            .step(|| format!("create the endpoint of pod {}", pod.name))?;
        let sandbox = Namespace {
            id: Some(id.derive("namespace")),
            owner: Some(OWNER.to_owned()),
            kind: Some(NamespaceType::Host),
            schema_version: Some(SchemaVersion::V2),
            ..Namespace::default()
        };
        let namespace = id.derive("namespace");
        match self.hcn.make(namespace, &sandbox) {
            Ok(_) => {}
            // The sandbox outlived its endpoint, as after a loss of endpoints.
            Err(error) if error.class() == ErrorClass::AlreadyExists => {}
            Err(error) => return Err(error).step(|| format!("create the namespace of pod {}", pod.name)),
        }
        let request = EndpointRequest { endpoint_id: Some(id), ..EndpointRequest::default() };
        let request = ModifyNamespace::new(NamespaceRequestResource::Endpoint, RequestType::Add, &request);
        self.hcn
            .modify(Kind::Namespace, namespace, &request.to_json())
            .step(|| format!("attach the endpoint of pod {}", pod.name))
    }

    fn remove_pod(&self, id: Guid) -> Result<(), FurnishError> {
        gone_is_fine(self.hcn.delete(Kind::Namespace, id.derive("namespace")))
            .step(|| format!("delete the namespace of endpoint {id}"))?;
        gone_is_fine(self.hcn.delete(Kind::Endpoint, id)).step(|| format!("delete endpoint {id}"))
    }
}

fn gone_is_fine(result: hcn::Result<()>) -> hcn::Result<()> {
    match result {
        Err(error) if error.is_not_found() => Ok(()),
        other => other,
    }
}

fn document(id: Guid, name: &str, addresses: &[IpAddr]) -> Endpoint {
    Endpoint {
        id: Some(id),
        owner: Some(OWNER.to_owned()),
        name: Some(name.to_owned()),
        ip_configurations: addresses
            .iter()
            .map(|address| IpConfig { ip_address: address.to_string(), ..IpConfig::default() })
            .collect(),
        schema_version: Some(SchemaVersion::V2),
        ..Endpoint::default()
    }
}

/// The addresses of a range that can be a host's. In IPv6 the first one belongs to all routers.
fn hosts(cidr: &IpNet) -> impl Iterator<Item = IpAddr> {
    let anycast = cidr.network();
    cidr.hosts().filter(move |&address| address.is_ipv4() || address != anycast)
}

/// The address of the host's own endpoint: the second one of a range, as Flannel's host gateway has it.
fn host_address(cidr: &IpNet) -> Option<IpAddr> {
    hosts(cidr).nth(1)
}

/// The default route by the host's endpoint, as the bridge plugin writes it.
fn by_host(cidr: &IpNet) -> Option<Route> {
    let all = if cidr.addr().is_ipv4() { "0.0.0.0/0" } else { "::/0" };
    Some(Route {
        next_hop: host_address(cidr)?.to_string(),
        destination_prefix: all.to_owned(),
        ..Route::default()
    })
}

fn subnet(spec: &NodeSpec, cidr: &IpNet) -> Subnet {
    let destination = if cidr.addr().is_ipv4() { "0.0.0.0/0" } else { "::/0" };
    let gateway = hosts(cidr).next().unwrap_or_else(|| cidr.addr());
    let policies = match spec.kind {
        NetworkKind::Overlay => vec![Policy::new("VSID", &BTreeMap::from([("IsolationId", spec.vsid)]))],
        NetworkKind::L2Bridge => Vec::new(),
    };
    Subnet {
        prefix: cidr.trunc().to_string(),
        policies,
        routes: vec![Route {
            next_hop: gateway.to_string(),
            destination_prefix: destination.to_owned(),
            ..Route::default()
        }],
        ..Subnet::default()
    }
}

/// The settings of a RemoteSubnetRoute as text, in a fixed order: they are compared with what HNS hands back, which
/// is byte for byte what it was given.
fn route_settings(cidr: &IpNet, vsid: u32, provider: IpAddr, mac: &str) -> String {
    format!(
        r#"{{"DestinationPrefix":"{}","IsolationId":{vsid},"ProviderAddress":"{provider}","DistributedRouterMacAddress":"{mac}"}}"#,
        cidr.trunc()
    )
}

fn route_policy(settings: &str) -> Policy {
    let mut policy = Policy::new("RemoteSubnetRoute", &());
    // The text is JSON by construction: prefixes, numbers, addresses and MACs need no escapes.
    policy.settings = hcn::json::RawJson::parse(settings).ok();
    policy
}
