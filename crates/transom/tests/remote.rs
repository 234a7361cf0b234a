//! The program beside an HNS of another process: it looks at it, plans for it, and keeps its load balancers in step
//! while that process comes and goes.

#![cfg(unix)]

use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use hcn::{Guid, Hcn, Kind};
use hns::journal::Op;
use hns::{Hns, Loss, Profile, StoreKind};
use hnsd::{Limits, Running, Server, Service};

const NODE: &str = r"
apiVersion: v1
kind: Node
metadata: {name: win, labels: {kubernetes.io/os: windows}}
spec: {podCIDR: 10.50.1.0/24}
status: {addresses: [{type: InternalIP, address: 192.0.2.11}]}
";

fn service(name: &str, vip: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{clusterIP: {vip}, ports: [{{port: 80}}]}}\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: {name}-1, labels: {{kubernetes.io/service-name: {name}}}}}\naddressType: IPv4\nports: [{{port: 8080}}]\nendpoints: [{{addresses: [10.50.2.5], nodeName: lin}}]\n"
    )
}

fn transom(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
    command.args(arguments).env_remove("KUBE_NETWORK").stdin(Stdio::null());
    command
}

fn text(output: &Output) -> String {
    format!(
        "{:?}\n{}{}",
        output.status.code(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

struct Emulated(Hns);

impl Service for Emulated {
    fn hcn(&self, actor: &str) -> Option<Arc<dyn Hcn>> {
        Some(Arc::new(self.0.actor(actor)))
    }

    fn about(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
}

/// A node that is set up, in a state file, and a server that comes and goes.
struct World {
    folder: tempfile::TempDir,
    server: Option<(Hns, Running)>,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let world = Self { folder, server: None };
        std::fs::create_dir(world.manifests()).expect("a folder");
        world.write("node.yaml", NODE);
        let (state, manifests) = (world.path("hns.db"), world.manifests());
        let arguments = ["proxy", "--once", "--network", "l2bridge", "--state", &state, "-f"];
        let output = transom(&arguments).arg(manifests).output().expect("the program runs");
        assert!(output.status.success(), "{}", text(&output));
        world
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("text").to_owned()
    }

    fn manifests(&self) -> PathBuf {
        self.folder.path().join("manifests")
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.manifests().join(name), text).expect("a file");
    }

    fn address(&self) -> String {
        format!("unix:{}", self.path("hns.sock"))
    }

    fn start(&mut self) {
        let mut options = hns::Options::new(Profile::Ws2022);
        options.store = StoreKind::File(self.folder.path().join("hns.db"));
        let hns = Hns::open(options).expect("the state is free");
        let running = Server::new(Arc::new(Emulated(hns.clone())), Limits::default())
            .unix(Path::new(&self.path("hns.sock")))
            .and_then(|server| server.tcp(0, Path::new(&self.path("hns.token"))))
            .expect("the sockets")
            .start()
            .expect("a server");
        self.server = Some((hns, running));
    }

    fn stop(&mut self) {
        let (hns, running) = self.server.take().expect("a server");
        assert!(running.shutdown(Duration::from_mins(1)), "calls end");
        drop(hns);
    }

    fn hns(&self) -> &Hns {
        &self.server.as_ref().expect("a server").0
    }

    /// Ids of load balancers, and what was done to them since the server was started.
    fn balancers(&self) -> (Vec<Guid>, Vec<Op>) {
        let mut ids = self.hns().enumerate(Kind::LoadBalancer, &hcn::Query::all()).expect("a list");
        ids.sort_unstable();
        let writes = self.hns().journal().entries_since(0);
        let writes = writes.into_iter().filter(|entry| entry.kind == Some(Kind::LoadBalancer));
        (
            ids,
            writes
                .map(|entry| entry.op)
                .filter(|op| matches!(op, Op::Create | Op::Modify | Op::Delete))
                .collect(),
        )
    }
}

/// The proxy, staying.
struct Proxy {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    seen: Vec<String>,
}

impl Proxy {
    fn start(world: &World, address: &str) -> Self {
        // Nothing is checked by the clock in here: what the proxy notices it was told.
        let arguments = [
            "proxy",
            "--network",
            "l2bridge",
            "--iptables-min-sync-period",
            "1ms",
            "--iptables-sync-period",
            "10h",
            "--hns",
            address,
            "--manifests",
        ];
        let mut child = transom(&arguments)
            .arg(world.manifests())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        Self { child, lines, seen: Vec::new() }
    }

    fn until(&mut self, words: &str) {
        loop {
            let line =
                self.lines.next().unwrap_or_else(|| panic!("it ended before {words:?}: {:#?}", self.seen));
            let line = line.expect("a line of text");
            let found = line.contains(words);
            self.seen.push(line);
            if found {
                return;
            }
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
fn the_proxy_lives_through_restarts_of_hns_and_loses_nothing() {
    let mut world = World::new();
    world.write("web.yaml", &service("web", "10.60.0.20"));
    // It may be started before HNS.
    let mut proxy = Proxy::start(&world, &world.address());
    world.start();
    proxy.until("create load balancer 10.60.0.20:80/TCP");
    proxy.until("Watching the manifests");
    let (first, writes) = world.balancers();
    assert_eq!((first.len(), &*writes), (1, &[Op::Create][..]));

    // An edit that comes while HNS is away is carried out when it is back, and nothing else is.
    world.stop();
    world.write("two.yaml", &service("two", "10.60.0.21"));
    world.start();
    proxy.until("create load balancer 10.60.0.21:80/TCP");
    let (both, writes) = world.balancers();
    assert_eq!((both.len(), &*writes), (2, &[Op::Create][..]), "{:#?}", proxy.seen);
    assert!(both.contains(&first[0]), "the first one is the same");

    // A restart that nobody edits through: only reading, and what HNS has lost is made again.
    world.stop();
    world.start();
    std::fs::remove_file(world.manifests().join("two.yaml")).expect("it is there");
    proxy.until("delete load balancer 10.60.0.21:80/TCP");
    assert_eq!(world.balancers(), (first.clone(), vec![Op::Delete]));
    world.hns().restart(Loss::LoadBalancers).expect("HNS restarts");
    proxy.until("create load balancer 10.60.0.20:80/TCP");
    assert_eq!(world.balancers(), (first, vec![Op::Delete, Op::Create]));
    assert!(proxy.child.try_wait().expect("its state").is_none(), "and it is still the same process");
}

#[test]
fn objects_of_another_process_are_listed_shown_planned_and_deleted() {
    let mut world = World::new();
    world.start();
    world.write("web.yaml", &service("web", "10.60.0.20"));
    let manifests = world.manifests();
    let token = format!("token:{}", world.path("hns.token"));
    for address in [world.address(), token] {
        let run =
            |arguments: &[&str]| transom(arguments).args(["--hns", &address]).output().expect("it runs");
        let with_manifests = |arguments: &[&str]| {
            let output = transom(arguments)
                .args(["--network", "l2bridge", "--hns", &address, "-f"])
                .arg(&manifests)
                .output();
            output.expect("it runs")
        };
        let planned = with_manifests(&["plan"]);
        assert_eq!(planned.status.code(), Some(2), "{}", text(&planned));
        assert!(text(&planned).contains(&format!("HNS {} at {address}", Profile::Ws2022.version())));
        assert!(text(&planned).contains("create load balancer 10.60.0.20:80/TCP"), "{}", text(&planned));
        assert_eq!(world.balancers().0, [], "a plan changes nothing");

        let done = with_manifests(&["proxy", "--once"]);
        assert_eq!(done.status.code(), Some(0), "{}", text(&done));
        let id = world.balancers().0[0].to_string();
        let listed = run(&["hns", "list", "loadbalancers"]);
        assert!(
            text(&listed).contains(&id) && text(&listed).contains("10.60.0.20:80/TCP"),
            "{}",
            text(&listed)
        );
        let all = run(&["hns", "list", "all", "-d"]);
        assert_eq!(all.status.code(), Some(0), "{}", text(&all));
        let shown = run(&["hns", "get", "loadbalancer", &id, "-o", "json"]);
        assert!(text(&shown).contains("\"10.60.0.20\""), "{}", text(&shown));
        let deleted = run(&["hns", "delete", "loadbalancer", &id]);
        assert!(text(&deleted).contains(&format!("Deleted load balancer {id}")), "{}", text(&deleted));
        assert_eq!(world.balancers().0, []);
        let again = run(&["hns", "delete", "loadbalancer", &id]);
        assert_eq!(again.status.code(), Some(1));
        assert!(text(&again).contains("Element not found"), "{}", text(&again));
    }
}

#[test]
fn an_hns_that_is_not_there_is_named() {
    let world = World::new();
    let address = world.address();
    let listed = transom(&["hns", "list", "all", "--hns", &address]).output().expect("it runs");
    assert_eq!(listed.status.code(), Some(1));
    assert!(
        text(&listed).contains(&address) && text(&listed).contains("is its server running?"),
        "{}",
        text(&listed)
    );
    let once = transom(&["proxy", "--once", "--network", "l2bridge", "--hns", &address, "-f"])
        .arg(world.manifests())
        .output()
        .expect("it runs");
    assert_eq!(once.status.code(), Some(1));
    assert!(text(&once).contains("is its server running?"), "{}", text(&once));
}
