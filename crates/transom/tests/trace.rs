//! `transom trace` as a program: what it prints for a handful of paths, its document, its exit codes.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn transom(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_transom")).args(arguments).output().expect("the program starts")
}

fn manifest(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/paths").join(name);
    path.to_str().expect("a path in UTF-8").to_owned()
}

/// A trace in the cluster of the packet paths; `flags` are parted by blanks.
fn trace(flags: &str) -> Output {
    let manifests = if flags.contains("[2001") || flags.contains("6-") {
        vec![manifest("cluster-ipv6.yaml")]
    } else {
        vec![manifest("cluster.yaml"), manifest("services.yaml")]
    };
    let mut arguments = vec!["trace", "--node", "n1"];
    arguments.extend(manifests.iter().flat_map(|path| ["-f", path.as_str()]));
    arguments.extend(flags.split_whitespace());
    transom(&arguments)
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn document(flags: &str) -> Value {
    serde_json::from_slice(&trace(flags).stdout).expect("one JSON document")
}

#[test]
fn what_people_read() {
    for (name, flags) in [
        ("overlay_dsr_far", "--enable-dsr --from pod/l1 --to svc/far:80"),
        ("overlay_near", "--from pod/l1 --to svc/near:80"),
        ("l2bridge_node_port", "--network l2bridge --from external --to 192.0.2.11:30031"),
        (
            "l2bridge_ipv6",
            "--network l2bridge --enable-dsr --from pod/l1 --to [2001:db8:60::23]:80 --proto udp",
        ),
        ("no_local_backend", "--from external --to 192.0.2.11:30034"),
        ("refused", "--enable-dsr --from pod/l1 --to pod/r1:9"),
    ] {
        insta::assert_snapshot!(name, stdout(&trace(flags)));
    }
}

#[test]
fn the_document() {
    let flags = "--enable-dsr --from pod/l1 --to svc/near:80 -o json";
    insta::assert_snapshot!("document", stdout(&trace(flags)));
    let yaml = stdout(&trace(&flags.replace("json", "yaml")));
    let yaml: Value = serde_saphyr::from_str(&yaml).expect("one YAML document");
    assert_eq!(yaml, document(flags), "both forms say the same");
}

/// Every name that a document uses.
fn names(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                assert!(!value.is_null(), "{name} is null; what does not apply is left out");
                found.insert(name.clone());
                names(value, found);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| names(value, found)),
        _ => {}
    }
}

#[test]
fn the_help_documents_every_name_and_word() {
    let help = stdout(&transom(&["trace", "--help"]));
    let mut used = BTreeSet::new();
    for flags in [
        "--enable-dsr --from pod/l1 --to svc/far:80 -o json",
        "--from external --to 192.0.2.11:30034 -o json",
        "--from pod/l1 --to pod/r1:9 --proto udp -o json",
        "--network l2bridge --from pod/l1 --to 10.99.0.1:1 -o json",
    ] {
        let document = document(flags);
        names(&document, &mut used);
        let verdict = &document["verdict"];
        for word in [&verdict["outcome"], &verdict["reason"]["kind"]].into_iter().filter_map(Value::as_str) {
            assert!(help.contains(word), "{flags}: {word} is not in the help");
        }
    }
    for name in used {
        assert!(help.contains(&name), "the field {name} is not in the help");
    }
}

#[test]
fn verdicts_and_exit_codes() {
    for (flags, code, words) in [
        ("--from pod/l1 --to svc/near:tcp", 0, "Verdict: answered after "),
        ("--from pod/l1 --to svc/near:80 --proto udp", 0, "Verdict: answered after "),
        ("--from node/n3 --to svc/default/far:80", 0, "Backend default/r3 at 10.50.3.5:8080"),
        ("--from pod/r1 --to pod/l1:8080", 0, "its own end."),
        ("--from external:198.51.100.77 --to svc/port-near:80", 1, "Verdict: "),
        ("--from external:198.51.100.77 --to 192.0.2.11:30033", 0, "sees the client as 198.51.100.77:"),
        ("--from pod/l1 --to 10.60.0.21:81", 1, "has no port 81/TCP; it has 80/TCP, 80/UDP."),
        ("--from node --to 192.0.2.11:30030", 1, "cannot use its own node ports"),
    ] {
        let output = trace(flags);
        let text = stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(output.status.code(), Some(code), "{flags}: {text}");
        assert!(text.contains(words), "{flags}: no {words:?} in {text}");
    }
}

#[test]
fn who_or_what_is_unknown_is_said() {
    for (flags, code, words) in [
        (
            "--from pod/nobody --to svc/near:80",
            1,
            "there is no running pod nobody; pods in the input: default/l1",
        ),
        ("--from pod/l1 --to svc/nobody:80", 1, "there is no Service nobody"),
        (
            "--from pod/l1 --to svc/near:443",
            1,
            "Service near has no port 443 of that protocol; it has 80/TCP, 80/UDP",
        ),
        ("--from node/n9 --to svc/near:80", 1, "there is no node n9; nodes in the input: n1, n2, n3"),
        ("--from pods/l1 --to svc/near:80", 64, "is no place: write pod/NAME"),
        ("--from pod/l1 --to near:80", 64, "is no destination: write svc/NAME:PORT"),
        ("--from pod/l1 --to svc/near:80 --state hns.db", 1, "--state keeps one node's HNS"),
    ] {
        let output = trace(flags);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{flags}: {told}");
        assert!(told.contains(words), "{flags}: no {words:?} in {told}");
        assert!(output.stdout.is_empty(), "{flags}");
    }
}

#[test]
fn all_shows_the_whole_connection() {
    let first = document("--from pod/l1 --to svc/near:80 -o json");
    let all = document("--from pod/l1 --to svc/near:80 --all -o json");
    let whats = |document: &Value, list: &str| -> Vec<String> {
        let hops = document[list].as_array().expect("a list");
        hops.iter().filter_map(|hop| hop["packet"]["what"].as_str()).map(str::to_owned).collect()
    };
    assert!(whats(&first, "request").iter().all(|what| what == "SYN"));
    let every = whats(&all, "request");
    assert!(
        every.iter().any(|what| what == "ACK") && every.iter().any(|what| what.starts_with("FIN")),
        "{every:?}"
    );
}
