//! `transom vfp` as a program: every view in every form, every verb of vfpctrl, and what is unknown.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use vfpctrl::Verb;

/// One view of the switch of node n1; `flags` are parted by blanks.
fn vfp(view: &str, flags: &str) -> Output {
    vfp_with(view, flags, &[])
}

/// The same with words behind that may hold blanks.
fn vfp_with(view: &str, flags: &str, words: &[&str]) -> Output {
    let mut arguments = vec!["vfp".to_owned(), view.to_owned(), "--node".to_owned(), "n1".to_owned()];
    for name in ["cluster.yaml", "services.yaml"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/paths").join(name);
        arguments.extend(["-f".to_owned(), path.to_str().expect("a path in UTF-8").to_owned()]);
    }
    arguments.extend(flags.split_whitespace().map(str::to_owned));
    arguments.extend(words.iter().map(|word| (*word).to_owned()));
    Command::new(env!("CARGO_BIN_EXE_transom")).args(arguments).output().expect("the program starts")
}

fn stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

const SENT: &str = "--enable-dsr --send pod/l1=svc/far:80 --send pod/l1=svc/near:80/udp";

#[test]
fn tables() {
    for (view, flags) in [
        ("ports", ""),
        ("layers", "--port pod/l1"),
        ("groups", "--port pod/l1"),
        ("rules", "--port pod/default/l1 --group SLB_GROUP_NAT_IPv4_OUT"),
        ("flows", "--port pod/l1"),
        ("counters", ""),
        ("nat", "--port pod/l1"),
    ] {
        insta::assert_snapshot!(format!("table_{view}"), stdout(&vfp(view, &format!("{SENT} {flags}"))));
    }
}

#[test]
fn bindings_of_translated_connections() {
    let text = stdout(&vfp("nat", "--port host --send node=svc/far:80 --send external=192.0.2.11:30031"));
    let (_, bindings) = text.split_once("\nBindings\n").expect("something was translated");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = bindings.lines().map(words).collect();
    assert_eq!(rows[0], ["PROTOCOL", "INNER", "OUTER", "REMOTE", "POOL"]);
    assert_eq!(rows.len(), 3, "{bindings}");
    assert!(
        rows[1..].iter().any(|row| row[1].starts_with("192.0.2.11:") && row[3] == "10.50.3.5:8080"),
        "{bindings}"
    );
    assert!(
        rows[1..].iter().any(|row| row[1].starts_with("203.0.113.10:") && row[3] == "10.50.2.5:8080"),
        "{bindings}"
    );
    assert!(rows[1..].iter().all(|row| row[0] == "TCP" && row[2].starts_with("10.50.1.2:")), "{bindings}");
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.iter().any(has_null),
        Value::Object(members) => members.values().any(has_null),
        _ => false,
    }
}

#[test]
fn documents() {
    for view in ["layers", "groups", "flows", "counters", "nat"] {
        let text = stdout(&vfp(view, &format!("{SENT} --port pod/l1 --format json")));
        let value: Value = serde_json::from_str(&text).expect("one JSON document");
        assert!(!has_null(&value), "{view}: {text}");
        if view != "groups" {
            insta::assert_snapshot!(format!("json_{view}"), text);
        }
    }
    // These are vfpctrl's own: a line for each port.
    for (view, key) in [("ports", "Ports"), ("rules", "Layers")] {
        let text = stdout(&vfp(view, "--format json"));
        for line in text.lines() {
            let value: Value = serde_json::from_str(line).expect("a JSON document on each line");
            assert!(value[key].is_array() && !has_null(&value), "{view}: {line}");
        }
    }
    let text = stdout(&vfp("rules", "--format json --port pod/l1 --group LB_DSR_IPv4_OUT --layer LB_DSR"));
    let value: Value = serde_json::from_str(&text).expect("one JSON document");
    assert!(value["Rules"].is_array(), "of one group, its rules alone: {text}");
}

#[test]
fn the_tools_own_text() {
    for (view, verb) in [
        ("ports", "list-vmswitch-port"),
        ("layers", "list-layer"),
        ("groups", "list-group"),
        ("rules", "list-rule"),
        ("flows", "list-unified-flow"),
        ("counters", "get-port-counter"),
        ("nat", "list-nat-range"),
    ] {
        let text = stdout(&vfp(view, &format!("{SENT} --port pod/l1 --format vfpctrl")));
        assert!(text.contains(&format!("\r\nCommand {verb} succeeded!\r\n")), "{view}: {text}");
        assert_eq!(text.matches('\n').count(), text.matches("\r\n").count(), "{view}: every line ends CR LF");
    }
}

#[test]
fn every_verb_is_understood() {
    const TUPLE: &str = "6 10.50.1.5 1000 10.60.0.23 80 2 1";
    for verb in Verb::ALL {
        let word = verb.word();
        let slashed = format!("/{word}");
        let mut words = vec!["--", "/port", "pod/l1", &slashed];
        if verb == Verb::ProcessTuples {
            words.push(TUPLE);
        }
        let text = stdout(&vfp_with("ctrl", SENT, &words));
        assert!(text.ends_with(&format!("Command {word} succeeded!\r\n")), "{word}: {text}");
    }
    let text = stdout(&vfp("process-tuples", &format!("--enable-dsr --port pod/l1 {TUPLE}")));
    insta::assert_snapshot!("process_tuples", text);
}

#[test]
fn selectors_are_taken_as_scripts_write_them() {
    let wanted = stdout(&vfp("ctrl", "-- /port pod/default/l1 /list-layer"));
    let ports = stdout(&vfp("ctrl", "-- /list-vmswitch-port /format 1"));
    let ports: Value = serde_json::from_str(&ports).expect("JSON");
    let port = ports["Ports"].as_array().expect("a list").iter().find(|port| port["VmsPortId"] == 3);
    let port = port.and_then(|port| port["Name"].as_str()).expect("the first pod's port");
    for line in [
        format!("/port {port} /list-layer"),
        format!("/list-layer /port:{port}"),
        "/PORT:pod/l1 /List-Layer".to_owned(),
        "/port 3 /list-layer".to_owned(),
    ] {
        assert_eq!(stdout(&vfp("ctrl", &format!("-- {line}"))), wanted, "{line}");
    }
}

#[test]
fn mistakes_are_said() {
    for (view, flags, words) in [
        ("rules", "--port pod/nobody", "there is no port pod/nobody; ports: host, external, pod/default/l1"),
        ("rules", "--port pod/l1 --layer LB", "there is no layer LB; layers: ACL_ENDPOINT_LAYER, LB_DSR,"),
        ("groups", "--group NONE", "there is no group NONE; groups: "),
        ("process-tuples", "--port pod/l1 6 10.50.1.5 1000 10.60.0.23 80 3", "direction \"3\" is wrong"),
    ] {
        let output = vfp(view, flags);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{view} {flags}: {told}");
        assert!(told.contains(words), "{view} {flags}: no {words:?} in {told}");
        assert!(output.stdout.is_empty());
    }
    // vfpctrl says it on standard output, in its own form.
    let output = vfp("ctrl", "-- /port 99 /list-layer");
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.starts_with("ERROR: there is no port 99") && told.ends_with("\r\n"), "{told}");
}
