//! What the commands do: each reads its input, calls the crates that know how, and prints.

mod capture;
mod conformance;
mod hns;
mod install;
#[cfg(target_os = "linux")]
mod lab;
#[cfg(not(target_os = "linux"))]
#[path = "no_lab.rs"]
mod lab;
mod live;
mod plan;
mod progress;
mod proxy;
mod render;
#[cfg(unix)]
mod serve;
mod services;
mod session;
mod simulated;
pub mod trace;
mod vfp;

use std::io;

use crate::cli::{Cli, Command, completions};
use crate::exit::Exit;

/// Runs the command that the command line asks for.
pub fn run(cli: Cli) -> anyhow::Result<Exit> {
    match cli.command {
        Command::Completions(wanted) => {
            completions::write(&wanted, &mut io::stdout().lock())?;
            Ok(Exit::Success)
        }
        Command::Proxy(command) => proxy::run(&command),
        Command::Plan(command) => plan::run(&command),
        Command::Services(command) => services::run(&command),
        Command::Hns(command) => hns::run(&command),
        Command::Trace(command) => trace::run(&command),
        Command::Capture(command) => capture::run(&command),
        Command::Vfp(command) => vfp::run(&command),
        Command::Install(command) => install::run(&command),
        #[cfg(target_os = "linux")]
        Command::Lab(command) => lab::run(&command),
        #[cfg(target_os = "linux")]
        Command::Wine(command) => lab::wine(&command),
        #[cfg(target_os = "linux")]
        Command::LabPart(command) => lab::part(&command),
    }
}
