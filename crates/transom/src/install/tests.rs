//! What is put into the manifests, and what cannot be.

use serde_json::Value;

use super::*;

fn lines(documents: &[Value]) -> String {
    documents.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")
}

fn rendered(change: impl FnOnce(&mut Request)) -> Result<String, String> {
    let mut request = Request::of(Cni::CalicoVxlan);
    change(&mut request);
    manifests(&request).map(|documents| lines(&documents)).map_err(|error| error.to_string())
}

#[test]
fn wishes_are_put_in() {
    type Wish = fn(&mut Request);
    let rows: &[(Wish, &[&str])] = &[
        (|it| it.image = Some("r.example:5000/t:1".into()), &[r#""image":"r.example:5000/t:1""#]),
        (|it| it.image = Some("t@sha256:0".into()), &[r#""image":"t@sha256:0""#]),
        (
            |it| it.network_name = Some("Calico.*".into()),
            &[r"networkName: Calico.*\n", r#"{"name":"KUBE_NETWORK","value":"Calico.*"}"#],
        ),
        (|it| it.source_vip = Some("10.0.0.9".parse().unwrap()), &[r#"sourceVip: \"10.0.0.9\"\n"#]),
        (|it| it.enable_dsr = Some(false), &[r"enableDSR: false\n"]),
        (
            |it| it.control_plane_endpoint = Some("[2001:db8::1]:6443".into()),
            &[r"server: https://[2001:db8::1]:6443\n", r#""configMap":{"name":"transom-proxy-kubeconfig""#],
        ),
        (
            |it| {
                it.namespace = Some("net".into());
                it.control_plane_endpoint = Some("cp.example:443".into());
            },
            &[
                r#""name":"transom-proxy-kubeconfig","namespace":"net""#,
                r#""subjects":[{"kind":"ServiceAccount","name":"transom-proxy","namespace":"net"}]"#,
            ],
        ),
    ];
    for (wish, wanted) in rows {
        let text = rendered(wish).expect("manifests");
        for part in *wanted {
            assert!(text.contains(part), "{text}\nlacks {part}");
        }
        assert!(!text.contains(r":null"), "{text}");
    }
}

#[test]
fn what_cannot_be_put_in_is_an_error_that_names_the_flag() {
    type Wish = fn(&mut Request);
    let rows: &[(Wish, &[&str])] = &[
        (|it| it.image = Some("t".into()), &["--image", "needs a tag"]),
        (|it| it.image = Some(":1".into()), &["--image"]),
        (|it| it.image = Some("a b:1".into()), &["--image"]),
        (|it| it.image = Some("t:".into()), &["--image"]),
        (|it| it.namespace = Some("Net".into()), &["--namespace"]),
        (|it| it.namespace = Some(String::new()), &["--namespace"]),
        (|it| it.namespace = Some("net".into()), &["--control-plane-endpoint", "--namespace net"]),
        (|it| it.control_plane_endpoint = Some("cp".into()), &["--control-plane-endpoint", "HOST:PORT"]),
        (|it| it.control_plane_endpoint = Some("cp:0".into()), &["--control-plane-endpoint", "port"]),
        (|it| it.control_plane_endpoint = Some("cp:70000".into()), &["--control-plane-endpoint", "port"]),
        (|it| it.control_plane_endpoint = Some("https://cp:443".into()), &["--control-plane-endpoint"]),
        (|it| it.control_plane_endpoint = Some("2001:db8::1:443".into()), &["--control-plane-endpoint"]),
        (|it| it.control_plane_endpoint = Some("a b:443".into()), &["--control-plane-endpoint"]),
        (|it| it.network_name = Some(" ".into()), &["--network-name", "blank"]),
        (|it| it.network_name = Some("Calico(".into()), &["--network-name", "regular expression"]),
        (|it| it.network_name = Some("a\nb".into()), &["--network-name"]),
        (
            |it| {
                it.cni = Cni::FlannelHostGw;
                it.source_vip = Some("10.0.0.9".parse().unwrap());
            },
            &["--source-vip", "bridge"],
        ),
    ];
    for (wish, wanted) in rows {
        let error = rendered(wish).expect_err("refused");
        for part in *wanted {
            assert!(error.contains(part), "{error:?} lacks {part:?}");
        }
    }
}

#[test]
fn names_of_networks_survive_strict_yaml() {
    for name in ["true", "0x10", "null", "1e3", "a: b", "#x", "'", "no", "Calico.*", "&a", "ü", "-"] {
        let mut request = Request::of(Cni::CalicoVxlan);
        request.network_name = Some(name.to_owned());
        let documents = manifests(&request).unwrap_or_else(|error| panic!("{name:?}: {error}"));
        let text =
            documents.iter().find_map(|it| it["data"]["config.conf"].as_str()).expect("a configuration");
        let read = Configuration::parse(text).unwrap_or_else(|error| panic!("{name:?}: {error}\n{text}"));
        assert_eq!(read.winkernel.network_name, name, "{text}");
    }
}

#[test]
fn a_configuration_is_read_strictly() {
    let good = DEPLOY.text("overlays/calico-vxlan/config.conf").expect("a file");
    assert!(Configuration::parse(good).is_ok());
    let rows = [
        ("mode: kernelspace", "mode: ipvs", "mode"),
        ("mode: kernelspace", "mode: kernelspace\nmode: kernelspace", "mode"),
        ("mode: kernelspace", "modes: kernelspace", "modes"),
        ("enableDSR", "enableDsr", "enableDsr"),
        ("enableDSR: true", "enableDSR: yes", "enableDSR"),
        ("enableDSR: true", "enableDSR: \"true\"", "enableDSR"),
        ("networkName: Calico", "networkName: [Calico]", "networkName"),
        ("v1alpha1", "v1beta1", "apiVersion"),
        ("kind: KubeProxy", "kind: Kubelet", "kind"),
    ];
    for (old, new, field) in rows {
        let text = good.replacen(old, new, 1);
        assert_ne!(text, good, "{old}");
        let error = Configuration::parse(&text).expect_err(new);
        assert!(error.contains(field), "{new}: {error}");
    }
}

#[test]
fn every_file_of_deploy_is_known() {
    let deploy = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");
    let mut folders = vec![std::path::PathBuf::from(deploy)];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(deploy).expect("below").to_str().expect("text").replace('\\', "/");
            // Images are built elsewhere, and what watches a proxy is installed by others.
            if !name.starts_with("Dockerfile") && !name.starts_with("observe/") {
                found.push(name);
            }
        }
    }
    found.sort();
    let known: Vec<&str> = DEPLOY.0.iter().map(|(path, _)| *path).collect();
    assert_eq!(found, known, "the table in bundle.rs and the folder differ");
}

#[test]
fn each_overlay_is_built_without_holes() {
    for cni in Cni::ALL {
        let documents =
            manifests(&Request::of(cni)).unwrap_or_else(|error| panic!("{}: {error}", cni.name()));
        let kinds: Vec<&str> = documents.iter().filter_map(|it| it["kind"].as_str()).collect();
        assert_eq!(kinds, ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ConfigMap", "DaemonSet"]);
        assert!(!documents.iter().any(has_null), "{}", cni.name());
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(members) => members.values().any(has_null),
        _ => false,
    }
}
