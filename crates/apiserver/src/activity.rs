//! What the server has been asked, and what is under way: for assertions, and to wait on without sleeping.
//!
//! This module must not know how requests are answered.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

/// One request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// Counts from 0 over the life of the server.
    pub id: u64,
    /// The number of its connection, counted from 1.
    pub connection: u64,
    /// Whether it came over HTTP/2.
    pub http2: bool,
    /// `GET`.
    pub method: String,
    /// `/api/v1/services`.
    pub path: String,
    /// What followed the question mark, as it came.
    pub query: String,
    /// Who asked; empty where that is not known (401).
    pub user: String,
    /// The header of that name.
    pub user_agent: String,
    /// As authorisation sees it: `list`, `watch`, `get`, `create`, ...; the method in small letters for paths that are
    /// no resources.
    pub verb: String,
    /// `services`; empty for paths that are no resources.
    pub resource: String,
    /// The namespace, if the request is about one.
    pub namespace: String,
    /// The object's name, if the request is about one.
    pub name: String,
    /// The status of the answer; none until there is one.
    pub code: Option<u16>,
    /// Bytes of the answer's body that were handed to the connection.
    pub bytes: u64,
    /// Watch events among them.
    pub events: u64,
    /// Whether the answer has ended, one way or another.
    pub ended: bool,
}

impl Request {
    /// The value of a parameter in [`Request::query`], decoded.
    pub fn parameter(&self, name: &str) -> Option<String> {
        crate::rest::query_pairs(&self.query)
            .into_iter()
            .find_map(|(key, value)| (key == name).then_some(value))
    }
}

/// A watch that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenWatch {
    /// The [`Request::id`].
    pub request: u64,
    /// `services`.
    pub resource: String,
    /// The namespace; empty for all.
    pub namespace: String,
    /// Who watches.
    pub user: String,
    /// Everything up to here has been handed to the connection.
    pub through: u64,
}

/// Connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Connections {
    /// Accepted, in all.
    pub accepted: u64,
    /// Open now.
    pub open: u64,
    /// Those whose TLS handshake failed.
    pub refused: u64,
}

/// Everything that is noted.
#[derive(Debug, Default)]
pub struct Ledger {
    requests: VecDeque<Request>,
    next: u64,
    watches: BTreeMap<u64, OpenWatch>,
    /// Connections.
    pub connections: Connections,
}

impl Ledger {
    /// The requests that are kept, oldest first.
    pub fn requests(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter()
    }

    /// How many requests are such.
    pub fn count(&self, which: impl Fn(&Request) -> bool) -> usize {
        self.requests.iter().filter(|request| which(request)).count()
    }

    /// The open watches.
    pub fn watches(&self) -> impl Iterator<Item = &OpenWatch> {
        self.watches.values()
    }

    /// How many watches of a resource are open.
    pub fn watching(&self, resource: &str) -> usize {
        self.watches.values().filter(|watch| watch.resource == resource).count()
    }

    /// Whether every open watch has been given everything up to a resource version.
    pub fn through(&self, revision: u64) -> bool {
        self.watches.values().all(|watch| watch.through >= revision)
    }

    fn request(&mut self, id: u64) -> Option<&mut Request> {
        let first = self.requests.front()?.id;
        self.requests.get_mut(usize::try_from(id.checked_sub(first)?).ok()?)
    }
}

/// The ledger, shared. Clones are handles on the same one.
#[derive(Debug, Clone)]
pub struct Activity {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    ledger: Mutex<Ledger>,
    changed: Condvar,
    version: watch::Sender<u64>,
    keep: usize,
}

impl Activity {
    pub(crate) fn new(keep: usize) -> Self {
        let inner = Inner {
            ledger: Mutex::new(Ledger::default()),
            changed: Condvar::new(),
            version: watch::Sender::new(0),
            keep,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Reads the ledger. No request makes progress meanwhile.
    pub fn look<R>(&self, read: impl FnOnce(&Ledger) -> R) -> R {
        read(&self.inner.ledger.lock())
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.look(|ledger| ledger.requests.iter().cloned().collect())
    }

    /// Forgets the requests so far.
    pub fn clear(&self) {
        self.inner.ledger.lock().requests.clear();
    }

    /// Blocks until the ledger is such. For threads; a task awaits [`Activity::until`].
    pub fn wait(&self, mut such: impl FnMut(&Ledger) -> bool) {
        let mut ledger = self.inner.ledger.lock();
        while !such(&ledger) {
            self.inner.changed.wait(&mut ledger);
        }
    }

    /// Is done when the ledger is such.
    pub async fn until(&self, mut such: impl FnMut(&Ledger) -> bool) {
        let mut version = self.inner.version.subscribe();
        while !self.look(&mut such) && version.changed().await.is_ok() {}
    }

    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut Ledger) -> R) -> R {
        let result = change(&mut self.inner.ledger.lock());
        self.inner.changed.notify_all();
        self.inner.version.send_modify(|version| *version += 1);
        result
    }

    /// Notes a request and gives it its id.
    pub(crate) fn begin(&self, mut request: Request) -> u64 {
        let keep = self.inner.keep;
        self.change(|ledger| {
            let id = ledger.next;
            ledger.next += 1;
            request.id = id;
            ledger.requests.push_back(request);
            while ledger.requests.len() > keep {
                ledger.requests.pop_front();
            }
            id
        })
    }

    pub(crate) fn update(&self, id: u64, update: impl FnOnce(&mut Request)) {
        self.change(|ledger| ledger.request(id).map(update));
    }

    pub(crate) fn watch_opened(&self, watch: OpenWatch) {
        self.change(|ledger| ledger.watches.insert(watch.request, watch));
    }

    pub(crate) fn watch_through(&self, id: u64, through: u64) {
        self.change(|ledger| {
            if let Some(watch) = ledger.watches.get_mut(&id) {
                watch.through = watch.through.max(through);
            }
        });
    }

    pub(crate) fn watch_closed(&self, id: u64) {
        self.change(|ledger| ledger.watches.remove(&id));
    }
}
