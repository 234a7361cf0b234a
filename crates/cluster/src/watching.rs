//! One kind of object: listed, watched, listed again when the server says that too much has happened since, tried again with
//! back-off when it fails. What comes out are changes: of each list, what differs from what was known.
//!
//! The protocol (chunks, bookmarks, streaming lists, expired versions) is kube's; this module decides what a failure means.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::StreamExt as _;
use kube::runtime::watcher::{self, Config, InitialListStrategy};
use kube::{Api, Resource as KubeResource};
use serde::de::DeserializeOwned;
use services::{Change, ObjectKind, ObjectRef};

use crate::connect::chain;
use crate::status::{Board, Resource, State};

/// How failed requests are tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first pause.
    pub first: Duration,
    /// The longest.
    pub longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(800), longest: Duration::from_secs(30) }
    }
}

/// What a watch tells.
#[derive(Debug)]
pub enum Told {
    /// Something changed; for endpoints, when that was triggered.
    Changed(Change, Option<SystemTime>),
    /// An object that cannot be taken.
    Refused(String),
    /// All objects are known now.
    Synced(Resource),
}

/// Takes what watches tell; it may wait, and watches wait with it.
pub type Sink = Arc<dyn Fn(Told) + Send + Sync>;

/// Reads objects of a kind that is handed on.
pub(crate) struct Reader<K> {
    /// The kind.
    pub(crate) kind: ObjectKind,
    /// An object's record, or why it cannot be one.
    pub(crate) record: fn(&K) -> Result<services::Object, String>,
    /// When its change was triggered.
    pub(crate) triggered: fn(&K) -> Option<SystemTime>,
}

/// A watch of one kind.
pub(crate) struct Watch<K> {
    pub(crate) resource: Resource,
    pub(crate) api: Api<K>,
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
    /// None: objects are counted only.
    pub(crate) reader: Option<Reader<K>>,
    pub(crate) board: Board,
    pub(crate) sink: Sink,
    pub(crate) backoff: Backoff,
    /// How many objects a list's chunk has.
    pub(crate) chunk: u32,
    /// Whether lists come as streams where the server has that.
    pub(crate) streaming: bool,
}

/// What is to be done after a failure.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Try again.
    Again,
    /// The server has no streaming lists: read them in chunks.
    Chunks,
    /// The server does not have this kind.
    NotServed,
}

/// Namespace and name.
type Key = (Arc<str>, Arc<str>);

/// The objects that are known, so that a list tells which are gone.
#[derive(Default)]
struct Known {
    now: HashSet<Key>,
    /// Those of a list that is under way.
    listed: Option<HashSet<Key>>,
}

impl<K> Watch<K>
where
    K: KubeResource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    /// Watches for ever, or until the kind turns out not to be served.
    pub(crate) async fn run(mut self) {
        let mut known = Known::default();
        let mut pause = Pause::new(self.backoff);
        loop {
            let mut stream = pin!(watcher::watcher(self.api.clone(), self.config()));
            let verdict = loop {
                match stream.next().await {
                    Some(Ok(event)) => {
                        if self.take(event, &mut known) {
                            pause.reset();
                        }
                    }
                    Some(Err(error)) => {
                        let verdict = judge(&error, self.streaming, self.resource);
                        if verdict != Verdict::Again {
                            break verdict;
                        }
                        self.fail(&error);
                        tokio::time::sleep(pause.next(wanted(&error))).await;
                    }
                    // The stream never ends; if it did, it would be begun anew.
                    None => break Verdict::Again,
                }
            };
            match verdict {
                Verdict::Again => {}
                Verdict::Chunks => {
                    tracing::info!(
                        kind = self.resource.name(),
                        "The API server has no streaming lists; reading in chunks"
                    );
                    self.streaming = false;
                }
                Verdict::NotServed => {
                    tracing::info!(kind = self.resource.name(), "The API server does not have this kind");
                    self.board.note(self.resource, |status| status.state = State::NotServed);
                    return;
                }
            }
        }
    }

    fn config(&self) -> Config {
        let strategy =
            if self.streaming { InitialListStrategy::StreamingList } else { InitialListStrategy::ListWatch };
        Config {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            page_size: Some(self.chunk),
            initial_list_strategy: strategy,
            ..Config::default()
        }
    }

    /// Takes an event. True when it shows that the server answers well.
    fn take(&self, event: watcher::Event<K>, known: &mut Known) -> bool {
        match event {
            watcher::Event::Init => {
                known.listed = Some(HashSet::new());
                self.board.note(self.resource, |status| {
                    if status.state != State::Failing {
                        status.state = State::Listing;
                    }
                });
                false
            }
            watcher::Event::InitApply(object) => {
                self.set(&object);
                if let Some(listed) = &mut known.listed {
                    listed.insert(key(&object));
                }
                false
            }
            watcher::Event::InitDone => {
                let listed = known.listed.take().unwrap_or_default();
                for gone in known.now.difference(&listed) {
                    self.gone(gone, None);
                }
                known.now = listed;
                let objects = known.now.len();
                self.board.note(self.resource, |status| {
                    status.state = State::Watching;
                    status.synced = true;
                    status.lists += 1;
                    status.objects = objects;
                });
                (self.sink)(Told::Synced(self.resource));
                true
            }
            watcher::Event::Apply(object) => {
                self.set(&object);
                known.now.insert(key(&object));
                self.count(known);
                true
            }
            watcher::Event::Delete(object) => {
                let key = key(&object);
                known.now.remove(&key);
                let triggered = self.reader.as_ref().and_then(|reader| (reader.triggered)(&object));
                self.gone(&key, triggered);
                self.count(known);
                true
            }
        }
    }

    /// Hands an object on.
    fn set(&self, object: &K) {
        let Some(reader) = &self.reader else { return };
        match (reader.record)(object) {
            Ok(record) => (self.sink)(Told::Changed(Change::Set(record), (reader.triggered)(object))),
            Err(why) => {
                self.board.note(self.resource, |status| status.refused += 1);
                (self.sink)(Told::Refused(why));
            }
        }
    }

    fn gone(&self, (namespace, name): &Key, triggered: Option<SystemTime>) {
        let Some(reader) = &self.reader else { return };
        let (namespace, name) = (Arc::clone(namespace), Arc::clone(name));
        let reference = ObjectRef { kind: reader.kind, namespace, name };
        (self.sink)(Told::Changed(Change::Delete(reference), triggered));
    }

    fn count(&self, known: &Known) {
        let objects = known.now.len();
        self.board.note(self.resource, |status| {
            status.state = State::Watching;
            status.events += 1;
            status.objects = objects;
        });
    }

    fn fail(&self, error: &watcher::Error) {
        let text = chain(error);
        let before = self.board.read().resources.get(&self.resource).map(|status| status.state);
        // Said once, and then at each change of what is wrong only in the status.
        if before == Some(State::Failing) {
            tracing::debug!(kind = self.resource.name(), error = text, "The API server still fails");
        } else {
            tracing::warn!(
                kind = self.resource.name(),
                error = text,
                "The API server fails; the node stays as it is"
            );
        }
        self.board.note(self.resource, |status| {
            status.state = State::Failing;
            status.failures += 1;
            status.error = Some(text);
        });
    }
}

fn key<K: KubeResource>(object: &K) -> Key {
    let metadata = object.meta();
    let part = |part: &Option<String>| Arc::from(part.as_deref().unwrap_or_default());
    (part(&metadata.namespace), part(&metadata.name))
}

/// The status that the server gave, if it is an answer of the server's.
fn status_of(error: &watcher::Error) -> Option<&kube::core::Status> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status),
        _ => None,
    }
}

fn judge(error: &watcher::Error, streaming: bool, resource: Resource) -> Verdict {
    match (error, status_of(error).map(|status| status.code)) {
        // Servers without streaming lists do not take the parameter: 422 from 1.27 on, 400 from some in front of them.
        (watcher::Error::WatchStartFailed(_), Some(400 | 422)) if streaming => Verdict::Chunks,
        (_, Some(404)) if !resource.is_needed() => Verdict::NotServed,
        _ => Verdict::Again,
    }
}

/// How long the server asks to be left alone.
fn wanted(error: &watcher::Error) -> Duration {
    let seconds = status_of(error)
        .and_then(|status| status.details.as_ref())
        .map(|details| details.retry_after_seconds);
    Duration::from_secs(u64::from(seconds.unwrap_or_default()))
}

/// Pauses that grow, each of random length: many nodes must not come back at the same moment.
struct Pause {
    backoff: Backoff,
    next: Duration,
}

impl Pause {
    fn new(backoff: Backoff) -> Self {
        Self { backoff, next: backoff.first }
    }

    fn reset(&mut self) {
        self.next = self.backoff.first;
    }

    /// From one half to all of the present pause, at least what the server asks for.
    fn next(&mut self, asked: Duration) -> Duration {
        let full = self.next;
        self.next = (full * 2).min(self.backoff.longest);
        let part = f64::from(random()) / f64::from(u32::MAX);
        full.mul_f64(0.5 + part / 2.0).max(asked)
    }
}

/// A number of which nobody knows more than that each node has another. Chance decides when a request is tried again, and
/// nothing else.
fn random() -> u32 {
    use std::hash::{BuildHasher as _, RandomState};
    let [a, b, c, d, ..] = RandomState::new().hash_one(0).to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use kube::core::response::StatusDetails;

    use super::*;

    fn api(code: u16, retry: u32) -> kube::Error {
        let details = StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: Vec::new(),
            retry_after_seconds: retry,
        };
        kube::Error::Api(Box::new(Status { code, details: Some(details), ..Status::default() }))
    }

    #[test]
    fn failures_are_judged() {
        use watcher::Error::{InitialListFailed, WatchStartFailed};
        let (needed, other) = (Resource::Services, Resource::ServiceCidrs);
        for (error, streaming, resource, verdict) in [
            (WatchStartFailed(api(422, 0)), true, needed, Verdict::Chunks),
            (WatchStartFailed(api(400, 0)), true, needed, Verdict::Chunks),
            (WatchStartFailed(api(422, 0)), false, needed, Verdict::Again),
            (InitialListFailed(api(404, 0)), false, other, Verdict::NotServed),
            (WatchStartFailed(api(404, 0)), true, other, Verdict::NotServed),
            (InitialListFailed(api(404, 0)), false, needed, Verdict::Again),
            (InitialListFailed(api(403, 0)), false, other, Verdict::Again),
            (InitialListFailed(api(500, 0)), false, needed, Verdict::Again),
            (watcher::Error::NoResourceVersion, true, needed, Verdict::Again),
        ] {
            assert_eq!(judge(&error, streaming, resource), verdict, "{error}");
        }
        assert_eq!(wanted(&InitialListFailed(api(429, 7))), Duration::from_secs(7));
        assert_eq!(wanted(&watcher::Error::NoResourceVersion), Duration::ZERO);
    }

    #[test]
    fn pauses_grow_to_a_limit_and_heed_the_server() {
        let (first, longest) = (Duration::from_secs(1), Duration::from_secs(5));
        let mut pause = Pause::new(Backoff { first, longest });
        for full in [1, 2, 4, 5, 5].map(Duration::from_secs) {
            let next = pause.next(Duration::ZERO);
            assert!(next >= full / 2 && next <= full, "{next:?} of {full:?}");
        }
        assert_eq!(pause.next(Duration::from_mins(1)), Duration::from_mins(1));
        pause.reset();
        assert!(pause.next(Duration::ZERO) <= first);
    }
}
