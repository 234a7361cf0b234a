//! What happened to the packets of an exchange: from port to port, layer by layer, over the wire and back.
//!
//! A [`Recorder`] listens to every switch and adapter and remembers; [`Journey`] makes sense of it afterwards.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use node::fabric::{DeviceId, LinkDrop, Seen, Tap};
use node::sim::Simulation;
use uuid::Uuid;
use vfp::model::{Direction, PortKind};
use vfp::trace::{Event, LayerEvent, RuleRef, Sighting, Stage, Why};
use vfp::{DropReason, Observer};
use wire::{L4, TcpFlags};

/// What a packet is to its exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The first packet of the client: a SYN, or the request's datagram.
    Request,
    /// The first packet of the server: a SYN-ACK, or the answer's datagram.
    Reply,
    /// A refusal: a reset, or an ICMP error.
    Refusal,
    /// An ICMP echo request.
    Echo,
    /// An ICMP echo reply.
    #[serde(rename = "echo-reply")]
    EchoReply,
    /// Any other packet of TCP or UDP.
    Other,
}

/// The innermost packet's role. None: it is neither TCP nor UDP nor an ICMP error.
fn role(frame: &[u8]) -> Option<Role> {
    let parsed = wire::parse(frame).ok()?;
    let ip = parsed.ip()?;
    match ip.l4 {
        L4::Tcp { flags, .. } => Some(if flags.contains(TcpFlags::RST) {
            Role::Refusal
        } else if flags.contains(TcpFlags::SYN | TcpFlags::ACK) {
            Role::Reply
        } else if flags.contains(TcpFlags::SYN) {
            Role::Request
        } else {
            Role::Other
        }),
        L4::Udp { dport, .. } => {
            let payload = frame.get(ip.payload_offset()..ip.end())?;
            if dport == wire::vxlan::UDP_PORT
                && let Ok((_, at)) = wire::vxlan::parse(payload)
            {
                return role(payload.get(at..)?);
            }
            // What node::app's clients begin with.
            Some(if payload.starts_with(b"HELLO ") { Role::Request } else { Role::Reply })
        }
        L4::Icmp { kind: 8, .. } | L4::Icmp6 { kind: 128, .. } => Some(Role::Echo),
        L4::Icmp { kind: 0, .. } | L4::Icmp6 { kind: 129, .. } => Some(Role::EchoReply),
        L4::Icmp { kind: 3 | 11, .. } | L4::Icmp6 { kind: 1..=3, .. } => Some(Role::Refusal),
        _ => None,
    }
}

#[derive(Clone, Debug)]
enum Moment {
    Port { node: String, at: Sighting, frame: Vec<u8> },
    Dropped { node: String, at: Sighting, reason: DropReason, rule: Option<RuleRef>, frame: Vec<u8> },
    Event { event: Event },
    Wire { device: DeviceId, at: Duration, leaves: bool, lost: Option<String>, frame: Vec<u8> },
}

/// Remembers what observers and taps are told.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    moments: Rc<RefCell<Vec<Moment>>>,
}

struct PortListener {
    node: String,
    moments: Rc<RefCell<Vec<Moment>>>,
}

impl Observer for PortListener {
    fn seen(&mut self, at: &Sighting, frame: &[u8]) {
        let moment = Moment::Port { node: self.node.clone(), at: *at, frame: frame.to_vec() };
        self.moments.borrow_mut().push(moment);
    }

    fn dropped(&mut self, at: &Sighting, reason: DropReason, rule: Option<&RuleRef>, frame: &[u8]) {
        let (node, rule, frame) = (self.node.clone(), rule.cloned(), frame.to_vec());
        self.moments.borrow_mut().push(Moment::Dropped { node, at: *at, reason, rule, frame });
    }

    fn wants_events(&self) -> bool {
        true
    }

    fn event(&mut self, event: &Event) {
        self.moments.borrow_mut().push(Moment::Event { event: event.clone() });
    }
}

struct WireListener {
    moments: Rc<RefCell<Vec<Moment>>>,
}

impl WireListener {
    fn note(&self, seen: &Seen<'_>, lost: Option<String>) {
        self.moments.borrow_mut().push(Moment::Wire {
            device: seen.device,
            at: seen.at,
            leaves: seen.leaves,
            lost,
            frame: seen.frame.to_vec(),
        });
    }
}

impl Tap for WireListener {
    fn seen(&mut self, seen: &Seen<'_>) {
        self.note(seen, None);
    }

    fn lost(&mut self, seen: &Seen<'_>, reason: LinkDrop) {
        self.note(seen, Some(reason.to_string()));
    }
}

impl Recorder {
    /// Listens to every Windows node's switch and to every adapter.
    pub fn attach(&self, simulation: &mut Simulation) {
        let nodes: Vec<String> = simulation.nodes().map(str::to_owned).collect();
        for name in nodes {
            let listener = PortListener { node: name.clone(), moments: Rc::clone(&self.moments) };
            simulation.with_windows(&name, |node| node.set_observer(Some(Box::new(listener))));
        }
        let tap = WireListener { moments: Rc::clone(&self.moments) };
        simulation.fabric_mut().set_tap(Some(Box::new(tap)));
    }

    /// Forgets what was heard.
    pub fn clear(&self) {
        self.moments.borrow_mut().clear();
    }

    /// What happened since the last [`Recorder::clear`].
    pub fn journey(&self, simulation: &Simulation) -> Journey {
        Journey::of(&self.moments.borrow(), simulation)
    }
}

/// A packet passes the layers of a port.
#[derive(Clone, Debug, PartialEq)]
pub struct Passage {
    /// When.
    pub at: Duration,
    /// The node.
    pub node: String,
    /// Which port: `pod/NAMESPACE/NAME`, `host`, `external`, or the friendly name.
    pub port: String,
    /// Which way.
    pub direction: Direction,
    /// The same for one packet within a node.
    pub group: u64,
    /// The frame before the layers.
    pub before: Vec<u8>,
    /// The frame behind them; none: it did not get there.
    pub after: Option<Vec<u8>>,
    /// What each layer did.
    pub layers: Vec<LayerEvent>,
    /// Where the switch sends it; none for a port: to several.
    pub forward: Option<(Option<String>, Why)>,
    /// A rule sent it back.
    pub hairpin: bool,
    /// It waits for a next hop here, and passes once more when that is resolved.
    pub pending: bool,
    /// Why it was dropped, and by which rule.
    pub dropped: Option<(DropReason, Option<RuleRef>)>,
}

/// A frame leaves a machine's adapter, or is lost on the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct Crossing {
    /// When.
    pub at: Duration,
    /// The machine.
    pub from: String,
    /// The frame.
    pub frame: Vec<u8>,
    /// Why it was lost.
    pub lost: Option<String>,
}

/// One step of a packet.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// At a port.
    Port(Box<Passage>),
    /// On the wire.
    Wire(Crossing),
}

impl Step {
    /// The frame as it is behind the step, or as it came when it was dropped.
    pub fn frame(&self) -> &[u8] {
        match self {
            Self::Port(passage) => passage.after.as_ref().unwrap_or(&passage.before),
            Self::Wire(crossing) => &crossing.frame,
        }
    }
}

/// All packets of an exchange, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Journey {
    /// Each step with the role of its packet.
    pub steps: Vec<(Role, Step)>,
}

impl Journey {
    fn of(moments: &[Moment], simulation: &Simulation) -> Self {
        let names = Names::of(simulation);
        let mut steps: Vec<(Role, Step)> = Vec::new();
        // The passage that events belong to: the switch works on one packet after the other.
        let mut current: Option<usize> = None;
        for moment in moments {
            match moment {
                Moment::Port { node, at, frame } if at.stage == Stage::Enter => {
                    current = None;
                    let Some(role) = role(frame) else { continue };
                    current = Some(steps.len());
                    steps.push((role, Step::Port(Box::new(passage(node, at, frame, &names)))));
                }
                Moment::Port { at, frame, .. } => {
                    if let Some(passage) = last(&mut steps, current, at) {
                        passage.after = Some(frame.clone());
                    }
                }
                Moment::Dropped { node, at, reason, rule, frame } => {
                    if let Some(passage) = last(&mut steps, current, at) {
                        passage.dropped = Some((*reason, rule.clone()));
                    } else if let Some(role) = role(frame) {
                        let mut passage = passage(node, at, frame, &names);
                        passage.dropped = Some((*reason, rule.clone()));
                        steps.push((role, Step::Port(Box::new(passage))));
                    }
                }
                Moment::Event { event } => {
                    let Some((_, Step::Port(passage))) = current.and_then(|at| steps.get_mut(at)) else {
                        continue;
                    };
                    match event {
                        Event::Layer(layer) => passage.layers.push(layer.clone()),
                        Event::Forward { to, why, .. } => {
                            passage.forward = Some((to.map(|port| names.port(&passage.node, port)), *why));
                        }
                        Event::Hairpin { .. } => passage.hairpin = true,
                        Event::Pending { .. } => passage.pending = true,
                        _ => {}
                    }
                }
                Moment::Wire { device, at, leaves, lost, frame } => {
                    // One sighting for each crossing: where it leaves.
                    if (*leaves || lost.is_some())
                        && let Some(role) = role(frame)
                    {
                        let from = simulation.fabric().name(*device).to_owned();
                        let crossing = Crossing { at: *at, from, frame: frame.clone(), lost: lost.clone() };
                        steps.push((role, Step::Wire(crossing)));
                    }
                }
            }
        }
        Self { steps }
    }

    /// The first time that a packet of a role passes each place. Passes that end with waiting for a next hop do not count.
    pub fn first(&self, role: Role) -> Vec<&Step> {
        let mut seen: Vec<(String, Option<Direction>)> = Vec::new();
        let mut steps = Vec::new();
        for (of, step) in &self.steps {
            let waits = matches!(step, Step::Port(passage) if passage.pending);
            if *of != role || waits {
                continue;
            }
            let place = match step {
                Step::Port(passage) => {
                    (format!("{} {}", passage.node, passage.port), Some(passage.direction))
                }
                Step::Wire(crossing) => (crossing.from.clone(), None),
            };
            if !seen.contains(&place) {
                seen.push(place);
                steps.push(step);
            }
        }
        steps
    }

    /// The first drop of a packet, if any.
    pub fn drop(&self) -> Option<&Passage> {
        self.steps.iter().find_map(|(_, step)| match step {
            Step::Port(passage) if passage.dropped.is_some() => Some(&**passage),
            _ => None,
        })
    }

    /// Whether a rule of one of these kinds decided anything.
    pub fn decided_by(&self, action: &str) -> bool {
        self.steps.iter().any(|(_, step)| match step {
            Step::Port(passage) => passage
                .layers
                .iter()
                .any(|layer| layer.rule.as_ref().is_some_and(|rule| rule.action == action)),
            Step::Wire(_) => false,
        })
    }
}

fn passage(node: &str, at: &Sighting, frame: &[u8], names: &Names) -> Passage {
    Passage {
        at: at.now,
        node: node.to_owned(),
        port: names.port(node, at.port),
        direction: at.direction,
        group: at.group,
        before: frame.to_vec(),
        after: None,
        layers: Vec::new(),
        forward: None,
        hairpin: false,
        pending: false,
        dropped: None,
    }
}

/// The passage that a sighting belongs to.
fn last<'a>(steps: &'a mut [(Role, Step)], current: Option<usize>, at: &Sighting) -> Option<&'a mut Passage> {
    match steps.get_mut(current?)? {
        (_, Step::Port(passage)) if passage.group == at.group && passage.direction == at.direction => {
            Some(passage)
        }
        _ => None,
    }
}

/// What ports are called.
struct Names {
    ports: BTreeMap<(String, Uuid), String>,
}

impl Names {
    fn of(simulation: &Simulation) -> Self {
        let mut ports = BTreeMap::new();
        for node in simulation.nodes() {
            let Some(windows) = simulation.windows(node) else { continue };
            for spec in windows.switch().ports() {
                let name = match spec.kind {
                    PortKind::Host => "host".to_owned(),
                    PortKind::External => "external".to_owned(),
                    PortKind::Endpoint => {
                        let pod = simulation.spec(node).and_then(|asked| {
                            asked.pods.iter().find(|pod| {
                                pod.addresses.iter().any(|address| spec.addresses.contains(address))
                            })
                        });
                        pod.map_or_else(|| spec.nic_name.clone(), |pod| format!("pod/{}", pod.name))
                    }
                };
                ports.insert((node.to_owned(), spec.name), name);
            }
        }
        Self { ports }
    }

    fn port(&self, node: &str, port: Uuid) -> String {
        self.ports.get(&(node.to_owned(), port)).cloned().unwrap_or_else(|| port.to_string())
    }
}
