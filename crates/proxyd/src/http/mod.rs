//! The proxy's servers: health, metrics, and the health check ports of Services, on a runtime with threads of its own, so that
//! neither HNS nor the loop holds up an answer, and nobody who asks holds up the loop.
//!
//! | module | job |
//! |---|---|
//! | [`site`] | what is answered at which path |
//! | `serve` | connections of one socket, with limits |
//! | `exchange` | requests and replies |
//!
//! The servers are a few fixed paths without bodies: hyper alone does them, without a router and middleware around it.

mod exchange;
pub(crate) mod serve;
pub mod site;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Runtime;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::checks;
use crate::listen::{ListenFailure, Purpose, open};
use crate::log::{LOOK, Log};
use crate::run::Observer;
pub use exchange::{Reply, Request};
use serve::{Handler, Limits, serve, until};
use site::{Door, Site};

/// Threads that answer.
const THREADS: usize = 2;

/// How long answers that are under way may take when it is time to end.
const GRACE: Duration = Duration::from_secs(2);

/// Where is listened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Health; `None`: not served.
    pub healthz: Option<SocketAddr>,
    /// Metrics; `None`: not served.
    pub metrics: Option<SocketAddr>,
}

/// How the servers work.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Where is listened.
    pub addresses: Addresses,
    /// An address that cannot be listened on is an error, and not tried again.
    pub hard_fail: bool,
    /// How long until a socket that could not be opened is tried again.
    pub retry: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { addresses: Addresses::default(), hard_fail: false, retry: Duration::from_secs(5) }
    }
}

/// Why the servers did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There are no threads.
    #[error("the threads that answer health and metrics cannot be started: {0}")]
    Runtime(std::io::Error),
    /// An address, where that is an error.
    #[error(transparent)]
    Listen(ListenFailure),
}

/// The addresses that a socket is really at, for tests and for logs.
type Bound = Arc<Mutex<std::collections::BTreeMap<Purpose, SocketAddr>>>;

/// Servers that run. They end when this is dropped.
pub struct Server {
    runtime: Option<Runtime>,
    addresses: watch::Sender<Addresses>,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    bound: Bound,
    nudge: Arc<Notify>,
    site: Arc<Site>,
}

/// Moves the addresses of servers.
#[derive(Clone, Debug)]
pub struct Handle(watch::Sender<Addresses>);

impl Handle {
    /// As [`Server::set_addresses`].
    pub fn set_addresses(&self, addresses: Addresses) {
        self.0.send_if_modified(|known| std::mem::replace(known, addresses) != addresses);
    }
}

impl Server {
    /// Starts. With [`Settings::hard_fail`] the addresses are listened on when this returns.
    pub fn start(site: Arc<Site>, settings: Settings) -> Result<Self, StartError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("transom-http")
            .enable_all()
            .build()
            .map_err(StartError::Runtime)?;
        let (addresses, _) = watch::channel(settings.addresses);
        let (stop, _) = watch::channel(false);
        let (bound, nudge) = (Bound::default(), Arc::new(Notify::new()));
        let mut tasks = Vec::new();
        for (purpose, door) in [
            (Purpose::Healthz, Door::Healthz),
            (Purpose::Metrics, Door::Metrics),
            (Purpose::Status, Door::Status),
        ] {
            let mut socket = Socket {
                site: Arc::clone(&site),
                purpose,
                door,
                retry: settings.retry,
                bound: Arc::clone(&bound),
                listener: None,
            };
            if let Some(address) = address(door, settings.addresses) {
                let opened = socket.open(address);
                if let Err(failure) = opened
                    && settings.hard_fail
                    && socket.purpose != Purpose::Status
                {
                    return Err(StartError::Listen(failure));
                }
            }
            tasks.push(runtime.spawn(socket.run(addresses.subscribe(), stop.subscribe())));
        }
        let follow = checks::follow(Arc::clone(&site), Arc::clone(&nudge), settings.retry, stop.subscribe());
        tasks.push(runtime.spawn(follow));
        tasks.push(runtime.spawn(say(Arc::clone(&site), stop.subscribe())));
        Ok(Self { runtime: Some(runtime), addresses, stop, tasks, bound, nudge, site })
    }

    /// Who must be told of passes: the metrics, and the health check ports.
    pub fn observers(&self) -> Vec<Box<dyn Observer>> {
        vec![self.site.observer(), Box::new(checks::Nudge(Arc::clone(&self.nudge)))]
    }

    /// Listens elsewhere from now on; connections that are open end with the answer under way.
    pub fn set_addresses(&self, addresses: Addresses) {
        self.addresses.send_if_modified(|known| std::mem::replace(known, addresses) != addresses);
    }

    /// Something to move the addresses with that does not keep the servers alive.
    pub fn handle(&self) -> Handle {
        Handle(self.addresses.clone())
    }

    /// Where is listened now, by purpose; health check ports are not among them.
    pub fn bound(&self) -> std::collections::BTreeMap<Purpose, SocketAddr> {
        self.bound.lock().clone()
    }

    /// What is answered.
    pub fn site(&self) -> &Arc<Site> {
        &self.site
    }

    /// Ends: nothing new is taken, answers under way are given.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        self.stop.send_replace(true);
        let tasks = std::mem::take(&mut self.tasks);
        // A caller on a runtime of its own could not wait here.
        if tokio::runtime::Handle::try_current().is_err() {
            let all = async move {
                for task in tasks {
                    let _ = task.await;
                }
            };
            let _ = runtime.block_on(async { tokio::time::timeout(GRACE, all).await });
        }
        runtime.shutdown_background();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Says in the log what is not as it should be. Here, because these threads wait neither for HNS nor for the loop.
async fn say(site: Arc<Site>, mut stop: watch::Receiver<bool>) {
    let mut log = Log::default();
    let mut times = tokio::time::interval(LOOK);
    times.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let all = async {
        loop {
            times.tick().await;
            let (seen, verdict) = site.judge();
            let meters = site.state().hns().map(|watch| watch.meters());
            for line in log.look(&seen, &verdict, meters.as_ref()) {
                line.write();
            }
        }
    };
    until(all, &mut stop).await;
}

/// One address that is served, wherever it is at the moment.
struct Socket {
    site: Arc<Site>,
    purpose: Purpose,
    door: Door,
    retry: Duration,
    bound: Bound,
    /// The socket, and the address that it was asked for.
    listener: Option<(SocketAddr, std::net::TcpListener)>,
}

fn address(door: Door, addresses: Addresses) -> Option<SocketAddr> {
    match door {
        Door::Healthz => addresses.healthz,
        Door::Metrics => addresses.metrics,
        Door::Status => addresses.metrics.and_then(status_address),
    }
}

impl Socket {
    fn open(&mut self, address: SocketAddr) -> Result<(), ListenFailure> {
        match open(address) {
            Ok(listener) => {
                let at = listener.local_addr().unwrap_or(address);
                tracing::info!(purpose = %self.purpose, address = %at, "Listening");
                self.bound.lock().insert(self.purpose.clone(), at);
                self.site.board().up(&self.purpose);
                self.listener = Some((address, listener));
                Ok(())
            }
            Err(error) => {
                let failure =
                    ListenFailure { purpose: self.purpose.clone(), address, error: error.to_string() };
                self.site.board().failed(&failure);
                Err(failure)
            }
        }
    }

    fn close(&mut self) {
        self.listener = None;
        self.bound.lock().remove(&self.purpose);
        self.site.board().gone(&self.purpose);
    }

    async fn run(mut self, mut addresses: watch::Receiver<Addresses>, mut stop: watch::Receiver<bool>) {
        loop {
            let door = self.door;
            let wanted = address(door, *addresses.borrow_and_update());
            // The addresses may have changed before this was first reached.
            if self.listener.as_ref().is_some_and(|(at, _)| Some(*at) != wanted) {
                self.close();
            }
            let changed = changed(&mut addresses, move |now| address(door, now) != wanted);
            if let Some(address) = wanted
                && self.listener.is_none()
                && self.open(address).is_err()
            {
                let wait = async {
                    tokio::select! {
                        () = changed => {}
                        () = tokio::time::sleep(self.retry) => {}
                    }
                };
                if until(wait, &mut stop).await {
                    continue;
                }
                return;
            }
            let (end, ended) = watch::channel(false);
            let serving = self.listener.take().map(|(_, listener)| {
                let site = Arc::clone(&self.site);
                let handler: Handler = Arc::new(move |request| site.answer(door, request));
                tokio::spawn(serve(listener, handler, Limits::default(), ended))
            });
            let goes_on = until(changed, &mut stop).await;
            end.send_replace(true);
            if let Some(serving) = serving {
                let _ = serving.await;
            }
            self.close();
            if !goes_on {
                return;
            }
        }
    }
}

/// Waits until the addresses are such; for ever once nobody can change them.
async fn changed(addresses: &mut watch::Receiver<Addresses>, mut is: impl FnMut(Addresses) -> bool) {
    if addresses.wait_for(|now| is(*now)).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Where the status is served when metrics are on an address that is not of this machine only: `transom proxy status` asks the
/// same port at a loopback address, whatever the metrics address is.
fn status_address(metrics: SocketAddr) -> Option<SocketAddr> {
    let ip = metrics.ip();
    // A socket for all addresses has the loopback ones too.
    if ip.is_loopback() || ip.is_unspecified() {
        return None;
    }
    let loopback =
        if ip.is_ipv4() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { IpAddr::V6(Ipv6Addr::LOCALHOST) };
    Some(SocketAddr::new(loopback, metrics.port()))
}
