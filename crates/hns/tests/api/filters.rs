//! Enumeration.

use hcn::{Guid, HResult, Hcn, Kind, Query};
use hns::{Hns, Profile};

use crate::world::{balancer, local, make_balancer, network, open, refused, remote, switched};

struct Fixture {
    hns: Hns,
    networks: [Guid; 2],
    endpoints: [Guid; 3],
}

fn fixture(hns: Hns) -> Fixture {
    let networks = [network(&hns, "Overlay", 0), network(&hns, "L2Bridge", 1)];
    let endpoints = [
        local(&hns, networks[0], "10.50.0.9"),
        remote(&hns, networks[0], "10.60.0.9"),
        local(&hns, networks[1], "10.50.1.9"),
    ];
    make_balancer(&hns, &balancer(&["10.96.0.1"], (6, 80, 8080), &[endpoints[0]], 1)).unwrap();
    Fixture { hns, networks, endpoints }
}

fn list(hns: &Hns, kind: Kind, filter: &str) -> hcn::Result<Vec<Guid>> {
    hns.enumerate(kind, &Query { filter: Some(filter.to_owned()), ..Query::all() })
}

#[test]
fn filters_have_v1_names_and_all_must_match() {
    let Fixture { hns, networks, endpoints } = fixture(open(Profile::Ws2022));
    let [overlay, bridge] = networks;
    let [a, b, c] = endpoints;
    let upper = a.to_string().to_uppercase();
    let cases: Vec<(Kind, String, Vec<Guid>)> = vec![
        (Kind::Network, String::new(), vec![overlay, bridge]),
        (Kind::Network, "{}".into(), vec![overlay, bridge]),
        (Kind::Network, r#"{"Name":"Overlay0"}"#.into(), vec![overlay]),
        (Kind::Network, r#"{"Name":"overlay0"}"#.into(), vec![]),
        (Kind::Network, r#"{"Flags":0}"#.into(), vec![overlay, bridge]),
        (Kind::Network, r#"{"Flags":1}"#.into(), vec![]),
        (Kind::Network, r#"{"Type":"L2Bridge"}"#.into(), vec![bridge]),
        (Kind::Endpoint, format!(r#"{{"ID":"{upper}"}}"#), vec![a]),
        (Kind::Endpoint, r#"{"ID":""}"#.into(), vec![]),
        (Kind::Endpoint, format!(r#"{{"id":"{overlay}"}}"#), vec![]),
        (Kind::Endpoint, r#"{"Name":"Ethernet"}"#.into(), vec![a, b, c]),
        (Kind::Endpoint, format!(r#"{{"VirtualNetwork":"{overlay}"}}"#), vec![a, b]),
        (Kind::Endpoint, format!(r#"{{"VirtualNetwork":"{overlay}","Flags":1}}"#), vec![b]),
        (Kind::Endpoint, r#"{"VirtualNetworkName":"L2Bridge1"}"#.into(), vec![c]),
        (Kind::Endpoint, r#"{"IPAddress":"10.60.0.9"}"#.into(), vec![b]),
        (Kind::Endpoint, format!(r#"{{"Name":"Ethernet","VirtualNetwork":"{bridge}"}}"#), vec![c]),
        (Kind::Endpoint, format!(r#"{{"HostComputeNetwork":"{bridge}"}}"#), vec![a, b, c]),
    ];
    for (kind, filter, wanted) in cases {
        assert_eq!(list(&hns, kind, &filter).unwrap(), wanted, "{filter}");
    }
    for filter in ["[", "7", r#"{"Name":7}"#] {
        assert_eq!(
            refused(list(&hns, Kind::Network, filter), &["Filter"]),
            HResult::INVALID_JSON,
            "{filter}"
        );
    }
}

#[test]
fn switches_change_order_case_masks_and_unknown_names() {
    let Fixture { hns, networks: [overlay, bridge], .. } = fixture(switched(
        "list_order: newest\nfilter_name_ignores_case: true\nfilter_flags: mask\nfilter_unknown_key: match_nothing",
    ));
    assert_eq!(list(&hns, Kind::Network, "").unwrap(), [bridge, overlay]);
    assert_eq!(list(&hns, Kind::Network, r#"{"Name":"OVERLAY0"}"#).unwrap(), [overlay]);
    assert_eq!(list(&hns, Kind::Endpoint, r#"{"Flags":0}"#).unwrap().len(), 3);
    assert!(list(&hns, Kind::Endpoint, r#"{"Weather":"fine"}"#).unwrap().is_empty());
    let Fixture { hns, networks: [overlay, bridge], .. } = fixture(switched("list_order: id"));
    assert_eq!(list(&hns, Kind::Network, "").unwrap(), [overlay.min(bridge), overlay.max(bridge)]);
}

#[test]
fn the_querys_schema_decides_the_answers_form() {
    let Fixture { hns, networks: [overlay, _], endpoints: [a, ..] } = fixture(open(Profile::Ws2022));
    let v1 = hns.query(Kind::Network, overlay, &Query::default()).unwrap();
    assert!(v1.contains(r#""AddressPrefix":"10.50.0.0/24""#) && v1.contains("CurrentEndpointCount"), "{v1}");
    let old =
        Query::from_text(r#"{"SchemaVersion":{"Major":1,"Minor":0},"Filter":"{\"ID\":\"x\"}"}"#).unwrap();
    let v1 = hns.query(Kind::Endpoint, a, &old).unwrap();
    assert!(v1.contains("VirtualNetworkName") && v1.contains(r#""State":1"#), "{v1}");
    let v2 = hns.query(Kind::Endpoint, a, &Query::by_name("a filter here is disregarded")).unwrap();
    assert!(v2.contains("HostComputeNetwork"), "{v2}");
}
