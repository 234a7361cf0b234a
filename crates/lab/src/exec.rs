//! Any program in a pod: in its network namespace, with its host name and its files in `/etc`.
//!
//! A thread leaves the namespaces of its process and starts the program, which is born where the thread is. Nothing runs
//! between fork and exec, and nothing of the caller changes. The rest of the file system, processes and users are the
//! machine's; `/sys` shows the machine's devices, `/proc/net` and netlink the pod's.
//!
//! It must not know labs or Kubernetes' objects; [`etc_files`] is told what it needs of a pod.

mod etc;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use nix::sched::{CloneFlags, unshare};
use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};

use crate::netns::{Netns, NetnsError};

pub use etc::{EtcFiles, Identity, Resolver, etc_files};

/// The files of a pod's folder that its programs see, and whether they must.
const FILES: [(&str, bool); 3] = [("resolv.conf", true), ("hosts", true), ("hostname", false)];

/// Where a program runs and what it finds there.
#[derive(Clone, Debug, Default)]
pub struct Exec {
    /// The network namespace; empty: the caller's own, with its host name and files.
    pub namespace: String,
    /// The host name; none: the machine's.
    pub hostname: Option<String>,
    /// A folder whose files `resolv.conf`, `hosts` and `hostname` stand for those in `/etc`. Those that are not there
    /// are the machine's.
    pub etc: Option<PathBuf>,
    /// Variables besides those of the caller.
    pub env: Vec<(OsString, OsString)>,
}

/// Why a program does not run.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// No program was named.
    #[error("there is nothing to run: name a program")]
    Empty,
    /// The network namespace cannot be entered.
    #[error(transparent)]
    Namespace(#[from] NetnsError),
    /// It cannot get namespaces, a host name or files of its own.
    #[error("namespace {namespace}: {what}: {error}")]
    System {
        /// The network namespace.
        namespace: String,
        /// What was tried.
        what: String,
        /// Why it failed.
        error: io::Error,
    },
    /// There is no file that the pod's could stand for.
    #[error(
        "{path} is missing on this machine, or a link to nothing, so that a pod's file cannot stand for it: make it an \
         (empty) file"
    )]
    NoFile {
        /// The machine's file.
        path: PathBuf,
    },
    /// The program does not start.
    #[error("{program} does not start in namespace {namespace}: {error}")]
    Program {
        /// The program.
        program: String,
        /// The network namespace.
        namespace: String,
        /// Why.
        error: io::Error,
    },
}

impl ExecError {
    /// What a shell would end with: 127 if there is no such program, else 126.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Program { error, .. } if error.kind() == io::ErrorKind::NotFound => 127,
            _ => 126,
        }
    }
}

/// What a shell would say of how a program ended: its own code, or 128 and the number of the signal.
pub fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(126)
}

impl Exec {
    /// Runs a program with the caller's input and output until it ends. The exit code is a shell's.
    pub fn run(&self, argv: &[OsString]) -> Result<i32, ExecError> {
        let mut child = self.spawn(argv, |_| {})?;
        let status = child.wait().map_err(|error| self.system("waiting for the program", error))?;
        Ok(exit_code(status))
    }

    /// Starts a program. `prepare` may change its input, output and folder.
    pub fn spawn(
        &self,
        argv: &[OsString],
        prepare: impl FnOnce(&mut Command) + Send,
    ) -> Result<Child, ExecError> {
        let (program, arguments) = argv.split_first().ok_or(ExecError::Empty)?;
        let start = || {
            let mut command = Command::new(program);
            command.args(arguments).envs(self.env.iter().map(|(name, value)| (name, value)));
            prepare(&mut command);
            command.spawn().map_err(|error| ExecError::Program {
                program: program.display().to_string(),
                namespace: self.namespace.clone(),
                error,
            })
        };
        if self.namespace.is_empty() {
            return start();
        }
        // The thread that enters is its own, and nothing else ever runs on it.
        Netns::open(&self.namespace)?.run(|| {
            self.settle()?;
            start()
        })?
    }

    fn system(&self, what: impl Into<String>, error: impl Into<io::Error>) -> ExecError {
        ExecError::System { namespace: self.namespace.clone(), what: what.into(), error: error.into() }
    }

    /// Gives the calling thread mounts and a host name of its own.
    fn settle(&self) -> Result<(), ExecError> {
        unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS).map_err(|errno| {
            self.system("leaving the machine's mounts and host name (are you root?)", errno)
        })?;
        // Else what is mounted here would be seen by all.
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change("/", private).map_err(|errno| self.system("keeping mounts private", errno))?;
        if let Some(hostname) = &self.hostname {
            rustix::system::sethostname(hostname.as_bytes())
                .map_err(|errno| self.system(format!("taking the host name {hostname:?}"), errno))?;
        }
        let Some(folder) = &self.etc else { return Ok(()) };
        for (name, needed) in FILES {
            let file = folder.join(name);
            if file.exists() {
                self.cover(&file, OsStr::new(name), needed)?;
            }
        }
        Ok(())
    }

    /// Makes a file stand for the one of this name in `/etc`. If that is a link, programs follow it, and so does the
    /// mount: what the link leads to is covered, for this program only.
    fn cover(&self, file: &Path, name: &OsStr, needed: bool) -> Result<(), ExecError> {
        let path = Path::new("/etc").join(name);
        match path.canonicalize() {
            Ok(real) => mount_bind(file, &real).map_err(|errno| {
                self.system(format!("mounting {} on {}", file.display(), real.display()), errno)
            }),
            // A mount needs something to lie on, and to make it would change the machine.
            Err(error) if error.kind() == io::ErrorKind::NotFound && needed => {
                Err(ExecError::NoFile { path })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(self.system(format!("looking at {}", path.display()), error)),
        }
    }
}
