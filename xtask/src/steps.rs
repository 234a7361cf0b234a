//! Says which step is running and how long each took.
//!
//! It must not know what a step does.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Runs steps one after the other; the first that fails ends the run.
#[derive(Debug, Default)]
pub struct Steps {
    done: Vec<(&'static str, Duration)>,
}

impl Steps {
    /// No step has run yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs one step under its heading.
    pub fn run<T>(&mut self, name: &'static str, step: impl FnOnce() -> Result<T>) -> Result<T> {
        say(&format!("\n==> {name}"));
        let start = now();
        let outcome = step().with_context(|| format!("step `{name}` failed"));
        let took = start.elapsed();
        say(&format!("<== {name}: {}, {}", if outcome.is_ok() { "ok" } else { "FAILED" }, seconds(took)));
        self.done.push((name, took));
        outcome
    }

    /// The duration of each step that ran and their sum, a line each.
    pub fn summary(&self) -> String {
        let mut lines = String::from("\n==> durations\n");
        for (name, took) in &self.done {
            lines.push_str(&format_row(name, *took));
        }
        lines + &format_row("all", self.done.iter().map(|(_, took)| *took).sum())
    }
}

fn format_row(name: &str, took: Duration) -> String {
    format!("{name:12} {:>9}\n", seconds(took))
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

/// Prints a line at once, so that it stands before what the next tool prints.
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // A closed pipe must not end a run whose exit code is the answer.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

#[expect(clippy::disallowed_methods, reason = "durations of build steps are for people and decide nothing")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_its_step() {
        let mut steps = Steps::new();
        steps.run("good", || Ok(())).expect("it is good");
        let error = steps.run("bad", || -> Result<()> { anyhow::bail!("it broke") }).expect_err("it broke");
        assert_eq!(format!("{error:#}"), "step `bad` failed: it broke");
        let summary = steps.summary();
        for name in ["good", "bad", "all"] {
            assert!(summary.contains(name), "{summary}");
        }
    }
}
