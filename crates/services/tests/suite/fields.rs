//! The table of Service fields, `testdata/services.yaml`.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::{Value, json};
use services::{Affinity, ConditionKind, IpFamily, Perspective, ServicePort, TrafficPolicy};

use crate::common::{cluster, object, web};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    case: String,
    spec: Value,
    status: Option<Value>,
    labels: Option<Value>,
    annotations: Option<Value>,
    families: Option<Vec<String>>,
    #[serde(default = "yes")]
    gate: bool,
    #[serde(default = "yes")]
    served: bool,
    #[serde(default)]
    preserve: bool,
    #[serde(default)]
    ports: Vec<String>,
    #[serde(default)]
    conditions: Vec<String>,
}

fn yes() -> bool {
    true
}

fn show(port: &ServicePort) -> String {
    let mut text = format!("{} {}:{}", port.label(), port.cluster_ip, port.port);
    port.node_port.iter().for_each(|p| write!(text, " node {p}").unwrap());
    port.external_ips.iter().for_each(|ip| write!(text, " external {ip}").unwrap());
    port.ingress_ips.iter().for_each(|ip| write!(text, " ingress {ip}").unwrap());
    if let Affinity::ClientIp { timeout_seconds } = port.affinity {
        write!(text, " affinity {timeout_seconds}").unwrap();
    }
    text += if port.internal_policy == TrafficPolicy::Local { " internal-local" } else { "" };
    text += if port.external_policy == TrafficPolicy::Local { " external-local" } else { "" };
    port.health_check_node_port.iter().for_each(|p| write!(text, " health {p}").unwrap());
    port.source_ranges.iter().for_each(|net| write!(text, " from {net}").unwrap());
    text
}

#[test]
fn every_row_holds() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/services.yaml");
    let rows: Vec<Row> = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(rows.len() >= 50);
    for row in rows {
        let mut document = json!({
            "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"clusterIP": "10.96.0.20", "ports": [{"port": 80}]},
        });
        for (key, value) in row.spec.as_object().unwrap() {
            document["spec"][key] = value.clone();
        }
        for (part, value) in [("labels", row.labels), ("annotations", row.annotations)] {
            if let Some(value) = value {
                document["metadata"][part] = value;
            }
        }
        if let Some(status) = row.status {
            document["status"] = status;
        }
        let families = row.families.unwrap_or_else(|| vec!["IPv4".into(), "IPv6".into()]);
        let families = families.iter().map(|f| if f == "IPv4" { IpFamily::V4 } else { IpFamily::V6 });
        let mut perspective = Perspective::of_node("here", families);
        perspective.allow_external_ips = row.gate;
        let mut cluster = cluster(perspective, [object(document)]);
        let view = cluster.view(&web());
        assert_eq!(view.is_some(), row.served, "{}", row.case);
        assert_eq!(cluster.skip_reason(&web()).is_none(), row.served, "{}", row.case);
        assert_eq!(cluster.services().count(), usize::from(row.served), "{}", row.case);
        assert_eq!(cluster.take_dirty().len(), usize::from(row.served), "{}", row.case);
        let Some(view) = view else { continue };
        assert_eq!(view.ports.iter().map(show).collect::<Vec<_>>(), row.ports, "{}", row.case);
        assert_eq!(view.preserve_destination, row.preserve, "{}", row.case);
        let conditions: Vec<String> = view
            .conditions
            .iter()
            .filter(|c| c.kind != ConditionKind::NoUsableEndpoints)
            .map(ToString::to_string)
            .collect();
        assert_eq!(conditions.len(), row.conditions.len(), "{}: {conditions:#?}", row.case);
        for (condition, start) in conditions.iter().zip(&row.conditions) {
            assert!(
                condition.starts_with(start),
                "{}: {condition:?} does not start with {start:?}",
                row.case
            );
        }
        for port in &view.ports {
            let addresses = port.external_ips.iter().chain(&port.ingress_ips).chain([&port.cluster_ip]);
            assert!(addresses.clone().all(|ip| IpFamily::of(*ip) == port.family && !ip.is_unspecified()));
        }
    }
}
