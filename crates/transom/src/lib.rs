//! The command line of Transom: arguments, logging, exit codes and the commands that wire the crates together.
//!
//! It is a library so that tests, completions and manuals read the same definitions as the program. It holds no
//! logic of its own: what a command does is in `proxy`, `services` and `hns`. What is of the program alone stands in pure
//! modules: [`install`] makes manifests of `deploy/`, [`startup`] decides at a node's start.

pub mod cli;
pub mod commands;
pub mod exit;
pub mod host;
pub mod install;
pub mod logging;
pub mod paths;
pub mod signals;
pub mod startup;
pub mod stop;
#[cfg(windows)]
pub mod windows;
pub mod world;
