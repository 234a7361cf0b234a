//! A Windows program on a lab's node: `transom.exe proxy` under Wine, which finds HNS through our computenetwork.dll and
//! vmcompute.dll, and programs the node as the Linux build does.
//!
//! What is run is built by `cargo xtask windows --build`.
#![cfg(target_os = "linux")]

mod lab_support;
mod wine_support;

use std::process::Command;

use hcn::api::Object;
use hcn::{Endpoint, Guid, Hcn, HcnExt, Kind, LoadBalancer, Query};
use lab_support::{Lab, tcp, transom, udp};
use serde_json::Value;
use wine_support::{built, seen, succeed, wine};

fn shop() -> String {
    let read = |name: &str| {
        let path = format!("{}/../../examples/shop/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    ["nodes", "shell", "shop", "system"].map(read).join("\n---\n")
}

/// All objects of a kind on a node, in the order of their ids, as HNS prints them.
fn objects<T: Object>(lab: &Lab) -> Vec<(Guid, Value)> {
    let hns = lab.hns("win-1");
    let mut ids = hns.enumerate(T::KIND, &Query::all()).expect("HNS answers");
    ids.sort();
    let read = |id| {
        let text = hns.query(T::KIND, id, &Query::all()).expect("HNS answers");
        (id, serde_json::from_str(&text).expect("JSON"))
    };
    ids.into_iter().map(read).collect()
}

/// The flags of a proxy that programs a node once.
fn flags(network: &str) -> Vec<&str> {
    let name = if network == "overlay" { "vxlan0" } else { "cbr0" };
    vec!["proxy", "--once", "--node", "win-1", "--network", network, "--network-name", name, "--enable-dsr"]
}

/// `transom.exe proxy --once` on the node.
fn by_the_windows_build(lab: &Lab, network: &str) {
    let manifests = seen(&lab.manifests());
    let place = ["--lab", lab.names().lab().as_str(), "--node", "win-1"];
    let words = [&flags(network)[..], &["--hns", "native", "--manifests", &manifests]].concat();
    succeed(&mut wine(&place, &built("transom.exe"), &words));
}

/// `transom proxy --once` on the node.
fn by_the_linux_build(lab: &Lab, network: &str) {
    let hns = format!("unix:{}", lab.names().hns_socket("win-1").display());
    let manifests = lab.manifests().display().to_string();
    let words = [&flags(network)[..], &["--hns", &hns, "--manifests", &manifests]].concat();
    succeed(Command::new(wine_support::TRANSOM).args(words));
}

/// Takes away all that a proxy makes: load balancers, remote endpoints, the source VIP.
fn strip(lab: &Lab, before: &[(Guid, Value)]) {
    let hns = lab.hns("win-1");
    for (id, _) in hns.list::<LoadBalancer>(&Query::all()).expect("HNS answers") {
        hns.delete(Kind::LoadBalancer, id).expect("HNS deletes it");
    }
    for (id, _) in hns.list::<Endpoint>(&Query::all()).expect("HNS answers") {
        if before.iter().all(|(known, _)| *known != id) {
            hns.delete(Kind::Endpoint, id).expect("HNS deletes it");
        }
    }
}

/// MACs that HNS has given from its pool come in the order in which endpoints are made, and say nothing.
fn without_given_macs(mut objects: Vec<(Guid, Value)>) -> Vec<(Guid, Value)> {
    for (_, object) in &mut objects {
        let given = object["Name"] == "source_vip";
        if given && let Some(members) = object.as_object_mut() {
            members.remove("MacAddress");
        }
    }
    objects
}

fn both_builds_make_the_same(network: &str) {
    let lab = Lab::up(&shop(), &["--without-proxy", "--network", network]);
    let before = objects::<Endpoint>(&lab);
    assert!(objects::<LoadBalancer>(&lab).is_empty(), "no proxy has run");

    by_the_windows_build(&lab, network);
    let windows = (objects::<LoadBalancer>(&lab), without_given_macs(objects::<Endpoint>(&lab)));
    assert!(windows.0.len() > 5, "{:?}", windows.0);
    // By every kind of way: a Service of pods on Windows nodes, of pods on Linux nodes, names over UDP, a node port.
    for (request, from) in [
        (tcp("10.96.20.1:80"), "shop/web-1"),
        (tcp("10.96.20.2:8000"), "shop/web-1"),
        (udp("10.96.0.10:53"), "shop/web-1"),
        (tcp("192.0.2.12:30080"), "outside"),
    ] {
        lab.ask(from, &request);
    }

    strip(&lab, &before);
    assert_eq!(objects::<Endpoint>(&lab), before);
    by_the_linux_build(&lab, network);
    let linux = (objects::<LoadBalancer>(&lab), without_given_macs(objects::<Endpoint>(&lab)));
    assert_eq!(windows.0, linux.0, "load balancers on {network}");
    assert_eq!(windows.1, linux.1, "endpoints on {network}");
    // And the other finds nothing to do.
    by_the_windows_build(&lab, network);
    assert_eq!(objects::<LoadBalancer>(&lab), linux.0);
}

#[test]
fn the_windows_build_programs_an_overlay_node_as_the_linux_build_does() {
    both_builds_make_the_same("overlay");
}

#[test]
fn the_windows_build_programs_a_bridge_node_as_the_linux_build_does() {
    both_builds_make_the_same("l2bridge");
}

#[test]
fn windows_programs_are_told_what_is_wrong() {
    let missing = transom(&["wine", "--lab", "no-such-lab", "--", "a.exe"]);
    let text = wine_support::both(&missing);
    assert!(missing.status.code() == Some(1) && text.contains("there is no lab no-such-lab"), "{text}");
    let socket = transom(&["wine", "--hns", "unix:/run/hns.sock", "--", "a.exe"]);
    let text = wine_support::both(&socket);
    assert!(socket.status.code() == Some(1) && text.contains("Wine has no Unix sockets"), "{text}");
    let dlls = transom(&[
        "wine",
        "--hns",
        "token:/t",
        "--dlls",
        "/nonexistent",
        "--prefix",
        "/nonexistent/p",
        "--",
        "a.exe",
    ]);
    assert_eq!(dlls.status.code(), Some(1));
}
