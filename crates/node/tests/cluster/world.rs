//! A cluster of two Windows and two Linux nodes, one of each on another subnet.

use std::net::{IpAddr, SocketAddr};

use node::NetworkKind;
use node::app::{Exchange, Request, Transport};
use node::sim::{Client, NoAgents, Settings, Simulation};
use services::source::manifests::{self, Options};
use services::{Change, Cluster, IpFamily, Perspective};

/// Name, system, last byte of the pods' range, address.
pub(crate) const NODES: [(&str, &str, u8, &str); 4] = [
    ("win-1", "windows", 1, "192.0.2.11"),
    ("win-2", "windows", 2, "203.0.113.12"),
    ("linux-1", "linux", 3, "192.0.2.13"),
    ("linux-2", "linux", 4, "203.0.113.14"),
];

/// An endpoint that is neither pod nor node.
pub(crate) const STRANGER: &str = "198.18.0.5";

fn node(name: &str, system: &str, range: u8, address: &str) -> String {
    format!(
        "apiVersion: v1
kind: Node
metadata: {{name: {name}, labels: {{kubernetes.io/os: {system}}}}}
spec: {{podCIDR: 10.50.{range}.0/24}}
status: {{addresses: [{{type: InternalIP, address: {address}}}]}}
"
    )
}

fn pod_object(node: &str, range: u8, pod: u8) -> String {
    format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: {node}-{pod}, namespace: shop}}
spec: {{nodeName: {node}, containers: [{{name: web}}]}}
status: {{phase: Running, podIPs: [{{ip: 10.50.{range}.{pod}}}]}}
"
    )
}

fn slice(number: usize, port: &str, addresses: &[String]) -> String {
    let endpoints: Vec<String> =
        addresses.iter().map(|address| format!("{{addresses: [{address}]}}")).collect();
    format!(
        "apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: web-{number}, namespace: shop, labels: {{kubernetes.io/service-name: web}}}}
addressType: IPv4
ports: [{port}]
endpoints: [{}]
",
        endpoints.join(", ")
    )
}

const SERVICE: &str = "apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.60.0.20, ports: [{port: 80, name: tcp}, {port: 80, name: udp, protocol: UDP}]}
";

fn text() -> String {
    let mut objects = vec![SERVICE.to_owned()];
    let mut served = vec![STRANGER.to_owned()];
    for (name, system, range, address) in NODES {
        objects.push(node(name, system, range, address));
        served.push(address.to_owned());
        for number in [5, 6] {
            objects.push(pod_object(name, range, number));
            served.push(format!("10.50.{range}.{number}"));
        }
    }
    for (number, port) in
        ["{name: tcp, port: 8080}", "{name: udp, port: 8080, protocol: UDP}"].iter().enumerate()
    {
        objects.push(slice(number, port, &served));
    }
    objects.join("---\n")
}

pub(crate) fn cluster() -> Cluster {
    let parsed = manifests::parse_bytes("test.yaml", text().as_bytes(), &Options::default());
    assert!(parsed.problems.is_empty(), "{:?}", parsed.problems);
    let mut cluster = Cluster::new(Perspective::of_node("", [IpFamily::V4, IpFamily::V6]));
    for object in parsed.objects {
        cluster.apply(Change::Set(object));
    }
    cluster
}

pub(crate) fn simulation(kind: NetworkKind) -> Simulation {
    let settings = Settings { kind, ..Settings::default() };
    Simulation::new(&cluster(), &settings, &mut NoAgents).unwrap()
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn pod(name: &str) -> Client {
    Client::Pod(format!("shop/{name}"))
}

pub(crate) fn ask(simulation: &mut Simulation, from: &Client, to: &str, transport: Transport) -> Exchange {
    let request = Request::new(SocketAddr::new(ip(to), 8080), transport).payload(4000);
    simulation.exchange(from, request).unwrap()
}
