//! Captures of emulated nodes in pcapng: an interface for each port of a switch and for each adapter, what was done
//! with a packet in its comments, the same packet under the same number wherever it is seen.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::Duration;

use uuid::Uuid;
use vfp::model::{Direction, PortKind, PortSpec};
use vfp::trace::{RuleRef, Sighting, Stage};
use vfp::{DropReason, Observer};
use wire::pcapng::{self, About, PacketMeta, Writer};

use crate::fabric::{DeviceId, LinkDrop, Seen, Tap};
use crate::windows::SwitchHandle;

struct Inner<W: Write> {
    writer: Writer<W>,
    interfaces: BTreeMap<String, u32>,
    packets: u64,
    /// The first thing that went wrong; nothing is written after it.
    error: Option<io::Error>,
}

/// A capture that several observers write into. Times are virtual: the simulation begins in 1970.
pub struct Capture<W: Write> {
    inner: Rc<RefCell<Inner<W>>>,
}

impl<W: Write> Clone for Capture<W> {
    fn clone(&self) -> Self {
        Self { inner: Rc::clone(&self.inner) }
    }
}

impl<W: Write> std::fmt::Debug for Capture<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let inner = self.inner.borrow();
        f.debug_struct("Capture").field("packets", &inner.packets).finish_non_exhaustive()
    }
}

/// What is said of a sighting.
struct Note<'a> {
    interface: &'a str,
    description: &'a str,
    now: Duration,
    direction: pcapng::Direction,
    id: Option<u64>,
    comments: &'a [&'a str],
}

impl<W: Write> Inner<W> {
    fn write(&mut self, note: &Note<'_>, frame: &[u8]) -> io::Result<()> {
        let interface = if let Some(&number) = self.interfaces.get(note.interface) {
            number
        } else {
            let number = self.writer.add_interface(note.interface, note.description)?;
            self.interfaces.insert(note.interface.to_owned(), number);
            number
        };
        self.packets += 1;
        let meta = PacketMeta {
            interface,
            nanos: u64::try_from(note.now.as_nanos()).unwrap_or(u64::MAX),
            direction: Some(note.direction),
            id: note.id,
            comments: note.comments,
        };
        self.writer.packet(&meta, frame)
    }

    fn note(&mut self, note: &Note<'_>, frame: &[u8]) {
        if self.error.is_none()
            && let Err(error) = self.write(note, frame)
        {
            self.error = Some(error);
        }
    }
}

impl<W: Write> Capture<W> {
    /// Begins a capture. Everything is written at once: give it a buffer.
    pub fn new(out: W, about: &About<'_>) -> io::Result<Self> {
        let inner =
            Inner { writer: Writer::new(out, about)?, interfaces: BTreeMap::new(), packets: 0, error: None };
        Ok(Self { inner: Rc::new(RefCell::new(inner)) })
    }

    /// How many sightings were written.
    pub fn packets(&self) -> u64 {
        self.inner.borrow().packets
    }

    /// Writes out what a buffer still holds; an error that came up while packets passed comes up here.
    pub fn flush(&self) -> io::Result<()> {
        let mut inner = self.inner.borrow_mut();
        match inner.error.take() {
            Some(error) => Err(error),
            None => inner.writer.flush(),
        }
    }

    /// Watches adapters, by device and with a name for each.
    pub fn tap(&self, devices: impl IntoIterator<Item = (DeviceId, String)>) -> CaptureTap<W> {
        CaptureTap { capture: self.clone(), devices: devices.into_iter().collect() }
    }

    /// Watches the ports of a node's switch, as they are now; ports that come later go by their id.
    pub fn observer(&self, node: &str, switch: &SwitchHandle) -> CaptureObserver<W> {
        let ports = switch.ports().iter().map(|port| (port.name, interface(node, port))).collect();
        CaptureObserver { capture: self.clone(), node: node.to_owned(), ports }
    }
}

/// What the interface of a node's port is called, and what is said of it.
pub fn interface(node: &str, port: &PortSpec) -> (String, String) {
    let kind = match port.kind {
        PortKind::External => "external",
        PortKind::Host => "host",
        PortKind::Endpoint => "endpoint",
    };
    (format!("{node} {kind} {}", port.nic_name), format!("port {} ({})", port.name, port.friendly_name))
}

/// Writes what passes adapters.
#[derive(Debug)]
pub struct CaptureTap<W: Write> {
    capture: Capture<W>,
    devices: BTreeMap<DeviceId, String>,
}

impl<W: Write> CaptureTap<W> {
    fn note(&self, seen: &Seen<'_>, comments: &[&str]) {
        let Some(name) = self.devices.get(&seen.device) else { return };
        let interface = format!("{name} adapter {}", seen.port);
        let direction = if seen.leaves { pcapng::Direction::Outbound } else { pcapng::Direction::Inbound };
        let note =
            Note { interface: &interface, description: "", now: seen.at, direction, id: None, comments };
        self.capture.inner.borrow_mut().note(&note, seen.frame);
    }
}

impl<W: Write> Tap for CaptureTap<W> {
    fn seen(&mut self, seen: &Seen<'_>) {
        self.note(seen, &[]);
    }

    fn lost(&mut self, seen: &Seen<'_>, reason: LinkDrop) {
        self.note(seen, &[&format!("dropped: {reason}")]);
    }
}

/// Writes what passes the ports of a node's switch.
#[derive(Debug)]
pub struct CaptureObserver<W: Write> {
    capture: Capture<W>,
    node: String,
    /// Name and description.
    ports: BTreeMap<Uuid, (String, String)>,
}

impl<W: Write> CaptureObserver<W> {
    fn note(&mut self, at: &Sighting, comments: &[&str], frame: &[u8]) {
        let (name, description) = self
            .ports
            .entry(at.port)
            .or_insert_with(|| (format!("{} port {}", self.node, at.port), String::new()));
        let direction = match at.direction {
            Direction::Out => pcapng::Direction::Outbound,
            Direction::In => pcapng::Direction::Inbound,
        };
        let id = Some(at.group);
        let note = Note { interface: name, description, now: at.now, direction, id, comments };
        self.capture.inner.borrow_mut().note(&note, frame);
    }
}

impl<W: Write> Observer for CaptureObserver<W> {
    fn seen(&mut self, at: &Sighting, frame: &[u8]) {
        let stage = match at.stage {
            Stage::Enter => "before the layers",
            Stage::Leave => "behind the layers",
        };
        self.note(at, &[&format!("{} {stage}", at.direction)], frame);
    }

    fn dropped(&mut self, at: &Sighting, reason: DropReason, rule: Option<&RuleRef>, frame: &[u8]) {
        let why = format!("dropped: {reason}: {}", reason.explain());
        match rule {
            Some(rule) => {
                let by = format!("rule {} of {}/{}", rule.rule, rule.layer, rule.group);
                self.note(at, &[&why, &by], frame);
            }
            None => self.note(at, &[&why], frame),
        }
    }
}
