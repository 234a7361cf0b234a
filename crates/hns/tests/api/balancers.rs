//! Load balancers: frontends, destinations, references.

use hcn::{Guid, HResult, Hcn, HcnExt, Kind, LoadBalancer, Query};
use hns::{Hns, Profile, Protocol};

use crate::world::{
    balancer, id, local, make_balancer, network, open, refused, remote, switched, switched_on, try_endpoint,
};

const TCP: u32 = 6;
const UDP: u32 = 17;

fn overlay(profile: Profile) -> (Hns, Guid, Guid) {
    let hns = open(profile);
    let network = network(&hns, "Overlay", 0);
    let endpoint = local(&hns, network, "10.50.0.9");
    (hns, network, endpoint)
}

#[test]
fn a_balancer_is_made_found_read_and_deleted() {
    for profile in Profile::ALL {
        let (hns, network, endpoint) = overlay(profile);
        let other = remote(&hns, network, "10.50.9.9");
        let id = make_balancer(
            &hns,
            &balancer(&["10.60.0.1", "10.60.0.2"], (TCP, 443, 6443), &[endpoint, other], 1),
        )
        .unwrap();
        assert_eq!(hns.enumerate(Kind::LoadBalancer, &Query::by_id(id)).unwrap(), [id]);
        let read: LoadBalancer = hns.get(id).unwrap();
        assert_eq!(read.endpoints, [endpoint, other]);
        assert_eq!(read.frontends().len(), 2);
        assert_eq!(read.flags.bits(), 1);
        hns.delete(Kind::LoadBalancer, id).unwrap();
        assert_eq!(
            refused(hns.delete(Kind::LoadBalancer, id), &[&id.to_string()]),
            HResult::ELEMENT_NOT_FOUND
        );
        assert!(hns.enumerate(Kind::LoadBalancer, &Query::all()).unwrap().is_empty());
    }
}

#[test]
fn a_frontend_is_held_once_whatever_the_network() {
    let (hns, _, endpoint) = overlay(Profile::Ws2022);
    let document = balancer(&["10.60.0.1"], (TCP, 443, 6443), &[endpoint], 1);
    let holder = make_balancer(&hns, &document).unwrap();
    let other_network = network(&hns, "Overlay", 7);
    let other = local(&hns, other_network, "10.50.7.9");
    let again = balancer(&["10.60.0.9", "10.60.0.1"], (TCP, 443, 8443), &[other], 1);
    let code = refused(make_balancer(&hns, &again), &["10.60.0.1:443/TCP", &holder.to_string()]);
    assert_eq!(code, HResult::ALREADY_EXISTS);
    make_balancer(&hns, &balancer(&["10.60.0.1"], (UDP, 443, 8443), &[other], 1)).unwrap();
    make_balancer(&hns, &balancer(&["10.60.0.1"], (TCP, 444, 8443), &[other], 1)).unwrap();
    hns.delete(Kind::LoadBalancer, holder).unwrap();
    make_balancer(&hns, &again).unwrap();
    let hns = switched("duplicate_frontend: HCN_E_PORT_ALREADY_EXISTS");
    let network = network(&hns, "Overlay", 0);
    let document = balancer(&["10.60.0.1"], (TCP, 443, 6443), &[local(&hns, network, "10.50.0.9")], 1);
    make_balancer(&hns, &document).unwrap();
    assert_eq!(refused(make_balancer(&hns, &document), &["10.60.0.1"]), HResult::PORT_ALREADY_EXISTS);
}

#[test]
fn wrong_balancers_are_refused_by_field() {
    let (hns, _, endpoint) = overlay(Profile::Newest);
    let good = balancer(&["10.60.0.1"], (TCP, 443, 6443), &[endpoint], 0);
    let cases: Vec<(String, HResult, &str)> = vec![
        (
            balancer(&["10.60.0.1"], (TCP, 443, 6443), &[], 0),
            HResult::INVALID_JSON_REFERENCE,
            "HostComputeEndpoints is empty",
        ),
        (
            balancer(&["10.60.0.1"], (TCP, 443, 6443), &[endpoint, id(8)], 0),
            HResult::INVALID_JSON_REFERENCE,
            "no endpoint",
        ),
        (
            balancer(&["10.60.0.1"], (TCP, 443, 0), &[endpoint], 0),
            HResult::INVALID_INTERNAL_PORT,
            "InternalPort",
        ),
        (
            balancer(&["10.60.0.1"], (TCP, 0, 6443), &[endpoint], 0),
            HResult::INVALID_PARAMETER,
            "ExternalPort",
        ),
        (balancer(&["10.60.0.1"], (256, 443, 6443), &[endpoint], 0), HResult::INVALID_PARAMETER, "256"),
        (balancer(&["vip"], (TCP, 443, 6443), &[endpoint], 0), HResult::INVALID_IP, "FrontendVIPs"),
        (
            balancer(&["0.0.0.0"], (TCP, 443, 6443), &[endpoint], 0),
            HResult::ADDR_INVALID_OR_RESERVED,
            "0.0.0.0",
        ),
        (
            balancer(&["10.60.0.1", "10.60.0.1"], (TCP, 443, 6443), &[endpoint], 0),
            HResult::INVALID_PARAMETER,
            "twice",
        ),
        (balancer(&["fd00::1"], (TCP, 443, 6443), &[endpoint], 0), HResult::INVALID_PARAMETER, "IPv6 flag"),
        (balancer(&["10.60.0.1"], (TCP, 443, 6443), &[endpoint], 2), HResult::INVALID_PARAMETER, "IPv6 flag"),
        (
            balancer(&["fd00::1"], (TCP, 443, 6443), &[endpoint], 2),
            HResult::INVALID_PARAMETER,
            "no IPv6 address",
        ),
        (
            good.replace(r#""PortMappings":[{"#, r#""PortMappings":[],"Was":[{"#),
            HResult::INVALID_PARAMETER,
            "PortMappings",
        ),
        (good.replace(r#""Flags":0"#, r#""SourceVIP":"x""#), HResult::INVALID_IP, "SourceVIP"),
        (
            good.replace(r#""Flags":0"#, &format!(r#""HostComputeNetwork":"{}""#, id(1))),
            HResult::NETWORK_NOT_FOUND,
            "network",
        ),
        (
            good.replace(r#""Protocol":6"#, r#""Protocol":6,"DistributionType":9"#),
            HResult::INVALID_PARAMETER,
            "DistributionType",
        ),
        (good.replace(r#""Protocol":6"#, r#""Protocol":"six""#), HResult::INVALID_JSON, "Protocol"),
    ];
    for (json, code, part) in cases {
        assert_eq!(refused(make_balancer(&hns, &json), &["HcnCreateLoadBalancer", part]), code, "{json}");
    }
    assert!(hns.enumerate(Kind::LoadBalancer, &Query::all()).unwrap().is_empty());
    make_balancer(&hns, &good).unwrap();
}

#[test]
fn switches_allow_what_the_default_refuses() {
    let hns =
        switched("empty_balancer: true\none_family: false\nunknown_reference: HCN_E_ENDPOINT_NOT_FOUND");
    make_balancer(&hns, &balancer(&["10.60.0.1"], (TCP, 443, 6443), &[], 2)).unwrap();
    let unknown = make_balancer(&hns, &balancer(&["10.60.0.2"], (TCP, 443, 6443), &[id(8)], 0));
    assert_eq!(refused(unknown, &["no endpoint"]), HResult::ENDPOINT_NOT_FOUND);
}

#[test]
fn the_destination_limit_is_the_builds() {
    for (profile, limit) in [(Profile::Ws2019, 64u16), (Profile::Ws2022, 1024)] {
        let (hns, network, _) = overlay(profile);
        let endpoints: Vec<Guid> =
            (0..=limit).map(|n| remote(&hns, network, &format!("10.70.{}.{}", n / 256, n % 256))).collect();
        let most = usize::from(limit);
        let full = balancer(&["10.60.0.1"], (TCP, 443, 6443), &endpoints, 1);
        assert_eq!(refused(make_balancer(&hns, &full), &[&limit.to_string()]), HResult::INVALID_PARAMETER);
        make_balancer(&hns, &balancer(&["10.60.0.1"], (TCP, 443, 6443), &endpoints[..most], 1)).unwrap();
    }
}

#[test]
fn bridged_local_backends_need_a_switch_port() {
    let hns = open(Profile::Ws2022);
    let network = network(&hns, "L2Bridge", 0);
    let (here, there) = (local(&hns, network, "10.50.0.9"), remote(&hns, network, "10.50.0.10"));
    let document = balancer(&["10.60.0.1"], (TCP, 443, 6443), &[there, here], 1);
    assert_eq!(
        refused(make_balancer(&hns, &document), &[&here.to_string(), "switch port"]),
        HResult::PORT_NOT_FOUND
    );
    hns.attach_to_switch(here).unwrap();
    make_balancer(&hns, &document).unwrap();
    let hns = switched("balancer_needs_port: false");
    let network = crate::world::network(&hns, "L2Bridge", 0);
    let here = local(&hns, network, "10.50.0.9");
    make_balancer(&hns, &balancer(&["10.60.0.1"], (TCP, 443, 6443), &[here], 1)).unwrap();
}

#[test]
fn an_unsupported_distribution_follows_the_switch() {
    for (yaml, kept) in [
        ("{}", Some(true)),
        ("distribution_unsupported: drop", Some(false)),
        ("distribution_unsupported: refuse", None),
    ] {
        let hns = switched_on(Profile::Ws2019, yaml);
        let network = network(&hns, "Overlay", 0);
        let document = balancer(&["10.60.0.1"], (TCP, 443, 6443), &[local(&hns, network, "10.50.0.9")], 1)
            .replace(r#""Protocol":6"#, r#""Protocol":6,"DistributionType":2"#);
        match (make_balancer(&hns, &document), kept) {
            (Ok(id), Some(kept)) => {
                let read: LoadBalancer = hns.get(id).unwrap();
                assert_eq!(read.port_mappings[0].distribution.is_some(), kept, "{yaml}");
            }
            (result, None) => assert_eq!(refused(result, &["DistributionType"]), HResult::INVALID_PARAMETER),
            (Err(error), Some(_)) => panic!("{yaml}: {error}"),
        }
    }
}

#[test]
fn families_are_apart() {
    let hns = open(Profile::Ws2022);
    let json = r#"{"Name":"dual","Type":"Overlay","Ipams":[{"Subnets":[
        {"IpAddressPrefix":"10.50.0.0/24","Policies":[{"Type":"VSID","Settings":{"IsolationId":4096}}]},
        {"IpAddressPrefix":"fd00::/64","Policies":[{"Type":"VSID","Settings":{"IsolationId":4096}}]}]}]}"#;
    let network = hns.create(Kind::Network, None, Guid::NIL, json).unwrap();
    let dual = hns.create(Kind::Endpoint, Some(network), Guid::NIL, "{}").unwrap();
    let v6 = try_endpoint(&hns, network, "fd00::9", 0).unwrap();
    make_balancer(&hns, &balancer(&["fd01::1"], (TCP, 443, 6443), &[dual, v6], 2)).unwrap();
    make_balancer(&hns, &balancer(&[], (TCP, 30080, 6443), &[dual, v6], 2)).unwrap();
    make_balancer(&hns, &balancer(&[], (TCP, 30080, 6443), &[dual], 0)).unwrap();
    let mixed = make_balancer(&hns, &balancer(&["10.60.0.1"], (TCP, 443, 6443), &[dual, v6], 0));
    assert_eq!(refused(mixed, &[&v6.to_string()]), HResult::INVALID_PARAMETER);
    let old = open(Profile::Ws2019);
    let network = crate::world::network(&old, "Overlay", 0);
    let endpoint = remote(&old, network, "fd00::9");
    let v6 = make_balancer(&old, &balancer(&["fd01::1"], (TCP, 443, 6443), &[endpoint], 2));
    assert_eq!(refused(v6, &["IPv6DualStack"]), HResult::INVALID_PARAMETER);
}

#[test]
fn ids_inside_are_spelled_as_the_build_does() {
    let (hns, _, endpoint) = overlay(Profile::Ws2019);
    let made =
        make_balancer(&hns, &balancer(&["10.60.0.1"], (TCP, 443, 6443), &[endpoint.lower()], 1)).unwrap();
    let read: LoadBalancer = hns.get(made).unwrap();
    assert_eq!(read.endpoints[0].to_string(), endpoint.to_string().to_uppercase());
}

#[test]
fn a_listener_collides_with_a_vip_on_old_builds_only() {
    for (profile, flags, collides) in
        [(Profile::Ws2019, 0, true), (Profile::Ws2019, 1, false), (Profile::Ws2022, 0, false)]
    {
        let (hns, _, endpoint) = overlay(profile);
        hns.listen(Protocol::Tcp, 10256).unwrap();
        let result = make_balancer(&hns, &balancer(&["10.60.0.1"], (TCP, 10256, 10256), &[endpoint], flags));
        if collides {
            assert_eq!(refused(result, &["listens", "10256"]), HResult::PORT_ALREADY_EXISTS);
        } else {
            result.unwrap();
        }
    }
}
