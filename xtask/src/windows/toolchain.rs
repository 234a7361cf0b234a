//! Which toolchain builds for Windows.
//!
//! With rustup: its own, with the target's standard library added. Where rustup cannot bring that (no network to its server, no
//! rustup), Debian's newest packages: its cargo and rustc build the standard library from the source that belongs to them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use super::TARGET;
use crate::process::{self, works};
use crate::steps::say;
use crate::tools;

/// How long rustup may take to bring the target, in seconds: it waits long for a server that does not answer.
const PATIENCE: &str = "180";

/// Debian's packages: compiler, cargo, and the standard library's source.
const PACKAGES: &[&str] = &["rustc-web", "cargo-web", "rust-web-src"];

/// Which toolchain is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Choice {
    /// rustup's where the target is there or can be added, else Debian's
    #[default]
    Auto,
    /// rustup's
    Rustup,
    /// Debian's
    Debian,
}

/// A toolchain that can build for the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Toolchain {
    /// The one that is in use; it has the target's standard library.
    Present,
    /// Debian's.
    Debian,
}

impl Toolchain {
    /// Finds one, or brings it.
    pub(super) fn choose(root: &Path, choice: Choice) -> Result<Self> {
        if choice != Choice::Debian {
            if has_target(root) {
                return Ok(Self::Present);
            }
            say(&format!("the standard library for {TARGET} is missing"));
            let mut add = Command::new("timeout");
            add.current_dir(root).args([PATIENCE, "rustup", "target", "add", TARGET]);
            match process::run(&mut add) {
                Ok(()) if has_target(root) => return Ok(Self::Present),
                Ok(()) => say("rustup has added it, and it is still not there"),
                Err(error) => say(&format!("{error:#}")),
            }
            if choice == Choice::Rustup {
                bail!("rustup cannot add the target {TARGET}; try --toolchain debian");
            }
        }
        if !debian_is_there() {
            tools::apt(PACKAGES).context("no toolchain for Windows: Debian's packages are the other way")?;
        }
        if !debian_is_there() {
            bail!("the packages {} did not bring a toolchain to /usr/bin", PACKAGES.join(", "));
        }
        Ok(Self::Debian)
    }

    /// cargo with a command, for the target.
    pub(super) fn cargo(self, root: &Path, target: &Path, command: &str) -> Command {
        let mut cargo = match self {
            Self::Present => process::cargo(root, &[command]),
            Self::Debian => {
                let mut cargo = Command::new("/usr/bin/cargo");
                cargo
                    .current_dir(root)
                    .arg(command)
                    .arg("-Zbuild-std=std,panic_unwind,test")
                    .env("RUSTC_BOOTSTRAP", "1")
                    .env("RUSTC", "/usr/bin/rustc")
                    .env("RUSTDOC", "/usr/bin/rustdoc")
                    // Set by the cargo that runs this program, and another's business.
                    .env_remove("CARGO")
                    .env_remove("RUSTUP_TOOLCHAIN")
                    // Two toolchains in one folder would make each other's work void.
                    .env("CARGO_TARGET_DIR", debian_folder(target));
                if process::in_ci() {
                    cargo.env("CARGO_INCREMENTAL", "0");
                }
                cargo
            }
        };
        cargo.args(["--target", TARGET]);
        if process::in_ci() {
            cargo.arg("--locked");
        }
        cargo
    }

    /// The folder with the profiles' folders.
    pub(super) fn output(self, target: &Path) -> PathBuf {
        match self {
            Self::Present => target.join(TARGET),
            Self::Debian => debian_folder(target).join(TARGET),
        }
    }
}

fn debian_folder(target: &Path) -> PathBuf {
    target.join("debian")
}

fn debian_is_there() -> bool {
    // The workspace asks for a version that Debian's older packages of the same names do not have.
    works("/usr/bin/rustc", &["--version"])
        && works("/usr/bin/cargo", &["--version"])
        && sysroot("/usr/bin/rustc")
            .is_some_and(|sysroot| sysroot.join("lib/rustlib/src/rust/library/std/Cargo.toml").is_file())
}

/// Whether the toolchain in use has the target's standard library.
fn has_target(root: &Path) -> bool {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let found = process::output(Command::new(rustc).current_dir(root).args([
        "--print",
        "target-libdir",
        "--target",
        TARGET,
    ]));
    let Ok(folder) = found else { return false };
    std::fs::read_dir(folder.trim()).is_ok_and(|files| {
        files.flatten().any(|file| file.file_name().to_string_lossy().starts_with("libstd-"))
    })
}

fn sysroot(rustc: &str) -> Option<PathBuf> {
    let folder = process::output(Command::new(rustc).args(["--print", "sysroot"])).ok()?;
    Some(PathBuf::from(folder.trim()))
}
