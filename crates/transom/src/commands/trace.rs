//! `transom trace`: one exchange through the emulated cluster, hop by hop, both ways, and why it ended as it did.

use std::fmt::Write as _;
use std::net::SocketAddr;

use node::app::Outcome;
use serde::Serialize;
use vfp::View;
use vfp::trace::{LayerEvent, Why};

use super::render;
use super::simulated::Simulated;
use crate::cli::Output;
use crate::cli::traffic::{Flow, Protocol, TraceCommand};
use crate::exit::Exit;
use crate::world::World;
use crate::world::record::{Crossing, Journey, Passage, Recorder, Role, Step};

pub(super) fn run(command: &TraceCommand) -> anyhow::Result<Exit> {
    let mut simulated = Simulated::open(&command.input, &command.node, &command.simulation)?;
    let flow = Flow { from: command.from.clone(), to: command.to.clone(), protocol: command.proto };
    let recorder = Recorder::default();
    let (client, request) = simulated.request(&flow)?;
    recorder.attach(&mut simulated.world.simulation);
    let target = request.to;
    let exchange = simulated.world.simulation.exchange(&client, request)?;
    let journey = recorder.journey(&simulated.world.simulation);
    let answered = matches!(exchange.outcome, Outcome::Answered(_));
    let report = Report {
        from: client.to_string(),
        client: exchange.from,
        to: target,
        protocol: match flow.protocol {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
        },
        network: simulated.plan.settings.kind.to_string(),
        dsr: simulated.plan.dsr,
        request: hops(&journey, Role::Request, command.all),
        reply: hops(&journey, Role::Reply, command.all),
        refusal: hops(&journey, Role::Refusal, false),
        backend: exchange.outcome.answer().map(|answer| Backend {
            name: answer.server.clone(),
            address: answer.local,
            sees: answer.peer,
        }),
        milliseconds: exchange.took.as_secs_f64() * 1000.0,
        outcome: exchange.outcome.to_string(),
        reason: (!answered)
            .then(|| diagnose(&simulated.world, &journey, &exchange.outcome, target, flow.protocol)),
    };
    let text = match command.output.output {
        Output::Text => report.text(),
        form => render::document(&report, form)?,
    };
    render::print(&text)?;
    Ok(if answered { simulated.exit } else { simulated.exit.and(Exit::Failure) })
}

/// A whole exchange.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    from: String,
    client: Option<SocketAddr>,
    to: SocketAddr,
    protocol: &'static str,
    network: String,
    dsr: bool,
    /// The first packet's way.
    request: Vec<Hop>,
    /// The answer's way.
    reply: Vec<Hop>,
    /// The way of a reset or an ICMP error.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refusal: Vec<Hop>,
    backend: Option<Backend>,
    milliseconds: f64,
    outcome: String,
    /// Why there was no answer.
    reason: Option<String>,
}

/// Who answered.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Backend {
    name: String,
    address: SocketAddr,
    sees: SocketAddr,
}

/// One step of a packet.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Hop {
    /// `port` or `wire`.
    kind: &'static str,
    /// The machine.
    node: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<String>,
    /// The packet as it came.
    packet: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    layers: Vec<LayerHop>,
    /// What the port did with the headers, all layers together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rewrites: Vec<String>,
    /// Where it goes.
    next: String,
}

/// What a layer did.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct LayerHop {
    layer: String,
    group: Option<String>,
    rule: Option<String>,
    action: Option<&'static str>,
    /// The decision was kept with the connection.
    from_flow: bool,
    rewrites: Vec<String>,
    dropped: Option<String>,
}

fn hops(journey: &Journey, role: Role, all: bool) -> Vec<Hop> {
    let steps: Vec<&Step> = if all {
        journey
            .steps
            .iter()
            .filter(|(of, _)| *of == role || *of == Role::Other && role == Role::Request)
            .map(|(_, step)| step)
            .collect()
    } else {
        journey.first(role)
    };
    steps
        .into_iter()
        .map(|step| match step {
            Step::Port(passage) => at_port(passage),
            Step::Wire(crossing) => on_wire(crossing),
        })
        .collect()
}

fn on_wire(crossing: &Crossing) -> Hop {
    Hop {
        kind: "wire",
        node: crossing.from.clone(),
        port: None,
        direction: None,
        packet: wire::describe(&crossing.frame),
        layers: Vec::new(),
        rewrites: Vec::new(),
        next: match &crossing.lost {
            Some(reason) => format!("lost: {reason}"),
            None => "sent".to_owned(),
        },
    }
}

fn at_port(passage: &Passage) -> Hop {
    let layers: Vec<LayerHop> = passage.layers.iter().map(layer_hop).collect();
    let rewrites = match (passage.layers.first(), passage.layers.last()) {
        (Some(first), Some(last)) => differences(&first.before, &last.after),
        _ => Vec::new(),
    };
    Hop {
        kind: "port",
        node: passage.node.clone(),
        port: Some(passage.port.clone()),
        direction: Some(passage.direction.to_string()),
        packet: wire::describe(&passage.before),
        layers,
        rewrites,
        next: next(passage),
    }
}

fn next(passage: &Passage) -> String {
    if let Some((reason, rule)) = &passage.dropped {
        let by = rule.as_ref().map(|rule| format!(" by rule {}", rule.rule)).unwrap_or_default();
        return format!("dropped{by}: {reason}: {}", reason.explain());
    }
    if passage.hairpin {
        return "sent back".to_owned();
    }
    match &passage.forward {
        Some((Some(to), why)) => {
            let why = match why {
                Why::Mac => "it has the destination MAC",
                Why::NatOwner => "it owns the NAT port",
                Why::Unknown => "nobody here has the destination MAC",
                Why::Flood => "broadcast",
                Why::Hairpin => "a rule says so",
            };
            format!("to {to}: {why}")
        }
        Some((None, _)) => "to several ports".to_owned(),
        None => "delivered".to_owned(),
    }
}

fn layer_hop(event: &LayerEvent) -> LayerHop {
    LayerHop {
        layer: event.layer.to_string(),
        group: event.rule.as_ref().map(|rule| rule.group.to_string()),
        rule: event.rule.as_ref().map(|rule| rule.rule.to_string()),
        action: event.rule.as_ref().map(|rule| rule.action),
        from_flow: event.from_flow,
        rewrites: differences(&event.before, &event.after),
        dropped: event.dropped.map(|reason| reason.to_string()),
    }
}

/// What is different between two sets of headers, a line each.
fn differences(before: &View, after: &View) -> Vec<String> {
    let mut lines = Vec::new();
    let mut field = |name: &str, old: String, new: String| {
        if old != new {
            lines.push(format!("{name} {old} → {new}"));
        }
    };
    field("source MAC", before.source_mac.to_string(), after.source_mac.to_string());
    field("destination MAC", before.destination_mac.to_string(), after.destination_mac.to_string());
    let end = |address, port| SocketAddr::new(address, port).to_string();
    field("source", end(before.source, before.source_port), end(after.source, after.source_port));
    field(
        "destination",
        end(before.destination, before.destination_port),
        end(after.destination, after.destination_port),
    );
    field("VLAN", before.vlan.to_string(), after.vlan.to_string());
    field(
        "TTL",
        "0".to_owned(),
        if after.ttl_decrements > before.ttl_decrements { "-1".to_owned() } else { "0".to_owned() },
    );
    match (&before.outer, &after.outer) {
        (None, Some(outer)) => lines.push(format!(
            "VXLAN header on: {} > {} vni {}, {} > {}",
            outer.source, outer.destination, outer.vni, outer.source_mac, outer.destination_mac
        )),
        (Some(outer), None) => lines.push(format!("VXLAN header off: vni {}", outer.vni)),
        (Some(old), Some(new)) if old != new => {
            lines.push(format!("outer MACs {} > {}", new.source_mac, new.destination_mac));
        }
        _ => {}
    }
    lines
}

/// Why there was no answer: the rule that dropped a packet, the object that is missing, or where it was last seen.
fn diagnose(
    world: &World,
    journey: &Journey,
    outcome: &Outcome,
    target: SocketAddr,
    protocol: Protocol,
) -> String {
    if let Some(passage) = journey.drop()
        && let Some((reason, rule)) = &passage.dropped
    {
        let by = match rule {
            Some(rule) => format!("rule {} of {}/{}", rule.rule, rule.layer, rule.group),
            None => "no rule".to_owned(),
        };
        return format!(
            "dropped on node {}, port {}, {}: {reason} ({}); by {by}",
            passage.node,
            passage.port,
            passage.direction,
            reason.explain()
        );
    }
    if let Some(missing) = world.missing(target, protocol)
        && !journey.decided_by("lbnat")
        && !journey.decided_by("nat")
    {
        return missing;
    }
    let lost = journey.steps.iter().find_map(|(_, step)| match step {
        Step::Wire(crossing) => Some((crossing, crossing.lost.as_ref()?)),
        Step::Port(_) => None,
    });
    if let Some((crossing, reason)) = lost {
        return format!("lost on the wire behind {}: {reason}", crossing.from);
    }
    match (outcome, journey.first(Role::Refusal).first()) {
        (Outcome::Refused | Outcome::Reset, Some(step)) => format!("refused by {}", place(step)),
        (Outcome::Refused, None) => {
            "refused by the client's own machine: the address is its own, and nobody \
            listens on the port"
                .to_owned()
        }
        (Outcome::Unreachable(why), _) => why.to_string(),
        _ => match journey.steps.last() {
            Some((_, step)) => format!("last seen at {}", place(step)),
            None => "no packet left the client".to_owned(),
        },
    }
}

fn place(step: &Step) -> String {
    match step {
        Step::Port(passage) => format!("node {}, port {}, {}", passage.node, passage.port, passage.direction),
        Step::Wire(crossing) => format!("the wire behind {}", crossing.from),
    }
}

impl Report {
    fn text(&self) -> String {
        let mut out = String::new();
        let dsr = if self.dsr { ", DSR" } else { "" };
        let client = self.client.map(|client| format!(" ({client})")).unwrap_or_default();
        let _ =
            writeln!(out, "{} {}{client} to {} on {}{dsr}", self.protocol, self.from, self.to, self.network);
        for (title, hops) in [("Request", &self.request), ("Reply", &self.reply), ("Refusal", &self.refusal)]
        {
            if hops.is_empty() {
                continue;
            }
            let _ = writeln!(out, "\n{title}");
            for (number, hop) in hops.iter().enumerate() {
                hop.text(number + 1, &mut out);
            }
        }
        out.push('\n');
        if let Some(backend) = &self.backend {
            let _ = writeln!(
                out,
                "Backend {} at {} sees the client as {}.",
                backend.name, backend.address, backend.sees
            );
        }
        let _ = match &self.reason {
            None => writeln!(out, "Verdict: answered after {:.3} ms.", self.milliseconds),
            Some(reason) => writeln!(out, "Verdict: {}: {reason}.", self.outcome),
        };
        out
    }
}

impl Hop {
    fn text(&self, number: usize, out: &mut String) {
        let place = match (&self.port, &self.direction) {
            (Some(port), Some(direction)) => format!("{} {port} {direction}", self.node),
            _ => format!("{} wire", self.node),
        };
        let _ = writeln!(out, "{number:3}  {place}");
        let _ = writeln!(out, "     {}", self.packet);
        for layer in &self.layers {
            let kept = if layer.from_flow { " (kept)" } else { "" };
            match (&layer.rule, &layer.action) {
                (Some(rule), Some(action)) => {
                    let _ = writeln!(out, "       {}: {action} {rule}{kept}", layer.layer);
                }
                _ if layer.from_flow => {
                    let _ = writeln!(out, "       {}: kept with the connection", layer.layer);
                }
                _ => {
                    let _ = writeln!(out, "       {}: no rule matches", layer.layer);
                }
            }
            for line in &layer.rewrites {
                let _ = writeln!(out, "         {line}");
            }
        }
        let _ = writeln!(out, "     → {}", self.next);
    }
}
