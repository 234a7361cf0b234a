//! The objects, and every change of them since the last compaction: what an etcd would hold.
//!
//! One counter numbers all changes of all kinds. This module must not know requests, clocks or who waits.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::kind::Storage;

/// A version of an object. Never changed: a write makes a new one.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// The number of the change that made this version.
    pub(crate) revision: u64,
    pub(crate) labels: BTreeMap<String, String>,
    /// Values of the kind's selectable fields.
    pub(crate) fields: Vec<String>,
    /// The object in JSON, without `kind` and `apiVersion`.
    pub(crate) json: Bytes,
}

impl Object {
    fn new(storage: Storage, revision: u64, mut members: Map<String, Value>) -> Self {
        let mut object = Self {
            namespace: String::new(),
            name: String::new(),
            uid: String::new(),
            revision,
            labels: BTreeMap::new(),
            fields: storage.kind().field_values(&members),
            json: Bytes::new(),
        };
        if let Some(Value::Object(metadata)) = members.get_mut("metadata") {
            metadata.insert("resourceVersion".to_owned(), revision.to_string().into());
            let text =
                |member: &str| metadata.get(member).and_then(Value::as_str).unwrap_or_default().to_owned();
            object.namespace = text("namespace");
            object.name = text("name");
            object.uid = text("uid");
            if let Some(Value::Object(labels)) = metadata.get("labels") {
                object.labels = labels
                    .iter()
                    .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
                    .collect();
            }
        }
        object.json = serde_json::to_vec(&members).unwrap_or_default().into();
        object
    }

    /// The object's members, to make a new version of them.
    pub(crate) fn members(&self) -> Map<String, Value> {
        serde_json::from_slice(&self.json).unwrap_or_default()
    }

    /// This version as if a later change had made it.
    pub(crate) fn at_revision(&self, storage: Storage, revision: u64) -> Self {
        Self::new(storage, revision, self.members())
    }

    pub(crate) fn key(&self) -> String {
        key(&self.namespace, &self.name)
    }
}

/// Where an object is in the order of its kind: as in etcd, `namespace/name` as one text, or the name alone.
pub(crate) fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// One change.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) key: String,
    /// The version before; none where the object was created.
    pub(crate) before: Option<Arc<Object>>,
    /// The version after; after a deletion the last version with the deletion's revision.
    pub(crate) after: Arc<Object>,
    pub(crate) deleted: bool,
}

/// The version that was asked for is no longer kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compacted {
    /// The oldest that is.
    pub(crate) oldest: u64,
}

#[derive(Debug, Default)]
struct Table {
    objects: BTreeMap<String, Arc<Object>>,
    log: VecDeque<Change>,
    /// The last change of this table that is no longer in `log`.
    forgotten: u64,
}

/// Part of a list.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) objects: Vec<Arc<Object>>,
    /// Where the next page begins, if there is one.
    pub(crate) next: Option<String>,
    /// How many objects follow in the next pages, before selectors.
    pub(crate) remaining: usize,
}

/// Everything.
#[derive(Debug)]
pub(crate) struct State {
    revision: u64,
    compacted: u64,
    history: usize,
    tables: [Table; Storage::COUNT],
}

impl State {
    pub(crate) fn new(history: usize) -> Self {
        Self { revision: 1, compacted: 0, history, tables: Default::default() }
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn compacted(&self) -> u64 {
        self.compacted
    }

    pub(crate) fn get(&self, storage: Storage, key: &str) -> Option<&Arc<Object>> {
        self.tables[storage.index()].objects.get(key)
    }

    pub(crate) fn all(&self, storage: Storage) -> impl Iterator<Item = &Arc<Object>> {
        self.tables[storage.index()].objects.values()
    }

    pub(crate) fn count(&self, storage: Storage) -> usize {
        self.tables[storage.index()].objects.len()
    }

    /// Writes a version and returns it.
    pub(crate) fn put(&mut self, storage: Storage, members: Map<String, Value>) -> Arc<Object> {
        self.revision += 1;
        let after = Arc::new(Object::new(storage, self.revision, members));
        let key = after.key();
        let before = self.tables[storage.index()].objects.insert(key.clone(), Arc::clone(&after));
        let change =
            Change { revision: self.revision, key, before, after: Arc::clone(&after), deleted: false };
        self.note(storage, change);
        after
    }

    /// Takes an object out and returns its last version, which has the deletion's revision.
    pub(crate) fn remove(&mut self, storage: Storage, key: &str) -> Option<Arc<Object>> {
        let before = self.tables[storage.index()].objects.remove(key)?;
        self.revision += 1;
        let after = Arc::new(Object::new(storage, self.revision, before.members()));
        let change = Change {
            revision: self.revision,
            key: key.to_owned(),
            before: Some(before),
            after: Arc::clone(&after),
            deleted: true,
        };
        self.note(storage, change);
        Some(after)
    }

    fn note(&mut self, storage: Storage, change: Change) {
        let table = &mut self.tables[storage.index()];
        table.log.push_back(change);
        while table.log.len() > self.history {
            if let Some(oldest) = table.log.pop_front() {
                table.forgotten = oldest.revision;
            }
        }
    }

    /// Forgets what was before `revision`, which itself stays readable.
    pub(crate) fn compact(&mut self, revision: u64) {
        self.compacted = self.compacted.max(revision.min(self.revision));
        for table in &mut self.tables {
            while table.log.front().is_some_and(|change| change.revision <= self.compacted) {
                if let Some(oldest) = table.log.pop_front() {
                    table.forgotten = oldest.revision;
                }
            }
        }
    }

    /// The oldest revision of a kind that can still be read, and from which can be watched.
    pub(crate) fn oldest(&self, storage: Storage) -> u64 {
        self.compacted.max(self.tables[storage.index()].forgotten)
    }

    /// Changes of a kind after a revision, `most` at a time, and the revision up to which these are all.
    ///
    /// A reader that has seen everything up to `forgotten` misses nothing, so a watch that keeps up outlives any
    /// compaction; that a *new* watch is refused sooner is its caller's business ([`State::oldest`]).
    pub(crate) fn changes(
        &self,
        storage: Storage,
        after: u64,
        most: usize,
    ) -> Result<(Vec<Change>, u64), Compacted> {
        let table = &self.tables[storage.index()];
        if after < table.forgotten {
            return Err(Compacted { oldest: self.oldest(storage) });
        }
        let start = table.log.partition_point(|change| change.revision <= after);
        let changes: Vec<Change> = table.log.range(start..).take(most).cloned().collect();
        let through = match changes.last() {
            Some(last) if start + changes.len() < table.log.len() => last.revision,
            _ => self.revision.max(after),
        };
        Ok((changes, through))
    }

    /// The objects of a kind as they were at `revision`, from the key `from` on, at most `limit` that `wanted` accepts.
    pub(crate) fn page(
        &self,
        storage: Storage,
        prefix: &str,
        from: &str,
        revision: u64,
        limit: usize,
        wanted: impl Fn(&Object) -> bool,
    ) -> Result<Page, Compacted> {
        let table = &self.tables[storage.index()];
        if revision < self.oldest(storage) {
            return Err(Compacted { oldest: self.oldest(storage) });
        }
        // What was changed since then, as it was: the first change after `revision` knows the version before.
        let mut then: HashMap<&str, Option<&Arc<Object>>> = HashMap::new();
        let start = table.log.partition_point(|change| change.revision <= revision);
        for change in table.log.range(start..) {
            then.entry(&change.key).or_insert(change.before.as_ref());
        }
        let within = |key: &str| key.starts_with(prefix) && key >= from;
        let first = if from > prefix { from } else { prefix };
        let unchanged = table
            .objects
            .range::<str, _>((Bound::Included(first), Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .filter(|(key, _)| !then.contains_key(key.as_str()))
            .map(|(key, object)| (key.as_str(), object));
        let mut changed: Vec<(&str, &Arc<Object>)> = then
            .iter()
            .filter(|(key, _)| within(key))
            .filter_map(|(key, object)| Some((*key, (*object)?)))
            .collect();
        changed.sort_unstable_by_key(|(key, _)| *key);

        let mut merged = Merge { left: unchanged.peekable(), right: changed.into_iter().peekable() };
        let mut page = Page { objects: Vec::new(), next: None, remaining: 0 };
        for (key, object) in merged.by_ref() {
            if page.objects.len() == limit {
                // As upstream: whether one of the rest would be wanted is not looked at.
                page.next = Some(key.to_owned());
                page.remaining = 1 + merged.count();
                break;
            }
            if wanted(object) {
                page.objects.push(Arc::clone(object));
            }
        }
        Ok(page)
    }
}

/// Two sorted sequences as one.
struct Merge<L: Iterator, R: Iterator> {
    left: std::iter::Peekable<L>,
    right: std::iter::Peekable<R>,
}

impl<'a, V, L, R> Iterator for Merge<L, R>
where
    L: Iterator<Item = (&'a str, V)>,
    R: Iterator<Item = (&'a str, V)>,
{
    type Item = (&'a str, V);

    fn next(&mut self) -> Option<Self::Item> {
        match (self.left.peek(), self.right.peek()) {
            (Some((left, _)), Some((right, _))) if left > right => self.right.next(),
            (None, Some(_)) => self.right.next(),
            _ => self.left.next(),
        }
    }
}
