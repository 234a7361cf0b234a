//! What looks into a lab and what disturbs it: `trace`, `capture`, `vfp` and `hns` with `--lab`, faults, snapshots, routes.
//! Labs of the cluster in examples/shop, with real packets.
#![cfg(target_os = "linux")]

mod lab_support;

use std::process::{Command, Output};

use lab_support::{Lab, tcp};
use serde_json::Value;

fn shop() -> String {
    let read = |name: &str| {
        let path = format!("{}/../../examples/shop/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    ["nodes", "shell", "shop", "system"].map(read).join("\n---\n")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs the program about a lab; `LAB` among the words is its name.
fn try_run(lab: &Lab, line: &str) -> Output {
    let name = lab.names().lab().as_str();
    let words = line.split_whitespace().map(|word| if word == "LAB" { name } else { word });
    Command::new(env!("CARGO_BIN_EXE_transom")).args(words).output().expect("the program starts")
}

fn run(lab: &Lab, line: &str) -> String {
    let done = try_run(lab, line);
    assert!(done.status.success(), "{line}: {}{}", text(&done.stdout), text(&done.stderr));
    text(&done.stdout)
}

/// Runs the program, which must end with this code; what it printed, errors behind the rest.
fn fails(lab: &Lab, line: &str, code: i32) -> String {
    let done = try_run(lab, line);
    let all = text(&done.stdout) + &text(&done.stderr);
    assert_eq!(done.status.code(), Some(code), "{line}: {all}");
    all
}

/// The lines hold these texts, in this order; other lines may stand between.
fn holds(text: &str, wanted: &[&str]) {
    let mut lines = text.lines();
    for want in wanted {
        assert!(lines.any(|line| line.contains(want)), "{want:?} is missing or out of order:\n{text}");
    }
}

#[test]
fn a_lab_is_looked_into() {
    let lab = Lab::up(&shop(), &[]);
    objects(&lab);
    switches(&lab);
    traces(&lab);
    captures(&lab);
    snapshot(&lab);
    route(&lab);
}

/// `hns --lab`.
fn objects(lab: &Lab) {
    let listed = run(lab, "hns list endpoints --lab LAB --node win-1 -o json");
    let listed: Value = serde_json::from_str(&listed).expect("the list is JSON");
    let names: Vec<&str> =
        listed.as_array().expect("a list").iter().filter_map(|endpoint| endpoint["Name"].as_str()).collect();
    assert!(names.contains(&"shop/web-1") && !names.contains(&"shop/web-2"), "{names:?}");
    let several = fails(lab, "hns list endpoints --lab LAB", 1);
    assert!(several.contains("has 2 Windows nodes; choose one with --node: win-1, win-2"), "{several}");
    let linux = fails(lab, "hns list endpoints --lab LAB --node linux-1", 1);
    assert!(linux.contains("linux-1 is a Linux node"), "{linux}");
    let none = fails(lab, "hns list endpoints --lab no-such-lab --node win-1", 1);
    assert!(none.contains("there is no lab no-such-lab"), "{none}");
}

/// `vfp --lab`: one implementation, which the daemon runs.
fn switches(lab: &Lab) {
    let ports = run(lab, "vfp ports --lab LAB --node win-1");
    holds(&ports, &["host", "external", "pod/shop/web-1"]);
    for (ours, theirs) in [("rules", "/list-rule"), ("layers", "/list-layer"), ("groups", "/list-group")] {
        let shown = run(lab, &format!("vfp {ours} --lab LAB --node win-1 --port pod/web-1 --format vfpctrl"));
        let tool = run(lab, &format!("vfp ctrl --lab LAB --node win-1 -- /port pod/web-1 {theirs}"));
        // Counters go on.
        let still =
            |text: &str| text.lines().filter(|line| !line.contains("ount")).collect::<Vec<_>>().join("\n");
        assert_eq!(still(&shown), still(&tool), "{ours}");
        assert!(shown.lines().count() > 10, "{shown}");
    }
    let rules = run(lab, "vfp rules --lab LAB --node win-1 --port pod/web-1 --layer LB_DSR");
    assert!(rules.contains("10.96.20.2"), "the API's load balancer has its rule:\n{rules}");
    let walk =
        "vfp process-tuples --lab LAB --node win-1 --port pod/web-1 6 10.244.2.5 50000 10.96.20.2 8000 1 1";
    assert!(run(lab, walk).contains("LB_DSR"), "a packet is walked through the rules");
    let unknown = fails(lab, "vfp rules --lab LAB --node win-1 --port pod/nobody", 1);
    assert!(
        unknown.contains("there is no port pod/nobody; ports: host, external, pod/shop/web-1"),
        "{unknown}"
    );
    let wrong = fails(lab, "vfp ctrl --lab LAB --node win-1 -- /list-nothing", 1);
    assert!(wrong.contains("ERROR"), "{wrong}");
}

/// `trace --lab`.
fn traces(lab: &Lab) {
    // A Windows pod, a Linux backend.
    let told = run(lab, "trace --lab LAB --from pod/web-1 --to svc/api:8000");
    holds(
        &told,
        &[
            "TCP from pod/shop/web-1 (10.244.2.5:",
            "Network overlay, load balancers with direct server return",
            "Request",
            "win-1 pod/shop/web-1 OUT",
            "LB_DSR: lbnat",
            "destination 10.96.20.2:8000 → 10.244.1.",
            "VXLAN header put on: VNI 4096, 192.0.2.12 > 192.0.2.11",
            "win-1 external IN",
            "wire behind win-1",
            "linux-1 (kernel): its steps are not seen",
            "Reply",
            "linux-1 (kernel): its steps are not seen",
            "win-1 external OUT",
            "VXLAN header taken off: VNI 4096, 192.0.2.11 > 192.0.2.12",
            "win-1 pod/shop/web-1 IN",
            "→ 10.96.20.2:8000",
            "Backend endpoint/10.244.1.",
            "Verdict: answered after",
        ],
    );
    // From node to node, as a document; `lab trace` is the same command.
    let document = run(lab, "lab trace --name LAB --from pod/web-1 --to pod/web-2:8080 -o json");
    let document: Value = serde_json::from_str(&document).expect("the report is JSON");
    let places = |way: &str| -> Vec<String> {
        let hops = document[way].as_array().expect("a list of hops");
        let place = |hop: &Value| match hop["port"].as_str() {
            Some(port) => format!("{} {port}", hop["node"].as_str().unwrap_or_default()),
            None => hop["kind"].as_str().unwrap_or_default().to_owned(),
        };
        hops.iter().map(place).collect()
    };
    let way = ["win-1 pod/shop/web-1", "win-1 external", "wire", "win-2 external", "win-2 pod/shop/web-2"];
    assert_eq!(places("request"), way);
    let back = ["win-2 pod/shop/web-2", "win-2 external", "wire", "win-1 external", "win-1 pod/shop/web-1"];
    assert_eq!(places("reply"), back);
    assert_eq!(document["backend"]["sees"], document["client"]);
    // A Linux client.
    let told = run(lab, "trace --lab LAB --from pod/shell --to svc/web:80");
    holds(
        &told,
        &["linux-1 (kernel)", "external OUT", "IN", "Reply", "linux-1 (kernel)", "Verdict: answered"],
    );
    // Nobody answers, and that has a reason.
    let dropped = fails(lab, "trace --lab LAB --from pod/web-1 --to 10.244.3.77:80", 1);
    holds(
        &dropped,
        &["win-2 external OUT", "✗ dropped: Forwarding", "Verdict: timed out after", "switch has"],
    );
    let refused = fails(lab, "trace --lab LAB --from pod/web-1 --to pod/web-2:9", 1);
    holds(&refused, &["Refusal", "win-2 pod/shop/web-2 OUT", "Verdict: refused after"]);
    assert!(refused.contains("nothing listens on 10.244.3.5:9"), "{refused}");
    let unknown = fails(lab, "trace --lab LAB --from pod/web-1 --to 10.96.20.2:81", 1);
    assert!(unknown.replace("\n  ", " ").contains("has no port 81/TCP; it has 8000/TCP"), "{unknown}");
    let nobody = fails(lab, "trace --lab LAB --from pod/nobody --to svc/web:80", 1);
    assert!(nobody.contains("there is no running pod nobody"), "{nobody}");
}

/// `capture --lab`, as tshark reads it.
fn captures(lab: &Lab) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("lab.pcapng").display().to_string();
    let told = run(lab, &format!("capture --lab LAB --send pod/web-1=pod/web-2:8080 -w {file}"));
    holds(&told, &["pod/web-1=pod/web-2:8080: answered by shop/web-2", "packets written to"]);
    let shark = |filter: &str, fields: &[&str]| -> Vec<String> {
        let mut command = Command::new("tshark");
        let checks = ["tcp.check_checksum:TRUE", "udp.check_checksum:TRUE", "ip.check_checksum:TRUE"];
        command.args(["-r", &file, "-Y", filter, "-T", "fields"]);
        command.args(checks.iter().flat_map(|check| ["-o", *check]));
        command.args(fields.iter().flat_map(|field| ["-e", *field]));
        let read = command.output().expect("tshark starts");
        assert!(read.status.success(), "{filter}: {}", text(&read.stderr));
        text(&read.stdout).lines().map(str::to_owned).collect()
    };
    let bad =
        "tcp.checksum.status == 0 || udp.checksum.status == 0 || ip.checksum.status == 0 || _ws.malformed";
    assert_eq!(shark(bad, &["frame.number", "frame.comment"]), [""; 0]);
    assert!(shark("tcp.checksum.status == 1", &["frame.number"]).len() > 20, "checksums were looked at");
    let tunnels = shark("vxlan && tcp", &["vxlan.vni", "udp.dstport"]);
    assert!(tunnels.len() >= 8, "{tunnels:?}");
    assert!(tunnels.iter().all(|line| line == "4096\t4789"), "{tunnels:?}");
    let seen = shark("tcp.flags.syn == 1 && tcp.flags.ack == 0", &["frame.interface_name", "frame.comment"]);
    for (interface, comment) in [
        ("win-1 endpoint shop/web-1", "OUT before the layers"),
        ("win-1 external", "IN behind the layers"),
        ("win-2 external", "OUT before the layers"),
        ("win-2 endpoint shop/web-2", "IN behind the layers"),
    ] {
        let found = seen.iter().any(|line| line.starts_with(interface) && line.contains(comment));
        assert!(found, "{interface} {comment}: {seen:?}");
    }
    let times: Vec<f64> =
        shark("frame", &["frame.time_epoch"]).iter().map(|time| time.parse().expect("a time")).collect();
    assert!(times.is_sorted(), "packets are in the order of their times: {times:?}");
    assert!(times.first().is_some_and(|time| *time > 1e9), "times are those of the wall clock: {times:?}");
}

/// `lab snapshot`.
fn snapshot(lab: &Lab) {
    let taken: Value = serde_json::from_str(&run(lab, "lab snapshot --name LAB")).expect("it is JSON");
    assert_eq!(taken["status"]["name"], lab.names().lab().as_str());
    for node in ["win-1", "win-2"] {
        let held = &taken["nodes"][node];
        for kind in ["networks", "endpoints", "namespaces", "loadBalancers"] {
            let listed =
                run(lab, &format!("hns list {} --lab LAB --node {node} -o json", kind.to_lowercase()));
            let listed: Value = serde_json::from_str(&listed).expect("the list is JSON");
            let ids = |objects: &Value| -> std::collections::BTreeSet<String> {
                let objects = objects.as_array().unwrap_or_else(|| panic!("{kind} of {node}: {objects}"));
                objects.iter().map(|object| object["ID"].as_str().expect("an id").to_lowercase()).collect()
            };
            assert_eq!(ids(&held["hns"][kind]), ids(&listed), "{kind} of {node}");
            assert!(!ids(&listed).is_empty(), "{kind} of {node}");
        }
        assert!(held["switch"]["ports"].is_object(), "ports of {node}: {}", held["switch"]["ports"]);
        for part in ["layers", "groups", "rules", "counters"] {
            assert!(held["switch"][part].as_array().is_some_and(|list| !list.is_empty()), "{part} of {node}");
        }
        let flows = &held["daemon"]["ports"];
        assert!(
            flows.as_array().is_some_and(|ports| ports.iter().all(|port| port["flows"].is_u64())),
            "{flows}"
        );
    }
}

/// `lab route`: packets for an address go to another node.
fn route(lab: &Lab) {
    let served = || lab.ask("outside", &tcp("198.51.100.10:80")).server;
    // The policy is Local: whoever gets the packets serves them.
    for (node, pod) in [("win-1", "shop/web-1"), ("win-2", "shop/web-2"), ("win-1", "shop/web-1")] {
        let told = run(lab, &format!("lab route 198.51.100.10 {node} --name LAB"));
        assert_eq!(told, format!("198.51.100.10 is led to {node}.\n"));
        assert_eq!(served(), pod, "led to {node}");
    }
    let wrong = fails(lab, "lab route 198.51.100.10 win-9 --name LAB", 1);
    assert!(wrong.contains("there is no node win-9"), "{wrong}");
}

#[test]
fn a_lab_is_disturbed() {
    let lab = Lab::up(&shop(), &[]);
    links(&lab);
    hns_faults(&lab);
    // A process is killed, and is there again.
    let before = lab.process("proxy-win-1");
    let told = run(&lab, "lab fault --kill proxy-win-1 --name LAB");
    assert_eq!(told, "proxy-win-1 was killed and is started again.\n");
    lab.until("the proxy runs again", || {
        let now = lab.process("proxy-win-1");
        now.restarts > before.restarts && now.pid.is_some()
    });
    let unknown = fails(&lab, "lab fault --kill nobody --name LAB", 1);
    assert!(unknown.contains("there is no process nobody; the lab has hns-win-1"), "{unknown}");
}

fn links(lab: &Lab) {
    let trace = "trace --lab LAB --from pod/web-1 --to pod/web-2:8080";
    let kernel = "trace --lab LAB --from node/linux-1 --to pod/web-2:8080";
    for (node, trace, why) in [
        ("win-2", trace, "the link of win-2 is cut"),
        ("win-1", trace, "the link is cut"),
        ("linux-1", kernel, "the link of linux-1 is cut"),
    ] {
        run(lab, trace);
        assert_eq!(
            run(lab, &format!("lab fault {node} --link cut --name LAB")),
            format!("Link of {node}: cut\n")
        );
        let status = run(lab, "lab status --name LAB");
        assert!(status.contains(&format!("Fault: the link of {node}: cut")), "{status}");
        let failed = fails(lab, trace, 1);
        let verdict = failed.find("Verdict:").map(|at| failed[at..].replace("\n  ", " ")).unwrap_or_default();
        assert!(verdict.contains("timed out") && verdict.contains(why), "{node}: {failed}");
        run(lab, &format!("lab fault {node} --link good --name LAB"));
        run(lab, trace);
    }
    // A slow link: no answer comes before the delay is over, four times each way at least.
    run(lab, "lab fault win-2 --link delay=20ms --name LAB");
    let slow: Value = serde_json::from_str(&run(lab, &format!("{trace} -o json"))).expect("it is JSON");
    assert!(
        slow["verdict"]["microseconds"].as_u64().is_some_and(|took| took >= 80_000),
        "{}",
        slow["verdict"]
    );
    // What is lost is counted, on the wire of a Windows node and at the port of a Linux node.
    run(lab, "lab fault win-2 --link loss=100% --name LAB");
    fails(lab, trace, 1);
    let taken: Value = serde_json::from_str(&run(lab, "lab snapshot --name LAB")).expect("it is JSON");
    assert_eq!(taken["nodes"]["win-2"]["link"]["loss"], 1.0);
    let lost = &taken["nodes"]["win-2"]["daemon"]["devices"]["link"]["lost"];
    assert!(lost.as_u64().is_some_and(|lost| lost > 0), "{lost}");
    run(lab, "lab fault win-2 --clear --name LAB");
    run(lab, "lab fault linux-1 --link loss=100% --name LAB");
    fails(lab, kernel, 1);
    let status = run(lab, "lab status --name LAB");
    assert!(status.contains("Fault: the link of linux-1: loss 100%"), "{status}");
    let delay = fails(lab, "lab fault linux-1 --link delay=20ms --name LAB", 1);
    assert!(delay.contains("delays no frames here; use a Windows node"), "{delay}");
    run(lab, "lab fault linux-1 --clear --name LAB");
    run(lab, kernel);
    assert!(!run(lab, "lab status --name LAB").contains("Fault:"));
    let unknown = fails(lab, "lab fault win-9 --link cut --name LAB", 1);
    assert!(unknown.contains("has no node win-9; it has linux-1, win-1, win-2"), "{unknown}");
}

fn hns_faults(lab: &Lab) {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = folder.path().join("plan.yaml");
    std::fs::write(&plan, "rules:\n  - name: nothing works\n    fault: Degraded\n")
        .expect("the plan is written");
    let told = run(lab, &format!("lab fault win-1 --plan {} --name LAB", plan.display()));
    assert_eq!(told, "HNS of win-1: a fault plan of 1 rules\n");
    let status = run(lab, "lab status --name LAB");
    assert!(status.contains("Fault: HNS of win-1: nothing works"), "{status}");
    assert_eq!(run(lab, "lab fault win-1 --clear --name LAB"), "No faults on win-1.\n");
    assert!(!run(lab, "lab status --name LAB").contains("Fault:"));
    // HNS forgets its load balancers; the proxy puts them back.
    let count = || {
        let listed = run(lab, "hns list loadbalancers --lab LAB --node win-1 -o json");
        serde_json::from_str::<Value>(&listed).expect("it is JSON").as_array().map_or(0, Vec::len)
    };
    let before = count();
    assert!(before > 0);
    let told = run(lab, "lab fault win-1 --restart-hns --loss loadbalancers --name LAB");
    assert_eq!(told, "HNS of win-1 was restarted and lost all load balancers.\n");
    lab.until("the load balancers are back", || count() == before);
    let linux = fails(lab, "lab fault linux-1 --restart-hns --name LAB", 1);
    assert!(linux.contains("linux-1 is a Linux node"), "{linux}");
}
