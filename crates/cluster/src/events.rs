//! Kubernetes Events for what people should know of a node's Services, rate limited: a burst at most, then a few each minute, and
//! what repeats is counted on one Event instead of making new ones.
//!
//! Telling is best effort: an Event that cannot be written is logged and forgotten. It must not know why something is told.

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder as Publisher, Reporter};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::Instant;

use crate::connect::chain;

/// Who reports, as people see it.
const CONTROLLER: &str = "transom-proxy";

/// How many may be told at once for one object.
const BURST: u32 = 10;

/// How long until one more may be.
const REFILL: Duration = Duration::from_secs(30);

/// How often one is written that the server cannot take just now, and the first pause, which doubles.
const TRIES: u32 = 4;
const AGAIN: Duration = Duration::from_secs(1);

/// How long writing one may take.
const ANSWER: Duration = Duration::from_mins(1);

/// How many wait to be written; more are left out.
const WAITING: usize = 256;

/// Whom an Event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The own Node.
    Node,
    /// A Service.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// How grave it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gravity {
    /// Good to know.
    Normal,
    /// Something is not as it should be.
    Warning,
}

/// What is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// About what.
    pub subject: Subject,
    /// How grave.
    pub gravity: Gravity,
    /// Why, in one word of upper camel case.
    pub reason: String,
    /// What was done or could not be, in one word of upper camel case.
    pub action: String,
    /// For people.
    pub message: String,
}

/// Tells. Clones share the limits.
#[derive(Clone, Debug)]
pub struct Recorder {
    notes: Sender<Note>,
}

impl Recorder {
    /// Writes what it is told from now on.
    pub(crate) fn start(handle: &Handle, client: Client, node: &str) -> Self {
        let (notes, waiting) = channel(WAITING);
        let reporter = Reporter { controller: CONTROLLER.to_owned(), instance: Some(node.to_owned()) };
        let writer = Writer { publisher: Publisher::new(client, reporter), node: node.to_owned() };
        handle.spawn(writer.run(waiting));
        Self { notes }
    }

    /// Tells, without waiting. False: too much waits already, and this is left out.
    pub fn tell(&self, note: Note) -> bool {
        self.notes.try_send(note).is_ok()
    }
}

struct Writer {
    publisher: Publisher,
    node: String,
}

impl Writer {
    async fn run(self, mut notes: Receiver<Note>) {
        let mut limits: HashMap<Subject, Bucket> = HashMap::new();
        while let Some(note) = notes.recv().await {
            let now = Instant::now();
            // Full buckets say nothing.
            limits.retain(|_, bucket| bucket.fill(now) < BURST);
            if !limits.entry(note.subject.clone()).or_insert_with(|| Bucket::new(now)).take(now) {
                tracing::debug!(?note, "An Event is left out: there were many about this object");
                continue;
            }
            self.write(&note).await;
        }
    }

    async fn write(&self, note: &Note) {
        let event = Event {
            type_: match note.gravity {
                Gravity::Normal => EventType::Normal,
                Gravity::Warning => EventType::Warning,
            },
            reason: note.reason.clone(),
            note: Some(limited(&note.message)),
            action: note.action.clone(),
            secondary: None,
        };
        let subject = self.reference(&note.subject);
        let mut pause = AGAIN;
        for left in (0..TRIES).rev() {
            let written = tokio::time::timeout(ANSWER, self.publisher.publish(&event, &subject)).await;
            let (error, may_pass) = match written {
                Ok(Ok(())) => return,
                Ok(Err(error)) => (chain(&error), may_pass(&error)),
                Err(_) => (format!("no answer has come for {ANSWER:?}"), true),
            };
            if left == 0 || !may_pass {
                tracing::warn!(error, reason = note.reason, "An Event cannot be written");
                return;
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    fn reference(&self, subject: &Subject) -> ObjectReference {
        let (kind, namespace, name) = match subject {
            // As kubelet and kube-proxy name it: the uid of a Node's events is its name.
            Subject::Node => ("Node", None, &self.node),
            Subject::Service { namespace, name } => ("Service", Some(namespace.clone()), name),
        };
        ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some(kind.to_owned()),
            namespace,
            name: Some(name.clone()),
            uid: (*subject == Subject::Node).then(|| self.node.clone()),
            ..ObjectReference::default()
        }
    }
}

/// Whether the same request may succeed later: the server is busy or away.
fn may_pass(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || status.code >= 500,
        _ => true,
    }
}

/// The API takes notes of at most 1 kB.
fn limited(text: &str) -> String {
    const MOST: usize = 1_000;
    if text.len() <= MOST {
        return text.to_owned();
    }
    let end = (0..=MOST - 3).rev().find(|&at| text.is_char_boundary(at)).unwrap_or_default();
    format!("{}…", &text[..end])
}

/// A few at once, then one after the other.
struct Bucket {
    left: u32,
    since: Instant,
}

impl Bucket {
    fn new(now: Instant) -> Self {
        Self { left: BURST, since: now }
    }

    /// How many may be told now.
    fn fill(&mut self, now: Instant) -> u32 {
        let periods = now.saturating_duration_since(self.since).as_nanos() / REFILL.as_nanos();
        let periods = u32::try_from(periods).unwrap_or(u32::MAX);
        if periods > 0 {
            self.left = self.left.saturating_add(periods).min(BURST);
            self.since = if self.left == BURST { now } else { self.since + REFILL * periods };
        }
        self.left
    }

    fn take(&mut self, now: Instant) -> bool {
        let some = self.fill(now) > 0;
        self.left -= u32::from(some);
        some
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_then_one_each_period() {
        let mut bucket = Bucket::new(Instant::now());
        let count = |bucket: &mut Bucket| (0..100).filter(|_| bucket.take(Instant::now())).count();
        assert_eq!(count(&mut bucket), 10);
        assert_eq!(count(&mut bucket), 0);
        tokio::time::advance(REFILL).await;
        assert_eq!(count(&mut bucket), 1);
        tokio::time::advance(REFILL * 1_000).await;
        assert_eq!(count(&mut bucket), 10);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(limited("short"), "short");
        let long = limited(&"ü".repeat(2_000));
        assert!(long.len() <= 1_000 && long.ends_with('…'), "{}", long.len());
    }
}
