//! Endpoints.

use hcn::modify::RequestType;
use hcn::{Endpoint, Feature, Kind, Policy, Query};
use serde_json::{Value, json};

use super::errors::NOBODY;
use crate::Case;
use crate::context::Context;
use crate::failure::Failure;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "endpoints/create-delete",
        source: "hcsshim hcn TestCreateDeleteEndpoint",
        needs: &[],
        run: create_delete,
    },
    Case { name: "endpoints/get-by-id", source: "hcsshim hcn TestGetEndpointById", needs: &[], run: by_id },
    Case {
        name: "endpoints/get-by-name",
        source: "hcsshim hcn TestGetEndpointByName",
        needs: &[],
        run: by_name,
    },
    Case { name: "endpoints/list", source: "hcsshim hcn TestListEndpoints", needs: &[], run: list },
    Case {
        name: "endpoints/list-of-network",
        source: "hcsshim hcn TestListEndpointsOfNetwork",
        needs: &[],
        run: list_of_network,
    },
    Case {
        name: "endpoints/namespace-attach-detach",
        source: "hcsshim hcn TestEndpointNamespaceAttachDetach",
        needs: &[],
        run: attach_detach,
    },
    Case {
        name: "endpoints/l4-wfp-proxy-policy",
        source: "hcsshim hcn TestAddL4WfpProxyPolicyOnEndpoint",
        needs: &[Feature::L4WfpProxy],
        run: wfp_proxy,
    },
    Case {
        name: "endpoints/apply-policy",
        source: "hcsshim hcn TestApplyPolicyOnEndpoint",
        needs: &[],
        run: apply_policy,
    },
    Case {
        name: "endpoints/modify-settings",
        source: "hcsshim hcn TestModifyEndpointSettings",
        needs: &[],
        run: modify_settings,
    },
    Case {
        name: "endpoints/tier-acl-policy",
        source: "hcsshim hcn TestApplyTierAclPolicyOnEndpoint",
        needs: &[Feature::TierAcl],
        run: tier_acl,
    },
];

fn create_delete(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.nat_network()?;
    let endpoint = ctx.endpoint(network.id)?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}

fn by_id(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.nat_network()?;
    let endpoint = ctx.endpoint(network.id)?;
    let found = ctx.by_id::<Endpoint>(endpoint.id)?;
    ctx.delete(Kind::Endpoint, found.id)?;
    ctx.delete(Kind::Network, network.id)
}

fn by_name(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.nat_network()?;
    let endpoint = ctx.endpoint(network.id)?;
    let found = ctx.by_name::<Endpoint>(&ctx.name("endpoint"))?;
    ctx.check(found.id == endpoint.id, "get by name", endpoint.id.to_string(), found.text)?;
    ctx.delete(Kind::Endpoint, found.id)?;
    ctx.delete(Kind::Network, network.id)
}

fn list(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.nat_network()?;
    let endpoint = ctx.endpoint(network.id)?;
    let all = ctx.list::<Endpoint>(&Query::all())?;
    ctx.check(
        all.iter().any(|found| found.id == endpoint.id),
        "list",
        format!("at least one, {} among them", endpoint.id),
        format!("{} endpoints", all.len()),
    )?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}

fn list_of_network(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.nat_network()?;
    let endpoint = ctx.endpoint(network.id)?;
    let of_network = ctx.list::<Endpoint>(&Query::endpoints_of(network.id))?;
    ctx.check(
        of_network.len() == 1 && of_network[0].id == endpoint.id,
        "list the network's endpoints",
        format!("{} alone", endpoint.id),
        format!("{:?}", of_network.iter().map(|found| found.id).collect::<Vec<_>>()),
    )?;
    let of_nobody = ctx.list::<Endpoint>(&Query::endpoints_of(NOBODY))?;
    ctx.check(
        of_nobody.is_empty(),
        "list the endpoints of a network that does not exist",
        "none",
        format!("{} endpoints", of_nobody.len()),
    )?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}

fn attach_detach(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.nat_network()?;
    let endpoint = ctx.endpoint(network.id)?;
    let namespace = ctx.namespace("HostDefault")?;
    let is_in = |wanted: bool| {
        let found = ctx.reload::<Endpoint>(endpoint.id)?;
        let is_in = found.doc.namespace.is_some_and(|id| id == namespace.id);
        let expected = format!("HostComputeNamespace {} {}", if wanted { "=" } else { "≠" }, namespace.id);
        ctx.check(is_in == wanted, "the endpoint's namespace", expected, found.text)
    };
    ctx.namespace_endpoint(namespace.id, RequestType::Add, endpoint.id)?;
    is_in(true)?;
    ctx.namespace_endpoint(namespace.id, RequestType::Remove, endpoint.id)?;
    is_in(false)?;
    ctx.delete_made(Kind::Namespace, namespace.id)?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}

/// A proxy for what the endpoint's processes receive and send.
pub(super) fn wfp_proxy_policy() -> Policy {
    Policy::new(
        "L4WFPPROXY",
        &json!({
            "InboundProxyPort": "80",
            "OutboundProxyPort": "81",
            "FilterTuple": { "Protocols": "6", "RemoteAddresses": "10.0.0.4", "Priority": 8 },
            "InboundExceptions": { "IpAddressExceptions": ["127.0.0.1"], "PortExceptions": ["8080"] },
            "OutboundExceptions": { "IpAddressExceptions": ["127.0.0.1"], "PortExceptions": ["8080"] },
        }),
    )
}

fn wfp_proxy(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.nat_network()?;
    let endpoint = ctx.endpoint(network.id)?;
    ctx.feature(Feature::L4WfpProxy, || {
        ctx.endpoint_policies(endpoint.id, RequestType::Add, &[wfp_proxy_policy()])
    })?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}

fn acl(direction: &str) -> Policy {
    Policy::new(
        "ACL",
        &json!({
            "Protocols": "6",
            "Action": "Allow",
            "Direction": direction,
            "LocalAddresses": "192.168.100.0/24,10.0.0.21",
            "RemoteAddresses": "192.168.100.0/24,10.0.0.21",
            "LocalPorts": "80,8080",
            "RemotePorts": "80,8080",
            "RuleType": "Switch",
            "Priority": 200,
        }),
    )
}

/// Every endpoint of the name has the policies that were sent.
fn has_policies(ctx: &Context<'_>, kind: &str, at_least: usize) -> Result<(), Failure> {
    let found = ctx.by_name::<Endpoint>(&ctx.name("endpoint"))?;
    let count = found.doc.policies.iter().filter(|policy| policy.kind.is(kind)).count();
    ctx.check(count >= at_least, "read back", format!("{at_least} policies {kind}"), found.text)
}

fn apply_policy(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.nat_network()?;
    let endpoint = ctx.endpoint(network.id)?;
    ctx.endpoint_policies(endpoint.id, RequestType::Update, &[acl("In"), acl("Out")])?;
    has_policies(ctx, "ACL", 2)?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}

fn modify_settings(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.nat_network()?;
    let endpoint = ctx.endpoint(network.id)?;
    let request = json!({
        "ResourceType": "Policy",
        "RequestType": "Update",
        "Settings": { "Policies": [acl("In"), acl("Out")] },
    });
    ctx.modify(Kind::Endpoint, endpoint.id, &request.to_string())?;
    has_policies(ctx, "ACL", 2)?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}

fn tier(direction: &str, order: u16, rules: &Value) -> Policy {
    Policy::new(
        "TierAcl",
        &json!({
            "Name": format!("tier-{direction}-{order}"),
            "Direction": direction,
            "Order": order,
            "TierAclRules": rules,
        }),
    )
}

/// Three tiers in each direction: pass, allow and block, with and without protocols and ports.
pub(super) fn tier_policies() -> Vec<Policy> {
    let mut policies = Vec::new();
    for direction in ["In", "Out"] {
        let pass = json!([{ "Id": "pass-all", "TierAclRuleAction": "Pass", "Priority": 65000 }]);
        let mixed = json!([
            {
                "Id": "allow-web", "Protocols": "6", "TierAclRuleAction": "Allow",
                "LocalAddresses": "192.168.100.0/24", "RemoteAddresses": "10.0.0.0/8",
                "LocalPorts": "80,8080", "RemotePorts": "80", "Priority": 100
            },
            { "Id": "block-udp", "Protocols": "17", "TierAclRuleAction": "Block", "Priority": 200 },
            { "Id": "pass-rest", "TierAclRuleAction": "Pass", "Priority": 65000 }
        ]);
        let block = json!([{ "Id": "block-all", "TierAclRuleAction": "Block", "Priority": 65000 }]);
        policies.extend([
            tier(direction, 1001, &pass),
            tier(direction, 1002, &mixed),
            tier(direction, 1013, &block),
        ]);
    }
    policies
}

fn tier_acl(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.bridge_network()?;
    let endpoint = ctx.endpoint(network.id)?;
    ctx.feature(Feature::TierAcl, || {
        ctx.endpoint_policies(endpoint.id, RequestType::Update, &tier_policies())?;
        has_policies(ctx, "TierAcl", 6)
    })?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}
