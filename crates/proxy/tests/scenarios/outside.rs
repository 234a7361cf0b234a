//! What others do to HNS: the `outside` of a step.

use hcn::endpoint::{EndpointFlags, IpConfig};
use hcn::loadbalancer::{LoadBalancerFlags, PortMapping, PortMappingFlags};
use hcn::modify::{EndpointRequest, ModifyNamespace, NamespaceRequestResource, RequestType};
use hcn::network::{Ipam, IpamType, NetworkMode, Subnet};
use hcn::query::SchemaVersion;
use hcn::{Endpoint, Guid, Hcn, HcnExt, Kind, LoadBalancer, Namespace, Network, Policy, Query};

use crate::expect::expand;
use crate::model::{Outside, OutsideBalancer, OutsideEndpoint};
use crate::run::{Outcome, Runner};
use crate::world::{address, dump};

impl Runner {
    fn balancer_at(&self, frontend: &str) -> Result<Guid, String> {
        let frontend = expand(frontend);
        dump::short(&self.world.hns)
            .get(&frontend)
            .map(|(id, _)| *id)
            .ok_or_else(|| format!("no load balancer holds {frontend}"))
    }

    fn endpoint_ids(&self, names: &[String]) -> Result<Vec<Guid>, String> {
        let endpoints = dump::endpoints(&self.world.hns);
        names
            .iter()
            .map(|wanted| {
                let wanted_address = address(wanted);
                endpoints
                    .iter()
                    .find(|(_, endpoint)| endpoint.addresses().any(|address| address == wanted_address))
                    .map(|(id, _)| *id)
                    .ok_or_else(|| format!("no endpoint has {wanted}"))
            })
            .collect()
    }

    pub(crate) fn outside(&mut self, outside: &Outside) -> Outcome {
        let hns = self.world.hns.actor("somebody");
        let failed = |error: hcn::Error| format!("{outside:?}: {error}");
        match outside {
            Outside::DeleteBalancer(frontend) => {
                hns.delete(Kind::LoadBalancer, self.balancer_at(frontend)?).map_err(failed)
            }
            Outside::DeleteEndpoint(text) => {
                let (remote, text) = match text.split_once(' ') {
                    Some((kind, text)) => (Some(kind == "remote"), text),
                    None => (None, &**text),
                };
                let wanted = address(text);
                for (id, endpoint) in dump::endpoints(&self.world.hns) {
                    if endpoint.addresses().any(|address| address == wanted)
                        && remote.is_none_or(|remote| remote == endpoint.is_remote())
                    {
                        hns.delete(Kind::Endpoint, id).map_err(failed)?;
                    }
                }
                Ok(())
            }
            Outside::CreateBalancer(balancer) => {
                let endpoints = self.endpoint_ids(&balancer.backends)?;
                let id = balancer.id.as_deref().map_or(Guid::NIL, |id| self.world.network().derive(id));
                hns.make(id, &outside_balancer(balancer, endpoints)).map(drop).map_err(failed)
            }
            Outside::CreateEndpoint(endpoint) => self.outside_endpoint(&hns, endpoint).map_err(failed),
            Outside::SetBackends(change) => {
                let id = self.balancer_at(&change.frontend)?;
                let mut document: LoadBalancer = hns.get(id).map_err(failed)?;
                document.endpoints = self.endpoint_ids(&change.backends)?;
                hns.delete(Kind::LoadBalancer, id).map_err(failed)?;
                hns.make(id, &document).map(drop).map_err(failed)
            }
            Outside::DeleteNetwork => hns.delete(Kind::Network, self.world.network()).map_err(failed),
            Outside::ReplaceNetwork => {
                let id = self.world.network();
                let mut document: Network = hns.get(id).map_err(failed)?;
                hns.delete(Kind::Network, id).map_err(failed)?;
                document.id = None;
                hns.make(id.derive("another"), &document).map(drop).map_err(failed)
            }
            Outside::CreateNetwork(name) => {
                let subnet = Subnet { prefix: "10.51.0.0/16".to_owned(), ..Subnet::default() };
                let ipam = Ipam { kind: Some(IpamType::Static), subnets: vec![subnet], ..Ipam::default() };
                let document = Network {
                    name: Some(name.clone()),
                    mode: Some(NetworkMode::L2Bridge),
                    ipams: vec![ipam],
                    schema_version: Some(SchemaVersion::V2),
                    ..Network::default()
                };
                hns.make(Guid::NIL, &document).map(drop).map_err(failed)
            }
        }
    }

    fn outside_endpoint(&self, hns: &hns::Hns, endpoint: &OutsideEndpoint) -> hcn::Result<()> {
        let address = address(&endpoint.address);
        let mac = match endpoint.mac.as_deref() {
            Some("kube-proxy") => Some(kube_proxy_mac(address)),
            other => other.map(str::to_owned),
        };
        let document = Endpoint {
            name: endpoint.name.clone(),
            owner: endpoint.owner.clone(),
            mac_address: mac,
            ip_configurations: vec![IpConfig { ip_address: address.to_string(), ..IpConfig::default() }],
            flags: if endpoint.remote { EndpointFlags::REMOTE_ENDPOINT } else { EndpointFlags::empty() },
            policies: endpoint
                .provider_address
                .iter()
                .map(|provider| {
                    let provider = crate::world::address(provider).to_string();
                    Policy::new("ProviderAddress", &serde_json::json!({ "ProviderAddress": provider }))
                })
                .collect(),
            schema_version: Some(SchemaVersion::V2),
            ..Endpoint::default()
        };
        let network = match &endpoint.network {
            None => self.world.network(),
            Some(name) => {
                let found: Vec<(Guid, Network)> = hns.list(&Query::by_name(name))?;
                found.first().map_or(Guid::NIL, |(id, _)| *id)
            }
        };
        let id = hns.make_endpoint(network, Guid::NIL, &document)?;
        if endpoint.in_pod {
            let namespace = hns.make(Guid::NIL, &Namespace::default())?;
            let request = EndpointRequest { endpoint_id: Some(id), ..EndpointRequest::default() };
            let request =
                ModifyNamespace::new(NamespaceRequestResource::Endpoint, RequestType::Add, &request);
            hns.modify(Kind::Namespace, namespace, &request.to_json())?;
        }
        Ok(())
    }
}

fn outside_balancer(balancer: &OutsideBalancer, endpoints: Vec<Guid>) -> LoadBalancer {
    let port_mappings = balancer
        .ports
        .iter()
        .map(|text| {
            let (external, internal) = text.split_once("->").expect("ports are like 80/TCP -> 8080");
            let (port, protocol) = external.trim().split_once('/').expect("ports are like 80/TCP -> 8080");
            PortMapping {
                protocol: match protocol {
                    "TCP" => 6,
                    "UDP" => 17,
                    _ => 132,
                },
                external_port: port.parse().expect("a port"),
                internal_port: internal.trim().parse().expect("a port"),
                flags: PortMappingFlags::from_bits_retain(balancer.mapping_flags),
                ..PortMapping::default()
            }
        })
        .collect();
    LoadBalancer {
        owner: balancer.owner.clone(),
        endpoints,
        source_vip: balancer.source.as_deref().map(|source| address(source).to_string()).unwrap_or_default(),
        frontend_vips: balancer.vips.iter().map(|vip| address(vip).to_string()).collect(),
        port_mappings,
        flags: LoadBalancerFlags::from_bits_retain(balancer.flags),
        schema_version: Some(SchemaVersion::V2),
        ..LoadBalancer::default()
    }
}

fn kube_proxy_mac(address: std::net::IpAddr) -> String {
    match address {
        std::net::IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            format!("02-11-{a:02X}-{b:02X}-{c:02X}-{d:02X}")
        }
        std::net::IpAddr::V6(v6) => {
            let octets = v6.octets();
            format!("02-11-{:02X}-{:02X}-{:02X}-{:02X}", octets[15], octets[14], octets[13], octets[12])
        }
    }
}
