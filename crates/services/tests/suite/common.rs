//! Helpers of the tests: builders, and views as text.

use std::fmt::Write as _;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};
use services::source::manifests::{Options, Parsed, parse_bytes};
use services::{Change, Cluster, Endpoint, Object, Perspective, ServiceKey, ServiceView};

/// The path of a file in the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The text of a file in the repository.
pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(repository(path)).expect("the file is in the repository")
}

/// Parses text as a file of that name with default options.
pub(crate) fn parse(file: &str, text: &str) -> Parsed {
    parse_bytes(file, text.as_bytes(), &Options::default())
}

/// A cluster of the objects.
pub(crate) fn cluster(perspective: Perspective, objects: impl IntoIterator<Item = Object>) -> Cluster {
    let mut cluster = Cluster::new(perspective);
    for object in objects {
        cluster.apply(Change::Set(object));
    }
    cluster
}

/// The object that a JSON document describes.
pub(crate) fn object(document: Value) -> Object {
    let kind = document["kind"].as_str().expect("a kind").to_owned();
    match kind.as_str() {
        "Service" => Object::try_from(&serde_json::from_value::<Service>(document).expect("a Service")),
        "EndpointSlice" => {
            Object::try_from(&serde_json::from_value::<EndpointSlice>(document).expect("an EndpointSlice"))
        }
        "Node" => Object::try_from(&serde_json::from_value::<Node>(document).expect("a Node")),
        "Pod" => Object::try_from(&serde_json::from_value::<Pod>(document).expect("a Pod")),
        other => panic!("unknown kind {other}"),
    }
    .expect("a usable object")
}

/// A Service `default/web` with these fields in its spec.
pub(crate) fn service(spec: &Value) -> Object {
    let mut document = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"clusterIP": "10.96.0.20", "ports": [{"port": 80, "protocol": "TCP"}]},
    });
    for (key, value) in spec.as_object().expect("a mapping") {
        document["spec"][key] = value.clone();
    }
    object(document)
}

/// A slice of `default/web`.
pub(crate) fn slice(name: &str, ports: &Value, endpoints: &[Value]) -> Object {
    slice_of_family(name, "IPv4", ports, endpoints)
}

/// A slice of `default/web` of a family.
pub(crate) fn slice_of_family(name: &str, family: &str, ports: &Value, endpoints: &[Value]) -> Object {
    object(json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
        "metadata": {"name": name, "namespace": "default", "labels": {"kubernetes.io/service-name": "web"}},
        "ports": ports, "endpoints": endpoints,
    }))
}

/// The key of `default/web`.
pub(crate) fn web() -> ServiceKey {
    ServiceKey::new("default", "web")
}

/// A view as text for people: short enough to be checked by eye.
pub(crate) fn render(view: &ServiceView) -> String {
    let mut text = String::new();
    let preserve = if view.preserve_destination { ", preserve-destination" } else { "" };
    writeln!(text, "{} {}, {} ready here{preserve}", view.key, view.kind, view.local_ready).unwrap();
    for port in &view.ports {
        write!(text, "  {} at {}:{}", port.label(), port.cluster_ip, port.port).unwrap();
        port.node_port.iter().for_each(|p| write!(text, ", node port {p}").unwrap());
        port.external_ips.iter().for_each(|ip| write!(text, ", external {ip}").unwrap());
        port.ingress_ips.iter().for_each(|ip| write!(text, ", ingress {ip}").unwrap());
        port.health_check_node_port.iter().for_each(|p| write!(text, ", health check {p}").unwrap());
        port.source_ranges.iter().for_each(|net| write!(text, ", only from {net}").unwrap());
        writeln!(text, "; internal {}, external {}", port.internal_policy, port.external_policy).unwrap();
        writeln!(text, "    cluster → {}: {}", port.target_port, endpoints(&port.cluster)).unwrap();
        writeln!(text, "    local   → {}: {}", port.target_port, endpoints(&port.local)).unwrap();
        for left in &port.left_out {
            let (endpoint, reason) = (&left.endpoint, left.reason);
            writeln!(text, "    left out: {}:{}, {}", show(endpoint), endpoint.port, reason.explain())
                .unwrap();
        }
    }
    for condition in &view.conditions {
        writeln!(text, "  ! {condition}").unwrap();
    }
    text
}

fn endpoints(list: &[Endpoint]) -> String {
    if list.is_empty() { "-".to_owned() } else { list.iter().map(show).collect::<Vec<_>>().join(" ") }
}

/// `address@node`, with `*` when it is local and `~` when it is terminating.
fn show(endpoint: &Endpoint) -> String {
    let node = endpoint.node.as_deref().unwrap_or("?");
    let local = if endpoint.local { "*" } else { "" };
    let terminating = if endpoint.terminating { "~" } else { "" };
    format!("{}@{node}{local}{terminating}", endpoint.address)
}
