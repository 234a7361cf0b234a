//! The steps of `cargo xtask test`, in the order in which they find trouble soonest.
//!
//! All steps share one target folder and one set of compiler flags (warnings become errors by arguments, not by
//! `RUSTFLAGS`), so that nothing is compiled twice for no reason.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{self, Stream, cargo, in_ci};
use crate::steps::{Steps, say};
use crate::{tidy, tools, windows};

/// Mutations per fuzz target in the smoke: bounded by count, so that a slow machine checks as much as a fast one.
pub const FUZZ_ITERATIONS: u64 = 10_000;

/// The seed of property tests and of the labs' chaos, unless the environment names another. What passes must pass again: a run
/// judges a change, not the luck of a draw. Inputs of other seeds are tried by [`explore`](crate::explore).
const SEED: &str = "1";

/// The variables that it is told by.
const SEEDS: [&str; 2] = [PROPERTIES, "TRANSOM_CHAOS_SEED"];

/// The variable that property tests read.
pub(crate) const PROPERTIES: &str = "PROPTEST_RNG_SEED";

/// The package with the fuzz targets and their smoke.
const FUZZ: &str = "transom-fuzz";

/// Runs every step. The test runner comes last, and its closing line is said again at the very end.
pub fn everything(root: &Path, steps: &mut Steps) -> Result<()> {
    let outcome = all_steps(root, steps);
    say(&steps.summary());
    let summary = outcome?;
    say(&summary);
    Ok(())
}

fn all_steps(root: &Path, steps: &mut Steps) -> Result<String> {
    steps.run("tools", || tools::ensure(root, tools::Need::Everything))?;
    steps.run("fmt", || fmt(root, false))?;
    steps.run("tidy", || tidy::run(root))?;
    steps.run("lint", || lint(root))?;
    steps.run("doc", || doc(root))?;
    steps.run("doc tests", || doc_tests(root))?;
    steps.run("fuzz smoke", || fuzz_smoke(root, FUZZ_ITERATIONS, 1))?;
    let built = steps.run("windows build", || windows::build(root, &windows::Options::default()))?;
    steps.run("windows lint", || windows::lint(root, &built))?;
    steps.run("windows tests", || windows::unit_tests(root, &built))?;
    steps.run("tests", || tests(root))
}

/// Formatting.
pub fn fmt(root: &Path, fix: bool) -> Result<()> {
    let check: &[&str] = if fix { &[] } else { &["--check"] };
    process::run(cargo(root, &["fmt", "--all"]).args(check)).context(if fix {
        "formatting failed"
    } else {
        "run `cargo xtask fmt --fix`"
    })
}

/// Clippy.
pub fn lint(root: &Path) -> Result<()> {
    process::run(&mut cargo(
        root,
        &[&["clippy", "--workspace", "--all-targets"], locked(), &["--", "-D", "warnings"]].concat(),
    ))
}

/// The documentation of the workspace's own crates.
pub fn doc(root: &Path) -> Result<()> {
    let mut command = cargo(root, &[&["doc", "--workspace", "--no-deps"], locked()].concat());
    process::run(command.env("RUSTDOCFLAGS", "-D warnings"))
}

/// The examples in the documentation.
pub fn doc_tests(root: &Path) -> Result<()> {
    process::run(&mut cargo(root, &[&["test", "--workspace", "--doc", "--quiet"], locked()].concat()))
}

/// The fuzz smoke. The whole workspace is named so that the same build serves it and the tests.
pub fn fuzz_smoke(root: &Path, iterations: u64, seed: u64) -> Result<String> {
    let mut command = nextest(root, &format!("package({FUZZ})"));
    command.env("TRANSOM_FUZZ_ITERATIONS", iterations.to_string()).env("TRANSOM_FUZZ_SEED", seed.to_string());
    with_summary(&mut command)
}

/// All other tests; returns the runner's closing line.
pub fn tests(root: &Path) -> Result<String> {
    with_summary(&mut nextest(root, &format!("not package({FUZZ})")))
}

/// The tests that run Windows programs under Wine.
pub fn wine_tests(root: &Path) -> Result<String> {
    with_summary(&mut nextest(root, "binary(/^(lab_)?wine/)"))
}

pub(crate) fn nextest(root: &Path, filter: &str) -> Command {
    let profile = if in_ci() { "ci" } else { "default" };
    let color = if std::io::IsTerminal::is_terminal(&std::io::stderr()) { "always" } else { "never" };
    let arguments = ["nextest", "run", "--workspace", "--profile", profile, "--color", color, "-E", filter];
    let mut command = cargo(root, &[&arguments, locked()].concat());
    for variable in SEEDS.into_iter().filter(|variable| std::env::var_os(variable).is_none()) {
        command.env(variable, SEED);
    }
    command
}

pub(crate) fn with_summary(command: &mut Command) -> Result<String> {
    let mut summary = None;
    process::run_lines(command, Stream::Stderr, |line| {
        process::pass_on(line);
        if let Some(found) = summary_of(line) {
            summary = Some(found);
        }
        Ok(())
    })?;
    summary.context("the test runner ended without its summary line")
}

/// In CI the lock file must be up to date; on a desk cargo may add to it.
fn locked() -> &'static [&'static str] {
    if in_ci() { &["--locked"] } else { &[] }
}

/// The closing line of the test runner without colours, if this line is it.
fn summary_of(line: &str) -> Option<String> {
    let mut plain = String::new();
    let mut in_escape = false;
    for c in line.chars() {
        match c {
            '\u{1b}' => in_escape = true,
            'm' if in_escape => in_escape = false,
            _ if in_escape => {}
            c => plain.push(c),
        }
    }
    let trimmed = plain.trim_start();
    (trimmed.starts_with("Summary [") && trimmed.contains(" run: ")).then_some(plain)
}

#[cfg(test)]
mod tests_of_this {
    use super::*;

    #[test]
    fn the_closing_line_is_found_with_and_without_colours() {
        let plain = "     Summary [   0.161s] 35 tests run: 35 passed, 0 skipped";
        assert_eq!(summary_of(plain).as_deref(), Some(plain));
        let coloured = "\u{1b}[32;1m     Summary\u{1b}[0m [   0.161s] \u{1b}[1m35\u{1b}[0m tests run: \u{1b}[1m35\u{1b}[0m \u{1b}[32;1mpassed\u{1b}[0m, 0 skipped";
        assert_eq!(summary_of(coloured).as_deref(), Some(plain));
        for other in
            ["", "    Starting 35 tests across 2 binaries", "        PASS [   0.011s] Summary", "Summary"]
        {
            assert_eq!(summary_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_run_has_the_same_seeds_each_time() {
        let command = nextest(Path::new("."), "all()");
        for variable in SEEDS {
            let set = command.get_envs().find(|(name, _)| *name == variable).and_then(|(_, value)| value);
            assert!(set.is_some() || std::env::var_os(variable).is_some(), "{variable}");
        }
    }

    #[test]
    fn a_runner_without_a_closing_line_is_an_error() {
        let error =
            with_summary(Command::new("sh").args(["-c", "echo nothing >&2"])).expect_err("no summary");
        assert!(error.to_string().contains("summary line"), "{error}");
        let failed = "echo '     Summary [   0.1s] 1 test run: 0 passed, 1 failed' >&2; exit 100";
        assert!(with_summary(Command::new("sh").args(["-c", failed])).is_err());
    }
}
