//! `transom proxy` on a live cluster: an API server of the tests, an emulated HNS in a process of its own, and the real program
//! between them. What it programs, what it shows, and what becomes of it when the API or HNS goes away.
#![cfg(target_os = "linux")]

mod dual;
mod world;

use std::net::SocketAddr;
use std::process::Command;

use apiserver::server::StoreFate;
use apiserver::{Effect, Gate, Match, Rule};
use hcn::{Endpoint, Guid, HcnExt as _, LoadBalancer, Query};
use serde_json::Value;
use world::{Process, TRANSOM, World, free_port};

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
    world.until("the outage is in the log", || world.log().contains("The proxy is degraded"));
    assert!(world.log().contains("ApiOutage"), "{}", world.log());
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
    world.until("the outage is in the log", || world.log().contains("HnsUnusable"));
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
