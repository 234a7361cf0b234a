//! Every overlay of `deploy/` is valid, and a manifest with one thing wrong is not.

use std::net::IpAddr;

use manifest_check::Checker;
use serde_json::{Value, json};
use transom::install::{Cni, Request, manifests};

fn said(checker: &Checker, document: &Value) -> String {
    checker.check(document).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn documents(change: impl FnOnce(&mut Request), cni: Cni) -> Vec<Value> {
    let mut request = Request::of(cni);
    change(&mut request);
    manifests(&request).unwrap_or_else(|error| panic!("{}: {error}", cni.name()))
}

#[test]
fn every_overlay_is_valid() {
    let checker = Checker::new().expect("schemas");
    for cni in Cni::ALL {
        let as_it_is = documents(|_| {}, cni);
        let with_wishes = documents(
            |request| {
                request.image = Some("registry.example/transom@sha256:0123".to_owned());
                request.namespace = Some("networking".to_owned());
                request.control_plane_endpoint = Some("192.0.2.10:6443".to_owned());
                request.network_name = Some("other.*".to_owned());
                request.source_vip = cni.is_overlay().then(|| IpAddr::from([10, 0, 0, 9]));
                request.enable_dsr = Some(true);
            },
            cni,
        );
        assert_eq!((as_it_is.len(), with_wishes.len()), (5, 6), "{}", cni.name());
        for document in as_it_is.iter().chain(&with_wishes) {
            assert_eq!(said(&checker, document), "", "{}: {document:#}", cni.name());
        }
    }
}

/// A kind, where something is put (`null` takes it away), what is put there, and what must be said of it.
type Row = (&'static str, &'static str, Value, &'static [&'static str]);

fn rows() -> Vec<Row> {
    const POD: &str = "/spec/template/spec";
    let pod = |rest: &str| -> &'static str { Box::leak(format!("{POD}{rest}").into_boxed_str()) };
    vec![
        // Misspelt.
        ("DaemonSet", "/spec/updateStrategies", json!({}), &["/spec", "updateStrategies"]),
        ("DaemonSet", pod("/hostNetworks"), json!(true), &["/spec/template/spec", "hostNetworks"]),
        (
            "DaemonSet",
            pod("/securityContext/windowsOptions/hostprocess"),
            json!(true),
            &["windowsOptions", "hostprocess"],
        ),
        (
            "DaemonSet",
            pod("/containers/0/livenessProbe/httpget"),
            json!({}),
            &["/containers/0/livenessProbe", "httpget"],
        ),
        ("DaemonSet", pod("/containers/0/env/0/valuefrom"), json!({}), &["/containers/0/env/0", "valuefrom"]),
        ("DaemonSet", "/spec/selector/matchLabel", json!({}), &["/spec/selector", "matchLabel"]),
        ("DaemonSet", "/metadata/label", json!({}), &["/metadata", "label"]),
        ("ClusterRole", "/rules/0/verb", json!(["get"]), &["/rules/0", "verb"]),
        ("ClusterRoleBinding", "/roleRef/namespace", json!("x"), &["/roleRef", "namespace"]),
        ("ConfigMap", "/datas", json!({}), &["/", "datas"]),
        // Of the wrong type.
        ("DaemonSet", pod("/hostNetwork"), json!("true"), &["/spec/template/spec/hostNetwork", "boolean"]),
        ("DaemonSet", pod("/containers"), json!({}), &["/spec/template/spec/containers", "array"]),
        ("DaemonSet", pod("/containers/0/args/0"), json!(1), &["/containers/0/args/0", "string"]),
        ("DaemonSet", pod("/containers/0/env/0/value"), json!(1), &["/containers/0/env/0/value", "string"]),
        (
            "DaemonSet",
            pod("/containers/0/ports/0/containerPort"),
            json!("health"),
            &["containerPort", "integer"],
        ),
        ("DaemonSet", pod("/containers/0/livenessProbe/httpGet/port"), json!([]), &["httpGet/port"]),
        ("DaemonSet", pod("/containers/0/resources/limits/memory"), json!("512 MB"), &["limits/memory"]),
        ("DaemonSet", pod("/nodeSelector/x"), json!(true), &["/nodeSelector/x", "string"]),
        (
            "DaemonSet",
            pod("/terminationGracePeriodSeconds"),
            json!("15"),
            &["terminationGracePeriodSeconds", "integer"],
        ),
        ("ClusterRole", "/rules/0/verbs", json!("list"), &["/rules/0/verbs", "array"]),
        ("ConfigMap", "/data/config.conf", json!({}), &["/data/config.conf", "string"]),
        ("ServiceAccount", "/metadata/labels/x", json!(1), &["/metadata/labels/x", "string"]),
        // Missing.
        ("DaemonSet", "/spec/selector", Value::Null, &["/spec", "\"selector\" is a required"]),
        ("DaemonSet", "/spec/template", Value::Null, &["/spec", "\"template\" is a required"]),
        ("DaemonSet", "/spec", Value::Null, &["/", "\"spec\" is a required"]),
        (
            "DaemonSet",
            pod("/containers"),
            Value::Null,
            &["/spec/template/spec", "\"containers\" is a required"],
        ),
        ("DaemonSet", pod("/containers/0/name"), Value::Null, &["/containers/0", "\"name\" is a required"]),
        ("DaemonSet", pod("/containers/0/image"), Value::Null, &["/containers/0", "\"image\" is a required"]),
        (
            "DaemonSet",
            pod("/containers/0/volumeMounts/0/mountPath"),
            Value::Null,
            &["volumeMounts/0", "mountPath"],
        ),
        ("ClusterRole", "/rules/0/verbs", Value::Null, &["/rules/0", "\"verbs\" is a required"]),
        ("ClusterRoleBinding", "/roleRef", Value::Null, &["/", "\"roleRef\" is a required"]),
        ("ConfigMap", "/metadata/name", Value::Null, &["/metadata/name", "is missing"]),
        // No value of the enumeration.
        (
            "DaemonSet",
            "/spec/updateStrategy/type",
            json!("Rolling"),
            &["/spec/updateStrategy/type", "Rolling"],
        ),
        (
            "DaemonSet",
            pod("/tolerations/0/operator"),
            json!("exists"),
            &["/tolerations/0/operator", "exists"],
        ),
        (
            "DaemonSet",
            pod("/containers/0/imagePullPolicy"),
            json!("Sometimes"),
            &["imagePullPolicy", "Sometimes"],
        ),
        ("ClusterRoleBinding", "/subjects/0/kind", json!("Account"), &["/subjects/0/kind", "Account"]),
        // Another kind or version.
        ("DaemonSet", "/apiVersion", json!("extensions/v1beta1"), &["/kind", "extensions/v1beta1"]),
        ("DaemonSet", "/kind", json!("Daemonset"), &["/kind", "Daemonset"]),
    ]
}

/// Puts a value at a pointer, or takes away what is there.
fn put(document: &mut Value, pointer: &str, value: Value) {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    let parent = document.pointer_mut(parent).unwrap_or_else(|| panic!("there is no {parent}"));
    match parent {
        Value::Object(members) if value.is_null() => {
            assert!(members.shift_remove(key).is_some(), "{pointer} is there");
        }
        Value::Object(members) => {
            members.insert(key.to_owned(), value);
        }
        Value::Array(items) => {
            let index: usize = key.parse().expect("an index");
            items[index] = value;
        }
        other => panic!("{pointer}: {other}"),
    }
}

#[test]
fn one_thing_wrong_is_found_and_named() {
    let checker = Checker::new().expect("schemas");
    let good = documents(|_| {}, Cni::CalicoVxlan);
    for (kind, pointer, value, wanted) in rows() {
        let mut document =
            good.iter().find(|document| document["kind"] == kind).expect("one of each kind").clone();
        put(&mut document, pointer, value.clone());
        let problems = said(&checker, &document);
        assert!(!problems.is_empty(), "{kind} {pointer} = {value} is taken");
        let name = document["metadata"]["name"].as_str().unwrap_or_default();
        for part in wanted.iter().chain(&[name]) {
            assert!(problems.contains(part), "{kind} {pointer} = {value}: {problems}\nlacks {part:?}");
        }
    }
}

#[test]
fn what_is_printed_is_what_was_checked() {
    let checker = Checker::new().expect("schemas");
    for cni in Cni::ALL {
        for document in documents(|_| {}, cni) {
            let text = serde_saphyr::to_string(&document).expect("YAML");
            let read: Value = serde_saphyr::from_str(&text).expect("YAML again");
            assert_eq!(read, document, "{text}");
            assert_eq!(said(&checker, &read), "", "{text}");
        }
    }
}

#[test]
fn the_configuration_in_each_overlay_is_one_that_the_proxy_reads_without_a_warning() {
    for cni in Cni::ALL {
        for document in documents(|_| {}, cni) {
            let Some(text) = document["data"]["config.conf"].as_str() else { continue };
            let read =
                proxy_config::Document::parse(text).unwrap_or_else(|error| panic!("{}: {error}", cni.name()));
            assert_eq!(read.warnings, [""; 0], "{}", cni.name());
        }
    }
}
