//! Whether an exchange ended as it must: by whom it was answered, whom the backend saw, and how it ended if nobody
//! was to answer.

use node::app::Outcome;
use node::sim::Client;
use transom::cli::traffic::Protocol;
use transom::world::World;

use crate::Seen;
use crate::ask::Ask;
use crate::expect::{Decider, Expected, Sees, Why};

/// What is wrong with what was seen.
pub(crate) fn problem(
    world: &World,
    client: &Client,
    ask: &Ask,
    expected: &Expected,
    seen: &Seen,
) -> Option<String> {
    match (expected, &seen.outcome) {
        (Expected::Answer(backends), Outcome::Answered(answer)) => {
            // A VIP that was preserved tells nothing of the backend; its name does.
            let preserved = ask.preserve && answer.local == seen.to;
            let Some(sees) =
                backends.get(&answer.local).or_else(|| backends.values().next().filter(|_| preserved))
            else {
                return Some(format!("answered at {}, which is none of {:?}", answer.local, backends.keys()));
            };
            let kept = seen.from == Some(answer.peer);
            let own = seen.from.is_some_and(|from| from.ip() == answer.peer.ip());
            if *sees == Sees::Client && !kept {
                return Some(format!("the backend sees {}, not the client {:?}", answer.peer, seen.from));
            }
            if *sees == Sees::Node && own {
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
            if !ends(outcome) {
                return Some(format!("{outcome} is not how it ends when {}", why.text()));
            }
            unexplained(world, client, ask, *why)
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

/// What `trace` would have to say and does not.
fn unexplained(world: &World, _: &Client, ask: &Ask, why: Why) -> Option<String> {
    let protocol = if ask.udp { Protocol::Udp } else { Protocol::Tcp };
    let Some(text) = world.missing(ask.to, protocol) else {
        return Some(format!("nothing tells which Service {} belongs to", ask.to));
    };
    let names = text.contains(&format!("Service {},", ask.service));
    let tells = why != Why::NoBackend || text.contains("no usable backend");
    (!names || !tells).then(|| format!("the reason that is told is another: {text}"))
}
