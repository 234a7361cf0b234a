//! What the commands do: each reads its input, calls the crates that know how, and prints.

mod capture;
mod cleanup;
pub mod configuration;
mod conformance;
mod hns;
mod install;
#[cfg(target_os = "linux")]
mod lab;
#[cfg(not(target_os = "linux"))]
#[path = "no_lab.rs"]
mod lab;
mod live;
mod live_cluster;
mod node_hns;
mod plan;
mod progress;
pub mod proxy;
mod proxy_status;
mod render;
#[cfg(unix)]
mod serve;
mod services;
mod session;
mod simulated;
pub mod trace;
mod vfp;

use std::io;

use crate::cli::{Cli, Command, ProxyCommand, completions};
use crate::exit::Exit;
use crate::signals;
use crate::stop::Stop;

/// Runs the proxy: in the console, or for Windows' service manager.
fn run_proxy(command: ProxyCommand) -> anyhow::Result<Exit> {
    #[cfg(windows)]
    {
        if let Some(class) = command.windows.priority() {
            crate::windows::priority::set(class)?;
        }
        if command.windows.as_service() {
            return crate::windows::service::run(command);
        }
    }
    let stop = Stop::new();
    // With `--once` a signal ends the process, as its work is not done then.
    if !command.once {
        signals::ask_on_signals(&stop)?;
    }
    proxy::run(command, &stop)
}

/// Runs the command that the command line asks for.
pub fn run(cli: Cli) -> anyhow::Result<Exit> {
    match cli.command {
        Command::Completions(wanted) => {
            completions::write(&wanted, &mut io::stdout().lock())?;
            Ok(Exit::Success)
        }
        Command::Proxy(command) => run_proxy(command),
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
