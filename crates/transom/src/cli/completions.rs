//! `transom completions`: scripts that complete commands and flags in a shell.

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Cli;

/// `transom completions`.
#[derive(Debug, Args)]
pub struct CompletionsCommand {
    /// The shell to complete in
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Writes the script for the wanted shell.
pub fn write(wanted: &CompletionsCommand, out: &mut dyn Write) -> std::io::Result<()> {
    // The generator panics when writing fails (a closed pipe does it), so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(wanted.shell, &mut Cli::command(), "transom", &mut script);
    out.write_all(&script)
}
