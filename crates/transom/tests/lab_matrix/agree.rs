//! Whether the same exchange ended in the same way in memory and with real packets.

use std::fmt;

use node::app::Outcome;

use crate::check::Seen;

/// How an exchange ends for a client that knows nothing of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Somebody answered.
    Answered,
    /// Somebody said that nobody listens.
    Refused,
    /// Nobody said anything, or somebody that there is no way: which of the two depends on how long a client waits for
    /// its neighbour's MAC.
    Silent,
    /// The connection was there and broke.
    Broken,
}

impl Kind {
    pub(crate) fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Answered(_) => Self::Answered,
            Outcome::Refused => Self::Refused,
            Outcome::Unreachable(_) | Outcome::TimedOut => Self::Silent,
            Outcome::Reset | Outcome::Garbled(_) => Self::Broken,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::Silent => "silent",
            Self::Broken => "broken",
        })
    }
}

/// How the two differ.
pub(crate) fn difference(memory: &Seen, real: &Seen) -> Option<String> {
    if Kind::of(&memory.outcome) != Kind::of(&real.outcome) {
        return Some(format!("{}, in memory: {}", real.outcome, memory.outcome));
    }
    let (memory, real) = (memory.outcome.answer()?, real.outcome.answer()?);
    // Several may answer. The same one has the same name and sees the same client's address.
    if memory.local != real.local {
        return None;
    }
    if memory.server != real.server {
        return Some(format!("{} is called {}, in memory {}", real.local, real.server, memory.server));
    }
    (memory.peer.ip() != real.peer.ip())
        .then(|| format!("{} sees {}, in memory {}", real.server, real.peer.ip(), memory.peer.ip()))
}
