//! Networks.

use hcn::modify::RequestType;
use hcn::network::NetworkFlags;
use hcn::{Feature, Kind, Network, Policy, Query};
use serde_json::{Value, json};

use crate::Case;
use crate::context::Context;
use crate::failure::{Failure, Nature};
use crate::fixtures::{mac_pool, subnet_v4, v2_0};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "networks/create-delete",
        source: "hcsshim hcn TestCreateDeleteNetworks",
        needs: &[],
        run: create_delete,
    },
    Case {
        name: "networks/get-by-name",
        source: "hcsshim hcn TestGetNetworkByName",
        needs: &[],
        run: by_name,
    },
    Case { name: "networks/get-by-id", source: "hcsshim hcn TestGetNetworkById", needs: &[], run: by_id },
    Case { name: "networks/list", source: "hcsshim hcn TestListNetwork", needs: &[], run: list },
    Case {
        name: "networks/remote-subnet-route-policy",
        source: "hcsshim hcn TestAddRemoveRemoteSubnetRoutePolicy",
        needs: &[Feature::RemoteSubnet],
        run: remote_subnet_route,
    },
    Case {
        name: "networks/host-route-policy",
        source: "hcsshim hcn TestAddRemoveHostRoutePolicy",
        needs: &[Feature::HostRoute],
        run: host_route,
    },
    Case {
        name: "networks/network-acl-policy",
        source: "hcsshim hcn TestAddRemoveNetworACLPolicy",
        needs: &[Feature::NetworkAcl],
        run: network_acl,
    },
    Case { name: "networks/flags", source: "hcsshim hcn TestNetworkFlags", needs: &[], run: flags },
];

fn create_delete(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.nat_network()?;
    ctx.delete(Kind::Network, network.id)?;

    let name = ctx.name("nat");
    let without_ipams = ctx.network_document(&name, "NAT", &[], &mac_pool(), &v2_0());
    let network = ctx.create_network(&without_ipams)?;
    ctx.delete(Kind::Network, network.id)?;

    // Clients refuse these by themselves: HNS is not called.
    let creates = ctx.calls_named("create network");
    let subnet = subnet_v4();
    for route in [
        json!({ "NextHop": "192.168.100.1", "DestinationPrefix": "1.1.1.1/0" }),
        json!({ "NextHop": "", "DestinationPrefix": "" }),
    ] {
        let mut subnet = subnet.clone();
        subnet["Routes"] = json!([route]);
        let document = ctx.network_document(&name, "NAT", &[subnet], &mac_pool(), &v2_0());
        match ctx.create_network(&document) {
            Err(failure) if failure.nature == Nature::Unmet => {}
            Err(failure) => return Err(failure),
            Ok(network) => {
                return Err(Failure::unmet("create with a bad route", "a refusal", network.text));
            }
        }
    }
    ctx.check(
        ctx.calls_named("create network") == creates,
        "create with a bad route",
        "no create call",
        "a create call",
    )
}

fn by_name(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.nat_network()?;
    let name = ctx.name("nat");
    ctx.check(
        network.doc.name.as_deref() == Some(name.as_str()),
        "create",
        format!("Name {name:?}"),
        network.text.clone(),
    )?;
    let found = ctx.by_name::<Network>(&name)?;
    ctx.check(found.id == network.id, "get by name", network.id.to_string(), found.text)?;
    ctx.delete(Kind::Network, found.id)
}

fn by_id(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.nat_network()?;
    let found = ctx.by_id::<Network>(network.id)?;
    ctx.check(found.id == network.id, "get by id", network.id.to_string(), found.text)?;
    ctx.delete(Kind::Network, found.id)
}

fn list(ctx: &Context<'_>) -> Result<(), Failure> {
    ctx.list::<Network>(&Query::all()).map(|_| ())
}

fn flags(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.overlay_network()?;
    let found = ctx.by_id::<Network>(network.id)?;
    ctx.check(
        found.doc.flags.contains(NetworkFlags::ENABLE_NON_PERSISTENT),
        "reload",
        "Flags with bit 8",
        found.text,
    )?;
    ctx.delete(Kind::Network, network.id)
}

/// Adds a policy to an overlay network and removes it; both must be seen when the network is read again.
fn add_remove(ctx: &Context<'_>, feature: Feature, kind: &str, settings: &Value) -> Result<(), Failure> {
    let network = ctx.overlay_network()?;
    let policy = Policy::new(kind, settings);
    let of_kind = |step: &str, wanted: bool| {
        let network = ctx.by_id::<Network>(network.id)?;
        let there = network.doc.policies.iter().any(|policy| policy.kind.is(kind));
        let expected = if wanted { format!("a policy {kind}") } else { format!("no policy {kind}") };
        ctx.check(there == wanted, step, expected, network.text)
    };
    of_kind("a fresh network", false)?;
    ctx.feature(feature, || {
        ctx.network_policy(network.id, RequestType::Add, &policy)?;
        of_kind("after Add", true)
    })?;
    ctx.network_policy(network.id, RequestType::Remove, &policy)?;
    of_kind("after Remove", false)?;
    ctx.delete(Kind::Network, network.id)
}

/// A route to another node's pods.
pub(super) fn remote_subnet_settings() -> Value {
    json!({
        "DestinationPrefix": "192.168.2.0/24",
        "IsolationId": 5000,
        "ProviderAddress": "1.1.1.1",
        "DistributedRouterMacAddress": "00-12-34-56-78-9a",
    })
}

/// An ACL over a whole network.
pub(super) fn network_acl_settings() -> Value {
    json!({
        "Protocols": "6",
        "Action": "Allow",
        "Direction": "In",
        "LocalAddresses": "192.168.100.0/24,10.0.0.21",
        "RemoteAddresses": "192.168.100.0/24,10.0.0.22",
        "LocalPorts": "80,8080",
        "RemotePorts": "80,8080",
        "RuleType": "Switch",
        "Priority": 200,
    })
}

fn remote_subnet_route(ctx: &Context<'_>) -> Result<(), Failure> {
    add_remove(ctx, Feature::RemoteSubnet, "RemoteSubnetRoute", &remote_subnet_settings())
}

fn host_route(ctx: &Context<'_>) -> Result<(), Failure> {
    add_remove(ctx, Feature::HostRoute, "HostRoute", &json!({}))
}

fn network_acl(ctx: &Context<'_>) -> Result<(), Failure> {
    add_remove(ctx, Feature::NetworkAcl, "NetworkACL", &network_acl_settings())
}
