//! The server as a program has it: started, stopped, started again at the same address.
//!
//! It runs on threads of its own, so that a test may block, use a runtime of its own, or none. This module must not know
//! requests.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::access::{Access, User};
use crate::activity::Activity;
use crate::fault::Faults;
use crate::features::Features;
use crate::rest::{Networks, Server};
use crate::serve;
use crate::store::Store;
use crate::time::{RealTime, Time};
use crate::tls::{Authority, Identity, TlsError, Validity, server_config, server_names};

/// The version that the server says it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// `1`.
    pub major: String,
    /// `34`.
    pub minor: String,
    /// `v1.34.0`.
    pub git: String,
}

impl Default for Version {
    fn default() -> Self {
        Self { major: "1".to_owned(), minor: "34".to_owned(), git: "v1.34.0".to_owned() }
    }
}

/// How the server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// HTTP without TLS.
    Plain,
    /// TLS with a certificate of the cluster's own CA, HTTP/2 or HTTP/1.1 as the client likes.
    Tls,
    /// TLS, and HTTP/1.1 only.
    TlsHttp1,
}

/// How a server is started.
#[derive(Clone)]
pub struct Options {
    /// Where it listens; with port 0 the system chooses one.
    pub listen: SocketAddr,
    /// How it speaks.
    pub transport: Transport,
    /// More DNS names and addresses in its certificate.
    pub server_names: Vec<String>,
    /// Whether requests without credentials are let in. Everybody may do everything until [`Access::allow_only`].
    pub anonymous: bool,
    /// The time of deadlines, bookmarks, slow bodies and timestamps.
    pub time: Arc<dyn Time>,
    /// Seed of uids, generated names and addresses.
    pub seed: u64,
    /// How often a watch that wants bookmarks gets one. Upstream: about a minute.
    pub bookmark_every: Duration,
    /// How long a watch lasts that does not say: so long to twice as long. Upstream: half an hour.
    pub watch_timeout: Duration,
    /// How many changes of each kind are kept for watches; older ones are compacted away.
    pub history: usize,
    /// How many requests the ledger keeps.
    pub requests: usize,
    /// What `/version` says.
    pub version: Version,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            transport: Transport::Tls,
            server_names: Vec::new(),
            anonymous: true,
            time: Arc::new(RealTime::default()),
            seed: 1,
            bookmark_every: Duration::from_mins(1),
            watch_timeout: Duration::from_mins(30),
            history: 200_000,
            requests: 100_000,
            version: Version::default(),
        }
    }
}

impl Options {
    /// HTTP without TLS.
    pub fn plain() -> Self {
        Self { transport: Transport::Plain, ..Self::default() }
    }

    /// The same with another time.
    #[must_use]
    pub fn time(mut self, time: impl Time + 'static) -> Self {
        self.time = Arc::new(time);
        self
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("listen", &self.listen)
            .field("transport", &self.transport)
            .finish_non_exhaustive()
    }
}

/// Why the server does not start, or cannot hand out a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// It cannot listen.
    #[error("the API server cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Its threads cannot be started.
    #[error("the API server's threads cannot be started: {0}")]
    Threads(#[source] io::Error),
    /// There is no TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// It speaks plain HTTP, where there are no certificates.
    #[error("the API server speaks HTTP without TLS and has no CA; start it with Transport::Tls")]
    NoTls,
    /// A file cannot be written.
    #[error("{path} cannot be written: {source}")]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What becomes of the store while the server is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreFate {
    /// It is as it was.
    Kept,
    /// Its history is compacted away: watches from before are answered 410.
    Compacted,
    /// It is lost, as in [`Store::lose`].
    Lost,
}

/// Starts servers.
#[derive(Debug)]
pub struct ApiServer;

/// A server, running or stopped. Stops when it is dropped.
pub struct Running {
    address: SocketAddr,
    server: Arc<Server>,
    authority: Option<Authority>,
    acceptor: Option<TlsAcceptor>,
    thread: Option<Thread>,
}

struct Thread {
    stop: watch::Sender<bool>,
    handle: std::thread::JoinHandle<()>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running")
            .field("url", &self.url())
            .field("running", &self.is_running())
            .finish_non_exhaustive()
    }
}

impl ApiServer {
    /// Starts a server; it listens when this returns.
    pub fn start(options: Options) -> Result<Running, ServerError> {
        let (authority, acceptor) = match options.transport {
            Transport::Plain => (None, None),
            transport => {
                let authority = Authority::new("kubernetes")?;
                let identity = authority.server(&server_names(options.listen.ip(), &options.server_names))?;
                let config = server_config(&identity, transport == Transport::Tls)?;
                (Some(authority), Some(TlsAcceptor::from(config)))
            }
        };
        let server = Server {
            store: Store::new(Arc::clone(&options.time), options.seed, options.history),
            activity: Activity::new(options.requests),
            faults: Faults::default(),
            access: Access::new(options.anonymous),
            features: Features::default(),
            time: options.time,
            ready: AtomicBool::new(true),
            bookmark_every: options.bookmark_every,
            watch_timeout: options.watch_timeout,
            version: options.version,
            networks: Networks::default(),
        };
        let mut running =
            Running { address: options.listen, server: Arc::new(server), authority, acceptor, thread: None };
        running.listen()?;
        Ok(running)
    }
}

impl Running {
    fn listen(&mut self) -> Result<(), ServerError> {
        let address = self.address;
        let failed = |source| ServerError::Listen { address, source };
        let listener = serve::listen(address).map_err(failed)?;
        self.address = listener.local_addr().map_err(failed)?;
        let (stop, stopped) = watch::channel(false);
        let (server, acceptor) = (Arc::clone(&self.server), self.acceptor.clone());
        let handle = on_own_thread("apiserver", 2, async move {
            serve::run(listener, acceptor, server, stopped).await;
        })
        .map_err(ServerError::Threads)?;
        self.thread = Some(Thread { stop, handle });
        Ok(())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `https://127.0.0.1:40123`.
    pub fn url(&self) -> String {
        let scheme = if self.acceptor.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The certificate of the cluster's CA, PEM; none over plain HTTP.
    pub fn ca_pem(&self) -> Option<&str> {
        self.authority.as_ref().map(|authority| authority.pem.as_str())
    }

    /// A certificate for a user, whose common name is the user's and whose organisations are the groups.
    pub fn client_identity(&self, user: &User) -> Result<Identity, ServerError> {
        self.identity(user, Validity::Current)
    }

    /// A certificate that was good until 2001; who comes with it is refused (401).
    pub fn expired_identity(&self, user: &User) -> Result<Identity, ServerError> {
        self.identity(user, Validity::Expired)
    }

    fn identity(&self, user: &User, validity: Validity) -> Result<Identity, ServerError> {
        let identity = self.authority.as_ref().ok_or(ServerError::NoTls)?.client(user, validity)?;
        self.server
            .access
            .set_certificate(&identity.der, (validity == Validity::Current).then(|| user.clone()));
        Ok(identity)
    }

    /// The objects.
    pub fn store(&self) -> &Store {
        &self.server.store
    }

    /// Requests, watches, connections.
    pub fn activity(&self) -> &Activity {
        &self.server.activity
    }

    /// The fault plan.
    pub fn faults(&self) -> &Faults {
        &self.server.faults
    }

    /// Credentials and rights.
    pub fn access(&self) -> &Access {
        &self.server.access
    }

    /// What the server has and has not.
    pub fn features(&self) -> &Features {
        &self.server.features
    }

    /// What `/readyz` says.
    pub fn set_ready(&self, ready: bool) {
        self.server.ready.store(ready, Ordering::SeqCst);
    }

    /// Whether it is running.
    pub fn is_running(&self) -> bool {
        self.thread.is_some()
    }

    /// Stops as a process that is killed: nothing listens any more, and every connection ends wherever it is.
    pub fn stop(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.stop.send_replace(true);
            if thread.handle.join().is_err() {
                tracing::error!("the API server's thread ended with a panic");
            }
        }
    }

    /// Starts a server that was stopped, at the same address and with the same certificates, credentials and faults.
    pub fn start_again(&mut self, store: StoreFate) -> Result<(), ServerError> {
        if self.is_running() {
            return Ok(());
        }
        match store {
            StoreFate::Kept => {}
            StoreFate::Compacted => self.server.store.compact_all(),
            StoreFate::Lost => self.server.store.lose(),
        }
        self.listen()
    }

    /// [`Running::stop`] and [`Running::start_again`].
    pub fn restart(&mut self, store: StoreFate) -> Result<(), ServerError> {
        self.stop();
        self.start_again(store)
    }
}

/// Runs a task on a runtime and threads of its own. The runtime is made and ends there and not with the caller, who may
/// be in a runtime himself, where neither is allowed.
pub(crate) fn on_own_thread(
    name: &str,
    workers: usize,
    task: impl Future<Output = ()> + Send + 'static,
) -> io::Result<std::thread::JoinHandle<()>> {
    let (started, starts) = std::sync::mpsc::channel();
    let workers_name = name.to_owned();
    let work = move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(workers)
            .thread_name(workers_name)
            .enable_all()
            .build();
        match runtime {
            Ok(runtime) => {
                let _ = started.send(Ok(()));
                runtime.block_on(task);
            }
            Err(error) => {
                let _ = started.send(Err(error));
            }
        }
    };
    let handle = std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
    starts.recv().map_err(io::Error::other)??;
    Ok(handle)
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}
