//! Errors: what is not there is listed as nothing, and refusals have their codes.

use hcn::{Guid, HResult, Kind, Namespace, Network, Object, Query};
use serde_json::json;

use crate::Case;
use crate::context::{Context, Found};
use crate::failure::{Failure, Nature};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "errors/missing-network-by-name",
        source: "hcsshim hcn TestMissingNetworkByName",
        needs: &[],
        run: missing_network_by_name,
    },
    Case {
        name: "errors/missing-network-by-id",
        source: "hcsshim hcn TestMissingNetworkById",
        needs: &[],
        run: missing_network_by_id,
    },
    Case {
        name: "errors/missing-namespace-by-id",
        source: "hcsshim hcn TestMissingNamespaceById",
        needs: &[],
        run: missing_namespace_by_id,
    },
    Case {
        name: "errors/port-mapping-taken",
        source: "hcsshim hcn TestEndpointAlreadyExistsError",
        needs: &[],
        run: port_mapping_taken,
    },
    Case {
        name: "errors/open-unknown-namespace",
        source: "hcsshim hcn TestNotFoundError",
        needs: &[],
        run: open_unknown_namespace,
    },
];

/// An id that no object has.
pub(super) const NOBODY: Guid = Guid::from_u128(0x5e7a_11ed_0bad_4c0d_8e57_0f01_dab1_e1d5);

/// Looks for what is not there while something else is, so that a disregarded filter is found out, and demands the
/// text by which hcsshim reports it.
fn is_missing<T: Object>(
    ctx: &Context<'_>,
    lookup: impl FnOnce() -> Result<Found<T>, Failure>,
    text: &str,
) -> Result<(), Failure> {
    let network = ctx.nat_network()?;
    let namespace = ctx.namespace("Host")?;
    let said = ctx.missing(lookup())?;
    ctx.check(said == text, "the client's text", text, said)?;
    ctx.delete_made(Kind::Namespace, namespace.id)?;
    ctx.delete(Kind::Network, network.id)
}

fn missing_network_by_name(ctx: &Context<'_>) -> Result<(), Failure> {
    let name = ctx.name("nobody");
    let text = format!("Network name \"{name}\" not found");
    is_missing(ctx, || ctx.by_name::<Network>(&name), &text)
}

fn missing_network_by_id(ctx: &Context<'_>) -> Result<(), Failure> {
    let text = format!("Network ID \"{NOBODY}\" not found");
    is_missing(ctx, || ctx.by_id::<Network>(NOBODY), &text)
}

fn missing_namespace_by_id(ctx: &Context<'_>) -> Result<(), Failure> {
    let text = format!("Namespace ID \"{NOBODY}\" not found");
    is_missing(ctx, || ctx.by_id::<Namespace>(NOBODY), &text)
}

/// Demands that a call was refused with this code.
pub(super) fn refused_with<T>(step: &str, result: Result<T, Failure>, code: HResult) -> Result<(), Failure> {
    match result {
        Err(failure) if failure.code() == Some(code) => Ok(()),
        Err(failure) if matches!(failure.nature, Nature::Refused(_)) => {
            Err(Failure { step: step.to_owned(), expected: format!("{code} {}", code.name()), ..failure })
        }
        Err(failure) => Err(failure),
        Ok(_) => Err(Failure::unmet(step, format!("{code} {}", code.name()), "success")),
    }
}

fn port_mapping_taken(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.overlay_network()?;
    let mapping = json!([{
        "Type": "PortMapping",
        "Settings": { "Protocol": 17, "InternalPort": 45678, "ExternalPort": 56789 },
    }]);
    let endpoint = ctx.endpoint_with(network.id, &mapping)?;
    refused_with(
        "a second endpoint with the same port mapping",
        ctx.endpoint_with(network.id, &mapping),
        HResult::PORT_ALREADY_EXISTS,
    )?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}

fn open_unknown_namespace(ctx: &Context<'_>) -> Result<(), Failure> {
    refused_with(
        "open a namespace that does not exist",
        ctx.query(Kind::Namespace, NOBODY, &Query::all()),
        HResult::ELEMENT_NOT_FOUND,
    )
}
