//! Runs iproute2's and nftables' programs on many lines at once, in one namespace or in many.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write as _};
use std::process::{Command, Stdio};
use std::{panic, thread};

use parking_lot::Mutex;

use super::BuildError;
use super::difference::Script;

/// How many namespaces are worked on at a time. The kernel makes links one after the other anyway; what is saved is
/// the start of programs.
const AT_A_TIME: usize = 4;

/// A program that takes scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// Devices, addresses, routes, neighbours.
    Ip,
    /// Forwarding entries.
    Bridge,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Bridge => "bridge",
        }
    }
}

/// What a program said and how it ended.
pub(crate) fn feed(command: &mut Command, text: &str) -> io::Result<Result<(), String>> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // A program that has enough before the end tells why.
        match input.write_all(text.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
            _ => {}
        }
    }
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Ok(if output.status.success() { Ok(()) } else { Err(said) })
}

/// Runs scripts, each in its namespace, some at a time. The first error is told; what has begun by then ends.
pub(crate) fn run(program: Program, scripts: &BTreeMap<String, Script>) -> Result<(), BuildError> {
    let jobs: Vec<_> = scripts.iter().collect();
    each(&jobs, |(namespace, script)| one(program, namespace, script))
}

/// Does a job for each, some at a time.
pub(crate) fn each<T: Sync, E: Send>(items: &[T], job: impl Fn(&T) -> Result<(), E> + Sync) -> Result<(), E> {
    let queue: Mutex<VecDeque<&T>> = Mutex::new(items.iter().collect());
    let work = || {
        loop {
            let Some(item) = queue.lock().pop_front() else { return Ok(()) };
            if let Err(error) = job(item) {
                queue.lock().clear();
                return Err(error);
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_A_TIME.min(items.len())).map(|_| scope.spawn(work)).collect();
        let ends: Vec<_> = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| panic::resume_unwind(panic)))
            .collect();
        ends.into_iter().collect()
    })
}

fn one(program: Program, namespace: &str, script: &Script) -> Result<(), BuildError> {
    let text = script.join("\n") + "\n";
    let mut command = Command::new(program.name());
    command.args(["-n", namespace, "-batch", "-"]);
    let failed = |line: Option<&String>, error: String| BuildError::Script {
        program: program.name(),
        namespace: namespace.to_owned(),
        line: line.cloned().unwrap_or_else(|| "the whole script".to_owned()),
        error,
    };
    match feed(&mut command, &text) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(said)) => Err(failed(number(&said).and_then(|number| script.get(number)), said)),
        Err(error) => Err(failed(None, format!("it cannot be run: {error}"))),
    }
}

/// The line that a program complains about, from 0: its last words are `Command failed -:7`.
fn number(said: &str) -> Option<usize> {
    let (_, number) = said.rsplit_once("failed -:")?;
    let digits = number.trim_start().split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse::<usize>().ok()?.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_at_fault_is_found() {
        let said = "RTNETLINK answers: File exists\nCommand failed -:3";
        assert_eq!(number(said), Some(2));
        assert_eq!(number("Cannot open network namespace"), None);
        assert_eq!(number("Command failed -:0"), None);
    }

    #[test]
    fn each_is_done_once_and_the_first_error_ends_it() {
        let done = Mutex::new(Vec::new());
        let numbers: Vec<u32> = (0..50).collect();
        let end: Result<(), String> = each(&numbers, |number| {
            done.lock().push(*number);
            Ok(())
        });
        assert_eq!(end, Ok(()));
        let mut done = done.into_inner();
        done.sort_unstable();
        assert_eq!(done, numbers);
        let end = each(&numbers, |number| if *number == 20 { Err(*number) } else { Ok(()) });
        assert_eq!(end, Err(20));
        assert_eq!(each(&[] as &[u32], |number| Err(*number)), Ok(()));
    }
}
