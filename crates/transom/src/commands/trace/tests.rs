//! What a trace says of exchanges that fail, one row for each kind of reason, in clusters of the packet paths.

use std::io::Write as _;
use std::path::PathBuf;

use hcn::json::RawJson;
use hcn::modify::{EndpointResource, ModifyEndpoint, RequestType};
use hcn::{Endpoint, Guid, HcnExt, Kind as Object, Query};
use hns::faults::FaultPlan;
use node::NetworkKind;
use node::app::Request;
use services::source::manifests::{Input, Manifests, Options, Touched};

use super::diagnose::{Kind, Reason};
use super::report::{Next, Report};
use super::*;
use crate::world::Plan;

/// Services that cannot work.
const BROKEN: &str = "\
apiVersion: v1
kind: Service
metadata: {name: empty, namespace: default}
spec: {clusterIP: 10.60.0.90, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: waiting, namespace: default}
spec: {clusterIP: 10.60.0.91, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: waiting-1, namespace: default, labels: {kubernetes.io/service-name: waiting}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [10.50.1.6], nodeName: n1, conditions: {ready: false, serving: false}}]
";

fn plan(kind: NetworkKind, dsr: bool) -> Plan {
    Plan::new(kind, dsr)
}

fn world(plan: &Plan) -> World {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/paths");
    let mut broken = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    broken.write_all(BROKEN.as_bytes()).unwrap();
    let inputs = [folder.join("cluster.yaml"), folder.join("services.yaml"), broken.path().to_owned()]
        .map(Input::Path);
    let mut manifests = Manifests::new(inputs.to_vec(), Options::default());
    let update = manifests.refresh(&Touched::Everything);
    assert!(update.problems.is_empty(), "{:?}", update.problems);
    World::build(&update.changes, plan).unwrap()
}

/// Traces `FROM=TO[/udp]` with n1 as the node of --node.
fn trace(world: &mut World, flow: &str) -> Report {
    let flow: Flow = flow.parse().unwrap();
    let (client, target) = world.resolve(&flow, Some("n1")).unwrap();
    let transport = match flow.protocol {
        Protocol::Tcp => node::app::Transport::Tcp,
        Protocol::Udp => node::app::Transport::Udp,
    };
    let network = ("overlay".to_owned(), false);
    let report = follow(world, network, &flow, &client, Request::new(target, transport), false).unwrap();
    // What is still on its way is not to be seen in the next trace.
    world.simulation.run_for(std::time::Duration::from_secs(1));
    report
}

fn reason(world: &mut World, flow: &str) -> Reason {
    let report = trace(world, flow);
    report.verdict.reason.unwrap_or_else(|| panic!("{flow} was answered"))
}

/// Each flow fails for a reason of the kind, and its text holds the words.
fn check(world: &mut World, rows: &[(&str, Kind, &[&str])]) {
    for (flow, kind, words) in rows {
        let reason = reason(world, flow);
        assert_eq!(reason.kind, *kind, "{flow}: {}", reason.text);
        for word in *words {
            assert!(reason.text.contains(word), "{flow}: no {word:?} in {}", reason.text);
        }
    }
}

#[test]
fn what_is_missing_is_named() {
    use Kind::{NoBackend, NoLocalBackend, OwnAddress, OwnNodePort, Refused, UnknownPort, Unreachable};
    let rows: &[(&str, Kind, &[&str])] = &[
        ("pod/l1=svc/empty:80", NoBackend, &["10.60.0.90:80", "default/empty"]),
        ("pod/l1=svc/waiting:80", NoBackend, &["10.50.1.6: not ready", "default/waiting"]),
        (
            "pod/l1=svc/internal-local-far:80",
            NoLocalBackend,
            &["internalTrafficPolicy", "default/internal-local-far", "only usable backend is not on n1"],
        ),
        (
            "external=192.0.2.11:30034",
            NoLocalBackend,
            &["externalTrafficPolicy", "default/port-local-far", "not on n1"],
        ),
        ("pod/l1=10.60.0.21:81", UnknownPort, &["default/near", "no port 81/TCP", "80/TCP, 80/UDP"]),
        ("node=192.0.2.11:30030", OwnNodePort, &["n1", "port 30030", "default/port-near"]),
        ("node=192.0.2.11:9", OwnAddress, &["192.0.2.11:9", "n1's own address"]),
        ("pod/r1=svc/empty:80", NoBackend, &["10.60.0.90:80", "default/empty"]),
        (
            "external=192.0.2.12:30033",
            NoLocalBackend,
            &["externalTrafficPolicy", "default/port-local-near", "not on n2"],
        ),
        ("pod/l1=pod/l2:9", Refused, &["pod/default/l2 on n1 refuses", "10.50.1.6:9"]),
        ("node=10.99.0.1:3", Unreachable, &["router (192.0.2.1)", "no way to the host"]),
        ("pod/l1=pod/r1:9/udp", Refused, &["n2 refuses", "10.50.2.5:9"]),
    ];
    for kind in [NetworkKind::Overlay, NetworkKind::L2Bridge] {
        check(&mut world(&plan(kind, false)), rows);
    }
}

#[test]
fn a_pod_that_is_its_own_backend_needs_the_loopback_policy() {
    for kind in [NetworkKind::Overlay, NetworkKind::L2Bridge] {
        let with = Plan { loopback: true, ..plan(kind, true) };
        assert!(trace(&mut world(&with), "pod/l1=svc/self:80").verdict.answered, "{kind}");
        let rows: &[(&str, Kind, &[&str])] =
            &[("pod/l1=svc/self:80", Kind::SelfAccess, &["pod default/l1 itself", "loopback policy"])];
        check(&mut world(&plan(kind, true)), rows);
    }
}

#[test]
fn a_load_balancer_that_hns_refuses_or_forgets() {
    let faulty = |text: &str| Plan {
        faults: Some(FaultPlan::from_yaml(text).unwrap()),
        ..plan(NetworkKind::Overlay, true)
    };
    let port_taken = "rules: [{fault: F-PORT, when: {op: create, subject: \"10.60.0.23:80/TCP\"}}]";
    let mut refused = world(&faulty(port_taken));
    let rows: &[(&str, Kind, &[&str])] = &[(
        "pod/l1=svc/far:80",
        Kind::NoLoadBalancer,
        &["HNS of n1", "10.60.0.23:80", "default/far", "0x803B0013"],
    )];
    check(&mut refused, rows);
    assert!(trace(&mut refused, "pod/l1=svc/near:80").verdict.answered, "others are served");
    // By then that load balancer is there.
    let rules_lost = "actions: [{at: {call: 120}, restart: {lose: Rules}}]";
    let rows: &[(&str, Kind, &[&str])] =
        &[("pod/l1=svc/far:80", Kind::NotProgrammed, &["HNS of n1 lists load balancer", "default/far"])];
    check(&mut world(&faulty(rules_lost)), rows);
}

fn endpoint(world: &World, node: &str, address: &str) -> (hns::Hns, Guid) {
    let hns = world.simulation.windows(node).unwrap().hns().actor("test");
    let found = hns.list::<Endpoint>(&Query::all()).unwrap().into_iter().find(|(_, endpoint)| {
        !endpoint.is_remote() && endpoint.addresses().any(|own| own.to_string() == address)
    });
    let (id, _) = found.unwrap();
    (hns, id)
}

#[test]
fn a_rule_that_blocks_is_named() {
    let mut world = world(&plan(NetworkKind::Overlay, true));
    let (hns, id) = endpoint(&world, "n1", "10.50.1.6");
    let block = serde_json::json!({ "Policies": [{ "Type": "ACL", "Settings": {
        "Id": "deny-web", "Protocols": "6", "Action": "Block", "Direction": "In", "LocalPorts": "8080",
        "RuleType": "Switch", "Priority": 100,
    }}]});
    let request = ModifyEndpoint::new(EndpointResource::Policy, RequestType::Add, &block);
    hcn::Hcn::modify(&hns, Object::Endpoint, id, RawJson::of(&request).get()).unwrap();
    let report = trace(&mut world, "pod/l1=svc/near:80");
    let reason = report.verdict.reason.unwrap();
    assert_eq!(reason.kind, Kind::Dropped, "{}", reason.text);
    assert_eq!(reason.port.as_deref(), Some("pod/default/l2"));
    let rule = reason.rule.unwrap();
    assert_eq!((&*rule.layer, &*rule.action), ("ACL_ENDPOINT_LAYER", "block"));
    assert!(reason.text.contains(&format!("by rule {} of ACL_ENDPOINT_LAYER", rule.rule)), "{}", reason.text);
    let last = report.request.last().unwrap();
    assert!(matches!(&last.next, Next::Dropped { rule: Some(by), .. } if *by == rule));
    assert!(trace(&mut world, "pod/l1=svc/near:80/udp").verdict.answered, "the rule is about TCP");
}

#[test]
fn a_pod_without_an_endpoint() {
    let mut world = world(&plan(NetworkKind::Overlay, false));
    let (hns, id) = endpoint(&world, "n1", "10.50.1.6");
    hcn::Hcn::delete(&hns, Object::Endpoint, id).unwrap();
    world.simulation.with_windows("n1", node::windows::WindowsNode::sync);
    let rows: &[(&str, Kind, &[&str])] = &[(
        "pod/l1=pod/l2:8080",
        Kind::NoEndpoint,
        &["HNS of n1 holds no endpoint with 10.50.1.6", "pod default/l2"],
    )];
    check(&mut world, rows);
    let flow: Flow = "pod/l2=pod/l1:8080".parse().unwrap();
    let (client, target) = world.resolve(&flow, None).unwrap();
    let request = Request::new(target, node::app::Transport::Tcp);
    let network = ("overlay".to_owned(), false);
    let error = follow(&mut world, network, &flow, &client, request, false).unwrap_err().to_string();
    assert!(error.contains("no attached endpoint"), "{error}");
}

#[test]
fn a_link_that_is_cut() {
    for kind in [NetworkKind::Overlay, NetworkKind::L2Bridge] {
        let mut world = world(&plan(kind, true));
        let device = world.simulation.node("n1").unwrap();
        let link = world.simulation.fabric().link_at(device, 0).unwrap();
        world.simulation.fabric_mut().cut(link);
        let rows: &[(&str, Kind, &[&str])] = &[("pod/l1=svc/far:80", Kind::Link, &["the link of n1 is cut"])];
        check(&mut world, rows);
        assert!(trace(&mut world, "pod/l1=svc/near:80").verdict.answered, "{kind}: nothing leaves the node");
        world.simulation.fabric_mut().restore(link);
        assert!(trace(&mut world, "pod/l1=svc/far:80").verdict.answered, "{kind}");
        world.simulation.fabric_mut().cut(link);
        let rows: &[(&str, Kind, &[&str])] =
            &[("pod/l1=svc/far:80", Kind::Link, &["lost on the wire behind n1", "the link is cut"])];
        check(&mut world, rows);
    }
}

#[test]
fn every_line_fits_and_every_hop_is_told() {
    for (kind, dsr) in [
        (NetworkKind::Overlay, true),
        (NetworkKind::Overlay, false),
        (NetworkKind::L2Bridge, true),
        (NetworkKind::L2Bridge, false),
    ] {
        let mut world = world(&plan(kind, dsr));
        for flow in [
            "pod/l1=svc/near:80",
            "pod/l1=svc/far:80/udp",
            "pod/l1=svc/linux:80",
            "node=svc/mixed:80",
            "external=192.0.2.11:30031",
            "external=198.51.100.20:80",
            "pod/l1=10.60.0.21:81",
        ] {
            let report = trace(&mut world, flow);
            let text = text::text(&report);
            for line in text.lines() {
                let width = line.chars().count();
                assert!(width <= 100 || !line.trim_start().contains(' '), "{flow}: {width} columns: {line}");
            }
            for hop in &report.request {
                assert!(text.contains(&hop.node), "{flow}: no {} in\n{text}", hop.node);
            }
            let kept = report.reply.iter().flat_map(|hop| &hop.layers).filter(|layer| layer.kept);
            for layer in kept.filter(|layer| !layer.rewrites.is_empty()) {
                assert!(layer.rule.is_some(), "{flow}: a kept decision of {} names no rule", layer.layer);
            }
        }
    }
}
