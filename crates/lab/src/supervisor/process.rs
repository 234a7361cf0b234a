//! A lab's processes: started with a log, watched, ended.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use crate::record::Process;

/// A process that runs.
#[derive(Debug)]
pub(super) struct Running {
    /// As the record knows it.
    pub(super) process: Process,
}

/// Opens a log to write at its end.
fn log(folder: &Path, name: &str) -> io::Result<fs::File> {
    fs::create_dir_all(folder)?;
    OpenOptions::new().create(true).append(true).open(folder.join(format!("{name}.log")))
}

/// Starts a process. `input`: its standard input; `ended` is told when it ends, from a thread of its own.
pub(super) fn start(
    name: &str,
    mut command: Command,
    input: Option<OwnedFd>,
    logs: &Path,
    ended: impl FnOnce(u32, Option<ExitStatus>) + Send + 'static,
) -> io::Result<Running> {
    let log = log(logs, name)?;
    command.stdin(input.map_or_else(Stdio::null, Stdio::from)).stdout(log.try_clone()?).stderr(log);
    let child = command.spawn()?;
    let pid = child.id();
    let process = Process::of(name, pid);
    thread::Builder::new().name(format!("wait {pid}")).spawn(move || wait(child, ended))?;
    Ok(Running { process: process? })
}

fn wait(mut child: Child, ended: impl FnOnce(u32, Option<ExitStatus>)) {
    let status = child.wait().ok();
    ended(child.id(), status);
}

impl Running {
    /// Asks it to end.
    pub(super) fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Ends it at once.
    pub(super) fn kill(&self) {
        self.signal(rustix::process::Signal::KILL);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        // It is there as long as nobody has waited for it, or another process that has its number is told apart.
        if self.process.is_alive()
            && let Some(pid) = i32::try_from(self.process.pid).ok().and_then(rustix::process::Pid::from_raw)
        {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}
