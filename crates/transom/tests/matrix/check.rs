//! Whether an exchange ended as it must: by whom it was answered, whom the backend saw, and how it ended if nobody
//! was to answer. It does not know whether the packets were real.

use std::net::SocketAddr;

use node::app::Outcome;

use crate::ask::Ask;
use crate::expect::{Decider, Expected, Sees, Why};

/// How an exchange ended: who answered and whom it saw.
pub(crate) struct Seen {
    pub(crate) outcome: Outcome,
    /// The client's end.
    pub(crate) from: Option<SocketAddr>,
    /// What was asked.
    pub(crate) to: SocketAddr,
    /// The second answer to the same client.
    pub(crate) again: Option<Outcome>,
}

/// What is wrong with what was seen.
pub(crate) fn problem(ask: &Ask, expected: &Expected, seen: &Seen) -> Option<String> {
    match (expected, &seen.outcome) {
        (Expected::Answer(backends), Outcome::Answered(answer)) => {
            // A VIP that was preserved tells nothing of the backend; its name does.
            let preserved = ask.preserve && answer.local == seen.to;
            let Some(wanted) =
                backends.get(&answer.local).or_else(|| backends.values().next().filter(|_| preserved))
            else {
                return Some(format!("answered at {}, which is none of {:?}", answer.local, backends.keys()));
            };
            let kept = seen.from == Some(answer.peer);
            let own = seen.from.is_some_and(|from| from.ip() == answer.peer.ip());
            if *wanted == Sees::Client && !kept {
                return Some(format!("the backend sees {}, not the client {:?}", answer.peer, seen.from));
            }
            if *wanted == Sees::Node && own {
                return Some(format!("the backend sees the client {}, not a node", answer.peer));
            }
            let moved = |again: &Outcome| again.answer().map(|answer| &answer.server) != Some(&answer.server);
            seen.again
                .as_ref()
                .filter(|again| moved(again))
                .map(|again| format!("{} answered, then with affinity: {again}", answer.server))
        }
        (Expected::Answer(backends), other) => {
            Some(format!("{other}, but one of {:?} must answer", backends.keys()))
        }
        (Expected::Nothing(why, _), Outcome::Answered(answer)) => {
            Some(format!("answered by {} although {}", answer.server, why.text()))
        }
        (Expected::Nothing(why, decider), outcome) => {
            let ends = ends(*why, decider);
            (!ends(outcome)).then(|| format!("{outcome} is not how it ends when {}", why.text()))
        }
    }
}

/// How an exchange may end that nobody is to answer.
fn ends(why: Why, decider: &Decider) -> fn(&Outcome) -> bool {
    match (decider, why) {
        // kube-proxy rejects without a backend, and drops what a policy forbids.
        (Decider::Linux(_), Why::NoBackend) => |outcome| *outcome == Outcome::Refused,
        (Decider::Linux(_), _) => |outcome| *outcome == Outcome::TimedOut,
        // Nobody listens on the node's own port.
        (_, Why::OwnNodePort) => |outcome| *outcome == Outcome::Refused,
        // The packet leaves as it is: the underlay has no route, or nobody there listens.
        _ => |outcome| matches!(outcome, Outcome::Unreachable(_) | Outcome::Refused | Outcome::TimedOut),
    }
}
