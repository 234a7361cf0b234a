//! Watches: a stream of events, one JSON document a line.
//!
//! A watch is a cursor into the store's log of changes and nothing else, so it can neither miss a change nor tell it
//! out of order, however slow its client reads. This module must not know who asks.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::list::{prefix, reached};
use super::options::{ListOptions, Selection, Version};
use super::reply::{AHEAD, Reply, render};
use super::{Asked, Server};
use crate::activity::OpenWatch;
use crate::fault::Plan;
use crate::kind::Kind;
use crate::serve::body::Piece;
use crate::status::Status;
use crate::store::state::{Change, Compacted, Object, State};

/// How many changes are taken from the log at a time.
const BATCH: usize = 64;
/// How long before its end a watch says where it is.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// Answers a watch. What is wrong with the options is answered at once; all that goes wrong later is an ERROR event.
pub(super) fn answer(server: &Arc<Server>, kind: &'static Kind, asked: Asked) -> Result<Reply, Status> {
    let streaming = server.features.streaming_lists() && !asked.plan.refuse_streaming;
    let options = ListOptions::read(&asked.call, kind, true, streaming)?;
    let (sender, receiver) = mpsc::channel(AHEAD);
    let now = server.time.now();
    let timeout = match options.timeout_seconds {
        0 => server.watch_timeout + server.watch_timeout.mul_f64(server.store.entropy().unit()),
        seconds => Duration::from_secs(seconds),
    };
    let watch = Watch {
        server: Arc::clone(server),
        kind,
        namespace: asked.call.namespace.clone(),
        name: asked.call.name.clone(),
        prefix: prefix(kind, &asked.call.namespace),
        selection: options.selection.clone(),
        bookmarks: options.bookmarks && !asked.plan.no_bookmarks,
        request: asked.to.request,
        user: asked.user.name.clone(),
        deadline: now.saturating_add(timeout),
        outlet: Outlet { to: sender, plan: asked.plan, events: 0 },
    };
    // Before the answer, so that whatever is written once the client has it comes as an event.
    let start = watch.start(&options);
    tokio::spawn(watch.run(start));
    Ok(Reply::stream(receiver))
}

/// Where a watch begins.
enum Start {
    /// With these objects, which are all there are at a resource version.
    Objects(Vec<Arc<Object>>, u64),
    /// With the changes after a resource version.
    After(u64),
    /// With the objects, as soon as there is a resource version.
    NotYet(u64),
    /// Not at all.
    Gone(Status),
}

/// A watch is over, for whatever reason.
struct Over;

struct Watch {
    server: Arc<Server>,
    kind: &'static Kind,
    namespace: String,
    /// Only the object of this name; blank: all.
    name: String,
    prefix: String,
    selection: Selection,
    bookmarks: bool,
    request: u64,
    user: String,
    deadline: Duration,
    outlet: Outlet,
}

/// Takes the watch out of the ledger.
struct Listed {
    server: Arc<Server>,
    request: u64,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.server.activity.watch_closed(self.request);
    }
}

impl Watch {
    async fn run(mut self, start: Start) {
        // Subscribed before the first look at the store, so that no change is overslept.
        let mut revisions = self.server.store.subscribe();
        self.server.activity.watch_opened(OpenWatch {
            request: self.request,
            resource: self.kind.plural.to_owned(),
            namespace: self.namespace.clone(),
            user: self.user.clone(),
            through: 0,
        });
        let _listed = Listed { server: Arc::clone(&self.server), request: self.request };
        let Ok(mut cursor) = self.begin(start).await else { return };
        let mut told = cursor;
        let mut bookmark_at = self.next_bookmark();
        loop {
            revisions.mark_unchanged();
            match self.server.store.read(|state| state.changes(self.kind.storage, cursor, BATCH)) {
                Err(Compacted { oldest }) => {
                    self.outlet.error(&Status::expired(cursor, oldest)).await;
                    return;
                }
                Ok((changes, through)) => {
                    let full = changes.len() == BATCH;
                    for change in &changes {
                        if self.tell(change).await.is_err() {
                            return;
                        }
                        told = change.revision;
                    }
                    cursor = through;
                    self.server.activity.watch_through(self.request, cursor);
                    if full {
                        continue;
                    }
                }
            }
            tokio::select! {
                biased;
                () = self.outlet.to.closed() => return,
                // Before the changes, which may never cease.
                () = self.server.time.until(self.deadline) => return,
                () = self.server.time.until(bookmark_at) => {
                    // Where nothing has happened, in any kind, there is nothing to say.
                    if cursor > told && self.bookmark(cursor, false).await.is_err() {
                        return;
                    }
                    told = cursor;
                    bookmark_at = self.next_bookmark();
                }
                // The sender lives in the store, which lives in the server.
                _ = revisions.changed() => {}
            }
        }
    }

    /// Where the watch begins.
    fn start(&self, options: &ListOptions) -> Start {
        let initial = match (options.initial_events, options.version) {
            (Some(initial), _) => initial,
            (None, Version::Latest | Version::Any) => true,
            (None, Version::At(_)) => false,
        };
        self.server.store.read(|state| match options.version {
            Version::At(revision) if initial && revision > state.revision() => Start::NotYet(revision),
            _ if initial => self.now(state),
            Version::Latest | Version::Any => Start::After(state.revision()),
            Version::At(revision) if revision < state.oldest(self.kind.storage) => {
                Start::Gone(Status::expired(revision, state.oldest(self.kind.storage)))
            }
            Version::At(revision) => Start::After(revision),
        })
    }

    fn now(&self, state: &State) -> Start {
        Start::Objects(self.present(state), state.revision())
    }

    /// What comes before the changes; returns the resource version after which these begin.
    async fn begin(&mut self, start: Start) -> Result<u64, Over> {
        self.outlet.faults().await?;
        let start = match start {
            Start::NotYet(revision) => match reached(&self.server, revision).await {
                Ok(()) => self.server.store.read(|state| self.now(state)),
                Err(status) => Start::Gone(status),
            },
            start => start,
        };
        match start {
            Start::Objects(objects, revision) => {
                for object in objects {
                    self.event("ADDED", &object).await?;
                }
                // Also where the objects were not asked for in so many words.
                self.bookmark(revision, true).await?;
                Ok(revision)
            }
            Start::After(revision) | Start::NotYet(revision) => Ok(revision),
            Start::Gone(status) => Err(self.outlet.error(&status).await),
        }
    }

    fn present(&self, state: &State) -> Vec<Arc<Object>> {
        state.all(self.kind.storage).filter(|object| self.wants(object)).cloned().collect()
    }

    fn wants(&self, object: &Object) -> bool {
        (self.prefix.is_empty() || object.namespace == self.namespace)
            && (self.name.is_empty() || object.name == self.name)
            && self.selection.labels.matches(&object.labels)
            && self.selection.fields.matches(&object.namespace, &object.name, &object.fields)
    }

    /// One change, as this watch sees it: an object that comes to match is added, one that ceases to is deleted.
    async fn tell(&mut self, change: &Change) -> Result<(), Over> {
        let before = change.before.as_ref().filter(|object| self.wants(object));
        let after = (!change.deleted && self.wants(&change.after)).then_some(&change.after);
        match (before, after) {
            (None, None) => Ok(()),
            (None, Some(after)) => self.event("ADDED", after).await,
            (Some(_), Some(after)) => self.event("MODIFIED", after).await,
            (Some(_), None) if change.deleted => self.event("DELETED", &change.after).await,
            // The object still exists, but this watch is shown its last version that matched, at this change.
            (Some(before), None) => {
                let last = before.at_revision(self.kind.storage, change.revision);
                self.event("DELETED", &last).await
            }
        }
    }

    async fn event(&mut self, kind: &str, object: &Object) -> Result<(), Over> {
        let object = render(self.kind, object);
        let mut text = Vec::with_capacity(object.len() + 40);
        text.extend_from_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
        text.extend_from_slice(&object);
        text.extend_from_slice(b"}\n");
        self.outlet.event(text.into()).await
    }

    async fn bookmark(&mut self, revision: u64, initial_events_end: bool) -> Result<(), Over> {
        if !self.bookmarks {
            return Ok(());
        }
        let mut object = Map::new();
        object.insert("kind".to_owned(), self.kind.kind.into());
        object.insert("apiVersion".to_owned(), self.kind.api_version().into());
        object.extend(self.kind.bookmark(revision, initial_events_end));
        self.outlet.event(line("BOOKMARK", &Value::Object(object))).await
    }

    /// Bookmarks come every so often, and shortly before the end.
    fn next_bookmark(&self) -> Duration {
        let now = self.server.time.now();
        let last = self.deadline.saturating_sub(LAST_BOOKMARK);
        let next = now.saturating_add(self.server.bookmark_every);
        if now < last { next.min(last) } else { next }
    }
}

fn line(kind: &str, object: &Value) -> Bytes {
    let mut text = json!({"type": kind, "object": object}).to_string();
    text.push('\n');
    text.into()
}

/// Where events go, past the faults.
struct Outlet {
    to: mpsc::Sender<Piece>,
    plan: Plan,
    events: u64,
}

impl Outlet {
    async fn send(&self, piece: Piece) -> Result<(), Over> {
        self.to.send(piece).await.map_err(|_| Over)
    }

    async fn event(&mut self, event: Bytes) -> Result<(), Over> {
        self.send(Piece::Data(event, 1)).await?;
        self.events += 1;
        self.faults().await
    }

    /// An ERROR event, after which the stream ends.
    async fn error(&self, status: &Status) -> Over {
        match self.send(Piece::Data(line("ERROR", &status.to_value()), 1)).await {
            Ok(()) | Err(Over) => Over,
        }
    }

    /// What is to happen after as many events as have been sent.
    async fn faults(&mut self) -> Result<(), Over> {
        let events = self.events;
        if let Some((after, gate)) = self.plan.silent.clone()
            && after == events
        {
            tokio::select! {
                () = gate.passed() => {}
                () = self.to.closed() => return Err(Over),
            }
        }
        if let Some((after, bytes)) = &self.plan.garbage
            && *after == events
        {
            self.send(Piece::Data(bytes.clone(), 0)).await?;
        }
        if let Some((after, status)) = &self.plan.error_event
            && *after == events
        {
            return Err(self.error(status).await);
        }
        if self.plan.close_after_events == Some(events) {
            self.send(Piece::Cut(Bytes::new(), 0)).await?;
            self.to.closed().await;
            return Err(Over);
        }
        if self.plan.end_after_events == Some(events) { Err(Over) } else { Ok(()) }
    }
}
