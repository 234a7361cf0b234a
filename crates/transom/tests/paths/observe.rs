//! Runs the cases of a file in one emulated cluster and writes down what was seen.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use node::app::{Outcome, Request, Transport};
use node::sim::Client;
use services::source::manifests::{Input, Manifests, Options, Touched};
use transom::cli::traffic::{Destination, Flow, Origin, Protocol};
use transom::world::record::{Journey, Recorder, Role, Step};
use transom::world::{Plan, World};

use crate::cases::{Case, CaseFile, Expected};
use crate::names::{Names, Ports};

/// A server outside, for what leaves the cluster.
const OUTSIDE_PORT: u16 = 443;

pub(crate) fn run(file: &mut CaseFile) {
    let folder = file.folder();
    let inputs = file.manifests.iter().map(|name| Input::Path(folder.join(name))).collect();
    let mut manifests = Manifests::new(inputs, Options::default());
    let update = manifests.refresh(&Touched::Everything);
    assert!(update.problems.is_empty(), "{}: {:?}", file.stem, update.problems);
    let mut plan = Plan::new(file.network.parse().unwrap(), file.dsr);
    plan.loopback = file.loopback;
    let mut world = World::build(&update.changes, &plan).unwrap();
    assert!(world.failures.is_empty(), "{}: {:?}", file.stem, world.failures);
    world
        .simulation
        .with_stack(&Client::Outside, |stack, _| {
            stack.serve(Transport::Tcp, OUTSIDE_PORT);
            stack.serve(Transport::Udp, OUTSIDE_PORT);
        })
        .unwrap();
    let recorder = Recorder::default();
    recorder.attach(&mut world.simulation);
    let names = Names::of(&mut world);
    for case in &mut file.cases {
        case.seen = one(case, &mut world, &recorder, &names);
    }
}

fn one(case: &Case, world: &mut World, recorder: &Recorder, names: &Names) -> Expected {
    let from: Origin = case.from.parse().unwrap_or_else(|error| panic!("{}: {error}", case.id));
    let wanted = case.to.replace("outside6", &outside(world, true).to_string());
    let wanted = wanted.replace("outside", &outside(world, false).to_string());
    if let Some(address) = wanted.strip_prefix("ping ") {
        return ping(&from, address.parse().unwrap(), world, recorder, names);
    }
    let to: Destination = wanted.parse().unwrap_or_else(|error| panic!("{}: {error}", case.id));
    let (protocol, transport) =
        if case.udp { (Protocol::Udp, Transport::Udp) } else { (Protocol::Tcp, Transport::Tcp) };
    let flow = Flow { from, to, protocol };
    // What comes from outside is led to the node that is looked at.
    let (client, target) =
        world.resolve(&flow, Some("n1")).unwrap_or_else(|error| panic!("{}: {error}", case.id));
    let mut backends = BTreeSet::new();
    for _ in 0..case.sticky.unwrap_or(0) {
        let exchange = world.simulation.exchange(&client, Request::new(target, transport)).unwrap();
        backends.insert(exchange.outcome.answer().map(|answer| answer.server.clone()));
    }
    recorder.clear();
    let exchange = world.simulation.exchange(&client, Request::new(target, transport)).unwrap();
    let journey = recorder.journey(&world.simulation);
    let mut ports = exchange.from.map_or_else(Ports::default, |from| Ports::of_client(from.port()));
    let request = way(&journey, Role::Request, names, &mut ports);
    let reply = way(&journey, Role::Reply, names, &mut ports);
    let answered = exchange.outcome.answer().cloned();
    let mut outcome = match &exchange.outcome {
        Outcome::Answered(answer) => format!(
            "{} at {} sees {}",
            answer.server.rsplit('/').next().unwrap_or(&answer.server),
            names.end(answer.local.ip(), answer.local.port(), &mut ports),
            names.end(answer.peer.ip(), answer.peer.port(), &mut ports)
        ),
        Outcome::Unreachable(node::app::Unreachable::Host(_)) => "host unreachable".to_owned(),
        other => other.to_string(),
    };
    if let Some(answer) = &answered
        && case.sticky.is_some()
    {
        backends.insert(Some(answer.server.clone()));
        let _ = write!(outcome, "; {} exchanges, {} backend", case.sticky.unwrap_or(0) + 1, backends.len());
    }
    // What a failed exchange still sends must not be taken for the next one's.
    if answered.is_none() {
        world.simulation.run_for(std::time::Duration::from_secs(200));
    }
    let refusal =
        if answered.is_some() { String::new() } else { way(&journey, Role::Refusal, names, &mut ports) };
    Expected { outcome, request, reply, refusal }
}

/// The address of the client outside.
fn outside(world: &mut World, ipv6: bool) -> std::net::IpAddr {
    let first = move |stack: &mut node::stack::Stack, _| {
        stack
            .interfaces()
            .flat_map(|interface| interface.addresses.clone())
            .map(|net| net.addr())
            .find(|address| address.is_ipv6() == ipv6)
    };
    world.simulation.with_stack(&Client::Outside, first).unwrap().unwrap()
}

fn ping(
    from: &Origin,
    to: std::net::IpAddr,
    world: &mut World,
    recorder: &Recorder,
    names: &Names,
) -> Expected {
    let client = world.client(from, Some("n1")).unwrap();
    recorder.clear();
    world.simulation.with_stack(&client, |stack, now| stack.ping(now, to, 7, 1)).unwrap();
    world.simulation.run_for(std::time::Duration::from_secs(5));
    let answered = world.simulation.with_stack(&client, |stack, _| stack.take_echo(to, 7)).unwrap();
    let journey = recorder.journey(&world.simulation);
    let mut ports = Ports::default();
    let dropped = journey.drop().and_then(|passage| passage.dropped.clone());
    let outcome = match (answered, dropped) {
        (true, _) => "echo".to_owned(),
        (false, Some((reason, _))) => format!("no echo: {reason}"),
        (false, None) => "no echo".to_owned(),
    };
    Expected {
        outcome,
        request: way(&journey, Role::Echo, names, &mut ports),
        reply: way(&journey, Role::EchoReply, names, &mut ports),
        refusal: String::new(),
    }
}

/// A line for each place that the first packet of a role passes.
fn way(journey: &Journey, role: Role, names: &Names, ports: &mut Ports) -> String {
    let mut out = String::new();
    for step in journey.first(role) {
        match step {
            Step::Port(passage) => {
                let port = passage.port.rsplit('/').next().unwrap_or(&passage.port);
                let before = names.frame(&passage.before, ports);
                let mut line = format!("{} {port} {}: {before}", passage.node, passage.direction);
                if let Some(after) = &passage.after {
                    let after = names.frame(after, ports);
                    if after != before {
                        let _ = write!(line, " => {after}");
                    }
                }
                if let Some((reason, rule)) = &passage.dropped {
                    let by = rule.as_ref().map(|rule| format!(" in {}", rule.layer)).unwrap_or_default();
                    let _ = write!(line, " => dropped: {reason}{by}");
                } else if passage.hairpin {
                    line.push_str(" => back");
                }
                let _ = writeln!(out, "{line}");
            }
            Step::Wire(crossing) if crossing.from.starts_with("switch") => {}
            Step::Wire(crossing) => {
                let lost =
                    crossing.lost.as_ref().map(|reason| format!(" => lost: {reason}")).unwrap_or_default();
                let frame = names.frame(&crossing.frame, ports);
                let _ = writeln!(out, "{} sends: {frame}{lost}", crossing.from);
            }
            Step::Unseen(unseen) => {
                let _ = writeln!(out, "{} is not looked into", unseen.node);
            }
        }
    }
    out
}
