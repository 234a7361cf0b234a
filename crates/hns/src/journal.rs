//! The journal: every call that reached HNS, in the order in which it was answered.
//!
//! Tests and benches count on it ("no write in the second sync", "one listing"), so two things hold: the
//! [`Counters`] are exact for the whole life of the HNS, whatever the ring of [`Entry`]s has dropped, and an entry
//! is written only when its call has ended (a hung call has none yet). The journal knows nothing of what a call
//! did beyond its result; state is read with calls that are not journalled.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hcn::api::V1Method;
use hcn::{Guid, HResult, Kind};
use parking_lot::Mutex;

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Lists ids.
    Enumerate,
    /// Reads one object.
    Query,
    /// Creates an object.
    Create,
    /// Changes an object.
    Modify,
    /// Deletes an object.
    Delete,
    /// A v1 call; the path is the entry's subject when the call names nothing better.
    V1(V1Method),
    /// Asks for the version (a v1 call of its own: `GET /globals/version`).
    Version,
    /// Starts notifications.
    Subscribe,
}

impl Op {
    /// Every operation.
    pub const ALL: [Self; 10] = [
        Self::Enumerate,
        Self::Query,
        Self::Create,
        Self::Modify,
        Self::Delete,
        Self::V1(V1Method::Get),
        Self::V1(V1Method::Post),
        Self::V1(V1Method::Delete),
        Self::Version,
        Self::Subscribe,
    ];

    /// The name in scripts and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enumerate => "Enumerate",
            Self::Query => "Query",
            Self::Create => "Create",
            Self::Modify => "Modify",
            Self::Delete => "Delete",
            Self::V1(V1Method::Get) => "V1 GET",
            Self::V1(V1Method::Post) => "V1 POST",
            Self::V1(V1Method::Delete) => "V1 DELETE",
            Self::Version => "Version",
            Self::Subscribe => "Subscribe",
        }
    }

    /// The operation with this name, without regard to case.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.name().eq_ignore_ascii_case(text.trim()))
    }

    /// The v2 operation that a v1 call amounts to: a GET, POST or DELETE of an object (`has_id`) reads, changes or
    /// deletes it; of a collection, lists it or creates in it. Other operations are themselves.
    #[must_use]
    pub const fn acts_as(self, has_id: bool) -> Self {
        match (self, has_id) {
            (Self::V1(V1Method::Get), false) => Self::Enumerate,
            (Self::V1(V1Method::Get), true) => Self::Query,
            (Self::V1(V1Method::Post), false) => Self::Create,
            (Self::V1(V1Method::Post), true) => Self::Modify,
            (Self::V1(V1Method::Delete), _) => Self::Delete,
            (other, _) => other,
        }
    }

    /// Whether the call means to change state.
    pub const fn is_write(self) -> bool {
        matches!(
            self,
            Self::Create | Self::Modify | Self::Delete | Self::V1(V1Method::Post | V1Method::Delete)
        )
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number; [`Journal::record`] gives it, from 0 without gaps.
    pub seq: u64,
    /// When it was made, in the clock's monotonic time.
    pub at: Duration,
    /// Who made it.
    pub actor: Arc<str>,
    /// What.
    pub op: Op,
    /// On which kind of object; none for versions, subscriptions and v1 paths of other things.
    pub kind: Option<Kind>,
    /// On which object; for a create, the one that came of it.
    pub id: Option<Guid>,
    /// What people call the object: frontends of a load balancer (parted by ", "), addresses or name of an
    /// endpoint, name of a network; a v1 path where there is no such thing.
    pub subject: String,
    /// How long it took, injected latency included.
    pub took: Duration,
    /// What the caller was told.
    pub result: Result<(), HResult>,
    /// The fault that had a hand in it ("F-DELFAIL").
    pub fault: Option<&'static str>,
}

impl Entry {
    /// Whether the call meant to change state.
    pub const fn is_write(&self) -> bool {
        self.op.is_write()
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {:.3?} {}: {}", self.seq, self.at, self.actor, self.op)?;
        if let Some(kind) = self.kind {
            write!(f, " {kind}")?;
        }
        if let Some(id) = self.id {
            write!(f, " {id}")?;
        }
        if !self.subject.is_empty() {
            write!(f, " [{}]", self.subject)?;
        }
        match self.result {
            Ok(()) => write!(f, " -> ok")?,
            Err(code) => write!(f, " -> {code} {}", code.name())?,
        }
        if let Some(fault) = self.fault {
            write!(f, " ({fault})")?;
        }
        write!(f, " in {:.3?}", self.took)
    }
}

/// What calls are counted by.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    actor: Arc<str>,
    op: Op,
    kind: Option<Kind>,
    failed: bool,
}

impl Key {
    fn rank(&self) -> (&str, &'static str, Option<Kind>, bool) {
        (&self.actor, self.op.name(), self.kind, self.failed)
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

/// How many calls there were, by actor, operation, kind and outcome: exact, and cheap to take and subtract.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    counts: BTreeMap<Key, u64>,
}

impl Counters {
    fn sum(&self, wanted: impl Fn(&Key) -> bool) -> u64 {
        self.counts.iter().filter(|(key, _)| wanted(key)).map(|(_, count)| count).sum()
    }

    /// All calls.
    pub fn total(&self) -> u64 {
        self.sum(|_| true)
    }

    /// Calls that meant to change state.
    pub fn writes(&self) -> u64 {
        self.sum(|key| key.op.is_write())
    }

    /// Calls that were answered with an error.
    pub fn failed(&self) -> u64 {
        self.sum(|key| key.failed)
    }

    /// Calls with this operation, on any kind or the one given.
    pub fn of(&self, op: Op, kind: Option<Kind>) -> u64 {
        self.sum(|key| key.op == op && (kind.is_none() || key.kind == kind))
    }

    /// The calls of one actor.
    #[must_use]
    pub fn by(&self, actor: &str) -> Self {
        let counts = self.counts.iter().filter(|(key, _)| &*key.actor == actor);
        Self { counts: counts.map(|(key, &count)| (key.clone(), count)).collect() }
    }

    /// What has been added since `earlier` was taken from the same journal.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let grown = self.counts.iter().filter_map(|(key, &count)| {
            let more = count.saturating_sub(earlier.counts.get(key).copied().unwrap_or(0));
            (more > 0).then(|| (key.clone(), more))
        });
        Self { counts: grown.collect() }
    }
}

impl fmt::Display for Counters {
    /// One line per actor, operation, kind and outcome.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, count) in &self.counts {
            let kind = key.kind.map(|kind| format!(" {kind}")).unwrap_or_default();
            let outcome = if key.failed { " (failed)" } else { "" };
            writeln!(f, "{count:>8}  {} {}{kind}{outcome}", key.actor, key.op)?;
        }
        Ok(())
    }
}

/// The journal of one HNS. Every method may be called from any thread.
#[derive(Debug)]
pub struct Journal {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    next: u64,
    capacity: usize,
    ring: VecDeque<Entry>,
    counters: Counters,
}

impl Default for Journal {
    fn default() -> Self {
        Self::with_capacity(Self::DEFAULT_CAPACITY)
    }
}

impl Journal {
    /// How many entries are kept unless told otherwise: several first syncs of a large cluster.
    pub const DEFAULT_CAPACITY: usize = 65_536;

    /// A journal that keeps the last `capacity` entries; 0 keeps none and only counts.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            inner: Mutex::new(Inner {
                next: 0,
                capacity,
                ring: VecDeque::new(),
                counters: Counters::default(),
            }),
        }
    }

    /// Keeps the last `capacity` entries from now on; entries that are too many are dropped.
    pub fn set_capacity(&self, capacity: usize) {
        let mut inner = self.inner.lock();
        inner.capacity = capacity;
        while inner.ring.len() > capacity {
            inner.ring.pop_front();
        }
    }

    /// Writes an entry and numbers it; returns the number.
    pub fn record(&self, mut entry: Entry) -> u64 {
        let mut inner = self.inner.lock();
        let seq = inner.next;
        inner.next += 1;
        entry.seq = seq;
        let key = Key {
            actor: Arc::clone(&entry.actor),
            op: entry.op,
            kind: entry.kind,
            failed: entry.result.is_err(),
        };
        *inner.counters.counts.entry(key).or_default() += 1;
        if inner.capacity > 0 {
            if inner.ring.len() == inner.capacity {
                inner.ring.pop_front();
            }
            inner.ring.push_back(entry);
        }
        seq
    }

    /// The number that the next entry will have. Take it before an act, and give it to
    /// [`Journal::entries_since`] after.
    pub fn next_seq(&self) -> u64 {
        self.inner.lock().next
    }

    /// The entries from number `seq` on that are still kept.
    pub fn entries_since(&self, seq: u64) -> Vec<Entry> {
        self.select(seq, |_| true)
    }

    /// The entries from number `seq` on that meant to change state and are still kept.
    pub fn writes_since(&self, seq: u64) -> Vec<Entry> {
        self.select(seq, Entry::is_write)
    }

    /// How many of the kept entries match. For numbers over the whole life use [`Journal::counters`].
    pub fn count(&self, filter: impl Fn(&Entry) -> bool) -> usize {
        self.inner.lock().ring.iter().filter(|entry| filter(entry)).count()
    }

    /// The exact numbers since the HNS was opened.
    pub fn counters(&self) -> Counters {
        self.inner.lock().counters.clone()
    }

    fn select(&self, seq: u64, wanted: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        let inner = self.inner.lock();
        let from = inner.ring.partition_point(|entry| entry.seq < seq);
        inner.ring.range(from..).filter(|entry| wanted(entry)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(actor: &str, op: Op, kind: Option<Kind>, result: Result<(), HResult>) -> Entry {
        Entry {
            seq: u64::MAX,
            at: Duration::from_secs(1),
            actor: actor.into(),
            op,
            kind,
            id: None,
            subject: "10.60.0.10:53/UDP".to_owned(),
            took: Duration::from_millis(2),
            result,
            fault: None,
        }
    }

    #[test]
    fn entries_are_numbered_and_found_by_number() {
        let journal = Journal::default();
        for op in [Op::Enumerate, Op::Create, Op::Query, Op::Delete] {
            journal.record(entry("proxy", op, Some(Kind::LoadBalancer), Ok(())));
        }
        let from = 1;
        let seqs: Vec<u64> = journal.entries_since(from).iter().map(|entry| entry.seq).collect();
        assert_eq!(seqs, [1, 2, 3]);
        let writes: Vec<Op> = journal.writes_since(from).iter().map(|entry| entry.op).collect();
        assert_eq!(writes, [Op::Create, Op::Delete]);
        assert_eq!(journal.next_seq(), 4);
        assert!(journal.entries_since(4).is_empty());
    }

    #[test]
    fn the_ring_forgets_and_the_counters_do_not() {
        let journal = Journal::with_capacity(2);
        let before = journal.counters();
        for n in 0..5 {
            let result = if n % 2 == 0 { Ok(()) } else { Err(HResult::E_FAIL) };
            journal.record(entry("proxy", Op::Create, Some(Kind::Endpoint), result));
        }
        journal.record(entry("cni", Op::Query, Some(Kind::Network), Ok(())));
        assert_eq!(journal.entries_since(0).iter().map(|entry| entry.seq).collect::<Vec<_>>(), [4, 5]);
        let counters = journal.counters().since(&before);
        assert_eq!((counters.total(), counters.writes(), counters.failed()), (6, 5, 2));
        assert_eq!(counters.of(Op::Create, Some(Kind::Endpoint)), 5);
        assert_eq!(counters.of(Op::Create, Some(Kind::Network)), 0);
        assert_eq!(counters.of(Op::Create, None), 5);
        assert_eq!(counters.by("cni").total(), 1);
        journal.set_capacity(1);
        assert_eq!(journal.entries_since(0).len(), 1);
        journal.set_capacity(0);
        journal.record(entry("cni", Op::Query, None, Ok(())));
        assert!(journal.entries_since(0).is_empty());
        assert_eq!(journal.counters().total(), 7);
    }

    #[test]
    fn v1_calls_amount_to_v2_operations() {
        for (op, has_id, wanted) in [
            (Op::V1(V1Method::Get), false, Op::Enumerate),
            (Op::V1(V1Method::Get), true, Op::Query),
            (Op::V1(V1Method::Post), false, Op::Create),
            (Op::V1(V1Method::Post), true, Op::Modify),
            (Op::V1(V1Method::Delete), true, Op::Delete),
            (Op::Version, false, Op::Version),
        ] {
            assert_eq!(op.acts_as(has_id), wanted, "{op} with id: {has_id}");
            assert_eq!(Op::parse(&op.name().to_lowercase()), Some(op));
        }
        let writes: Vec<&str> = Op::ALL.into_iter().filter(|op| op.is_write()).map(Op::name).collect();
        assert_eq!(writes, ["Create", "Modify", "Delete", "V1 POST", "V1 DELETE"]);
    }

    #[test]
    fn an_entry_reads_as_a_line() {
        let mut entry = entry("proxy", Op::Delete, Some(Kind::LoadBalancer), Err(HResult::E_FAIL));
        entry.seq = 3;
        entry.fault = Some("F-DELFAIL");
        assert_eq!(
            entry.to_string(),
            "#3 1.000s proxy: Delete load balancer [10.60.0.10:53/UDP] -> 0x80004005 E_FAIL (F-DELFAIL) in 2.000ms"
        );
    }
}
