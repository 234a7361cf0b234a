//! Faults, scripted: which requests they strike, and what happens to these.
//!
//! Only what real servers, networks and proxies do is offered; a server that sends events twice or out of order is
//! none. This module must not know how a fault is carried out.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::activity::Request;
use crate::status::Status;

/// Holds something back until it is released, for good. Clones are the same gate.
#[derive(Debug, Clone)]
pub struct Gate {
    open: watch::Sender<bool>,
}

impl Default for Gate {
    fn default() -> Self {
        Self { open: watch::Sender::new(false) }
    }
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets everybody through from now on.
    pub fn release(&self) {
        self.open.send_replace(true);
    }

    pub(crate) async fn passed(&self) {
        // The sender lives in `self`, so this cannot fail.
        let _ = self.open.subscribe().wait_for(|open| *open).await;
    }
}

/// Which requests a fault strikes; what is not said matches all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Match {
    verb: Option<String>,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    user: Option<String>,
    path: Option<String>,
    parameter: Option<String>,
}

impl Match {
    /// Every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Requests of a verb on a resource: `("watch", "services")`.
    pub fn of(verb: &str, resource: &str) -> Self {
        Self::any().verb(verb).resource(resource)
    }

    /// Only this verb, as [`Request::verb`] has it.
    #[must_use]
    pub fn verb(mut self, verb: &str) -> Self {
        self.verb = Some(verb.to_owned());
        self
    }

    /// Only this resource.
    #[must_use]
    pub fn resource(mut self, resource: &str) -> Self {
        self.resource = Some(resource.to_owned());
        self
    }

    /// Only this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only objects of this name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Only this user.
    #[must_use]
    pub fn user(mut self, user: &str) -> Self {
        self.user = Some(user.to_owned());
        self
    }

    /// Only paths that begin so.
    #[must_use]
    pub fn path(mut self, prefix: &str) -> Self {
        self.path = Some(prefix.to_owned());
        self
    }

    /// Only requests that have this parameter, as `continue` or `sendInitialEvents`.
    #[must_use]
    pub fn parameter(mut self, name: &str) -> Self {
        self.parameter = Some(name.to_owned());
        self
    }

    fn matches(&self, request: &Request) -> bool {
        let same = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        same(&self.verb, &request.verb)
            && same(&self.resource, &request.resource)
            && same(&self.namespace, &request.namespace)
            && same(&self.name, &request.name)
            && same(&self.user, &request.user)
            && self.path.as_deref().is_none_or(|prefix| request.path.starts_with(prefix))
            && self.parameter.as_deref().is_none_or(|name| request.parameter(name).is_some())
    }
}

/// What happens to a request. Several may happen to one.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Effect {
    /// It is answered so, and nothing is done. With [`Status::retry_after`](Status::retry_after) the header `Retry-After` is sent.
    Answer(Status),
    /// Its connection is closed before there is an answer, and nothing is done.
    CloseBeforeAnswer,
    /// It is done, but its connection is closed before there is an answer: a client does not know that it was done.
    CloseInsteadOfAnswer,
    /// Its connection is closed after so many bytes of the answer's body, in the middle of whatever they are.
    CloseAfterBytes(u64),
    /// Its connection is closed after so many events of a watch.
    CloseAfterEvents(u64),
    /// The watch ends after so many events, as it does when its time is over.
    EndAfterEvents(u64),
    /// There is no answer until the gate is released; then it goes on as if nothing had been.
    Hang(Gate),
    /// The answer's body comes in pieces of so many bytes, with a pause of the server's time before each.
    Slow {
        /// Bytes in a piece, at least one.
        bytes: usize,
        /// The pause.
        every: Duration,
    },
    /// After so many events of a watch come these bytes.
    Garbage {
        /// Events before.
        after: u64,
        /// The bytes, sent as they are.
        bytes: Bytes,
    },
    /// After so many events a watch is silent: no events, no bookmarks, no end, while the connection stays open, as when
    /// a middlebox has forgotten it. When the gate is released the watch goes on.
    Silent {
        /// Events before.
        after: u64,
        /// Ends the silence.
        until: Gate,
    },
    /// After so many events comes an ERROR event, and the watch ends.
    ErrorEvent {
        /// Events before.
        after: u64,
        /// The event's object.
        status: Status,
    },
    /// No bookmarks, though they were asked for; a server need not send any.
    NoBookmarks,
    /// The continue token of a list has expired: 410, with a token for going on inconsistently.
    ExpireContinue,
    /// Streaming lists are refused with 422, as by servers without them.
    RefuseStreamingLists,
}

/// A fault: which requests, what, and how often.
#[derive(Debug, Clone)]
pub struct Rule {
    matching: Match,
    effect: Effect,
    skip: u64,
    times: u64,
}

impl Rule {
    /// Strikes every request that matches.
    pub fn new(matching: Match, effect: Effect) -> Self {
        Self { matching, effect, skip: 0, times: u64::MAX }
    }

    /// Lets so many matching requests pass first.
    #[must_use]
    pub fn skip(mut self, requests: u64) -> Self {
        self.skip = requests;
        self
    }

    /// Strikes so often, and no more.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    /// Strikes once.
    #[must_use]
    pub fn once(self) -> Self {
        self.times(1)
    }
}

/// Names a rule that was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleId(usize);

#[derive(Debug)]
struct Active {
    rule: Rule,
    seen: u64,
    hits: u64,
    removed: bool,
}

/// The fault plan. Clones are handles on the same one.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    rules: Arc<Mutex<Vec<Active>>>,
}

impl Faults {
    /// Adds a rule; it strikes requests that come from now on.
    pub fn add(&self, rule: Rule) -> RuleId {
        let mut rules = self.rules.lock();
        rules.push(Active { rule, seen: 0, hits: 0, removed: false });
        RuleId(rules.len() - 1)
    }

    /// Takes a rule out. What it has struck already stays struck.
    pub fn remove(&self, id: RuleId) {
        if let Some(active) = self.rules.lock().get_mut(id.0) {
            active.removed = true;
        }
    }

    /// Takes all rules out.
    pub fn clear(&self) {
        for active in self.rules.lock().iter_mut() {
            active.removed = true;
        }
    }

    /// How often a rule has struck.
    pub fn hits(&self, id: RuleId) -> u64 {
        self.rules.lock().get(id.0).map_or(0, |active| active.hits)
    }

    /// What happens to a request; of two rules that say the same kind of thing the older one counts.
    pub(crate) fn decide(&self, request: &Request) -> Plan {
        let mut plan = Plan::default();
        for active in self.rules.lock().iter_mut().filter(|active| !active.removed) {
            if !active.rule.matching.matches(request) {
                continue;
            }
            active.seen += 1;
            if active.seen > active.rule.skip && active.hits < active.rule.times {
                active.hits += 1;
                plan.add(&active.rule.effect);
            }
        }
        plan
    }
}

/// What happens to one request.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fault of its own; any of them may come together"
)]
#[derive(Debug, Clone, Default)]
pub(crate) struct Plan {
    pub(crate) answer: Option<Status>,
    pub(crate) close_before: bool,
    pub(crate) close_instead: bool,
    pub(crate) close_after_bytes: Option<u64>,
    pub(crate) close_after_events: Option<u64>,
    pub(crate) end_after_events: Option<u64>,
    pub(crate) hang: Option<Gate>,
    pub(crate) slow: Option<(usize, Duration)>,
    pub(crate) garbage: Option<(u64, Bytes)>,
    pub(crate) silent: Option<(u64, Gate)>,
    pub(crate) error_event: Option<(u64, Status)>,
    pub(crate) no_bookmarks: bool,
    pub(crate) expire_continue: bool,
    pub(crate) refuse_streaming: bool,
}

impl Plan {
    fn add(&mut self, effect: &Effect) {
        fn keep<T: Clone>(slot: &mut Option<T>, value: &T) {
            if slot.is_none() {
                *slot = Some(value.clone());
            }
        }
        match effect {
            Effect::Answer(status) => keep(&mut self.answer, status),
            Effect::CloseBeforeAnswer => self.close_before = true,
            Effect::CloseInsteadOfAnswer => self.close_instead = true,
            Effect::CloseAfterBytes(bytes) => keep(&mut self.close_after_bytes, bytes),
            Effect::CloseAfterEvents(events) => keep(&mut self.close_after_events, events),
            Effect::EndAfterEvents(events) => keep(&mut self.end_after_events, events),
            Effect::Hang(gate) => keep(&mut self.hang, gate),
            Effect::Slow { bytes, every } => keep(&mut self.slow, &((*bytes).max(1), *every)),
            Effect::Garbage { after, bytes } => keep(&mut self.garbage, &(*after, bytes.clone())),
            Effect::Silent { after, until } => keep(&mut self.silent, &(*after, until.clone())),
            Effect::ErrorEvent { after, status } => keep(&mut self.error_event, &(*after, status.clone())),
            Effect::NoBookmarks => self.no_bookmarks = true,
            Effect::ExpireContinue => self.expire_continue = true,
            Effect::RefuseStreamingLists => self.refuse_streaming = true,
        }
    }

    /// Whether the body must pass through a pump, which can be stopped and slowed.
    pub(crate) fn touches_body(&self) -> bool {
        self.close_after_bytes.is_some() || self.slow.is_some()
    }
}
