//! `transom trace`: one exchange through the emulated cluster, hop by hop, both ways, and why it ended as it did.

mod diagnose;
mod headers;
mod report;
pub(super) mod surroundings;
mod text;

use node::app::Outcome;

pub use self::diagnose::{Failed, Kind, Reason};
pub use self::report::RuleName;
use self::report::{Backend, Report, Verdict, hops, word};
use super::render;
use super::simulated::Simulated;
use crate::cli::Output;
use crate::cli::traffic::{Flow, Protocol, TraceCommand};
use crate::exit::Exit;
use crate::world::World;
use crate::world::journey::Role;
use crate::world::record::Recorder;

pub(super) fn run(command: &TraceCommand) -> anyhow::Result<Exit> {
    let mut simulated = Simulated::open(&command.input, &command.node, &command.simulation)?;
    let flow = Flow { from: command.from.clone(), to: command.to.clone(), protocol: command.proto };
    let network = (simulated.plan.settings.kind.to_string(), simulated.plan.dsr);
    let (client, request) = simulated.request(&flow)?;
    let report = follow(&mut simulated.world, network, &flow, &client, request, command.all)?;
    let text = match command.output.output {
        Output::Text => text::text(&report),
        form => render::document(&report, form)?,
    };
    render::print(&text)?;
    Ok(if report.verdict.answered { simulated.exit } else { simulated.exit.and(Exit::Failure) })
}

/// Runs an exchange and tells its story.
fn follow(
    world: &mut World,
    (network, dsr): (String, bool),
    flow: &Flow,
    client: &node::sim::Client,
    request: node::app::Request,
    all: bool,
) -> anyhow::Result<Report> {
    let recorder = Recorder::default();
    recorder.attach(&mut world.simulation);
    let (target, transport) = (request.to, request.transport);
    let exchange = world.simulation.exchange(client, request)?;
    let journey = recorder.journey(&world.simulation);
    let answer = exchange.outcome.answer();
    let failed = Failed { client, target, transport, outcome: &exchange.outcome, journey: &journey };
    Ok(Report {
        from: client.to_string(),
        to: flow.to.to_string(),
        protocol: match flow.protocol {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
        },
        network,
        dsr,
        client: exchange.from,
        target,
        request: hops(&journey, Role::Request, all),
        reply: hops(&journey, Role::Reply, all),
        refusal: hops(&journey, Role::Refusal, all),
        backend: answer.map(|answer| Backend {
            name: answer.server.clone(),
            address: answer.local,
            sees: answer.peer,
            sees_client: exchange.from == Some(answer.peer),
        }),
        verdict: Verdict {
            answered: matches!(exchange.outcome, Outcome::Answered(_)),
            outcome: word(&exchange.outcome),
            microseconds: u64::try_from(exchange.took.as_micros()).unwrap_or(u64::MAX),
            reason: answer.is_none().then(|| failed.reason(world)),
        },
    })
}

#[cfg(test)]
mod tests;
