//! Expectations about how the proxy got there: how many calls for what, and what it left alone.

use std::collections::{BTreeMap, BTreeSet};

use hcn::{Guid, Hcn, Kind, Query};
use hns::Hns;
use hns::journal::{Entry, Op};

use crate::expect::{expand, subject};
use crate::model::Expect;
use crate::run::{Outcome, Runner};

/// Objects as HNS prints them.
pub(crate) type Documents = BTreeMap<(Kind, Guid), String>;

impl Runner {
    pub(crate) fn expect_counts(&mut self, expect: &Expect) -> Outcome {
        let writes: Vec<Entry> = self
            .world
            .hns
            .journal()
            .writes_since(self.mark)
            .into_iter()
            .filter(|entry| &*entry.actor == "proxy")
            .collect();
        let told = || writes.iter().take(60).map(|entry| format!("  {entry}")).collect::<Vec<_>>().join("\n");
        let creates = |entry: &Entry, frontend: &str| {
            entry.op == Op::Create
                && entry.kind == Some(Kind::LoadBalancer)
                && subject(&entry.subject) == frontend
        };
        for (frontend, most) in &expect.made_within {
            let frontend = expand(frontend);
            let made = writes.iter().position(|entry| creates(entry, &frontend) && entry.result.is_ok());
            let made = made.ok_or_else(|| format!("{frontend} was not made:\n{}", told()))? + 1;
            ensure!(made as u64 <= *most, "{frontend} was made by write {made}, not {most}:\n{}", told());
        }
        for (frontend, most) in &expect.attempts_at_most {
            let frontend = expand(frontend);
            let tried = writes.iter().filter(|entry| creates(entry, &frontend)).count();
            ensure!(tried as u64 <= *most, "{tried} attempts at {frontend}, not {most}:\n{}", told());
        }
        for (space, wanted) in &expect.blocks {
            let report = self.world.hns.ports();
            let found = report.spaces.iter().find(|found| found.space.to_string() == *space);
            let found = found.ok_or_else(|| format!("blocks: {space:?} is no port space"))?.blocks.len();
            ensure!(found as u64 == *wanted, "{found} blocks of {space} are taken, expected {wanted}");
        }
        let foreign = foreign(&self.world.hns);
        if expect.foreign_untouched {
            self.foreign_untouched(&writes, &foreign)?;
        }
        self.foreign = foreign;
        Ok(())
    }

    /// Nothing that the proxy had not made was written to by it, and all of it is there as it was.
    fn foreign_untouched(&self, writes: &[Entry], now: &Documents) -> Outcome {
        let own = made_by_proxy(&self.world.hns);
        for entry in writes.iter().filter(|entry| entry.op != Op::Create) {
            ensure!(entry.id.is_some_and(|id| own.contains(&id)), "the proxy touched {entry}");
        }
        for (key, before) in &self.foreign {
            let after = now.get(key);
            ensure!(after == Some(before), "{key:?} was {before}\nand is {after:?}");
        }
        Ok(())
    }
}

/// The ids of objects that the proxy has made.
fn made_by_proxy(hns: &Hns) -> BTreeSet<Guid> {
    let made = |entry: &Entry| &*entry.actor == "proxy" && entry.op == Op::Create && entry.result.is_ok();
    hns.journal().writes_since(0).iter().filter(|entry| made(entry)).filter_map(|entry| entry.id).collect()
}

/// Every object that the proxy has not made.
pub(crate) fn foreign(hns: &Hns) -> Documents {
    let own = made_by_proxy(hns);
    let reader = hns.actor("observer");
    let mut documents = Documents::new();
    for kind in Kind::ALL {
        for id in reader.enumerate(kind, &Query::all()).expect("objects can be listed") {
            if !own.contains(&id) {
                let document = reader.query(kind, id, &Query::all()).expect("objects can be read");
                documents.insert((kind, id), document);
            }
        }
    }
    documents
}
