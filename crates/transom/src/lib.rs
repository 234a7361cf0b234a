//! The command line of Transom: arguments, logging, exit codes and the commands that wire the crates together.
//!
//! It is a library so that tests, completions and manuals read the same definitions as the program. It holds no
//! logic of its own: what a command does is in `proxy`, `services` and `hns`.

pub mod cli;
pub mod commands;
pub mod exit;
pub mod logging;
pub mod world;
