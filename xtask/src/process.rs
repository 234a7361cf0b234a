//! Runs tools as a person would, and says in one sentence what failed.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The folder of the workspace.
pub fn workspace_root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}

/// Where cargo puts what it builds.
pub fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}

/// Whether a CI system runs this: then nothing may write snapshots or change the lock file.
pub fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

/// `cargo` with arguments, in the workspace. In CI the lock file must be up to date and nothing is kept for a
/// next build, since there is none.
pub fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(arguments);
    if in_ci() {
        command.env("CARGO_INCREMENTAL", "0").env("INSTA_UPDATE", "no");
    }
    command
}

/// Runs a command whose output goes where ours goes.
pub fn run(command: &mut Command) -> Result<()> {
    let line = shown(command);
    super::steps::say(&format!("$ {line}"));
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if status.success() { Ok(()) } else { bail!("`{line}` ended with {status}") }
}

/// Runs a command and returns what it wrote to standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let line = shown(command);
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` ended with {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` wrote something that is not UTF-8"))
}

/// Whether a command starts and ends well, whatever it prints.
pub fn works(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Which stream of a command is read line by line; the other goes where ours goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Runs a command and hands each line of one stream to `each`, as it comes.
pub fn run_lines(
    command: &mut Command,
    stream: Stream,
    mut each: impl FnMut(&str) -> Result<()>,
) -> Result<()> {
    let line = shown(command);
    super::steps::say(&format!("$ {line}"));
    match stream {
        Stream::Stdout => command.stdout(Stdio::piped()),
        Stream::Stderr => command.stderr(Stdio::piped()),
    };
    let mut child = command.spawn().with_context(|| format!("cannot start `{line}`"))?;
    let pipe: Option<Box<dyn Read>> = match stream {
        Stream::Stdout => child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read>),
        Stream::Stderr => child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read>),
    };
    let pipe = pipe.context("the pipe that was asked for is not there")?;
    if let Err(error) = read_lines(pipe, &mut each) {
        // The command would go on and wait for a reader that has gone.
        let _ = child.kill().and_then(|()| child.wait());
        return Err(error.context(format!("while reading from `{line}`")));
    }
    let status = child.wait().with_context(|| format!("waiting for `{line}`"))?;
    if status.success() { Ok(()) } else { bail!("`{line}` ended with {status}") }
}

fn read_lines(pipe: Box<dyn Read>, each: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
    let mut reader = BufReader::new(pipe);
    let mut bytes = Vec::new();
    while reader.read_until(b'\n', &mut bytes)? > 0 {
        each(String::from_utf8_lossy(&bytes).trim_end_matches(['\r', '\n']))?;
        bytes.clear();
    }
    Ok(())
}

/// Passes a line on to our own standard error.
pub fn pass_on(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// A command as a person would type it, with the program's folder left out.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut line = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    for argument in command.get_args() {
        let argument = argument.to_string_lossy();
        let plain = !argument.is_empty() && !argument.contains([' ', '"', '\'', '(', '&', '|', '*']);
        line.push(' ');
        if plain { line.push_str(&argument) } else { line.push_str(&format_quoted(&argument)) }
    }
    line
}

fn format_quoted(argument: &str) -> String {
    format!("'{}'", argument.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let mut command = Command::new("/usr/bin/cargo");
        command.args(["nextest", "run", "-E", "not package(x)", "it's"]);
        assert_eq!(shown(&command), "cargo nextest run -E 'not package(x)' 'it'\\''s'");
    }

    #[test]
    fn failures_say_what_was_run() {
        let error = run(Command::new("false").arg("x")).expect_err("false fails");
        assert!(error.to_string().starts_with("`false x` ended with exit status: 1"), "{error}");
        let error = run(&mut Command::new("/nonexistent/tool")).expect_err("it does not exist");
        assert!(error.to_string().contains("cannot start `tool`"), "{error}");
        assert!(!works("/nonexistent/tool", &[]));
        assert!(output(Command::new("false").arg("y")).is_err());
    }

    #[test]
    fn lines_of_either_stream() {
        for (stream, script) in
            [(Stream::Stdout, "printf 'a\\nb\\r\\nc'"), (Stream::Stderr, "printf 'a\\nb\\nc' >&2")]
        {
            let mut lines = Vec::new();
            run_lines(Command::new("sh").args(["-c", script]), stream, |line| {
                lines.push(line.to_owned());
                Ok(())
            })
            .expect("it prints");
            assert_eq!(lines, ["a", "b", "c"]);
        }
        assert!(
            run_lines(Command::new("sh").args(["-c", "echo a; exit 3"]), Stream::Stdout, |_| Ok(())).is_err()
        );
    }
}
