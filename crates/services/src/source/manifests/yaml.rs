//! The only module that knows which crate reads YAML: one document in, one value out, within limits.
//!
//! Limits follow the size of the document, so a large cluster is no special case, while aliases can add only little
//! to what is written: expanded texts and nodes count too. An anchor that contains itself is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Error, MessageFormatter, NonFiniteFloatPolicy, UserMessageFormatter};

use super::content::{Content, Key, MAX_DEPTH};

/// What a document may add by aliases, in nodes and bytes, whatever its size.
const SLACK: usize = 64 * 1024;
/// How often a document is read to find lines. Most faults need one reading, a missing field two.
const MAX_PASSES: usize = 6;

/// Why a document cannot be read, and where.
#[derive(Debug)]
pub(super) struct YamlError {
    pub(super) message: String,
    /// Line within the document, counted from 1.
    pub(super) line: Option<u64>,
}

/// A value with the line where it starts.
pub(super) struct Placed<'de> {
    pub(super) content: Content<'de>,
    pub(super) line: Option<u64>,
}

impl<'de> Deserialize<'de> for Placed<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = serde_saphyr::Spanned::<Content<'de>>::deserialize(deserializer)?;
        Ok(Self { line: Some(spanned.referenced.line()).filter(|line| *line > 0), content: spanned.value })
    }
}

fn options(length: usize) -> serde_saphyr::Options {
    let limit = length.saturating_mul(2).saturating_add(SLACK);
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: limit,
            max_nodes: limit,
            max_total_scalar_bytes: limit,
            max_depth: MAX_DEPTH,
            max_documents: 1,
            // Aliases are bounded by what they add, not by how many they are.
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: limit,
            max_replay_stack_depth: 32,
        },
        // Reported per object by `Content`, not as the end of the document.
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        // What looks like a number but is none in JSON stays a text: `0755`, `1_000`.
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        // `on` and `no` are texts in YAML 1.2.
        strict_booleans: true,
        emit_comments: false,
        with_snippet: false,
    }
}

/// Reads one document.
pub(super) fn read<'de, S: DeserializeSeed<'de>>(text: &'de str, seed: S) -> Result<S::Value, YamlError> {
    serde_saphyr::with_deserializer_from_str_with_options(text, options(text.len()), |deserializer| {
        seed.deserialize(deserializer)
    })
    .map_err(|error| explain(&error))
}

fn explain(error: &Error) -> YamlError {
    let line = error.location().map(|l| l.line()).filter(|line| *line > 0);
    let mut inner = error.without_snippet();
    while let Error::AliasError { error, .. } = inner {
        inner = error;
    }
    let message = match inner {
        Error::RecursiveReferencesRequireWeakTypes { .. } => "an anchor refers to itself".to_owned(),
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            "nesting is too deep, or aliases expand to much more than what is written".to_owned()
        }
        other => UserMessageFormatter.format_message(other).into_owned(),
    };
    YamlError { message, line }
}

/// A step from a value into a part of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// Finds the lines of values. Where a path does not exist, the line of what would hold the value counts.
pub(super) fn locate(text: &str, paths: &[Vec<Step>]) -> Vec<Option<u64>> {
    let mut lines = vec![None; paths.len()];
    let mut wanted: Vec<(usize, &[Step])> = paths.iter().map(Vec::as_slice).enumerate().collect();
    for _ in 0..MAX_PASSES {
        // A value and a part of it are never looked for in the same pass over the text.
        let paths: BTreeSet<&[Step]> = wanted.iter().map(|(_, path)| *path).collect();
        let is_prefix = |path: &[Step]| {
            let next = paths.range::<[Step], _>((Bound::Excluded(path), Bound::Unbounded)).next();
            next.is_some_and(|next| next.starts_with(path))
        };
        let mut root = Branch::default();
        for (target, path) in wanted.iter().filter(|(_, path)| !is_prefix(path)) {
            root.insert(path, *target);
        }
        // Lines found before a fault in the text are good; those after it stay unknown.
        let _ = read(text, Locator { branch: &root, lines: &mut lines });
        for (_, path) in
            wanted.iter_mut().filter(|(target, path)| lines[*target].is_none() && !is_prefix(path))
        {
            *path = path.split_last().map_or(&[][..], |(_, holder)| holder);
        }
        wanted.retain(|(target, _)| lines[*target].is_none());
        if wanted.is_empty() {
            break;
        }
    }
    lines
}

/// Wanted paths, by their first step. A branch has either targets or children.
#[derive(Default)]
struct Branch {
    targets: Vec<usize>,
    children: BTreeMap<Step, Branch>,
}

impl Branch {
    fn insert(&mut self, path: &[Step], target: usize) {
        match path.split_first() {
            None => self.targets.push(target),
            Some((step, rest)) => self.children.entry(step.clone()).or_default().insert(rest, target),
        }
    }
}

struct Locator<'a> {
    branch: &'a Branch,
    lines: &'a mut Vec<Option<u64>>,
}

impl<'de> DeserializeSeed<'de> for Locator<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.branch.children.is_empty() {
            let spanned = serde_saphyr::Spanned::<IgnoredAny>::deserialize(deserializer)?;
            for target in &self.branch.targets {
                self.lines[*target] = Some(spanned.referenced.line());
            }
            return Ok(());
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Locator<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        while let Some(Key(key)) = access.next_key()? {
            match self.branch.children.get(&Step::Key(key.into_owned())) {
                Some(branch) => access.next_value_seed(Locator { branch, lines: &mut *self.lines })?,
                None => {
                    access.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        let mut index = 0;
        loop {
            let more = match self.branch.children.get(&Step::Index(index)) {
                Some(branch) => {
                    access.next_element_seed(Locator { branch, lines: &mut *self.lines })?.is_some()
                }
                None => access.next_element::<IgnoredAny>()?.is_some(),
            };
            if !more {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(path: &[&str]) -> Vec<Step> {
        let step = |s: &&str| s.parse().map_or_else(|_| Step::Key((*s).to_owned()), Step::Index);
        path.iter().map(step).collect()
    }

    #[test]
    fn lines_of_paths_are_found() {
        let text = "# comment\na: 1\nitems:\n- x: 1\n- x: 2\n  y:\n    z: [1,\n     2]\nlast: ~\n";
        let paths = [
            steps(&["a"]),
            steps(&["items", "1", "y", "z", "1"]),
            steps(&["items", "1"]),
            steps(&["items", "7"]),
            steps(&["last"]),
            steps(&["a", "b"]),
        ];
        assert_eq!(locate(text, &paths), [Some(2), Some(8), Some(5), Some(4), Some(9), Some(2)]);
        assert_eq!(locate(text, &[steps(&["items", "1"])]), [Some(5)]);
        assert_eq!(locate("a: 1\nb: [\n", &[steps(&["a"]), steps(&["b", "0"])]), [Some(1), None]);
    }
}
