//! One kind of object: listed, watched, listed again when the server says that too much has happened since, tried again with
//! back-off when it fails. What comes out are changes: of each list, what differs from what was known.
//!
//! kube speaks the protocol and has a loop of its own for this. This one knows more: when a watch stands again after a failure although
//! nothing happens, when a server has lost its store, and which failures mean that credentials must be read again.

mod failure;
mod patience;
mod pause;

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::{Stream, StreamExt as _};
use kube::api::{ListParams, ObjectList, WatchEvent, WatchParams};
use kube::{Api, Resource as KubeResource, ResourceExt as _};
use serde::de::DeserializeOwned;
use services::{Change, ObjectKind, ObjectRef};

use crate::connect::Connection;
use crate::status::{Board, Resource, State};
use failure::{Failure, Verdict};
pub use patience::Patience;
pub use pause::Backoff;
use pause::Pause;

/// The annotation of the bookmark that ends the initial events of a streaming list.
const INITIAL_END: &str = "k8s.io/initial-events-end";

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
    /// Makes the client anew, with credentials as they are then.
    pub(crate) connection: Connection,
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
    /// None: objects are counted only.
    pub(crate) reader: Option<Reader<K>>,
    pub(crate) board: Board,
    pub(crate) sink: Sink,
    pub(crate) backoff: Backoff,
    pub(crate) patience: Patience,
    /// How many objects a list's chunk has.
    pub(crate) chunk: u32,
    /// Whether lists come as streams where the server has that.
    pub(crate) streaming: bool,
}

/// Namespace and name.
type Key = (Arc<str>, Arc<str>);

/// The objects that are known, so that a list tells which are gone.
#[derive(Default)]
struct Known {
    now: HashSet<Key>,
    /// Those of a list that is under way.
    listed: Option<HashSet<Key>>,
    /// From where changes are followed; none: everything must be listed.
    version: Option<String>,
    /// The server has said that it no longer knows the version; the next time that is a failure, lest it is asked without end.
    forgotten: bool,
    /// The server sends bookmarks, beside the one that ends a list.
    bookmarks: bool,
    /// Something has failed since, or a watch has ended before its time: the server may not be what it was.
    doubted: bool,
}

impl<K> Watch<K>
where
    K: KubeResource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    /// Watches for ever, or until the kind turns out not to be served.
    pub(crate) async fn run(mut self) {
        // It is known that it is begun, also while no answer comes.
        self.board.note(self.resource, |_| {});
        let mut known = Known::default();
        let mut pause = Pause::new(self.backoff);
        loop {
            let begun = tokio::time::Instant::now();
            match self.follow(&mut known).await {
                Ok(lived) => {
                    known.forgotten = false;
                    // kube passes the death of a server on as a watch's end.
                    known.doubted |= self.patience.is_early(begun.elapsed());
                    if lived {
                        pause.reset();
                    } else {
                        // A server that ends watches as soon as they begin must not be asked without end.
                        tokio::time::sleep(pause.next(Duration::ZERO)).await;
                    }
                }
                Err(failure) => match failure.verdict(self.streaming, self.resource) {
                    Verdict::NotServed => {
                        tracing::info!(kind = self.resource.name(), "The API server does not have this kind");
                        self.board.note(self.resource, |status| status.state = State::NotServed);
                        return;
                    }
                    Verdict::Chunks => {
                        tracing::info!(
                            kind = self.resource.name(),
                            "The API server has no streaming lists; reading in chunks"
                        );
                        self.streaming = false;
                    }
                    Verdict::Again if failure.is_expired() && known.version.is_some() && !known.forgotten => {
                        // What an API server does that has started anew or had much to do; the list tells what was missed.
                        tracing::info!(
                            kind = self.resource.name(),
                            reason = failure.text,
                            "The API server has forgotten where the watch was; reading everything anew"
                        );
                        known.version = None;
                        known.forgotten = true;
                    }
                    verdict => {
                        if failure.is_expired() {
                            known.version = None;
                        }
                        known.doubted = true;
                        self.fail(&failure);
                        tokio::time::sleep(pause.next(failure.retry_after)).await;
                        if verdict == Verdict::Renew {
                            self.renew().await;
                        }
                    }
                },
            }
        }
    }

    /// Lists if need be, and watches until the watch ends. Whether it has brought anything.
    async fn follow(&self, known: &mut Known) -> Result<bool, Failure> {
        if known.doubted && known.version.is_some() {
            self.check(known).await?;
        }
        let version = match known.version.clone() {
            Some(version) => version,
            None if self.streaming => {
                let params = self.watch_params(true);
                let stream = self.begun(self.api.watch(&params, "0")).await?;
                self.board.note(self.resource, |status| status.state = State::Listing);
                known.listed = Some(HashSet::new());
                return self.take_events(stream, known).await;
            }
            None => self.list(known).await?,
        };
        let params = self.watch_params(false);
        let stream = self.begun(self.api.watch(&params, &version)).await?;
        self.stands(known);
        self.take_events(stream, known).await
    }

    /// A watch, or why it has not begun.
    async fn begun<T>(&self, watch: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
        let longest = self.patience.answer;
        let begun = tokio::time::timeout(longest, watch).await;
        begun.map_err(|_| Failure::late("watch", longest))?.map_err(|error| Failure::starting(&error))
    }

    /// A chunk of a list.
    async fn listed(&self, params: &ListParams) -> Result<ObjectList<K>, Failure> {
        let longest = self.patience.answer;
        let listed = tokio::time::timeout(longest, self.api.list(params)).await;
        listed.map_err(|_| Failure::late("list", longest))?.map_err(|error| Failure::listing(&error))
    }

    /// A server that was put back to an older store would never reach the version that is known: it is asked for its own.
    async fn check(&self, known: &mut Known) -> Result<(), Failure> {
        let params = ListParams { limit: Some(1), ..self.list_params() };
        let list = self.listed(&params).await?;
        let number = |version: &Option<String>| version.as_deref().and_then(|text| text.parse::<u64>().ok());
        if let (Some(now), Some(then)) = (number(&list.metadata.resource_version), number(&known.version))
            && now < then
        {
            tracing::warn!(
                kind = self.resource.name(),
                now,
                then,
                "The API server has lost changes; reading everything anew"
            );
            known.version = None;
        }
        known.doubted = false;
        Ok(())
    }

    /// Reads everything in chunks. The version to watch from.
    async fn list(&self, known: &mut Known) -> Result<String, Failure> {
        self.board.note(self.resource, |status| {
            if status.state != State::Failing {
                status.state = State::Listing;
            }
        });
        known.listed = Some(HashSet::new());
        let mut params = ListParams { limit: Some(self.chunk), ..self.list_params() };
        loop {
            let list = self.listed(&params).await?;
            for object in &list.items {
                self.set(object);
                if let Some(listed) = &mut known.listed {
                    listed.insert(key(object));
                }
            }
            params.continue_token = list.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                let version = list.metadata.resource_version.filter(|version| !version.is_empty());
                let version = version.ok_or_else(Failure::without_version)?;
                self.end_list(known, version.clone());
                return Ok(version);
            }
        }
    }

    /// Takes what a watch brings until it ends. Whether it has brought anything.
    async fn take_events(
        &self,
        stream: impl Stream<Item = kube::Result<WatchEvent<K>>>,
        known: &mut Known,
    ) -> Result<bool, Failure> {
        let mut stream = pin!(stream);
        let mut lived = false;
        loop {
            let silence = self.patience.silence(known.bookmarks);
            let Ok(next) = tokio::time::timeout(silence, stream.next()).await else {
                if !std::mem::take(&mut known.bookmarks) {
                    return Err(Failure::silent(silence));
                }
                // A suspicion and no failure: where nothing happens in the whole cluster there are no bookmarks either.
                tracing::debug!(
                    kind = self.resource.name(),
                    ?silence,
                    "The watch is silent; beginning another"
                );
                known.listed = None;
                return Ok(lived);
            };
            let Some(event) = next else {
                // A streaming list that ends before its end is none.
                known.listed = None;
                return Ok(lived);
            };
            match event.map_err(|error| Failure::watching(&error))? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    self.set(&object);
                    let version = object.resource_version().filter(|version| !version.is_empty());
                    let version = version.ok_or_else(Failure::without_version)?;
                    if let Some(listed) = &mut known.listed {
                        listed.insert(key(&object));
                    } else {
                        known.now.insert(key(&object));
                        known.version = Some(version);
                        self.count(known);
                    }
                }
                WatchEvent::Deleted(object) => {
                    let key = key(&object);
                    if let Some(listed) = &mut known.listed {
                        listed.remove(&key);
                    }
                    known.now.remove(&key);
                    let triggered = self.reader.as_ref().and_then(|reader| (reader.triggered)(&object));
                    self.gone(&key, triggered);
                    if known.listed.is_none() {
                        known.version = object.resource_version().or(known.version.take());
                        self.count(known);
                    }
                }
                WatchEvent::Bookmark(bookmark) => {
                    let version = bookmark.metadata.resource_version;
                    if known.listed.is_none() {
                        known.version = Some(version);
                        known.bookmarks = true;
                    } else if bookmark.metadata.annotations.contains_key(INITIAL_END) {
                        self.end_list(known, version);
                    }
                }
                WatchEvent::Error(status) => return Err(Failure::told(&status)),
            }
            lived = true;
        }
    }

    /// Everything was listed: what was known and is not among it is gone.
    fn end_list(&self, known: &mut Known, version: String) {
        let listed = known.listed.take().unwrap_or_default();
        for gone in known.now.difference(&listed) {
            self.gone(gone, None);
        }
        known.now = listed;
        known.version = Some(version);
        known.doubted = false;
        let objects = known.now.len();
        self.board.note(self.resource, |status| {
            status.state = State::Watching;
            status.synced = true;
            status.lists += 1;
            status.objects = objects;
        });
        (self.sink)(Told::Synced(self.resource));
    }

    /// Another client: a token's file is read from time to time only, a certificate's never again.
    async fn renew(&mut self) {
        match self.connection.client().await {
            Ok(client) => self.api = Api::all(client),
            Err(error) => {
                tracing::warn!(kind = self.resource.name(), %error, "The credentials cannot be read again");
            }
        }
    }

    fn list_params(&self) -> ListParams {
        ListParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            ..ListParams::default()
        }
    }

    fn watch_params(&self, initial: bool) -> WatchParams {
        let params = WatchParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            timeout: Some(self.patience.lasts),
            bookmarks: true,
            ..WatchParams::default()
        };
        if initial { params.initial_events() } else { params }
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

    /// A watch is open, whether something happens or not.
    fn stands(&self, known: &Known) {
        let objects = known.now.len();
        self.board.note(self.resource, |status| {
            status.state = State::Watching;
            status.objects = objects;
        });
    }

    fn fail(&self, failure: &Failure) {
        let before = self.board.read().resources.get(&self.resource).map(|status| status.state);
        // Said once; afterwards what is wrong is in the status only.
        if before == Some(State::Failing) {
            tracing::debug!(kind = self.resource.name(), error = failure.text, "The API server still fails");
        } else {
            tracing::warn!(
                kind = self.resource.name(),
                error = failure.text,
                "The API server fails; the node stays as it is"
            );
        }
        self.board.note(self.resource, |status| {
            status.state = State::Failing;
            status.failures += 1;
            status.error = Some(failure.text.clone());
        });
    }
}

fn key<K: KubeResource>(object: &K) -> Key {
    let metadata = object.meta();
    let part = |part: &Option<String>| Arc::from(part.as_deref().unwrap_or_default());
    (part(&metadata.namespace), part(&metadata.name))
}
