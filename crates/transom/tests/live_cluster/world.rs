//! An API server of the tests, an emulated HNS in a process of its own, and the program's processes.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use apiserver::{ApiServer, Connecting, Credential, Options, Running as Api};
use hcn::time::{Clock, SystemClock};
use hcn::{Guid, HcnExt, LoadBalancer, Query};
use hnsd::{Address, Remote};
use rustix::process::{Pid, Signal};
use tempfile::TempDir;

/// How long something may take that a test waits for: far longer than it does.
const PATIENCE: Duration = Duration::from_mins(1);

/// Time from one look to the next.
const LOOK: Duration = Duration::from_millis(20);

pub(super) const TRANSOM: &str = env!("CARGO_BIN_EXE_transom");

/// A process that ends with this value.
pub(super) struct Process(Child);

impl Process {
    pub(super) fn start(command: &mut Command, log: &Path) -> Self {
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
    pub(super) fn stop(mut self) {
        rustix::process::kill_process(Pid::from_child(&self.0), Signal::TERM).expect("it is there");
        let status = self.0.wait().expect("it ends");
        assert!(status.success(), "{status}");
    }

    pub(super) fn is_there(&mut self) -> bool {
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
pub(super) struct World {
    pub(super) api: Api,
    pub(super) folder: TempDir,
    manifests: PathBuf,
    pub(super) hns: Option<Process>,
    pub(super) healthz: SocketAddr,
    pub(super) metrics: SocketAddr,
    pub(super) clock: SystemClock,
}

pub(super) fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port")
}

impl World {
    /// The example's cluster, without its derived slices.
    pub(super) fn new() -> Self {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop");
        let world = Self::of(&example, &["nodes.yaml", "system.yaml", "shop.yaml", "shell.yaml"]);
        // The example's slices are derived from its pods; in a cluster a controller does that.
        let slice = "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}, ports: [{name: http, port: 8080}], endpoints: [{addresses: [10.244.2.5], nodeName: win-1}, {addresses: [10.244.3.5], nodeName: win-2}]}";
        world.api.store().apply_manifests(slice).expect("a slice");
        world
    }

    /// A cluster of these files in a folder, and its node win-1.
    pub(super) fn of(manifests: &Path, files: &[&str]) -> Self {
        let api = ApiServer::start(Options::plain()).expect("the API server starts");
        for namespace in ["default", "kube-system", "shop"] {
            let text = format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}");
            api.store().apply_manifests(&text).expect("a namespace");
        }
        for name in files {
            let path = manifests.join(name);
            let text =
                std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            api.store().apply_manifests(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        let folder = tempfile::tempdir().expect("a folder");
        let (healthz, metrics) = (free_port(), free_port());
        let manifests = manifests.to_owned();
        let mut world =
            Self { api, folder, manifests, hns: None, healthz, metrics, clock: SystemClock::default() };
        world.write_kubeconfig();
        world.start_hns();
        world
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn write_kubeconfig(&self) {
        let path = self.path("kubeconfig");
        self.api.write_kubeconfig(&path, &Credential::None, &Connecting::default()).expect("it is written");
    }

    /// Node win-1's HNS, whose objects are kept in a file.
    pub(super) fn start_hns(&mut self) {
        let token = format!("token:{}", self.path("hns.token").display());
        let mut command = Command::new(TRANSOM);
        command
            .args(["hns", "serve", "--node", "win-1", "--network", "l2bridge", "--profile", "newest"])
            .args(["--listen", &token, "--state"])
            .arg(self.path("hns.db"))
            .arg("-f")
            .arg(&self.manifests);
        self.hns = Some(Process::start(&mut command, &self.path("hns.log")));
        self.until("HNS is served", || self.path("hns.token").exists());
    }

    pub(super) fn remote(&self) -> Remote {
        Remote::new(Address::TokenFile(self.path("hns.token")), hnsd::Options::actor("test"))
    }

    /// The proxy with more flags.
    pub(super) fn proxy(&self, flags: &[&str]) -> Process {
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

    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.path("proxy.log")).unwrap_or_default()
    }

    pub(super) fn until(&self, what: &str, is: impl Fn() -> bool) {
        let end = self.clock.now() + PATIENCE;
        while !is() {
            assert!(self.clock.now() < end, "it never came about that {what}:\n{}", self.log());
            self.clock.sleep(LOOK);
        }
    }

    /// The load balancers by the cluster IP that they are for.
    pub(super) fn served(&self) -> Vec<(String, Guid)> {
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

    pub(super) fn serves(&self, ip: &str) -> bool {
        self.served().iter().any(|(vip, _)| vip == ip)
    }

    pub(super) fn service(&self, name: &str, ip: &str) {
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
    pub(super) fn get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(address).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    }

    pub(super) fn is_ready(&self) -> bool {
        World::get(self.healthz, "/readyz").is_some_and(|(code, _)| code == 200)
    }

    /// `transom proxy status`.
    pub(super) fn status(&self, words: &[&str]) -> Output {
        Command::new(TRANSOM)
            .args(["proxy", "status", "--metrics-bind-address", &self.metrics.to_string()])
            .args(words)
            .output()
            .expect("the program starts")
    }
}
