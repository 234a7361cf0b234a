//! `cargo xtask`: the one entry point for checking and measuring Transom, on a desk and in CI alike.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use xtask::Task;

fn main() -> ExitCode {
    match Task::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to say it to when the terminal is gone.
            let _ = writeln!(std::io::stderr().lock(), "\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}
