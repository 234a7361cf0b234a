//! Faults of single fields, as they are found while an object becomes a record.

use std::fmt;

use crate::condition::ConditionKind;

/// How many faults of one object are kept; the rest is counted. An object may have thousands of endpoints, all
/// wrong in the same way.
const KEPT: usize = 20;

/// A field whose value cannot be used, so it was left out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The kind of condition that reports it.
    pub kind: ConditionKind,
    /// Path of the field, such as `spec.ports[0].port`.
    pub field: Box<str>,
    /// What is wrong with it, as the rest of a sentence that starts with the field.
    pub message: Box<str>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.field, self.message)
    }
}

/// Collects faults of one object.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    kept: Vec<Fault>,
    more: usize,
}

impl Faults {
    /// Notes a fault. The message continues the sentence that the field starts.
    pub(crate) fn push(&mut self, kind: ConditionKind, field: impl Into<String>, message: impl Into<String>) {
        if self.kept.len() < KEPT {
            let (field, message): (String, String) = (field.into(), message.into());
            self.kept.push(Fault { kind, field: field.into(), message: message.into() });
        } else {
            self.more += 1;
        }
    }

    /// Notes a value that is not one of those a field may have.
    pub(crate) fn unknown_value(&mut self, field: impl Into<String>, value: &str, right: &str) {
        self.push(ConditionKind::InvalidValue, field, format!("{value:?} is unknown; {right}"));
    }

    /// The faults, with a last one that counts those not kept.
    pub(crate) fn finish(mut self) -> Box<[Fault]> {
        if self.more > 0 {
            let kind = self.kept.last().map_or(ConditionKind::InvalidValue, |f| f.kind);
            let message = format!("has {} more faults that are not listed", self.more);
            self.kept.push(Fault { kind, field: "object".into(), message: message.into() });
        }
        self.kept.into_boxed_slice()
    }
}
