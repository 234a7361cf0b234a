//! Whether the packets in memory explain why nobody answered, and whether users are told so.

use node::app::{Outcome, Transport};
use node::sim::Client;
use transom::commands::trace::{Failed, Kind};
use transom::world::World;
use transom::world::record::{Journey, Role, Step};

use crate::ask::Ask;
use crate::check::Seen;
use crate::expect::{self, Decider, Expected, Why};

/// Whether the packets of an exchange that nobody was to answer went as far as the reason says, and whether the reason
/// that is told is the right one.
pub(crate) fn problem(
    world: &mut World,
    client: &Client,
    ask: &Ask,
    expected: &Expected,
    seen: &Seen,
    journey: &Journey,
) -> Option<String> {
    let Expected::Nothing(why, decider) = expected else { return None };
    let crossed = |by: &str, role: Role| {
        journey.steps.iter().any(|(of, step)| match step {
            Step::Wire(crossing) => *of == role && crossing.from == by,
            Step::Port(_) | Step::Unseen(_) => false,
        })
    };
    let transport = if ask.udp { Transport::Udp } else { Transport::Tcp };
    let outcome = &seen.outcome;
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
        Decider::Windows(_) if *why == Why::OwnNodePort => {
            text(journey.steps.is_empty(), "the request left the node's stack")
                .or_else(|| text(told.kind == Kind::OwnNodePort, "another reason is told"))
        }
        Decider::Windows(_) => {
            let right = match why {
                Why::NoBackend => told.kind == Kind::NoBackend,
                _ => told.kind == Kind::NoLocalBackend,
            };
            let dropped = journey.drop().is_some();
            text(!journey.decided_by("lbnat"), "a load balancer acted").or_else(|| {
                text(
                    dropped || right && told.service.as_deref() == Some(&*ask.service),
                    "another reason is told",
                )
            })
        }
    }
}
