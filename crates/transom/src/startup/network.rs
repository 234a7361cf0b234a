//! Which of the HNS networks is meant: a name, or a regular expression as Calico's `KUBE_NETWORK=Calico.*`.
//!
//! Pure: names in, a decision out.

use regex::Regex;
use thiserror::Error;

/// What `--network-name` and `KUBE_NETWORK` say.
///
/// * A text is a **name** unless it holds one of `* + ? ( ) [ ] { } | ^ $ \`. A dot alone makes no pattern: networks
///   are called `flannel.4096`.
/// * A **pattern** must match the *whole* name, as if it stood between `^(?:` and `)$`: `Calico.*` means `Calico` and
///   `Calico-10-0-1-0`, and not `Not-Calico`. Whoever wants a part of the name writes `.*` on both sides. Case counts,
///   as it does where HNS is asked for a name; `(?i)` in front lifts that.
/// * A network whose name *is* the text is meant before any that the pattern matches.
#[derive(Clone, Debug)]
pub struct NetworkPattern {
    text: String,
    pattern: Option<Regex>,
}

/// A text that is neither a name nor a regular expression.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{text:?} is neither the name of a network nor a regular expression: {why}; give a name such as Calico, or a pattern such as Calico.*"
)]
pub struct PatternError {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub why: String,
}

/// What names of networks say about a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// One network is meant.
    Found(String),
    /// None is, or none yet.
    Missing,
    /// Several are, in alphabetical order: somebody must say which.
    Ambiguous(Vec<String>),
}

impl NetworkPattern {
    /// Reads a name or pattern.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let text = text.trim();
        let error = |why: String| PatternError { text: text.to_owned(), why };
        if text.is_empty() {
            return Err(error("it is blank".to_owned()));
        }
        let pattern = if text.contains(['*', '+', '?', '(', ')', '[', ']', '{', '}', '|', '^', '$', '\\']) {
            // Alone first, so that `a)(b` is not made whole by the brackets around it.
            Regex::new(text).map_err(|found| error(reason(&found)))?;
            Some(Regex::new(&format!("^(?:{text})$")).map_err(|found| error(reason(&found)))?)
        } else {
            None
        };
        Ok(Self { text: text.to_owned(), pattern })
    }

    /// The text that it was read from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is a name and no pattern.
    pub const fn is_exact(&self) -> bool {
        self.pattern.is_none()
    }

    /// Which of these networks is meant. HNS lets two networks have one name: that is one answer.
    pub fn resolve<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Resolution {
        let mut matching: Vec<&str> = Vec::new();
        for name in names {
            if name == self.text {
                return Resolution::Found(name.to_owned());
            }
            if self.pattern.as_ref().is_some_and(|pattern| pattern.is_match(name)) {
                matching.push(name);
            }
        }
        matching.sort_unstable();
        matching.dedup();
        match matching[..] {
            [] => Resolution::Missing,
            [only] => Resolution::Found(only.to_owned()),
            _ => Resolution::Ambiguous(matching.into_iter().map(str::to_owned).collect()),
        }
    }
}

/// The last line of the parser's report says what is wrong; the ones before it draw where.
fn reason(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default().trim();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}
