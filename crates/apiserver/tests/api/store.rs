//! The store's handle: what tests do past the API.

use apiserver::{ApiServer, Options, StoreError};
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::json;

use super::client::{Connection, How, names, plain};

fn typed<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value).unwrap()
}

#[test]
fn typed_objects() {
    let (server, _) = plain();
    let store = server.store();
    let node: Node = typed(json!({"metadata": {"name": "n"}}));
    assert_eq!(store.create(&node).unwrap(), 6);
    assert!(matches!(store.create(&node), Err(StoreError::Exists { .. })));
    assert_eq!(store.apply(&node).unwrap(), 6, "nothing new");
    assert_eq!(
        store
            .modify::<Node>("", "n", |node| node.spec.get_or_insert_default().unschedulable = Some(true))
            .unwrap(),
        7
    );
    let read: Node = store.get("", "n").unwrap();
    assert_eq!(read.metadata.resource_version.as_deref(), Some("7"));
    assert!(read.metadata.uid.is_some() && read.metadata.creation_timestamp.is_some());
    assert_eq!(store.list::<Node>(), [read]);
    assert_eq!(store.delete::<Node>("", "n").unwrap(), 8);
    for error in [
        store.delete::<Node>("", "n").unwrap_err().to_string(),
        store.replace(&node).unwrap_err().to_string(),
        store.modify::<Node>("", "n", |_| {}).unwrap_err().to_string(),
    ] {
        assert_eq!(error, "Node n does not exist");
    }
}

#[test]
fn manifests_are_written_whole_or_not_at_all() {
    let (server, _) = plain();
    let store = server.store();
    for (text, wanted) in [
        ("{apiVersion: v1, kind: Gadget, metadata: {name: a}}", "v1 Gadget is not served"),
        ("{apiVersion: v1, kind: Service, metadata: {}}", "metadata.name is missing"),
        ("{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: 3}}", "Service a: invalid type"),
        ("a: [", "the manifest cannot be read"),
        (
            "{apiVersion: v1, kind: Node, metadata: {name: a}}\n---\n{apiVersion: v1, kind: Gadget}",
            "is not served",
        ),
    ] {
        let error = store.apply_manifests(text).unwrap_err().to_string();
        assert!(error.contains(wanted), "{text}: {error}");
    }
    assert_eq!(store.revision(), 5);
    let list = r"
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: a}}
- {apiVersion: v1, kind: Node, metadata: {name: n}}
---
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s, namespace: other}
addressType: IPv4
endpoints: []
";
    assert_eq!(store.apply_manifests(list).unwrap(), 3);
    assert!(store.get::<EndpointSlice>("other", "s").is_some());
    assert!(store.get::<Service>("default", "a").is_some(), "without a namespace it is in `default`");
    assert_eq!(store.delete_manifests(list).unwrap(), 3);
    assert_eq!(store.delete_manifests(list).unwrap(), 0);
}

#[tokio::test]
async fn ten_thousand_services_with_ten_endpoints_each() {
    let server = ApiServer::start(Options::plain()).unwrap();
    let services: Vec<Service> = (0..10_000)
        .map(|n| typed(json!({"metadata": {"name": format!("s{n}")}, "spec": {"ports": [{"port": 80}], "clusterIP": format!("10.96.{}.{}", n >> 8, n & 255)}})))
        .collect();
    let slices: Vec<EndpointSlice> = (0..10_000)
        .map(|n| {
            let endpoints: Vec<_> = (0..10).map(|e| json!({"addresses": [format!("10.{e}.{}.{}", n >> 8, n & 255)], "conditions": {"ready": true}})).collect();
            typed(json!({
                "metadata": {"name": format!("s{n}"), "labels": {"kubernetes.io/service-name": format!("s{n}")}},
                "addressType": "IPv4", "endpoints": endpoints, "ports": [{"port": 8080}],
            }))
        })
        .collect();
    assert_eq!(server.store().load(&services).unwrap(), 10_005);
    assert_eq!(server.store().load(&slices).unwrap(), 20_005);
    let mut client = Connection::open(&server, &How::default()).await;
    assert_eq!(names(&client.get("/api/v1/services").await.json()).len(), 10_000);
    let query = "labelSelector=kubernetes.io/service-name%3Ds77";
    assert_eq!(
        names(&client.get(&format!("/apis/discovery.k8s.io/v1/endpointslices?{query}")).await.json()),
        ["s77"]
    );
    // Loaded again, nothing is new.
    assert_eq!(server.store().load(&services).unwrap(), 20_005);
}
