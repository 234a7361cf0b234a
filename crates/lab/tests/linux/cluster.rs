//! A cluster of three Linux nodes, twice: in memory, and built with the kernel's own means.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hcn::time::SystemClock;
use lab::build::{Difference, apply, build, down};
use lab::exchange::exchange_in;
use lab::names::Names;
use lab::netns::Netns;
use lab::plan::{LabPlan, Settings};
use lab::record::Record;
use node::NetworkKind;
use node::app::{Answer, Outcome, Request, Transport};
use node::sim::{self, Client, NoAgents, Simulation};
use node::stack::{ServiceRule, ServiceTable};
use node::topology::Topology;
use services::source::manifests::{self, Options};
use services::{Change, Cluster, IpFamily, Perspective};

use crate::server::Server;

/// The port that every pod answers on, by TCP and UDP.
pub(crate) const PORT: u16 = 8080;

/// Nodes a and b on one segment, c behind the router; pods, two on a and one on each other node, and their slices. All
/// with both families.
pub(crate) fn manifests() -> String {
    let mut objects = Vec::new();
    for (name, number, address, v6) in [
        ("a", 1, "192.0.2.11", "2001:db8:2::11"),
        ("b", 2, "192.0.2.12", "2001:db8:2::12"),
        ("c", 3, "198.51.100.13", "2001:db8:100::13"),
    ] {
        objects.push(format!(
            "apiVersion: v1
kind: Node
metadata: {{name: {name}, labels: {{kubernetes.io/os: linux}}}}
spec: {{podCIDR: 10.50.{number}.0/24, podCIDRs: [10.50.{number}.0/24, 'fd00:50:0:{number}::/64']}}
status: {{addresses: [{{type: InternalIP, address: {address}}}, {{type: InternalIP, address: '{v6}'}}]}}"
        ));
    }
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for (name, node, number, host) in PODS {
        let (first, second) = (format!("10.50.{number}.{host}"), format!("fd00:50:0:{number}::{host}"));
        objects.push(pod(name, node, &[&first, &second]));
        v4.push(format!("{{addresses: [{first}], nodeName: {node}}}"));
        v6.push(format!("{{addresses: ['{second}'], nodeName: {node}}}"));
    }
    objects.push(
        "apiVersion: v1
kind: Service
metadata: {name: all, namespace: t}
spec: {clusterIP: 10.60.0.99, clusterIPs: [10.60.0.99, 'fd00:60::99'], ipFamilies: [IPv4, IPv6],
  ipFamilyPolicy: RequireDualStack, ports: [{name: t, port: 99}, {name: u, port: 99, protocol: UDP}]}"
            .to_owned(),
    );
    for (family, endpoints) in [("IPv4", v4), ("IPv6", v6)] {
        objects.push(format!(
            "apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: all-{}, namespace: t, labels: {{kubernetes.io/service-name: all}}}}
addressType: {family}
ports: [{{name: t, port: {PORT}}}, {{name: u, port: {PORT}, protocol: UDP}}]
endpoints: [{}]",
            family.to_lowercase(),
            endpoints.join(", ")
        ));
    }
    objects.join("\n---\n")
}

/// Name, node, the node's number, the host part of its addresses.
pub(crate) const PODS: [(&str, &str, u8, u8); 4] =
    [("p", "a", 1, 5), ("q", "a", 1, 6), ("r", "b", 2, 5), ("s", "c", 3, 5)];

/// A Pod.
pub(crate) fn pod(name: &str, node: &str, addresses: &[&str]) -> String {
    let all: Vec<String> = addresses.iter().map(|address| format!("{{ip: '{address}'}}")).collect();
    format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: t}}
spec: {{nodeName: {node}, containers: [{{name: c, image: i}}]}}
status: {{phase: Running, podIP: '{}', podIPs: [{}]}}",
        addresses[0],
        all.join(", ")
    )
}

/// The objects of a text.
pub(crate) fn read(text: &str) -> Cluster {
    let parsed = manifests::parse_bytes("test.yaml", text.as_bytes(), &Options::default());
    assert!(parsed.problems.is_empty(), "{:?}", parsed.problems);
    let mut cluster = Cluster::new(Perspective::of_node("", [IpFamily::V4, IpFamily::V6]));
    for object in parsed.objects {
        cluster.apply(Change::Set(object));
    }
    cluster
}

/// A lab's names that no other test has; what is called so is removed in the end.
pub(crate) struct Own {
    pub(crate) names: Names,
    _run: tempfile::TempDir,
}

impl Own {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let run = tempfile::tempdir().unwrap();
        let lab = format!("t{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Self { names: Names::under(run.path(), lab.parse().unwrap()), _run: run }
    }

    /// A plan of a cluster without Windows nodes.
    pub(crate) fn plan(&self, text: &str, kind: NetworkKind) -> LabPlan {
        let cluster = read(text);
        let settings = Settings { kind, ..Settings::default() };
        LabPlan::of(&cluster, &Topology::of(&cluster), &BTreeMap::new(), settings, &self.names).unwrap()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        down(&self.names, &SystemClock::default()).unwrap();
    }
}

/// The cluster, twice.
pub(crate) struct Twins {
    pub(crate) plan: LabPlan,
    pub(crate) record: Record,
    servers: Vec<Server>,
    pub(crate) memory: Simulation,
    pub(crate) own: Own,
}

/// Who or what answered, and whom it saw.
type Seen = Result<(String, SocketAddr, IpAddr), String>;

fn seen(outcome: &Outcome) -> Seen {
    match outcome {
        Outcome::Answered(Answer { server, local, peer }) => Ok((server.clone(), *local, peer.ip())),
        other => Err(other.to_string()),
    }
}

impl Twins {
    pub(crate) fn new(kind: NetworkKind) -> Self {
        let own = Own::new();
        let text = manifests();
        let settings = sim::Settings { kind, ..sim::Settings::default() };
        let memory = Simulation::new(&read(&text), &settings, &mut NoAgents).unwrap();
        let plan = own.plan(&text, kind);
        let mut record = Record::new(&own.names, plan.settings);
        build(&plan, &own.names, &mut record).unwrap();
        let mut twins = Self { plan, record, servers: Vec::new(), memory, own };
        let pods: Vec<String> = twins.plan.pods.keys().cloned().collect();
        for pod in pods {
            twins.serve(&pod);
        }
        twins
    }

    /// Starts a pod's servers.
    pub(crate) fn serve(&mut self, pod: &str) {
        let place = &self.plan.pods[pod];
        for &address in &place.addresses {
            self.servers.push(Server::start(&place.namespace, pod, SocketAddr::new(address, PORT)));
        }
    }

    /// Makes a second plan real. Servers of pods and addresses that go end.
    pub(crate) fn change(&mut self, plan: LabPlan) {
        let addresses: BTreeSet<IpAddr> =
            plan.pods.values().flat_map(|place| place.addresses.iter().copied()).collect();
        self.servers.retain(|server| addresses.contains(&server.address().ip()));
        apply(&Difference::new(&self.plan, &plan), &self.own.names, &mut self.record).unwrap();
        self.plan = plan;
    }

    /// Makes a node serve.
    pub(crate) fn program(&mut self, node: &str, rules: &[ServiceRule]) {
        assert!(self.memory.serve_on_linux(node, rules.to_vec()));
        let linux = self.plan.linux_node(node).unwrap();
        let table = ServiceTable { rules: rules.to_vec(), pods: linux.pod_cidrs.clone() };
        lab::linux::serve(&linux.namespace, &table, &linux.masquerade).unwrap();
    }

    fn namespace(&self, client: &Client) -> String {
        match client {
            Client::Pod(pod) => self.plan.pods[pod].namespace.clone(),
            Client::Node(node) => self.own.names.node(node),
            Client::Outside => self.plan.outside.clone(),
        }
    }

    /// How an exchange ends with the kernel.
    pub(crate) fn real(&self, client: &str, to: &str, transport: Transport, payload: usize) -> Outcome {
        let client: Client = client.parse().unwrap();
        let request = Request::new(to.parse().unwrap(), transport).payload(payload);
        let netns = Netns::open(&self.namespace(&client)).unwrap();
        exchange_in(&netns, &request, &SystemClock::default()).unwrap().outcome
    }

    /// An exchange ends the same way in memory and with the kernel: who answers, where, and whom the server sees.
    pub(crate) fn both(&mut self, client: &str, to: &str, transport: Transport, payload: usize) -> Seen {
        let from: Client = client.parse().unwrap();
        let request = Request::new(to.parse().unwrap(), transport).payload(payload);
        let memory = seen(&self.memory.exchange(&from, request).unwrap().outcome);
        let real = seen(&self.real(client, to, transport, payload));
        assert_eq!(real, memory, "{client} to {to} by {transport} with {payload} bytes: kernel, memory");
        real
    }

    /// An exchange that is given up soon, with the kernel and in memory: nobody answers.
    pub(crate) fn silent(&mut self, client: &str, to: &str, transport: Transport) {
        let from: Client = client.parse().unwrap();
        let mut request = Request::new(to.parse().unwrap(), transport);
        let memory = self.memory.exchange(&from, request.clone()).unwrap().outcome;
        // Long enough for a refusal to come, which is what must not come.
        request.timeout = Duration::from_millis(300);
        let netns = Netns::open(&self.namespace(&from)).unwrap();
        let real = exchange_in(&netns, &request, &SystemClock::default()).unwrap().outcome;
        assert_eq!((real, memory), (Outcome::TimedOut, Outcome::TimedOut), "{client} to {to} by {transport}");
    }
}
