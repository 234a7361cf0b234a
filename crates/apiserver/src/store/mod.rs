//! The objects that the server serves, and the handle with which a test reads and changes them past the API.
//!
//! | module | job |
//! |---|---|
//! | `state` | objects, the log of changes, revisions, compaction: pure |
//! | `typed` | what tests call: typed objects and manifests |
//!
//! A write through the handle is as one past the API server, straight into etcd: no defaults, no admission, no status
//! subresource; but it is validated by its type, and gets its uid, its times, its generation and its resource version.
//! This module must not know requests, users or faults.

pub(crate) mod state;
mod typed;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use hcn::time::{Entropy, SeededEntropy};
use k8s_openapi::jiff::Timestamp;
use parking_lot::{Condvar, Mutex, MutexGuard};
use serde_json::{Map, Value};
use tokio::sync::watch;

pub use typed::StoreError;

use crate::kind::{KINDS, Kind, Storage};
use crate::names;
use crate::time::Time;
use state::{Object, State};

/// The objects. Clones are handles on the same store.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    /// How many changes of one kind are kept.
    history: usize,
    changed: Condvar,
    /// The revision, for those who wait without blocking.
    revision: watch::Sender<u64>,
    time: Arc<dyn Time>,
    entropy: SeededEntropy,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

/// The state under its lock; whoever waits hears of what was changed when this goes.
pub(crate) struct Transaction<'a> {
    state: MutexGuard<'a, State>,
    inner: &'a Inner,
    before: u64,
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        let revision = self.state.revision();
        if revision != self.before {
            self.inner.revision.send_replace(revision);
            self.inner.changed.notify_all();
        }
    }
}

impl Store {
    /// An empty store, but for the namespaces that every cluster has.
    pub(crate) fn new(time: Arc<dyn Time>, seed: u64, history: usize) -> Self {
        let store = Self {
            inner: Arc::new(Inner {
                state: Mutex::new(State::new(history)),
                history,
                changed: Condvar::new(),
                revision: watch::Sender::new(0),
                time,
                entropy: SeededEntropy::new(seed),
            }),
        };
        store.furnish();
        store
    }

    fn furnish(&self) {
        let mut transaction = self.begin();
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            let labels = serde_json::json!({"kubernetes.io/metadata.name": name});
            let metadata = serde_json::json!({"name": name, "labels": labels});
            let members = serde_json::json!({
                "metadata": metadata, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
            });
            if let Value::Object(members) = members {
                transaction.create(Storage::Namespaces.kind(), members);
            }
        }
    }

    /// Everything is gone, as after a cluster's etcd was lost: the counter begins anew, objects that are written again
    /// have other uids, and resource versions from before mean nothing or something else.
    pub fn lose(&self) {
        *self.inner.state.lock() = State::new(self.inner.history);
        self.furnish();
        self.inner.revision.send_replace(self.revision());
        self.inner.changed.notify_all();
    }

    /// The resource version of the newest change.
    pub fn revision(&self) -> u64 {
        self.inner.state.lock().revision()
    }

    /// The oldest resource version that can be read.
    pub fn compacted(&self) -> u64 {
        self.inner.state.lock().compacted()
    }

    /// Forgets everything older than a resource version: lists and watches from there are answered 410. Watches that
    /// have kept up go on.
    pub fn compact(&self, revision: u64) {
        self.inner.state.lock().compact(revision);
    }

    /// [`Store::compact`] up to the newest change.
    pub fn compact_all(&self) {
        let mut state = self.inner.state.lock();
        let revision = state.revision();
        state.compact(revision);
    }

    /// Blocks until the store has reached a resource version.
    pub fn wait_for_revision(&self, revision: u64) {
        let mut state = self.inner.state.lock();
        while state.revision() < revision {
            self.inner.changed.wait(&mut state);
        }
    }

    pub(crate) fn begin(&self) -> Transaction<'_> {
        let state = self.inner.state.lock();
        Transaction { before: state.revision(), state, inner: &self.inner }
    }

    pub(crate) fn read<R>(&self, read: impl FnOnce(&State) -> R) -> R {
        read(&self.inner.state.lock())
    }

    /// Tells of each new revision.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.inner.revision.subscribe()
    }

    pub(crate) fn entropy(&self) -> &dyn Entropy {
        &self.inner.entropy
    }
}

impl Transaction<'_> {
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    pub(crate) fn entropy(&self) -> &dyn Entropy {
        &self.inner.entropy
    }

    /// The time of day as objects have it.
    pub(crate) fn now(&self) -> String {
        timestamp(self.inner.time.wall())
    }

    /// What a new object gets from the server.
    pub(crate) fn stamp_new(&self, kind: &Kind, members: &mut Map<String, Value>) {
        let metadata = metadata_of(members);
        metadata.insert("uid".to_owned(), names::uid(&self.inner.entropy).into());
        metadata.insert("creationTimestamp".to_owned(), self.now().into());
        if kind.generation {
            metadata.insert("generation".to_owned(), 1.into());
        }
    }

    /// Writes a new object.
    pub(crate) fn create(&mut self, kind: &Kind, mut members: Map<String, Value>) -> Arc<Object> {
        self.stamp_new(kind, &mut members);
        self.state.put(kind.storage, members)
    }

    /// Writes the next version of an object; one that says the same changes nothing. Returns what is so now.
    pub(crate) fn replace(
        &mut self,
        kind: &Kind,
        old: &Arc<Object>,
        members: Map<String, Value>,
    ) -> Arc<Object> {
        let members = next_version(kind, old, members);
        if same(&old.members(), &members) { Arc::clone(old) } else { self.state.put(kind.storage, members) }
    }

    /// Writes a version as it is.
    pub(crate) fn put(&mut self, storage: Storage, members: Map<String, Value>) -> Arc<Object> {
        self.state.put(storage, members)
    }

    /// Takes out what is in a namespace, as the namespace's controller does.
    pub(crate) fn empty_namespace(&mut self, namespace: &str) {
        for kind in KINDS.iter().filter(|kind| kind.namespaced) {
            let keys: Vec<String> = self
                .state
                .all(kind.storage)
                .filter(|object| object.namespace == namespace)
                .map(|object| object.key())
                .collect();
            for key in keys {
                self.state.remove(kind.storage, &key);
            }
        }
    }

    /// Takes an object out.
    pub(crate) fn remove(&mut self, storage: Storage, key: &str) -> Option<Arc<Object>> {
        self.state.remove(storage, key)
    }
}

/// The next version of an object with what the server keeps from the old one.
pub(crate) fn next_version(kind: &Kind, old: &Object, mut members: Map<String, Value>) -> Map<String, Value> {
    let before = old.members();
    let kept = before.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    let changed = kind.generation && wanted(&before) != wanted(&members);
    let metadata = metadata_of(&mut members);
    for member in
        ["uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds"]
    {
        match kept.get(member) {
            Some(value) => metadata.insert(member.to_owned(), value.clone()),
            None => metadata.shift_remove(member),
        };
    }
    if kind.generation {
        let generation = kept.get("generation").and_then(Value::as_i64).unwrap_or(1);
        metadata.insert("generation".to_owned(), (generation + i64::from(changed)).into());
    }
    members
}

/// Whether two versions differ in nothing but their resource version.
pub(crate) fn same(old: &Map<String, Value>, new: &Map<String, Value>) -> bool {
    let bare = |members: &Map<String, Value>| {
        let mut members = members.clone();
        metadata_of(&mut members).shift_remove("resourceVersion");
        members
    };
    bare(old) == bare(new)
}

/// An object without its metadata and its status: what its generation counts.
fn wanted(members: &Map<String, Value>) -> Map<String, Value> {
    members
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "metadata" | "status"))
        .map(|(n, v)| (n.clone(), v.clone()))
        .collect()
}

/// The metadata of an object, made if there is none.
pub(crate) fn metadata_of(members: &mut Map<String, Value>) -> &mut Map<String, Value> {
    let entry = members.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if !entry.is_object() {
        *entry = Value::Object(Map::new());
    }
    match entry {
        Value::Object(metadata) => metadata,
        _ => unreachable!("made an object just above"),
    }
}

/// Whole seconds in UTC, as `metav1.Time` is written.
pub(crate) fn timestamp(wall: SystemTime) -> String {
    let seconds = wall.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let stamp = i64::try_from(seconds)
        .ok()
        .and_then(|seconds| Timestamp::from_second(seconds).ok())
        .unwrap_or_default();
    k8s_openapi::jiff::fmt::strtime::format("%Y-%m-%dT%H:%M:%SZ", stamp).unwrap_or_default()
}
