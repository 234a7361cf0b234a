//! Listening to a simulated cluster: a [`Recorder`] remembers what every switch and adapter tells; what it means is the
//! [`Journey`]'s.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use node::fabric::{DeviceId, LinkDrop, Seen, Tap};
use node::sim::Simulation;
use uuid::Uuid;
use vfp::model::PortKind;
use vfp::trace::{Event, RuleRef, Sighting, Stage};
use vfp::{DropReason, Observer};

use super::journey::Assembler;
pub use super::journey::{Crossing, Journey, Passage, Role, Step, Unseen};

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
        assemble(&self.moments.borrow(), simulation)
    }
}

fn assemble(moments: &[Moment], simulation: &Simulation) -> Journey {
    let names = Names::of(simulation);
    let mut assembler = Assembler::default();
    for moment in moments {
        match moment {
            Moment::Port { node, at, frame } if at.stage == Stage::Enter => {
                assembler.enter(node, names.port(node, at.port), at, at.now, frame);
            }
            Moment::Port { at, frame, .. } => assembler.leave(at, frame),
            Moment::Dropped { node, at, reason, rule, frame } => {
                if !assembler.dropped(at, *reason, rule.as_ref()) {
                    assembler.enter(node, names.port(node, at.port), at, at.now, frame);
                    assembler.dropped(at, *reason, rule.as_ref());
                }
            }
            Moment::Event { event } => assembler.event(event, |node, port| names.port(node, port)),
            Moment::Wire { device, at, leaves, lost, frame } => {
                // One sighting for each crossing: where it leaves.
                if *leaves || lost.is_some() {
                    let from = simulation.fabric().name(*device).to_owned();
                    assembler.cross(Crossing { at: *at, from, frame: frame.clone(), lost: lost.clone() });
                }
            }
        }
    }
    assembler.journey()
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
