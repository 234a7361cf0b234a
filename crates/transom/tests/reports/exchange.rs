//! Exchanges of a row: what must be seen of them, and connections that stay open over other steps.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use node::app::{Exchange as Ended, Outcome, Request, Transport};
use node::sim::Client;
use transom::cli::traffic::{Destination, Flow, Origin, Protocol};
use transom::commands::trace::Failed;
use transom::world::record::{Journey, Role, Step};
use wire::{Kind, L4};

use crate::row::{Broken, Exchange, Finish, Spread, Start};
use crate::run::{Run, transport};

/// How long a connection may take in all.
const PATIENCE: Duration = Duration::from_mins(5);

/// After so long an exchange that was answered sends no more.
const REST: Duration = Duration::from_secs(1);

/// After so long nothing of a failed exchange is on its way any more.
const QUIET: Duration = Duration::from_secs(200);

impl Run {
    /// The client and the request of a flow.
    fn request(
        &mut self,
        from: &str,
        to: &str,
        node: &str,
        transport: Transport,
    ) -> Result<(Client, Request, Protocol), String> {
        let from: Origin = self.named(from).parse()?;
        let outside = self.own(&Client::Outside).into_iter().find(IpAddr::is_ipv4);
        let to = match outside {
            Some(address) => self.named(to).replace("outside:", &format!("{address}:")),
            None => self.named(to),
        };
        let to: Destination = to.parse()?;
        let protocol = match transport {
            Transport::Tcp => Protocol::Tcp,
            Transport::Udp => Protocol::Udp,
        };
        let flow = Flow { from, to, protocol };
        let (client, target) = self.world.resolve(&flow, Some(node)).map_err(|error| format!("{error:#}"))?;
        let mut request = Request::new(target, transport);
        if let Origin::External(Some(address)) = flow.from {
            self.world.outside_address(address).map_err(|error| format!("{error:#}"))?;
            request.from = Some(address);
        }
        Ok((client, request, protocol))
    }

    fn own(&mut self, client: &Client) -> Vec<IpAddr> {
        let addresses = |stack: &mut node::stack::Stack, _| {
            stack
                .interfaces()
                .flat_map(|interface| interface.addresses.clone())
                .map(|net| net.addr())
                .collect()
        };
        self.world.simulation.with_stack(client, addresses).unwrap_or_default()
    }

    pub(crate) fn exchange(&mut self, asked: &Exchange) -> Result<(), String> {
        let mut answered = BTreeSet::new();
        for number in 1..=asked.times {
            let (client, request, _) =
                self.request(&asked.from, &asked.to, &asked.node, transport(asked.udp))?;
            let target = request.to;
            if !asked.never.is_empty() && self.open.is_empty() {
                // What earlier exchanges still send is not this one's.
                self.world.simulation.run_for(REST);
            }
            self.recorder.clear();
            let ended =
                self.world.simulation.exchange(&client, request).map_err(|error| error.to_string())?;
            let journey = self.recorder.journey(&self.world.simulation);
            let place = format!("{} to {} ({target}), number {number}", asked.from, asked.to);
            let failed = Failed {
                client: &client,
                target,
                transport: transport(asked.udp),
                outcome: &ended.outcome,
                journey: &journey,
            };
            match (&ended.outcome, &asked.fails) {
                (Outcome::Answered(answer), None) => {
                    let server = answer.server.rsplit('/').next().unwrap_or_default().to_owned();
                    self.answer(asked, &client, &ended, &server)
                        .map_err(|error| format!("{place}: {error}"))?;
                    answered.insert(server);
                }
                (Outcome::Answered(answer), Some(_)) => {
                    return Err(format!("{place}: answered by {}, but must fail", answer.server));
                }
                (outcome, None) => {
                    return Err(format!(
                        "{place}: {outcome}: {}\n{}",
                        failed.reason(&mut self.world).text,
                        story(&journey)
                    ));
                }
                (outcome, Some(fragment)) => {
                    let text = format!("{outcome}: {}", failed.reason(&mut self.world).text);
                    if !text.contains(fragment) {
                        return Err(format!("{place}: fails as {text:?}, which does not say {fragment:?}"));
                    }
                }
            }
            self.ways(asked, &journey).map_err(|error| format!("{place}: {error}"))?;
            if ended.outcome.answer().is_none() {
                self.world.simulation.run_for(QUIET);
            }
        }
        self.spread(asked, &answered)
    }

    /// What one answer says.
    fn answer(
        &mut self,
        asked: &Exchange,
        client: &Client,
        ended: &Ended,
        server: &str,
    ) -> Result<(), String> {
        let Some(answer) = ended.outcome.answer() else { return Ok(()) };
        let by: Vec<String> = asked.by.iter().map(|name| self.named(name)).collect();
        if by.is_empty() {
            return Err("the row does not say who may answer".to_owned());
        }
        if !by.iter().any(|name| name == server) {
            return Err(format!("answered by {server}, which is none of {}", by.join(", ")));
        }
        let seen = answer.peer;
        if let Some(expected) = asked.sees.as_ref().and_then(|sees| sees.here(self.setting)) {
            let same = match expected {
                "client" => ended.from == Some(seen),
                "source-vip" => self.pod_address(&asked.node, 1).contains(&seen.ip()),
                "node" => self.own(&Client::Node(asked.node.clone())).first() == Some(&seen.ip()),
                address => address.parse() == Ok(seen.ip()),
            };
            if !same {
                return Err(format!(
                    "{server} sees {seen}, not {expected} (the client is {client} {:?})",
                    ended.from
                ));
            }
        }
        match &asked.at {
            Some(at) if at.parse() != Ok(answer.local) => {
                Err(format!("{server} was reached at {}, not {at}", answer.local))
            }
            _ => Ok(()),
        }
    }

    /// The hosts with a number, from 0, in a node's pod ranges.
    fn pod_address(&self, node: &str, number: usize) -> Vec<IpAddr> {
        let spec = self.world.simulation.spec(node);
        spec.into_iter()
            .flat_map(|spec| &spec.pod_cidrs)
            .filter_map(|cidr| cidr.hosts().nth(number))
            .collect()
    }

    fn spread(&mut self, asked: &Exchange, answered: &BTreeSet<String>) -> Result<(), String> {
        let list = || answered.iter().cloned().collect::<Vec<_>>().join(", ");
        let missing = asked.by.iter().map(|name| self.named(name)).find(|name| !answered.contains(name));
        match (asked.spread, missing) {
            (Spread::One, _) if answered.len() != 1 => {
                return Err(format!("{} must always get the same backend, but got {}", asked.from, list()));
            }
            (Spread::All, Some(missing)) => return Err(format!("{missing} never answered, only {}", list())),
            _ => {}
        }
        if let Some(kept) = answered.first().filter(|_| !asked.remember.is_empty()) {
            let other = asked.remember.iter().find(|name| *name != kept);
            let other = other.ok_or_else(|| format!("there is none but {kept} to remember"))?;
            self.names.insert("kept", kept.clone());
            self.names.insert("other", other.clone());
        }
        Ok(())
    }

    /// How packets crossed the underlay.
    fn ways(&self, asked: &Exchange, journey: &Journey) -> Result<(), String> {
        for (role, expected) in [(Role::Request, &asked.request), (Role::Reply, &asked.reply)] {
            let Some(expected) = expected.as_ref().and_then(|expected| expected.here(self.setting)) else {
                continue;
            };
            let crossings = crossings(journey, Some(role));
            let tunnels: Vec<bool> = crossings.iter().map(|frame| inner(frame).1).collect();
            let right = match expected {
                "not" => tunnels.is_empty(),
                "encapsulated" => !tunnels.is_empty() && tunnels.iter().all(|tunnel| *tunnel),
                "native" => !tunnels.is_empty() && tunnels.iter().all(|tunnel| !*tunnel),
                "part-way" => tunnels.contains(&true) && tunnels.contains(&false),
                other => {
                    return Err(format!("{other:?} is no way: encapsulated, native, part-way or not"));
                }
            };
            if !right {
                let shown: Vec<String> = crossings.iter().map(|frame| wire::describe(frame)).collect();
                return Err(format!(
                    "the {role:?} must cross {expected}, but on the wire was: {}",
                    shown.join("; ")
                ));
            }
        }
        for place in &asked.passes {
            let passes = journey.steps.iter().any(|(_, step)| match step {
                Step::Port(passage) => format!("{} {}", passage.node, passage.port) == *place,
                Step::Wire(_) | Step::Unseen(_) => false,
            });
            if !passes {
                return Err(format!("no packet passes {place}:\n{}", story(journey)));
            }
        }
        let never: BTreeSet<IpAddr> = asked
            .never
            .iter()
            .map(|text| text.parse().map_err(|_| format!("{text:?} is no address")))
            .collect::<Result<_, _>>()?;
        for frame in crossings(journey, None) {
            if let Some(bad) = addresses(frame).into_iter().find(|address| never.contains(address)) {
                return Err(format!("{bad} must not be on the wire: {}", wire::describe(frame)));
            }
        }
        Ok(())
    }

    pub(crate) fn start(&mut self, start: &Start) -> Result<(), String> {
        for _ in 0..start.times {
            let (client, request, _) = self.request(&start.from, &start.to, &start.node, Transport::Tcp)?;
            let request = Request { timeout: PATIENCE, ..request.payload(start.payload) };
            let ticket = self.world.simulation.start(&client, request).map_err(|error| error.to_string())?;
            self.open.entry(start.name.clone()).or_default().push(ticket);
        }
        self.world.simulation.run_for(Duration::from_millis(start.run));
        Ok(())
    }

    pub(crate) fn finish(&mut self, finish: &Finish) -> Result<(), String> {
        let tickets =
            self.open.remove(&finish.name).ok_or_else(|| format!("no connections {}", finish.name))?;
        let (total, since) = (tickets.len(), self.since);
        let mut broken: Vec<String> = Vec::new();
        for ticket in &tickets {
            let ended = self.world.simulation.finish(ticket).ok_or("a connection's client is gone")?;
            match &ended.outcome {
                Outcome::Answered(answer) => {
                    if ended.started + ended.took <= since {
                        return Err("a connection had ended before what it was to live through".to_owned());
                    }
                    let server = answer.server.rsplit('/').next().unwrap_or_default();
                    if !finish.by.iter().any(|name| name == server) {
                        return Err(format!(
                            "a connection to {server} lived, not one of {}",
                            finish.by.join(", ")
                        ));
                    }
                }
                other => broken.push(format!("{:?}: {other}", ended.from)),
            }
        }
        let right = match finish.broken {
            Broken::None => broken.is_empty(),
            Broken::Some => !broken.is_empty() && broken.len() < total,
            Broken::All => broken.len() == total,
        };
        if right {
            return Ok(());
        }
        let journey = self.recorder.journey(&self.world.simulation);
        let dropped = journey.drop().map(|passage| {
            format!(
                "; dropped on {} {} {}: {:?}",
                passage.node, passage.port, passage.direction, passage.dropped
            )
        });
        let count = broken.len();
        broken.truncate(5);
        let (broken, dropped) = (broken.join("; "), dropped.unwrap_or_default());
        Err(format!("of {total} connections {count} broke: {broken}{dropped}"))
    }
}

/// What happened, a line for each place.
fn story(journey: &Journey) -> String {
    let line = |(role, step): &(Role, Step)| match step {
        Step::Port(passage) => {
            let after = passage.after.as_ref().map(|frame| wire::describe(frame));
            format!(
                "  {role:?} at {} {} {}: {}\n    => {} {:?}\n",
                passage.node,
                passage.port,
                passage.direction,
                wire::describe(&passage.before),
                after.unwrap_or_default(),
                passage.dropped
            )
        }
        Step::Wire(crossing) => {
            format!(
                "  {role:?} from {}: {} {:?}\n",
                crossing.from,
                wire::describe(&crossing.frame),
                crossing.lost
            )
        }
        Step::Unseen(unseen) => format!("  {role:?} through {}\n", unseen.node),
    };
    // The first packets tell the most.
    journey.steps.iter().take(40).map(line).collect()
}

/// Frames that nodes and hosts put on the underlay: packets of one role, or all.
fn crossings(journey: &Journey, role: Option<Role>) -> Vec<&[u8]> {
    let steps = journey.steps.iter().filter(|(of, _)| role.is_none_or(|role| *of == role));
    steps
        .filter_map(|(_, step)| match step {
            Step::Wire(crossing) if !crossing.from.starts_with("switch") => Some(&*crossing.frame),
            _ => None,
        })
        .collect()
}

/// The innermost packet of a frame, and whether it is in a tunnel.
fn inner(frame: &[u8]) -> (&[u8], bool) {
    let tunnelled = wire::parse(frame).ok().and_then(|parsed| {
        let Kind::Ip(ip) = &parsed.kind else { return None };
        let L4::Udp { dport: wire::vxlan::UDP_PORT, .. } = ip.l4 else { return None };
        let payload = frame.get(ip.payload_offset()..ip.end())?;
        let (_, at) = wire::vxlan::parse(payload).ok()?;
        payload.get(at..)
    });
    tunnelled.map_or((frame, false), |payload| (payload, true))
}

/// The addresses of a frame, in a tunnel those inside and outside.
fn addresses(frame: &[u8]) -> Vec<IpAddr> {
    let of = |bytes: &[u8]| match wire::parse(bytes).map(|parsed| parsed.kind) {
        Ok(Kind::Ip(ip)) => vec![ip.src, ip.dst],
        _ => Vec::new(),
    };
    let (inside, tunnelled) = inner(frame);
    let mut found = of(inside);
    if tunnelled {
        found.extend(of(frame));
    }
    found
}
