//! `cargo xtask windows`: everything that runs on Windows, built here and run under Wine.
//!
//! | module | job |
//! |---|---|
//! | `toolchain` | which cargo builds for the target: rustup's, with the target added, or Debian's, with the standard library from source |
//!
//! What is built goes to `windows` in the target folder: `transom.exe`, the two DLLs that speak to an emulated HNS, and for
//! tests the C program that calls them and the system DLL that Wine lacks. The last one is for test prefixes only.

mod toolchain;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::process;
use crate::steps::{Steps, say};
use crate::tools::{self, Need};
use toolchain::Toolchain;

pub use toolchain::Choice;

/// The target.
const TARGET: &str = "x86_64-pc-windows-gnu";

/// The crates that exist on Windows. The lab, the responder and the server of hnsd are Linux'.
const CRATES: &[&str] = &[
    "cluster",
    "hcn",
    "hcn-abi",
    "hcn-conformance",
    "hcn-dll",
    "hcn-windows",
    "hns",
    "hnsd",
    "node",
    "proxy",
    "proxy-config",
    "proxyd",
    "services",
    "transom",
    "vfp",
    "vfpctrl",
    "wire",
];

/// The crates whose libraries are the DLLs.
const DLLS: &[&str] = &["computenetwork", "vmcompute"];

/// What is built and run.
#[derive(Debug, Default, Args)]
pub struct Options {
    /// Only build, into `windows` of the target folder
    #[arg(long)]
    build: bool,
    /// Build what is shipped: optimised
    #[arg(long)]
    release: bool,
    /// Which toolchain builds
    #[arg(long, value_enum, default_value_t)]
    toolchain: Choice,
}

/// Builds, and unless only that is asked for runs the unit tests and the tests of the workspace that need Wine.
pub fn run(root: &Path, options: &Options, steps: &mut Steps) -> Result<()> {
    steps.run("tools", || tools::ensure(root, if options.build { Need::Cross } else { Need::Everything }))?;
    let built = steps.run("windows build", || build(root, options))?;
    if !options.build {
        steps.run("windows lint", || lint(root, &built))?;
        steps.run("windows tests", || unit_tests(root, &built))?;
        steps.run("wine tests", || crate::test::wine_tests(root))?;
    }
    say(&steps.summary());
    Ok(())
}

/// What was built, and how more can be.
pub struct Built {
    toolchain: Toolchain,
    folder: PathBuf,
    is_release: bool,
}

/// Builds everything and puts it into the folder.
pub fn build(root: &Path, options: &Options) -> Result<Built> {
    let toolchain = Toolchain::choose(root, options.toolchain)?;
    let target = process::target_folder(root);
    let built = Built { toolchain, folder: target.join("windows"), is_release: options.release };
    fs::create_dir_all(&built.folder).with_context(|| format!("cannot make {}", built.folder.display()))?;
    let mut command = built.toolchain.cargo(root, &target, "build");
    command.args(packages(true)).args(["--lib", "--bins"]);
    if options.build {
        command.args(built.profile());
    } else {
        // A test among the targets makes cargo choose the features as for the tests, so that nothing is built twice.
        command.args(built.profile()).args(["--test", "documents"]);
    }
    process::run(&mut command)?;
    let made = built.toolchain.output(&target).join(if options.release { "release" } else { "debug" });
    for name in ["transom.exe", "computenetwork.dll", "vmcompute.dll"] {
        copy(&made.join(name), &built.folder.join(name))?;
    }
    compile(root, &built.folder, "xtask/windows/bcryptprimitives.c", "bcryptprimitives.dll", &["-shared"])?;
    compile(root, &built.folder, "crates/hcn-dll/tests/c/exports.c", "exports.exe", &[])?;
    say(&format!("built: {}", built.folder.display()));
    Ok(built)
}

/// Clippy on what only Windows compiles. Debian's toolchain has none of the same version, so there it is left to others.
pub fn lint(root: &Path, built: &Built) -> Result<()> {
    if built.toolchain != Toolchain::Present {
        say("left to machines with rustup: Debian's clippy is another version's");
        return Ok(());
    }
    let target = process::target_folder(root);
    let mut command = built.toolchain.cargo(root, &target, "clippy");
    command.args(packages(true)).args(["--lib", "--bins", "--", "-D", "warnings"]);
    process::run(&mut command)
}

/// Runs the unit tests of all crates that exist on Windows under Wine.
pub fn unit_tests(root: &Path, built: &Built) -> Result<()> {
    let target = process::target_folder(root);
    // The program that prepares prefixes, with the features that the tests of this machine have too.
    process::run(&mut process::cargo(root, &["build", "--workspace", "--bins", "--tests"]))?;
    let transom = target.join("debug/transom");
    let prefix = target.join("wine");
    let none = target.join("windows/nobody.token");
    let runner: Vec<String> = [
        transom.as_os_str(),
        "wine".as_ref(),
        "--hns".as_ref(),
        format!("token:{}", none.display()).as_ref(),
        "--prefix".as_ref(),
        prefix.as_os_str(),
        "--dlls".as_ref(),
        built.folder.as_os_str(),
        "--".as_ref(),
    ]
    .iter()
    .map(|part| part.to_string_lossy().into_owned())
    .collect();
    let runner = serde_json::to_string(&runner).context("the runner's command line")?;
    let mut command = built.toolchain.cargo(root, &target, "test");
    command
        .args(packages(false))
        .args(built.profile())
        .args(["--lib", "--no-fail-fast", "--config"])
        .arg(format!("target.{TARGET}.runner={runner}"))
        // Snapshots are looked for from here; the programs see this machine's root as drive Z.
        .env("INSTA_WORKSPACE_ROOT", root)
        .env("INSTA_UPDATE", "no");
    process::run(&mut command)
}

fn packages(dlls: bool) -> Vec<&'static str> {
    let dlls = if dlls { DLLS } else { &[] };
    CRATES.iter().chain(dlls).flat_map(|name| ["-p", name]).collect()
}

impl Built {
    fn profile(&self) -> &'static [&'static str] {
        if self.is_release { &["--release"] } else { &[] }
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    // A program that runs keeps the old one.
    let new = to.with_extension("new");
    fs::copy(from, &new)
        .and_then(|_| fs::rename(&new, to))
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

fn compile(root: &Path, folder: &Path, source: &str, output: &str, arguments: &[&str]) -> Result<()> {
    let source = root.join(source);
    if !source.is_file() {
        bail!("{} is not there", source.display());
    }
    let mut command = Command::new("x86_64-w64-mingw32-gcc");
    command
        .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"])
        .args(arguments)
        .arg("-o")
        .arg(folder.join(output))
        .arg(source)
        .args(["-lole32", "-luuid", "-ladvapi32"]);
    process::run(&mut command)
}
