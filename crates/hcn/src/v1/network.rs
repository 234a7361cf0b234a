//! Networks, v1 to v2 and back.

use crate::json::Extra;
use crate::network::{self, Ipam, IpamType, MacPool, MacRange};
use crate::policy::Policy;

use super::carry::{
    FlatDns, FlatHealth, beside, default_prefix, default_route, dns_from_v2, dns_to_v2, fact, health_from_v2,
    health_to_v2, keep, lift, merge, one_setting, take, take_gateway,
};
use super::documents::{IpSubnet, Network, OBJECT_TYPE_IP_SUBNET, OBJECT_TYPE_SUBNET, Subnet};
use super::facts::Facts;
use super::policy::{policy_from_v2, policy_to_v2};

/// A v1 network as a v2 document. Service-owned members are left out ([`Facts::of_network`] has them), and the
/// schema version is the caller's to set.
pub fn network_to_v2(v1: &Network) -> crate::Network {
    // Taken apart without `..`, so that a new member cannot be forgotten.
    let Network {
        activity_id: _,
        additional_params,
        automatic_dns,
        current_endpoint_count: _,
        dns_domain,
        dns_server_compartment,
        dns_server_list,
        dns_suffix,
        dr_mac_address,
        extensions,
        flags,
        gateway_mac,
        health,
        id,
        ipv6,
        layered_on,
        mac_pools,
        management_ip,
        max_concurrent_endpoints: _,
        name,
        nat_name,
        network_adapter_name,
        policies,
        resources,
        source_mac,
        state: _,
        subnets,
        switch_guid,
        total_endpoints: _,
        mode,
        version: _,
        extra,
    } = v1;

    let mut extra = extra.clone();
    let mut v2_policies: Vec<Policy> = policies.iter().map(policy_to_v2).collect();
    let mut add = |kind: &str, member: &str, value: &str| {
        if !value.is_empty() {
            v2_policies.push(one_setting(kind, member, &value));
        }
    };
    add("NetAdapterName", "NetworkAdapterName", network_adapter_name);
    add("SourceMacAddress", "SourceMacAddress", source_mac);
    add("DrMacAddress", "Address", dr_mac_address);
    add("ProviderAddress", "ProviderAddress", management_ip);
    if let Some(enable) = automatic_dns {
        v2_policies.push(one_setting("AutomaticDNS", "Enable", enable));
    }

    let flat_dns =
        FlatDns { domain: dns_domain.clone(), suffix: dns_suffix.clone(), servers: dns_server_list.clone() };
    let flat_health = FlatHealth {
        data: health.clone(),
        resources: resources.clone(),
        shared_containers: take(&mut extra, "SharedContainers"),
        layered_on: *layered_on,
        switch_guid: *switch_guid,
    };
    let document = crate::Network {
        id: *id,
        owner: take(&mut extra, "Owner"),
        name: name.clone(),
        mode: mode.clone(),
        policies: v2_policies,
        mac_pool: mac_pool(mac_pools, &mut extra),
        dns: dns_to_v2(&flat_dns, &mut extra),
        ipams: ipams(subnets, &mut extra),
        flags: *flags,
        health: health_to_v2(flat_health, &mut extra),
        schema_version: None,
        extra: Extra::default(),
    };
    keep(&mut extra, "AdditionalParams", additional_params);
    keep(&mut extra, "DNSServerCompartment", dns_server_compartment);
    keep(&mut extra, "Extensions", extensions);
    keep(&mut extra, "GatewayMac", gateway_mac);
    keep(&mut extra, "IPv6", ipv6);
    keep(&mut extra, "NatName", nat_name);
    crate::Network { extra: beside(extra, crate::Network::KEYS), ..document }
}

/// v1 subnets are one static IPAM. IPAMs that [`network_from_v2`] kept follow; one without subnets only has
/// members that are not known, which belong to the static one.
fn ipams(subnets: &[Subnet], extra: &mut Extra) -> Vec<Ipam> {
    let mut ipams = Vec::new();
    if !subnets.is_empty() {
        let subnets = subnets.iter().map(subnet_to_v2).collect();
        ipams.push(Ipam { kind: Some(IpamType::Static), subnets, ..Ipam::default() });
    }
    for kept in take::<Vec<Ipam>>(extra, "Ipams").unwrap_or_default() {
        match ipams.first_mut() {
            Some(first) if is_static(&kept) && kept.subnets.is_empty() => {
                merge(&mut first.extra, &kept.extra);
            }
            _ => ipams.push(kept),
        }
    }
    ipams
}

fn is_static(ipam: &Ipam) -> bool {
    ipam.kind.as_ref().is_none_or(|kind| *kind == IpamType::Static)
}

/// v1 has one list of subnets. IPAMs of other kinds are kept apart, or they would come back as static ones, and so
/// are the unknown members of static ones.
fn subnets(ipams: &[Ipam], extra: &mut Extra) -> Vec<Subnet> {
    let mut rest = Ipam::default();
    let mut kept = Vec::new();
    let mut subnets = Vec::new();
    for ipam in ipams {
        if is_static(ipam) {
            subnets.extend(ipam.subnets.iter().map(subnet_from_v2));
            merge(&mut rest.extra, &ipam.extra);
        } else {
            kept.push(ipam.clone());
        }
    }
    if !rest.extra.is_empty() {
        kept.insert(0, rest);
    }
    keep(extra, "Ipams", &kept);
    subnets
}

fn mac_pool(ranges: &[MacRange], extra: &mut Extra) -> Option<MacPool> {
    let kept: MacPool = take(extra, "MacPool").unwrap_or_default();
    let pool = MacPool { ranges: ranges.to_vec(), extra: kept.extra };
    (pool != MacPool::default()).then_some(pool)
}

/// A v2 network as a v1 document.
pub fn network_from_v2(v2: &crate::Network, facts: &Facts) -> Network {
    let crate::Network {
        id,
        owner,
        name,
        mode,
        policies,
        mac_pool,
        dns,
        ipams,
        flags,
        health,
        schema_version: _,
        extra,
    } = v2;

    let mut extra = extra.clone();
    let mut policies = policies.clone();
    let mut lifted =
        |kind: &str, member: &str| lift::<String>(&mut policies, kind, member).unwrap_or_default();
    let network_adapter_name = lifted("NetAdapterName", "NetworkAdapterName");
    let source_mac = lifted("SourceMacAddress", "SourceMacAddress");
    let dr_mac_address = lifted("DrMacAddress", "Address");
    let management_ip = lifted("ProviderAddress", "ProviderAddress");
    let automatic_dns = lift(&mut policies, "AutomaticDNS", "Enable");

    let flat_dns = dns_from_v2(dns.as_ref(), &mut extra);
    let flat_health = health_from_v2(health.as_ref(), &mut extra);
    keep(&mut extra, "Owner", owner);
    keep(&mut extra, "SharedContainers", &flat_health.shared_containers);
    let pool = mac_pool.clone().unwrap_or_default();
    let pool_rest = MacPool { ranges: Vec::new(), extra: pool.extra };
    keep(&mut extra, "MacPool", &(pool_rest != MacPool::default()).then_some(pool_rest));
    let subnets = subnets(ipams, &mut extra);

    Network {
        activity_id: fact(facts.activity_id.as_ref(), &mut extra, "ActivityId"),
        additional_params: take(&mut extra, "AdditionalParams"),
        automatic_dns,
        current_endpoint_count: fact(
            facts.current_endpoint_count.as_ref(),
            &mut extra,
            "CurrentEndpointCount",
        ),
        dns_domain: flat_dns.domain,
        dns_server_compartment: take(&mut extra, "DNSServerCompartment"),
        dns_server_list: flat_dns.servers,
        dns_suffix: flat_dns.suffix,
        dr_mac_address: facts.dr_mac_address.clone().unwrap_or(dr_mac_address),
        extensions: take(&mut extra, "Extensions").unwrap_or_default(),
        flags: *flags,
        gateway_mac: take(&mut extra, "GatewayMac").unwrap_or_default(),
        health: facts.health.clone().or(flat_health.data),
        id: *id,
        ipv6: take(&mut extra, "IPv6"),
        layered_on: flat_health.layered_on,
        mac_pools: pool.ranges,
        management_ip: facts.management_ip.clone().unwrap_or(management_ip),
        max_concurrent_endpoints: fact(
            facts.max_concurrent_endpoints.as_ref(),
            &mut extra,
            "MaxConcurrentEndpoints",
        ),
        name: name.clone(),
        nat_name: take(&mut extra, "NatName").unwrap_or_default(),
        network_adapter_name,
        policies: policies.iter().map(policy_from_v2).collect(),
        resources: facts.resources.clone().or(flat_health.resources),
        source_mac,
        state: fact(facts.state.as_ref(), &mut extra, "State"),
        subnets,
        switch_guid: flat_health.switch_guid,
        total_endpoints: fact(facts.total_endpoints.as_ref(), &mut extra, "TotalEndpoints"),
        mode: mode.clone(),
        version: fact(facts.version.as_ref(), &mut extra, "Version"),
        extra: beside(extra, Network::KEYS),
    }
}

/// A v1 subnet as a v2 one.
pub fn subnet_to_v2(v1: &Subnet) -> network::Subnet {
    let Subnet {
        additional_params,
        address_prefix,
        flags,
        gateway_address,
        health,
        id,
        ip_subnets,
        object_type: _,
        policies,
        state: _,
        extra,
    } = v1;
    let mut extra = extra.clone();
    let mut routes = Vec::new();
    if !gateway_address.is_empty() {
        routes.push(default_route(gateway_address));
    }
    routes.extend(take::<Vec<network::Route>>(&mut extra, "Routes").unwrap_or_default());
    keep(&mut extra, "AdditionalParams", additional_params);
    keep(&mut extra, "Health", health);
    network::Subnet {
        id: *id,
        prefix: address_prefix.clone(),
        policies: policies.iter().map(policy_to_v2).collect(),
        routes,
        ip_subnets: ip_subnets.iter().map(ip_subnet_to_v2).collect(),
        flags: *flags,
        extra: beside(extra, network::Subnet::KEYS),
    }
}

/// A v2 subnet as a v1 one. Routes other than the gateway's are kept as `Routes`.
pub fn subnet_from_v2(v2: &network::Subnet) -> Subnet {
    let network::Subnet { id, prefix, policies, routes, ip_subnets, flags, extra } = v2;
    let mut extra = extra.clone();
    let mut routes = routes.clone();
    let gateway_address = take_gateway(&mut routes, default_prefix(prefix)).unwrap_or_default();
    keep(&mut extra, "Routes", &routes);
    Subnet {
        additional_params: take(&mut extra, "AdditionalParams"),
        address_prefix: prefix.clone(),
        flags: *flags,
        gateway_address,
        health: take(&mut extra, "Health"),
        id: *id,
        ip_subnets: ip_subnets.iter().map(ip_subnet_from_v2).collect(),
        object_type: Some(OBJECT_TYPE_SUBNET),
        policies: policies.iter().map(policy_from_v2).collect(),
        // The service's own; a v2 document has no word for it, so what stands there under its name is no state.
        state: None,
        extra: beside(extra, Subnet::KEYS),
    }
}

fn ip_subnet_to_v2(v1: &IpSubnet) -> network::IpSubnet {
    let IpSubnet { additional_params, flags, health, id, prefix, object_type: _, state: _, extra } = v1;
    let mut extra = extra.clone();
    keep(&mut extra, "AdditionalParams", additional_params);
    keep(&mut extra, "Health", health);
    let extra = beside(extra, network::IpSubnet::KEYS);
    network::IpSubnet { id: *id, prefix: prefix.clone(), flags: *flags, extra }
}

fn ip_subnet_from_v2(v2: &network::IpSubnet) -> IpSubnet {
    let network::IpSubnet { id, prefix, flags, extra } = v2;
    let mut extra = extra.clone();
    IpSubnet {
        additional_params: take(&mut extra, "AdditionalParams"),
        flags: *flags,
        health: take(&mut extra, "Health"),
        id: *id,
        prefix: prefix.clone(),
        object_type: Some(OBJECT_TYPE_IP_SUBNET),
        state: None,
        extra: beside(extra, IpSubnet::KEYS),
    }
}
