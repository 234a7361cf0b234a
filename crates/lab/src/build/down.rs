//! Takes away what a lab has left behind, whatever happened to it.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use hcn::time::Clock;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Signal;

use super::BuildError;
use crate::names::Names;
use crate::netns::{FOLDER, Netns};
use crate::record::{Process, Record};

/// How long processes have to end by themselves.
const PATIENCE: Duration = Duration::from_secs(5);

/// What was taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Processes that were still there.
    pub processes: usize,
    /// Network namespaces.
    pub namespaces: usize,
    /// The lab's folder.
    pub folder: bool,
}

/// Ends a lab: its processes, its namespaces, its folder. It works on what a crash at any moment has left, and without
/// a record, too; what is no more, is no error. Nothing else is touched: of processes those that the record knows by
/// their number and their start, and those in the lab's namespaces.
pub fn down(names: &Names, clock: &dyn Clock) -> Result<Ended, BuildError> {
    // What cannot be read tells nothing; the namespaces are known by their names.
    let record = Record::load(names).unwrap_or_else(|error| {
        tracing::warn!(%error, "going on without the lab's record");
        None
    });
    let mut ended = Ended::default();
    let mut processes = record.map(|record| record.processes).unwrap_or_default().into_iter();
    // The first one keeps the others: left alone it would start them anew.
    for processes in [processes.by_ref().take(1).collect::<Vec<_>>(), processes.collect()] {
        let open = processes.iter().filter_map(Process::open).collect();
        ended.processes += end(open, clock).map_err(system("ending the lab's processes"))?;
    }
    let namespaces = Netns::list(&names.prefix()).map_err(system("listing network namespaces"))?;
    let inside = inside(&namespaces).map_err(system("looking for processes in the lab's namespaces"))?;
    ended.processes += end(inside, clock).map_err(system("ending processes in the lab's namespaces"))?;
    for namespace in &namespaces {
        Netns::delete(namespace)?;
    }
    ended.namespaces = namespaces.len();
    let folder = names.folder();
    ended.folder = match fs::remove_dir_all(&folder) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(system(format!("removing {}", folder.display()))(error)),
    };
    if let Some(above) = folder.parent() {
        // Other labs may have theirs there.
        let _ = fs::remove_dir(above);
    }
    Ok(ended)
}

fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> BuildError {
    let what = what.into();
    move |error| BuildError::System { what, error }
}

/// Ends processes: asks them, and those that do not hear are killed. Returns how many there were.
fn end(processes: Vec<OwnedFd>, clock: &dyn Clock) -> io::Result<usize> {
    end_by([(Signal::TERM, PATIENCE), (Signal::KILL, PATIENCE)], processes, clock)
}

fn end_by(
    signals: [(Signal, Duration); 2],
    mut processes: Vec<OwnedFd>,
    clock: &dyn Clock,
) -> io::Result<usize> {
    let count = processes.len();
    for (signal, patience) in signals {
        for process in &processes {
            match rustix::process::pidfd_send_signal(process, signal) {
                // It has ended by itself.
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        let until = clock.now() + patience;
        let mut left = Vec::new();
        for process in processes {
            if !wait(process.as_fd(), until.saturating_sub(clock.now()))? {
                left.push(process);
            }
        }
        processes = left;
        if processes.is_empty() {
            return Ok(count);
        }
    }
    let text = format!("{} processes are still there although they were killed", processes.len());
    Err(io::Error::new(io::ErrorKind::TimedOut, text))
}

/// Waits for a process's end. Tells whether it came.
fn wait(process: BorrowedFd<'_>, patience: Duration) -> io::Result<bool> {
    let patience = Timespec::try_from(patience).map_err(io::Error::other)?;
    let mut polled = [PollFd::from_borrowed_fd(process, PollFlags::IN)];
    let ready = rustix::io::retry_on_intr(|| rustix::event::poll(&mut polled, Some(&patience)))?;
    Ok(ready > 0)
}

/// The processes in namespaces, this one left out.
fn inside(namespaces: &[String]) -> io::Result<Vec<OwnedFd>> {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |path: &Path| fs::metadata(path).ok().map(|facts| (facts.dev(), facts.ino()));
    let ours: Vec<_> = namespaces.iter().filter_map(|name| identity(&Path::new(FOLDER).join(name))).collect();
    let mut found = Vec::new();
    if ours.is_empty() {
        return Ok(found);
    }
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let number = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let Some(process) = number.filter(|&number| number != std::process::id()) else { continue };
        // It is opened before it is looked at, so that what is looked at is what will be ended.
        let Some(opened) = Process::open_number(process) else { continue };
        if identity(&entry.path().join("ns/net")).is_some_and(|net| ours.contains(&net)) {
            found.push(opened);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hcn::time::SystemClock;
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn who_does_not_hear_is_killed() {
        use std::os::unix::process::ExitStatusExt as _;
        let script = "trap '' TERM; echo ready; read line";
        let mut deaf = Command::new("sh");
        let mut deaf =
            deaf.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(deaf.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let process = Process::of("deaf", deaf.id()).unwrap().open().unwrap();
        let signals = [(Signal::TERM, Duration::ZERO), (Signal::KILL, Duration::from_mins(1))];
        assert_eq!(end_by(signals, vec![process], &SystemClock::default()).unwrap(), 1);
        assert_eq!(deaf.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
    }
}
