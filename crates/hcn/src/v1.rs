//! HNS v1 documents (what `HNSCall` speaks) and their conversion to and from v2.
//!
//! Every member of a v1 document is in exactly one of three places after conversion: a field of the v2 document,
//! the v2 document's unknown members (a setting that v2 has no word for, kept under its v1 name), or [`Facts`]
//! (what the service knows and v2 documents do not carry: states, counters, names of other objects). So
//! `x_from_v2(&x_to_v2(&doc), &Facts::of_x(&doc))` gives the document back, in its canonical spelling: an ACL's
//! `Protocol: 6` becomes `Protocols: "6"`, since v1 knows both words for it and v2 only the second.
//!
//! The correspondence comes from hcsshim's types, Microsoft's schema pages and dumps of v1 objects in public
//! reports; docs/fidelity.md names the inferred rows. This module knows no object but the one it converts: what
//! depends on others comes in through [`Facts`].

use crate::Kind;
use crate::error::Result;
use crate::json::Members;
use crate::query::SchemaVersion;

mod carry;
mod documents;
mod endpoint;
mod facts;
mod namespace;
mod network;
mod policy;
mod policy_list;

pub use documents::{
    AccelnetMacs, AttachRequest, Endpoint, EndpointState, EndpointStats, Extension, IpSubnet, MacEntry,
    Namespace, NamespaceRef, Network, PolicyList, Subnet, SystemType,
};
pub use endpoint::{endpoint_from_v2, endpoint_to_v2};
pub use facts::Facts;
pub use namespace::{namespace_from_v2, namespace_to_v2};
pub use network::{network_from_v2, network_to_v2, subnet_from_v2, subnet_to_v2};
pub use policy::{policy_from_v2, policy_to_v2};
pub use policy_list::{
    ElbPolicy, PolicyListObject, RoutePolicy, policy_list_from_load_balancer, policy_list_from_route,
    policy_list_to_v2,
};

/// Names that only v1 documents have, by kind; the first list of each pair. The second has the v2-only names.
const fn telling_names(kind: Kind) -> (&'static [&'static str], &'static [&'static str]) {
    match kind {
        Kind::Network => (
            &[
                "Subnets",
                "MacPools",
                "NetworkAdapterName",
                "SourceMac",
                "DNSSuffix",
                "DNSServerList",
                "DNSDomain",
                "DNSServerCompartment",
                "ManagementIP",
                "AutomaticDNS",
                "DrMacAddress",
                "NatName",
                "GatewayMac",
                "LayeredOn",
                "SwitchGuid",
            ],
            &["Ipams", "MacPool", "Dns"],
        ),
        Kind::Endpoint => (
            &[
                "VirtualNetwork",
                "VirtualNetworkName",
                "IPAddress",
                "IPv6Address",
                "PrefixLength",
                "IPv6PrefixLength",
                "GatewayAddress",
                "GatewayAddressV6",
                "DNSSuffix",
                "DNSServerList",
                "DNSDomain",
                "EnableInternalDNS",
                "DisableICC",
                "EnableLowMetric",
                "IsRemoteEndpoint",
                "Namespace",
                "EncapOverhead",
                "SharedContainers",
            ],
            &["HostComputeNetwork", "HostComputeNamespace", "IpConfigurations", "Dns", "Routes"],
        ),
        Kind::Namespace => (
            &["IsDefault", "CompartmentId", "CompartmentGuid", "ResourceList"],
            &["NamespaceId", "NamespaceGuid", "Type", "CreateWithCompartment"],
        ),
        Kind::LoadBalancer => (
            &["References"],
            &["HostComputeEndpoints", "HostComputeNetwork", "FrontendVIPs", "PortMappings", "SourceVIP"],
        ),
        Kind::SdnRoute => {
            (&["References"], &["HostComputeEndpoints", "HostComputeNetwork", "Setting", "Routes"])
        }
    }
}

/// Whether settings given to an HCN create call are a v1 document.
///
/// Schema version 2 or higher says v2. Without one, or with 0.x and 1.x, the names decide: a v2-only name makes
/// it v2, else a v1-only name or a flat policy makes it v1. A document with neither reads the same both ways and
/// counts as v2, and so does text that is not a JSON object (its reader says what is wrong with it).
pub fn is_v1(kind: Kind, text: &str) -> bool {
    let Ok(Members(members)) = serde_json::from_str::<Members<'_>>(text) else {
        return false;
    };
    let (v1_names, v2_names) = telling_names(kind);
    let has = |names: &[&str]| {
        members.iter().any(|(key, _)| names.iter().any(|name| key.eq_ignore_ascii_case(name)))
    };
    let member = |name: &str| members.iter().rev().find(|(key, _)| key.eq_ignore_ascii_case(name));
    let major = member("SchemaVersion")
        .and_then(|(_, raw)| serde_json::from_str::<SchemaVersion>(raw.get()).ok())
        .map_or(0, |version| version.major);
    if major >= 2 || has(v2_names) {
        return false;
    }
    has(v1_names) || member("Policies").is_some_and(|(_, raw)| has_flat_policy(raw.get()))
}

/// Whether a `Policies` array holds a policy with members beside `Type` and without `Settings`.
fn has_flat_policy(policies: &str) -> bool {
    let Ok(policies) = serde_json::from_str::<Vec<Members<'_>>>(policies) else {
        return false;
    };
    policies.iter().any(|Members(members)| {
        let named = |name: &str| members.iter().any(|(key, _)| key.eq_ignore_ascii_case(name));
        members.len() > 1 && !named("Settings") && !named("Data")
    })
}

/// Reads a network given in either form.
pub fn read_network(text: &str) -> Result<crate::Network> {
    if is_v1(Kind::Network, text) {
        Ok(network_to_v2(&Network::parse(text)?))
    } else {
        Ok(crate::Network::parse(text)?)
    }
}

/// Reads an endpoint given in either form.
pub fn read_endpoint(text: &str) -> Result<crate::Endpoint> {
    if is_v1(Kind::Endpoint, text) {
        Ok(endpoint_to_v2(&Endpoint::parse(text)?))
    } else {
        Ok(crate::Endpoint::parse(text)?)
    }
}

/// Reads a namespace given in either form.
pub fn read_namespace(text: &str) -> Result<crate::Namespace> {
    if is_v1(Kind::Namespace, text) {
        Ok(namespace_to_v2(&Namespace::parse(text)?))
    } else {
        Ok(crate::Namespace::parse(text)?)
    }
}

/// Reads a load balancer given in either form; a v1 policy list of routes is refused.
pub fn read_load_balancer(text: &str) -> Result<crate::LoadBalancer> {
    if !is_v1(Kind::LoadBalancer, text) {
        return Ok(crate::LoadBalancer::parse(text)?);
    }
    match policy_list_to_v2(&PolicyList::parse(text)?)? {
        PolicyListObject::LoadBalancer(balancer) => Ok(balancer),
        PolicyListObject::SdnRoute(_) => Err(policy_list::wrong_kind("ELB", "ROUTE")),
    }
}

/// Reads an SDN route given in either form; a v1 policy list of load balancers is refused.
pub fn read_route(text: &str) -> Result<crate::SdnRoute> {
    if !is_v1(Kind::SdnRoute, text) {
        return Ok(crate::SdnRoute::parse(text)?);
    }
    match policy_list_to_v2(&PolicyList::parse(text)?)? {
        PolicyListObject::SdnRoute(route) => Ok(route),
        PolicyListObject::LoadBalancer(_) => Err(policy_list::wrong_kind("ROUTE", "ELB")),
    }
}
