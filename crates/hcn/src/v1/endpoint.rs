//! Endpoints, v1 to v2 and back.

use crate::endpoint::{EndpointFlags, IpConfig};
use crate::guid::Guid;
use crate::json::Extra;
use crate::network::Route;
use crate::policy::Policy;

use super::carry::{
    FlatDns, FlatHealth, beside, default_route, dns_from_v2, dns_to_v2, fact, health_from_v2, health_to_v2,
    keep, lift, one_setting, take, take_gateway,
};
use super::documents::{Endpoint, NamespaceRef};
use super::facts::Facts;
use super::policy::{policy_from_v2, policy_to_v2};

/// The flags that v1 also has as members of their own.
const NAMED_FLAGS: [EndpointFlags; 4] = [
    EndpointFlags::REMOTE_ENDPOINT,
    EndpointFlags::DISABLE_INTER_COMPUTE_COMMUNICATION,
    EndpointFlags::ENABLE_LOW_INTERFACE_METRIC,
    EndpointFlags::OVERRIDE_DNS_SERVER_ORDER,
];

/// A v1 endpoint as a v2 document. Service-owned members are left out ([`Facts::of_endpoint`] has them), and the
/// schema version is the caller's to set. A flag is set when `Flags` or its own member says so.
pub fn endpoint_to_v2(v1: &Endpoint) -> crate::Endpoint {
    // Taken apart without `..`, so that a new member cannot be forgotten.
    let Endpoint {
        activity_id: _,
        additional_params: _,
        create_processing_start_time: _,
        dns_domain,
        dns_server_list,
        dns_suffix,
        disable_icc,
        enable_internal_dns,
        enable_low_metric,
        encap_overhead,
        flags,
        gateway_address,
        gateway_address_v6,
        health,
        id,
        ip_address,
        ip_subnet_id,
        ipv6_address,
        ipv6_prefix_length,
        is_remote_endpoint,
        mac_address,
        name,
        namespace,
        policies,
        prefix_length,
        resources,
        shared_containers,
        start_time: _,
        state: _,
        network_mode: _,
        version: _,
        virtual_network,
        virtual_network_name: _,
        extra,
    } = v1;

    let mut extra = extra.clone();
    let mut policies: Vec<Policy> = policies.iter().map(policy_to_v2).collect();
    if let Some(overhead) = encap_overhead {
        policies.push(one_setting("EncapOverhead", "Overhead", overhead));
    }
    let mut v2_flags = *flags;
    for (flag, set) in
        NAMED_FLAGS.iter().zip([is_remote_endpoint, disable_icc, enable_low_metric, enable_internal_dns])
    {
        v2_flags.set(*flag, set.unwrap_or(false) || v2_flags.contains(*flag));
    }
    let mut routes: Vec<Route> = [gateway_address, gateway_address_v6]
        .into_iter()
        .filter(|gateway| !gateway.is_empty())
        .map(|gateway| default_route(gateway))
        .collect();
    routes.extend(take::<Vec<Route>>(&mut extra, "Routes").unwrap_or_default());

    let flat_dns =
        FlatDns { domain: dns_domain.clone(), suffix: dns_suffix.clone(), servers: dns_server_list.clone() };
    let flat_health = FlatHealth {
        data: health.clone(),
        resources: resources.clone(),
        shared_containers: shared_containers.clone(),
        layered_on: take(&mut extra, "LayeredOn"),
        switch_guid: take(&mut extra, "SwitchGuid"),
    };
    let addresses = [
        FlatAddress {
            address: ip_address,
            prefix_length: *prefix_length,
            ip_subnet_id: *ip_subnet_id,
            prefix_name: "PrefixLength",
        },
        FlatAddress {
            address: ipv6_address,
            prefix_length: *ipv6_prefix_length,
            ip_subnet_id: None,
            prefix_name: "IPv6PrefixLength",
        },
    ];
    let ip_configurations = ip_configurations(&addresses, &mut extra);
    let dns = dns_to_v2(&flat_dns, &mut extra);
    let health = health_to_v2(flat_health, &mut extra);
    let owner = take(&mut extra, "Owner");
    crate::Endpoint {
        id: *id,
        owner,
        name: name.clone(),
        network: *virtual_network,
        namespace: namespace.as_ref().and_then(|namespace| namespace.id),
        policies,
        ip_configurations,
        dns,
        routes,
        mac_address: mac_address.clone(),
        flags: v2_flags,
        health,
        schema_version: None,
        extra: beside(extra, crate::Endpoint::KEYS),
    }
}

/// The v1 words about one address.
struct FlatAddress<'a> {
    address: &'a str,
    prefix_length: u8,
    ip_subnet_id: Option<Guid>,
    /// The member of the prefix length, which is kept under this name when there is no address.
    prefix_name: &'static str,
}

/// v1 addresses as configurations; a list that [`endpoint_from_v2`] kept has the say about what it holds.
fn ip_configurations(addresses: &[FlatAddress<'_>], extra: &mut Extra) -> Vec<IpConfig> {
    let mut configurations = Vec::new();
    for flat in addresses {
        if flat.address.is_empty() {
            keep(extra, flat.prefix_name, &flat.prefix_length);
            keep(extra, "IPSubnetId", &flat.ip_subnet_id);
        } else {
            configurations.push(flat.configuration());
        }
    }
    let kept = take::<Vec<IpConfig>>(extra, "IpConfigurations").unwrap_or_default();
    configurations.retain(|own| kept.iter().all(|kept| kept.ip_address != own.ip_address));
    configurations.extend(kept);
    configurations
}

impl FlatAddress<'_> {
    fn configuration(&self) -> IpConfig {
        IpConfig {
            ip_address: self.address.to_owned(),
            prefix_length: self.prefix_length,
            ip_subnet_id: self.ip_subnet_id,
            extra: Extra::default(),
        }
    }
}

/// A v2 endpoint as a v1 document.
pub fn endpoint_from_v2(v2: &crate::Endpoint, facts: &Facts) -> Endpoint {
    let crate::Endpoint {
        id,
        owner,
        name,
        network,
        namespace,
        policies,
        ip_configurations,
        dns,
        routes,
        mac_address,
        flags,
        health,
        schema_version: _,
        extra,
    } = v2;

    let mut extra = extra.clone();
    let mut policies = policies.clone();
    let encap_overhead = lift(&mut policies, "EncapOverhead", "Overhead");
    let mut routes = routes.clone();
    let gateway_address = take_gateway(&mut routes, "0.0.0.0/0");
    let gateway_address_v6 = take_gateway(&mut routes, "::/0");
    keep(&mut extra, "Routes", &routes);
    let flat_dns = dns_from_v2(dns.as_ref(), &mut extra);
    let flat_health = health_from_v2(health.as_ref(), &mut extra);
    keep(&mut extra, "Owner", owner);
    keep(&mut extra, "LayeredOn", &flat_health.layered_on);
    keep(&mut extra, "SwitchGuid", &flat_health.switch_guid);
    let (v4, v6) = flat_addresses(ip_configurations, &mut extra);
    // Without an address, what was said of it is among the unknown members.
    let v4 = v4.unwrap_or_else(|| IpConfig {
        prefix_length: take(&mut extra, "PrefixLength").unwrap_or_default(),
        ip_subnet_id: take(&mut extra, "IPSubnetId"),
        ..IpConfig::default()
    });
    let v6 = v6.unwrap_or_else(|| IpConfig {
        prefix_length: take(&mut extra, "IPv6PrefixLength").unwrap_or_default(),
        ..IpConfig::default()
    });
    let [is_remote_endpoint, disable_icc, enable_low_metric, enable_internal_dns] =
        NAMED_FLAGS.map(|flag| flags.contains(flag).then_some(true));

    Endpoint {
        activity_id: fact(facts.activity_id.as_ref(), &mut extra, "ActivityId"),
        additional_params: fact(facts.additional_params.as_ref(), &mut extra, "AdditionalParams"),
        create_processing_start_time: fact(
            facts.create_processing_start_time.as_ref(),
            &mut extra,
            "CreateProcessingStartTime",
        ),
        dns_domain: flat_dns.domain,
        dns_server_list: flat_dns.servers,
        dns_suffix: flat_dns.suffix,
        disable_icc,
        enable_internal_dns,
        enable_low_metric,
        encap_overhead,
        flags: *flags,
        gateway_address: gateway_address.or_else(|| facts.gateway_address.clone()).unwrap_or_default(),
        gateway_address_v6: gateway_address_v6
            .or_else(|| facts.gateway_address_v6.clone())
            .unwrap_or_default(),
        health: facts.health.clone().or(flat_health.data),
        id: *id,
        ip_address: v4.ip_address,
        ip_subnet_id: v4.ip_subnet_id,
        ipv6_address: v6.ip_address,
        ipv6_prefix_length: v6.prefix_length,
        is_remote_endpoint,
        mac_address: mac_address.clone(),
        name: name.clone(),
        namespace: namespace.map(|id| NamespaceRef { id: Some(id), ..NamespaceRef::default() }),
        policies: policies.iter().map(policy_from_v2).collect(),
        prefix_length: v4.prefix_length,
        resources: facts.resources.clone().or(flat_health.resources),
        shared_containers: flat_health.shared_containers,
        start_time: fact(facts.start_time.as_ref(), &mut extra, "StartTime"),
        state: fact(facts.endpoint_state.as_ref(), &mut extra, "State"),
        network_mode: fact(facts.network_mode.as_ref(), &mut extra, "Type"),
        version: fact(facts.version.as_ref(), &mut extra, "Version"),
        virtual_network: *network,
        virtual_network_name: fact(facts.virtual_network_name.as_ref(), &mut extra, "VirtualNetworkName"),
        extra: beside(extra, Endpoint::KEYS),
    }
}

/// The first address of each family. A list that these do not say in full is kept as it is.
fn flat_addresses(configurations: &[IpConfig], extra: &mut Extra) -> (Option<IpConfig>, Option<IpConfig>) {
    let first = |v6: bool| {
        let of_family = |own: &&IpConfig| !own.ip_address.is_empty() && own.ip_address.contains(':') == v6;
        configurations.iter().find(of_family).cloned()
    };
    let (v4, v6) = (first(false), first(true));
    let said = |config: &IpConfig| config.extra.is_empty();
    let in_full = v4.as_ref().is_none_or(said)
        && v6.as_ref().is_none_or(|config| said(config) && config.ip_subnet_id.is_none())
        && configurations.iter().eq(v4.iter().chain(v6.iter()));
    if !in_full {
        keep(extra, "IpConfigurations", &configurations.to_vec());
    }
    (v4, v6)
}
