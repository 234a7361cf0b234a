//! `transom trace`: one exchange through the emulated cluster or a lab, hop by hop, both ways, and why it ended as it did.

mod diagnose;
mod headers;
mod report;
pub(super) mod surroundings;
mod text;

use node::app::{Exchange, Outcome};

pub use self::diagnose::{Failed, Kind, Reason};
pub(super) use self::report::Report;
pub use self::report::RuleName;
use self::report::{Backend, Verdict, hops, word};
use self::surroundings::Surroundings;
use super::lab;
use super::render;
use super::simulated::Simulated;
use crate::cli::Output;
use crate::cli::traffic::{Flow, Protocol, TraceCommand};
use crate::exit::Exit;
use crate::world::World;
use crate::world::journey::{Journey, Role};
use crate::world::record::Recorder;

pub(super) fn run(command: &TraceCommand) -> anyhow::Result<Exit> {
    let (flow, all) = (command.exchange.flow(), command.exchange.all);
    if let Some(lab) = &command.input.lab {
        let node = command.input.common.node.as_deref();
        return lab::trace(lab, node, &flow, all, command.output.output);
    }
    let mut simulated = Simulated::open(&command.input, &command.node, &command.simulation)?;
    let network = (simulated.plan.settings.kind.to_string(), simulated.plan.dsr);
    let (client, request) = simulated.request(&flow)?;
    let report = follow(&mut simulated.world, network, &flow, &client, request, all)?;
    let answered = show(&report, command.output.output)?;
    Ok(if answered { simulated.exit } else { simulated.exit.and(Exit::Failure) })
}

/// Prints a report. Tells whether the request was answered.
pub(super) fn show(report: &Report, form: Output) -> anyhow::Result<bool> {
    let text = match form {
        Output::Text => text::text(report),
        form => render::document(report, form)?,
    };
    render::print(&text)?;
    Ok(report.verdict.answered)
}

/// Runs an exchange in memory and tells its story.
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
    let exchange = world.simulation.exchange(client, request)?;
    let journey = recorder.journey(&world.simulation);
    Ok(Told { network, dsr, flow, client, exchange: &exchange, journey: &journey, all }.report(world))
}

/// An exchange that has ended, and all that is known of its packets.
pub(super) struct Told<'a> {
    /// `overlay` or `l2bridge`.
    pub(super) network: String,
    pub(super) dsr: bool,
    pub(super) flow: &'a Flow,
    pub(super) client: &'a node::sim::Client,
    pub(super) exchange: &'a Exchange,
    pub(super) journey: &'a Journey,
    /// Every packet is told, not the first each way.
    pub(super) all: bool,
}

impl Told<'_> {
    /// Its story.
    pub(super) fn report(self, world: &mut impl Surroundings) -> Report {
        let (exchange, journey) = (self.exchange, self.journey);
        let (target, transport) = (exchange.request.to, exchange.request.transport);
        let answer = exchange.outcome.answer();
        let failed = Failed { client: self.client, target, transport, outcome: &exchange.outcome, journey };
        Report {
            from: self.client.to_string(),
            to: self.flow.to.to_string(),
            protocol: match self.flow.protocol {
                Protocol::Tcp => "TCP",
                Protocol::Udp => "UDP",
            },
            network: self.network,
            dsr: self.dsr,
            client: exchange.from,
            target,
            request: hops(journey, Role::Request, self.all),
            reply: hops(journey, Role::Reply, self.all),
            refusal: hops(journey, Role::Refusal, self.all),
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
        }
    }
}

#[cfg(test)]
mod tests;
