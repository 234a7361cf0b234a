//! v1 documents through the HCN calls.

use hcn::{Kind, Network};
use serde_json::{Value, json};

use crate::Case;
use crate::context::{Context, Found};
use crate::failure::Failure;

pub(super) const CASES: &[Case] = &[
    Case { name: "v1-schema/network", source: "hcsshim hcn TestV1Network", needs: &[], run: network },
    Case { name: "v1-schema/endpoint", source: "hcsshim hcn TestV1Endpoint", needs: &[], run: endpoint },
];

fn document(ctx: &Context<'_>) -> Value {
    json!({
        "Name": ctx.name("nat"),
        "Type": "NAT",
        "MacPools": [{ "StartMacAddress": "00-15-5D-52-C0-00", "EndMacAddress": "00-15-5D-52-CF-FF" }],
        "Subnets": [{ "AddressPrefix": "192.168.100.0/24", "GatewayAddress": "192.168.100.1" }],
    })
}

/// What was sent as v1 reads back as v2.
fn make(ctx: &Context<'_>) -> Result<Found<Network>, Failure> {
    ctx.pre_clean(&ctx.name("nat"));
    let network = ctx.create::<Network>(&document(ctx))?;
    let subnet = network.doc.subnets().next();
    ctx.check(
        subnet.is_some_and(|it| it.prefix == "192.168.100.0/24" && it.gateway() == Some("192.168.100.1")),
        "read back as v2",
        "Ipams with 192.168.100.0/24 and a default route by 192.168.100.1",
        network.text.clone(),
    )?;
    Ok(network)
}

fn network(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = make(ctx)?;
    ctx.delete(Kind::Network, network.id)
}

fn endpoint(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = make(ctx)?;
    let document = json!({ "Name": ctx.name("endpoint"), "VirtualNetwork": network.id });
    let endpoint = ctx.create_endpoint(network.id, &document)?;
    ctx.check(
        endpoint.doc.network == Some(network.id),
        "read back as v2",
        format!("HostComputeNetwork {}", network.id),
        endpoint.text,
    )?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}
