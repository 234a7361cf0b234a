//! The program that stays: edits on disk are applied, broken ones are said and the rest is kept, and it ends when told.

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

const NODE: &str = r"
apiVersion: v1
kind: Node
metadata: {name: win, labels: {kubernetes.io/os: windows}}
spec: {podCIDR: 10.50.1.0/24}
status: {addresses: [{type: InternalIP, address: 192.0.2.11}]}
";

fn service(backends: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: web}}\nspec: {{clusterIP: 10.60.0.20, ports: [{{port: 80}}]}}\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: web-1, labels: {{kubernetes.io/service-name: web}}}}\naddressType: IPv4\nports: [{{port: 8080}}]\nendpoints: [{backends}]\n"
    )
}

struct Running {
    child: Option<Child>,
    lines: Lines<BufReader<ChildStdout>>,
    seen: Vec<String>,
}

impl Running {
    fn start(folder: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_transom"))
            .args(["proxy", "--network", "l2bridge", "--iptables-min-sync-period", "1ms", "--manifests"])
            .arg(folder)
            .env_remove("KUBE_NETWORK")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        Self { child: Some(child), lines, seen: Vec::new() }
    }

    /// Reads on until a line holds the words; the test runner ends a test that waits for ever.
    fn until(&mut self, words: &str) {
        loop {
            let line =
                self.lines.next().unwrap_or_else(|| panic!("it ended before {words:?}: {:#?}", self.seen));
            let line = line.expect("a line of text");
            let found = line.contains(words);
            self.seen.push(line);
            if found {
                return;
            }
        }
    }

    fn end(mut self) -> (i32, String) {
        let child = self.child.take().expect("it runs");
        let told = Command::new("kill").arg(child.id().to_string()).status().expect("kill runs");
        assert!(told.success());
        let output = child.wait_with_output().expect("it ends");
        (
            output.status.code().expect("it ends by itself"),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    }
}

impl Drop for Running {
    /// A test that fails leaves nothing running.
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn edits_are_applied_as_they_are_saved() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("web.yaml");
    std::fs::write(folder.path().join("node.yaml"), NODE).expect("a file");
    std::fs::write(&file, service("{addresses: [10.50.2.5], nodeName: lin}")).expect("a file");
    let mut running = Running::start(folder.path());
    running.until("create load balancer 10.60.0.20:80/TCP");
    running.until("Watching the manifests");

    std::fs::write(&file, service("{addresses: [10.50.2.6], nodeName: lin}")).expect("a file");
    running.until("create endpoint 10.50.2.6");
    running.until("replace load balancer 10.60.0.20:80/TCP");
    running.until("delete endpoint 10.50.2.5");

    // A broken edit keeps the last good version; the next good one is applied.
    std::fs::write(&file, "kind: [").expect("a file");
    std::fs::write(
        folder.path().join("second.yaml"),
        service("{addresses: [10.50.2.6], nodeName: lin}").replace("web", "two").replace(".20", ".21"),
    )
    .expect("a file");
    running.until("create load balancer 10.60.0.21:80/TCP");
    std::fs::remove_file(&file).expect("the file is there");
    running.until("delete load balancer 10.60.0.20:80/TCP");

    let (code, said) = running.end();
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("web.yaml:1: "), "the broken edit was said: {said}");
}

#[test]
fn the_input_given_on_standard_input_is_served_until_the_end() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_transom"))
        .args(["proxy", "--once", "--network", "l2bridge", "--manifests", "-"])
        .env_remove("KUBE_NETWORK")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let text = format!("{NODE}---\n{}", service("{addresses: [10.50.2.5], nodeName: lin}"));
    std::io::Write::write_all(&mut child.stdin.take().expect("its input"), text.as_bytes())
        .expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).contains("create load balancer 10.60.0.20:80/TCP"));
}
