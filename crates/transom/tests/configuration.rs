//! The program with a configuration file: what it writes, what it refuses, what it does with it, and `--cleanup`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use proxy_config::{Document, Flags, Sources};
use tempfile::TempDir;

const HEAD: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

/// A Windows node and a Service with two backends: one pod of the node, one elsewhere.
const CLUSTER: &str = r"
apiVersion: v1
kind: Node
metadata: {name: win-1, labels: {kubernetes.io/os: windows}}
spec: {podCIDR: 10.244.1.0/24, podCIDRs: [10.244.1.0/24]}
status: {addresses: [{type: InternalIP, address: 192.0.2.11}]}
---
apiVersion: v1
kind: Node
metadata: {name: lin-1, labels: {kubernetes.io/os: linux}}
spec: {podCIDR: 10.244.2.0/24, podCIDRs: [10.244.2.0/24]}
status: {addresses: [{type: InternalIP, address: 192.0.2.12}]}
---
apiVersion: v1
kind: Service
metadata: {name: api, namespace: shop}
spec: {type: NodePort, clusterIP: 10.96.0.20, clusterIPs: [10.96.0.20], ipFamilies: [IPv4], ports: [{name: http, port: 80, targetPort: 8080, nodePort: 30080, protocol: TCP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: api-1, namespace: shop, labels: {kubernetes.io/service-name: api}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.244.2.7], nodeName: lin-1, conditions: {ready: true}}]
";

struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().expect("a folder") };
        place.put("cluster.yaml", CLUSTER);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file can be written");
    }

    fn transom(&self, line: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
        command.args(line.split_whitespace()).current_dir(self.folder.path()).env_remove("KUBE_NETWORK");
        command.output().expect("the program runs")
    }

    fn done(&self, line: &str) -> String {
        let output = self.transom(line);
        assert!(output.status.success(), "{line}: {}", told(&output));
        String::from_utf8(output.stdout).expect("text")
    }
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_configurations_of_deploy_are_taken_as_they_are() {
    let overlays = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/overlays");
    let mut seen = 0;
    for overlay in fs::read_dir(overlays).expect("the folder") {
        let path = overlay.expect("an overlay").path().join("config.conf");
        let text = fs::read_to_string(&path).expect("its configuration");
        let file = Document::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let flags = Flags::default();
        let sources = Sources { file: Some(&file), flags: &flags, kube_network: None, host_name: "win-1" };
        let resolved = sources.resolve().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(resolved.warnings, [""; 0], "{}", path.display());
        assert!(resolved.settings.network_name.is_some() && !resolved.settings.api.is_in_cluster());
        seen += 1;
    }
    assert!(seen >= 3, "only {seen} overlays");
}

#[test]
fn the_resulting_configuration_is_written_and_read_again() {
    let place = Place::new();
    place.put("in.conf", &format!("{HEAD}bindAddress: '::1'\nwinkernel: {{networkName: vxlan0}}\n"));
    place.done("proxy --config in.conf --hostname-override WIN-9 -v 3 --write-config-to out.yaml");
    let written = fs::read_to_string(place.path("out.yaml")).expect("it is there");
    for line in [
        "hostnameOverride: win-9",
        "healthzBindAddress: \"[::]:10256\"",
        "  verbosity: 3",
        "  networkName: vxlan0",
    ] {
        assert!(written.lines().any(|found| found == line), "{line:?} is missing in\n{written}");
    }
    place.done("proxy --config out.yaml --write-config-to again.yaml");
    assert_eq!(written, fs::read_to_string(place.path("again.yaml")).expect("it is there"));
    place.done("proxy --network-name vxlan0 --enable-dsr --write-config-to flags.yaml");
    let flags = fs::read_to_string(place.path("flags.yaml")).expect("it is there");
    assert!(flags.contains("  enableDSR: true\n"), "{flags}");
}

#[test]
fn what_is_wrong_is_told_at_once_and_nothing_is_written() {
    let place = Place::new();
    place.put("in.conf", &format!("{HEAD}mode: ipvs\nbindAddress: x\nwinkernel: {{sourceVip: Calico_ep}}\n"));
    let output = place.transom("proxy --config in.conf --write-config-to out.yaml");
    assert_eq!(output.status.code(), Some(1));
    let text = told(&output);
    for part in ["--config in.conf", "BindAddress", "Mode", "Winkernel.SourceVip"] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    assert!(!place.path("out.yaml").exists());
    let output = place.transom("proxy --config nowhere.conf --once");
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).contains("--config nowhere.conf"), "{}", told(&output));
}

#[test]
fn a_file_says_what_the_flags_would() {
    let place = Place::new();
    place.put(
        "in.conf",
        &format!("{HEAD}winkernel: {{networkName: overlay7, enableDSR: true}}\nnonsense: 1\n"),
    );
    let by_file = place.transom("plan -f cluster.yaml --config in.conf --network-name other");
    let by_flags = place.transom("plan -f cluster.yaml --network-name overlay7 --enable-dsr");
    assert_eq!(by_file.status.code(), Some(2), "{}", told(&by_file));
    assert_eq!(by_file.stdout, by_flags.stdout);
    let text = String::from_utf8_lossy(&by_file.stdout);
    assert!(text.contains("overlay7") && text.contains("DirectServerReturn"), "{text}");
    let told = told(&by_file);
    for part in ["nonsense: is no field", "flag --network-name: has no effect beside --config"] {
        assert!(told.contains(part), "{part} is missing in {told}");
    }
}

#[test]
fn without_manifests_it_says_what_works_on_them_only() {
    let place = Place::new();
    for (line, part) in [
        ("plan", "the API server of the cluster that this process runs in"),
        ("plan --kubeconfig k.conf", "the API server (k.conf)"),
        ("proxy --kubeconfig k.conf --once", "--once works on manifests"),
    ] {
        let output = place.transom(line);
        assert_eq!(output.status.code(), Some(1), "{line}");
        let text = told(&output);
        assert!(text.contains(part) && text.contains("--manifests <PATH>..."), "{line}: {text}");
    }
}

#[test]
fn cleaning_up_takes_own_objects_and_leaves_pods() {
    let place = Place::new();
    place.done("proxy -f cluster.yaml --once --state hns.db");
    let before = place.done("hns list loadbalancers --state hns.db");
    assert!(before.contains("10.96.0.20"), "{before}");
    let text = place.done("proxy --cleanup --state hns.db");
    assert!(text.contains("Removed load balancer") && text.contains("Removed endpoint"), "{text}");
    let after = place.done("hns list loadbalancers --state hns.db");
    assert!(!after.contains("10.96.0.20"), "{after}");
    assert!(place.done("proxy --cleanup --state hns.db").contains("nothing to remove"));
    // The network is the CNI plugin's.
    assert!(place.done("hns list networks --state hns.db").contains("vxlan0"));
}
