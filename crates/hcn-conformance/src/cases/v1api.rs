//! The v1 API: `HNSCall` with method, path and body.

use hcn::api::V1Method::{Delete, Get, Post};
use hcn::v1::{AccelnetMacs, Endpoint, EndpointStats, MacEntry, Network};
use hcn::{Feature, Guid, Kind};
use serde_json::json;

use crate::Case;
use crate::context::Context;
use crate::failure::Failure;

pub(super) const CASES: &[Case] = &[
    Case { name: "v1-api/endpoint", source: "hcsshim hcn TestEndpoint", needs: &[], run: endpoint },
    Case {
        name: "v1-api/endpoint-get-all",
        source: "hcsshim hcn TestEndpointGetAll",
        needs: &[],
        run: |ctx| get_all(ctx, "/endpoints/"),
    },
    Case {
        name: "v1-api/endpoint-stats-all",
        source: "hcsshim hcn TestEndpointStatsAll",
        needs: &[],
        run: stats_all,
    },
    Case {
        name: "v1-api/network-get-all",
        source: "hcsshim hcn TestNetworkGetAll",
        needs: &[],
        run: |ctx| get_all(ctx, "/networks/"),
    },
    Case { name: "v1-api/network", source: "hcsshim hcn TestNetwork", needs: &[], run: network },
    Case {
        name: "v1-api/accelnet",
        source: "hcsshim hcn TestAccelnetNnvManagementMacAddresses",
        needs: &[Feature::Accelnet],
        run: accelnet,
    },
];

/// Reads the output as one document.
fn output<T: serde::de::DeserializeOwned>(step: &str, raw: &hcn::json::RawJson) -> Result<T, Failure> {
    serde_json::from_str(raw.get())
        .map_err(|error| Failure::unmet(step, "a v1 document", format!("{error} in {}", raw.get())))
}

/// The id of what a POST made.
fn made(step: &str, id: Option<Guid>, text: &str) -> Result<Guid, Failure> {
    id.filter(|id| !id.is_nil()).ok_or_else(|| Failure::unmet(step, "a member ID", text))
}

fn post_network(ctx: &Context<'_>) -> Result<Guid, Failure> {
    let name = ctx.name("nat");
    ctx.pre_clean(&name);
    let body = json!({
        "Name": name,
        "Type": "NAT",
        "Subnets": [{ "AddressPrefix": "192.168.100.0/24", "GatewayAddress": "192.168.100.1" }],
    });
    let raw = ctx.v1(Post, "/networks/", &body.to_string())?;
    let network: Network = output("POST /networks/", &raw)?;
    made("POST /networks/", network.id, raw.get())
}

fn post_endpoint(ctx: &Context<'_>, network: Guid) -> Result<Guid, Failure> {
    let body = json!({ "Name": ctx.name("endpoint"), "VirtualNetwork": network });
    let raw = ctx.v1(Post, "/endpoints/", &body.to_string())?;
    let endpoint: Endpoint = output("POST /endpoints/", &raw)?;
    made("POST /endpoints/", endpoint.id, raw.get())
}

fn endpoint(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = post_network(ctx)?;
    let endpoint = post_endpoint(ctx, network)?;
    let attach = json!({ "SystemType": "Host", "CompartmentId": 1 });
    ctx.v1(Post, &format!("/endpoints/{endpoint}/attach"), &attach.to_string())?;
    let detach = json!({ "SystemType": "Host" });
    ctx.v1(Post, &format!("/endpoints/{endpoint}/detach"), &detach.to_string())?;
    ctx.v1(Delete, &format!("/endpoints/{endpoint}"), "")?;
    ctx.v1(Delete, &format!("/networks/{network}"), "")?;
    Ok(())
}

/// A collection is an array; a missing output is an empty one.
fn get_all(ctx: &Context<'_>, path: &str) -> Result<(), Failure> {
    let raw = ctx.v1(Get, path, "")?;
    let all: Option<Vec<serde_json::Value>> = output(path, &raw)?;
    let objects = all.unwrap_or_default();
    ctx.check(objects.iter().all(serde_json::Value::is_object), path, "an array of objects", raw.get())
}

fn stats_all(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = post_network(ctx)?;
    let own = post_endpoint(ctx, network)?;
    let raw = ctx.v1(Get, "/endpoints/", "")?;
    let all: Vec<Endpoint> = output("GET /endpoints/", &raw)?;
    let ids: Vec<Guid> = all.iter().filter_map(|endpoint| endpoint.id).collect();
    ctx.check(
        ids.len() == all.len() && ids.contains(&own),
        "GET /endpoints/",
        format!("an ID on each, {own} among them"),
        raw.get(),
    )?;
    for id in ids {
        let path = format!("/endpointstats/{id}");
        let raw = ctx.v1(Get, &path, "")?;
        let stats: EndpointStats = output(&path, &raw)?;
        ctx.check(
            stats.endpoint_id.is_none_or(|about| about == id),
            &path,
            format!("statistics of {id}"),
            raw.get(),
        )?;
    }
    // With the endpoint still there.
    ctx.v1(Delete, &format!("/networks/{network}"), "")?;
    let left = ctx.enumerate(Kind::Endpoint, &hcn::Query::by_id(own))?;
    ctx.check(left.is_empty(), "after the network's deletion", "its endpoint gone too", format!("{left:?}"))
}

fn network(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = post_network(ctx)?;
    ctx.v1(Delete, &format!("/networks/{network}"), "")?;
    Ok(())
}

fn accelnet_macs(step: &str, raw: &hcn::json::RawJson) -> Result<Vec<MacEntry>, Failure> {
    let macs = output::<Option<AccelnetMacs>>(step, raw)?.unwrap_or_default();
    Ok(macs.mac_address_list.unwrap_or_default())
}

/// Sets, reads and clears the list. A list that is there before is put back: it is not the suite's.
fn accelnet(ctx: &Context<'_>) -> Result<(), Failure> {
    const PATH: &str = "/accelnet/";
    ctx.feature(Feature::Accelnet, || {
        let before = ctx.v1(Get, PATH, "")?;
        let own = json!({ "MacAddressList": [
            { "MacAddress": "00-15-5D-0A-B7-C6" }, { "MacAddress": "00-15-5D-38-01-00" }
        ] });
        let result = set_and_clear(ctx, PATH, &own.to_string());
        if !accelnet_macs("GET /accelnet/", &before)?.is_empty() {
            ctx.note("the list that was there before has been put back");
            ctx.v1(Post, PATH, before.get())?;
        }
        result
    })
}

fn set_and_clear(ctx: &Context<'_>, path: &str, own: &str) -> Result<(), Failure> {
    let count = |method, body: &str, wanted: usize| {
        let raw = ctx.v1(method, path, body)?;
        let macs = accelnet_macs(path, &raw)?;
        ctx.check(
            macs.len() == wanted,
            &format!("{} {path}", method.as_str()),
            format!("{wanted} addresses"),
            raw.get(),
        )
    };
    count(Post, own, 2)?;
    count(Get, "", 2)?;
    count(Delete, "", 0)?;
    count(Get, "", 0)
}
