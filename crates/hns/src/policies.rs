//! What policies mean to HNS itself: which hold ports, which ask for pools, when two are the same.
//!
//! Settings are kept byte for byte; this module only reads them. Which types a build takes is in [`admit`].

use std::net::IpAddr;

use hcn::json::{Extra, Members};
use hcn::{Endpoint, Guid, HResult, Network, Policy, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::host::Protocol;
use crate::ports::{HostPort, Space};
use crate::tx::refuse;

mod admit;

pub(crate) use admit::{On, admit};

/// `NatFlags::IPv6`.
const NAT_IPV6: u32 = 2;

/// The family of an endpoint's OutBoundNAT pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NatPool {
    None,
    V4,
    V6,
}

/// One setting of a policy, under `Settings` or, as an old sample of Microsoft's has it, right beside `Type`.
pub(crate) fn setting<T: DeserializeOwned>(policy: &Policy, name: &str) -> Option<T> {
    let Some(settings) = &policy.settings else {
        return policy.extra.read(name);
    };
    let Members(members) = settings.read().ok()?;
    let (_, value) = members.iter().find(|(key, _)| key.eq_ignore_ascii_case(name))?;
    serde_json::from_str::<Option<T>>(value.get()).ok().flatten()
}

fn find<T: DeserializeOwned>(policies: &[Policy], kind: &str, name: &str) -> Option<T> {
    policies.iter().filter(|policy| policy.kind.is(kind)).find_map(|policy| setting(policy, name))
}

/// The adapter that a network names.
pub(crate) fn adapter_name(network: &Network) -> Option<String> {
    let name: Option<String> = find(&network.policies, "NetAdapterName", "NetworkAdapterName");
    name.filter(|name| !name.is_empty())
}

/// The layer that a network is to lie on.
pub(crate) fn layer_constraint(network: &Network) -> Option<Guid> {
    find(&network.policies, "LayerConstraint", "LayerId")
}

/// The virtual subnet id of a subnet.
pub(crate) fn vsid(policies: &[Policy]) -> Option<u32> {
    find(policies, "VSID", "IsolationId")
}

/// The pool that an endpoint's policies ask for; a remote endpoint sends nothing from here.
pub(crate) fn nat_pool(endpoint: &Endpoint) -> NatPool {
    if endpoint.is_remote() {
        return NatPool::None;
    }
    match endpoint.policies.iter().find(|policy| policy.kind.is("OutBoundNAT")) {
        None => NatPool::None,
        Some(policy) if setting(policy, "Flags").unwrap_or(0u32) & NAT_IPV6 != 0 => NatPool::V6,
        Some(_) => NatPool::V4,
    }
}

/// The host ports that an endpoint's policies hold, each once.
pub(crate) fn port_mappings(endpoint: &Endpoint) -> Vec<HostPort> {
    let mut ports: Vec<HostPort> = endpoint
        .policies
        .iter()
        .filter(|policy| policy.kind.is("PortMapping"))
        .filter_map(|policy| port_mapping(policy).ok().flatten())
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// The host port that a PortMapping policy holds: none when HNS may choose one.
pub(crate) fn port_mapping(policy: &Policy) -> Result<Option<HostPort>> {
    let internal: u16 = setting(policy, "InternalPort").unwrap_or(0);
    if internal == 0 {
        return Err(refuse(
            HResult::INVALID_INTERNAL_PORT,
            "policy PortMapping: InternalPort is 0 or absent",
        ));
    }
    let vip: Option<String> = setting(policy, "VIP");
    let vip = match vip.filter(|text| !text.is_empty()) {
        None => None,
        Some(text) => Some(text.parse::<IpAddr>().map_err(|_| {
            refuse(HResult::INVALID_IP, format!("policy PortMapping: VIP {text:?} is not an address"))
        })?),
    };
    let flags: u32 = setting(policy, "Flags").unwrap_or(0);
    let ipv6 = vip.map_or(flags & NAT_IPV6 != 0, |vip| vip.is_ipv6());
    let protocol = Protocol::from_number(setting(policy, "Protocol").unwrap_or(0));
    let port: u16 = setting(policy, "ExternalPort").unwrap_or(0);
    Ok(protocol.filter(|_| port != 0).map(|protocol| HostPort { space: Space { protocol, ipv6 }, vip, port }))
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
