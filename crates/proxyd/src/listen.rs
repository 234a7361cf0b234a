//! Sockets that are listened on: opening them, for both families where the system allows, and what is known of those that could
//! not be. Knows nothing of what is answered.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use parking_lot::Mutex;
use services::ServiceKey;
use socket2::{Domain, Protocol, Socket, Type};

/// How many connections may wait to be taken.
const BACKLOG: i32 = 128;

/// What a socket is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// `/healthz` and friends.
    Healthz,
    /// Metrics.
    Metrics,
    /// The status of the proxy, where metrics are not served on a loopback address.
    Status,
    /// A Service's health check.
    Check(ServiceKey, u16),
}

impl Purpose {
    /// In one word, for metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Metrics => "metrics",
            Self::Status => "status",
            Self::Check(..) => "check",
        }
    }
}

impl std::fmt::Display for Purpose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Healthz => f.write_str("the address of /healthz"),
            Self::Metrics => f.write_str("the address of metrics"),
            Self::Status => f.write_str("the address of the status"),
            Self::Check(service, port) => write!(f, "the health check port {port} of {service}"),
        }
    }
}

/// A socket that could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{purpose} ({address}) cannot be listened on: {error}")]
pub struct ListenFailure {
    /// What it is for.
    pub purpose: Purpose,
    /// The address.
    pub address: SocketAddr,
    /// Why not.
    pub error: String,
}

impl ListenFailure {
    /// The reason of the Kubernetes Event that upstream writes about it.
    pub fn reason(&self) -> &'static str {
        match self.purpose {
            Purpose::Healthz => "FailedToStartProxierHealthcheck",
            Purpose::Metrics | Purpose::Status => "FailedToStartMetricServer",
            Purpose::Check(..) => "FailedToStartServiceHealthcheck",
        }
    }
}

/// Is told of sockets that could not be opened, once for each that could not be before.
pub type Complaint = Arc<dyn Fn(&ListenFailure) + Send + Sync>;

/// What is listened on and what could not be. Clones are the same board.
#[derive(Clone, Default)]
pub struct Board {
    inner: Arc<Mutex<Entries>>,
}

#[derive(Default)]
struct Entries {
    /// The error, or none when it is listened on.
    sockets: BTreeMap<Purpose, Option<ListenFailure>>,
    failed: u64,
    complaint: Option<Complaint>,
}

impl Board {
    /// Names who is told of failures.
    pub fn on_failure(&self, complaint: Complaint) {
        self.inner.lock().complaint = Some(complaint);
    }

    /// It is listened on.
    pub(crate) fn up(&self, purpose: &Purpose) {
        self.inner.lock().sockets.insert(purpose.clone(), None);
    }

    /// It could not be opened.
    pub(crate) fn failed(&self, failure: &ListenFailure) {
        let mut inner = self.inner.lock();
        inner.failed += 1;
        let before = inner.sockets.insert(failure.purpose.clone(), Some(failure.clone()));
        let complaint = inner.complaint.clone();
        // Whoever is told may look at the board.
        drop(inner);
        if before.flatten().is_none_or(|before| before.error != failure.error) {
            tracing::error!(
                purpose = %failure.purpose, address = %failure.address, error = failure.error,
                "Cannot listen; it is tried again"
            );
            if let Some(complaint) = complaint {
                complaint(failure);
            }
        }
    }

    /// It is not wanted any more.
    pub(crate) fn gone(&self, purpose: &Purpose) {
        self.inner.lock().sockets.remove(purpose);
    }

    /// What cannot be listened on, and why.
    pub fn failures(&self) -> Vec<(String, String)> {
        let inner = self.inner.lock();
        let failures = inner.sockets.values().flatten();
        failures
            .map(|failure| (format!("{} ({})", failure.purpose, failure.address), failure.error.clone()))
            .collect()
    }

    /// By word, how many are listened on and how many are not.
    pub fn listeners(&self) -> BTreeMap<String, (u64, u64)> {
        let mut counts: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for (purpose, failure) in &self.inner.lock().sockets {
            let count = counts.entry(purpose.word().to_owned()).or_default();
            if failure.is_none() { count.0 += 1 } else { count.1 += 1 }
        }
        counts
    }

    /// How often one could not be opened.
    pub fn attempts_failed(&self) -> u64 {
        self.inner.lock().failed
    }
}

/// Opens a socket. An address that is not specified means both families, as it does for Go's programs: a socket of IPv6 that
/// takes IPv4 as well, or one of the address' own family where the system has no IPv6.
pub fn open(address: SocketAddr) -> io::Result<TcpListener> {
    if address.ip().is_unspecified() {
        let both = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), address.port());
        match bind(both, true) {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                tracing::debug!(%error, %address, "One socket for both families cannot be had");
            }
            result => return result,
        }
    }
    bind(address, false)
}

fn bind(address: SocketAddr, both: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(!both)?;
    }
    // On Windows the option would let two processes have the port; there it is not needed to open one anew.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// An address as its own family writes it: IPv4 through a socket of both families is IPv4.
pub fn plain(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn any_address_is_both_families() {
        let listener = open("0.0.0.0:0".parse().unwrap()).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
        if listener.local_addr().unwrap().is_ipv6() {
            assert!(TcpStream::connect(("::1", port)).is_ok());
        }
    }

    #[test]
    fn a_port_that_is_taken_is_an_error_and_not_another_family() {
        let taken = open("0.0.0.0:0".parse().unwrap()).unwrap();
        let address = SocketAddr::new("0.0.0.0".parse().unwrap(), taken.local_addr().unwrap().port());
        assert_eq!(open(address).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_failure_is_told_once_until_it_is_another() {
        let board = Board::default();
        let told = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&told);
        board.on_failure(Arc::new(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        }));
        let fail = |error: &str| {
            let address = "127.0.0.1:1".parse().unwrap();
            board.failed(&ListenFailure { purpose: Purpose::Metrics, address, error: error.to_owned() });
        };
        fail("taken");
        fail("taken");
        fail("no rights");
        assert_eq!((told.load(Ordering::Relaxed), board.attempts_failed()), (2, 3));
        assert_eq!(board.listeners()["metrics"], (0, 1));
        board.up(&Purpose::Metrics);
        assert!(board.failures().is_empty());
        fail("taken");
        assert_eq!(told.load(Ordering::Relaxed), 3);
        board.gone(&Purpose::Metrics);
        assert!(board.listeners().is_empty());
    }
}
