//! A cluster of two families: one process serves both.

use std::path::Path;

use super::world::World;

/// The cluster.
const CLUSTER: &str = "
apiVersion: v1
kind: Node
metadata: {name: win-1, labels: {kubernetes.io/os: windows}}
spec: {podCIDRs: [10.244.2.0/24, 'fd00:244:2::/64'], podCIDR: 10.244.2.0/24}
status: {addresses: [{type: InternalIP, address: 192.0.2.12}, {type: InternalIP, address: '2001:db8:1::12'}]}
---
apiVersion: v1
kind: Node
metadata: {name: linux-1, labels: {kubernetes.io/os: linux}}
spec: {podCIDRs: [10.244.3.0/24, 'fd00:244:3::/64'], podCIDR: 10.244.3.0/24}
status: {addresses: [{type: InternalIP, address: 192.0.2.13}, {type: InternalIP, address: '2001:db8:1::13'}]}
---
apiVersion: v1
kind: Service
metadata: {name: both, namespace: shop}
spec:
  clusterIP: 10.96.30.1
  clusterIPs: [10.96.30.1, 'fd00:96::30:1']
  ipFamilies: [IPv4, IPv6]
  ipFamilyPolicy: RequireDualStack
  ports: [{port: 80}]
---
apiVersion: v1
kind: Service
metadata: {name: six, namespace: shop}
spec: {clusterIP: 'fd00:96::30:2', clusterIPs: ['fd00:96::30:2'], ipFamilies: [IPv6], ipFamilyPolicy: SingleStack, ports: [{port: 80}]}
";

/// The slice of a family.
fn slice(service: &str, family: &str, address: &str) -> String {
    format!(
        "{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: {family}, metadata: {{name: {service}-{}, namespace: shop, labels: {{kubernetes.io/service-name: {service}}}}}, ports: [{{port: 8080}}], endpoints: [{{addresses: ['{address}'], nodeName: linux-1}}]}}",
        family.to_lowercase()
    )
}

fn world(folder: &Path) -> World {
    std::fs::write(folder.join("cluster.yaml"), CLUSTER).expect("it is written");
    let world = World::of(folder, &["cluster.yaml"]);
    for text in [
        slice("both", "IPv4", "10.244.3.7"),
        slice("both", "IPv6", "fd00:244:3::7"),
        slice("six", "IPv6", "fd00:244:3::8"),
    ] {
        world.api.store().apply_manifests(&text).expect("a slice");
    }
    world
}

#[test]
fn both_families_are_served_by_one_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let world = world(folder.path());
    let mut proxy = world.proxy(&[]);
    world.until("it is ready", || world.is_ready());
    for ip in ["10.96.30.1", "fd00:96::30:1", "fd00:96::30:2"] {
        world.until(&format!("{ip} is served"), || world.serves(ip));
    }
    // Health knows each family.
    let (_, body) = World::get(world.healthz, "/healthz").expect("health answers");
    assert!(body.contains("IPv4") && body.contains("IPv6"), "{body}");
    // Each goes its own way.
    let before = world.served();
    let gone = "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: both-ipv6, namespace: shop}}";
    world.api.store().delete_manifests(gone).expect("it goes");
    world.until("the family without endpoints goes", || !world.serves("fd00:96::30:1"));
    let kept = |served: &[(String, hcn::Guid)]| {
        served.iter().filter(|(ip, _)| ip != "fd00:96::30:1").cloned().collect::<Vec<_>>()
    };
    assert_eq!(kept(&world.served()), kept(&before), "the other one is not touched");
    assert!(proxy.is_there());
    proxy.stop();
}
