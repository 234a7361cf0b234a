//! Other programs: run to their end, with what they said if they failed.

use std::ffi::OsStr;
use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs a program with an input.
pub(crate) fn run(command: &mut Command, input: &str) -> Result<()> {
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect();
    let line = words.join(" ");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("`{line}` cannot be run"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends before it has read everything says why itself.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().with_context(|| format!("`{line}`"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    bail!("`{line}` failed ({}): {}", output.status, said.trim());
}
