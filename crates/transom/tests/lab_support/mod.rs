//! Labs for tests: brought up by the real program, each under a name of its own, and taken away whatever happens.
//!
//! It knows how labs are driven and looked into; what is expected of them is the tests' own.
#![allow(dead_code, reason = "every test program uses a part of it")]

pub(crate) mod capture;
pub(crate) mod manifests;
pub(crate) mod openvswitch;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hcn::time::{Clock, SystemClock};
use hnsd::{Address, Options, Remote};
use lab::exchange::{Load, LoadGenerator, exchange_in};
use lab::names::Names;
use lab::netns::Netns;
use lab::supervisor::{ProcessStatus, Status, methods};
use node::app::{Answer, Outcome, Request, Transport};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long something may take that a test waits for: far longer than it ever does, so that only what never happens
/// fails.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// Time from one look to the next.
const LOOK: Duration = Duration::from_millis(20);

/// A lab that ends with this value.
pub(crate) struct Lab {
    names: Names,
    folder: TempDir,
    clock: Arc<SystemClock>,
}

/// Runs the program to its end.
pub(crate) fn transom(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_transom")).args(arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Lab {
    /// Makes a lab from manifests, with flags of `lab up`.
    pub(crate) fn up(manifests: &str, flags: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("t-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let folder = tempfile::tempdir().expect("a folder for the manifests");
        let names = Names::new(name.parse().expect("a name for a lab"));
        // From here on it is taken away, also when it does not come up.
        let lab = Self { names, folder, clock: Arc::new(SystemClock::default()) };
        let file = lab.write(manifests);
        let up = transom(&[&["lab", "up", "--name", &name, "-f", &file], flags].concat());
        assert!(up.status.success(), "lab up: {}{}", text(&up.stdout), text(&up.stderr));
        let problems = lab.status().problems;
        assert!(problems.is_empty(), "{problems:?}");
        lab
    }

    fn write(&self, manifests: &str) -> String {
        let path = self.folder.path().join("cluster.yaml");
        std::fs::write(&path, manifests).expect("the manifests are written");
        path.display().to_string()
    }

    /// Makes the lab follow other manifests.
    pub(crate) fn apply(&self, manifests: &str) {
        let applied = self.try_apply(manifests);
        assert!(applied.status.success(), "lab apply: {}{}", text(&applied.stdout), text(&applied.stderr));
    }

    /// Tells the lab to follow other manifests.
    pub(crate) fn try_apply(&self, manifests: &str) -> Output {
        let file = self.write(manifests);
        transom(&["lab", "apply", "--name", self.names.lab().as_str(), "-f", &file])
    }

    /// The lab's manifests as they were last given.
    pub(crate) fn manifests(&self) -> PathBuf {
        self.folder.path().join("cluster.yaml")
    }

    /// The lab's names.
    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// Time.
    pub(crate) fn clock(&self) -> Arc<SystemClock> {
        Arc::clone(&self.clock)
    }

    /// The supervisor.
    pub(crate) fn supervisor(&self) -> Remote {
        Remote::new(Address::Unix(self.names.control()), Options::actor("test"))
    }

    /// What the lab is made of.
    pub(crate) fn status(&self) -> Status {
        self.supervisor().call_extension_as(methods::STATUS, &json!({})).expect("the supervisor answers")
    }

    /// A process of the lab.
    pub(crate) fn process(&self, name: &str) -> ProcessStatus {
        let status = self.status();
        let found = status.processes.iter().find(|process| process.name == name);
        found.unwrap_or_else(|| panic!("no process {name}: {:?}", status.processes)).clone()
    }

    /// Ends a process and waits until the supervisor has another one in its place.
    pub(crate) fn restart(&self, name: &str, kill: bool) {
        let before = self.process(name);
        let ended =
            self.supervisor().call_extension(methods::RESTART, &json!({"process": name, "kill": kill}));
        ended.unwrap_or_else(|error| panic!("{name} is ended: {error}"));
        self.until(&format!("{name} runs again"), || {
            let now = self.process(name);
            now.restarts > before.restarts && now.pid.is_some()
        });
    }

    /// The HNS of a Windows node.
    pub(crate) fn hns(&self, node: &str) -> Remote {
        Remote::new(Address::Unix(self.names.hns_socket(node)), Options::actor("test"))
    }

    /// The network namespace of a place: `node/NAME`, `NAMESPACE/POD`, `outside`, `underlay` or `router`.
    pub(crate) fn netns(&self, place: &str) -> Netns {
        let name = match place {
            "outside" => self.names.outside(),
            "underlay" => self.names.underlay(),
            "router" => self.names.router(),
            _ => match place.strip_prefix("node/") {
                Some(node) => self.names.node(node),
                None => self.names.pod(place),
            },
        };
        Netns::open(&name).unwrap_or_else(|error| panic!("{place}: {error}"))
    }

    /// Runs a program at a place.
    pub(crate) fn try_run(&self, place: &str, words: &[&str]) -> Output {
        let (program, arguments) = words.split_first().expect("a program");
        self.netns(place)
            .run(|| Command::new(program).args(arguments).output())
            .expect("the namespace is there")
            .unwrap_or_else(|error| panic!("{program}: {error}"))
    }

    /// Runs a program at a place; it must succeed. What it prints.
    pub(crate) fn run(&self, place: &str, words: &[&str]) -> String {
        let done = self.try_run(place, words);
        assert!(done.status.success(), "{words:?} in {place}: {}{}", text(&done.stdout), text(&done.stderr));
        text(&done.stdout)
    }

    /// Devices of a place, as iproute2 tells them.
    pub(crate) fn links(&self, place: &str, which: &[&str]) -> Vec<Value> {
        let told = self.run(place, &[&["ip", "-json", "link", "show"], which].concat());
        serde_json::from_str(&told).expect("ip prints JSON")
    }

    /// A property of a device.
    pub(crate) fn link(&self, place: &str, device: &str, property: &str) -> String {
        let links = self.links(place, &["dev", device]);
        let value = &links[0][property];
        value.as_str().map_or_else(|| value.to_string(), str::to_owned)
    }

    /// The other end of a cable, in another place.
    pub(crate) fn other_end(&self, place: &str, device: &str, other: &str) -> String {
        let index = self.link(place, device, "link_index");
        let devices = self.links(other, &[]);
        let index: Option<u64> = index.parse().ok();
        let end = devices.iter().find(|link| index.is_some() && link["ifindex"].as_u64() == index);
        let name = end.and_then(|link| link["ifname"].as_str());
        name.unwrap_or_else(|| panic!("{other} does not have the other end of {device} of {place}"))
            .to_owned()
    }

    /// Switches a device's offloads off: packets leave it one by one, with their checksums.
    pub(crate) fn without_offloads(&self, place: &str, device: &str) {
        let off = ["tso", "off", "gso", "off", "gro", "off", "tx", "off"];
        self.run(place, &[&["ethtool", "-K", device], &off[..]].concat());
    }

    /// How a request from a place ends.
    pub(crate) fn outcome(&self, place: &str, request: &Request) -> Outcome {
        exchange_in(&self.netns(place), request, &*self.clock).expect("the namespace is there").outcome
    }

    /// A request from a place that must be answered.
    pub(crate) fn ask(&self, place: &str, request: &Request) -> Answer {
        match self.outcome(place, request) {
            Outcome::Answered(answer) => answer,
            other => panic!("{} {} from {place}: {other}", request.transport, request.to),
        }
    }

    /// Starts a load from a place.
    pub(crate) fn load(&self, place: &str, load: Load) -> LoadGenerator {
        let clock: Arc<dyn Clock> = self.clock();
        let started = self.netns(place).run(|| LoadGenerator::start(load, clock));
        started.expect("the namespace is there").expect("the load's threads start")
    }

    /// Waits until something is so.
    pub(crate) fn until(&self, what: &str, is: impl Fn() -> bool) {
        self.until_said(what, || if is() { Ok(()) } else { Err(String::new()) });
    }

    /// Waits until something is so; as long as it is not, it says why.
    pub(crate) fn until_said(&self, what: &str, is: impl Fn() -> Result<(), String>) {
        let end = self.clock.now() + PATIENCE;
        while let Err(why) = is() {
            assert!(self.clock.now() < end, "it never came about that {what}: {why}");
            self.clock.sleep(LOOK);
        }
    }

    /// The last lines of the lab's logs.
    fn logs(&self) -> String {
        text(&transom(&["lab", "logs", "--name", self.names.lab().as_str(), "--tail", "15"]).stdout)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let failing = std::thread::panicking();
        if failing {
            // The test's output is shown when it fails.
            let _ = writeln!(std::io::stderr(), "{}", self.logs());
        }
        let down = transom(&["lab", "down", "--name", self.names.lab().as_str()]);
        if failing {
            return;
        }
        assert!(down.status.success(), "lab down: {}{}", text(&down.stdout), text(&down.stderr));
        let left = Netns::list(&self.names.prefix()).expect("the namespaces are listed");
        assert!(left.is_empty(), "{left:?} are left");
        assert!(!self.names.folder().exists(), "{} is left", self.names.folder().display());
    }
}

/// A TCP request.
pub(crate) fn tcp(to: &str) -> Request {
    request(to, Transport::Tcp)
}

/// A UDP request: sent once more after a third of the time, because a first datagram may be lost while neighbours are
/// asked for.
pub(crate) fn udp(to: &str) -> Request {
    Request { timeout: PATIENCE / 10, ..request(to, Transport::Udp) }
}

fn request(to: &str, transport: Transport) -> Request {
    let to: SocketAddr = to.parse().expect("an address with a port");
    Request { timeout: PATIENCE, ..Request::new(to, transport) }
}
