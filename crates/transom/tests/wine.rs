//! Windows programs under Wine on an emulated HNS in another process, through our computenetwork.dll and vmcompute.dll: the
//! conformance suite, plans, and a C program that calls every export.
//!
//! What is run is built by `cargo xtask windows --build`.
#![cfg(target_os = "linux")]

mod wine_support;

use std::collections::BTreeMap;
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
