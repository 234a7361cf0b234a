//! The server: sockets, limits, and calls that may hang for ever on threads of their own.
//!
//! | module | job |
//! |---|---|
//! | `limits` | every bound, in one place |
//! | `listen` | Unix sockets and loopback ports, safe before anybody can connect; the token file |
//! | `accept` | who is let in, and who is told why not |
//! | `connection` | one client: its hello, its requests, what is written to it |
//! | `dispatch` | from a request to a call of `Hcn` or of the service, and back |
//! | `share` | how many calls are under way: of a connection, an actor, all |
//! | [`stream`] | events: of a service's streams and of HNS |
//!
//! One small reactor of its own serves all sockets, so that a program needs no other. Sockets are bound when they are
//! named, and served once [`Server::start`] is called: between the two a program can drop its privileges.

mod accept;
mod connection;
mod dispatch;
mod limits;
mod listen;
mod share;
pub mod stream;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

pub use limits::Limits;
pub use listen::ServerError;

use crate::service::Service;
use crate::token::Token;
use listen::{Listening, Socket};
use share::Shares;

/// How long the end of a server may take beside the calls that are under way.
const MARGIN: Duration = Duration::from_secs(1);

/// A server that is being set up.
pub struct Server {
    service: Arc<dyn Service>,
    limits: Limits,
    sockets: Vec<Listening>,
}

/// What all connections share.
struct Shared {
    service: Arc<dyn Service>,
    limits: Limits,
    /// Places for clients that have said hello.
    clients: Arc<Semaphore>,
    shares: Shares,
    phase: watch::Receiver<Phase>,
}

/// What the server is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Serving,
    /// No new client, no new request; calls under way have this long.
    Ending(Duration),
}

impl Server {
    /// A server without sockets.
    pub fn new(service: Arc<dyn Service>, limits: Limits) -> Self {
        Self { service, limits, sockets: Vec::new() }
    }

    /// Listens on a Unix socket that only its owner may connect to. What a server that is no more left there is
    /// replaced; a server that lives there is an error. The file goes when the server ends.
    pub fn unix(mut self, path: &Path) -> Result<Self, ServerError> {
        self.sockets.push(Listening::unix(path)?);
        Ok(self)
    }

    /// Serves a Unix socket that is listening already; its file, if it has one, stays.
    #[must_use]
    pub fn unix_listener(mut self, listener: UnixListener) -> Self {
        self.sockets.push(Listening::unix_listener(listener));
        self
    }

    /// Listens on a port of 127.0.0.1 (0: one that is free) and leaves port and token in a file that only its owner
    /// can read. The file goes when the server ends.
    pub fn tcp(self, port: u16, token_file: &Path) -> Result<Self, ServerError> {
        self.tcp_listener(listen::bind_tcp(port)?, token_file)
    }

    /// Serves a port that is listening already, on a loopback address, with a fresh token in a token file.
    pub fn tcp_listener(mut self, listener: TcpListener, token_file: &Path) -> Result<Self, ServerError> {
        self.sockets.push(Listening::tcp(listener, token_file)?);
        Ok(self)
    }

    /// Serves a port that is listening already, on a loopback address, to those who show this token; no file is
    /// written.
    pub fn tcp_with_token(mut self, listener: TcpListener, token: Token) -> Result<Self, ServerError> {
        self.sockets.push(Listening::tcp_with_token(listener, token)?);
        Ok(self)
    }

    /// Serves, on threads of its own, until the handle is dropped or told to end.
    pub fn start(self) -> io::Result<Running> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(self.limits.threads())
            .thread_name("hnsd")
            .enable_all()
            .build()?;
        let (phase, watched) = watch::channel(Phase::Serving);
        let shared = Arc::new(Shared {
            service: self.service,
            clients: Arc::new(Semaphore::new(self.limits.clients)),
            shares: Shares::new(&self.limits),
            limits: self.limits,
            phase: watched,
        });
        let mut accepting = JoinSet::new();
        let mut traces = Vec::new();
        let mut addresses = Vec::new();
        for Listening { socket, token, traces: left } in self.sockets {
            if let Socket::Tcp(listener) = &socket {
                addresses.push(listener.local_addr()?);
            }
            traces.extend(left);
            let _context = runtime.enter();
            let shared = Arc::clone(&shared);
            let listener = accept::Listener::new(socket)?;
            accepting.spawn_on(accept::accept(listener, token, shared), runtime.handle());
        }
        Ok(Running { runtime: Some(runtime), phase, accepting, traces, addresses })
    }
}

/// A server that serves. Dropping it ends the server at once; calls that hang are left to the process' end.
pub struct Running {
    runtime: Option<Runtime>,
    phase: watch::Sender<Phase>,
    accepting: JoinSet<()>,
    /// Files that go when the server ends.
    traces: Vec<listen::Trace>,
    addresses: Vec<SocketAddr>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running")
            .field("tcp", &self.addresses)
            .field("files", &self.files())
            .finish_non_exhaustive()
    }
}

impl Running {
    /// The loopback ports that are served, in the order in which they were named.
    pub fn tcp_addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The socket and token files that go when the server ends.
    pub fn files(&self) -> Vec<PathBuf> {
        self.traces.iter().map(|trace| trace.path().to_owned()).collect()
    }

    /// Ends the server: no new client and no new request from now on; calls under way may end, and their answers be
    /// written, within `grace`. Returns whether all did.
    pub fn shutdown(mut self, grace: Duration) -> bool {
        self.traces.clear();
        // Nobody listens when there is no socket.
        let _ = self.phase.send(Phase::Ending(grace));
        let Some(runtime) = self.runtime.take() else { return true };
        let accepting = &mut self.accepting;
        let done = runtime.block_on(async {
            // Each listener's task ends with its connections, and these with their calls. The margin is for writing.
            tokio::time::timeout(grace.saturating_add(MARGIN), async {
                while accepting.join_next().await.is_some() {}
            })
            .await
        });
        if done.is_ok() {
            // What is left are ends of subscriptions; when they are over nothing of the service is held any more.
            runtime.shutdown_timeout(MARGIN);
        } else {
            runtime.shutdown_background();
        }
        done.is_ok()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.traces.clear();
        if let Some(runtime) = self.runtime.take() {
            self.accepting.abort_all();
            // A call that hangs would hang this thread too.
            runtime.shutdown_background();
        }
    }
}
