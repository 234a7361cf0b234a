//! A proxy on a live cluster, on a lab's node, with real packets: an API server in the node's network namespace, the proxy beside it,
//! and a steady load of new and kept connections from a pod, while the proxy is restarted and killed, the API goes away, and HNS
//! is slow, down, or has lost its objects.
#![cfg(target_os = "linux")]

mod lab_support;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use apiserver::server::StoreFate;
use apiserver::{ApiServer, Connecting, Credential, Options, Running as Api};
use hcn::{Guid, HcnExt, LoadBalancer, Query};
use lab::daemon::methods;
use lab::exchange::{Load, LoadGenerator, Report};
use lab_support::{Lab, tcp};
use node::app::Request;
use serde_json::json;

/// The Service under load, with a backend on this Windows node, on the other one, and on the Linux node.
const WEB: &str = "10.96.20.1";

fn shop() -> String {
    let read = |name: &str| {
        let path = format!("{}/../../examples/shop/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    ["nodes", "shell", "shop", "system"].map(read).join("\n---\n")
}

/// A lab whose node win-1 has its Services from an API server.
struct Live {
    lab: Lab,
    api: Api,
    folder: tempfile::TempDir,
    proxy: Option<Child>,
}

impl Live {
    fn up() -> Self {
        let lab = Lab::up(&shop(), &["--without-proxy"]);
        // What is heard on the node's own loopback device.
        let api = lab
            .netns("node/win-1")
            .run(|| ApiServer::start(Options::plain()))
            .expect("the node has a namespace")
            .expect("the API server starts");
        for namespace in ["default", "kube-system", "shop"] {
            let text = format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}");
            api.store().apply_manifests(&text).expect("a namespace");
        }
        api.store().apply_manifests(&shop()).expect("the example");
        // Derived from pods where there is no controller.
        let slice = "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}, ports: [{name: http, port: 8080}], endpoints: [{addresses: [10.244.2.5], nodeName: win-1}, {addresses: [10.244.3.5], nodeName: win-2}]}";
        api.store().apply_manifests(slice).expect("a slice");
        let folder = tempfile::tempdir().expect("a folder");
        api.write_kubeconfig(&folder.path().join("kubeconfig"), &Credential::None, &Connecting::default())
            .expect("it is written");
        let mut live = Self { lab, api, folder, proxy: None };
        live.start();
        live.lab.until("the Service is served", || live.serves(WEB));
        live
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("proxy.log")
    }

    fn start(&mut self) {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(self.log()).expect("a log");
        let hns = format!("unix:{}", self.lab.names().hns_socket("win-1").display());
        let kubeconfig = self.folder.path().join("kubeconfig");
        let start = || {
            Command::new(env!("CARGO_BIN_EXE_transom"))
                .args(["proxy", "--hostname-override", "win-1", "--network-name", "vxlan0", "--enable-dsr"])
                .args(["--hns-parallel-calls", "4"])
                .args(["--iptables-sync-period", "1s", "--iptables-min-sync-period", "20ms", "--hns", &hns])
                .arg("--kubeconfig")
                .arg(&kubeconfig)
                .stdin(Stdio::null())
                .stdout(file.try_clone().expect("a log"))
                .stderr(file.try_clone().expect("a log"))
                .spawn()
        };
        let child = self.lab.netns("node/win-1").run(start).expect("the node has a namespace");
        self.proxy = Some(child.expect("the program starts"));
    }

    /// Ends the proxy, as a service manager does or as a crash does.
    fn end(&mut self, kill: bool) {
        let mut child = self.proxy.take().expect("it runs");
        let signal = if kill { rustix::process::Signal::KILL } else { rustix::process::Signal::TERM };
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).expect("it is there");
        let status = child.wait().expect("it ends");
        assert!(kill || status.success(), "{status}");
    }

    fn served(&self) -> Vec<(String, Guid)> {
        let balancers = self.lab.hns("win-1").list::<LoadBalancer>(&Query::all()).unwrap_or_default();
        let mut served: Vec<(String, Guid)> =
            balancers.into_iter().map(|(id, balancer)| (balancer.frontend_vips.join(","), id)).collect();
        served.sort();
        served
    }

    fn serves(&self, ip: &str) -> bool {
        self.served().iter().any(|(vip, _)| vip == ip)
    }

    /// A Service of the Linux node's pod; its programming shows that a proxy works.
    fn service(&self, name: &str, ip: &str) {
        let service = format!(
            "{{apiVersion: v1, kind: Service, metadata: {{name: {name}, namespace: shop}}, spec: {{clusterIP: {ip}, ports: [{{port: 80}}]}}}}"
        );
        let slice = format!(
            "{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, metadata: {{name: {name}-1, namespace: shop, labels: {{kubernetes.io/service-name: {name}}}}}, ports: [{{port: 8000}}], endpoints: [{{addresses: [10.244.1.7], nodeName: linux-1}}]}}"
        );
        for text in [service, slice] {
            self.api.store().apply_manifests(&text).expect("an object");
        }
    }

    /// Waits until a new Service is served, with packets.
    fn works(&self, name: &str, ip: &str) {
        self.service(name, ip);
        self.lab.until(&format!("{name} is served"), || self.serves(ip));
        self.lab.ask("shop/web-1", &tcp(&format!("{ip}:80")));
    }

    fn load(&self) -> LoadGenerator {
        let load = Load {
            request: Request { timeout: Duration::from_secs(15), ..tcp(&format!("{WEB}:80")).payload(100) },
            every: Duration::from_millis(25),
            kept: 8,
            kept_every: Duration::from_millis(100),
        };
        self.lab.load("shop/web-1", load)
    }

    fn node(&self, method: &str, params: &serde_json::Value) {
        self.lab
            .hns("win-1")
            .call_extension(method, params)
            .unwrap_or_else(|error| panic!("{method}: {error}"));
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Some(mut child) = self.proxy.take() {
            // One that has ended is waited for all the same.
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.log()).unwrap_or_default();
            let _ = std::io::Write::write_all(&mut std::io::stderr(), log.as_bytes());
        }
    }
}

/// Waits until a load has had some more answers.
fn goes_on(lab: &Lab, load: &LoadGenerator) {
    let answered = |report: &Report| report.answered.values().sum::<u64>();
    let before = answered(&load.report());
    lab.until("the load has more answers", || answered(&load.report()) >= before + 20);
}

#[test]
fn a_proxy_that_is_restarted_or_killed_fails_no_connection() {
    let mut live = Live::up();
    let before = live.served();
    let load = live.load();
    goes_on(&live.lab, &load);
    for (round, kill) in [false, true, true].into_iter().enumerate() {
        live.end(kill);
        goes_on(&live.lab, &load);
        live.start();
        live.works(&format!("new-{round}"), &format!("10.96.21.{}", round + 1));
    }
    // The API's absence is nobody's business either.
    live.api.stop();
    goes_on(&live.lab, &load);
    // Where it was.
    let namespace = live.lab.netns("node/win-1");
    namespace
        .run(|| live.api.start_again(StoreFate::Kept))
        .expect("the node has a namespace")
        .expect("the API server starts again");
    live.works("after", "10.96.21.9");
    let report = load.stop();
    assert!(report.begun > 50 && report.failures.is_empty(), "{report:#?}");
    // What was there stayed itself: no frontend was taken away and made anew.
    let after = live.served();
    assert!(before.iter().all(|balancer| after.contains(balancer)), "{before:?}, then {after:?}");
}

#[test]
fn faults_of_hns_end_in_what_is_wanted_without_a_restart() {
    let mut live = Live::up();
    // Slow: each call takes a while.
    live.node(methods::FAULTS, &json!({"plan": "rules: [{fault: F-SLOW, latency: {fixed: 50ms}}]"}));
    live.works("slow", "10.96.22.1");
    // One call hangs, and is let go after a while.
    live.node(methods::FAULTS, &json!({"plan": "rules: [{fault: F-HANG, when: {actor: proxy}, times: 1}]"}));
    live.service("hung", "10.96.22.2");
    live.lab.until("a call hangs", || {
        let told =
            live.lab.hns("win-1").call_extension(methods::FAULTS, &json!({})).expect("the node answers");
        told["hung"].as_u64() == Some(1)
    });
    live.node(methods::FAULTS, &json!({"clear": true}));
    live.lab.until("what waited is served", || live.serves("10.96.22.2"));
    // Down: every call fails.
    live.node(methods::FAULTS, &json!({"plan": "rules: [{fault: F-DOWN}]"}));
    live.service("down", "10.96.22.3");
    live.lab.until("the outage is noted", || {
        std::fs::read_to_string(live.log()).is_ok_and(|log| log.contains("HNS call failed"))
    });
    live.node(methods::FAULTS, &json!({"clear": true}));
    live.lab.until("what waited is served", || live.serves("10.96.22.3"));
    // Lost: HNS comes back without its load balancers, then without its endpoints.
    for (loss, name, ip) in [("loadbalancers", "lost-1", "10.96.22.4"), ("none", "lost-2", "10.96.22.5")] {
        live.node(methods::RESTART, &json!({"loss": loss}));
        live.lab.until("everything is served again", || live.serves(WEB) && live.serves("10.96.22.1"));
        live.works(name, ip);
    }
    let mut child = live.proxy.take().expect("it runs");
    assert!(child.try_wait().expect("it can be asked").is_none(), "the proxy has ended");
    live.proxy = Some(child);
    live.lab.ask("shop/web-1", &tcp(&format!("{WEB}:80")));
}
