//! Properties that hold for every cluster: order does not matter, increments agree with a fresh start, and what serves may serve.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use services::{Change, Cluster, IpFamily, Object, ObjectRef, Perspective, ServiceKey, ServiceView};

use crate::common::object;

const NODES: [&str; 3] = ["n0", "n1", "n2"];
const ZONES: [&str; 2] = ["a", "b"];

/// A step of churn: an object appears, changes or goes.
#[derive(Clone, Debug)]
enum Step {
    Set(Object),
    Delete(Object),
    Look(Perspective),
}

fn families() -> impl Strategy<Value = Vec<IpFamily>> {
    prop_oneof![
        Just(vec![IpFamily::V4]),
        Just(vec![IpFamily::V6]),
        Just(vec![IpFamily::V4, IpFamily::V6]),
        Just(vec![IpFamily::V6, IpFamily::V4]),
    ]
}

fn perspective() -> impl Strategy<Value = Perspective> {
    let zone = proptest::option::of(proptest::sample::select(&ZONES[..]));
    let node = proptest::sample::select(&NODES[..]);
    (node, zone, families(), proptest::option::of(0usize..5), any::<bool>()).prop_map(
        |(node, zone, families, max_backends, allow_external_ips)| Perspective {
            zone: zone.map(Into::into),
            max_backends,
            allow_external_ips,
            ..Perspective::of_node(node, families)
        },
    )
}

fn service() -> impl Strategy<Value = Object> {
    let families = proptest::sample::select(vec![
        json!(["10.96.0.1"]),
        json!(["fd00::1"]),
        json!(["10.96.0.1", "fd00::1"]),
        json!(["None"]),
        json!([""]),
    ]);
    let name = proptest::sample::select(vec!["a", "b"]);
    let kind = proptest::sample::select(vec!["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]);
    let policy = || proptest::sample::select(vec!["Cluster", "Local"]);
    let target = proptest::sample::select(vec![json!(8080), json!("web"), Value::Null]);
    (name, kind, families, policy(), policy(), target, 0u8..16).prop_map(
        |(name, kind, ips, internal, external, target, bits)| {
            let mut document = json!({
                "kind": "Service", "metadata": {"name": name, "namespace": "x", "labels": {}},
                "spec": {
                    "type": kind, "clusterIP": ips[0], "clusterIPs": ips, "internalTrafficPolicy": internal,
                    "externalTrafficPolicy": external, "externalIPs": ["198.51.100.1", "2001:db8::1", "0.0.0.0"],
                    "ports": [{"name": "p", "port": 80, "targetPort": target, "protocol": "TCP"},
                              {"name": "q", "port": 81, "protocol": "UDP"}],
                    "publishNotReadyAddresses": bits & 1 != 0,
                },
                "status": {"loadBalancer": {"ingress": [{"ip": "198.51.100.2"}, {"ip": "2001:db8::2"}, {"hostname": "x"}]}},
            });
            if bits & 2 != 0 {
                document["spec"]["selector"] = json!({"app": name});
            }
            if bits == 4 {
                document["metadata"]["labels"] = json!({"service.kubernetes.io/service-proxy-name": ""});
            }
            if bits & 8 != 0 {
                document["spec"]["trafficDistribution"] = json!("PreferSameNode");
            }
            object(document)
        },
    )
}

/// Three conditions, each true, false or absent, as the digits of a number to base 3.
fn conditions(number: u8) -> Value {
    let mut conditions = json!({});
    for (i, name) in ["ready", "serving", "terminating"].into_iter().enumerate() {
        match number / 3u8.pow(u32::try_from(i).unwrap()) % 3 {
            0 => conditions[name] = json!(true),
            1 => conditions[name] = json!(false),
            _ => {}
        }
    }
    conditions
}

fn endpoint() -> impl Strategy<Value = (u8, Value)> {
    (1u8..6, 0u8..27, 0usize..4, 0usize..3, 0u8..4).prop_map(|(host, number, node, zone, hints)| {
        let mut endpoint = json!({"conditions": conditions(number)});
        if let Some(node) = NODES.get(node) {
            endpoint["nodeName"] = json!(node);
        }
        if let Some(zone) = ZONES.get(zone) {
            endpoint["zone"] = json!(zone);
            if hints & 1 != 0 {
                endpoint["hints"]["forZones"] = json!([{"name": zone}]);
            }
        }
        if hints & 2 != 0 {
            endpoint["hints"]["forNodes"] = json!([{"name": NODES[usize::from(host) % 3]}]);
        }
        (host, endpoint)
    })
}

fn slice() -> impl Strategy<Value = Object> {
    let service = proptest::sample::select(vec!["a", "b", "c"]);
    let port = proptest::sample::select(vec![8080u16, 9090]);
    (0u8..4, service, any::<bool>(), port, 0u8..8, vec(endpoint(), 0..6)).prop_map(
        |(name, service, v6, port, odd, endpoints)| {
            let endpoints: Vec<Value> = endpoints
                .into_iter()
                .map(|(host, mut endpoint)| {
                    endpoint["addresses"] = if v6 { json!([format!("fd00:1::{host}")]) } else { json!([format!("10.1.0.{host}")]) };
                    endpoint
                })
                .collect();
            let mut document = json!({
                "kind": "EndpointSlice", "addressType": if v6 { "IPv6" } else { "IPv4" },
                "metadata": {"name": format!("s{name}"), "namespace": "x", "labels": {"kubernetes.io/service-name": service},
                             "annotations": {"noise": odd.to_string()}},
                "ports": [{"name": "p", "port": port}, {"name": "q", "port": 81, "protocol": "UDP"}],
                "endpoints": endpoints,
            });
            if odd == 7 {
                document["metadata"]["labels"]["service.kubernetes.io/headless"] = json!("");
            }
            object(document)
        },
    )
}

fn node() -> impl Strategy<Value = Object> {
    (proptest::sample::select(&NODES[..]), 0usize..3).prop_map(|(name, zone)| {
        let mut document = json!({"kind": "Node", "metadata": {"name": name, "labels": {}}});
        if let Some(zone) = ZONES.get(zone) {
            document["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!(zone);
        }
        object(document)
    })
}

fn pod() -> impl Strategy<Value = Object> {
    let app = proptest::sample::select(vec!["a", "b", "other"]);
    (1u8..5, app, 0usize..4, 0u8..32, 0u8..3).prop_map(|(name, app, node, bits, port)| {
        let mut document = json!({
            "kind": "Pod", "metadata": {"name": format!("p{name}"), "namespace": "x", "labels": {"app": app, "z": "1"}},
            "spec": {"containers": [{"name": "c", "ports": [{"name": "web", "containerPort": 8080 + u16::from(port)}]}]},
            "status": {"phase": if bits & 8 != 0 { "Running" } else { "Pending" }, "podIPs": []},
        });
        if port == 0 {
            document["spec"]["containers"][0]["ports"] = json!([]);
        }
        if bits == 16 {
            document["status"]["phase"] = json!("Succeeded");
        }
        if bits & 1 != 0 {
            document["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
        }
        if bits & 2 != 0 {
            document["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        if bits & 4 == 0 {
            document["status"]["podIPs"] = json!([{"ip": format!("10.2.0.{name}")}, {"ip": format!("fd00:2::{name}")}]);
        }
        if let Some(node) = NODES.get(node) {
            document["spec"]["nodeName"] = json!(node);
        }
        object(document)
    })
}

fn step() -> impl Strategy<Value = Step> {
    let any_object = || prop_oneof![3 => service(), 4 => slice(), 1 => node(), 3 => pod()];
    prop_oneof![
        6 => any_object().prop_map(Step::Set),
        3 => any_object().prop_map(Step::Delete),
        1 => perspective().prop_map(Step::Look),
    ]
}

fn views(cluster: &Cluster) -> BTreeMap<ServiceKey, ServiceView> {
    cluster
        .services()
        .map(|key| (key.clone(), cluster.view(key).expect("a listed Service has a view")))
        .collect()
}

fn check_view(view: &ServiceView, perspective: &Perspective) {
    let limit = perspective.max_backends.unwrap_or(usize::MAX);
    for port in &view.ports {
        assert!(perspective.serves(port.family));
        let frontends = port.external_ips.iter().chain(&port.ingress_ips).chain([&port.cluster_ip]);
        let left = port.left_out.iter().map(|l| &l.endpoint);
        let endpoints = port.cluster.iter().chain(&port.local).chain(left.clone());
        for address in frontends.copied().chain(endpoints.map(|e| e.address)) {
            assert_eq!(IpFamily::of(address), port.family, "one family per port");
            assert!(!address.is_unspecified());
        }
        for endpoint in port.cluster.iter().chain(&port.local) {
            assert!(
                endpoint.ready || (endpoint.serving && endpoint.terminating),
                "only what may serve serves"
            );
            assert_eq!(endpoint.port, port.target_port);
            assert_eq!(endpoint.local, endpoint.node.as_ref() == Some(&perspective.node));
        }
        assert!(port.local.iter().all(|e| e.local));
        for scope in [&port.cluster, &port.local] {
            assert!(scope.len() <= limit);
            assert!(scope.is_sorted_by(|a, b| a.address < b.address), "each address once, in order");
            let ready = scope.iter().filter(|e| e.ready).count();
            assert!(ready == 0 || ready == scope.len(), "ready and terminating endpoints never mix");
        }
        let used: BTreeSet<(IpAddr, u16)> =
            port.cluster.iter().chain(&port.local).map(|e| (e.address, e.port)).collect();
        assert!(left.clone().all(|e| !used.contains(&(e.address, e.port))), "used or left out, never both");
        let nothing = used.is_empty() && port.left_out.is_empty();
        assert_eq!(port.target_port == 0, nothing);
        let ready_here = view.local_ready_by_family.iter().find(|(family, _)| *family == port.family);
        let here = port.local.iter().filter(|e| e.ready).count();
        assert!(ready_here.is_some_and(|(_, count)| *count >= here));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Views that are kept up to date by looking only at dirty Services equal those of a cluster that is filled afresh, in
    /// another order, with what is left.
    #[test]
    fn increments_agree_with_a_fresh_start(
        start in perspective(),
        steps in vec(step(), 1..60),
        order in any::<prop::sample::Index>(),
    ) {
        let mut perspective = start.clone();
        let mut cluster = Cluster::new(start);
        let mut objects: BTreeMap<ObjectRef, Object> = BTreeMap::new();
        let mut kept: BTreeMap<ServiceKey, ServiceView> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Set(object) => {
                    objects.insert(object.reference(), object.clone());
                    cluster.apply(Change::Set(object));
                }
                Step::Delete(object) => {
                    objects.remove(&object.reference());
                    cluster.apply(Change::Delete(object.reference()));
                }
                Step::Look(new) => {
                    prop_assert_eq!(cluster.set_perspective(new.clone()), new != perspective);
                    perspective = new;
                }
            }
            for key in cluster.take_dirty() {
                match cluster.view(&key) {
                    Some(view) => {
                        check_view(&view, &perspective);
                        kept.insert(key, view)
                    }
                    None => kept.remove(&key),
                };
            }
        }
        prop_assert_eq!(&kept, &views(&cluster));

        let mut shuffled: Vec<Object> = objects.into_values().collect();
        if !shuffled.is_empty() {
            let at = order.index(shuffled.len());
            shuffled.rotate_left(at);
            if at % 2 == 0 {
                shuffled.reverse();
            }
        }
        let fresh = crate::common::cluster(perspective, shuffled);
        prop_assert_eq!(&kept, &views(&fresh));
    }

    /// The same object again, or with other noise, makes nothing dirty.
    #[test]
    fn what_changes_nothing_is_not_dirty(objects in vec(prop_oneof![service(), slice(), node(), pod()], 1..20)) {
        let mut latest: BTreeMap<ObjectRef, Object> = BTreeMap::new();
        for object in objects {
            latest.insert(object.reference(), object);
        }
        let mut cluster = crate::common::cluster(Perspective::of_node("n0", [IpFamily::V4]), latest.values().cloned());
        cluster.take_dirty();
        cluster.take_nodes_changed();
        for object in latest.into_values() {
            cluster.apply(Change::Set(object));
        }
        prop_assert_eq!(cluster.take_dirty(), []);
        prop_assert!(!cluster.take_nodes_changed());
    }

    /// With a limit, one endpoint that goes swaps at most one other in, one that comes at most one out.
    #[test]
    fn the_limit_is_stable(
        hosts in proptest::collection::btree_set(1u16..2000, 2..200),
        limit in 1usize..80,
        leaver in any::<prop::sample::Index>(),
        locals in 0usize..20,
    ) {
        let hosts: Vec<u16> = hosts.into_iter().collect();
        let kept = |hosts: &[u16]| -> BTreeSet<IpAddr> {
            let endpoints: Vec<Value> = hosts
                .iter()
                .map(|host| {
                    let node = if usize::from(*host) % 50 < locals { "n0" } else { "n1" };
                    json!({"addresses": [format!("10.1.{}.{}", host / 250, host % 250 + 1)], "nodeName": node})
                })
                .collect();
            let mut perspective = Perspective::of_node("n0", [IpFamily::V4]);
            perspective.max_backends = Some(limit);
            let objects = [
                crate::common::service(&json!({})),
                crate::common::slice("s", &json!([{"port": 80}]), &endpoints),
            ];
            let view = crate::common::cluster(perspective, objects).view(&crate::common::web()).expect("served");
            let port = &view.ports[0];
            assert_eq!(port.cluster.len(), limit.min(hosts.len()));
            assert_eq!(port.cluster.len() + port.left_out.len(), hosts.len());
            let left_local = port.left_out.iter().any(|l| l.endpoint.local);
            assert!(!left_local || port.cluster.iter().all(|e| e.local), "local endpoints come first");
            port.cluster.iter().map(|e| e.address).collect()
        };
        let all = kept(&hosts);
        let mut fewer = hosts.clone();
        fewer.remove(leaver.index(hosts.len()));
        let rest = kept(&fewer);
        prop_assert!(all.difference(&rest).count() <= 1);
        prop_assert!(rest.difference(&all).count() <= 1);
    }
}
