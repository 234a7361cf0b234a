//! Windows programs for tests: where they are, how they are run under Wine, and an HNS for them.
//!
//! It knows how programs are started; what is expected of them is the tests' own.
#![allow(dead_code, reason = "every test program uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use hcn::time::{Clock, SystemClock};
use rustix::process::{Pid, Signal};
use tempfile::TempDir;

/// How long a server may take to listen: far longer than it ever does.
const PATIENCE: Duration = Duration::from_mins(1);

/// Time from one look to the next.
const LOOK: Duration = Duration::from_millis(20);

/// The program of this system.
pub(crate) const TRANSOM: &str = env!("CARGO_BIN_EXE_transom");

/// The folder of cargo's target folder with what was built for Windows.
fn target() -> PathBuf {
    let program = Path::new(TRANSOM);
    program.parent().and_then(Path::parent).expect("cargo puts programs two folders deep").to_owned()
}

/// A file that was built for Windows.
pub(crate) fn built(name: &str) -> PathBuf {
    let path = target().join("windows").join(name);
    assert!(path.is_file(), "{} is missing: run `cargo xtask windows --build`", path.display());
    path
}

/// A path as Windows programs see it.
pub(crate) fn seen(path: &Path) -> String {
    lab::wine::windows_path(path)
}

/// `transom wine` with flags, for a program with arguments.
pub(crate) fn wine(flags: &[&str], program: &Path, arguments: &[&str]) -> Command {
    // Where it is missing this says how to build it.
    built(lab::wine::MISSING);
    let mut command = Command::new(TRANSOM);
    command.arg("wine").args(flags).arg("--prefix").arg(target().join("wine"));
    command.arg("--").arg(program).args(arguments).stdin(Stdio::null());
    command
}

/// Runs a command to its end; what it wrote to standard output, if it ended well.
pub(crate) fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?} ended with {}: {}", output.status, both(&output));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// What a command wrote.
pub(crate) fn both(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// An HNS in a process of its own, which ends with this value.
pub(crate) struct Served {
    process: Child,
    folder: TempDir,
}

impl Served {
    /// An empty HNS of a build.
    pub(crate) fn start(profile: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the token");
        let token = folder.path().join("hns.token");
        let listen = format!("token:{}", token.display());
        let process = Command::new(TRANSOM)
            .args(["hns", "serve", "--profile", profile, "--listen", &listen])
            .stdout(Stdio::null())
            .spawn()
            .expect("the program starts");
        let served = Self { process, folder };
        let clock = SystemClock::default();
        let end = clock.now() + PATIENCE;
        while !token.exists() {
            assert!(clock.now() < end, "the server does not listen");
            clock.sleep(LOOK);
        }
        served
    }

    /// Where it is.
    pub(crate) fn address(&self) -> String {
        format!("token:{}", self.folder.path().join("hns.token").display())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.process);
        // One that has ended is waited for all the same.
        let _ = rustix::process::kill_process(pid, Signal::TERM);
        let ended = self.process.wait();
        assert!(
            std::thread::panicking() || ended.is_ok_and(|status| status.success()),
            "the server ended badly"
        );
    }
}
