//! What the API fills in and checks when an object is written through it.
//!
//! As much as clients of these kinds can see. The rules are a part of upstream's, never stricter. This module must not know requests.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Map, Value, json};

use crate::kind::{Kind, Storage};
use crate::names;
use crate::selector::{label_key, label_value};
use crate::status::Cause;

pub(super) fn invalid(field: impl Into<String>, value: impl std::fmt::Display, why: &str) -> Cause {
    Cause {
        reason: "FieldValueInvalid",
        message: format!("Invalid value: {value}: {why}"),
        field: field.into(),
    }
}

fn required(field: impl Into<String>, why: &str) -> Cause {
    let colon = if why.is_empty() { "" } else { ": " };
    Cause {
        reason: "FieldValueRequired",
        message: format!("Required value{colon}{why}"),
        field: field.into(),
    }
}

pub(super) fn text<'a>(members: &'a Map<String, Value>, path: &[&str]) -> &'a str {
    let mut value = path.first().and_then(|name| members.get(*name));
    for name in path.iter().skip(1) {
        value = value.and_then(|value| value.get(*name));
    }
    value.and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn spec_of(members: &mut Map<String, Value>) -> &mut Map<String, Value> {
    let spec = members.entry("spec").or_insert_with(|| json!({}));
    if !spec.is_object() {
        *spec = json!({});
    }
    match spec {
        Value::Object(spec) => spec,
        _ => unreachable!("made an object just above"),
    }
}

fn default(members: &mut Map<String, Value>, name: &str, value: Value) {
    members.entry(name).or_insert(value);
}

/// Fills in what a new object leaves to the server.
pub(super) fn on_create(kind: &Kind, members: &mut Map<String, Value>) {
    match kind.storage {
        Storage::Services => {
            members.insert("status".to_owned(), json!({"loadBalancer": {}}));
        }
        Storage::Pods => {
            members.insert("status".to_owned(), json!({"phase": "Pending"}));
            let spec = spec_of(members);
            for (name, value) in [
                ("restartPolicy", "Always"),
                ("dnsPolicy", "ClusterFirst"),
                ("schedulerName", "default-scheduler"),
            ] {
                default(spec, name, value.into());
            }
            default(spec, "terminationGracePeriodSeconds", 30.into());
        }
        Storage::Namespaces => {
            members.insert("status".to_owned(), json!({"phase": "Active"}));
            default(spec_of(members), "finalizers", json!(["kubernetes"]));
            let name = text(members, &["metadata", "name"]).to_owned();
            let metadata = crate::store::metadata_of(members);
            if let Value::Object(labels) = metadata.entry("labels").or_insert_with(|| json!({})) {
                labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
            }
        }
        Storage::ServiceCidrs => {
            members.shift_remove("status");
        }
        _ => {}
    }
    defaults(kind, members);
}

/// Fills in what an update leaves out but the object has.
pub(super) fn on_update(kind: &Kind, before: &Map<String, Value>, members: &mut Map<String, Value>) {
    if kind.storage == Storage::Services {
        // A PUT that leaves the addresses out keeps them, as long as the Service goes on having some.
        let (was, is) =
            (text(before, &["spec", "type"]).to_owned(), text(members, &["spec", "type"]).to_owned());
        if was != "ExternalName" && is != "ExternalName" {
            let spec = spec_of(members);
            if spec.get("clusterIP").and_then(Value::as_str).unwrap_or_default().is_empty() {
                for name in ["clusterIP", "clusterIPs"] {
                    if let Some(value) = before.get("spec").and_then(|spec| spec.get(name)) {
                        spec.insert(name.to_owned(), value.clone());
                    }
                }
            }
        }
    }
    defaults(kind, members);
}

fn defaults(kind: &Kind, members: &mut Map<String, Value>) {
    match kind.storage {
        Storage::Services => service_defaults(spec_of(members)),
        Storage::EndpointSlices => {
            let Some(Value::Array(ports)) = members.get_mut("ports") else { return };
            for port in ports.iter_mut().filter_map(Value::as_object_mut) {
                default(port, "name", "".into());
                default(port, "protocol", "TCP".into());
            }
        }
        _ => {}
    }
}

fn service_defaults(spec: &mut Map<String, Value>) {
    default(spec, "sessionAffinity", "None".into());
    default(spec, "type", "ClusterIP".into());
    if spec.get("sessionAffinity").and_then(Value::as_str) == Some("ClientIP") {
        default(spec, "sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 10_800}}));
    }
    let kind = spec.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    if kind != "ExternalName" {
        default(spec, "internalTrafficPolicy", "Cluster".into());
    }
    if kind == "NodePort" || kind == "LoadBalancer" {
        default(spec, "externalTrafficPolicy", "Cluster".into());
    }
    if kind == "LoadBalancer" {
        default(spec, "allocateLoadBalancerNodePorts", true.into());
    }
    let Some(Value::Array(ports)) = spec.get_mut("ports") else { return };
    for port in ports.iter_mut().filter_map(Value::as_object_mut) {
        default(port, "protocol", "TCP".into());
        let number = port.get("port").cloned().unwrap_or_default();
        default(port, "targetPort", number);
    }
}

/// What is wrong with an object that is to be written.
pub(super) fn faults_of(
    kind: &Kind,
    members: &Map<String, Value>,
    before: Option<&Map<String, Value>>,
) -> Vec<Cause> {
    let mut causes = metadata_faults(kind, members);
    match kind.storage {
        Storage::Services => service_faults(members, before, &mut causes),
        Storage::EndpointSlices => slice_faults(members, before, &mut causes),
        Storage::Pods
            if members
                .get("spec")
                .and_then(|spec| spec.get("containers"))
                .and_then(Value::as_array)
                .is_none_or(Vec::is_empty) =>
        {
            causes.push(required("spec.containers", ""));
        }
        Storage::ServiceCidrs
            if members
                .get("spec")
                .and_then(|spec| spec.get("cidrs"))
                .and_then(Value::as_array)
                .is_none_or(Vec::is_empty) =>
        {
            causes.push(required("spec.cidrs", "at least one CIDR required"));
        }
        _ => {}
    }
    causes
}

fn metadata_faults(kind: &Kind, members: &Map<String, Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = text(members, &["metadata", "name"]);
    let label = matches!(kind.storage, Storage::Namespaces | Storage::Services);
    if name.is_empty() {
        causes.push(required("metadata.name", "name or generateName is required"));
    } else if label && !names::is_label(name) {
        causes.push(invalid(
            "metadata.name",
            format!("\"{name}\""),
            "must be a DNS label: up to 63 of a-z, 0-9 and '-', with a letter or digit at both ends",
        ));
    } else if !names::is_subdomain(name) {
        causes.push(invalid(
            "metadata.name",
            format!("\"{name}\""),
            "must be a DNS subdomain: a-z, 0-9, '-' and '.', with a letter or digit at both ends",
        ));
    }
    let map = |member: &str| {
        members.get("metadata").and_then(|metadata| metadata.get(member)).and_then(Value::as_object)
    };
    for (key, value) in map("labels").into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        if let Err(why) = label_key(key).and_then(|()| label_value(value)) {
            causes.push(invalid("metadata.labels", format!("\"{key}={value}\""), &why));
        }
    }
    causes
}

fn service_faults(
    members: &Map<String, Value>,
    before: Option<&Map<String, Value>>,
    causes: &mut Vec<Cause>,
) {
    let kind = text(members, &["spec", "type"]);
    if !matches!(kind, "ClusterIP" | "NodePort" | "LoadBalancer" | "ExternalName") {
        causes.push(unsupported(
            "spec.type",
            kind,
            "\"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"",
        ));
    }
    let affinity = text(members, &["spec", "sessionAffinity"]);
    if !matches!(affinity, "None" | "ClientIP") {
        causes.push(unsupported("spec.sessionAffinity", affinity, "\"ClientIP\", \"None\""));
    }
    let cluster_ip = text(members, &["spec", "clusterIP"]);
    let ports = members.get("spec").and_then(|spec| spec.get("ports")).and_then(Value::as_array);
    if ports.is_none_or(Vec::is_empty) && kind != "ExternalName" && cluster_ip != "None" {
        causes.push(required("spec.ports", ""));
    }
    let (mut names_seen, mut pairs) = (BTreeSet::new(), BTreeSet::new());
    for (at, port) in ports.into_iter().flatten().enumerate() {
        let field = |name: &str| format!("spec.ports[{at}].{name}");
        let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
        let protocol = port.get("protocol").and_then(Value::as_str).unwrap_or_default();
        let name = port.get("name").and_then(Value::as_str).unwrap_or_default();
        if !(1..=65_535).contains(&number) {
            causes.push(invalid(field("port"), number, "must be between 1 and 65535, inclusive"));
        }
        if !matches!(protocol, "TCP" | "UDP" | "SCTP") {
            causes.push(unsupported(field("protocol"), protocol, "\"SCTP\", \"TCP\", \"UDP\""));
        }
        if ports.is_some_and(|ports| ports.len() > 1) && name.is_empty() {
            causes.push(required(field("name"), ""));
        } else if !names_seen.insert(name) || !pairs.insert((protocol, number)) {
            causes.push(Cause {
                reason: "FieldValueDuplicate",
                message: format!("Duplicate value: {port}"),
                field: format!("spec.ports[{at}]"),
            });
        }
    }
    if let Some(before) = before {
        let was = text(before, &["spec", "clusterIP"]);
        let lasts = text(before, &["spec", "type"]) != "ExternalName" && kind != "ExternalName";
        if lasts && !was.is_empty() && was != cluster_ip {
            causes.push(invalid("spec.clusterIP", format!("\"{cluster_ip}\""), "field is immutable"));
        }
    } else if !matches!(cluster_ip, "" | "None") && cluster_ip.parse::<IpAddr>().is_err() {
        causes.push(invalid(
            "spec.clusterIP",
            format!("\"{cluster_ip}\""),
            "must be a valid IP address, or None, or empty",
        ));
    }
}

fn unsupported(field: impl Into<String>, value: &str, supported: &str) -> Cause {
    Cause {
        reason: "FieldValueNotSupported",
        message: format!("Unsupported value: \"{value}\": supported values: {supported}"),
        field: field.into(),
    }
}

fn slice_faults(members: &Map<String, Value>, before: Option<&Map<String, Value>>, causes: &mut Vec<Cause>) {
    let kind = text(members, &["addressType"]);
    match (kind, before.map(|before| text(before, &["addressType"]))) {
        ("", _) => causes.push(required("addressType", "")),
        ("IPv4" | "IPv6" | "FQDN", None) => {}
        (_, None) => causes.push(unsupported("addressType", kind, "\"FQDN\", \"IPv4\", \"IPv6\"")),
        (_, Some(was)) if was != kind => {
            causes.push(invalid("addressType", format!("\"{kind}\""), "field is immutable"));
        }
        _ => {}
    }
    let endpoints = members.get("endpoints").and_then(Value::as_array);
    if endpoints.is_some_and(|endpoints| endpoints.len() > 1000) {
        causes.push(Cause {
            reason: "FieldValueTooMany",
            message: "Too many: must have at most 1000 items".to_owned(),
            field: "endpoints".to_owned(),
        });
    }
    for (at, endpoint) in endpoints.into_iter().flatten().enumerate() {
        let addresses = endpoint.get("addresses").and_then(Value::as_array);
        if addresses.is_none_or(Vec::is_empty) {
            causes.push(required(format!("endpoints[{at}].addresses"), "must contain at least 1 address"));
        }
        for (number, address) in addresses.into_iter().flatten().enumerate() {
            let address = address.as_str().unwrap_or_default();
            let fits = match (kind, address.parse::<IpAddr>()) {
                ("IPv4", parsed) => parsed.is_ok_and(|ip| ip.is_ipv4()),
                ("IPv6", parsed) => parsed.is_ok_and(|ip| ip.is_ipv6()),
                _ => true,
            };
            if !fits {
                let field = format!("endpoints[{at}].addresses[{number}]");
                causes.push(invalid(
                    field,
                    format!("\"{address}\""),
                    &format!("must be a valid {kind} address"),
                ));
            }
        }
    }
}

/// How long a Pod lives on after its deletion: not at all when it runs nowhere or has ended.
pub(super) fn pod_grace(members: &Map<String, Value>, asked: Option<i64>) -> i64 {
    let ended = matches!(text(members, &["status", "phase"]), "Succeeded" | "Failed");
    if ended || text(members, &["spec", "nodeName"]).is_empty() {
        return 0;
    }
    let own = members
        .get("spec")
        .and_then(|spec| spec.get("terminationGracePeriodSeconds"))
        .and_then(Value::as_i64);
    asked.or(own).unwrap_or(30)
}
