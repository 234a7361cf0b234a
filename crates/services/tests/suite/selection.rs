//! The table of endpoint selection, `testdata/selection.yaml`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use services::{Cluster, IpFamily, LeftOutReason, Object, Perspective, ServicePort, TrafficPolicy};

use crate::common::{cluster, service, slice, web};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    endpoints: Vec<String>,
    #[serde(default = "zone_a")]
    zone: String,
    limit: Option<usize>,
    cluster: Vec<String>,
    local: Vec<String>,
    port: Option<u16>,
    left: Option<BTreeMap<String, String>>,
}

fn zone_a() -> String {
    "a".to_owned()
}

fn rows() -> Vec<Row> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/selection.yaml");
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).expect("the table is well formed")
}

/// `L1` is 10.0.1.1, `R1` 10.0.2.1, `X1` 10.0.3.1.
fn address(name: &str) -> String {
    let (kind, number) = name.split_at(1);
    let net = match kind {
        "L" => 1,
        "R" => 2,
        "X" => 3,
        other => panic!("{other} is not L, R or X"),
    };
    format!("10.0.{net}.{number}")
}

fn name(address: &str) -> String {
    let mut parts = address.split('.').skip(2);
    let net: usize = parts.next().unwrap().parse().unwrap();
    format!("{}{}", ["", "L", "R", "X"][net], parts.next().unwrap())
}

fn conditions(state: &str) -> Value {
    let of = |ready: bool, serving: bool, terminating: bool| json!({"ready": ready, "serving": serving, "terminating": terminating});
    match state {
        "ready" => of(true, true, false),
        "draining" => of(false, true, true),
        "gone" => of(false, false, true),
        "unready" => of(false, false, false),
        "early" => of(true, false, false),
        "leaving" => of(true, false, true),
        "unserving-ready-unknown" => json!({}),
        "draining-unknown" => json!({"ready": false, "terminating": true}),
        other => panic!("unknown state {other}"),
    }
}

/// The row's slices, one per port number and `slice`.
fn slices(row: &Row) -> Vec<Object> {
    let mut groups: BTreeMap<(u16, String), Vec<Value>> = BTreeMap::new();
    for text in &row.endpoints {
        let mut words = text.split(' ');
        let (name, state) = (words.next().unwrap(), words.next().expect("a state"));
        let options: BTreeMap<&str, &str> = words.map(|w| w.split_once('=').expect("key=value")).collect();
        let port = options.get("port").map_or(8080, |p| p.parse().unwrap());
        let mut endpoint = json!({"addresses": [address(name)], "conditions": conditions(state)});
        match &name[..1] {
            "L" => endpoint["nodeName"] = json!("here"),
            "R" => endpoint["nodeName"] = json!("there"),
            _ => {}
        }
        for (key, field) in [("zones", "forZones"), ("nodes", "forNodes")] {
            if let Some(names) = options.get(key) {
                endpoint["hints"][field] = names.split(',').map(|n| json!({"name": n})).collect();
            }
        }
        let slice = options.get("slice").copied().unwrap_or_default().to_owned();
        groups.entry((port, slice)).or_default().push(endpoint);
    }
    groups
        .into_iter()
        .map(|((port, n), endpoints)| slice(&format!("web-{port}-{n}"), &json!([{"port": port}]), &endpoints))
        .collect()
}

/// The same, with everything in reverse: names of slices, order of objects and of endpoints.
fn reversed(row: &Row) -> Vec<Object> {
    let mut row = row.clone();
    row.endpoints.reverse();
    let mut slices = slices(&row);
    slices.reverse();
    slices
}

/// One Service of every type and policy.
fn every_service() -> Vec<(Object, TrafficPolicy, TrafficPolicy)> {
    let mut all = Vec::new();
    for kind in ["ClusterIP", "NodePort", "LoadBalancer"] {
        for internal in [TrafficPolicy::Cluster, TrafficPolicy::Local] {
            for external in [TrafficPolicy::Cluster, TrafficPolicy::Local] {
                let spec = &json!({
                    "type": kind, "internalTrafficPolicy": internal, "externalTrafficPolicy": external,
                    "externalIPs": ["198.51.100.7"],
                });
                all.push((service(spec), internal, external));
            }
        }
    }
    all
}

fn names(endpoints: &[services::Endpoint]) -> Vec<String> {
    let mut names: Vec<String> = endpoints.iter().map(|e| name(&e.address.to_string())).collect();
    names.sort();
    names
}

fn check(row: &Row, port: &ServicePort) {
    assert_eq!(names(&port.cluster), row.cluster, "cluster of {row:?}");
    assert_eq!(names(&port.local), row.local, "local of {row:?}");
    assert!(port.cluster.is_sorted_by_key(|e| e.address) && port.local.is_sorted_by_key(|e| e.address));
    if let Some(wanted) = row.port {
        assert_eq!(port.target_port, wanted, "{row:?}");
    }
    let left: BTreeMap<String, String> = port
        .left_out
        .iter()
        .map(|l| (name(&l.endpoint.address.to_string()), format!("{:?}", l.reason)))
        .collect();
    let wanted = row.left.clone().unwrap_or_default();
    assert_eq!(left, wanted, "left out of {row:?}");
    for endpoint in port.cluster.iter().chain(&port.local) {
        assert_eq!(endpoint.port, port.target_port);
        assert_eq!(endpoint.local, endpoint.node.as_deref() == Some("here"));
    }
}

fn port_of(cluster: &Cluster) -> ServicePort {
    let view = cluster.view(&web()).expect("the Service is served");
    assert_eq!(view.ports.len(), 1);
    view.ports.into_iter().next().unwrap()
}

#[test]
fn every_row_holds_for_every_service_and_order() {
    let rows = rows();
    assert!(rows.len() >= 90, "the table has {} rows", rows.len());
    for row in &rows {
        let mut perspective = Perspective::of_node("here", [IpFamily::V4]);
        perspective.zone = Some(row.zone.as_str()).filter(|z| *z != "none").map(Into::into);
        perspective.max_backends = row.limit;
        for (service, internal, external) in every_service() {
            for slices in [slices(row), reversed(row)] {
                let cluster = cluster(perspective.clone(), slices.into_iter().chain([service.clone()]));
                let port = port_of(&cluster);
                check(row, &port);
                assert_eq!((port.internal_policy, port.external_policy), (internal, external));
                assert_eq!(port.internal(), port.scope(internal));
                assert_eq!(port.external(), port.scope(external));
            }
        }
    }
}

/// A node's zone label may change while it runs; every Service is looked at again (kubernetes/kubernetes#123823).
#[test]
fn a_new_zone_makes_everything_dirty() {
    let row = rows().into_iter().find(|r| r.endpoints.iter().any(|e| e.contains("zones="))).unwrap();
    let mut perspective = Perspective::of_node("here", [IpFamily::V4]);
    let mut cluster = cluster(perspective.clone(), slices(&row).into_iter().chain([service(&json!({}))]));
    assert_eq!(cluster.take_dirty(), [web()]);
    assert_eq!(port_of(&cluster).cluster.len(), 2);
    assert!(!cluster.set_perspective(perspective.clone()));
    assert_eq!(cluster.take_dirty(), []);
    perspective.zone = Some("a".into());
    assert!(cluster.set_perspective(perspective));
    assert_eq!(cluster.take_dirty(), [web()]);
    let port = port_of(&cluster);
    assert_eq!(names(&port.cluster), ["R1"]);
    assert_eq!(port.left_out[0].reason, LeftOutReason::Hints);
}

/// Of two equally good offers of one address the content decides, not which slice has which name.
#[test]
fn names_of_slices_do_not_decide() {
    let offer = |slice_name: &str, node: &str, zone: &str| {
        let endpoint = json!({"addresses": ["10.0.2.1"], "nodeName": node, "zone": zone});
        slice(slice_name, &json!([{"port": 8080}]), &[endpoint])
    };
    let chosen = |first: &str, second: &str| {
        let objects = [service(&json!({})), offer(first, "there", "b"), offer(second, "far", "c")];
        port_of(&cluster(Perspective::of_node("here", [IpFamily::V4]), objects)).cluster
    };
    let endpoints = chosen("web-1", "web-2");
    assert_eq!(endpoints.len(), 1);
    assert_eq!(endpoints, chosen("web-2", "web-1"));
}
