//! SDN routes.

use hcn::{Guid, HResult, Hcn, HcnExt, Kind, SdnRoute};
use hns::{Hns, Profile};

use crate::world::{id, local, network, open, refused};

fn create(hns: &Hns, endpoints: &str, member: &str, settings: &str) -> hcn::Result<Guid> {
    let json = format!(
        r#"{{"HostComputeEndpoints":[{endpoints}],"{member}":[{settings}],"SchemaVersion":{{"Major":2,"Minor":0}}}}"#
    );
    hns.create(Kind::SdnRoute, None, Guid::NIL, &json)
}

#[test]
fn both_names_of_the_settings_are_taken_and_given() {
    let hns = open(Profile::Ws2022);
    let network = network(&hns, "Overlay", 0);
    let endpoint = format!("\"{}\"", local(&hns, network, "10.50.0.9"));
    let setting = r#"{"DestinationPrefix":"169.254.169.254/24","NextHop":"127.10.0.34","NeedEncap":true}"#;
    for member in ["Setting", "Routes"] {
        let route: SdnRoute = hns.get(create(&hns, &endpoint, member, setting).unwrap()).unwrap();
        assert_eq!(route.setting, route.routes);
        assert!(route.settings()[0].need_encap);
    }
}

#[test]
fn wrong_routes_are_refused() {
    let hns = open(Profile::Ws2022);
    let network = network(&hns, "Overlay", 0);
    let endpoint = format!("\"{}\"", local(&hns, network, "10.50.0.9"));
    let unknown = format!("\"{}\"", id(9));
    let good = r#"{"DestinationPrefix":"10.0.0.0/8","NextHop":"10.50.0.1"}"#;
    for (endpoints, settings, code, part) in [
        ("", good, HResult::INVALID_JSON_REFERENCE, "empty"),
        (unknown.as_str(), good, HResult::INVALID_JSON_REFERENCE, "no endpoint"),
        (&endpoint, r#"{"DestinationPrefix":"ten"}"#, HResult::INVALID_PREFIX, "ten"),
        (&endpoint, r#"{"DestinationPrefix":"10.0.0.0/8","NextHop":"gw"}"#, HResult::INVALID_IP, "gw"),
    ] {
        assert_eq!(refused(create(&hns, endpoints, "Routes", settings), &[part]), code);
    }
    let made = create(&hns, &endpoint, "Routes", good).unwrap();
    assert_eq!(refused(hns.modify(Kind::SdnRoute, made, "{}"), &["not modified"]), HResult::E_NOTIMPL);
    hns.delete(Kind::SdnRoute, made).unwrap();
    assert_eq!(refused(hns.delete(Kind::SdnRoute, made), &[&made.to_string()]), HResult::ELEMENT_NOT_FOUND);
}
