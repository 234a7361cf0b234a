//! Programs in a namespace with their own host name and files.
#![cfg(target_os = "linux")]

use std::ffi::OsString;
use std::fs;
use std::process::{Command, Stdio};

use lab::exec::{Exec, ExecError, Identity, Resolver, etc_files};
use lab::netns::Netns;

/// A namespace with a name that no other test has, made by iproute2; removed in the end.
struct Place(String);

impl Place {
    fn new(test: &str) -> Self {
        let name = format!("transom-x{}-{test}", std::process::id());
        let done = Command::new("ip").args(["netns", "add", &name]).status().unwrap();
        assert!(done.success());
        Self(name)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        Netns::delete(&self.0).unwrap();
    }
}

fn words(line: &str) -> Vec<OsString> {
    line.split(' ').map(OsString::from).collect()
}

fn output(exec: &Exec, line: &str) -> String {
    let child = exec.spawn(&words(line), |command| {
        command.stdout(Stdio::piped());
    });
    let output = child.unwrap().wait_with_output().unwrap();
    assert!(output.status.success(), "{line}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_program_finds_its_pod_s_name_files_and_network() {
    let place = Place::new("finds");
    let folder = tempfile::tempdir().unwrap();
    let addresses = ["10.244.1.5".parse().unwrap()];
    let pod = Identity { namespace: "shop", name: "web-1", addresses: &addresses };
    let files = etc_files(pod, &["10.96.0.10".parse().unwrap()], Resolver::Windows);
    files.write(folder.path()).unwrap();
    let exec = Exec {
        namespace: place.0.clone(),
        hostname: Some(files.host().to_owned()),
        etc: Some(folder.path().to_owned()),
        env: vec![("WHO".into(), "me".into())],
    };
    let before = |path: &str| fs::read_to_string(path).unwrap();
    let machine = ["/etc/resolv.conf", "/etc/hosts", "/proc/sys/kernel/hostname"].map(before);
    assert_eq!(output(&exec, "cat /proc/sys/kernel/hostname"), "web-1\n");
    assert_eq!(output(&exec, "cat /etc/resolv.conf"), files.resolv_conf);
    assert_eq!(output(&exec, "cat /etc/hosts"), files.hosts);
    assert_eq!(output(&exec, "printenv WHO"), "me\n");
    let inside =
        Netns::open(&place.0).unwrap().run(|| fs::read_link("/proc/thread-self/ns/net")).unwrap().unwrap();
    assert_eq!(output(&exec, "readlink /proc/self/ns/net").trim(), inside.to_str().unwrap());
    // Nothing of this has reached the machine.
    assert_eq!(["/etc/resolv.conf", "/etc/hosts", "/proc/sys/kernel/hostname"].map(before), machine);
    let mounts = before("/proc/self/mountinfo");
    assert!(!mounts.contains(folder.path().to_str().unwrap()), "{mounts}");
    // The caller is where it was, and the next program without files has the machine's.
    let plain = Exec { namespace: place.0.clone(), ..Exec::default() };
    assert_eq!(output(&plain, "cat /etc/hosts"), machine[1]);
}

#[test]
fn a_program_ends_as_in_a_shell() {
    let place = Place::new("ends");
    let exec = Exec { namespace: place.0.clone(), ..Exec::default() };
    let run = |line: &[&str]| exec.run(&line.iter().map(OsString::from).collect::<Vec<_>>());
    assert_eq!(run(&["true"]).unwrap(), 0);
    assert_eq!(run(&["sh", "-c", "exit 7"]).unwrap(), 7);
    assert_eq!(run(&["sh", "-c", "kill -9 $$"]).unwrap(), 137);
    let missing = run(&["transom-no-such-program"]).unwrap_err();
    assert_eq!(missing.exit_code(), 127, "{missing}");
    assert!(missing.to_string().contains("transom-no-such-program"));
    assert_eq!(run(&["/etc"]).unwrap_err().exit_code(), 126);
    assert!(matches!(run(&[]), Err(ExecError::Empty)));
    let nowhere = Exec { namespace: "transom-x-nowhere".to_owned(), ..Exec::default() };
    let error = nowhere.run(&words("true")).unwrap_err();
    assert!(error.to_string().contains("transom-x-nowhere"), "{error}");
}
