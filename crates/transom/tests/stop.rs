//! The proxy ends when it is told to, with exit code 0, whatever HNS does: while it hangs in the first pass, and while it is waited for.

#![cfg(unix)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const CLUSTER: &str = include_str!("../testdata/small-cluster.yaml");

/// A proxy that is killed when a test fails.
struct Proxy(Option<Child>);

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Proxy {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let manifests = folder.join("cluster.yaml");
        std::fs::write(&manifests, CLUSTER).expect("a file");
        let child = Command::new(env!("CARGO_BIN_EXE_transom"))
            .args(["proxy", "--network", "l2bridge", "--manifests"])
            .arg(manifests)
            .args(arguments)
            .env_remove("KUBE_NETWORK")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        Self(Some(child))
    }

    fn child(&mut self) -> &mut Child {
        self.0.as_mut().expect("it runs")
    }

    /// Asks with a signal and waits for the end; the test runner ends a test that waits for ever.
    fn end(mut self, signal: &str) -> (Option<i32>, String) {
        let child = self.0.take().expect("it runs");
        let told = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
        assert!(told.expect("kill runs").success());
        let output = child.wait_with_output().expect("it ends");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

#[test]
fn while_the_first_pass_hangs() {
    for signal in ["TERM", "INT", "HUP"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let faults = folder.path().join("faults.yaml");
        std::fs::write(&faults, "rules: [{fault: F-HANG, when: {actor: proxy}}]").expect("a file");
        let mut proxy = Proxy::start(folder.path(), &["--faults", &faults.to_string_lossy()]);
        let out = BufReader::new(proxy.child().stdout.take().expect("its output"));
        let heading = out.lines().next().expect("a line").expect("text");
        assert!(heading.starts_with("Node win "), "{heading}");
        let (code, said) = proxy.end(signal);
        assert_eq!(code, Some(0), "{signal}: {said}");
        assert!(said.contains("A call of HNS is still under way"), "{signal}: {said}");
    }
}

#[test]
fn while_hns_is_waited_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("hns.sock");
    let mut proxy = Proxy::start(folder.path(), &["--hns", &format!("unix:{}", socket.display())]);
    let mut said = String::new();
    let mut errors = BufReader::new(proxy.child().stderr.take().expect("its errors"));
    while !said.contains("Waiting for HNS") {
        assert!(errors.read_line(&mut said).expect("text") > 0, "it ended: {said}");
    }
    let (code, _) = proxy.end("TERM");
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn lines_go_to_the_log_file_and_nowhere_else() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log = folder.path().join("transom.log");
    let flags = ["--once", "--masquerade-all", "--log-file", &log.to_string_lossy()];
    let mut proxy = Proxy::start(folder.path(), &flags);
    let output = proxy.0.take().expect("it runs").wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let lines = std::fs::read_to_string(&log).expect("the log file");
    assert!(lines.contains("Flag accepted without effect"), "{lines}");
}
