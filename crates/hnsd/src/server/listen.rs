//! Sockets that are safe before anybody can connect: a Unix socket gets its mode before it listens, a port is on
//! loopback and its token is written to a file that only the owner can read.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::token::{Token, TokenFile};

/// How many connections wait to be accepted.
const BACKLOG: i32 = 1024;

/// A socket that cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Another server is there.
    #[error("another server listens at {}; end it, or choose another socket", .0.display())]
    InUse(PathBuf),
    /// Something that is no socket has the name.
    #[error("{} is there and is no socket; remove it, or choose another name", .0.display())]
    NoSocket(PathBuf),
    /// The socket cannot be made.
    #[error("socket {}: {source}", path.display())]
    Unix {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The port cannot be had.
    #[error("port {port} of 127.0.0.1: {source}")]
    Port {
        /// The port; 0 stands for any.
        port: u16,
        /// Why.
        source: io::Error,
    },
    /// The port is reachable from other machines.
    #[error("{0} is not a loopback address: HNS is served to this machine only, on 127.0.0.1")]
    NotLoopback(SocketAddr),
    /// The token file cannot be written.
    #[error("token file {}: {source}", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A socket that was handed in cannot be used, or there is no randomness.
    #[error("the listening socket: {0}")]
    Other(#[from] io::Error),
}

/// A listening socket and what goes with it.
pub(super) struct Listening {
    pub(super) socket: Socket,
    /// What clients must show.
    pub(super) token: Option<Token>,
    pub(super) traces: Vec<Trace>,
}

pub(super) enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// A file of the server's, removed when dropped unless somebody else has put another there.
pub(super) struct Trace {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl Trace {
    fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), identity: identity(path) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

impl Listening {
    pub(super) fn unix(path: &Path) -> Result<Self, ServerError> {
        let failed = |source: io::Error| ServerError::Unix { path: path.to_owned(), source };
        // Two servers that start at once must not take each other's socket for a dead one's.
        let _turn = lock_folder(path).map_err(failed)?;
        clear_the_way(path)?;
        let socket = bind(path).map_err(failed)?;
        let listener = UnixListener::from(socket);
        Ok(Self { socket: Socket::Unix(listener), token: None, traces: vec![Trace::of(path)] })
    }

    pub(super) fn unix_listener(listener: UnixListener) -> Self {
        Self { socket: Socket::Unix(listener), token: None, traces: Vec::new() }
    }

    pub(super) fn tcp(listener: TcpListener, token_file: &Path) -> Result<Self, ServerError> {
        let token = Token::random()?;
        let file = TokenFile { address: listener.local_addr()?, token: token.clone() };
        let mut listening = Self::tcp_with_token(listener, token)?;
        file.write(token_file)
            .map_err(|source| ServerError::TokenFile { path: token_file.to_owned(), source })?;
        listening.traces.push(Trace::of(token_file));
        Ok(listening)
    }

    pub(super) fn tcp_with_token(listener: TcpListener, token: Token) -> Result<Self, ServerError> {
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            return Err(ServerError::NotLoopback(address));
        }
        Ok(Self { socket: Socket::Tcp(listener), token: Some(token), traces: Vec::new() })
    }
}

pub(super) fn bind_tcp(port: u16) -> Result<TcpListener, ServerError> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|source| ServerError::Port { port, source })
}

/// Held while a socket is looked at, removed and made. It is the folder itself, so that no lock file is left.
fn lock_folder(path: &Path) -> io::Result<OwnedFd> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let folder =
        rustix::fs::open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::retry_on_intr(|| rustix::fs::flock(&folder, FlockOperation::LockExclusive))?;
    Ok(folder)
}

/// Removes what a dead server has left.
fn clear_the_way(path: &Path) -> Result<(), ServerError> {
    let failed = |source| ServerError::Unix { path: path.to_owned(), source };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(file) if !file.file_type().is_socket() => return Err(ServerError::NoSocket(path.to_owned())),
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
        // It answers, or it does not let us in: either way it is somebody's.
        Ok(_) => return Err(ServerError::InUse(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
        _ => Ok(()),
    }
}

/// A socket with mode 0600 that listens. Until it listens nobody can connect, so the mode counts from the start.
fn bind(path: &Path) -> io::Result<OwnedFd> {
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    let listen = || {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok(rustix::net::listen(&socket, BACKLOG)?)
    };
    listen().inspect_err(|_: &io::Error| {
        let _ = std::fs::remove_file(path);
    })?;
    Ok(socket)
}
