//! What is wrong with a configuration, in a form that says where, what, and what would be right.
//!
//! It must not know the rules.

use std::fmt;

use thiserror::Error;

/// Where a setting is said, so that an operator finds it whichever way is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// The field's path as kube-proxy names it in messages, such as `KubeProxyConfiguration.SyncPeriod`.
    pub path: &'static str,
    /// The field in a file, such as `iptables.syncPeriod`.
    pub key: &'static str,
    /// The flag without its dashes; blank where there is none.
    pub flag: &'static str,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct Problem {
    /// The place.
    pub place: Place,
    /// The element within a list or map field; blank elsewhere.
    pub part: String,
    /// The value that is wrong.
    pub value: String,
    /// What is wrong with it and what would be right.
    pub wrong: String,
}

impl Place {
    /// A problem with the value here.
    pub(crate) fn problem(self, value: impl fmt::Display, wrong: impl Into<String>) -> Problem {
        Problem { place: self, part: String::new(), value: value.to_string(), wrong: wrong.into() }
    }

    /// A problem with one element of the value here.
    pub(crate) fn problem_in(
        self,
        part: impl fmt::Display,
        value: impl fmt::Display,
        wrong: impl Into<String>,
    ) -> Problem {
        Problem { part: format!("[{part}]"), ..self.problem(value, wrong) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, part, value, wrong } = self;
        write!(f, "{}{part}: {value:?}: {wrong} ({} in a file", place.path, place.key)?;
        if !place.flag.is_empty() {
            write!(f, ", --{} as a flag", place.flag)?;
        }
        f.write_str(")")
    }
}

/// All that is wrong with a configuration, a line each.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", lines(.0))]
pub struct Problems(pub Vec<Problem>);

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
