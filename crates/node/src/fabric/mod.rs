//! The wire between emulated nodes, in virtual time: devices joined by links, one event after the other, the same in
//! every run with the same seed. No threads, no clock. Knows nothing of what a frame says.

mod link;
mod switch;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::time::Duration;

use wire::Packet;

pub use link::{LinkCounters, LinkSettings, RangeError};
pub use switch::LearningSwitch;

use link::{Link, Travel};

/// Something with ports that frames come in and go out by.
pub trait Device {
    /// A frame arrives at a port.
    fn receive(&mut self, now: Duration, port: usize, frame: Packet, out: &mut Outbox);

    /// A timer is due.
    fn poll(&mut self, now: Duration, out: &mut Outbox);

    /// When [`poll`](Self::poll) is due next.
    fn next_timer(&mut self) -> Option<Duration>;
}

/// What a device sends.
#[derive(Debug, Default)]
pub struct Outbox {
    frames: Vec<(usize, Packet)>,
}

impl Outbox {
    /// Sends a frame out of a port.
    pub fn send(&mut self, port: usize, frame: Packet) {
        self.frames.push((port, frame));
    }

    /// Takes out what was sent, for devices that hold other devices.
    pub fn drain(&mut self) -> impl Iterator<Item = (usize, Packet)> {
        self.frames.drain(..)
    }
}

/// A device of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId(pub(crate) usize);

/// A link of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(usize);

/// What a tap sees.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// When.
    pub at: Duration,
    /// The device whose port it is.
    pub device: DeviceId,
    /// The device's port.
    pub port: usize,
    /// The frame leaves the device; else it arrives.
    pub leaves: bool,
    /// The frame.
    pub frame: &'a [u8],
}

/// Sees every frame at every port.
pub trait Tap {
    /// A frame passes.
    fn seen(&mut self, seen: &Seen<'_>);

    /// A link loses a frame that left a device.
    fn lost(&mut self, seen: &Seen<'_>, reason: LinkDrop) {
        let _ = (seen, reason);
    }
}

/// Why a link loses a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkDrop {
    /// The link is cut.
    Cut,
    /// By chance, as its settings ask for.
    Loss,
    /// The frame is larger than the link takes.
    TooBig,
    /// There is no link at the port.
    NoLink,
}

impl fmt::Display for LinkDrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cut => "the link is cut",
            Self::Loss => "lost on the link",
            Self::TooBig => "larger than the link's MTU",
            Self::NoLink => "no link at the port",
        })
    }
}

#[derive(Debug)]
enum What {
    Frame { device: usize, port: usize, frame: Packet },
    Timer { device: usize },
}

#[derive(Debug)]
struct Event {
    at: Duration,
    /// Events of one instant happen in the order in which they were made.
    order: u64,
    what: What,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

struct Slot<D> {
    name: String,
    device: D,
    /// The link at each port.
    ports: Vec<Option<usize>>,
    /// The earliest timer that an event was made for.
    timer: Option<Duration>,
}

/// Devices and the links between them.
pub struct Fabric<D> {
    seed: u64,
    now: Duration,
    order: u64,
    slots: Vec<Slot<D>>,
    links: Vec<Link>,
    events: BinaryHeap<Reverse<Event>>,
    tap: Option<Box<dyn Tap>>,
    outbox: Outbox,
}

impl<D> fmt::Debug for Fabric<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let devices: Vec<&str> = self.slots.iter().map(|slot| &*slot.name).collect();
        f.debug_struct("Fabric").field("now", &self.now).field("devices", &devices).finish_non_exhaustive()
    }
}

impl<D: Device> Fabric<D> {
    /// An empty fabric at time 0.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            now: Duration::ZERO,
            order: 0,
            slots: Vec::new(),
            links: Vec::new(),
            events: BinaryHeap::new(),
            tap: None,
            outbox: Outbox::default(),
        }
    }

    /// The time.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// Adds a device.
    pub fn add(&mut self, name: impl Into<String>, device: D) -> DeviceId {
        self.slots.push(Slot { name: name.into(), device, ports: Vec::new(), timer: None });
        DeviceId(self.slots.len() - 1)
    }

    /// A device's name.
    pub fn name(&self, device: DeviceId) -> &str {
        self.slots.get(device.0).map_or("", |slot| &slot.name)
    }

    /// The devices.
    pub fn devices(&self) -> impl Iterator<Item = (DeviceId, &str, &D)> {
        self.slots.iter().enumerate().map(|(n, slot)| (DeviceId(n), &*slot.name, &slot.device))
    }

    /// A device, to be looked at.
    pub fn device(&self, device: DeviceId) -> Option<&D> {
        self.slots.get(device.0).map(|slot| &slot.device)
    }

    /// Joins two ports. A port that was joined to another is taken off that link.
    pub fn join(&mut self, a: (DeviceId, usize), b: (DeviceId, usize), settings: LinkSettings) -> LinkId {
        let number = self.links.len();
        self.links.push(Link::new([(a.0.0, a.1), (b.0.0, b.1)], settings, self.seed, number));
        for (device, port) in [a, b] {
            if let Some(slot) = self.slots.get_mut(device.0) {
                if slot.ports.len() <= port {
                    slot.ports.resize(port + 1, None);
                }
                if let Some(place) = slot.ports.get_mut(port) {
                    *place = Some(number);
                }
            }
        }
        LinkId(number)
    }

    /// The link at a port.
    pub fn link_at(&self, device: DeviceId, port: usize) -> Option<LinkId> {
        self.slots.get(device.0)?.ports.get(port).copied().flatten().map(LinkId)
    }

    /// A link's settings, to be changed; frames that are on their way arrive all the same.
    pub fn link_mut(&mut self, link: LinkId) -> Option<&mut LinkSettings> {
        self.links.get_mut(link.0).map(|link| &mut link.settings)
    }

    /// What a link has done so far.
    pub fn link_counters(&self, link: LinkId) -> LinkCounters {
        self.links.get(link.0).map(|link| link.counters).unwrap_or_default()
    }

    /// Cuts a link.
    pub fn cut(&mut self, link: LinkId) {
        if let Some(settings) = self.link_mut(link) {
            settings.up = false;
        }
    }

    /// Joins a link again.
    pub fn restore(&mut self, link: LinkId) {
        if let Some(settings) = self.link_mut(link) {
            settings.up = true;
        }
    }

    /// Lets somebody see every frame.
    pub fn set_tap(&mut self, tap: Option<Box<dyn Tap>>) -> Option<Box<dyn Tap>> {
        std::mem::replace(&mut self.tap, tap)
    }

    /// Acts on a device at the present time; what it sends because of that goes out.
    pub fn with<R>(
        &mut self,
        device: DeviceId,
        act: impl FnOnce(&mut D, Duration, &mut Outbox) -> R,
    ) -> Option<R> {
        let slot = self.slots.get_mut(device.0)?;
        let result = act(&mut slot.device, self.now, &mut self.outbox);
        self.after(device.0);
        Some(result)
    }

    /// Sends what a device put out and sees to its timer.
    fn after(&mut self, device: usize) {
        let frames: Vec<(usize, Packet)> = self.outbox.drain().collect();
        for (port, frame) in frames {
            self.transmit(device, port, frame);
        }
        let Some(slot) = self.slots.get_mut(device) else { return };
        let Some(at) = slot.device.next_timer() else { return };
        let at = at.max(self.now);
        if slot.timer.is_none_or(|known| at < known) {
            slot.timer = Some(at);
            self.push(at, What::Timer { device });
        }
    }

    fn push(&mut self, at: Duration, what: What) {
        let order = self.order;
        self.order += 1;
        self.events.push(Reverse(Event { at, order, what }));
    }

    fn transmit(&mut self, device: usize, port: usize, frame: Packet) {
        let now = self.now;
        let link = self.slots.get(device).and_then(|slot| slot.ports.get(port).copied().flatten());
        let link = link.and_then(|number| self.links.get_mut(number));
        let travel = match link {
            Some(link) => link.carry(now, (device, port), frame.len()),
            None => Travel::Lost(LinkDrop::NoLink),
        };
        let seen = Seen { at: now, device: DeviceId(device), port, leaves: true, frame: frame.data() };
        if let Some(tap) = &mut self.tap {
            tap.seen(&seen);
            if let Travel::Lost(reason) = travel {
                tap.lost(&seen, reason);
            }
        }
        if let Travel::Arrives { to: (device, port), first, again } = travel {
            if let Some(again) = again {
                self.push(again, What::Frame { device, port, frame: frame.clone() });
            }
            self.push(first, What::Frame { device, port, frame });
        }
    }

    /// When something happens next.
    pub fn next_event(&self) -> Option<Duration> {
        self.events.peek().map(|Reverse(event)| event.at)
    }

    /// Lets the next thing happen; `false` when nothing will ever happen by itself.
    pub fn step(&mut self) -> bool {
        let Some(Reverse(event)) = self.events.pop() else { return false };
        self.now = self.now.max(event.at);
        let now = self.now;
        let device = match event.what {
            What::Frame { device, port, frame } => {
                if let Some(tap) = &mut self.tap {
                    let seen =
                        Seen { at: now, device: DeviceId(device), port, leaves: false, frame: frame.data() };
                    tap.seen(&seen);
                }
                if let Some(slot) = self.slots.get_mut(device) {
                    slot.device.receive(now, port, frame, &mut self.outbox);
                }
                device
            }
            What::Timer { device } => {
                if let Some(slot) = self.slots.get_mut(device) {
                    if slot.timer.is_some_and(|timer| timer <= now) {
                        slot.timer = None;
                    }
                    slot.device.poll(now, &mut self.outbox);
                }
                device
            }
        };
        self.after(device);
        true
    }

    /// Lets things happen up to a time, which it is then.
    pub fn run_until(&mut self, time: Duration) {
        while self.next_event().is_some_and(|at| at <= time) {
            self.step();
        }
        self.now = self.now.max(time);
    }

    /// Lets things happen until a condition holds, at most up to a time; whether it holds.
    pub fn run_while(&mut self, until: Duration, mut goes_on: impl FnMut(&Self) -> bool) -> bool {
        while goes_on(self) {
            if self.next_event().is_none_or(|at| at > until) {
                self.now = self.now.max(until);
                return !goes_on(self);
            }
            self.step();
        }
        true
    }
}
