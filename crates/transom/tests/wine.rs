//! Windows programs under Wine on an emulated HNS in another process, through our computenetwork.dll and vmcompute.dll: the
//! conformance suite, plans, and a C program that calls every export.
//!
//! What is run is built by `cargo xtask windows --build`.
#![cfg(target_os = "linux")]

mod wine_support;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use wine_support::{Served, TRANSOM, built, seen, succeed, wine};

/// For how long the C program calls, in seconds.
const HOSTILE_SECONDS: &str = "60";

/// The recorded clusters, and a Windows node of each.
fn clusters() -> [(PathBuf, &'static str); 2] {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/clusters");
    let file = |name: &str| data.join(name).canonicalize().expect("the cluster is there");
    [(file("hybrid-overlay.yaml"), "lab-win-1"), (file("dualstack-l2bridge.yaml"), "lab-win-1")]
}

/// Each case of a report with its outcome.
fn outcomes(report: &str) -> BTreeMap<String, String> {
    let report: Value = serde_json::from_str(report).unwrap_or_else(|error| panic!("{error}: {report}"));
    let cases =
        report["report"]["cases"].as_array().unwrap_or_else(|| panic!("a report has cases: {report}"));
    let outcome =
        |case: &Value| (case["name"].as_str().unwrap_or_default().to_owned(), case["outcome"].to_string());
    cases.iter().map(outcome).collect()
}

#[test]
fn the_conformance_suite_ends_through_the_dlls_as_it_does_without() {
    for profile in ["ws2019", "ws2022", "ws2025", "newest"] {
        let (own, dlls) = (Served::start(profile), Served::start(profile));
        let words = ["hns", "conformance", "-o", "json", "--hns"];
        let here = succeed(Command::new(TRANSOM).args(words).arg(own.address()));
        let there = succeed(&mut wine(
            &["--hns", &dlls.address()],
            &built("transom.exe"),
            &[&words[..], &["native"]].concat(),
        ));
        let (here, there) = (outcomes(&here), outcomes(&there));
        assert!(here.len() > 100, "{profile}: {} cases", here.len());
        assert_eq!(here, there, "{profile}");
        assert!(there.values().all(|outcome| !outcome.contains("failed")), "{profile}: {there:#?}");
    }
}

#[test]
fn plans_are_those_of_the_linux_build() {
    for (file, node) in clusters() {
        for network in ["overlay", "l2bridge"] {
            for profile in ["ws2019", "newest"] {
                let words =
                    ["plan", "-o", "json", "--network", network, "--profile", profile, "--hns", "emulated"];
                let words = [&words[..], &["--enable-dsr", "--node", node, "-f"]].concat();
                let run = |command: &mut Command| {
                    let output = command.output().expect("it starts");
                    // There is something to create.
                    assert_eq!(output.status.code(), Some(2), "{}", wine_support::both(&output));
                    let text = String::from_utf8(output.stdout).expect("UTF-8");
                    serde_json::from_str::<Value>(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
                };
                let here = run(Command::new(TRANSOM).args(&words).arg(&file));
                let path = seen(&file);
                let none = "token:/nonexistent";
                let there =
                    run(&mut wine(&["--hns", none], &built("transom.exe"), &[&words[..], &[&path]].concat()));
                assert!(here.to_string().len() > 1_000, "{here}");
                assert_eq!(here, there, "{} {network} {profile}", file.display());
            }
        }
    }
}

#[test]
fn no_argument_brings_an_export_down() {
    let hns = Served::start("newest");
    let summary = succeed(&mut wine(&["--hns", &hns.address()], &built("exports.exe"), &[HOSTILE_SECONDS]));
    // The program checks every HRESULT, all task memory and all handles, and ends with an error if one is wrong.
    assert!(summary.contains(" 0 wrong") && summary.contains("8 threads"), "{summary}");
}

/// The processes that serve a prefix: Wine's server works in a folder named after the prefix's device and inode.
fn servers(prefix: &Path) -> BTreeSet<u32> {
    let prefix = prefix.metadata().expect("the prefix is there");
    let folder = format!("server-{:x}-{:x}", prefix.dev(), prefix.ino());
    let works_there = |process: &u32| {
        std::fs::read_link(format!("/proc/{process}/cwd")).is_ok_and(|cwd| cwd.ends_with(&folder))
    };
    let all = std::fs::read_dir("/proc").expect("there is /proc");
    let processes = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    processes.filter(works_there).collect()
}

#[test]
fn a_program_is_never_met_by_a_server_that_is_ending() {
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = lab::wine::Prefix::new(folder.path().join("wine")).expect("there is Wine");
    let mut seen = BTreeSet::new();
    for _ in 0..3 {
        let mut command = Command::new(TRANSOM);
        command.args(["wine", "--hns", "token:/nonexistent", "--prefix"]).arg(folder.path().join("wine"));
        command.arg("--dlls").arg(built("transom.exe").parent().expect("it is in a folder"));
        succeed(command.args(["--", "cmd.exe", "/c", "ver"]));
        // The one that is there when a program has ended is the one that the next finds.
        seen.extend(servers(&folder.path().join("wine")));
    }
    prefix.end().expect("it ends");
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!(servers(&folder.path().join("wine")), BTreeSet::new());
}
