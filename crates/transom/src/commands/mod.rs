//! What the commands do: each reads its input, calls the crates that know how, and prints.

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
        _ => anyhow::bail!("this command is not wired yet"),
    }
}
