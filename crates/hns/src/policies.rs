//! What policies mean to HNS itself: which hold ports, which ask for pools, when two are the same.
//!
//! Settings are kept byte for byte; this module only reads them. Which types a build takes is in [`admit`].

use std::net::IpAddr;

use hcn::json::Extra;
use hcn::policy::endpoint::PortMapping;
use hcn::policy::{EndpointPolicy, NatFlags, NetworkPolicy, SubnetPolicy};
use hcn::{Endpoint, Guid, HResult, Network, Policy, Result};
use serde_json::Value;

use crate::host::Protocol;
use crate::ports::{HostPort, Space};
use crate::tx::refuse;

mod admit;

pub(crate) use admit::{On, admit};

/// The first policy of a type that reads; policies that do not were refused when they came.
fn network_policy(network: &Network, kind: &str) -> Option<NetworkPolicy> {
    let mut policies = network.policies.iter().filter(|policy| policy.kind.is(kind));
    policies.find_map(|policy| NetworkPolicy::decode(policy).ok())
}

/// The adapter that a network names.
pub(crate) fn adapter_name(network: &Network) -> Option<String> {
    match network_policy(network, "NetAdapterName")? {
        NetworkPolicy::NetAdapterName(named) => {
            Some(named.network_adapter_name).filter(|name| !name.is_empty())
        }
        _ => None,
    }
}

/// The layer that a network is to lie on.
pub(crate) fn layer_constraint(network: &Network) -> Option<Guid> {
    match network_policy(network, "LayerConstraint")? {
        NetworkPolicy::LayerConstraint(constraint) => constraint.layer_id,
        _ => None,
    }
}

/// The virtual subnet id of a subnet.
pub(crate) fn vsid(policies: &[Policy]) -> Option<u32> {
    policies.iter().find_map(|policy| match SubnetPolicy::decode(policy) {
        Ok(SubnetPolicy::Vsid(isolation)) => Some(isolation.isolation_id),
        _ => None,
    })
}

/// Whether an endpoint's policies ask for pools of IPv4 and of IPv6; a remote endpoint sends nothing from here.
pub(crate) fn nat_pools(endpoint: &Endpoint) -> [bool; 2] {
    let mut wanted = [false; 2];
    if endpoint.is_remote() {
        return wanted;
    }
    for policy in endpoint.policies.iter().filter(|policy| policy.kind.is("OutBoundNAT")) {
        if let Ok(EndpointPolicy::OutboundNat(nat)) = EndpointPolicy::decode(policy) {
            wanted[usize::from(nat.flags.contains(NatFlags::IPV6))] = true;
        }
    }
    wanted
}

/// The host ports that an endpoint's policies hold, each once.
pub(crate) fn port_mappings(endpoint: &Endpoint) -> Vec<HostPort> {
    let mappings = endpoint.policies.iter().filter(|policy| policy.kind.is("PortMapping"));
    let mut ports: Vec<HostPort> = mappings
        .filter_map(|policy| match EndpointPolicy::decode(policy) {
            Ok(EndpointPolicy::PortMapping(mapping)) => host_port(&mapping).ok().flatten(),
            _ => None,
        })
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// The host port that a PortMapping policy holds: none when HNS may choose one.
pub(crate) fn host_port(mapping: &PortMapping) -> Result<Option<HostPort>> {
    if mapping.internal_port == 0 {
        return Err(refuse(
            HResult::INVALID_INTERNAL_PORT,
            "policy PortMapping: InternalPort is 0 or absent",
        ));
    }
    let vip: Option<IpAddr> = match mapping.vip.as_str() {
        "" => None,
        text => Some(text.parse().map_err(|_| {
            refuse(HResult::INVALID_IP, format!("policy PortMapping: VIP {text:?} is not an address"))
        })?),
    };
    let ipv6 = vip.map_or(mapping.flags.contains(NatFlags::IPV6), |vip| vip.is_ipv6());
    let protocol = Protocol::from_number(mapping.protocol).filter(|_| mapping.external_port != 0);
    Ok(protocol.map(|protocol| HostPort {
        space: Space { protocol, ipv6 },
        vip,
        port: mapping.external_port,
    }))
}

/// `{}`: PowerShell's way to say "none".
pub(crate) fn is_blank(policy: &Policy) -> bool {
    policy.kind.text().is_empty() && policy.settings.is_none() && policy.extra.is_empty()
}

/// Whether two policies say the same: type without regard to case, settings as JSON values.
pub(crate) fn same(a: &Policy, b: &Policy) -> bool {
    if !a.kind.text().eq_ignore_ascii_case(&b.kind.text()) {
        return false;
    }
    let value = |policy: &Policy| {
        let settings: Option<Value> = policy.settings.as_ref().and_then(|raw| raw.read().ok());
        // No settings and empty settings are the same: hcsshim sends HostRoute with `{}`.
        settings
            .filter(|value| !matches!(value, Value::Null) && *value != Value::Object(serde_json::Map::new()))
    };
    value(a) == value(b)
}

/// Takes the policy with this content out of a list.
pub(crate) fn remove_one(policies: &mut Vec<Policy>, gone: &Policy) -> Result<()> {
    let Some(at) = policies.iter().position(|own| same(own, gone)) else {
        let detail = format!("there is no policy {} with these settings", gone.kind.text());
        return Err(refuse(HResult::POLICY_NOT_FOUND, detail));
    };
    policies.remove(at);
    Ok(())
}

/// Base fields that the service writes: what a client sends back of what it once read is not kept.
pub(crate) fn strip_base_fields(extra: &mut Extra) {
    for name in ["Version", "State", "Telemetry"] {
        extra.remove(name);
    }
}

/// Whether a prefix is the default route's.
pub(crate) fn is_default(prefix: &str) -> bool {
    matches!(prefix, "0.0.0.0/0" | "::/0")
}
