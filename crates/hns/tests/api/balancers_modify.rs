//! `HcnModifyLoadBalancer`, by version and switch.

use hcn::{Guid, HResult, Hcn, HcnExt, Kind, LoadBalancer};
use hns::{Hns, Profile};

use crate::world::{balancer, local, make_balancer, network, open, refused, switched};

const TCP: u32 = 6;

struct Fixture {
    hns: Hns,
    a: Guid,
    b: Guid,
    id: Guid,
}

fn fixture(hns: Hns) -> Fixture {
    let network = network(&hns, "Overlay", 0);
    let (a, b) = (local(&hns, network, "10.50.0.8"), local(&hns, network, "10.50.0.9"));
    let id = make_balancer(&hns, &balancer(&["10.60.0.1"], (TCP, 443, 6443), &[a], 1)).unwrap();
    Fixture { hns, a, b, id }
}

fn read(hns: &Hns, id: Guid) -> LoadBalancer {
    hns.get(id).unwrap()
}

#[test]
fn it_works_is_ignored_or_is_missing_by_version() {
    for (version, backends) in [
        ("9.5", None),
        ("13.3", None),
        ("15.3", None),
        ("15.4", Some(1)),
        ("15.5", Some(2)),
        ("16.0", Some(2)),
    ] {
        let Fixture { hns, a, b, id } = fixture(switched(&format!("version: \"{version}\"")));
        let result =
            hns.modify(Kind::LoadBalancer, id, &balancer(&["10.60.0.1"], (TCP, 443, 6443), &[a, b], 1));
        match backends {
            Some(count) => {
                result.unwrap();
                assert_eq!(read(&hns, id).endpoints.len(), count, "{version}");
            }
            None => assert_eq!(refused(result, &[version]), HResult::E_NOTIMPL),
        }
    }
    let Fixture { hns, .. } = fixture(open(Profile::Ws2022));
    let unknown = hns.modify(Kind::LoadBalancer, Guid::from_u128(1), "{}");
    assert_eq!(refused(unknown, &["there is no load balancer"]), HResult::ELEMENT_NOT_FOUND);
}

#[test]
fn it_replaces_the_whole_object_and_keeps_the_id() {
    let Fixture { hns, a, b, id } = fixture(open(Profile::Newest));
    let document = balancer(&[], (17, 30053, 53), &[b], 0);
    hns.modify(Kind::LoadBalancer, id, &document).unwrap();
    let changed = read(&hns, id);
    assert_eq!((changed.id, changed.endpoints.clone()), (Some(id), vec![b]));
    assert_eq!(changed.frontends()[0].to_string(), "node:30053/UDP");
    assert_eq!(changed.flags.bits(), 0);
    // The old frontend is free, the new one is not.
    make_balancer(&hns, &balancer(&["10.60.0.1"], (TCP, 443, 6443), &[a], 1)).unwrap();
    assert_eq!(refused(make_balancer(&hns, &document), &["node:30053/UDP"]), HResult::ALREADY_EXISTS);
    let clash = hns.modify(Kind::LoadBalancer, id, &balancer(&["10.60.0.1"], (TCP, 443, 6443), &[a], 1));
    assert_eq!(refused(clash, &["10.60.0.1:443/TCP"]), HResult::ALREADY_EXISTS);
    assert_eq!(read(&hns, id), changed, "what fails changes nothing");
    let report = hns.ports();
    assert_eq!(report.spaces.iter().map(|space| space.blocks.len()).sum::<usize>(), 1, "{report}");
}

#[test]
fn references_that_dangle_already_are_no_reason_to_refuse() {
    let Fixture { hns, a, b, id } = fixture(open(Profile::Newest));
    hns.delete(Kind::Endpoint, a).unwrap();
    hns.modify(Kind::LoadBalancer, id, &balancer(&["10.60.0.1"], (TCP, 443, 6443), &[a, b], 1)).unwrap();
    assert_eq!(read(&hns, id).endpoints, [a, b]);
    hns.modify(Kind::LoadBalancer, id, &balancer(&["10.60.0.1"], (TCP, 443, 6443), &[b], 1)).unwrap();
    let again = hns.modify(Kind::LoadBalancer, id, &balancer(&["10.60.0.1"], (TCP, 443, 6443), &[a, b], 1));
    assert_eq!(refused(again, &[&a.to_string()]), HResult::INVALID_JSON_REFERENCE);
}

#[test]
fn microsofts_sample_request_adds_and_removes_one_endpoint() {
    let Fixture { hns, b, id, .. } = fixture(open(Profile::Newest));
    let request = |kind: &str| {
        format!(r#"{{"ResourceType":1,"RequestType":{kind},"Settings":{{"EndpointId":"{b}"}}}}"#)
    };
    hns.modify(Kind::LoadBalancer, id, &request("0")).unwrap();
    hns.modify(Kind::LoadBalancer, id, &request(r#""Add""#)).unwrap();
    assert_eq!(read(&hns, id).endpoints.len(), 2);
    hns.modify(Kind::LoadBalancer, id, &request("1")).unwrap();
    assert_eq!(read(&hns, id).endpoints.len(), 1);
    assert_eq!(
        refused(hns.modify(Kind::LoadBalancer, id, &request("4")), &["Reset"]),
        HResult::REQUEST_UNSUPPORTED
    );
    let nobody = r#"{"RequestType":"Add","Settings":{}}"#;
    assert_eq!(
        refused(hns.modify(Kind::LoadBalancer, id, nobody), &["EndpointId"]),
        HResult::INVALID_PARAMETER
    );
}

#[test]
fn switches_decide_what_it_does() {
    let Fixture { hns, a, b, id } = fixture(switched("modify_scope: endpoints"));
    hns.modify(Kind::LoadBalancer, id, &balancer(&["10.60.0.9"], (17, 53, 53), &[a, b], 0)).unwrap();
    let changed = read(&hns, id);
    assert_eq!((changed.endpoints.len(), changed.frontend_vips), (2, vec!["10.60.0.1".to_owned()]));
    let Fixture { hns, a, b, id } = fixture(switched("modify_balancer: ignored"));
    hns.modify(Kind::LoadBalancer, id, &balancer(&["10.60.0.1"], (TCP, 443, 6443), &[a, b], 1)).unwrap();
    assert_eq!(read(&hns, id).endpoints.len(), 1);
    let Fixture { hns, a, id, .. } = fixture(switched("modify_balancer: not_implemented"));
    let result = hns.modify(Kind::LoadBalancer, id, &balancer(&["10.60.0.1"], (TCP, 443, 6443), &[a], 1));
    assert_eq!(refused(result, &["modify"]), HResult::E_NOTIMPL);
    let mut old = hns::Switches::of(Profile::Ws2022);
    old.apply_yaml("modify_balancer: works").unwrap();
    let Fixture { hns, a, b, id } =
        fixture(Hns::open(hns::Options { switches: old, ..crate::world::options(Profile::Ws2022) }).unwrap());
    hns.modify(Kind::LoadBalancer, id, &balancer(&["10.60.0.1"], (TCP, 443, 6443), &[a, b], 1)).unwrap();
    assert_eq!(read(&hns, id).endpoints.len(), 2);
}
