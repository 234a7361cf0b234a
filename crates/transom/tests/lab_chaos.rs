//! A lab in which things go wrong at random: HNS fails, forgets, hangs and restarts, links are cut and lossy, proxies and
//! nodes' daemons are killed, backends come and go. When all that ends, everything works and nothing is left over.
//!
//! `TRANSOM_CHAOS_SECONDS` says for how long (600 by hand), `TRANSOM_CHAOS_SEED` repeats what is random of a run.
#![cfg(target_os = "linux")]
#![expect(clippy::print_stdout, reason = "a run says its seed and what it did")]

mod lab_support;

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use hcn::time::{Clock as _, Entropy as _, SeededEntropy, SystemClock};
use lab::daemon::methods;
use lab_support::Lab;
use lab_support::manifests::{Condition, Manifests, PORT};
use lab_support::{tcp, transom, udp};
use node::app::Request;
use serde_json::json;

const WINDOWS: [&str; 2] = ["win-1", "win-2"];

/// The Services and their cluster IPs.
const SERVICES: [(&str, &str); 2] = [("web", "10.96.20.1"), ("names", "10.96.20.2")];

/// Backends of both Services: pod, node, address.
const BACKENDS: [(&str, &str, &str); 5] = [
    ("back-1", "win-1", "10.244.2.11"),
    ("back-2", "win-2", "10.244.3.12"),
    ("back-3", "linux-1", "10.244.1.13"),
    ("back-4", "win-2", "10.244.3.14"),
    ("back-5", "win-1", "10.244.2.15"),
];

const CLIENTS: [(&str, &str, &str); 3] = [
    ("from-linux", "linux-1", "10.244.1.5"),
    ("from-win-1", "win-1", "10.244.2.5"),
    ("from-win-2", "win-2", "10.244.3.5"),
];

/// Faults, each for a part of the calls. What leaves something that no caller of HNS can see (F-NORULES, F-STALERULES,
/// F-PORTLEAK) or that only the pod's owner can mend (F-UNATTACHED) is none of them.
const FAULTS: [&str; 12] = [
    "{fault: F-DOWN, probability: 0.3}",
    "{fault: F-DOWN}",
    "{fault: F-HANG, probability: 0.02}",
    "{fault: F-SLOW, probability: 0.5, latency: {fixed: 300ms}}",
    "{fault: F-NILGET, probability: 0.2}",
    "{fault: F-PARTIAL, probability: 0.5}",
    "{fault: F-DELFAIL, probability: 0.5}",
    "{fault: F-DELGHOST, probability: 0.5}",
    "{fault: F-MODNOOP, probability: 0.5}",
    "{fault: F-DEGRADED, probability: 0.3}",
    "{fault: F-PARAM, probability: 0.3}",
    "{fault: F-PORT, probability: 0.5}",
];

/// The cluster with some of the backends.
fn cluster(present: [bool; BACKENDS.len()]) -> Manifests {
    let mut manifests = Manifests::default()
        .linux("linux-1", "192.0.2.11", "10.244.1.0/24")
        .windows("win-1", "192.0.2.12", "10.244.2.0/24")
        .windows("win-2", "192.0.2.13", "10.244.3.0/24");
    let backends: Vec<_> =
        BACKENDS.iter().zip(present).filter(|(_, is)| *is).map(|(backend, _)| backend).collect();
    for (pod, node, address) in CLIENTS.iter().chain(backends.iter().copied()) {
        manifests = manifests.pod(pod, node, address);
    }
    let endpoints: Vec<_> =
        backends.iter().map(|(_, node, address)| (*address, *node, Condition::Ready)).collect();
    let slice = format!("{{name: tcp, port: {PORT}}}, {{name: udp, port: {PORT}, protocol: UDP}}");
    for (service, cluster_ip) in SERVICES {
        let spec = format!(
            "ports: [{{name: tcp, port: 80, targetPort: {PORT}}}, {{name: udp, port: 80, targetPort: {PORT}, protocol: UDP}}]"
        );
        manifests = manifests.service(service, cluster_ip, &spec).slice(service, &slice, &endpoints);
    }
    manifests
}

fn setting<T: FromStr>(name: &str, standard: T) -> T
where
    T::Err: Display,
{
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}")),
        Err(_) => standard,
    }
}

/// A lab and the dice.
struct Chaos {
    lab: Lab,
    dice: SeededEntropy,
    present: [bool; BACKENDS.len()],
}

impl Chaos {
    fn one_of<T: Copy>(&self, items: &[T]) -> T {
        let index = usize::try_from(self.dice.below(items.len() as u64)).expect("an index");
        items[index]
    }

    /// A call of a node's own. One whose daemon is just gone does not answer, which is part of the game.
    fn tell(&self, node: &str, method: &str, params: &serde_json::Value) -> bool {
        self.lab.hns(node).call_extension(method, params).is_ok()
    }

    /// Lets something go wrong, and says what.
    fn strike(&mut self) -> String {
        let node = self.one_of(&WINDOWS);
        match self.dice.below(9) {
            0 | 1 => {
                let (seed, one, other) = (self.dice.next_u64(), self.one_of(&FAULTS), self.one_of(&FAULTS));
                let plan = format!("seed: {seed}\nrules: [{one}, {other}]\n");
                assert!(hns::faults::FaultPlan::from_yaml(&plan).is_ok(), "{plan}");
                self.tell(node, methods::FAULTS, &json!({ "plan": plan }));
                format!("{node}: {one} {other}")
            }
            2 => {
                self.tell(node, methods::FAULTS, &json!({ "clear": true }));
                format!("{node}: no faults")
            }
            3 => {
                let loss = self.one_of(&["none", "loadbalancers", "endpoints", "all"]);
                self.tell(node, methods::RESTART, &json!({ "loss": loss }));
                format!("{node}: HNS restarts and loses {loss}")
            }
            4 => {
                let wire =
                    self.one_of(&[json!({"cut": true}), json!({"loss": 0.2}), json!({})].each_ref()).clone();
                self.tell(node, methods::DEGRADE, &wire);
                format!("{node}: wire {wire}")
            }
            5 => {
                let way = self.one_of(&["down", "up"]);
                self.link(way);
                format!("linux-1: link {way}")
            }
            6 | 7 => {
                let (part, kill) = (self.one_of(&["proxy", "hns"]), self.dice.below(2) == 0);
                let params = json!({ "process": format!("{part}-{node}"), "kill": kill });
                // It may have ended a moment ago.
                let _ = self.lab.supervisor().call_extension(lab::supervisor::methods::RESTART, &params);
                format!("{part}-{node} ends, killed: {kill}")
            }
            _ => {
                // Whoever makes pods waits for an HNS that hangs, a minute long; there are better things to do.
                for node in WINDOWS {
                    self.tell(node, methods::FAULTS, &json!({ "clear": true }));
                }
                let backend = usize::try_from(self.dice.below(BACKENDS.len() as u64)).expect("an index");
                self.present[backend] ^= true;
                // Nodes that do not answer are no reason to keep the manifests.
                let followed = self.lab.try_apply(cluster(self.present).text()).status.success();
                format!("{}: {}, followed: {followed}", BACKENDS[backend].0, self.present[backend])
            }
        }
    }

    /// The cable between the underlay and the Linux node.
    fn link(&self, way: &str) {
        let cable = self.lab.other_end("node/linux-1", "eth0", "underlay");
        self.lab.run("underlay", &["ip", "link", "set", "dev", &cable, way]);
    }

    /// Ends whatever goes wrong, and lets those do their work who do it on every cluster: the kubelet and the route
    /// agent, by the manifests.
    fn mend(&mut self) {
        self.link("up");
        for node in WINDOWS {
            self.lab.until(&format!("{node} serves without faults"), || {
                self.tell(node, methods::FAULTS, &json!({ "clear": true }))
                    && self.tell(node, methods::DEGRADE, &json!({}))
            });
        }
        self.present = [true; BACKENDS.len()];
        let manifests = cluster(self.present);
        self.lab.until("the lab follows", || self.lab.try_apply(manifests.text()).status.success());
    }

    /// Whether a node's HNS holds what is wanted and nothing that is left over, as the program sees it; else, what not.
    fn is_as_wanted(&self, node: &str) -> Result<(), String> {
        let hns = format!("unix:{}", self.lab.names().hns_socket(node).display());
        let file = self.lab.manifests().display().to_string();
        let overlay = ["--network-name", "vxlan0", "--enable-dsr=true"];
        let planned =
            transom(&[&["plan", "--hns", &hns, "-f", &file, "--node", node], &overlay[..]].concat());
        let said = [planned.stdout, planned.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        if planned.status.success() && said.contains("HNS holds what is wanted") { Ok(()) } else { Err(said) }
    }
}

#[test]
fn after_chaos_everything_works_and_nothing_is_left_over() {
    let clock = SystemClock::default();
    let seed: u64 = setting("TRANSOM_CHAOS_SEED", SeededEntropy::from_time(&clock).next_u64());
    let seconds: u64 = setting("TRANSOM_CHAOS_SECONDS", 120);
    println!("TRANSOM_CHAOS_SEED={seed} for {seconds} seconds");
    let present = [true; BACKENDS.len()];
    let lab = Lab::up(cluster(present).text(), &[]);
    let mut chaos = Chaos { lab, dice: SeededEntropy::new(seed), present };
    let end = clock.now() + Duration::from_secs(seconds);
    while clock.now() < end {
        let struck = chaos.strike();
        println!("{:>6.1} {struck}", clock.now().as_secs_f64());
        clock.sleep(Duration::from_millis(100 + chaos.dice.below(900)));
    }
    chaos.mend();
    for node in WINDOWS {
        chaos.lab.until_said(&format!("HNS of {node} holds what is wanted and nothing else"), || {
            chaos.is_as_wanted(node)
        });
    }
    for (client, ..) in CLIENTS {
        for (_, cluster_ip) in SERVICES {
            let to = format!("{cluster_ip}:80");
            for request in [tcp(&to), udp(&to)] {
                let request = Request { timeout: Duration::from_secs(5), ..request };
                chaos.lab.until_said(&format!("{client} reaches {to}/{}", request.transport), || {
                    let outcome = chaos.lab.outcome(&format!("shop/{client}"), &request);
                    outcome.answer().map(|_| ()).ok_or_else(|| outcome.to_string())
                });
            }
        }
        for (pod, _, address) in BACKENDS {
            chaos.lab.ask(&format!("shop/{client}"), &tcp(&format!("{address}:{PORT}")));
            println!("{client} reaches {pod}");
        }
    }
}
