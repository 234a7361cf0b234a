//! Namespaces and compartments.

use hcn::namespace::NamespaceType;
use hcn::{Guid, HResult, Hcn, HcnExt, Kind, Namespace, Query};
use hns::{Hns, Profile};

use crate::world::{endpoint, id, local, network, open, refused, remote, switched};

fn create(hns: &Hns, json: &str) -> hcn::Result<Guid> {
    hns.create(Kind::Namespace, None, Guid::NIL, json)
}

fn read(hns: &Hns, id: Guid) -> Namespace {
    hns.get(id).unwrap()
}

fn modify(hns: &Hns, id: Guid, resource: &str, request: &str, settings: &str) -> hcn::Result<()> {
    let json = format!(r#"{{"ResourceType":"{resource}","RequestType":"{request}","Settings":{settings}}}"#);
    hns.modify(Kind::Namespace, id, &json)
}

fn endpoint_request(hns: &Hns, id: Guid, request: &str, endpoint: Guid) -> hcn::Result<()> {
    modify(hns, id, "Endpoint", request, &format!(r#"{{"EndpointId":"{endpoint}"}}"#))
}

#[test]
fn the_default_namespace_is_there_and_others_have_no_compartment_yet() {
    let hns = open(Profile::Ws2022);
    let [default] = hns.enumerate(Kind::Namespace, &Query::all()).unwrap()[..] else {
        panic!("one namespace is there from the start")
    };
    let default = read(&hns, default);
    assert_eq!((default.kind, default.namespace_id), (Some(NamespaceType::HostDefault), Some(1)));
    assert!(default.namespace_guid.is_some());
    // containerd sends this and nothing else.
    let plain = read(&hns, create(&hns, r#"{"SchemaVersion":{"Major":0,"Minor":0}}"#).unwrap());
    assert_eq!((plain.kind, plain.namespace_id), (Some(NamespaceType::Host), None));
    assert_eq!(plain.schema_version.unwrap().major, 0, "stored as it came");
    let ready = read(&hns, create(&hns, r#"{"Type":"Guest","CreateWithCompartment":true}"#).unwrap());
    assert_eq!(ready.namespace_id, Some(2));
    assert_eq!(refused(create(&hns, r#"{"Type":"Elsewhere"}"#), &["Elsewhere"]), HResult::INVALID_PARAMETER);
    assert!(
        switched("initial_default_namespace: false")
            .enumerate(Kind::Namespace, &Query::all())
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_second_default_and_a_requested_number_follow_the_switches() {
    let json = r#"{"Type":"HostDefault","NamespaceId":5,"SchemaVersion":{"Major":2,"Minor":0}}"#;
    let hns = open(Profile::Ws2022);
    let first = hns.enumerate(Kind::Namespace, &Query::all()).unwrap()[0];
    assert_ne!(create(&hns, json).unwrap(), first);
    let hns = switched("second_default_namespace: existing");
    let first = hns.enumerate(Kind::Namespace, &Query::all()).unwrap()[0];
    assert_eq!(create(&hns, json).unwrap(), first);
    let hns = switched("second_default_namespace: refuse");
    assert_eq!(refused(create(&hns, json), &["default"]), HResult::GCN_DEFAULTNAMESPACE_EXISTS);
    let hns = switched("honour_namespace_id: true");
    let made = create(&hns, r#"{"NamespaceId":5}"#).unwrap();
    assert_eq!(read(&hns, made).namespace_id, Some(5));
}

#[test]
fn endpoints_come_in_are_attached_and_go_out() {
    let hns = open(Profile::Ws2022);
    let network = network(&hns, "L2Bridge", 0);
    let (a, b) = (local(&hns, network, "10.50.0.8"), local(&hns, network, "10.50.0.9"));
    let ns = create(&hns, "{}").unwrap();
    endpoint_request(&hns, ns, "Add", a).unwrap();
    endpoint_request(&hns, ns, "Add", b).unwrap();
    let there = read(&hns, ns);
    assert_eq!(there.namespace_id, Some(2));
    let text = there.resources[0].data.as_ref().unwrap().get();
    assert!(text.contains(&a.to_string().to_uppercase()), "ids in resources are upper case: {text}");
    let inside = endpoint(&hns, a);
    assert_eq!((inside.namespace, inside.extra.read::<u16>("State")), (Some(ns), Some(2)));
    let other = create(&hns, "{}").unwrap();
    assert_eq!(
        refused(endpoint_request(&hns, other, "Add", a), &[&ns.to_string()]),
        HResult::ENDPOINT_NAMESPACE_ALREADY_EXISTS
    );
    assert_eq!(refused(endpoint_request(&hns, other, "Remove", a), &["not in"]), HResult::ELEMENT_NOT_FOUND);
    endpoint_request(&hns, ns, "Remove", a).unwrap();
    let outside = endpoint(&hns, a);
    assert_eq!((outside.namespace, outside.extra.read::<u16>("State")), (None, Some(4)));
    assert_eq!(read(&hns, ns).resources.len(), 1);
    // Deleting the endpoint takes its entry away; deleting the namespace lets the endpoint go.
    endpoint_request(&hns, other, "Add", a).unwrap();
    hns.delete(Kind::Endpoint, a).unwrap();
    assert!(read(&hns, other).resources.is_empty());
    hns.delete(Kind::Namespace, ns).unwrap();
    assert_eq!(endpoint(&hns, b).namespace, None);
    assert_eq!(
        refused(endpoint_request(&hns, ns, "Remove", b), &[&ns.to_string()]),
        HResult::ELEMENT_NOT_FOUND
    );
}

#[test]
fn what_cannot_be_attached_is_refused() {
    let hns = open(Profile::Ws2022);
    let network = network(&hns, "Overlay", 0);
    let remote = remote(&hns, network, "10.50.3.9");
    let ns = create(&hns, "{}").unwrap();
    assert_eq!(
        refused(endpoint_request(&hns, ns, "Add", remote), &["remote"]),
        HResult::INVALID_REMOTE_ENDPOINT_OPERATION
    );
    assert_eq!(
        refused(endpoint_request(&hns, ns, "Add", id(5)), &[&id(5).to_string()]),
        HResult::ENDPOINT_NOT_FOUND
    );
    assert_eq!(
        refused(modify(&hns, ns, "Endpoint", "Add", "{}"), &["EndpointId"]),
        HResult::INVALID_PARAMETER
    );
    assert_eq!(
        refused(modify(&hns, ns, "Endpoint", "Update", "{}"), &["Update"]),
        HResult::REQUEST_UNSUPPORTED
    );
    assert_eq!(
        refused(hns.query(Kind::Namespace, Guid::NIL, &Query::all()), &["0000"]),
        HResult::ELEMENT_NOT_FOUND
    );
}

#[test]
fn a_namespace_with_a_container_stays() {
    let hns = open(Profile::Ws2022);
    let ns = create(&hns, "{}").unwrap();
    let container = r#"{"ContainerId":"c0ffee"}"#;
    modify(&hns, ns, "Container", "Add", container).unwrap();
    assert_eq!(
        refused(modify(&hns, ns, "Container", "Add", container), &["c0ffee"]),
        HResult::OBJECT_ALREADY_EXISTS
    );
    assert_eq!(refused(hns.delete(Kind::Namespace, ns), &["c0ffee"]), HResult::REQUEST_UNSUPPORTED);
    modify(&hns, ns, "Container", "Remove", container).unwrap();
    assert_eq!(
        refused(modify(&hns, ns, "Container", "Remove", container), &["c0ffee"]),
        HResult::ELEMENT_NOT_FOUND
    );
    assert_eq!(
        refused(modify(&hns, ns, "Container", "Add", "{}"), &["ContainerId"]),
        HResult::INVALID_PARAMETER
    );
    hns.delete(Kind::Namespace, ns).unwrap();
}

#[test]
fn adding_to_a_namespace_need_not_attach() {
    let hns = switched("attach_on_namespace_add: false");
    let network = network(&hns, "L2Bridge", 0);
    let a = local(&hns, network, "10.50.0.8");
    let ns = create(&hns, "{}").unwrap();
    endpoint_request(&hns, ns, "Add", a).unwrap();
    assert_eq!(endpoint(&hns, a).extra.read::<u16>("State"), Some(1));
    hns.attach_to_switch(a).unwrap();
    assert_eq!(endpoint(&hns, a).extra.read::<u16>("State"), Some(2));
}
