//! What every file held last, and the changes that an edit makes. Pure: no disk, no clock.
//!
//! A file that cannot be read to its end is *incomplete*: objects that it held before and that were not seen now may still
//! be in it, so they stay. An object that is in the file but cannot be used keeps its last good form. Only what a well-formed
//! file no longer holds is deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::parse::Parsed;
use super::problem::Problem;
use crate::record::{Change, Object, ObjectRef};

/// Which file; the order decides which of two equal objects counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// The place of the input that it was found under.
    pub input: usize,
    /// Its place within that input, in name order.
    pub place: Box<[Box<str>]>,
    /// Its name, for problems.
    pub name: Arc<str>,
}

impl FileId {
    /// A file that an input names directly.
    pub fn direct(input: usize, name: impl Into<Arc<str>>) -> Self {
        Self { input, place: Box::default(), name: name.into() }
    }
}

/// What happened to a file.
#[derive(Debug)]
pub enum Edit {
    /// It was read.
    Read(FileId, Parsed),
    /// It is gone.
    Gone(FileId),
}

#[derive(Debug, Default)]
struct FileState {
    objects: BTreeMap<ObjectRef, Object>,
    problems: Vec<Problem>,
}

/// What every file held last.
#[derive(Debug, Default)]
pub struct Snapshot {
    files: BTreeMap<FileId, FileState>,
    /// The files that hold an object.
    holders: FxHashMap<ObjectRef, BTreeSet<FileId>>,
}

impl Snapshot {
    /// Takes in what happened to files and tells what that changes, sorted by object: a set difference, so that an object
    /// moved from one file to another is no change. The second part is what is wrong in the files that were read.
    pub fn apply(&mut self, edits: Vec<Edit>) -> (Vec<Change>, Vec<Problem>) {
        let mut before: BTreeMap<ObjectRef, Option<Object>> = BTreeMap::new();
        let mut read: Vec<FileId> = Vec::new();
        for edit in edits {
            match edit {
                Edit::Gone(file) => self.replace(&file, None, &mut before),
                Edit::Read(file, parsed) => {
                    let state = self.merge(&file, parsed);
                    self.replace(&file, Some(state), &mut before);
                    read.push(file);
                }
            }
        }
        read.sort_unstable();
        read.dedup();
        let mut problems = Vec::new();
        for file in &read {
            self.report_duplicates(file);
            problems
                .extend(self.files.get(file).into_iter().flat_map(|state| state.problems.iter().cloned()));
        }
        let changes = before
            .into_iter()
            .filter_map(|(reference, old)| match (old, self.object(&reference)) {
                (old, Some(new)) if old.as_ref() != Some(new) => Some(Change::Set(new.clone())),
                (Some(_), None) => Some(Change::Delete(reference)),
                _ => None,
            })
            .collect();
        (changes, problems)
    }

    /// The object that counts.
    pub fn object(&self, reference: &ObjectRef) -> Option<&Object> {
        let file = self.holders.get(reference)?.last()?;
        self.files.get(file)?.objects.get(reference)
    }

    /// What is wrong in all files as they are now.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.files.values().flat_map(|state| &state.problems)
    }

    /// The files that are known.
    pub fn files(&self) -> impl Iterator<Item = &FileId> {
        self.files.keys()
    }

    /// The new state of a file, with what must be kept of the old one.
    fn merge(&self, file: &FileId, parsed: Parsed) -> FileState {
        let Parsed { objects, mut problems, refused, complete, .. } = parsed;
        let mut kept: BTreeMap<ObjectRef, Object> = BTreeMap::new();
        if let Some(old) = self.files.get(file) {
            if complete {
                let refused = refused.iter().filter_map(|r| Some((r.clone(), old.objects.get(r)?.clone())));
                kept.extend(refused);
            } else {
                kept.clone_from(&old.objects);
            }
        }
        let mut new: BTreeMap<ObjectRef, Object> = BTreeMap::new();
        for object in objects {
            let reference = object.reference();
            if new.insert(reference.clone(), object).is_some() {
                let mut problem = Problem::of_file(&file.name, "is in this file twice; the last one counts");
                problem.object = Some(reference.to_string());
                problems.push(problem);
            }
        }
        let held = kept.keys().filter(|reference| !new.contains_key(*reference)).count();
        if held > 0 {
            let message = format!("{held} objects of its last good version stay in force");
            problems.push(Problem::of_file(&file.name, message));
        }
        kept.append(&mut new);
        FileState { objects: kept, problems }
    }

    /// Exchanges a file's state and notes what counted before, of every object concerned.
    fn replace(
        &mut self,
        file: &FileId,
        new: Option<FileState>,
        before: &mut BTreeMap<ObjectRef, Option<Object>>,
    ) {
        let old_keys = self.files.get(file).into_iter().flat_map(|state| state.objects.keys().cloned());
        let new_keys = new.iter().flat_map(|state| state.objects.keys().cloned());
        let concerned: Vec<ObjectRef> = old_keys.chain(new_keys).collect();
        for reference in concerned {
            let counted = self.object(&reference);
            before.entry(reference).or_insert_with(|| counted.cloned());
        }
        for reference in self.files.remove(file).into_iter().flat_map(|state| state.objects.into_keys()) {
            if let Some(holders) = self.holders.get_mut(&reference) {
                holders.remove(file);
                if holders.is_empty() {
                    self.holders.remove(&reference);
                }
            }
        }
        if let Some(state) = new {
            for reference in state.objects.keys() {
                self.holders.entry(reference.clone()).or_default().insert(file.clone());
            }
            self.files.insert(file.clone(), state);
        }
    }

    /// Adds to a file's problems that it shares objects with other files.
    fn report_duplicates(&mut self, file: &FileId) {
        let Some(state) = self.files.get(file) else { return };
        let mut found = Vec::new();
        for reference in state.objects.keys() {
            let Some(holders) = self.holders.get(reference).filter(|holders| holders.len() > 1) else {
                continue;
            };
            let others: Vec<&str> = holders.iter().filter(|h| *h != file).map(|h| &*h.name).collect();
            let counts = holders.last().map_or("", |h| &*h.name);
            let message = format!("is also in {}; the one in {counts} counts", others.join(", "));
            let mut problem = Problem::of_file(&file.name, message);
            problem.object = Some(reference.to_string());
            found.push(problem);
        }
        if let Some(state) = self.files.get_mut(file) {
            state.problems.extend(found);
        }
    }
}
