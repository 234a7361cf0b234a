//! Namespaces. hcsshim's Sync calls HNS only to read the type; its registry work is a client's own.

use hcn::modify::{NamespaceRequestResource, RequestType};
use hcn::namespace::NamespaceResourceType;
use hcn::{Guid, Kind, Namespace, Query};
use serde_json::json;

use crate::Case;
use crate::context::{Context, Found};
use crate::failure::Failure;

macro_rules! case {
    ($name:literal, $test:literal, $run:expr) => {
        Case {
            name: concat!("namespaces/", $name),
            source: concat!("hcsshim hcn ", $test),
            needs: &[],
            run: $run,
        }
    };
}

pub(super) const CASES: &[Case] = &[
    case!("create-delete", "TestCreateDeleteNamespace", |ctx| twice(ctx, "HostDefault")),
    case!("create-delete-guest", "TestCreateDeleteNamespaceGuest", |ctx| twice(ctx, "GuestDefault")),
    case!("get-by-id", "TestGetNamespaceById", by_id),
    case!("list", "TestListNamespaces", list),
    case!("endpoint-ids", "TestGetNamespaceEndpointIds", endpoint_ids),
    case!("containers", "TestGetNamespaceContainers", containers),
    case!("add-remove-endpoint", "TestAddRemoveNamespaceEndpoint", add_remove),
    case!("modify-settings", "TestModifyNamespaceSettings", modify_settings),
    case!("sync-host-default", "TestSyncNamespaceHostDefault", |ctx| keeps_type(ctx, "HostDefault")),
    case!("sync-host", "TestSyncNamespaceHost", |ctx| keeps_type(ctx, "Host")),
    case!("sync-guest-no-registry", "TestSyncNamespaceGuestNoReg", |ctx| keeps_type(ctx, "Guest")),
    case!("sync-guest-default-no-registry", "TestSyncNamespaceGuestDefaultNoReg", |ctx| {
        keeps_type(ctx, "GuestDefault")
    }),
    case!("sync-guest", "TestSyncNamespaceGuest", |ctx| syncs_again(ctx, "Guest")),
    case!("sync-guest-default", "TestSyncNamespaceGuestDefault", |ctx| syncs_again(ctx, "GuestDefault")),
];

fn twice(ctx: &Context<'_>, kind: &str) -> Result<(), Failure> {
    for _ in 0..2 {
        let namespace = ctx.namespace(kind)?;
        ctx.delete_made(Kind::Namespace, namespace.id)?;
    }
    Ok(())
}

fn by_id(ctx: &Context<'_>) -> Result<(), Failure> {
    let namespace = ctx.namespace("HostDefault")?;
    let found = ctx.by_id::<Namespace>(namespace.id)?;
    ctx.check(found.id == namespace.id, "get by id", namespace.id.to_string(), found.text)?;
    ctx.delete_made(Kind::Namespace, found.id)
}

fn list(ctx: &Context<'_>) -> Result<(), Failure> {
    let namespace = ctx.namespace("HostDefault")?;
    let all = ctx.list::<Namespace>(&Query::all())?;
    ctx.check(
        all.iter().any(|found| found.id == namespace.id),
        "list",
        format!("at least one, {} among them", namespace.id),
        format!("{} namespaces", all.len()),
    )?;
    ctx.delete_made(Kind::Namespace, namespace.id)
}

/// The type reads back as it was sent, letter by letter: a client compares it so.
fn keeps_type(ctx: &Context<'_>, kind: &str) -> Result<(), Failure> {
    let namespace = ctx.namespace(kind)?;
    reads_type(ctx, namespace.id, kind)?;
    ctx.delete_made(Kind::Namespace, namespace.id)
}

/// As [`keeps_type`], read twice: Sync reads the namespace again and must find it unchanged.
fn syncs_again(ctx: &Context<'_>, kind: &str) -> Result<(), Failure> {
    let namespace = ctx.namespace(kind)?;
    reads_type(ctx, namespace.id, kind)?;
    let again = ctx.by_id::<Namespace>(namespace.id)?;
    ctx.check(again.doc == namespace.doc, "read again", namespace.text.clone(), again.text)?;
    ctx.delete_made(Kind::Namespace, namespace.id)
}

fn reads_type(ctx: &Context<'_>, id: Guid, kind: &str) -> Result<(), Failure> {
    let found = ctx.by_id::<Namespace>(id)?;
    let value: serde_json::Value = serde_json::from_str(&found.text)
        .map_err(|error| Failure::unmet("read the type", "JSON", error.to_string()))?;
    ctx.check(value["Type"] == kind, "read the type", format!("\"Type\":\"{kind}\""), found.text)
}

fn containers(ctx: &Context<'_>) -> Result<(), Failure> {
    let namespace = ctx.namespace("HostDefault")?;
    let found = ctx.by_id::<Namespace>(namespace.id)?;
    let any = found.doc.resources.iter().any(|it| it.kind == Some(NamespaceResourceType::Container));
    ctx.check(!any, "containers of a fresh namespace", "no container", found.text)?;
    ctx.delete_made(Kind::Namespace, namespace.id)
}

/// The ids that a client reads out of the namespace's endpoints, as text.
pub(super) fn endpoint_texts(namespace: &Namespace) -> Vec<String> {
    namespace
        .resources
        .iter()
        .filter(|resource| resource.kind == Some(NamespaceResourceType::Endpoint))
        .filter_map(hcn::namespace::NamespaceResource::data_id)
        .collect()
}

fn holds(ctx: &Context<'_>, namespace: Guid, endpoint: Guid) -> Result<Found<Namespace>, Failure> {
    let found = ctx.by_id::<Namespace>(namespace)?;
    let ids = endpoint_texts(&found.doc);
    ctx.check(
        ids.iter().any(|id| id.parse() == Ok(endpoint)),
        "endpoints of the namespace",
        format!("a resource Endpoint with the id {endpoint}"),
        found.text.clone(),
    )?;
    Ok(found)
}

/// Network, endpoint and namespace; the endpoint in and out of the namespace; everything deleted, namespace first.
fn in_and_out(
    ctx: &Context<'_>,
    request: impl Fn(Guid, RequestType, Guid) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let network = ctx.nat_network()?;
    let endpoint = ctx.endpoint(network.id)?;
    let namespace = ctx.namespace("HostDefault")?;
    request(namespace.id, RequestType::Add, endpoint.id)?;
    holds(ctx, namespace.id, endpoint.id)?;
    request(namespace.id, RequestType::Remove, endpoint.id)?;
    let found = ctx.by_id::<Namespace>(namespace.id)?;
    ctx.check(
        !endpoint_texts(&found.doc).iter().any(|id| id.parse() == Ok(endpoint.id)),
        "after Remove",
        format!("no resource with the id {}", endpoint.id),
        found.text,
    )?;
    ctx.delete_made(Kind::Namespace, namespace.id)?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}

fn endpoint_ids(ctx: &Context<'_>) -> Result<(), Failure> {
    in_and_out(ctx, |namespace, request, endpoint| ctx.namespace_endpoint(namespace, request, endpoint))
}

fn add_remove(ctx: &Context<'_>) -> Result<(), Failure> {
    in_and_out(ctx, |namespace, request, endpoint| {
        ctx.namespace_endpoint(namespace, request.clone(), endpoint)?;
        // The endpoint's side of it.
        let found = ctx.reload::<hcn::Endpoint>(endpoint)?;
        let attached = found.doc.namespace.is_some_and(|id| id == namespace);
        let wanted = request == RequestType::Add;
        ctx.check(
            attached == wanted,
            &format!("the endpoint after {request}"),
            if wanted { format!("HostComputeNamespace {namespace}") } else { "no such namespace".to_owned() },
            found.text,
        )
    })
}

fn modify_settings(ctx: &Context<'_>) -> Result<(), Failure> {
    in_and_out(ctx, |namespace, request, endpoint| {
        let request = json!({
            "ResourceType": NamespaceRequestResource::Endpoint,
            "RequestType": request,
            "Settings": { "EndpointId": endpoint },
        });
        ctx.modify(Kind::Namespace, namespace, &request.to_string())
    })
}
