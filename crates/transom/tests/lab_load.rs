//! A lab under a steady load of new connections, with others that are kept, while backends come and go, a node is
//! drained, proxies and the daemon of a Windows node are restarted.
#![cfg(target_os = "linux")]
#![expect(clippy::print_stdout, reason = "the pause that a restart costs is what people run this test for")]

mod lab_support;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use hcn::time::Clock as _;
use hcn::{Endpoint, Guid, Hcn as _, HcnExt as _, Kind, LoadBalancer, Query};
use lab::exchange::{Failure, Load, LoadGenerator, Report, What};
use lab_support::manifests::{Condition, Manifests, PORT};
use lab_support::{Lab, tcp};
use node::app::Request;

const CLUSTER_IP: &str = "10.96.20.1";
const NODE_PORT: u16 = 30_080;
const WINDOWS: [&str; 2] = ["win-1", "win-2"];

/// A backend: its pod, node and address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Backend(&'static str, &'static str, &'static str);

const OLD: [Backend; 4] = [
    Backend("old-1", "win-1", "10.244.2.11"),
    Backend("old-2", "win-2", "10.244.3.12"),
    Backend("old-3", "linux-1", "10.244.1.13"),
    Backend("old-4", "win-2", "10.244.3.14"),
];

const NEW: [Backend; 4] = [
    Backend("new-1", "win-1", "10.244.2.21"),
    Backend("new-2", "win-2", "10.244.3.22"),
    Backend("new-3", "linux-1", "10.244.1.23"),
    Backend("new-4", "win-2", "10.244.3.24"),
];

/// The cluster with these backends.
fn cluster(backends: &[(Backend, Condition)]) -> Manifests {
    let spec = format!(
        "type: NodePort
  ports: [{{name: tcp, port: 80, targetPort: {PORT}, nodePort: {NODE_PORT}}}]"
    );
    let mut manifests = Manifests::default()
        .linux("linux-1", "192.0.2.11", "10.244.1.0/24")
        .windows("win-1", "192.0.2.12", "10.244.2.0/24")
        .windows("win-2", "192.0.2.13", "10.244.3.0/24")
        .pod("from-linux", "linux-1", "10.244.1.5")
        .pod("from-windows", "win-1", "10.244.2.5")
        .service("web", CLUSTER_IP, &spec);
    for (Backend(pod, node, address), _) in backends {
        manifests = manifests.pod(pod, node, address);
    }
    let endpoints: Vec<_> =
        backends.iter().map(|(Backend(_, node, address), is)| (*address, *node, *is)).collect();
    manifests.slice("web", &format!("{{name: tcp, port: {PORT}}}"), &endpoints)
}

fn ready(backends: &[Backend]) -> Vec<(Backend, Condition)> {
    backends.iter().map(|&backend| (backend, Condition::Ready)).collect()
}

/// Loads from everywhere.
struct Loads(Vec<(&'static str, String, LoadGenerator)>);

impl Loads {
    fn start(lab: &Lab) -> Self {
        let from = [
            ("shop/from-windows", format!("{CLUSTER_IP}:80")),
            ("shop/from-linux", format!("{CLUSTER_IP}:80")),
            ("outside", format!("192.0.2.12:{NODE_PORT}")),
            ("outside", format!("192.0.2.11:{NODE_PORT}")),
        ];
        let start = |(place, to): (&'static str, String)| {
            let load = Load {
                request: Request { timeout: Duration::from_secs(15), ..tcp(&to).payload(100) },
                every: Duration::from_millis(25),
                kept: 8,
                kept_every: Duration::from_millis(100),
            };
            (place, to, lab.load(place, load))
        };
        Self(from.map(start).into())
    }

    /// Waits until each has had some more answers.
    fn go_on(&self, lab: &Lab) {
        for (place, to, load) in &self.0 {
            let answered = |report: &Report| -> u64 {
                report.answered.values().sum::<u64>().min(report.kept.iter().map(|kept| kept.answered).sum())
            };
            let before = answered(&load.report());
            lab.until(&format!("{place} has answers from {to}"), || answered(&load.report()) >= before + 10);
        }
    }

    fn stop(self) -> Vec<(String, Report)> {
        self.0.into_iter().map(|(place, to, load)| (format!("{place} to {to}"), load.stop())).collect()
    }
}

/// Failures that nothing excuses, one line each.
fn failures(reports: &[(String, Report)], excused: impl Fn(&str, &Failure) -> bool) -> Vec<String> {
    let mut lines = Vec::new();
    for (which, report) in reports {
        assert!(report.begun > 20 && report.held_back == 0, "{which}: {report:?}");
        let wrong = report.failures.iter().filter(|failure| !excused(which, failure));
        lines.extend(wrong.map(|failure| format!("{which}: {failure:?}")));
        println!(
            "{which}: {} new connections, the slowest took {:?}; {} requests on kept ones",
            report.begun,
            report.longest,
            report.kept.iter().map(|kept| kept.answered).sum::<u64>()
        );
    }
    lines
}

/// Where the load balancers of a frontend lead to, as a node's HNS has it.
fn destinations(lab: &Lab, node: &str) -> BTreeSet<IpAddr> {
    let hns = lab.hns(node);
    let balancers: Vec<(Guid, LoadBalancer)> = hns.list(&Query::all()).expect("HNS answers");
    let ids = balancers.iter().flat_map(|(_, balancer)| &balancer.endpoints);
    // One that is gone meanwhile leads nowhere.
    let endpoints = ids.filter_map(|id| hns.get::<Endpoint>(*id).ok());
    endpoints.flat_map(|endpoint| endpoint.addresses().collect::<Vec<_>>()).collect()
}

/// Makes the lab follow, and waits until all Windows nodes lead to these backends.
fn follow(lab: &Lab, backends: &[(Backend, Condition)]) {
    lab.apply(cluster(backends).text());
    let wanted: BTreeSet<IpAddr> = backends
        .iter()
        .filter(|(_, is)| *is == Condition::Ready)
        .map(|(Backend(.., address), _)| address.parse().expect("an address"))
        .collect();
    for node in WINDOWS {
        lab.until(&format!("{node} leads to {wanted:?}"), || destinations(lab, node) == wanted);
    }
}

#[test]
fn a_rolling_update_and_a_drain_fail_no_connection() {
    let mut now = ready(&OLD);
    // A build that can change a load balancer: on others it is replaced, and a node's own port is closed for a moment.
    let lab = Lab::up(cluster(&now).text(), &["--profile", "newest"]);
    let loads = Loads::start(&lab);
    loads.go_on(&lab);
    // One after the other: the new pod, its readiness, the old one's end.
    for index in 0..OLD.len() {
        now.push((NEW[index], Condition::Starting));
        follow(&lab, &now);
        for step in [Condition::Ready, Condition::Draining, Condition::Ending] {
            for (backend, is) in &mut now {
                match step {
                    Condition::Ready if *backend == NEW[index] => *is = Condition::Ready,
                    Condition::Draining | Condition::Ending if *backend == OLD[index] => *is = step,
                    _ => {}
                }
            }
            follow(&lab, &now);
            loads.go_on(&lab);
        }
        now.retain(|(backend, _)| *backend != OLD[index]);
        follow(&lab, &now);
        loads.go_on(&lab);
    }
    let update = loads.stop();
    let gone = |server: &str, backends: &[Backend]| {
        backends.iter().any(|Backend(pod, ..)| server == format!("shop/{pod}"))
    };
    let of_old =
        |_: &str, failure: &Failure| matches!(&failure.what, What::Kept { server } if gone(server, &OLD));
    assert_eq!(failures(&update, of_old), Vec::<String>::new(), "the update");

    let loads = Loads::start(&lab);
    loads.go_on(&lab);
    for step in [Condition::Draining, Condition::Ending] {
        for (Backend(_, node, _), is) in &mut now {
            if *node == "win-2" {
                *is = step;
            }
        }
        follow(&lab, &now);
        loads.go_on(&lab);
    }
    now.retain(|(Backend(_, node, _), _)| *node != "win-2");
    follow(&lab, &now);
    loads.go_on(&lab);
    let drain = loads.stop();
    let drained: Vec<Backend> = NEW.into_iter().filter(|Backend(_, node, _)| *node == "win-2").collect();
    let of_drained =
        |_: &str, failure: &Failure| matches!(&failure.what, What::Kept { server } if gone(server, &drained));
    assert_eq!(failures(&drain, of_drained), Vec::<String>::new(), "the drain");
}

#[test]
fn restarts_of_proxies_fail_no_connection() {
    let lab = Lab::up(cluster(&ready(&OLD)).text(), &[]);
    let before = WINDOWS.map(|node| state(&lab, node));
    let loads = Loads::start(&lab);
    loads.go_on(&lab);
    for kill in [false, true] {
        for node in WINDOWS {
            lab.restart(&format!("proxy-{node}"), kill);
            loads.go_on(&lab);
        }
    }
    assert_eq!(failures(&loads.stop(), |_, _| false), Vec::<String>::new());
    for (node, before) in WINDOWS.iter().zip(before) {
        lab.until(&format!("{node} is as before"), || state(&lab, node) == before);
    }
}

/// The ids of what a node's HNS holds.
fn state(lab: &Lab, node: &str) -> BTreeMap<String, BTreeSet<Guid>> {
    let hns = lab.hns(node);
    let ids = |kind: Kind| hns.enumerate(kind, &Query::all()).map(|ids| ids.into_iter().collect());
    let kinds = [Kind::Network, Kind::Endpoint, Kind::LoadBalancer];
    kinds.into_iter().map(|kind| (kind.to_string(), ids(kind).unwrap_or_default())).collect()
}

#[test]
fn a_restart_of_the_daemon_is_a_pause() {
    let lab = Lab::up(cluster(&ready(&OLD)).text(), &[]);
    let clock = lab.clock();
    let before = state(&lab, "win-1");
    assert!(before.values().all(|ids| !ids.is_empty()), "{before:?}");
    let loads = Loads::start(&lab);
    loads.go_on(&lab);
    let began = clock.now();
    lab.restart("hns-win-1", true);
    lab.ask("shop/from-windows", &tcp(&format!("{CLUSTER_IP}:80")));
    let ended = clock.now();
    loads.go_on(&lab);
    assert_eq!(state(&lab, "win-1"), before, "the same objects with the same ids");
    println!("the daemon of a node was killed: new connections after {:?}", ended.saturating_sub(began));
    let reports = loads.stop();
    // Connections go on from their middle. What was under way at the moment, and what had a port of the node that it is
    // not given again, may fail: at once, and only where it passes the node's own switch on its way from the client.
    let within = |which: &str, failure: &Failure| {
        failure.at < ended && (which.starts_with("shop/from-windows") || which.contains("192.0.2.12"))
    };
    assert_eq!(failures(&reports, within), Vec::<String>::new());
    for (which, report) in &reports {
        let survived = report.kept.iter().filter(|kept| kept.opened == 1).count();
        println!("{which}: {survived} of {} kept connections were not cut", report.kept.len());
        assert!(survived > 0, "{which}");
    }
}
