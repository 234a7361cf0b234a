//! The API server of the bench, in a process of its own: the cluster, and changes of endpoints on demand.

use std::fmt::Write as _;
use std::io::BufRead as _;
use std::path::Path;
use std::time::Duration;

use apiserver::{ApiServer, Connecting, Credential, Options};
use hcn::time::{Clock as _, SystemClock};
use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use services::Object;

use crate::SERVICES;

/// The first argument of that process.
pub(crate) const WORD: &str = "api-server";

/// The Service that must come first.
pub(crate) const DNS: &str = "kube-dns";

/// Endpoints of a Service.
const ENDPOINTS: usize = 10;

/// Addresses of endpoints; each is used by two Services, so that a change of one is a change of one load balancer only.
const POOL: usize = SERVICES * ENDPOINTS / 2;

const NODES: &str = r#"[
    {"metadata": {"name": "n1", "labels": {"kubernetes.io/os": "windows"}}, "spec": {"podCIDR": "10.64.0.0/16", "podCIDRs": ["10.64.0.0/16"]},
     "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.11"}]}},
    {"metadata": {"name": "n2", "labels": {"kubernetes.io/os": "linux"}}, "spec": {"podCIDR": "10.65.0.0/16", "podCIDRs": ["10.65.0.0/16"]},
     "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.12"}]}}
]"#;

/// The nodes.
pub(crate) fn nodes() -> Vec<Object> {
    raw_nodes().iter().map(|node| Object::try_from(node).expect("a Node")).collect()
}

fn raw_nodes() -> Vec<Node> {
    serde_json::from_str(NODES).expect("nodes")
}

fn of<T: serde::de::DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn service(number: usize) -> Service {
    let (high, low) = (number / 250, number % 250 + 1);
    of(&format!(
        r#"{{"metadata": {{"name": "s{number}", "namespace": "bench"}}, "spec": {{"clusterIP": "10.96.{high}.{low}", "ports": [{{"port": 80}}]}}}}"#
    ))
}

/// The slice of a Service after so many changes, triggered then.
fn slice(number: usize, shift: usize, triggered: Option<&str>) -> EndpointSlice {
    let mut endpoints = String::new();
    for endpoint in 0..ENDPOINTS {
        let n = (number * ENDPOINTS + endpoint + shift) % POOL;
        let comma = if endpoint == 0 { "" } else { "," };
        let (a, b, c) = (65 + n / 62_500, n % 62_500 / 250, n % 250 + 1);
        // Writing to a String does not fail.
        let _ = write!(endpoints, r#"{comma}{{"addresses": ["10.{a}.{b}.{c}"], "nodeName": "n2"}}"#);
    }
    let annotations = triggered
        .map(|time| {
            format!(r#", "annotations": {{"endpoints.kubernetes.io/last-change-trigger-time": "{time}"}}"#)
        })
        .unwrap_or_default();
    of(&format!(
        r#"{{"metadata": {{"name": "s{number}-1", "namespace": "bench", "labels": {{"kubernetes.io/service-name": "s{number}"}}{annotations}}},
            "addressType": "IPv4", "ports": [{{"name": "", "port": 8080, "protocol": "TCP"}}], "endpoints": [{endpoints}]}}"#
    ))
}

/// Serves until its standard input ends. Each line there, `CHANGES SECONDS`, has so many changes a second made for so long.
pub(crate) fn serve(kubeconfig: &Path) {
    let server = ApiServer::start(Options::plain()).expect("the API server starts");
    let store = server.store();
    for name in ["bench", "kube-system"] {
        store
            .apply(&of::<Namespace>(&format!(r#"{{"metadata": {{"name": "{name}"}}}}"#)))
            .expect("a namespace");
    }
    for node in raw_nodes() {
        store.apply(&node).expect("a Node");
    }
    let dns: Service = of(
        r#"{"metadata": {"name": "kube-dns", "namespace": "kube-system"}, "spec": {"clusterIP": "10.96.200.10", "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]}}"#,
    );
    store.apply(&dns).expect("a Service");
    let dns: EndpointSlice = of(
        r#"{"metadata": {"name": "kube-dns-1", "namespace": "kube-system", "labels": {"kubernetes.io/service-name": "kube-dns"}},
            "addressType": "IPv4", "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}], "endpoints": [{"addresses": ["10.65.250.1"], "nodeName": "n2"}]}"#,
    );
    store.apply(&dns).expect("a slice");
    let services: Vec<Service> = (0..SERVICES).map(service).collect();
    store.load(&services).expect("Services");
    let slices: Vec<EndpointSlice> = (0..SERVICES).map(|number| slice(number, 0, None)).collect();
    store.load(&slices).expect("slices");
    server.write_kubeconfig(kubeconfig, &Credential::None, &Connecting::default()).expect("it is written");
    println!("ready");
    let clock = SystemClock::default();
    let mut shifts = vec![0_usize; SERVICES];
    let mut next = 0;
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("text");
        let (changes, seconds) = line.split_once(' ').expect("two numbers");
        let (changes, seconds): (u32, u32) =
            (changes.parse().expect("a number"), seconds.parse().expect("a number"));
        let start = clock.now();
        let all = changes * seconds;
        let apart = Duration::from_secs(1) / changes;
        for made in 0..all {
            let due = start + apart * made;
            clock.sleep(due.saturating_sub(clock.now()));
            // Services in an order that is none of names, addresses or time.
            next = (next + 7_919) % SERVICES;
            shifts[next] = (shifts[next] + 1) % ENDPOINTS;
            let now = k8s_openapi::jiff::Timestamp::try_from(clock.wall()).expect("a time").to_string();
            store.replace(&slice(next, shifts[next], Some(&now))).expect("a slice changes");
        }
        println!("{all}");
    }
}
