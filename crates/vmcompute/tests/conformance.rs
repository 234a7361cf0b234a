//! The conformance suite all the way round: `hcn-windows`, which programs of ours use on Windows, loads the two built libraries; they
//! ask a server over TCP; behind it is the emulated HNS. Alone in its process, because it sets the environment.

#![cfg(unix)]

use std::path::PathBuf;
use std::sync::Arc;

use hcn::Hcn;
use hcn::time::{ManualClock, SeededEntropy};
use hcn_conformance::Counts;
use hcn_windows::{Libraries, Native, VerifyIds};
use hns::{Hns, Profile};
use hnsd::{Limits, Server, Service};

/// The same counts as without all that in between (crates/hns/tests/conformance.rs).
const WANTED: [(Profile, Counts); 2] = [
    (Profile::Ws2019, Counts { passed: 86, refused: 19, failed: 0 }),
    (Profile::Newest, Counts { passed: 105, refused: 0, failed: 0 }),
];

struct Served(Hns);

impl Service for Served {
    fn hcn(&self, actor: &str) -> Option<Arc<dyn Hcn>> {
        Some(Arc::new(self.0.actor(actor)))
    }

    fn about(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
}

/// A built library, which cargo puts beside the test because the test depends on its other form: for the one it is part of
/// that is the package itself, for the other a name that is used here.
fn library(name: &str) -> PathBuf {
    assert!(computenetwork::EXPORTS.len() > vmcompute::EXPORTS.len());
    std::env::current_exe().unwrap().with_file_name(format!("lib{name}.so"))
}

#[test]
#[expect(unsafe_code, reason = "sets the environment")]
fn the_suite_passes_through_the_libraries_and_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token.json");
    // SAFETY: no other thread of this process runs yet.
    unsafe { std::env::set_var("TRANSOM_HNS", format!("token:{}", token.display())) };
    let files = Libraries {
        computenetwork: library("computenetwork"),
        vmcompute: library("vmcompute"),
        memory: library("computenetwork"),
    };
    let options = hcn_windows::Options { verify_ids: VerifyIds::UntilKept };
    // One and the same libraries: the server is another each time, and is found again.
    let native = Native::load(&files, options).unwrap();
    for (profile, wanted) in WANTED {
        let clock = Arc::new(ManualClock::jumping());
        let options = hns::Options {
            clock: clock.clone(),
            entropy: Arc::new(SeededEntropy::new(7)),
            ..hns::Options::new(profile)
        };
        let hns = Hns::open(options).unwrap();
        let service = Arc::new(Served(hns.clone()));
        let running = Server::new(service, Limits::default()).tcp(0, &token).unwrap().start().unwrap();
        let before = hns.digest();
        let options = hcn_conformance::Options { clock, ..hcn_conformance::Options::default() };
        let report = hcn_conformance::run(&native, &options);
        assert_eq!(report.counts(), wanted, "{profile}\n{report}");
        assert_eq!(hns.digest(), before, "{profile}: something was left behind");
        drop(running);
    }
}
