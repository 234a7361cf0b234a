//! What hcsshim's ncproxy and utility-VM tests ask of HNS; the agents that they mock call no HNS.

use std::net::IpAddr;

use hcn::modify::RequestType;
use hcn::namespace::NamespaceType;
use hcn::network::IpamType;
use hcn::{Endpoint, Feature, Guid, Kind, Namespace, Network, Policy, Query, Version};
use serde_json::{Value, json};

use super::errors::{NOBODY, refused_with};
use super::namespaces::endpoint_texts;
use crate::Case;
use crate::context::{Context, Found};
use crate::failure::{Failure, Nature};
use crate::fixtures::{mac_pool, subnet, subnet_v4, subnet_v6, v2_2};
use crate::run::REFUSALS;

macro_rules! case {
    ($name:literal, $test:literal, $run:expr) => {
        case!($name, $test, $run, &[])
    };
    ($name:literal, $test:literal, $run:expr, $needs:expr) => {
        Case { name: $name, source: concat!("hcsshim ", $test), needs: $needs, run: $run }
    };
}

const DUAL: &[Feature] = &[Feature::IPv6DualStack];

pub(super) const CASES: &[Case] = &[
    case!("ncproxy/add-nic", "ncproxy TestAddNIC_HCN", |ctx| iov(ctx, &[(RequestType::Update, 100)])),
    case!("ncproxy/delete-nic", "ncproxy TestDeleteNIC_HCN", delete_nic),
    case!("ncproxy/modify-nic", "ncproxy TestModifyNIC_HCN", |ctx| {
        iov(ctx, &[(RequestType::Update, 100), (RequestType::Update, 0), (RequestType::Remove, 0)])
    }),
    case!("ncproxy/create-network", "ncproxy TestCreateNetwork_HCN", create_network),
    case!("ncproxy/create-endpoint", "ncproxy TestCreateEndpoint_HCN (IPv4)", create_endpoint),
    case!(
        "ncproxy/create-endpoint-dual-stack",
        "ncproxy TestCreateEndpoint_HCN (dual stack)",
        create_endpoint_dual,
        DUAL
    ),
    case!("ncproxy/add-endpoint", "ncproxy TestAddEndpoint_NoError", |ctx| add_endpoint(ctx, "add-endpoint")),
    case!("ncproxy/add-endpoint-to-host", "ncproxy TestAddEndpoint_NoError (host)", add_endpoint_to_host),
    case!("ncproxy/add-endpoint-missing", "ncproxy TestAddEndpoint_Error_NoEndpoint", no_endpoint),
    case!("ncproxy/delete-endpoint", "ncproxy TestDeleteEndpoint_NoError", delete_endpoint),
    case!("ncproxy/delete-endpoint-missing", "ncproxy TestDeleteEndpoint_Error_NoEndpoint", no_endpoint),
    case!("ncproxy/delete-network", "ncproxy TestDeleteNetwork_NoError", delete_network),
    case!("ncproxy/delete-network-missing", "ncproxy TestDeleteNetwork_Error_NoNetwork", no_network),
    case!("ncproxy/get-endpoint", "ncproxy TestGetEndpoint_NoError", get_endpoint),
    case!("ncproxy/get-endpoint-missing", "ncproxy TestGetEndpoint_Error_NoEndpoint", no_endpoint),
    case!("ncproxy/get-endpoints", "ncproxy TestGetEndpoints_NoError", get_endpoints),
    case!("ncproxy/get-network", "ncproxy TestGetNetwork_NoError", |ctx| get_network(ctx, false)),
    case!(
        "ncproxy/get-network-dual-stack",
        "ncproxy TestGetNetwork_NoError",
        |ctx| get_network(ctx, true),
        DUAL
    ),
    case!("ncproxy/get-network-missing", "ncproxy TestGetNetwork_Error_NoNetwork", no_network),
    case!("ncproxy/get-networks", "ncproxy TestGetNetworks_NoError", get_networks),
    case!("utility-vm/lcow-addresses", "functional TestLCOW_IPv6_Assignment", lcow, DUAL),
    case!("utility-vm/network-without-ipam", "cri-containerd job container, case hns", without_ipam),
    case!("utility-vm/removal-from-missing-namespace", "uvm network removal", missing_namespace),
];

fn iov_policy(weight: u32) -> Policy {
    Policy::new("Iov", &json!({ "IovOffloadWeight": weight }))
}

/// Whether ncproxy's tests would run their Iov cases: from build 19043 on, whose HNS is of the 11.10 line.
const IOV_SINCE: Version = Version::new(11, 10);

fn iov(ctx: &Context<'_>, requests: &[(RequestType, u32)]) -> Result<(), Failure> {
    let network = ctx.ncproxy_network("nic", false)?;
    let endpoint = ctx.endpoint(network.id)?;
    let found = ctx.by_name::<Endpoint>(&ctx.name("endpoint"))?;
    for (request, weight) in requests {
        match ctx.endpoint_policies(found.id, request.clone(), &[iov_policy(*weight)]) {
            Ok(()) => {}
            Err(failure)
                if ctx.version() < IOV_SINCE
                    && failure.code().is_some_and(|code| REFUSALS.contains(&code)) =>
            {
                ctx.note("this build refuses Iov; the source does not try it there");
                break;
            }
            Err(failure) => return Err(failure),
        }
    }
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}

/// The endpoint is found by its name; taking the NIC away is the agent's work.
fn delete_nic(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.ncproxy_network("nic", false)?;
    let endpoint = ctx.endpoint(network.id)?;
    let found = ctx.by_name::<Endpoint>(&ctx.name("endpoint"))?;
    ctx.check(found.id == endpoint.id, "get by name", endpoint.id.to_string(), found.text)?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}

fn create_network(ctx: &Context<'_>) -> Result<(), Failure> {
    let name = ctx.name("created");
    ctx.pre_clean(&name);
    ctx.missing(ctx.by_name::<Network>(&name))?;
    let document = ctx.network_document(&name, "NAT", &[subnet_v4()], &json!({}), &v2_2());
    let made = ctx.create_network(&document)?;
    let found = ctx.by_name::<Network>(&name)?;
    ctx.check(found.id == made.id, "get by name", made.id.to_string(), found.text)?;
    ctx.delete(Kind::Network, made.id)
}

fn address(address: &str, prefix: u8) -> Value {
    json!({ "IpAddress": address, "PrefixLength": prefix })
}

/// An endpoint with addresses and a MAC of the caller's; both are kept, and it is found by name.
fn endpoint_as_given(
    ctx: &Context<'_>,
    network: &Found<Network>,
    name: &str,
    addresses: &[Value],
    mac: &str,
) -> Result<Found<Endpoint>, Failure> {
    let mut document = ctx.endpoint_document(network.id);
    document["Name"] = json!(name);
    document["IpConfigurations"] = json!(addresses);
    document["MacAddress"] = json!(mac);
    document["SchemaVersion"] = v2_2();
    let made = ctx.create_endpoint(network.id, &document)?;
    let found = ctx.by_name::<Endpoint>(name)?;
    ctx.check(found.id == made.id, "get by name", made.id.to_string(), found.text.clone())?;
    ctx.check(
        found.doc.mac_address.as_deref() == Some(mac),
        "get by name",
        format!("MacAddress {mac}"),
        found.text.clone(),
    )?;
    for wanted in addresses {
        let (ip, prefix) = (ip(&wanted["IpAddress"]), wanted["PrefixLength"].as_u64());
        let kept = found.doc.ip_configurations.iter().any(|config| {
            config.ip_address.parse().ok() == ip && Some(u64::from(config.prefix_length)) == prefix
        });
        ctx.check(kept, "get by name", format!("IpConfigurations with {wanted}"), found.text.clone())?;
    }
    Ok(made)
}

fn ip(value: &Value) -> Option<IpAddr> {
    value.as_str()?.parse().ok()
}

fn create_endpoint(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.ncproxy_network("v4", false)?;
    let name = ctx.name("v4-endpoint");
    let addresses = [address("192.168.100.4", 24)];
    let endpoint = endpoint_as_given(ctx, &network, &name, &addresses, "00-15-5D-52-C0-00")?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}

fn create_endpoint_dual(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.feature(Feature::IPv6DualStack, || ctx.ncproxy_network("dual", true))?;
    let name = ctx.name("dual-endpoint");
    let addresses = [address("192.168.100.5", 24), address("2001:db8:abcd:0012::3", 64)];
    let endpoint = endpoint_as_given(ctx, &network, &name, &addresses, "00-15-5D-52-C0-10")?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}

/// The ids in a namespace's resources are compared letter by letter with the endpoint's in upper case.
fn holds_in_upper_case(ctx: &Context<'_>, namespace: Guid, endpoint: Guid) -> Result<(), Failure> {
    let found = ctx.by_id::<Namespace>(namespace)?;
    let upper = endpoint.upper().to_string();
    ctx.check(
        endpoint_texts(&found.doc).contains(&upper),
        "ids in the namespace's resources",
        format!("{upper}, in upper case"),
        found.text,
    )
}

fn add_endpoint(ctx: &Context<'_>, word: &str) -> Result<(), Failure> {
    let network = ctx.ncproxy_network(word, false)?;
    let endpoint = ctx.endpoint(network.id)?;
    let namespace = ctx.namespace("Host")?;
    ctx.namespace_endpoint(namespace.id, RequestType::Add, endpoint.id)?;
    holds_in_upper_case(ctx, namespace.id, endpoint.id)?;
    ctx.namespace_endpoint(namespace.id, RequestType::Remove, endpoint.id)?;
    ctx.delete_made(Kind::Namespace, namespace.id)?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}

/// The first namespace of type HostDefault, or one made for the purpose.
fn add_endpoint_to_host(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.ncproxy_network("host", false)?;
    let endpoint = ctx.endpoint(network.id)?;
    let all = ctx.list::<Namespace>(&Query::all())?;
    let host = all.iter().find(|namespace| namespace.doc.kind == Some(NamespaceType::HostDefault));
    let (namespace, own) = match host {
        Some(namespace) => (namespace.id, false),
        None => (ctx.namespace("HostDefault")?.id, true),
    };
    ctx.namespace_endpoint(namespace, RequestType::Add, endpoint.id)?;
    let held = holds_in_upper_case(ctx, namespace, endpoint.id);
    // Out again whatever was found: the host's namespace is not the suite's.
    ctx.namespace_endpoint(namespace, RequestType::Remove, endpoint.id)?;
    held?;
    if own {
        ctx.delete_made(Kind::Namespace, namespace)?;
    }
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}

fn no_endpoint(ctx: &Context<'_>) -> Result<(), Failure> {
    ctx.missing(ctx.by_name::<Endpoint>(&ctx.name("nobody"))).map(|_| ())
}

fn no_network(ctx: &Context<'_>) -> Result<(), Failure> {
    ctx.missing(ctx.by_name::<Network>(&ctx.name("nobody"))).map(|_| ())
}

fn delete_endpoint(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.ncproxy_network("gone", false)?;
    let endpoint = ctx.endpoint(network.id)?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.missing(ctx.by_name::<Endpoint>(&ctx.name("endpoint")))?;
    ctx.delete(Kind::Network, network.id)
}

fn delete_network(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.ncproxy_network("gone", false)?;
    ctx.delete(Kind::Network, network.id)?;
    ctx.missing(ctx.by_name::<Network>(&ctx.name("gone"))).map(|_| ())
}

/// An endpoint has one or two addresses that parse.
fn has_addresses(endpoint: &Found<Endpoint>) -> Result<(), Failure> {
    let count = endpoint.doc.ip_configurations.len();
    if (1..=2).contains(&count) && endpoint.doc.addresses().count() == count {
        return Ok(());
    }
    Err(Failure::unmet("addresses", "one or two IpConfigurations that parse", endpoint.text.clone()))
}

/// Holds every object to a rule; those of others are only noted.
fn each<T>(
    ctx: &Context<'_>,
    all: &[Found<T>],
    own: Guid,
    rule: impl Fn(&Found<T>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for found in all {
        match rule(found) {
            Err(failure) if found.id == own => return Err(failure),
            Err(failure) => ctx.note(format!("{} of others: {failure}", found.id)),
            Ok(()) => {}
        }
    }
    let there = all.iter().any(|found| found.id == own);
    ctx.check(there, "list", format!("{own} among them"), format!("{} objects", all.len()))
}

fn get_endpoint(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.ncproxy_network("get", false)?;
    let endpoint = ctx.endpoint(network.id)?;
    has_addresses(&ctx.by_name::<Endpoint>(&ctx.name("endpoint"))?)?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}

fn get_endpoints(ctx: &Context<'_>) -> Result<(), Failure> {
    let network = ctx.ncproxy_network("get", false)?;
    let endpoint = ctx.endpoint(network.id)?;
    each(ctx, &ctx.list::<Endpoint>(&Query::all())?, endpoint.id, has_addresses)?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)
}

/// What ncproxy reads of a network: a MAC pool, subnets that parse, types it knows, a switch that exists.
fn is_readable(ctx: &Context<'_>, network: &Found<Network>) -> Result<(), Failure> {
    let doc = &network.doc;
    let wrong = |expected: &str| Err(Failure::unmet("read the network", expected, network.text.clone()));
    if doc.mac_pool.as_ref().is_none_or(|pool| pool.ranges.is_empty()) {
        return wrong("at least one MAC range");
    }
    if !doc.network_mode().is_known() {
        return wrong("a Type that is known");
    }
    if doc.ipams.iter().any(|ipam| ipam.kind.as_ref().is_some_and(|kind| !IpamType::is_known(kind))) {
        return wrong("an Ipam Type that is known");
    }
    for subnet in doc.subnets() {
        let parses = subnet.prefix.split_once('/').is_some_and(|(address, length)| {
            let most = if address.contains(':') { 128 } else { 32 };
            address.parse::<IpAddr>().is_ok() && length.parse::<u8>().is_ok_and(|length| length <= most)
        });
        if !parses {
            return wrong("subnet prefixes that parse");
        }
    }
    let switch = doc.health.as_ref().and_then(|health| health.extra_params.as_ref()?.switch_guid);
    match switch.filter(|switch| !switch.is_nil()) {
        Some(switch) => ctx.by_id::<Network>(switch).map(|_| ()).map_err(|failure| Failure {
            expected: "SwitchGuid names a network that exists".to_owned(),
            ..failure
        }),
        None => Ok(()),
    }
}

fn get_network(ctx: &Context<'_>, dual: bool) -> Result<(), Failure> {
    let network = if dual {
        ctx.feature(Feature::IPv6DualStack, || ctx.ncproxy_network("get", true))?
    } else {
        ctx.ncproxy_network("get", false)?
    };
    let found = ctx.by_name::<Network>(&ctx.name("get"))?;
    is_readable(ctx, &found)?;
    let first = found.doc.mac_pool.as_ref().and_then(|pool| pool.ranges.first());
    let sent = &mac_pool()["Ranges"][0];
    ctx.check(
        first.is_some_and(|range| {
            sent["StartMacAddress"] == range.start && sent["EndMacAddress"] == range.end
        }),
        "read the network",
        format!("the MAC range as given: {sent}"),
        found.text.clone(),
    )?;
    ctx.check(
        found.doc.subnets().count() == if dual { 2 } else { 1 },
        "read the network",
        "the subnets as given",
        found.text,
    )?;
    ctx.delete(Kind::Network, network.id)
}

fn get_networks(ctx: &Context<'_>) -> Result<(), Failure> {
    let name = ctx.name("pool");
    ctx.pre_clean(&name);
    // Without a pool in the create call: HNS must make one, for ncproxy reads it.
    let document = ctx.network_document(&name, "NAT", &[subnet_v4()], &json!({}), &v2_2());
    let network = ctx.create_network(&document)?;
    let all = ctx.list::<Network>(&Query::all())?;
    each(ctx, &all, network.id, |found| is_readable(ctx, found))?;
    ctx.delete(Kind::Network, network.id)
}

/// The HNS side of assigning addresses of both families to a Linux utility VM.
fn lcow(ctx: &Context<'_>) -> Result<(), Failure> {
    let name = ctx.name("lcow");
    ctx.pre_clean(&name);
    let namespace = ctx.create::<Namespace>(&json!({ "SchemaVersion": { "Major": 0, "Minor": 0 } }))?;
    let subnets = [subnet("192.168.128.0/20", "192.168.128.1"), subnet("fd00::100/120", "fd00::101")];
    let document = ctx.network_document(&name, "NAT", &subnets, &json!({}), &v2_2());
    let network = ctx.feature(Feature::IPv6DualStack, || ctx.create_network(&document))?;
    let mut document = ctx.endpoint_document(network.id);
    let addresses = [address("192.168.128.4", 20), address("fd00::106", 120)];
    document["IpConfigurations"] = json!(addresses);
    document["Routes"] = json!([
        { "NextHop": "192.168.128.1", "DestinationPrefix": "0.0.0.0/0" },
        { "NextHop": "fd00::101", "DestinationPrefix": "::/0" },
    ]);
    document["SchemaVersion"] = v2_2();
    let endpoint = ctx.create_endpoint(network.id, &document)?;
    let came: Vec<Value> = endpoint
        .doc
        .ip_configurations
        .iter()
        .map(|config| address(&config.ip_address, config.prefix_length))
        .collect();
    ctx.check(
        came == addresses,
        "read the endpoint",
        format!("IpConfigurations exactly {}", json!(addresses)),
        endpoint.text.clone(),
    )?;
    ctx.namespace_endpoint(namespace.id, RequestType::Add, endpoint.id)?;
    ctx.namespace_endpoint(namespace.id, RequestType::Remove, endpoint.id)?;
    ctx.delete(Kind::Endpoint, endpoint.id)?;
    ctx.delete(Kind::Network, network.id)?;
    ctx.delete_made(Kind::Namespace, namespace.id)
}

fn without_ipam(ctx: &Context<'_>) -> Result<(), Failure> {
    let name = ctx.name("job");
    ctx.pre_clean(&name);
    let network = ctx.create::<Network>(&json!({ "Name": name, "Type": "NAT", "SchemaVersion": v2_2() }))?;
    ctx.delete(Kind::Network, network.id)
}

/// Taking an endpoint out of a namespace that is gone is "not found", which clients disregard.
fn missing_namespace(ctx: &Context<'_>) -> Result<(), Failure> {
    let removal = ctx.namespace_endpoint(NOBODY, RequestType::Remove, NOBODY);
    match &removal {
        Err(Failure { nature: Nature::Refused(error), .. }) if error.is_not_found() => Ok(()),
        _ => refused_with("remove from a namespace that is gone", removal, hcn::HResult::ELEMENT_NOT_FOUND),
    }
}

/// ncproxy's dual-stack subnets, for other cases.
pub(super) fn dual_subnets() -> [Value; 2] {
    [subnet_v4(), subnet_v6()]
}
