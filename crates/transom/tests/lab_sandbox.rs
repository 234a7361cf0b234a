//! Sandboxes: pods that no manifest has, for CNI plugins to give them endpoints. What a plugin asks of HNS is asked here by
//! hand; `lab_wine` and docs/fidelity.md have the real plugins.
#![cfg(target_os = "linux")]

mod lab_support;

use hcn::modify::{EndpointRequest, ModifyNamespace, NamespaceRequestResource, RequestType};
use hcn::{Endpoint, Guid, Hcn, HcnExt, Kind, Network, Query};
use lab_support::{Lab, tcp, transom};
use serde_json::Value;

fn shop() -> String {
    let read = |name: &str| {
        let path = format!("{}/../../examples/shop/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    ["nodes", "shell", "shop", "system"].map(read).join("\n---\n")
}

/// The Service that all ask.
const WEB: &str = "10.96.20.1:80";

/// Runs `lab sandbox`; what it printed, and its exit code.
fn sandbox(lab: &Lab, words: &[&str]) -> (String, Option<i32>) {
    let name = lab.names().lab().as_str();
    let done = transom(&[&["lab", "sandbox"], words, &["--name", name]].concat());
    let text = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    (text, done.status.code())
}

fn add(lab: &Lab, pod: &str) -> Guid {
    let (text, code) = sandbox(lab, &["add", pod, "--node", "win-1"]);
    assert_eq!(code, Some(0), "{text}");
    text.trim().parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// What a plugin's ADD does: an endpoint with an address, attached to the sandbox.
fn attach(lab: &Lab, sandbox: Guid, address: &str) -> Guid {
    let hns = lab.hns("win-1");
    let networks = hns.list::<Network>(&Query::by_name("vxlan0")).expect("HNS answers");
    let network = networks.first().expect("the node has its network").0;
    let document = format!(
        r#"{{"Name": "new", "HostComputeNetwork": "{network}", "IpConfigurations": [{{"IpAddress": "{address}", "PrefixLength": 24}}],
            "Routes": [{{"NextHop": "10.244.2.1", "DestinationPrefix": "0.0.0.0/0"}}],
            "Dns": {{"ServerList": ["10.96.0.10"], "Search": ["shop.svc.cluster.local"]}}, "SchemaVersion": {{"Major": 2, "Minor": 0}}}}"#
    );
    let endpoint = Endpoint::parse(&document).expect("an endpoint");
    let id = hns.make_endpoint(network, Guid::NIL, &endpoint).expect("HNS takes the endpoint");
    join(lab, sandbox, id, RequestType::Add);
    id
}

fn join(lab: &Lab, sandbox: Guid, endpoint: Guid, request: RequestType) {
    let settings = EndpointRequest { endpoint_id: Some(endpoint), ..EndpointRequest::default() };
    let request = ModifyNamespace::new(NamespaceRequestResource::Endpoint, request, &settings);
    let joined = lab.hns("win-1").modify(Kind::Namespace, sandbox, &request.to_json());
    joined.expect("HNS changes the namespace");
}

fn has_device(lab: &Lab, pod: &str) -> bool {
    lab.links(pod, &[]).iter().any(|link| link["ifname"] == "eth0")
}

/// The pod reaches a Service, and is seen with its own address.
fn works(lab: &Lab, address: &str) {
    assert!(has_device(lab, "shop/new"), "HNS has answered, so the interface is there");
    let answer = lab.ask("shop/new", &tcp(WEB));
    assert_eq!(answer.peer.ip().to_string(), address, "{answer:?}");
}

#[test]
fn an_endpoint_that_somebody_attaches_becomes_the_interface() {
    let lab = Lab::up(&shop(), &[]);
    let netns = add(&lab, "shop/new");
    assert!(!has_device(&lab, "shop/new"), "nothing is attached yet");
    let endpoint = attach(&lab, netns, "10.244.2.100");
    works(&lab, "10.244.2.100");

    // Its place in status and its files.
    let status = lab.status();
    let pod = status.pods.iter().find(|pod| pod.name == "shop/new").expect("it is among the pods");
    assert_eq!((&*pod.node, pod.netns), ("win-1", Some(netns)));
    lab.until("its address is known", || {
        lab.status().pods.iter().any(|pod| pod.name == "shop/new" && !pod.addresses.is_empty())
    });
    let name = lab.names().lab().as_str();
    let by_name = ["lab", "exec", "shop/new", "--name", name, "--", "getent", "ahostsv4", "web"];
    let found = transom(&by_name);
    let text = String::from_utf8_lossy(&found.stdout).into_owned();
    assert!(text.contains("10.96.20.1"), "{text}{}", String::from_utf8_lossy(&found.stderr));

    // It is nobody else's business: neither the manifests' nor the daemon's.
    lab.apply(&shop());
    works(&lab, "10.244.2.100");
    lab.restart("hns-win-1", true);
    works(&lab, "10.244.2.100");

    // Another address is another interface; DEL leaves none.
    lab.hns("win-1").delete(Kind::Endpoint, endpoint).expect("HNS deletes it");
    lab.until("the interface is gone", || !has_device(&lab, "shop/new"));
    let endpoint = attach(&lab, netns, "10.244.2.101");
    works(&lab, "10.244.2.101");
    join(&lab, netns, endpoint, RequestType::Remove);
    lab.until("the interface is gone", || !has_device(&lab, "shop/new"));

    let (text, code) = sandbox(&lab, &["remove", "shop/new"]);
    assert_eq!((text.trim(), code), ("shop/new is gone.", Some(0)));
    assert!(lab.status().pods.iter().all(|pod| pod.name != "shop/new"));
    let left = lab.hns("win-1").enumerate(Kind::Namespace, &Query::by_id(netns)).expect("HNS answers");
    assert!(left.is_empty(), "{left:?}");
    // Its endpoint is somebody else's.
    lab.hns("win-1").get::<Endpoint>(endpoint).expect("it is still there");
}

#[test]
fn what_cannot_be_a_sandbox_is_refused() {
    let lab = Lab::up(&shop(), &[]);
    add(&lab, "shop/new");
    for (words, wanted) in [
        (["add", "shop/new", "--node", "win-1"], "there is a pod shop/new already"),
        (["add", "shop/web-1", "--node", "win-1"], "there is a pod shop/web-1 already"),
        (
            ["add", "shop/other", "--node", "linux-1"],
            "there is no Windows node linux-1; the lab has win-1, win-2",
        ),
        (["add", "shop/Other", "--node", "win-1"], "is no pod: write NAMESPACE/NAME"),
    ] {
        let (text, code) = sandbox(&lab, &words);
        assert!(code == Some(1) && text.contains(wanted), "{words:?}: {text}");
    }
    let (text, code) = sandbox(&lab, &["remove", "shop/other"]);
    assert!(code == Some(1) && text.contains("there is no sandbox shop/other"), "{text}");
    let (text, code) = sandbox(&lab, &["add", "shop/json", "--node", "win-2", "-o", "json"]);
    assert_eq!(code, Some(0), "{text}");
    let made: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(made["namespace"], lab.names().pod("shop/json"));
    assert!(made["netns"].as_str().is_some_and(|id| id.parse::<Guid>().is_ok()), "{made}");
}
