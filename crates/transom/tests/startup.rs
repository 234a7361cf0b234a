//! The program at a node's start: it waits for the HNS network that the CNI makes, by name or pattern, says so, and
//! finds the network again when the CNI makes another one.

#![cfg(unix)]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use hcn::{Guid, Hcn, Kind};
use hns::{Hns, Profile};
use hnsd::{Limits, Running, Server, Service};
use serde_json::{Value, json};

const CLUSTER: &str = include_str!("../testdata/small-cluster.yaml");

struct Emulated(Hns);

impl Service for Emulated {
    fn hcn(&self, actor: &str) -> Option<Arc<dyn Hcn>> {
        Some(Arc::new(self.0.actor(actor)))
    }

    fn about(&self) -> Value {
        Value::Null
    }
}

/// An HNS without networks that serves a socket, and a cluster in a file.
struct World {
    folder: tempfile::TempDir,
    hns: Hns,
    running: Option<Running>,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("cluster.yaml"), CLUSTER).expect("a file");
        let hns = Hns::open(hns::Options::new(Profile::Ws2022)).expect("an HNS in memory");
        let running = Server::new(Arc::new(Emulated(hns.clone())), Limits::default())
            .unix(&folder.path().join("hns.sock"))
            .expect("a socket")
            .start()
            .expect("a server");
        Self { folder, hns, running: Some(running) }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("text").to_owned()
    }

    fn make(&self, name: &str, prefix: &str) -> Guid {
        let gateway = prefix.replace(".0/24", ".1");
        let document = json!({
            "Name": name, "Type": "L2Bridge", "SchemaVersion": { "Major": 2, "Minor": 0 },
            "Ipams": [{ "Type": "Static", "Subnets": [{
                "IpAddressPrefix": prefix,
                "Routes": [{ "NextHop": gateway, "DestinationPrefix": "0.0.0.0/0" }],
            }] }],
        });
        self.hns.create(Kind::Network, None, Guid::NIL, &document.to_string()).expect("a network")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.shutdown(Duration::from_mins(1));
        }
    }
}

/// The proxy, staying, and what it says on both outputs.
struct Proxy {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

fn proxy(world: &World, network: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
    command
        .args([
            "proxy",
            "--network",
            "l2bridge",
            "--iptables-min-sync-period",
            "1ms",
            "--network-name",
            network,
        ])
        .args(["--hns", &world.path("hns.sock"), "-f", &world.path("cluster.yaml")])
        .env_remove("KUBE_NETWORK")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn follow(output: impl Read + Send + 'static, lines: Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
}

impl Proxy {
    fn start(world: &World, network: &str) -> Self {
        let mut child = proxy(world, network).spawn().expect("the program starts");
        let (sender, lines) = channel();
        follow(child.stdout.take().expect("its output"), sender.clone());
        follow(child.stderr.take().expect("its errors"), sender);
        Self { child, lines, seen: Vec::new() }
    }

    fn until(&mut self, words: &str) {
        self.until_all(&[words]);
    }

    /// Until all of these have been said, in any order: the two outputs overtake each other.
    fn until_all(&mut self, all: &[&str]) {
        let mut missing = all.to_vec();
        while !missing.is_empty() {
            let line = self
                .lines
                .recv_timeout(Duration::from_mins(2))
                .unwrap_or_else(|_| panic!("nothing said {missing:?}: {:#?}", self.seen));
            missing.retain(|words| !line.contains(words));
            self.seen.push(line);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // One that has ended already needs no ending.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_waits_for_the_network_and_goes_on() {
    let world = World::new();
    let mut proxy = Proxy::start(&world, "cbr0");
    proxy.until("Waiting for the HNS network");
    assert!(proxy.seen.last().expect("a line").contains("and no other"), "{:#?}", proxy.seen);
    world.make("External", "192.168.255.0/24");
    proxy.until("among");
    world.make("cbr0", "10.50.1.0/24");
    proxy.until_all(&["The HNS network is there", "create load balancer 10.60.0.20:80/TCP"]);
}

#[test]
fn a_pattern_finds_the_network_again_when_the_cni_makes_another() {
    let world = World::new();
    let first = world.make("Calico-10-50-1-0", "10.50.1.0/24");
    let mut proxy = Proxy::start(&world, "Calico.*");
    proxy.until("network \"Calico-10-50-1-0\"");
    proxy.until("create load balancer 10.60.0.20:80/TCP");
    proxy.until("Watching the manifests");
    world.hns.delete(Kind::Network, first).expect("deleted");
    world.make("Calico-10-50-7-0", "10.50.7.0/24");
    world.hns.restart(hns::Loss::None).expect("HNS restarts, so that the proxy looks");
    proxy.until_all(&["The HNS network has another name now", "create load balancer 10.60.0.20:80/TCP"]);
}

#[test]
fn several_networks_are_an_error_that_names_them() {
    let world = World::new();
    world.make("Calico-10-50-1-0", "10.50.1.0/24");
    world.make("Calico-10-50-2-0", "10.50.2.0/24");
    for once in [true, false] {
        let mut command = proxy(&world, "Calico.*");
        if once {
            command.arg("--once");
        }
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("\"Calico-10-50-1-0\", \"Calico-10-50-2-0\""), "{said}");
    }
}

#[test]
fn once_does_not_wait_for_a_pattern() {
    let world = World::new();
    for (network, code, says) in [
        ("Calico.*", 1, "there is no HNS network \"Calico.*\""),
        ("Calico(", 64, "neither the name of a network nor a regular expression"),
    ] {
        let output = proxy(&world, network).arg("--once").output().expect("it runs");
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{network}: {said}");
        assert!(said.contains(says), "{network}: {said}");
    }
}
