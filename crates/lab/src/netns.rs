//! Network namespaces with names, made as iproute2 makes them: `ip netns exec` and `ip -n` work on them.
//!
//! It must not know what a namespace is for, nor what is in it besides the loopback device.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::{panic, thread};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, UnmountFlags};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

/// Where namespaces have their names.
pub const FOLDER: &str = "/run/netns";

/// What failed about a namespace.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// The name cannot be one.
    #[error(
        "{0:?} is no name for a network namespace: it must be a file name of at most 255 bytes, not . or .."
    )]
    Name(String),
    /// There is one of this name.
    #[error(
        "network namespace {0} is there already; remove it with `ip netns delete {0}` or choose another name"
    )]
    Exists(String),
    /// There is none of this name.
    #[error("there is no network namespace {0} in {FOLDER}")]
    Missing(String),
    /// The file of this name is no namespace: whoever made it did not finish.
    #[error("{FOLDER}/{0} is no network namespace; remove it with `ip netns delete {0}`")]
    Unfinished(String),
    /// The system refused.
    #[error("network namespace {name}: {what}: {error}")]
    System {
        /// The namespace.
        name: String,
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        error: io::Error,
    },
}

/// An open network namespace. It stays as long as it has its name or is open somewhere.
#[derive(Debug)]
pub struct Netns {
    name: String,
    fd: OwnedFd,
}

impl Netns {
    /// Makes one, with the loopback device up.
    pub fn create(name: &str) -> Result<Self, NetnsError> {
        let path = path(name)?;
        let system = system(name);
        let lock = folder().map_err(|error| system("preparing /run/netns", error))?;
        let place = OpenOptions::new().write(true).create_new(true).mode(0o444).open(&path);
        match place {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(NetnsError::Exists(name.to_owned()));
            }
            Err(error) => return Err(system("making its file", error)),
        }
        drop(lock);
        let made = on_a_thread(|| {
            // SAFETY: nothing but the network namespace of this thread, which ends at once, is no longer shared.
            #[expect(unsafe_code, reason = "leaving a namespace has no safe function")]
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
                .map_err(|errno| ("leaving the present one", errno.into()))?;
            raise_loopback().map_err(|error| ("bringing lo up", error))?;
            rustix::mount::mount_bind("/proc/thread-self/ns/net", &path)
                .map_err(|errno| ("giving it its name", errno.into()))
        });
        if let Err((what, error)) = made {
            // The name must not stay without a namespace.
            fs::remove_file(&path).map_err(|error| system("removing its file", error))?;
            return Err(system(what, error));
        }
        Self::open(name)
    }

    /// Opens one that is there.
    pub fn open(name: &str) -> Result<Self, NetnsError> {
        let path = path(name)?;
        let file = File::open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => NetnsError::Missing(name.to_owned()),
            _ => system(name)("opening it", error),
        })?;
        let kind =
            rustix::fs::fstatfs(&file).map_err(|errno| system(name)("asking what it is", errno.into()))?;
        if kind.f_type != NSFS {
            return Err(NetnsError::Unfinished(name.to_owned()));
        }
        Ok(Self { name: name.to_owned(), fd: file.into() })
    }

    /// Removes a name, and with the last one that holds it the namespace. There need be none.
    pub fn delete(name: &str) -> Result<(), NetnsError> {
        let path = path(name)?;
        match rustix::mount::unmount(&path, UnmountFlags::DETACH) {
            // Nothing is mounted: whoever made the file did not finish.
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
            Err(errno) => return Err(system(name)("taking its name away", errno.into())),
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(system(name)("removing its file", error))
            }
            _ => Ok(()),
        }
    }

    /// The names that begin with a text, in order. Unfinished ones are among them.
    pub fn list(prefix: &str) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(FOLDER) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut names = Vec::new();
        for entry in entries {
            // A name that is no text is none of ours.
            if let Ok(name) = entry?.file_name().into_string()
                && name.starts_with(prefix)
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Runs something inside, on a thread of its own that ends with it. Sockets and files that it opens stay what they
    /// are when they are handed out.
    pub fn run<R: Send>(&self, job: impl FnOnce() -> R + Send) -> Result<R, NetnsError> {
        on_a_thread(|| {
            rustix::thread::move_into_link_name_space(self.fd.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|errno| system(&self.name)("entering it", errno.into()))?;
            Ok(job())
        })
    }

    /// Sets network settings of it: paths below `/proc/sys/net`, and values.
    pub fn sysctls(&self, settings: &[(&str, &str)]) -> Result<(), NetnsError> {
        self.write_sysctls(settings, |_| false)
    }

    /// The same; what this kernel does not know is left out.
    pub fn optional_sysctls(&self, settings: &[(&str, &str)]) -> Result<(), NetnsError> {
        self.write_sysctls(settings, |error| error.kind() == io::ErrorKind::NotFound)
    }

    fn write_sysctls(
        &self,
        settings: &[(&str, &str)],
        forgiven: impl Fn(&io::Error) -> bool + Sync,
    ) -> Result<(), NetnsError> {
        self.run(|| {
            for (path, value) in settings {
                match fs::write(Path::new("/proc/sys/net").join(path), value) {
                    Err(error) if !forgiven(&error) => {
                        let error = io::Error::new(error.kind(), format!("net/{path} = {value}: {error}"));
                        return Err(system(&self.name)("changing a setting", error));
                    }
                    _ => {}
                }
            }
            Ok(())
        })?
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is to the system.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The file system that namespaces' files are of (`NSFS_MAGIC`).
const NSFS: rustix::fs::FsWord = 0x6e73_6673;

fn system(name: &str) -> impl Fn(&'static str, io::Error) -> NetnsError {
    move |what, error| NetnsError::System { name: name.to_owned(), what, error }
}

fn path(name: &str) -> Result<PathBuf, NetnsError> {
    if name.is_empty() || name.len() > 255 || name.contains(['/', '\0']) || matches!(name, "." | "..") {
        return Err(NetnsError::Name(name.to_owned()));
    }
    Ok(Path::new(FOLDER).join(name))
}

/// Does a job on a thread of its own: what it does to its namespaces touches nobody else.
fn on_a_thread<R: Send>(job: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| scope.spawn(job).join()).unwrap_or_else(|panic| panic::resume_unwind(panic))
}

/// Makes the folder of names, from which other mount namespaces see what is added and removed. The lock is the one
/// that iproute2 takes.
fn folder() -> io::Result<File> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(FOLDER)?;
    let lock = File::open(FOLDER)?;
    rustix::io::retry_on_intr(|| rustix::fs::flock(&lock, FlockOperation::LockExclusive))?;
    let shared = MountPropagationFlags::SHARED | MountPropagationFlags::REC;
    match rustix::mount::mount_change(FOLDER, shared) {
        // It is no mount point yet.
        Err(Errno::INVAL) => {
            rustix::mount::mount_bind_recursive(FOLDER, FOLDER)?;
            rustix::mount::mount_change(FOLDER, shared)?;
        }
        done => done?,
    }
    Ok(lock)
}

/// Brings the loopback device of this thread's namespace up.
fn raise_loopback() -> io::Result<()> {
    /// `RTM_NEWLINK`: a change of an existing device, if no other flag says that one is to be made.
    const NEW_LINK: u16 = 16;
    /// `NLM_F_REQUEST | NLM_F_ACK`.
    const FLAGS: u16 = 1 | 4;
    /// `NLMSG_ERROR`: the kernel's answer, an error number that is zero when all went well.
    const ANSWER: u16 = 2;
    /// In a new namespace the loopback device is the first.
    const LOOPBACK: u32 = 1;
    /// `IFF_UP`.
    const UP: u32 = 1;
    const LENGTH: u32 = 32;

    // Protocol 0 is that of links, addresses and routes.
    let socket =
        rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let mut message = Vec::new();
    message.extend(LENGTH.to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(FLAGS.to_ne_bytes());
    // Sequence number, sender: there is one message only.
    message.extend([0; 8]);
    // Family and type of device: any.
    message.extend([0; 4]);
    message.extend(LOOPBACK.to_ne_bytes());
    // The flags, and which of them are meant.
    message.extend(UP.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    rustix::net::sendto(&socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0; 256];
    let (length, _) =
        rustix::io::retry_on_intr(|| rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty()))?;
    let read = |at: usize| answer[..length].get(at..).and_then(|rest| rest.first_chunk::<4>().copied());
    let kind = read(4).map(|[a, b, _, _]| u16::from_ne_bytes([a, b]));
    match (kind, read(16).map(i32::from_ne_bytes)) {
        (Some(ANSWER), Some(0)) => Ok(()),
        (Some(ANSWER), Some(negative)) => Err(io::Error::from_raw_os_error(-negative)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer is none")),
    }
}
