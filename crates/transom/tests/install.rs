//! The manifests as they are printed: the whole of each overlay, the rights that they ask for, flags that the program
//! knows, and the files of workflows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use clap::CommandFactory;
use serde_json::{Value, json};
use transom::cli::Cli;
use transom::install::configuration::Configuration;
use transom::install::{Cni, Request, manifests};

fn transom(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
    command.args(line.split_whitespace()).env_remove("KUBE_NETWORK").output().expect("the program runs")
}

fn printed(line: &str) -> String {
    let output = transom(line);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn object(cni: Cni, kind: &str) -> Value {
    let documents = manifests(&Request::of(cni)).expect("manifests");
    documents.into_iter().find(|document| document["kind"] == kind).expect(kind)
}

#[test]
fn each_overlay_is_printed_whole() {
    for cni in Cni::ALL {
        insta::assert_snapshot!(cni.name(), printed(&format!("install --dry-run --cni {}", cni.name())));
    }
}

#[test]
fn wishes_and_the_other_form() {
    let line = "install --dry-run --cni flannel-vxlan --image r.example/t:1 --namespace net --control-plane-endpoint cp:6443 --network-name vxlan0 --source-vip 10.0.0.9 --enable-dsr -o json";
    let list: Value = serde_json::from_str(&printed(line)).expect("JSON");
    assert_eq!((&list["kind"], list["items"].as_array().map(Vec::len)), (&json!("List"), Some(6)));
    insta::assert_snapshot!("list", printed("install --list"));
    let rows: Value = serde_json::from_str(&printed("install --list -o json")).expect("JSON");
    assert_eq!(rows[1]["networkName"], "flannel.4096");
}

#[test]
fn what_is_asked_wrongly_is_refused() {
    for (line, code, says) in [
        ("install --cni calico-vxlan", 1, "kubectl apply -f -"),
        ("install --dry-run --cni calico", 64, "calico-vxlan"),
        ("install --dry-run", 64, "--cni"),
        ("install --list --image x", 64, "--list"),
        ("install --dry-run --cni calico-vxlan --namespace net", 1, "--control-plane-endpoint"),
        ("install --dry-run --cni flannel-host-gw --source-vip 10.0.0.9", 1, "--source-vip"),
    ] {
        let output = transom(line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line}: {said}");
        assert!(said.contains(says) && output.stdout.is_empty(), "{line}: {said}");
    }
}

#[test]
fn the_rights_are_these_and_no_others() {
    let wanted: &[(&str, &str, &[&str])] = &[
        ("", "events", &["create", "patch"]),
        ("", "nodes", &["get", "list", "watch"]),
        ("", "services", &["list", "watch"]),
        ("discovery.k8s.io", "endpointslices", &["list", "watch"]),
        ("events.k8s.io", "events", &["create", "patch"]),
        ("networking.k8s.io", "servicecidrs", &["list", "watch"]),
    ];
    for cni in Cni::ALL {
        let role = object(cni, "ClusterRole");
        let texts = |value: &Value| -> Vec<String> {
            let items = value.as_array().expect("a list").iter();
            items.map(|item| item.as_str().expect("text").to_owned()).collect()
        };
        let mut found: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
        for rule in role["rules"].as_array().expect("rules") {
            assert_eq!(rule.as_object().map(serde_json::Map::len), Some(3), "no names, no URLs: {rule}");
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    let before = found.insert((group.clone(), resource), texts(&rule["verbs"]));
                    assert_eq!(before, None, "one rule for each: {rule}");
                }
            }
        }
        let found: Vec<(&str, &str, Vec<&str>)> = found
            .iter()
            .map(|((group, resource), verbs)| {
                (&**group, &**resource, verbs.iter().map(String::as_str).collect())
            })
            .collect();
        let wanted: Vec<(&str, &str, Vec<&str>)> =
            wanted.iter().map(|(group, resource, verbs)| (*group, *resource, verbs.to_vec())).collect();
        assert_eq!(found, wanted, "{}", cni.name());
        let binding = object(cni, "ClusterRoleBinding");
        assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
        assert_eq!(binding["subjects"][0]["name"], object(cni, "ServiceAccount")["metadata"]["name"]);
    }
}

/// The arguments as the kubelet hands them over.
fn arguments(cni: Cni) -> Vec<String> {
    let daemon = object(cni, "DaemonSet");
    let container = &daemon["spec"]["template"]["spec"]["containers"][0];
    let list = container["args"].as_array().expect("arguments").iter();
    list.map(|argument| argument.as_str().expect("text").replace("$(NODE_NAME)", "win-1")).collect()
}

#[test]
fn every_flag_is_one_that_the_program_knows() {
    let command = Cli::command();
    let proxy = command.find_subcommand("proxy").expect("the command").clone();
    let known = |flag: &str| {
        proxy.get_arguments().chain(command.get_arguments()).any(|argument| {
            argument.get_long_and_visible_aliases().is_some_and(|names| names.contains(&flag))
        })
    };
    for cni in Cni::ALL {
        let arguments = arguments(cni);
        assert_eq!(arguments[0], "proxy");
        let mut line = vec!["transom".to_owned()];
        for argument in &arguments {
            if let Some(flag) = argument.strip_prefix("--") {
                let (name, _) = flag.split_once('=').expect("flags have their values with them");
                assert!(known(name), "{}: --{name} is no flag of transom proxy", cni.name());
                // Only Windows has a native HNS.
                if name == "hns" && !cfg!(windows) {
                    continue;
                }
            }
            line.push(argument.clone());
        }
        line.extend(["-f".to_owned(), "-".to_owned()]);
        let parsed = Cli::from_args(&line).unwrap_or_else(|error| panic!("{}: {error}", cni.name()));
        assert_eq!(parsed.notices(), [], "every flag has an effect: {line:?}");
    }
}

#[test]
fn configuration_environment_and_arguments_agree() {
    for cni in Cni::ALL {
        let map = object(cni, "ConfigMap");
        let text = map["data"]["config.conf"].as_str().expect("a configuration");
        let configuration = Configuration::parse(text).expect("kube-proxy's");
        let daemon = object(cni, "DaemonSet");
        let pod = &daemon["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let variables = container["env"].as_array().expect("variables").iter();
        let environment: BTreeMap<&str, &Value> =
            variables.map(|variable| (variable["name"].as_str().expect("a name"), variable)).collect();
        assert_eq!(environment["KUBE_NETWORK"]["value"], *configuration.winkernel.network_name);
        assert_eq!(environment["NODE_NAME"]["valueFrom"]["fieldRef"]["fieldPath"], "spec.nodeName");
        assert_eq!(environment["POD_IP"]["valueFrom"]["fieldRef"]["fieldPath"], "status.podIP");
        // What the program is told to read is mounted there.
        let mount = container["volumeMounts"][0]["mountPath"].as_str().expect("a path");
        assert!(arguments(cni).contains(&format!("--config={mount}/config.conf")));
        assert_eq!(configuration.client_connection.kubeconfig, format!("{mount}/kubeconfig.conf"));
        // Probes ask where health is served.
        let port = &container["ports"][0];
        assert_eq!(configuration.healthz_bind_address, format!("0.0.0.0:{}", port["containerPort"]));
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            assert_eq!(container[probe]["httpGet"]["port"], port["name"], "{probe}");
        }
        // A HostProcess pod, and nothing that goes through a shell.
        assert_eq!(pod["securityContext"]["windowsOptions"]["hostProcess"], true);
        assert_eq!(pod["hostNetwork"], true);
        assert_eq!(container["command"], json!(["$CONTAINER_SANDBOX_MOUNT_POINT/transom.exe"]));
        assert_eq!(container["image"], concat!("transom:", env!("CARGO_PKG_VERSION")));
        assert_eq!(
            cni.is_overlay(),
            arguments(cni).iter().any(|it| it.starts_with("--source-vip-endpoint="))
        );
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn workflows_are_yaml_and_pin_what_they_use() {
    let folder = root().join(".github/workflows");
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).expect("workflows") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("text");
        let workflow: Value =
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(workflow["name"].is_string() && workflow["on"].is_object(), "{}", path.display());
        for (name, job) in workflow["jobs"].as_object().expect("jobs") {
            assert!(job["runs-on"].is_string() && job["timeout-minutes"].is_number(), "{name}");
            for step in job["steps"].as_array().expect("steps") {
                let Some(uses) = step["uses"].as_str() else {
                    assert!(step["run"].is_string(), "{name}: {step}");
                    continue;
                };
                let version = uses.split_once("@v").map_or("", |(_, version)| version);
                let parts: Vec<Option<u32>> = version.split('.').map(|part| part.parse().ok()).collect();
                assert!(
                    parts.len() == 3 && parts.iter().all(Option::is_some),
                    "{uses} names no whole version"
                );
                count += 1;
            }
        }
    }
    assert!(count > 0, "there are workflows with actions");
}

#[test]
fn the_workflows_command_line_is_one_that_the_program_takes() {
    let text = std::fs::read_to_string(root().join(".github/workflows/windows.yml")).expect("the workflow");
    let line =
        text.lines().find_map(|line| line.split_once("transom.exe ")).expect("a call of the program").1;
    let words = line.trim_end_matches(" |").replace("$build", "10.0.1.2");
    // Only Windows has a native HNS.
    let words = if cfg!(windows) { words } else { words.replace("--hns native ", "") };
    let parsed = Cli::from_args(["transom"].into_iter().chain(words.split_whitespace()));
    assert!(parsed.is_ok(), "{words}: {parsed:?}");
    let report: Value = serde_json::from_str(&printed(&words)).expect("JSON");
    assert_eq!((&report["form"], &report["scope"]), (&json!(1), &json!("nat")));
    assert_eq!((&report["build"], &report["hns"]["kind"]), (&json!("10.0.1.2"), &json!("emulated")));
    assert_eq!((&report["report"]["failed"], &report["report"]["outOfScope"]), (&json!(0), &json!(28)));
}
