//! Features: the version is asked, and what follows from it must agree with what HNS then does.
//!
//! The source only compares a check function with the report it is made from, which any version passes. Here each
//! feature is tried, so a version that promises too much or too little is found.

use hcn::api::V1Method;
use hcn::loadbalancer::{LoadBalancerFlags, PortMappingFlags};
use hcn::modify::RequestType;
use hcn::{Feature, Kind, LoadBalancer, Network, Policy, Query, Version};
use serde_json::{Value, json};

use super::endpoints::{tier_policies, wfp_proxy_policy};
use super::networks::{network_acl_settings, remote_subnet_settings};
use crate::Case;
use crate::context::Context;
use crate::failure::Failure;
use crate::fixtures::{balancer_document, mac_pool, plain_balancer, v2_0};

macro_rules! case {
    ($name:literal, $test:literal, $needs:expr, $run:expr) => {
        Case {
            name: concat!("support/", $name),
            source: concat!("hcsshim hcn ", $test),
            needs: $needs,
            run: $run,
        }
    };
}

pub(super) const CASES: &[Case] = &[
    case!("features", "TestSupportedFeatures", &[], features),
    case!("v2-api", "TestV2ApiSupport", &[Feature::ApiV2], v2_api),
    case!("remote-subnet", "TestRemoteSubnetSupport", &[Feature::RemoteSubnet], |ctx| {
        overlay_with(ctx, Feature::RemoteSubnet, "RemoteSubnetRoute", &remote_subnet_settings())
    }),
    case!("host-route", "TestHostRouteSupport", &[Feature::HostRoute], |ctx| {
        overlay_with(ctx, Feature::HostRoute, "HostRoute", &json!({}))
    }),
    case!("dsr", "TestDSRSupport", &[Feature::Dsr], dsr),
    case!(
        "slash32-endpoint-prefixes",
        "TestSlash32EndpointPrefixesSupport",
        &[Feature::Slash32EndpointPrefixes],
        slash32
    ),
    case!(
        "acl-protocol-252",
        "TestAclSupportForProtocol252Support",
        &[Feature::AclSupportForProtocol252],
        |ctx| {
            let settings =
                json!({ "Protocols": "252", "Action": "Allow", "Direction": "In", "Priority": 200 });
            endpoint_with(ctx, Feature::AclSupportForProtocol252, "ACL", &[Policy::new("ACL", &settings)])
        }
    ),
    case!("session-affinity", "TestSessionAffinitySupport", &[Feature::SessionAffinity], affinity),
    case!("ipv6-dual-stack", "TestIPv6DualStackSupport", &[Feature::IPv6DualStack], dual_stack),
    case!("set-policy", "TestSetPolicySupport", &[Feature::SetPolicy], |ctx| {
        overlay_with(ctx, Feature::SetPolicy, "SetPolicy", &set("IPSET", "10.0.0.1,10.0.0.2"))
    }),
    case!("nested-ip-set", "TestNestedIpSetSupport", &[Feature::NestedIpSet, Feature::SetPolicy], nested_set),
    case!("disable-host-port", "TestDisableHostPortSupport", &[Feature::DisableHostPort], disable_host_port),
    case!("network-acl", "TestNetworkACLPolicySupport", &[Feature::NetworkAcl], |ctx| {
        overlay_with(ctx, Feature::NetworkAcl, "NetworkACL", &network_acl_settings())
    }),
    case!("vxlan-port", "TestVxlanPortSupport", &[Feature::VxlanPort], |ctx| {
        overlay_with(ctx, Feature::VxlanPort, "VxlanPort", &json!({ "Port": 4790 }))
    }),
    case!("l4-proxy", "TestL4ProxyPolicySupport", &[Feature::L4Proxy], |ctx| {
        let settings = json!({
            "Port": "8080", "Protocol": 6, "Exceptions": ["10.0.0.0/8"], "Destination": "10.0.0.5",
            "OutboundNAT": true
        });
        endpoint_with(ctx, Feature::L4Proxy, "L4Proxy", &[Policy::new("L4Proxy", &settings)])
    }),
    case!("l4-wfp-proxy", "TestL4WfpProxyPolicySupport", &[Feature::L4WfpProxy], |ctx| {
        endpoint_with(ctx, Feature::L4WfpProxy, "L4WFPPROXY", &[wfp_proxy_policy()])
    }),
    case!("tier-acl", "TestTierAclPolicySupport", &[Feature::TierAcl], |ctx| {
        endpoint_with(ctx, Feature::TierAcl, "TierAcl", &tier_policies()[..1])
    }),
];

/// The version is the same each time and by each way of asking, and has at least the v1 API.
fn features(ctx: &Context<'_>) -> Result<(), Failure> {
    let version = same_version(ctx)?;
    let raw = ctx.v1(V1Method::Get, "/globals/version", "")?;
    let by_v1: Version = raw
        .read()
        .map_err(|error| Failure::unmet("GET /globals/version", "Major and Minor", error.to_string()))?;
    ctx.check(by_v1 == version, "GET /globals/version", version.to_string(), by_v1.to_string())?;
    ctx.check(version.supports(Feature::ApiV1), "the v1 API", "supported once the version is known", "not")
}

fn same_version(ctx: &Context<'_>) -> Result<Version, Failure> {
    let version = ctx.ask_version()?;
    ctx.check(version == ctx.version(), "version", ctx.version().to_string(), version.to_string())?;
    Ok(version)
}

/// A 2.0 query is answered in v2 form.
fn v2_api(ctx: &Context<'_>) -> Result<(), Failure> {
    same_version(ctx)?;
    let network = ctx.nat_network()?;
    ctx.feature(Feature::ApiV2, || {
        let found = ctx.reload::<Network>(network.id)?;
        ctx.check(!found.doc.ipams.is_empty(), "query with schema 2.0", "Ipams, as v2 has them", found.text)
    })?;
    ctx.delete(Kind::Network, network.id)
}

/// An overlay network with a policy from the start.
fn overlay_with(ctx: &Context<'_>, feature: Feature, kind: &str, settings: &Value) -> Result<(), Failure> {
    same_version(ctx)?;
    let network = ctx.feature(feature, || {
        let network = ctx.overlay_with_policy(kind, settings)?;
        let there = network.doc.policies.iter().any(|policy| policy.kind.is(kind));
        ctx.check(there, "create with the policy", format!("a policy {kind}"), network.text.clone())?;
        Ok(network)
    })?;
    ctx.delete(Kind::Network, network.id)
}

/// An endpoint that is given policies.
fn endpoint_with(
    ctx: &Context<'_>,
    feature: Feature,
    kind: &str,
    policies: &[Policy],
) -> Result<(), Failure> {
    same_version(ctx)?;
    let network = ctx.nat_network()?;
    let endpoint = ctx.endpoint(network.id)?;
    ctx.feature(feature, || {
        ctx.endpoint_policies(endpoint.id, RequestType::Add, policies)?;
        let found = ctx.reload::<hcn::Endpoint>(endpoint.id)?;
        let there = found.doc.policies.iter().any(|policy| policy.kind.is(kind));
        ctx.check(there, "read the endpoint", format!("a policy {kind}"), found.text)
    })?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}

fn dsr(ctx: &Context<'_>) -> Result<(), Failure> {
    same_version(ctx)?;
    let network = ctx.overlay_network()?;
    let endpoint = ctx.endpoint(network.id)?;
    let flags = LoadBalancerFlags::DSR;
    let document = balancer_document(&[endpoint.id], 8090, flags, PortMappingFlags::empty());
    let balancer = ctx.feature(Feature::Dsr, || {
        let balancer = ctx.create::<LoadBalancer>(&document)?;
        ctx.check(balancer.doc.flags == flags, "create with DSR", "Flags 1", balancer.text.clone())?;
        Ok(balancer)
    })?;
    ctx.delete(Kind::LoadBalancer, balancer.id)?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}

fn slash32(ctx: &Context<'_>) -> Result<(), Failure> {
    same_version(ctx)?;
    let network = ctx.overlay_network()?;
    let mut document = ctx.endpoint_document(network.id);
    document["IpConfigurations"] = json!([{ "IpAddress": "192.168.100.77", "PrefixLength": 32 }]);
    let endpoint = ctx.feature(Feature::Slash32EndpointPrefixes, || {
        let endpoint = ctx.create_endpoint(network.id, &document)?;
        let kept = endpoint.doc.ip_configurations.iter().any(|config| config.prefix_length == 32);
        ctx.check(kept, "create with a /32", "PrefixLength 32", endpoint.text.clone())?;
        Ok(endpoint)
    })?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}

fn affinity(ctx: &Context<'_>) -> Result<(), Failure> {
    same_version(ctx)?;
    let network = ctx.overlay_network()?;
    let endpoint = ctx.endpoint(network.id)?;
    let mut document = plain_balancer(&[endpoint.id]);
    document["PortMappings"][0]["DistributionType"] = json!(2);
    let balancer = ctx.feature(Feature::SessionAffinity, || {
        let balancer = ctx.create::<LoadBalancer>(&document)?;
        let kept = balancer
            .doc
            .port_mappings
            .iter()
            .any(|mapping| mapping.distribution == Some(hcn::loadbalancer::Distribution::SourceIp));
        ctx.check(kept, "create with affinity", "DistributionType 2", balancer.text.clone())?;
        Ok(balancer)
    })?;
    ctx.delete(Kind::LoadBalancer, balancer.id)?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}

fn dual_stack(ctx: &Context<'_>) -> Result<(), Failure> {
    same_version(ctx)?;
    let name = ctx.name("nat");
    ctx.pre_clean(&name);
    let subnets = super::ncproxy::dual_subnets();
    let document = ctx.network_document(&name, "NAT", &subnets, &mac_pool(), &v2_0());
    let network = ctx.feature(Feature::IPv6DualStack, || {
        let network = ctx.create_network(&document)?;
        let count = network.doc.subnets().count();
        ctx.check(count == 2, "create with both families", "two subnets", network.text.clone())?;
        Ok(network)
    })?;
    // An endpoint that asks for nothing gets an address of each family.
    let endpoint = ctx.endpoint(network.id)?;
    let v6 = endpoint.doc.addresses().filter(std::net::IpAddr::is_ipv6).count();
    let v4 = endpoint.doc.addresses().filter(std::net::IpAddr::is_ipv4).count();
    ctx.check((v4, v6) == (1, 1), "an endpoint on it", "an address of each family", endpoint.text)?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}

fn set(kind: &str, values: &str) -> Value {
    let name = kind.to_ascii_lowercase();
    json!({ "Id": format!("id-{name}"), "Name": name, "PolicyType": kind, "Values": values })
}

/// A set of a set that is there.
fn nested_set(ctx: &Context<'_>) -> Result<(), Failure> {
    same_version(ctx)?;
    let network = ctx.feature(Feature::SetPolicy, || {
        ctx.overlay_with_policy("SetPolicy", &set("IPSET", "10.0.0.1,10.0.0.2"))
    })?;
    let nested = Policy::new("SetPolicy", &set("NESTEDIPSET", "id-ipset"));
    ctx.feature(Feature::NestedIpSet, || {
        ctx.network_policy(network.id, RequestType::Add, &nested)?;
        let found = ctx.reload::<Network>(network.id)?;
        let sets = found.doc.policies.iter().filter(|policy| policy.kind.is("SetPolicy")).count();
        ctx.check(sets == 2, "add a nested set", "two policies SetPolicy", found.text)
    })?;
    ctx.delete(Kind::Network, network.id)
}

fn disable_host_port(ctx: &Context<'_>) -> Result<(), Failure> {
    same_version(ctx)?;
    ctx.pre_clean(&ctx.name("overlay"));
    let mut document = ctx.overlay_document();
    document["Flags"] = json!(8 | 1024);
    let network = ctx.feature(Feature::DisableHostPort, || {
        let network = ctx.create_network(&document)?;
        let kept = network.doc.flags.contains(hcn::network::NetworkFlags::DISABLE_HOST_PORT);
        ctx.check(kept, "create with the flag", "Flags with bit 1024", network.text.clone())?;
        Ok(network)
    })?;
    ctx.delete(Kind::Network, network.id)?;
    ctx.enumerate(Kind::Network, &Query::by_id(network.id)).map(|_| ())
}
