//! The program on both recorded clusters: every Windows node, both kinds of network, every build. A second run writes
//! nothing, the plan agrees, and what is listed is what was made.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Run {
    cluster: PathBuf,
    node: &'static str,
    network: &'static str,
    profile: &'static str,
    state: PathBuf,
}

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/clusters").join(name)
}

fn transom(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_transom"))
        .args(arguments)
        .env_remove("KUBE_NETWORK")
        .output()
        .expect("the program starts")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("the program ends by itself")
}

impl Run {
    fn call(&self, command: &[&str], with_state: bool) -> Output {
        let mut arguments: Vec<&str> = command.to_vec();
        let cluster = self.cluster.to_str().expect("a path in UTF-8");
        let state = self.state.to_str().expect("a path in UTF-8");
        arguments.extend(["--manifests", cluster, "--node", self.node]);
        arguments.extend(["--network", self.network, "--profile", self.profile]);
        if with_state {
            arguments.extend(["--state", state]);
        }
        transom(&arguments)
    }

    fn check(&self) {
        let about = format!("{} {} {} {}", self.cluster.display(), self.node, self.network, self.profile);
        let first = self.call(&["plan", "-o", "json"], true);
        assert_eq!(code(&first), 2, "{about}: a plan for an empty HNS has steps: {first:?}");
        let plan: serde_json::Value = serde_json::from_slice(&first.stdout).expect("the plan is JSON");
        let planned = plan["changes"].as_array().expect("a list of changes").len();
        assert!(planned > 10, "{about}: {planned} changes are planned");

        let once = self.call(&["proxy", "--once"], true);
        assert_eq!(code(&once), 0, "{about}: {once:?}");
        let made = text(&once).matches("+ create load balancer").count();
        assert!(made > 10, "{about}: {made} load balancers were made\n{}", text(&once));
        let wanted = plan["changes"].as_array().expect("a list of changes");
        let wanted = wanted.iter().filter(|change| change["kind"] == "load balancer").count();
        assert_eq!(made, wanted, "{about}: what was made is not what was planned");

        let again = self.call(&["proxy", "--once"], true);
        assert_eq!(code(&again), 0, "{about}: {again:?}");
        assert!(
            text(&again).contains("nothing was written") && text(&again).contains(" 0 of them writes"),
            "{about}: a second run writes: {}",
            text(&again)
        );
        let settled = self.call(&["plan"], true);
        assert_eq!(code(&settled), 0, "{about}: nothing is left to plan: {}", text(&settled));

        let described = self.call(&["services", "describe"], false);
        assert_eq!(code(&described), 0, "{about}: {described:?}");
        assert!(text(&described).contains("programmed"), "{about}: {}", text(&described));

        let listed =
            transom(&["hns", "list", "loadbalancers", "--state", self.state.to_str().unwrap(), "-o", "json"]);
        assert_eq!(code(&listed), 0, "{about}: {listed:?}");
        let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).expect("the list is JSON");
        assert_eq!(
            listed.as_array().map(Vec::len),
            Some(made),
            "{about}: what is listed is not what was made"
        );
    }
}

fn every_build(cluster: &str, network: &'static str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for node in ["lab-win-1", "lab-win-2"] {
        for profile in ["ws2019", "ws2022", "ws2025", "newest"] {
            let run = Run {
                cluster: testdata(cluster),
                node,
                network,
                profile,
                state: folder.path().join(format!("{node}-{profile}.redb")),
            };
            run.check();
        }
    }
}

#[test]
fn the_hybrid_cluster_on_an_overlay() {
    every_build("hybrid-overlay.yaml", "overlay");
}

#[test]
fn the_hybrid_cluster_on_a_bridge() {
    every_build("hybrid-overlay.yaml", "l2bridge");
}

#[test]
fn the_dual_stack_cluster_on_an_overlay() {
    every_build("dualstack-l2bridge.yaml", "overlay");
}

#[test]
fn the_dual_stack_cluster_on_a_bridge() {
    every_build("dualstack-l2bridge.yaml", "l2bridge");
}

#[test]
fn a_wrong_node_is_named_with_those_there_are() {
    let cluster = testdata("hybrid-overlay.yaml");
    let output = transom(&["plan", "-f", cluster.to_str().unwrap(), "--node", "lab-win-9"]);
    assert_eq!(code(&output), 1);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("lab-win-9") && said.contains("lab-win-1, lab-win-2"), "{said}");
    let output = transom(&["plan", "-f", cluster.to_str().unwrap(), "--node", "lab-node-1"]);
    assert_eq!(code(&output), 1);
    assert!(String::from_utf8_lossy(&output.stderr).contains("kubernetes.io/os"), "{output:?}");
}
