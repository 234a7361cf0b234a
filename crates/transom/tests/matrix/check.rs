//! Whether an exchange ended as it must: by whom it was answered, whom the backend saw, and how it ended if nobody
//! was to answer.

use node::app::{Outcome, Transport};
use node::sim::Client;
use transom::commands::trace::{Failed, Kind};
use transom::world::World;
use transom::world::record::{Role, Step};

use crate::Seen;
use crate::ask::Ask;
use crate::expect::{self, Decider, Expected, Sees, Why};

/// What is wrong with what was seen.
pub(crate) fn problem(
    world: &mut World,
    client: &Client,
    ask: &Ask,
    expected: &Expected,
    seen: &Seen,
) -> Option<String> {
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
            if !ends(outcome) {
                return Some(format!("{outcome} is not how it ends when {}", why.text()));
            }
            unexplained(world, client, ask, (*why, decider), seen)
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

/// Whether the packets went as far as the reason says, and whether the reason that is told is the right one.
fn unexplained(
    world: &mut World,
    client: &Client,
    ask: &Ask,
    (why, decider): (Why, &Decider),
    seen: &Seen,
) -> Option<String> {
    let crossed = |by: &str, role: Role| {
        seen.journey.steps.iter().any(|(of, step)| match step {
            Step::Wire(crossing) => *of == role && crossing.from == by,
            Step::Port(_) | Step::Unseen(_) => false,
        })
    };
    let transport = if ask.udp { Transport::Udp } else { Transport::Tcp };
    let (outcome, journey) = (&seen.outcome, &seen.journey);
    let told = Failed { client, target: ask.to, transport, outcome, journey }.reason(world);
    let text = |right: bool, wrong: &str| (!right).then(|| format!("{wrong}; told: {told:?}"));
    match decider {
        Decider::Nobody => text(
            crossed("router", Role::Refusal) && seen.outcome != Outcome::Refused,
            "the router of the underlay has to say that it has no route",
        ),
        Decider::Linux(node) => {
            let elsewhere =
                *client == Client::Outside || expect::node_of(world, client).as_ref() != Some(node);
            let refused = seen.outcome == Outcome::Refused;
            text(!crossed(node, Role::Request), "the node sent the request on").or_else(|| {
                text(!elsewhere || crossed(node, Role::Refusal) == refused, "the node itself has to refuse")
            })
        }
        Decider::Windows(_) if why == Why::OwnNodePort => {
            text(seen.journey.steps.is_empty(), "the request left the node's stack")
                .or_else(|| text(told.kind == Kind::OwnNodePort, "another reason is told"))
        }
        Decider::Windows(_) => {
            let right = match why {
                Why::NoBackend => told.kind == Kind::NoBackend,
                _ => told.kind == Kind::NoLocalBackend,
            };
            let dropped = seen.journey.drop().is_some();
            text(!seen.journey.decided_by("lbnat"), "a load balancer acted").or_else(|| {
                text(
                    dropped || right && told.service.as_deref() == Some(&*ask.service),
                    "another reason is told",
                )
            })
        }
    }
}
