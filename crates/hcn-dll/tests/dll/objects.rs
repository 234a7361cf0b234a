//! The calls on objects: ids, handles and errors.

use hcn::{Guid, HResult, Kind};

use crate::world::{V2, World, code, payload, with_text};

#[test]
fn every_kind_is_created_opened_queried_closed_and_deleted() {
    let world = World::new();
    let network = world.network("n");
    let network_id = world.id(Kind::Network, network);
    let endpoint =
        world.create_endpoint(network, Guid::NIL, r#"{"Name":"e","SchemaVersion":{"Major":2,"Minor":0}}"#);
    let endpoint = endpoint.unwrap();
    let endpoint_id = world.id(Kind::Endpoint, endpoint);
    let wanted = Guid::from_u128(0x1234);
    let namespace = world.create(Kind::Namespace, wanted, "{}").unwrap();
    assert_eq!(world.id(Kind::Namespace, namespace), wanted, "the id that the caller gives");
    let named = Guid::from_u128(0x5678);
    let settings = format!(
        r#"{{"ID":"{named}","HostComputeEndpoints":["{endpoint_id}"],"FrontendVIPs":["1.1.1.2"],
            "PortMappings":[{{"Protocol":6,"InternalPort":8080,"ExternalPort":8090}}],"SchemaVersion":{{"Major":2,"Minor":0}}}}"#
    );
    let balancer = world.create(Kind::LoadBalancer, Guid::NIL, &settings).unwrap();
    assert_eq!(world.id(Kind::LoadBalancer, balancer), named, "the id in the settings");
    let settings = format!(
        r#"{{"HostComputeEndpoints":["{endpoint_id}"],"Setting":[{{"DestinationPrefix":"169.254.169.254/24","NextHop":"127.10.0.34"}}],
            "SchemaVersion":{{"Major":2,"Minor":0}}}}"#
    );
    let route = world.create(Kind::SdnRoute, Guid::NIL, &settings).unwrap();

    let request = format!(
        r#"{{"ResourceType":"Endpoint","RequestType":"Add","Settings":{{"EndpointId":"{endpoint_id}"}}}}"#
    );
    world.modify(Kind::Namespace, namespace, &request).unwrap();
    assert!(
        world
            .query(Kind::Namespace, namespace, Some(V2))
            .unwrap()
            .to_lowercase()
            .contains(&endpoint_id.to_string())
    );

    for (kind, handle) in [
        (Kind::SdnRoute, route),
        (Kind::LoadBalancer, balancer),
        (Kind::Namespace, namespace),
        (Kind::Endpoint, endpoint),
        (Kind::Network, network),
    ] {
        let id = world.id(kind, handle);
        assert!(world.ids(kind).contains(&id), "{kind}");
        let other = world.open(kind, id).unwrap();
        assert_ne!(other, handle, "each handle is one of its own");
        assert_eq!(world.close(kind, handle), HResult(0));
        assert_eq!(world.close(kind, handle), HResult::INVALID_HANDLE, "{kind}: closed twice");
        assert_eq!(world.query(kind, handle, None).unwrap_err().code, HResult::INVALID_HANDLE);
        world.delete(kind, id).unwrap();
        let gone = kind.not_found();
        assert_eq!(
            world.query(kind, other, None).unwrap_err().code,
            gone,
            "{kind}: the handle is there, the object is not"
        );
        assert_eq!(world.delete(kind, id).unwrap_err().code, gone, "{kind}");
        assert_eq!(world.open(kind, id).unwrap_err().code, gone, "{kind}");
        assert_eq!(world.close(kind, other), HResult(0));
    }
    assert_eq!(network_id, network_id.lower());
}

#[test]
fn a_handle_of_another_kind_is_no_handle() {
    let world = World::new();
    let network = world.network("n");
    for kind in Kind::ALL.into_iter().filter(|&kind| kind != Kind::Network) {
        assert_eq!(world.query(kind, network, None).unwrap_err().code, HResult::INVALID_HANDLE, "{kind}");
        assert_eq!(world.modify(kind, network, "{}").unwrap_err().code, HResult::INVALID_HANDLE, "{kind}");
        assert_eq!(world.close(kind, network), HResult::INVALID_HANDLE, "{kind}");
    }
    let namespace = world.create(Kind::Namespace, Guid::NIL, "{}").unwrap();
    let refused = world.create_endpoint(namespace, Guid::NIL, "{}").unwrap_err();
    assert_eq!(refused.code, HResult::INVALID_HANDLE);
    assert_eq!(world.close(Kind::Network, network), HResult(0), "it was left open");
}

#[test]
fn an_open_handle_keeps_no_object_alive() {
    let world = World::new();
    let network = world.network("n");
    let id = world.id(Kind::Network, network);
    for _ in 0..1000 {
        world.open(Kind::Network, id).unwrap();
    }
    world.delete(Kind::Network, id).unwrap();
    let refused = world.create_endpoint(network, Guid::NIL, "{}").unwrap_err();
    assert_eq!(refused.code, HResult::NETWORK_NOT_FOUND);
    assert_eq!(
        refused.text, r#"{"Success":false,"Error":"The network was not found. ","ErrorCode":2151350273}"#,
        "the record is HNS's own"
    );
}

#[test]
fn queries_cross_as_they_are() {
    let world = World::new();
    let network = world.network("n");
    world.network("other");
    for (query, wanted) in [
        (None, 2),
        (Some(""), 2),
        (Some(V2), 2),
        (Some(r#"{"SchemaVersion":{"Major":2,"Minor":0},"Filter":"{\"Name\":\"n\"}"}"#), 1),
        (Some(r#"{"Filter":"{\"Name\":\"nobody\"}"}"#), 0),
    ] {
        let ids: Vec<Guid> = serde_json::from_str(&world.enumerate(Kind::Network, query).unwrap()).unwrap();
        assert_eq!(ids.len(), wanted, "{query:?}");
    }
    assert_eq!(world.enumerate(Kind::SdnRoute, None).unwrap(), "[]");
    let filtered = r#"{"SchemaVersion":{"Major":2,"Minor":0},"Filter":"{\"Name\":\"nobody\"}"}"#;
    let text = world.query(Kind::Network, network, Some(filtered)).unwrap();
    assert_eq!(text, world.query(Kind::Network, network, Some(V2)).unwrap(), "a filter has no say here");
    assert_ne!(text, world.query(Kind::Network, network, None).unwrap(), "without a version it is v1");
    assert_eq!(world.enumerate(Kind::Network, Some("[")).unwrap_err().code, HResult::INVALID_JSON);
}

#[test]
fn statistics_and_addresses_of_endpoints() {
    let world = World::new();
    let network = world.network("n");
    let endpoint =
        world.create_endpoint(network, Guid::NIL, r#"{"Name":"e","SchemaVersion":{"Major":2,"Minor":0}}"#);
    let endpoint = endpoint.unwrap();
    let stats =
        payload(|out, record| unsafe { world.dll.endpoint_stats(endpoint, std::ptr::null(), out, record) });
    let stats: serde_json::Value = serde_json::from_str(&stats.unwrap()).unwrap();
    assert!(stats.get("BytesReceived").is_some(), "{stats}");
    let addresses = with_text(Some(V2), |query| {
        payload(|out, record| unsafe { world.dll.endpoint_addresses(endpoint, query, out, record) })
    });
    let addresses: serde_json::Value = serde_json::from_str(&addresses.unwrap()).unwrap();
    assert!(addresses[0]["IpAddress"].is_string(), "{addresses}");
    world.delete(Kind::Endpoint, world.id(Kind::Endpoint, endpoint)).unwrap();
    let gone =
        payload(|out, record| unsafe { world.dll.endpoint_stats(endpoint, std::ptr::null(), out, record) });
    assert_eq!(gone.unwrap_err().code, HResult::ENDPOINT_NOT_FOUND);
    let wrong = payload(|out, record| unsafe {
        world.dll.endpoint_addresses(network, std::ptr::null(), out, record)
    });
    assert_eq!(wrong.unwrap_err().code, HResult::INVALID_HANDLE);
}

#[test]
fn without_settings_every_call_says_what_to_set() {
    let dll = hcn_dll::Dll::new(|| hcn_dll::settings::Settings::find(|_| None, None, None));
    let failed =
        payload(|out, record| unsafe { dll.enumerate(Kind::Network, std::ptr::null(), out, record) });
    let failed = failed.unwrap_err();
    assert_eq!(failed.code, HResult::SERVICE_DOES_NOT_EXIST);
    assert!(failed.text.contains("set TRANSOM_HNS to token:FILE"), "{}", failed.text);
    let mut response = std::ptr::null_mut();
    let method = hcn_abi::wide::encode("GET").unwrap();
    let answer =
        unsafe { dll.hns_call(method.as_ptr(), method.as_ptr(), std::ptr::null(), &raw mut response) };
    assert_eq!(code(answer), HResult::SERVICE_DOES_NOT_EXIST);
}
