//! What HNS holds, in the short form that scenarios use, and the invariants that hold at every quiet point.

use std::collections::{BTreeMap, BTreeSet};

use hcn::loadbalancer::{Distribution, LoadBalancerFlags, PortMappingFlags};
use hcn::{Endpoint, Guid, HcnExt, LoadBalancer, Network, Query};
use hns::Hns;

use super::name;

/// A load balancer in short: `frontend -> port [backends] key=value…`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Balancer {
    pub frontend: String,
    pub internal_port: u16,
    /// Fixture names or addresses, sorted; a missing endpoint is `!id`.
    pub backends: BTreeSet<String>,
    pub flags: String,
    pub mapping: String,
    pub distribution: String,
    pub source: String,
}

impl std::fmt::Display for Balancer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let backends: Vec<&str> = self.backends.iter().map(String::as_str).collect();
        write!(f, "{} -> {} [{}]", self.frontend, self.internal_port, backends.join(" "))?;
        for (key, value) in [
            ("flags", &self.flags),
            ("mapping", &self.mapping),
            ("dist", &self.distribution),
            ("source", &self.source),
        ] {
            if !value.is_empty() {
                write!(f, " {key}={value}")?;
            }
        }
        Ok(())
    }
}

/// An actor whose reading is no part of any count.
fn reader(hns: &Hns) -> Hns {
    hns.actor("observer")
}

/// The id of the node's network.
pub fn network(hns: &Hns) -> Guid {
    let networks: Vec<(Guid, Network)> =
        reader(hns).list(&Query::by_name("net")).expect("networks can be listed");
    networks.first().expect("the network is there").0
}

/// All endpoints.
pub fn endpoints(hns: &Hns) -> BTreeMap<Guid, Endpoint> {
    reader(hns).list(&Query::all()).expect("endpoints can be listed").into_iter().collect()
}

/// All load balancers by id.
pub fn balancers(hns: &Hns) -> BTreeMap<Guid, LoadBalancer> {
    reader(hns).list(&Query::all()).expect("load balancers can be listed").into_iter().collect()
}

/// The addresses of remote endpoints, as fixture names.
pub fn remotes(hns: &Hns) -> BTreeSet<String> {
    endpoints(hns)
        .values()
        .filter(|endpoint| endpoint.is_remote())
        .flat_map(|endpoint| endpoint.addresses().map(name).collect::<Vec<_>>())
        .collect()
}

/// Load balancers in short, by frontend, with their ids.
pub fn short(hns: &Hns) -> BTreeMap<String, (Guid, Balancer)> {
    let endpoints = endpoints(hns);
    let mut out = BTreeMap::new();
    for (id, balancer) in balancers(hns) {
        let backends: BTreeSet<String> = balancer
            .endpoints
            .iter()
            .map(|id| {
                endpoints
                    .get(id)
                    .and_then(|endpoint| {
                        let v6 = balancer.flags.contains(LoadBalancerFlags::IPV6);
                        endpoint.addresses().find(|address| address.is_ipv6() == v6)
                    })
                    .map_or_else(|| format!("!{id}"), name)
            })
            .collect();
        for frontend in balancer.frontends() {
            let mapping = balancer.port_mappings.first();
            let text = frontend_text(&frontend);
            let value = Balancer {
                frontend: text.clone(),
                internal_port: mapping.map_or(0, |mapping| mapping.internal_port),
                backends: backends.clone(),
                flags: flags(balancer.flags),
                mapping: mapping.map_or_else(String::new, |mapping| mapping_flags(mapping.flags)),
                distribution: mapping
                    .and_then(|mapping| mapping.distribution.clone())
                    .filter(|distribution| *distribution != Distribution::None)
                    .map_or_else(String::new, |distribution| distribution.name().into_owned()),
                source: balancer.source_vip.parse().map_or_else(|_| balancer.source_vip.clone(), name),
            };
            let before = out.insert(text.clone(), (id, value));
            assert!(before.is_none(), "I2: two load balancers hold {text}: {before:?} and {id}");
        }
    }
    out
}

/// A frontend with fixture names for addresses.
pub fn frontend_text(frontend: &hcn::loadbalancer::Frontend) -> String {
    match frontend.vip {
        Some(vip) => {
            let named = name(vip);
            if named == vip.to_string() {
                frontend.to_string()
            } else {
                let text = frontend.to_string();
                let tail = text.rsplit_once(':').map(|(_, tail)| tail.to_owned()).unwrap_or_default();
                format!("{named}:{tail}")
            }
        }
        None => frontend.to_string(),
    }
}

fn flags(flags: LoadBalancerFlags) -> String {
    let mut names = Vec::new();
    if flags.contains(LoadBalancerFlags::DSR) {
        names.push("DSR");
    }
    if flags.contains(LoadBalancerFlags::IPV6) {
        names.push("IPv6");
    }
    names.join("+")
}

fn mapping_flags(flags: PortMappingFlags) -> String {
    let mut names = Vec::new();
    for (flag, name) in [
        (PortMappingFlags::ILB, "ILB"),
        (PortMappingFlags::LOCAL_ROUTED_VIP, "LocalRoutedVIP"),
        (PortMappingFlags::USE_MUX, "UseMux"),
        (PortMappingFlags::PRESERVE_DIP, "PreserveDIP"),
        (PortMappingFlags::VIP_EXTERNAL_IP, "VipExternalIP"),
    ] {
        if flags.contains(flag) {
            names.push(name);
        }
    }
    names.join("+")
}

/// I1: every load balancer refers only to endpoints that exist, of its own family, and to each once. I2 is asserted
/// by [`short`].
pub fn assert_invariants(hns: &Hns, when: &str) {
    let documents = balancers(hns);
    for (id, balancer) in &documents {
        let distinct: BTreeSet<&Guid> = balancer.endpoints.iter().collect();
        assert_eq!(
            distinct.len(),
            balancer.endpoints.len(),
            "{when}: load balancer {id} names an endpoint twice"
        );
    }
    for (text, (id, balancer)) in short(hns) {
        // What others make they must keep right themselves; what HNS has given up with its network nobody can.
        let document = documents.get(&id);
        let foreign =
            document.and_then(|document| document.owner.as_deref()).is_some_and(|owner| owner != "transom");
        let degraded = document.and_then(|document| document.extra.read::<u32>("State")) == Some(4);
        if foreign || degraded {
            continue;
        }
        for backend in &balancer.backends {
            assert!(
                !backend.starts_with('!'),
                "{when}: I1: load balancer {id} at {text} refers to {backend}: {balancer}"
            );
        }
    }
}
