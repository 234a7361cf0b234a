//! Checks, tests and benches of Transom.
//!
//! [`Task`] is the command line. Each step is one function that runs a tool and fails with a sentence; [`steps`]
//! says what is running and how long it took. [`tidy`] holds the checks that are our own, as pure functions, so
//! that each can be shown to fail on a bad sample; `tests/tidy.rs` runs them over the workspace as ordinary tests.

pub mod bench;
pub mod explore;
pub mod process;
pub mod steps;
pub mod test;
pub mod tidy;
pub mod tools;
pub mod windows;

use anyhow::Result;
use clap::Parser;

use crate::steps::Steps;

/// What `cargo xtask` does.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about, long_about = None)]
pub enum Task {
    /// Everything that must pass: tools, fmt, tidy, lint, doc, doc tests, fuzz smoke, Windows, tests
    Test,
    /// Check the formatting
    Fmt {
        /// Format instead of checking
        #[arg(long)]
        fix: bool,
    },
    /// Clippy on everything, warnings are errors
    Lint,
    /// Build the documentation, warnings are errors
    Doc,
    /// Run the examples in the documentation
    DocTest,
    /// Our own checks: licences, duplicate, refused and unused dependencies, sources, links
    Tidy,
    /// Replay seeds, regressions and mutations of them through the parsers
    FuzzSmoke {
        /// Mutations per target
        #[arg(long, value_name = "N", default_value_t = test::FUZZ_ITERATIONS)]
        iterations: u64,
        /// The seed of the mutations; the same seed gives the same inputs
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
    },
    /// Run the property tests with inputs that were never tried, until one fails or all rounds are done
    Explore {
        /// How often
        #[arg(long, value_name = "N", default_value_t = 20)]
        rounds: u64,
        /// The seed of the first round, the next ones count on from it; by default one of chance
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
    },
    /// Build what runs on Windows, and test it under Wine
    Windows(windows::Options),
    /// Run the benches and print their table
    Bench(bench::Options),
}

impl Task {
    /// Does it.
    pub fn run(self) -> Result<()> {
        let root = process::workspace_root();
        let mut steps = Steps::new();
        match self {
            Self::Test => test::everything(&root, &mut steps),
            Self::Fmt { fix } => steps.run("fmt", || test::fmt(&root, fix)),
            Self::Lint => steps.run("lint", || test::lint(&root)),
            Self::Doc => steps.run("doc", || test::doc(&root)),
            Self::DocTest => steps.run("doc tests", || test::doc_tests(&root)),
            Self::Tidy => steps.run("tidy", || tidy::run(&root)),
            Self::FuzzSmoke { iterations, seed } => {
                steps.run("fuzz smoke", || test::fuzz_smoke(&root, iterations, seed).map(drop))
            }
            Self::Explore { rounds, seed } => {
                steps.run("tools", || tools::ensure(&root, tools::Need::Everything))?;
                steps.run("explore", || explore::run(&root, rounds, seed))
            }
            Self::Windows(options) => windows::run(&root, &options, &mut steps),
            Self::Bench(options) => bench::run(&root, &options),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definitions_are_sound() {
        Task::command().debug_assert();
    }
}
