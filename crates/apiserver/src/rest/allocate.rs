//! Cluster IPs and node ports of Services that are written through the API.
//!
//! This module must not know requests.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use hcn::time::Entropy;
use serde_json::{Map, Value};

use super::admission::{invalid, spec_of, text};
use crate::kind::{Kind, Storage};
use crate::status::Cause;
use crate::store::Transaction;
use crate::store::state::Object;

const NODE_PORTS: (u64, u64) = (30_000, 32_767);

/// Where cluster IPs come from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Networks {
    pub(crate) v4: (Ipv4Addr, u8),
    pub(crate) v6: (Ipv6Addr, u8),
}

impl Default for Networks {
    fn default() -> Self {
        Self {
            v4: (Ipv4Addr::new(10, 96, 0, 0), 12),
            v6: (Ipv6Addr::new(0xfd00, 0x10, 0x96, 0, 0, 0, 0, 0), 112),
        }
    }
}

impl Networks {
    fn address(&self, family: &str, entropy: &dyn Entropy) -> IpAddr {
        // Neither the network's address nor, for IPv4, its last one.
        if family == "IPv6" {
            let hosts = 1_u64 << (128 - u32::from(self.v6.1)).min(63);
            return Ipv6Addr::from(u128::from(self.v6.0) + u128::from(1 + entropy.below(hosts - 1))).into();
        }
        let hosts = 1_u64 << (32 - u32::from(self.v4.1));
        let offset = u32::try_from(1 + entropy.below(hosts.saturating_sub(2))).unwrap_or(1);
        Ipv4Addr::from(u32::from(self.v4.0).wrapping_add(offset)).into()
    }
}

/// Gives a Service its cluster IPs and node ports.
pub(super) fn allocate(
    kind: &Kind,
    networks: &Networks,
    transaction: &Transaction<'_>,
    members: &mut Map<String, Value>,
    old: Option<&Arc<Object>>,
) -> Result<(), Cause> {
    if kind.storage != Storage::Services {
        return Ok(());
    }
    let service_type = text(members, &["spec", "type"]).to_owned();
    let spec = spec_of(members);
    if service_type == "ExternalName" {
        for name in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            spec.shift_remove(name);
        }
        return Ok(());
    }
    let others = || {
        transaction.state().all(Storage::Services).filter(|other| old.is_none_or(|old| old.uid != other.uid))
    };
    cluster_ips(networks, transaction, spec, &|ip| {
        others().any(|other| other.fields.first().is_some_and(|used| used == ip))
    })?;
    let wants_ports = service_type == "NodePort"
        || (service_type == "LoadBalancer"
            && spec.get("allocateLoadBalancerNodePorts") != Some(&Value::Bool(false)));
    if wants_ports {
        node_ports(transaction, spec, others())?;
    }
    Ok(())
}

fn cluster_ips(
    networks: &Networks,
    transaction: &Transaction<'_>,
    spec: &mut Map<String, Value>,
    taken: &dyn Fn(&str) -> bool,
) -> Result<(), Cause> {
    let list = |spec: &Map<String, Value>, name: &str| -> Vec<String> {
        let list = spec.get(name).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut ips = list(spec, "clusterIPs");
    let given = spec.get("clusterIP").and_then(Value::as_str).unwrap_or_default().to_owned();
    if ips.is_empty() && !given.is_empty() {
        ips.push(given);
    }
    let policy = spec.get("ipFamilyPolicy").and_then(Value::as_str).unwrap_or("SingleStack").to_owned();
    let mut families = list(spec, "ipFamilies");
    if families.is_empty() {
        families =
            ips.iter().filter_map(|ip| ip.parse::<IpAddr>().ok()).map(|ip| family(ip).to_owned()).collect();
    }
    if families.is_empty() {
        families.push("IPv4".to_owned());
    }
    if policy != "SingleStack" && families.len() == 1 {
        families.push(if families[0] == "IPv4" { "IPv6" } else { "IPv4" }.to_owned());
    }
    if ips.first().is_none_or(|first| first != "None") {
        if let Some(first) = ips.first()
            && taken(first)
        {
            return Err(invalid(
                "spec.clusterIPs[0]",
                format!("\"{first}\""),
                "provided IP is already allocated",
            ));
        }
        for family in families.iter().skip(ips.len()) {
            let free = (0..10_000)
                .map(|_| networks.address(family, transaction.entropy()).to_string())
                .find(|ip| !taken(ip));
            ips.push(free.ok_or_else(|| {
                invalid("spec.clusterIPs", "[]", "failed to allocate an IP: range is full")
            })?);
        }
    }
    spec.insert("clusterIP".to_owned(), ips.first().cloned().unwrap_or_default().into());
    spec.insert("clusterIPs".to_owned(), ips.into());
    spec.insert("ipFamilies".to_owned(), families.into());
    spec.insert("ipFamilyPolicy".to_owned(), policy.into());
    Ok(())
}

fn family(ip: IpAddr) -> &'static str {
    if ip.is_ipv4() { "IPv4" } else { "IPv6" }
}

fn node_ports<'a>(
    transaction: &Transaction<'_>,
    spec: &mut Map<String, Value>,
    others: impl Iterator<Item = &'a Arc<Object>>,
) -> Result<(), Cause> {
    let number = |port: &Value| port.get("nodePort").and_then(Value::as_u64).filter(|port| *port > 0);
    let protocol = |port: &Value| port.get("protocol").and_then(Value::as_str).unwrap_or("TCP").to_owned();
    let mut used: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    for other in others
        .filter(|other| other.fields.get(1).is_some_and(|kind| kind == "NodePort" || kind == "LoadBalancer"))
    {
        let members = other.members();
        let ports = members.get("spec").and_then(|spec| spec.get("ports")).and_then(Value::as_array);
        for port in ports.into_iter().flatten() {
            if let Some(number) = number(port) {
                used.entry(number).or_default().insert(protocol(port));
            }
        }
    }
    let Some(Value::Array(ports)) = spec.get_mut("ports") else { return Ok(()) };
    for (at, port) in ports.iter_mut().enumerate() {
        let field = format!("spec.ports[{at}].nodePort");
        if let Some(number) = number(port) {
            if used.get(&number).is_some_and(|protocols| protocols.contains(&protocol(port))) {
                return Err(invalid(field, number, "provided port is already allocated"));
            }
            used.entry(number).or_default().insert(protocol(port));
            continue;
        }
        let (first, last) = NODE_PORTS;
        let start = transaction.entropy().below(last - first + 1);
        let free = (0..=last - first)
            .map(|step| first + (start + step) % (last - first + 1))
            .find(|port| !used.contains_key(port));
        let Some(free) = free else {
            return Err(invalid(field, 0, "failed to allocate a port: range is full"));
        };
        used.entry(free).or_default().insert(protocol(port));
        if let Value::Object(port) = port {
            port.insert("nodePort".to_owned(), free.into());
        }
    }
    Ok(())
}
