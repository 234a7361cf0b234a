//! Counts and times HCN calls and knows which is under way, so that a call that never returns is seen from outside.
//! Decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hcn::api::{NotificationSink, SubscriptionId, V1Method};
use hcn::time::Clock;
use hcn::{Guid, HResult, Hcn, Kind, Query, Result, Version};
use parking_lot::Mutex;

/// What was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// `enumerate`.
    Enumerate,
    /// `query`.
    Query,
    /// `create`.
    Create,
    /// `modify`.
    Modify,
    /// `delete`.
    Delete,
    /// `call_v1`.
    V1,
    /// `version`.
    Version,
    /// `subscribe`.
    Subscribe,
}

impl Operation {
    /// Whether the operation changes HNS.
    pub fn is_write(self) -> bool {
        matches!(self, Self::Create | Self::Modify | Self::Delete)
    }
}

impl Operation {
    /// In one word, as metrics and documents write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Enumerate => "enumerate",
            Self::Query => "query",
            Self::Create => "create",
            Self::Modify => "modify",
            Self::Delete => "delete",
            Self::V1 => "v1",
            Self::Version => "version",
            Self::Subscribe => "subscribe",
        }
    }
}

/// Upper bounds of the classes that calls are counted in by how long they took, in milliseconds.
pub const LATENCY_BOUNDS: [u64; 16] =
    [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000];

/// Figures of one operation on one kind of object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Calls that returned.
    pub calls: u64,
    /// Of those, failed ones.
    pub errors: u64,
    /// Time in all of them together.
    pub total: Duration,
    /// The longest.
    pub longest: Duration,
    /// How many took at most as long as the bound of the same place in [`LATENCY_BOUNDS`], and longer than the one before;
    /// what took longer than all is in `calls` only.
    pub classes: [u64; LATENCY_BOUNDS.len()],
}

impl Figures {
    fn count(&mut self, took: Duration) {
        self.calls += 1;
        self.total += took;
        self.longest = self.longest.max(took);
        if let Some(class) = LATENCY_BOUNDS.iter().position(|&bound| took <= Duration::from_millis(bound)) {
            self.classes[class] += 1;
        }
    }
}

/// Everything metered so far.
#[derive(Clone, Debug, Default)]
pub struct Meters {
    /// By operation and kind.
    pub figures: BTreeMap<(Operation, Option<Kind>), Figures>,
    /// Errors by code.
    pub codes: BTreeMap<HResult, u64>,
    /// The same by operation and kind.
    pub errors: BTreeMap<(Operation, Option<Kind>, HResult), u64>,
}

impl Meters {
    /// Calls that write.
    pub fn writes(&self) -> u64 {
        self.figures
            .iter()
            .filter(|((operation, _), _)| operation.is_write())
            .map(|(_, figures)| figures.calls)
            .sum()
    }

    /// All calls.
    pub fn calls(&self) -> u64 {
        self.figures.values().map(|figures| figures.calls).sum()
    }
}

#[derive(Default)]
struct State {
    meters: Meters,
    under_way: BTreeMap<u64, (Operation, Option<Kind>, Duration)>,
    next: u64,
    /// When a call last began or returned.
    moved: Duration,
}

/// Wraps an [`Hcn`].
pub struct Metered {
    inner: Arc<dyn Hcn>,
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<State>>,
}

/// Looks at a [`Metered`] from elsewhere, without ever waiting for HNS.
#[derive(Clone)]
pub struct Watch {
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<State>>,
}

impl Metered {
    /// Wraps.
    pub fn new(inner: Arc<dyn Hcn>, clock: Arc<dyn Clock>) -> Self {
        Self { inner, clock, state: Arc::default() }
    }

    /// Something to look at it with.
    pub fn watch(&self) -> Watch {
        Watch { clock: Arc::clone(&self.clock), state: Arc::clone(&self.state) }
    }

    fn run<T>(
        &self,
        operation: Operation,
        kind: Option<Kind>,
        call: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let start = self.clock.now();
        let number = {
            let mut state = self.state.lock();
            state.next += 1;
            let number = state.next;
            state.moved = start;
            state.under_way.insert(number, (operation, kind, start));
            number
        };
        let result = call();
        let now = self.clock.now();
        let mut state = self.state.lock();
        state.under_way.remove(&number);
        state.moved = now;
        let figures = state.meters.figures.entry((operation, kind)).or_default();
        figures.count(now.saturating_sub(start));
        if let Err(error) = &result {
            figures.errors += 1;
            *state.meters.codes.entry(error.code).or_default() += 1;
            *state.meters.errors.entry((operation, kind, error.code)).or_default() += 1;
        }
        result
    }
}

impl Watch {
    /// The figures so far.
    pub fn meters(&self) -> Meters {
        self.state.lock().meters.clone()
    }

    /// The call that has been under way longest, and for how long.
    pub fn longest_under_way(&self) -> Option<(Operation, Option<Kind>, Duration)> {
        let now = self.clock.now();
        let state = self.state.lock();
        let oldest = state.under_way.values().min_by_key(|(_, _, start)| *start)?;
        Some((oldest.0, oldest.1, now.saturating_sub(oldest.2)))
    }

    /// When a call last began or returned, in the clock's time.
    pub fn moved(&self) -> Duration {
        self.state.lock().moved
    }

    /// Whether a call has been under way for longer than `limit`: HNS hangs.
    pub fn hangs(&self, limit: Duration) -> bool {
        self.longest_under_way().is_some_and(|(_, _, since)| since > limit)
    }
}

impl Hcn for Metered {
    fn enumerate(&self, kind: Kind, query: &Query) -> Result<Vec<Guid>> {
        self.run(Operation::Enumerate, Some(kind), || self.inner.enumerate(kind, query))
    }

    fn query(&self, kind: Kind, id: Guid, query: &Query) -> Result<String> {
        self.run(Operation::Query, Some(kind), || self.inner.query(kind, id, query))
    }

    fn create(&self, kind: Kind, network: Option<Guid>, id: Guid, settings: &str) -> Result<Guid> {
        self.run(Operation::Create, Some(kind), || self.inner.create(kind, network, id, settings))
    }

    fn modify(&self, kind: Kind, id: Guid, settings: &str) -> Result<()> {
        self.run(Operation::Modify, Some(kind), || self.inner.modify(kind, id, settings))
    }

    fn delete(&self, kind: Kind, id: Guid) -> Result<()> {
        self.run(Operation::Delete, Some(kind), || self.inner.delete(kind, id))
    }

    fn call_v1(&self, method: V1Method, path: &str, body: &str) -> Result<String> {
        self.run(Operation::V1, None, || self.inner.call_v1(method, path, body))
    }

    fn version(&self) -> Result<Version> {
        self.run(Operation::Version, None, || self.inner.version())
    }

    fn subscribe(&self, sink: NotificationSink) -> Result<SubscriptionId> {
        self.run(Operation::Subscribe, None, || self.inner.subscribe(sink))
    }

    fn unsubscribe(&self, subscription: SubscriptionId) {
        self.inner.unsubscribe(subscription);
    }
}
