//! Plans of whole clusters.

use std::path::Path;

use proptest::prelude::*;
use services::source::manifests::{self, Options};
use services::{Change, IpFamily, Perspective};

use super::*;
use crate::build::Difference;

/// The names of a lab.
pub(crate) fn names() -> Names {
    Names::new("lab".parse().unwrap())
}

/// The cluster that texts describe.
pub(crate) fn cluster(texts: &[String]) -> Cluster {
    let mut cluster = Cluster::new(Perspective::of_node("", [IpFamily::V4, IpFamily::V6]));
    for text in texts {
        let parsed = manifests::parse_bytes("test.yaml", text.as_bytes(), &Options::default());
        for object in parsed.objects {
            cluster.apply(Change::Set(object));
        }
    }
    cluster
}

/// The plan of a cluster.
pub(crate) fn plan(cluster: &Cluster, kind: NetworkKind) -> LabPlan {
    let specs = cluster
        .nodes()
        .filter(|node| node.windows)
        .map(|node| {
            let spec = NodeSpec::of(cluster, &node.name, kind, "vxlan0", "cbr0", true).unwrap();
            (node.name.to_string(), spec)
        })
        .collect();
    let settings = Settings { kind, ..Settings::default() };
    LabPlan::of(cluster, &Topology::of(cluster), &specs, settings, &names()).unwrap()
}

fn file(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap()
}

fn shop() -> Cluster {
    cluster(&["nodes", "shop", "system"].map(|name| file(&format!("examples/shop/{name}.yaml"))))
}

fn hybrid() -> Cluster {
    cluster(&[file("testdata/clusters/hybrid-overlay.yaml")])
}

fn two_families() -> Cluster {
    cluster(&[file("testdata/clusters/dualstack-l2bridge.yaml")])
}

/// A plan as text: what makes it of nothing, and what the Windows nodes are to be.
fn text(plan: &LabPlan) -> String {
    let list = |items: Vec<String>| items.join(" ");
    let mut lines = vec![Difference::all(plan).to_string().trim_end().to_owned()];
    for node in &plan.windows {
        lines.push(format!(
            "Windows node {} in {}: {} {} at {}/{}, routers {}, {}",
            node.node,
            node.namespace,
            node.mac,
            list(node.addresses.iter().map(ToString::to_string).collect()),
            node.bridge,
            node.port,
            list(node.routers.iter().map(ToString::to_string).collect()),
            if node.forwarding { "forwards" } else { "forwards nothing" },
        ));
        lines.extend(node.routes.iter().map(|(pods, via)| format!("  {pods} via {via}")));
        lines.extend(node.pods.iter().map(|pod| {
            let addresses = list(pod.addresses.iter().map(ToString::to_string).collect());
            let WindowsPod { name, namespace, mtu, accepted, .. } = pod;
            format!("  {name} in {namespace}: {addresses} mtu {mtu}, accepts {accepted:?}")
        }));
    }
    lines.join("\n")
}

#[test]
fn the_plan_of_the_shop_on_an_overlay() {
    let mut plan = plan(&shop(), NetworkKind::Overlay);
    let mac = "00-15-5D-00-00-01".parse().unwrap();
    plan.set_tunnels(&BTreeMap::from([("win-1".to_owned(), mac)]));
    insta::assert_snapshot!(text(&plan));
}

#[test]
fn the_plan_of_the_shop_on_a_bridge() {
    insta::assert_snapshot!(text(&plan(&shop(), NetworkKind::L2Bridge)));
}

#[test]
fn the_plan_of_a_hybrid_cluster() {
    insta::assert_snapshot!(text(&plan(&hybrid(), NetworkKind::Overlay)));
}

#[test]
fn the_plan_of_a_cluster_with_two_families() {
    insta::assert_snapshot!(text(&plan(&two_families(), NetworkKind::L2Bridge)));
}

fn check(plan: &LabPlan) {
    let mut ports: BTreeSet<&str> = plan.windows.iter().map(|node| &*node.port).collect();
    assert_eq!(ports.len(), plan.windows.len(), "a port for each Windows node");
    for (name, namespace) in &plan.namespaces {
        assert!(name.starts_with(&names().prefix()) && name.len() <= 255, "{name}");
        let mut seen = BTreeSet::new();
        for (device, facts) in &namespace.devices {
            let place = format!("{device} in {name}");
            assert!(!device.is_empty() && device.len() <= 15, "{place}");
            assert!(*name != plan.underlay || ports.insert(device), "{place}: taken by a Windows node");
            for address in &facts.addresses {
                assert!(seen.insert(address.net.addr()), "{place}: {} is there twice", address.net);
            }
            if let Some(bridge) = &facts.bridge {
                assert_eq!(namespace.devices[bridge].kind, DeviceKind::Bridge, "{place}");
            }
            let end = match &facts.kind {
                DeviceKind::Veth { namespace, device } | DeviceKind::VethEnd { namespace, device } => {
                    &plan.namespaces[namespace].devices[device].kind
                }
                DeviceKind::Vxlan { underlay, .. } => {
                    assert!(namespace.devices.contains_key(underlay), "{place}");
                    continue;
                }
                DeviceKind::Bridge => continue,
            };
            match (&facts.kind, end) {
                (DeviceKind::Veth { .. }, DeviceKind::VethEnd { namespace, device: back })
                | (DeviceKind::VethEnd { .. }, DeviceKind::Veth { namespace, device: back }) => {
                    assert_eq!((namespace, back), (name, device), "the other end of {place}");
                }
                _ => panic!("{place} is joined with what is not joined with it"),
            }
        }
        let mut destinations = BTreeSet::new();
        for route in &namespace.routes {
            assert!(namespace.devices.contains_key(&route.device), "{route:?} in {name}");
            assert!(destinations.insert(route.destination), "two routes to {} in {name}", route.destination);
        }
        for neighbor in &namespace.neighbors {
            assert!(namespace.devices.contains_key(&neighbor.device), "{neighbor:?} in {name}");
        }
    }
    for (pod, place) in &plan.pods {
        assert!(plan.namespaces.contains_key(&place.namespace), "{pod} in {place:?}");
    }
}

#[test]
fn plans_are_whole() {
    for (cluster, pods) in [(shop(), 5), (hybrid(), 90), (two_families(), 3)] {
        for kind in [NetworkKind::Overlay, NetworkKind::L2Bridge] {
            let plan = plan(&cluster, kind);
            assert!(plan.pods.len() >= pods, "{} pods", plan.pods.len());
            check(&plan);
        }
    }
}

#[test]
fn peers_of_a_tunnel_come_with_its_mac() {
    let mut plan = plan(&shop(), NetworkKind::Overlay);
    let before = plan.clone();
    let linux = names().node("linux-1");
    assert_eq!(plan.namespaces[&linux].neighbors.len(), 0, "nobody knows the tunnels of Windows nodes");
    let mac = |last: u8| Mac([0, 0x15, 0x5d, 0, 0, last]);
    let told = |last: u8| BTreeMap::from(["win-1", "win-2"].map(|node| (node.to_owned(), mac(last))));
    plan.set_tunnels(&told(1));
    let first = Difference::new(&before, &plan);
    assert_eq!(first.contents.keys().collect::<Vec<_>>(), [&linux]);
    assert_eq!((first.contents[&linux].len(), first.forwardings[&linux].len()), (4, 2), "{first}");
    let again = plan.clone();
    plan.set_tunnels(&told(1));
    assert!(Difference::new(&again, &plan).is_empty());
    plan.set_tunnels(&told(2));
    let changed = Difference::new(&again, &plan);
    assert_eq!((changed.contents[&linux].len(), changed.forwardings[&linux].len()), (2, 4), "{changed}");
}

#[test]
fn what_cannot_be_planned_is_told() {
    let cluster = shop();
    let settings = Settings::default();
    let error = LabPlan::of(&cluster, &Topology::of(&cluster), &BTreeMap::new(), settings, &names());
    assert_eq!(error.unwrap_err(), PlanError::NoSpec("win-1".to_owned()));
    let long = "x".repeat(253);
    let node = "apiVersion: v1
kind: Node
metadata: {name: n, labels: {kubernetes.io/os: linux}}
spec: {podCIDR: 10.50.1.0/24}
status: {addresses: [{type: InternalIP, address: 192.0.2.1}]}"
        .to_owned();
    let pod = format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: {long}, namespace: shop}}
spec: {{nodeName: n, containers: [{{name: c, image: i}}]}}
status: {{phase: Running, podIP: 10.50.1.5, podIPs: [{{ip: 10.50.1.5}}]}}"
    );
    let cluster = self::cluster(&[node, pod]);
    let error = LabPlan::of(&cluster, &Topology::of(&cluster), &BTreeMap::new(), settings, &names());
    assert!(matches!(error, Err(PlanError::LongName { what, .. }) if what.ends_with(&long)));
}

#[test]
fn packets_for_an_address_are_attracted_by_one_node_at_a_time() {
    let mut plan = plan(&two_families(), NetworkKind::L2Bridge);
    let vip: IpAddr = "203.0.113.200".parse().unwrap();
    let nodes: Vec<String> = plan.linux.iter().map(|node| node.node.clone()).collect();
    for node in &nodes {
        assert!(plan.attract(vip, node));
        let router = &plan.namespaces[&plan.router];
        let ways = router.routes.iter().filter(|route| route.destination == IpNet::from(vip));
        let own = plan.linux_node(node).unwrap().addresses[0].addr();
        assert_eq!(ways.map(|route| route.via).collect::<Vec<_>>(), [Some(own)]);
    }
    assert!(!plan.attract(vip, "nobody"));
    check(&plan);
}

proptest! {
    #[test]
    fn names_of_devices_fit_and_differ(owners in proptest::collection::btree_set("[a-z0-9./-]{1,40}", 1..40)) {
        let mut taken = BTreeSet::new();
        for owner in &owners {
            let name = device_name("veth", owner, |name| taken.contains(name));
            prop_assert!(name.len() <= 15 && name.starts_with("veth") && !name.contains('/'), "{}", name);
            prop_assert!(taken.insert(name));
        }
    }
}
