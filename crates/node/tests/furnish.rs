//! Furnishing an emulated HNS: once, again, and after pods, peers and HNS itself have changed.

use std::collections::BTreeSet;
use std::sync::Arc;

use hcn::{Endpoint, Hcn, HcnExt, Kind, Namespace, Network, Query};
use hns::{Hns, Loss, Options, Profile};
use node::{Furnisher, NetworkKind, NodeSpec, PodSpec, SpecError};
use services::source::manifests::{self, parse_bytes};
use services::{Change, Cluster, IpFamily, Perspective};

const NODES: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: win, labels: {kubernetes.io/os: windows}}
spec: {podCIDRs: [10.50.1.0/24, "2001:db8:50:1::/64"]}
status: {addresses: [{type: InternalIP, address: 10.0.0.4}, {type: InternalIP, address: "2001:db8:1::4"}]}
---
apiVersion: v1
kind: Node
metadata:
  name: lin
  labels: {kubernetes.io/os: linux}
  annotations:
    flannel.alpha.coreos.com/backend-type: vxlan
    flannel.alpha.coreos.com/backend-data: '{"VNI":4096,"VtepMAC":"9e:11:22:33:44:55"}'
spec: {podCIDR: 10.50.2.0/24}
status: {addresses: [{type: InternalIP, address: 10.0.0.5}]}
---
apiVersion: v1
kind: Node
metadata: {name: bare, labels: {kubernetes.io/os: windows}}
spec: {}
status: {addresses: [{type: InternalIP, address: 10.0.0.6}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {nodeName: win, containers: [{name: c, image: i}]}
status: {phase: Running, podIP: 10.50.1.5, podIPs: [{ip: 10.50.1.5}]}
---
apiVersion: v1
kind: Pod
metadata: {name: agent, namespace: shop}
spec: {nodeName: win, hostNetwork: true, containers: [{name: c, image: i}]}
status: {phase: Running, podIP: 10.0.0.4, podIPs: [{ip: 10.0.0.4}]}
---
apiVersion: v1
kind: Pod
metadata: {name: job, namespace: shop}
spec: {nodeName: win, containers: [{name: c, image: i}]}
status: {phase: Succeeded, podIP: 10.50.1.6, podIPs: [{ip: 10.50.1.6}]}
"#;

fn cluster() -> Cluster {
    let parsed = parse_bytes("nodes", NODES.as_bytes(), &manifests::Options::default());
    assert!(parsed.problems.is_empty(), "{:?}", parsed.problems);
    let mut cluster = Cluster::new(Perspective::of_node("win", [IpFamily::V4]));
    for object in parsed.objects {
        cluster.apply(Change::Set(object));
    }
    cluster
}

fn spec(kind: NetworkKind) -> NodeSpec {
    NodeSpec::of(&cluster(), "win", kind, "net", "cbr0", true).expect("the node is complete")
}

fn hns() -> Hns {
    Hns::open(Options::new(Profile::Ws2022)).expect("an emulated HNS opens")
}

fn furnish(hns: &Hns, spec: &NodeSpec) -> node::Furnished {
    Furnisher::new(Arc::new(hns.actor("cni"))).furnish(spec).unwrap_or_else(|error| panic!("{error}"))
}

fn names(hns: &Hns) -> BTreeSet<String> {
    let endpoints: Vec<(hcn::Guid, Endpoint)> = hns.list(&Query::all()).expect("endpoints are listed");
    endpoints.into_iter().filter_map(|(_, endpoint)| endpoint.name).collect()
}

fn network(hns: &Hns) -> Network {
    hns.list::<Network>(&Query::by_name("net")).expect("networks are listed").remove(0).1
}

#[test]
fn a_bridge_has_both_families_the_hosts_endpoint_and_the_pods_of_its_own() {
    let hns = hns();
    furnish(&hns, &spec(NetworkKind::L2Bridge));
    // Host-network pods and pods that have ended have no endpoint.
    assert_eq!(names(&hns), BTreeSet::from(["cbr0".to_owned(), "shop/web".to_owned()]));
    let prefixes: Vec<String> = network(&hns).subnets().map(|subnet| subnet.prefix.clone()).collect();
    assert_eq!(prefixes, ["10.50.1.0/24", "2001:db8:50:1::/64"]);
    let namespaces: Vec<(hcn::Guid, Namespace)> = hns.list(&Query::all()).expect("namespaces are listed");
    let attached = namespaces.iter().flat_map(|(_, namespace)| &namespace.resources).count();
    assert_eq!(attached, 1, "the pod's endpoint is in a namespace");
}

#[test]
fn an_overlay_has_one_family_and_a_route_to_each_other_node() {
    let hns = hns();
    furnish(&hns, &spec(NetworkKind::Overlay));
    let network = network(&hns);
    assert_eq!(network.subnets().count(), 1);
    let routes: Vec<String> = network
        .policies
        .iter()
        .filter(|policy| policy.kind.is("RemoteSubnetRoute"))
        .filter_map(|policy| Some(policy.settings.as_ref()?.get().to_owned()))
        .collect();
    assert_eq!(
        routes,
        [
            r#"{"DestinationPrefix":"10.50.2.0/24","IsolationId":4096,"ProviderAddress":"10.0.0.5","DistributedRouterMacAddress":"9E-11-22-33-44-55"}"#
        ]
    );
}

#[test]
fn a_second_time_writes_nothing() {
    for kind in [NetworkKind::Overlay, NetworkKind::L2Bridge] {
        let hns = hns();
        furnish(&hns, &spec(kind));
        let before = hns.journal().next_seq();
        assert_eq!(furnish(&hns, &spec(kind)), node::Furnished::default());
        assert!(hns.journal().writes_since(before).is_empty(), "{kind}");
    }
}

#[test]
fn pods_come_go_and_change_their_address() {
    let hns = hns();
    let mut spec = spec(NetworkKind::L2Bridge);
    furnish(&hns, &spec);
    spec.pods[0].addresses = vec!["10.50.1.9".parse().expect("an address")];
    spec.pods.push(PodSpec {
        name: "shop/new".to_owned(),
        addresses: vec!["10.50.1.5".parse().expect("an address")],
    });
    furnish(&hns, &spec);
    assert_eq!(
        names(&hns),
        BTreeSet::from(["cbr0".to_owned(), "shop/new".to_owned(), "shop/web".to_owned()])
    );
    spec.pods.clear();
    let done = furnish(&hns, &spec);
    assert_eq!((done.added, done.removed), (0, 2));
    assert_eq!(names(&hns), BTreeSet::from(["cbr0".to_owned()]));
}

#[test]
fn routes_follow_the_other_nodes() {
    let hns = hns();
    let mut spec = spec(NetworkKind::Overlay);
    furnish(&hns, &spec);
    spec.peers.iter_mut().find(|peer| &*peer.name == "lin").expect("the peer").address =
        "10.0.0.9".parse().expect("an address");
    let done = furnish(&hns, &spec);
    assert_eq!((done.added, done.removed), (1, 1));
    let policies = network(&hns).policies;
    assert!(
        policies.iter().any(|policy| policy
            .settings
            .as_ref()
            .is_some_and(|settings| settings.get().contains("10.0.0.9")))
    );
}

#[test]
fn endpoints_that_hns_lost_come_back_and_those_of_others_stay() {
    let hns = hns();
    let spec = spec(NetworkKind::L2Bridge);
    furnish(&hns, &spec);
    hns.restart(Loss::Endpoints).expect("HNS restarts");
    let network = hns.list::<Network>(&Query::by_name("net")).expect("networks are listed").remove(0).0;
    let foreign = hns
        .create(
            Kind::Endpoint,
            Some(network),
            hcn::Guid::NIL,
            r#"{"Name":"other","IpConfigurations":[{"IpAddress":"10.50.1.77"}],"SchemaVersion":{"Major":2,"Minor":0}}"#,
        )
        .expect("others may make endpoints");
    furnish(&hns, &spec);
    assert_eq!(names(&hns), BTreeSet::from(["cbr0".to_owned(), "other".to_owned(), "shop/web".to_owned()]));
    assert!(hns.get::<Endpoint>(foreign).is_ok());
}

#[test]
fn what_is_missing_is_named() {
    let of = |name: &str| NodeSpec::of(&cluster(), name, NetworkKind::Overlay, "net", "cbr0", true);
    assert!(matches!(of("nobody"), Err(SpecError::NoNode { nodes, .. }) if nodes == ["bare", "win"]));
    assert_eq!(of("lin"), Err(SpecError::NotWindows("lin".to_owned())));
    let error = of("bare").expect_err("it has no pod range").to_string();
    assert!(error.contains("bare") && error.contains("spec.podCIDR"), "{error}");
}
