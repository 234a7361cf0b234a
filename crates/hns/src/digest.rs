//! The whole state as documents, for comparing.

use std::collections::BTreeMap;
use std::fmt;

use hcn::{Guid, Kind, Query};
use serde_json::Value;

use crate::service::Hns;
use crate::view::Snapshot;

/// Every object in v2 form, by kind and id. Two are equal when the documents say the same.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dump {
    /// The documents.
    pub objects: BTreeMap<Kind, BTreeMap<Guid, Value>>,
}

impl Dump {
    /// How many objects of a kind there are.
    pub fn count(&self, kind: Kind) -> usize {
        self.objects.get(&kind).map_or(0, BTreeMap::len)
    }
}

impl fmt::Display for Dump {
    /// One line per object, sorted: kind, id, document.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, objects) in &self.objects {
            for (id, document) in objects {
                writeln!(f, "{kind} {id} {document}")?;
            }
        }
        Ok(())
    }
}

impl Hns {
    /// The whole state. Not a call: it is not in the journal and no fault befalls it.
    pub fn digest(&self) -> Dump {
        let (now, env) = (self.now(), &self.inner.env);
        let snapshots: Vec<(Kind, Guid, Snapshot)> = {
            let state = self.inner.state.read();
            state
                .objects()
                .map(|object| (object.kind(), object.id(), Snapshot::of(&state, object, now)))
                .collect()
        };
        let mut dump = Dump::default();
        for (kind, id, snapshot) in snapshots {
            let document = serde_json::from_str(&snapshot.print(env, &Query::all())).unwrap_or_default();
            dump.objects.entry(kind).or_default().insert(id, document);
        }
        dump
    }
}
