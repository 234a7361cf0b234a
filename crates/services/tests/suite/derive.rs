//! The table of derived slices, `testdata/derive.yaml`, and when slices are derived at all.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use services::{Change, Cluster, Endpoint, IpFamily, Object, Perspective};

use crate::common::{cluster, object, service, slice, web};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    case: String,
    #[serde(default = "empty")]
    spec: Value,
    pods: BTreeMap<String, Pod>,
    port: Option<u16>,
    #[serde(default)]
    cluster: Vec<String>,
    #[serde(default)]
    local: Vec<String>,
    #[serde(default)]
    left: BTreeMap<String, String>,
    families: Option<BTreeMap<String, Vec<String>>>,
}

fn empty() -> Value {
    json!({})
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pod {
    ips: Vec<String>,
    #[serde(default = "n1")]
    node: String,
    #[serde(default = "yes")]
    ready: bool,
    #[serde(default)]
    deleting: bool,
    #[serde(default = "running")]
    phase: String,
    #[serde(default = "app_web")]
    labels: Value,
    #[serde(default)]
    ports: BTreeMap<String, u16>,
    #[serde(default)]
    udp: BTreeMap<String, u16>,
    #[serde(default)]
    sidecar: BTreeMap<String, u16>,
    #[serde(default)]
    init: BTreeMap<String, u16>,
}

fn n1() -> String {
    "n1".to_owned()
}

fn yes() -> bool {
    true
}

fn running() -> String {
    "Running".to_owned()
}

fn app_web() -> Value {
    json!({"app": "web"})
}

fn ports(named: &BTreeMap<String, u16>, protocol: &str) -> Vec<Value> {
    named.iter().map(|(n, p)| json!({"name": n, "containerPort": p, "protocol": protocol})).collect()
}

fn pod(name: &str, pod: &Pod) -> Object {
    let all = [ports(&pod.ports, "TCP"), ports(&pod.udp, "UDP")].concat();
    let ips: Vec<Value> = pod.ips.iter().map(|ip| json!({"ip": ip})).collect();
    let mut document = json!({
        "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": pod.labels},
        "spec": {
            "containers": [{"name": "first"}, {"name": "c", "ports": all}],
            "initContainers": [
                {"name": "i", "ports": ports(&pod.init, "TCP")},
                {"name": "s", "restartPolicy": "Always", "ports": ports(&pod.sidecar, "TCP")},
            ],
        },
        "status": {"phase": pod.phase, "podIPs": ips},
    });
    if pod.node != "none" {
        document["spec"]["nodeName"] = json!(pod.node);
    }
    if pod.ready {
        document["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    }
    if pod.deleting {
        document["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    object(document)
}

fn nodes() -> Vec<Object> {
    let node = |name: &str, labels: Value| {
        object(json!({"kind": "Node", "metadata": {"name": name, "labels": labels}}))
    };
    vec![
        node("n1", json!({"topology.kubernetes.io/zone": "a"})),
        node("n2", json!({"topology.kubernetes.io/zone": "b"})),
        node("n3", json!({})),
    ]
}

fn selecting(spec: &Value) -> Object {
    let mut whole = json!({
        "clusterIPs": ["10.96.0.20", "fd00::20"], "selector": {"app": "web"}, "ports": [{"name": "p", "port": 80}],
    });
    for (key, value) in spec.as_object().expect("a mapping") {
        whole[key] = value.clone();
    }
    service(&whole)
}

fn viewer() -> Perspective {
    let both = [IpFamily::V4, IpFamily::V6];
    Perspective { zone: Some("a".into()), ..Perspective::of_node("n1", both) }
}

fn names(endpoints: &[Endpoint]) -> Vec<String> {
    let name =
        |e: &Endpoint| e.pod.as_deref().and_then(|p| p.strip_prefix("default/")).expect("a Pod").to_owned();
    let mut names: Vec<String> = endpoints.iter().map(name).collect();
    names.sort();
    names
}

#[test]
fn every_row_holds() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/derive.yaml");
    let rows: Vec<Row> = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(rows.len() >= 20);
    for row in rows {
        let pods = row.pods.iter().map(|(name, p)| pod(name, p));
        let cluster = cluster(viewer(), nodes().into_iter().chain(pods).chain([selecting(&row.spec)]));
        let view = cluster.view(&web()).expect("it is served");
        if let Some(families) = row.families {
            let found: BTreeMap<String, Vec<String>> =
                view.ports.iter().map(|p| (p.family.to_string(), names(&p.cluster))).collect();
            assert_eq!(found, families, "{}", row.case);
            continue;
        }
        let port = &view.ports[0];
        assert_eq!(names(&port.cluster), row.cluster, "{}", row.case);
        assert_eq!(names(&port.local), row.local, "{}", row.case);
        assert_eq!(Some(port.target_port), row.port, "{}", row.case);
        let left: BTreeMap<String, String> = port
            .left_out
            .iter()
            .map(|l| (names(std::slice::from_ref(&l.endpoint)).remove(0), format!("{:?}", l.reason)))
            .collect();
        assert_eq!(left, row.left, "{}", row.case);
    }
}

fn target(cluster: &Cluster) -> u16 {
    cluster.view(&web()).expect("it is served").ports[0].target_port
}

/// One slice is enough to make slices the authority, even an empty one; without any, Pods speak again.
#[test]
fn slices_end_the_derivation() {
    let plain = Pod {
        ips: vec!["10.0.0.1".into()],
        node: n1(),
        ready: true,
        deleting: false,
        phase: running(),
        labels: app_web(),
        ports: BTreeMap::new(),
        udp: BTreeMap::new(),
        sidecar: BTreeMap::new(),
        init: BTreeMap::new(),
    };
    let mut cluster = cluster(viewer(), [selecting(&json!({})), pod("a", &plain)]);
    assert!(cluster.is_derived(&web()));
    assert_eq!((target(&cluster), cluster.take_dirty()), (80, vec![web()]));

    let empty = slice("real", &json!([{"name": "p", "port": 9}]), &[]);
    cluster.apply(Change::Set(empty.clone()));
    assert!(!cluster.is_derived(&web()));
    assert_eq!((target(&cluster), cluster.take_dirty()), (0, vec![web()]));
    // Pods no longer matter.
    cluster.apply(Change::Delete(pod("a", &plain).reference()));
    cluster.apply(Change::Set(pod("a", &plain)));
    assert_eq!(cluster.take_dirty(), []);

    cluster.apply(Change::Delete(empty.reference()));
    assert_eq!((target(&cluster), cluster.take_dirty()), (80, vec![web()]));
    // A Pod that nobody selects makes nothing dirty, one that stops being selected does.
    let other = Pod { labels: json!({"app": "other"}), ..plain };
    cluster.apply(Change::Set(pod("b", &other)));
    assert_eq!(cluster.take_dirty(), []);
    cluster.apply(Change::Set(pod("a", &other)));
    assert_eq!((target(&cluster), cluster.take_dirty()), (0, vec![web()]));
}
