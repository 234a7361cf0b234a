//! `transom proxy` on a live cluster: an API server of the tests, an emulated HNS in a process of its own, and the real program
//! between them. What it programs, what it shows, and what becomes of it when the API or HNS goes away.
#![cfg(target_os = "linux")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use apiserver::server::StoreFate;
use apiserver::{ApiServer, Connecting, Credential, Effect, Gate, Match, Options, Rule, Running as Api};
use hcn::time::{Clock, SystemClock};
use hcn::{Endpoint, Guid, HcnExt, LoadBalancer, Query};
use hnsd::{Address, Remote};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use tempfile::TempDir;

/// How long something may take that a test waits for: far longer than it does.
const PATIENCE: Duration = Duration::from_mins(1);

/// Time from one look to the next.
const LOOK: Duration = Duration::from_millis(20);

const TRANSOM: &str = env!("CARGO_BIN_EXE_transom");

/// A process that ends with this value.
struct Process(Child);

impl Process {
    fn start(command: &mut Command, log: &Path) -> Self {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(log).expect("a log");
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a log"))
            .stderr(file)
            .spawn()
            .expect("the program starts");
        Self(child)
    }

    /// Asks it to end; it must, and well.
    fn stop(mut self) {
        rustix::process::kill_process(Pid::from_child(&self.0), Signal::TERM).expect("it is there");
        let status = self.0.wait().expect("it ends");
        assert!(status.success(), "{status}");
    }

    fn is_there(&mut self) -> bool {
        self.0.try_wait().expect("it can be asked").is_none()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended is waited for all the same.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A cluster, a node's HNS, and where the proxy serves what.
struct World {
    api: Api,
    folder: TempDir,
    hns: Option<Process>,
    healthz: SocketAddr,
    metrics: SocketAddr,
    clock: SystemClock,
}

fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port")
}

impl World {
    fn new() -> Self {
        let api = ApiServer::start(Options::plain()).expect("the API server starts");
        for namespace in ["default", "kube-system", "shop"] {
            let text = format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}");
            api.store().apply_manifests(&text).expect("a namespace");
        }
        for name in ["nodes", "system", "shop", "shell"] {
            let path = format!("{}/../../examples/shop/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(&path).expect("the example is there");
            api.store().apply_manifests(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
        }
        // The example's slices are derived from its pods; in a cluster a controller does that.
        let slice = "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}, ports: [{name: http, port: 8080}], endpoints: [{addresses: [10.244.2.5], nodeName: win-1}, {addresses: [10.244.3.5], nodeName: win-2}]}";
        api.store().apply_manifests(slice).expect("a slice");
        let folder = tempfile::tempdir().expect("a folder");
        let (healthz, metrics) = (free_port(), free_port());
        let mut world = Self { api, folder, hns: None, healthz, metrics, clock: SystemClock::default() };
        world.write_kubeconfig();
        world.start_hns();
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write_kubeconfig(&self) {
        let path = self.path("kubeconfig");
        self.api.write_kubeconfig(&path, &Credential::None, &Connecting::default()).expect("it is written");
    }

    /// Node win-1's HNS, whose objects are kept in a file.
    fn start_hns(&mut self) {
        let token = format!("token:{}", self.path("hns.token").display());
        let mut command = Command::new(TRANSOM);
        command
            .args(["hns", "serve", "--node", "win-1", "--network", "l2bridge", "--profile", "newest"])
            .args(["--listen", &token, "--state"])
            .arg(self.path("hns.db"))
            .arg("-f")
            .arg(format!("{}/../../examples/shop", env!("CARGO_MANIFEST_DIR")));
        self.hns = Some(Process::start(&mut command, &self.path("hns.log")));
        self.until("HNS is served", || self.path("hns.token").exists());
    }

    fn remote(&self) -> Remote {
        Remote::new(Address::TokenFile(self.path("hns.token")), hnsd::Options::actor("test"))
    }

    /// The proxy with more flags.
    fn proxy(&self, flags: &[&str]) -> Process {
        let mut command = Command::new(TRANSOM);
        command
            .args(["proxy", "--hostname-override", "win-1", "--network-name", "cbr0", "--enable-dsr"])
            .args(["--iptables-min-sync-period", "20ms"])
            .arg("--kubeconfig")
            .arg(self.path("kubeconfig"))
            .arg("--healthz-bind-address")
            .arg(self.healthz.to_string())
            .arg("--metrics-bind-address")
            .arg(self.metrics.to_string())
            .arg("--hns")
            .arg(format!("token:{}", self.path("hns.token").display()))
            .args(flags);
        Process::start(&mut command, &self.path("proxy.log"))
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("proxy.log")).unwrap_or_default()
    }

    fn until(&self, what: &str, is: impl Fn() -> bool) {
        let end = self.clock.now() + PATIENCE;
        while !is() {
            assert!(self.clock.now() < end, "it never came about that {what}:\n{}", self.log());
            self.clock.sleep(LOOK);
        }
    }

    /// The load balancers by the cluster IP that they are for.
    fn served(&self) -> Vec<(String, Guid)> {
        let mut found: Vec<(String, Guid)> = self
            .remote()
            .list::<LoadBalancer>(&Query::all())
            .expect("HNS answers")
            .into_iter()
            .map(|(id, balancer)| (balancer.frontend_vips.join(","), id))
            .collect();
        found.sort();
        found
    }

    fn serves(&self, ip: &str) -> bool {
        self.served().iter().any(|(vip, _)| vip == ip)
    }

    fn service(&self, name: &str, ip: &str) {
        let text = format!(
            "{{apiVersion: v1, kind: Service, metadata: {{name: {name}, namespace: shop}}, spec: {{clusterIP: {ip}, ports: [{{port: 80}}]}}}}"
        );
        self.api.store().apply_manifests(&text).expect("a Service");
        let text = format!(
            "{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, metadata: {{name: {name}-1, namespace: shop, labels: {{kubernetes.io/service-name: {name}}}}}, ports: [{{port: 8080}}], endpoints: [{{addresses: [10.244.3.99], nodeName: win-2}}]}}"
        );
        self.api.store().apply_manifests(&text).expect("a slice");
    }

    /// An answer over HTTP: its code and body; none when nobody answers.
    fn get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(address).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    }

    fn is_ready(&self) -> bool {
        World::get(self.healthz, "/readyz").is_some_and(|(code, _)| code == 200)
    }

    /// `transom proxy status`.
    fn status(&self, words: &[&str]) -> Output {
        Command::new(TRANSOM)
            .args(["proxy", "status", "--metrics-bind-address", &self.metrics.to_string()])
            .args(words)
            .output()
            .expect("the program starts")
    }
}

/// The cluster IP of the example's Services.
const WEB: &str = "10.96.20.1";

#[test]
fn services_of_a_live_cluster_are_programmed_followed_and_kept() {
    let world = World::new();
    let proxy = world.proxy(&[]);
    world.until("it is ready", || world.is_ready());
    world.until("the example is served", || world.serves(WEB) && world.serves("10.96.20.2"));
    let (code, body) = World::get(world.healthz, "/healthz").expect("health answers");
    let health: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(
        (code, &health["healthy"], &health["nodeEligible"]),
        (200, &Value::Bool(true), &Value::Bool(true)),
        "{body}"
    );
    assert_eq!(World::get(world.healthz, "/livez").map(|(code, _)| code), Some(200));
    assert_eq!(World::get(world.metrics, "/proxyMode"), Some((200, "kernelspace".to_owned())));
    let (_, configz) = World::get(world.metrics, "/configz").expect("it answers");
    let configz: Value = serde_json::from_str(&configz).expect("JSON");
    assert_eq!(configz["kubeproxy.config.k8s.io"]["winkernel"]["enableDSR"], true, "{configz}");

    // People are told on the cluster.
    world.until("an Event says that it has started", || {
        let events = world.api.store().list::<k8s_openapi::api::events::v1::Event>();
        events.iter().any(|event| event.reason.as_deref() == Some("Starting"))
    });

    // Changes.
    world.service("new", "10.96.20.77");
    world.until("a new Service is served", || world.serves("10.96.20.77"));
    let (_, metrics) = World::get(world.metrics, "/metrics").expect("metrics answer");
    for name in [
        "kubeproxy_sync_proxy_rules_service_changes_total",
        "kubeproxy_network_programming_duration_seconds_count",
    ] {
        assert!(metrics.lines().any(|line| line.starts_with(name)), "{name} is missing");
    }
    let status = world.status(&["shop/new", "-o", "json"]);
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    let document: Value = serde_json::from_slice(&status.stdout).expect("JSON");
    assert_eq!(document["services"].as_array().map(Vec::len), Some(1), "{document}");
    assert_eq!(document["services"][0]["frontends"][0]["state"], "programmed", "{document}");
    let text = String::from_utf8(world.status(&[]).stdout).expect("UTF-8");
    assert!(text.contains("Phase: running") && text.contains("shop/web"), "{text}");

    // The end of the process is nobody's business, and the next one finds nothing to do.
    proxy.stop();
    let before = world.served();
    assert!(before.len() > 5, "{before:?}");
    let proxy = world.proxy(&[]);
    world.until("it is ready again", || world.is_ready());
    assert_eq!(world.served(), before);
    assert!(world.log().contains("changes=0"), "{}", world.log());
    world
        .api
        .store()
        .delete_manifests("{apiVersion: v1, kind: Service, metadata: {name: new, namespace: shop}}")
        .expect("it goes");
    world.until("what nobody wants goes", || !world.serves("10.96.20.77"));
    proxy.stop();
}

#[test]
fn nothing_is_programmed_before_everything_is_known() {
    let world = World::new();
    let proxy = world.proxy(&[]);
    world.until("the example is served", || world.is_ready() && world.serves(WEB));
    proxy.stop();
    let before = world.served();
    // A Service goes meanwhile; and the endpoints of all others do not come.
    world
        .api
        .store()
        .delete_manifests("{apiVersion: v1, kind: Service, metadata: {name: api, namespace: shop}}")
        .expect("it goes");
    let gate = Gate::new();
    for verb in ["list", "watch"] {
        world.api.faults().add(Rule::new(Match::of(verb, "endpointslices"), Effect::Hang(gate.clone())));
    }
    world.api.activity().clear();
    let proxy = world.proxy(&[]);
    world.api.activity().wait(|ledger| ledger.watching("services") == 1);
    world.until("it says what it waits for", || {
        World::get(world.healthz, "/readyz")
            .is_some_and(|(code, body)| code == 503 && body.to_lowercase().contains("sync"))
    });
    let text = String::from_utf8(world.status(&[]).stdout).expect("UTF-8");
    assert!(text.contains("Phase: syncing") && text.contains("endpointslices"), "{text}");
    assert_eq!(world.served(), before, "nothing may be touched");
    gate.release();
    world.until("it goes on", || world.is_ready() && !world.serves("10.96.20.2"));
    proxy.stop();
}

#[test]
fn an_outage_of_the_api_changes_nothing_and_is_seen() {
    let mut world = World::new();
    let mut proxy = world.proxy(&[]);
    world.until("the example is served", || world.is_ready() && world.serves(WEB));
    let before = world.served();
    world.api.stop();
    world.until("the outage is seen", || {
        let text = String::from_utf8(world.status(&["-o", "json"]).stdout).expect("UTF-8");
        text.contains("\"failing\"")
    });
    assert_eq!(world.served(), before);
    assert_eq!(
        World::get(world.healthz, "/healthz").map(|(code, _)| code),
        Some(200),
        "the node serves as before"
    );
    world.service("late", "10.96.20.78");
    world.api.start_again(StoreFate::Kept).expect("the API server starts again");
    world.until("what happened meanwhile is programmed", || world.serves("10.96.20.78"));
    assert!(proxy.is_there());
    proxy.stop();
}

#[test]
fn an_hns_that_goes_away_and_comes_back_is_brought_to_what_is_wanted() {
    let mut world = World::new();
    let mut proxy = world.proxy(&["--iptables-sync-period", "1s"]);
    world.until("the example is served", || world.is_ready() && world.serves(WEB));
    drop(world.hns.take());
    world.service("late", "10.96.20.79");
    // Health answers meanwhile, and says what is wrong.
    world.until("the outage is told", || {
        World::get(world.healthz, "/healthz")
            .is_some_and(|(_, body)| body.contains("degraded") && body.to_lowercase().contains("hns"))
    });
    assert!(proxy.is_there());
    // A proxy's own read of HNS may wait for a while when that was away for long: it is asked to end, as an operator would not.
    let _ = std::fs::remove_file(world.path("hns.token"));
    world.start_hns();
    world.until("what happened meanwhile is programmed", || world.serves("10.96.20.79") && world.serves(WEB));
    proxy.stop();
}

#[test]
fn load_balancers_of_kube_proxy_are_taken_over_without_a_moment_without_them() {
    let world = World::new();
    let hns = world.remote();
    // As kube-proxy makes them: ids of HNS's choosing, the same frontends, a remote endpoint with the MAC that it derives.
    let network = hns.list::<hcn::Network>(&Query::by_name("cbr0")).expect("HNS answers")[0].0;
    let remote = Endpoint::parse(r#"{"Name": "Ethernet", "IpConfigurations": [{"IpAddress": "10.244.3.5"}], "MacAddress": "02-11-0A-F4-03-05", "Flags": 1, "SchemaVersion": {"Major": 2, "Minor": 0}}"#).expect("an endpoint");
    let endpoint = hns.make_endpoint(network, Guid::NIL, &remote).expect("HNS takes it");
    let text = format!(
        r#"{{"HostComputeEndpoints": ["{endpoint}"], "FrontendVIPs": ["{WEB}"], "PortMappings": [{{"Protocol": 6, "InternalPort": 8080, "ExternalPort": 80}}], "Flags": 1, "SchemaVersion": {{"Major": 2, "Minor": 0}}}}"#
    );
    let balancer = LoadBalancer::parse(&text).expect("a load balancer");
    let id = hns.make(Guid::NIL, &balancer).expect("HNS takes it");
    let proxy = world.proxy(&[]);
    world.until("all is served", || world.is_ready() && world.serves("10.96.20.2"));
    let served = world.served();
    assert!(served.contains(&(WEB.to_owned(), id)), "{id} was not kept: {served:?}");
    proxy.stop();
}

#[test]
fn a_changed_configuration_is_followed_without_an_end() {
    let world = World::new();
    let file = world.path("config.yaml");
    let write = |healthz: SocketAddr, more: &str| {
        let text = format!(
            "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: kernelspace\nhealthzBindAddress: {healthz}\nmetricsBindAddress: {}\nclientConnection: {{kubeconfig: {}}}\niptables: {{minSyncPeriod: 20ms}}\nwinkernel: {{networkName: cbr0, enableDSR: true}}\n{more}",
            world.metrics,
            world.path("kubeconfig").display()
        );
        // As an editor does, and a mounted ConfigMap.
        let new = file.with_extension("new");
        std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &file)).expect("it is written");
    };
    write(world.healthz, "");
    let mut command = Command::new(TRANSOM);
    command
        .args(["proxy", "--hostname-override", "win-1", "--config"])
        .arg(&file)
        .arg("--hns")
        .arg(format!("token:{}", world.path("hns.token").display()));
    let mut proxy = Process::start(&mut command, &world.path("proxy.log"));
    world.until("the example is served", || world.is_ready() && world.serves(WEB));
    let other = free_port();
    write(other, "");
    world.until("health is served elsewhere", || {
        World::get(other, "/readyz").is_some_and(|(code, _)| code == 200)
            && World::get(world.healthz, "/readyz").is_none()
    });
    write(other, "bindAddress: nonsense\n");
    world.until("a wrong file is told", || world.log().contains("The changed configuration is not used"));
    assert_eq!(World::get(other, "/readyz").map(|(code, _)| code), Some(200));
    assert!(world.log().contains("BindAddress"), "{}", world.log());
    // Another network: everything is put together anew, in the same process.
    write(other, "nodePortAddresses: [primary]\n");
    world.until("another setting counts", || world.log().contains("nodePortAddresses"));
    assert!(proxy.is_there());
    proxy.stop();
}

#[test]
fn what_cannot_start_says_what_is_wrong_and_what_would_be_right() {
    let world = World::new();
    let kubeconfig = world.path("kubeconfig").display().to_string();
    let hns = format!("token:{}", world.path("hns.token").display());
    for (words, wanted) in [
        (
            vec!["proxy", "--kubeconfig", &kubeconfig, "--hns", &hns],
            "the HNS network is not named: give --network-name",
        ),
        (
            vec!["proxy", "--kubeconfig", "/nonexistent/kubeconfig", "--hns", &hns, "--network-name", "cbr0"],
            "kubeconfig /nonexistent/kubeconfig",
        ),
        (
            vec!["proxy", "--hns", &hns, "--network-name", "cbr0"],
            "neither --kubeconfig nor --master was given",
        ),
        (
            vec!["proxy", "--kubeconfig", &kubeconfig, "--network-name", "cbr0", "--hns", "emulated"],
            "give --hns native on a Windows node",
        ),
        (
            vec![
                "proxy",
                "--kubeconfig",
                &kubeconfig,
                "--hns",
                &hns,
                "--network-name",
                "cbr0",
                "--metrics-bind-address",
                "192.0.2.77:10249",
                "--bind-address-hard-fail",
            ],
            "192.0.2.77:10249",
        ),
        (
            vec!["proxy", "--once", "--kubeconfig", &kubeconfig, "--hns", &hns, "--network-name", "cbr0"],
            "--once works on manifests",
        ),
        (vec!["proxy", "status", "--metrics-bind-address", "127.0.0.1:1"], "no proxy answers at 127.0.0.1:1"),
    ] {
        let done = Command::new(TRANSOM)
            .args(&words)
            .env_remove("KUBE_NETWORK")
            .output()
            .expect("the program starts");
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(1), "{words:?}: {text}");
        assert!(text.contains(wanted), "{words:?}: {text}");
    }
}
