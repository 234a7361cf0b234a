//! What suites beside hcsshim's expect of HNS: windows-container-networking, hnslib, kube-proxy's mock.

use std::time::Duration;

use hcn::modify::RequestType;
use hcn::{Endpoint, ErrorClass, Feature, Guid, Kind, LoadBalancer, Namespace, Network, Query};
use serde_json::json;

use super::errors::NOBODY;
use crate::Case;
use crate::context::Context;
use crate::failure::{Failure, Nature};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "neighbours/endpoint-references",
        source: "windows-container-networking test/utilities: endpoint",
        needs: &[],
        run: endpoint_references,
    },
    Case {
        name: "neighbours/policy-bytes",
        source: "windows-container-networking test/utilities: policies",
        needs: &[],
        run: policy_bytes,
    },
    Case {
        name: "neighbours/network-gone",
        source: "hnslib hcnnetwork_integration_test",
        needs: &[],
        run: network_gone,
    },
    Case {
        name: "neighbours/duplicate-network-name",
        source: "kube-proxy HcnMock: names",
        needs: &[],
        run: duplicate_name,
    },
    Case {
        name: "neighbours/duplicate-id",
        source: "kube-proxy HcnMock: ids",
        needs: &[],
        run: duplicate_id,
    },
    Case {
        name: "neighbours/unknown-ids",
        source: "kube-proxy HcnMock: not found",
        needs: &[],
        run: unknown_ids,
    },
    Case {
        name: "neighbours/load-balancer-update-keeps-id",
        source: "kube-proxy HcnMock: load balancer update",
        needs: &[Feature::ModifyLoadBalancer],
        run: update_keeps_id,
    },
];

fn endpoint_references(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.nat_network()?;
    let endpoint = ctx.endpoint(network.id)?;
    let namespace = ctx.namespace("Host")?;
    ctx.namespace_endpoint(namespace.id, RequestType::Add, endpoint.id)?;

    // A plugin compares the network's id letter by letter.
    let value = |text: &str| -> Result<serde_json::Value, Failure> {
        serde_json::from_str(text)
            .map_err(|error| Failure::unmet("read", "JSON", format!("{error} in {text}")))
    };
    let endpoint_text = ctx.reload::<Endpoint>(endpoint.id)?.text;
    let network_text = ctx.reload::<Network>(network.id)?.text;
    ctx.check(
        value(&endpoint_text)?["HostComputeNetwork"] == value(&network_text)?["ID"],
        "the endpoint's network",
        "HostComputeNetwork spelled as the network's ID",
        format!("{endpoint_text} on {network_text}"),
    )?;
    let attached = ctx.reload::<Endpoint>(endpoint.id)?;
    ctx.check(
        attached.doc.namespace == Some(namespace.id),
        "the endpoint's namespace",
        format!("HostComputeNamespace {}", namespace.id),
        attached.text,
    )?;
    let found = ctx.reload::<Namespace>(namespace.id)?;
    let first = found.doc.resources.first().and_then(|resource| resource.data.as_ref());
    let upper = endpoint.id.upper().to_string();
    ctx.check(
        first.is_some_and(|data| data.get().contains(&upper)),
        "the namespace's first resource",
        format!("Data with {upper}"),
        found.text,
    )?;
    ctx.namespace_endpoint(namespace.id, RequestType::Remove, endpoint.id)?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.missing(ctx.by_id::<Endpoint>(endpoint.id))?;
    ctx.delete_made(Kind::Namespace, namespace.id)?;
    ctx.delete(Kind::Network, network.id)
}

/// Settings of policies come back byte for byte.
fn policy_bytes(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.nat_network()?;
    let sent = [
        (
            "ACL",
            r#"{"Protocols":"6","Action":"Block","Direction":"Out","RemoteAddresses":"10.0.0.0/8","Priority":300}"#,
        ),
        ("OutBoundNAT", r#"{"Exceptions":["10.0.0.0/8","172.16.0.0/12"]}"#),
    ];
    // Built as text: a tree might order or space the settings in another way.
    let policies: Vec<String> =
        sent.iter().map(|(kind, settings)| format!(r#"{{"Type":"{kind}","Settings":{settings}}}"#)).collect();
    let document = format!(
        r#"{{"Name":"{}","HostComputeNetwork":"{}","Policies":[{}],"SchemaVersion":{{"Major":2,"Minor":0}}}}"#,
        ctx.name("endpoint"),
        network.id,
        policies.join(",")
    );
    let id = ctx.create_raw(Kind::Endpoint, Some(network.id), &document)?;
    let endpoint = ctx.created::<Endpoint>(id)?;
    for (kind, settings) in sent {
        let kept = endpoint
            .doc
            .policies
            .iter()
            .filter(|policy| policy.kind.is(kind))
            .any(|policy| policy.settings.as_ref().is_some_and(|came| came.get() == settings));
        ctx.check(
            kept,
            "read the policies",
            format!("{kind} with Settings {settings}, byte for byte"),
            endpoint.text.clone(),
        )?;
    }
    ctx.delete(Kind::Endpoint, id)?;
    ctx.delete(Kind::Network, network.id)
}

/// Deletion may go on after the call has returned: the source waits two seconds.
fn network_gone(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.nat_network()?;
    ctx.by_id::<Network>(network.id)?;
    ctx.delete(Kind::Network, network.id)?;
    ctx.eventually(Duration::from_secs(2), || {
        ctx.missing(ctx.by_id::<Network>(network.id))?;
        ctx.missing(ctx.by_name::<Network>(&ctx.name("nat"))).map(|_| ())
    })
}

/// Demands a refusal of a class.
fn refused_as<T>(step: &str, result: Result<T, Failure>, class: ErrorClass) -> Result<(), Failure> {
    match result {
        Err(Failure { nature: Nature::Refused(error), .. }) if error.class() == class => Ok(()),
        Err(failure) => Err(Failure { expected: format!("an error of class {class:?}"), ..failure }),
        Ok(_) => Err(Failure::unmet(step, format!("an error of class {class:?}"), "success")),
    }
}

fn duplicate_name(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.nat_network()?;
    let name = ctx.name("nat");
    let document = ctx.network_document(&name, "NAT", &[], &json!({}), &crate::fixtures::v2_0());
    let second = ctx.create::<Network>(&document);
    refused_as("create a second network of the name", second, ErrorClass::AlreadyExists)?;
    ctx.delete(Kind::Network, network.id)
}

/// Which code it is, is not known; that it is refused, is.
fn duplicate_id(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.nat_network()?;
    let endpoint = ctx.endpoint(network.id)?;
    let mut document = ctx.endpoint_document(network.id);
    document["ID"] = json!(endpoint.id);
    match ctx.create_raw(Kind::Endpoint, Some(network.id), &document.to_string()) {
        Err(Failure { nature: Nature::Refused(error), .. }) => ctx.note(format!("refused with {error}")),
        Err(failure) => return Err(failure),
        Ok(id) => {
            let expected = format!("a refusal: {} is taken", endpoint.id);
            return Err(Failure::unmet(
                "create a second endpoint of the id",
                expected,
                format!("success with {id}"),
            ));
        }
    }
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}

fn unknown_ids(ctx: &Context<'_>) -> Result<(), Failure> {
    for kind in Kind::ALL {
        let ids = ctx.enumerate(kind, &Query::by_id(NOBODY))?;
        ctx.check(ids.is_empty(), &format!("list {kind}s by an unknown id"), "none", format!("{ids:?}"))?;
        let query = ctx.query(kind, NOBODY, &Query::all());
        refused_as(&format!("query an unknown {kind}"), query, ErrorClass::NotFound)?;
        let deletion = ctx.delete(kind, NOBODY);
        refused_as(&format!("delete an unknown {kind}"), deletion, ErrorClass::NotFound)?;
    }
    Ok(())
}

fn update_keeps_id(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.overlay_network()?;
    let endpoints: Vec<Guid> =
        (0..2).map(|_| ctx.endpoint(network.id).map(|made| made.id)).collect::<Result<_, _>>()?;
    let balancer = ctx.balancer(&endpoints[..1])?;
    let document = LoadBalancer { endpoints: endpoints[1..].to_vec(), ..balancer.doc.clone() };
    ctx.feature(Feature::ModifyLoadBalancer, || {
        let updated = ctx.update_balancer(balancer.id, &document)?;
        ctx.check(
            updated.id == balancer.id && updated.doc.endpoints == endpoints[1..],
            "update to another endpoint",
            format!("ID {} with HostComputeEndpoints [{}]", balancer.id, endpoints[1]),
            updated.text,
        )
    })?;
    let all = ctx.list::<LoadBalancer>(&Query::all())?;
    let same = all.iter().filter(|found| found.doc.frontends() == balancer.doc.frontends()).count();
    ctx.check(same == 1, "list after the update", "one load balancer with the frontends", same.to_string())?;
    ctx.delete(Kind::LoadBalancer, balancer.id)?;
    for endpoint in endpoints {
        ctx.delete(Kind::Endpoint, endpoint)?;
    }
    ctx.delete(Kind::Network, network.id)
}
