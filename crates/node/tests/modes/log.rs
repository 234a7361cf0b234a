//! What is written down while packets pass: frames on the wire, drops in the switch.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use node::fabric::{DeviceId, Seen, Tap};
use uuid::Uuid;
use vfp::model::Direction;
use vfp::trace::{RuleRef, Sighting};
use vfp::{DropReason, Observer};
use wire::{Arp, Frame, Ip, Kind};

/// A packet that a switch dropped.
#[derive(Clone, Debug)]
pub(crate) struct Dropped {
    /// The adapter's name: the endpoint's, or that of the host's or the physical one.
    pub(crate) port: String,
    pub(crate) direction: Direction,
    pub(crate) reason: DropReason,
    pub(crate) rule: Option<RuleRef>,
}

/// A frame at a node's adapter.
#[derive(Clone, Debug)]
pub(crate) struct OnWire {
    pub(crate) leaves: bool,
    pub(crate) bytes: Vec<u8>,
}

impl OnWire {
    pub(crate) fn frame(&self) -> Frame {
        wire::parse(&self.bytes).unwrap()
    }

    pub(crate) fn ip(&self) -> Option<Ip> {
        self.frame().ip().copied()
    }

    pub(crate) fn arp(&self) -> Option<Arp> {
        match self.frame().kind {
            Kind::Arp(arp) => Some(arp),
            _ => None,
        }
    }

    pub(crate) fn vlan(&self) -> Option<u16> {
        self.frame().l2.vlan.map(|tag| tag.id)
    }
}

#[derive(Debug, Default)]
struct Inner {
    drops: Vec<Dropped>,
    frames: Vec<(DeviceId, OnWire)>,
}

/// The log of a world.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    inner: Rc<RefCell<Inner>>,
}

impl Log {
    /// Drops since the last time.
    pub(crate) fn take_drops(&self) -> Vec<Dropped> {
        std::mem::take(&mut self.inner.borrow_mut().drops)
    }

    /// Frames at the adapter of a node since the last time.
    pub(crate) fn take_frames(&self, device: DeviceId) -> Vec<OnWire> {
        let mut inner = self.inner.borrow_mut();
        let (own, others) =
            std::mem::take(&mut inner.frames).into_iter().partition(|(seen, _)| *seen == device);
        inner.frames = others;
        let own: Vec<(DeviceId, OnWire)> = own;
        own.into_iter().map(|(_, frame)| frame).collect()
    }

    pub(crate) fn clear(&self) {
        *self.inner.borrow_mut() = Inner::default();
    }

    /// Watches a switch whose ports have these names.
    pub(crate) fn observer(&self, ports: PortNames) -> Box<dyn Observer> {
        Box::new(Watch { log: self.clone(), ports })
    }

    pub(crate) fn tap(&self, nodes: Vec<DeviceId>) -> Box<dyn Tap> {
        Box::new(Listen { log: self.clone(), nodes })
    }
}

/// Names of ports; filled by the world whenever ports may have changed.
pub(crate) type PortNames = Rc<RefCell<BTreeMap<Uuid, String>>>;

struct Watch {
    log: Log,
    ports: PortNames,
}

impl Observer for Watch {
    fn seen(&mut self, _: &Sighting, _: &[u8]) {}

    fn dropped(&mut self, at: &Sighting, reason: DropReason, rule: Option<&RuleRef>, _: &[u8]) {
        let port = self.ports.borrow().get(&at.port).cloned().unwrap_or_default();
        let dropped = Dropped { port, direction: at.direction, reason, rule: rule.cloned() };
        self.log.inner.borrow_mut().drops.push(dropped);
    }
}

struct Listen {
    log: Log,
    nodes: Vec<DeviceId>,
}

impl Tap for Listen {
    fn seen(&mut self, seen: &Seen<'_>) {
        if self.nodes.contains(&seen.device) {
            let frame = OnWire { leaves: seen.leaves, bytes: seen.frame.to_vec() };
            self.log.inner.borrow_mut().frames.push((seen.device, frame));
        }
    }
}
