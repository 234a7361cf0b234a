//! Load balancers, on an overlay network whose endpoints are attached to nothing.

use hcn::loadbalancer::{LoadBalancerFlags, PortMappingFlags};
use hcn::{Feature, Kind, LoadBalancer, Query};

use crate::Case;
use crate::context::Context;
use crate::failure::Failure;
use crate::fixtures::balancer_document;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "load-balancers/create-delete",
        source: "hcsshim hcn TestCreateDeleteLoadBalancer",
        needs: &[],
        run: create_delete,
    },
    Case {
        name: "load-balancers/create-update-delete",
        source: "hcsshim hcn TestCreateUpdateDeleteLoadBalancer",
        needs: &[Feature::ModifyLoadBalancer],
        run: update,
    },
    Case {
        name: "load-balancers/get-by-id",
        source: "hcsshim hcn TestGetLoadBalancerById",
        needs: &[],
        run: by_id,
    },
    Case { name: "load-balancers/list", source: "hcsshim hcn TestListLoadBalancer", needs: &[], run: list },
    Case {
        name: "load-balancers/add-remove-endpoint",
        source: "hcsshim hcn TestLoadBalancerAddRemoveEndpoint",
        needs: &[],
        run: add_remove_endpoint,
    },
    Case { name: "load-balancers/add", source: "hcsshim hcn TestAddLoadBalancer", needs: &[], run: add },
    Case {
        name: "load-balancers/add-dsr",
        source: "hcsshim hcn TestAddDSRLoadBalancer",
        needs: &[Feature::Dsr],
        run: add_dsr,
    },
    Case {
        name: "load-balancers/add-ilb",
        source: "hcsshim hcn TestAddILBLoadBalancer",
        needs: &[],
        run: add_ilb,
    },
];

fn create_delete(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.overlay_network()?;
    let endpoint = ctx.endpoint(network.id)?;
    let balancer = ctx.balancer(&[endpoint.id])?;
    ctx.delete(Kind::LoadBalancer, balancer.id)?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}

fn update(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.overlay_network()?;
    let first = ctx.endpoint(network.id)?;
    let balancer = ctx.balancer(&[first.id])?;
    // A second endpoint of the same name on the same network is no error.
    let second = ctx.endpoint(network.id)?;
    ctx.check(second.id != first.id, "second endpoint", "an id of its own", second.text.clone())?;
    let two = LoadBalancer { endpoints: vec![first.id, second.id], ..balancer.doc.clone() };
    let updated = ctx.feature(Feature::ModifyLoadBalancer, || {
        let updated = ctx.update_balancer(balancer.id, &two)?;
        ctx.check(
            updated.doc.endpoints.len() == 2,
            "update to two endpoints",
            "2 HostComputeEndpoints",
            updated.text.clone(),
        )?;
        Ok(updated)
    })?;
    // The answer is used as the document of the next request: it must be whole.
    ctx.check(
        updated.id == balancer.id
            && updated.doc.frontends() == balancer.doc.frontends()
            && updated.doc.source_vip == balancer.doc.source_vip,
        "update to two endpoints",
        format!("all else as in {}", balancer.text),
        updated.text.clone(),
    )?;
    let one = LoadBalancer { endpoints: vec![first.id], ..updated.doc };
    let back = ctx.update_balancer(balancer.id, &one)?;
    ctx.check(
        back.doc.endpoints == [first.id],
        "update back to one endpoint",
        format!("HostComputeEndpoints [{}]", first.id),
        back.text,
    )?;
    ctx.delete(Kind::LoadBalancer, balancer.id)?;
    ctx.delete(Kind::Endpoint, first.id)?;
    ctx.delete(Kind::Endpoint, second.id)?;
    ctx.delete(Kind::Network, network.id)
}

fn by_id(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.overlay_network()?;
    let endpoint = ctx.endpoint(network.id)?;
    let balancer = ctx.balancer(&[endpoint.id])?;
    let found = ctx.by_id::<LoadBalancer>(balancer.id)?;
    ctx.check(found.id == balancer.id, "get by id", balancer.id.to_string(), found.text)?;
    ctx.delete(Kind::LoadBalancer, found.id)?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}

fn list(ctx: &Context<'_>) -> Result<(), Failure> {
    ctx.list::<LoadBalancer>(&Query::all()).map(|_| ())
}

fn add_remove_endpoint(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.overlay_network()?;
    let first = ctx.endpoint(network.id)?;
    let balancer = ctx.balancer(&[first.id])?;
    let second = ctx.endpoint(network.id)?;
    let two = ctx.remake_balancer(&balancer, &[first.id, second.id])?;
    ctx.check(two.doc.endpoints.len() == 2, "add an endpoint", "2 HostComputeEndpoints", two.text)?;
    // By the original object, whose id must still name the load balancer.
    let one = ctx.remake_balancer(&balancer, &[first.id])?;
    ctx.check(one.doc.endpoints.len() == 1, "remove an endpoint", "1 HostComputeEndpoint", one.text)?;
    ctx.delete(Kind::LoadBalancer, balancer.id)?;
    ctx.delete(Kind::Endpoint, first.id)?;
    ctx.delete(Kind::Endpoint, second.id)?;
    ctx.delete(Kind::Network, network.id)
}

/// Makes a load balancer on port 80 with flags, finds it by id, and shows it to `holds`.
fn add_with(
    ctx: &Context<'_>,
    flags: LoadBalancerFlags,
    mapping: PortMappingFlags,
    holds: impl Fn(&LoadBalancer) -> bool,
    expected: &str,
) -> Result<(), Failure> {
    let network = ctx.overlay_network()?;
    let endpoint = ctx.endpoint(network.id)?;
    let document = balancer_document(&[endpoint.id], 80, flags, mapping);
    let made = |step: &str| -> Result<_, Failure> {
        let balancer = ctx.create::<LoadBalancer>(&document)?;
        let found = ctx.by_id::<LoadBalancer>(balancer.id)?;
        ctx.check(
            found.doc.frontend_vips == ["1.1.1.2", "1.1.1.3"] && holds(&found.doc),
            step,
            expected,
            found.text.clone(),
        )?;
        Ok(found)
    };
    let found = if flags.contains(LoadBalancerFlags::DSR) {
        ctx.feature(Feature::Dsr, || made("find it by id"))?
    } else {
        made("find it by id")?
    };
    ctx.delete(Kind::LoadBalancer, found.id)?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}

fn add(ctx: &Context<'_>) -> Result<(), Failure> {
    add_with(
        ctx,
        LoadBalancerFlags::empty(),
        PortMappingFlags::empty(),
        |found| found.port_mappings.len() == 1,
        "both VIPs and one port mapping",
    )
}

fn add_dsr(ctx: &Context<'_>) -> Result<(), Failure> {
    add_with(
        ctx,
        LoadBalancerFlags::DSR,
        PortMappingFlags::PRESERVE_DIP,
        |found| {
            found.flags == LoadBalancerFlags::DSR
                && found
                    .port_mappings
                    .first()
                    .is_some_and(|mapping| mapping.flags.contains(PortMappingFlags::PRESERVE_DIP))
        },
        "Flags 1, and bit 8 in the port mapping's",
    )
}

fn add_ilb(ctx: &Context<'_>) -> Result<(), Failure> {
    add_with(
        ctx,
        LoadBalancerFlags::empty(),
        PortMappingFlags::ILB,
        |found| {
            found.port_mappings.first().is_some_and(|mapping| mapping.flags.contains(PortMappingFlags::ILB))
        },
        "bit 1 in the port mapping's Flags",
    )
}
