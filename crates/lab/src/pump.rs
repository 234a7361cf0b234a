//! Moves frames between TAP devices and a switch, on one thread: many frames for each wake-up, in buffers that are
//! used again.
//!
//! It knows ports and devices; it must not know what HNS' objects mean or who made the devices.

mod join;
mod link;
mod slots;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use hcn::Guid;
use hcn::time::{Clock, Entropy};
use hns::Hns;
use node::windows::SwitchHandle;
use rustix::event::epoll;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use vfp::model::FlowSettings;
use vfp::{Env, Observer, Output, Pending};
use wire::Packet;

pub use link::{Degraded, LinkCounters};
pub use slots::Counters;

use crate::offload::{self, Ready};
use crate::shadow::Shadow;
use crate::tap::Tap;
use link::{Fate, Link};
use slots::{Slot, Slots};

/// Frames that are taken from one device before others have their turn.
const BATCH: usize = 64;
/// The longest frame: an IP packet of 64 KiB in a tunnel.
const LONGEST: usize = 66 * 1024;
/// Buffers that are kept.
const KEPT: usize = 256;
/// How often what has expired is looked for, and what HNS does by time alone.
const TICK: Duration = Duration::from_millis(100);
/// How many packets wait for next hops; the oldest goes first.
const WAITING: usize = 256;
/// The mark of the wake-up descriptor among the events.
const WAKE: u64 = u64::MAX;

/// Where a device belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Seat {
    /// The wire.
    External,
    /// The host's own interface.
    Host,
    /// An endpoint's.
    Endpoint(Guid),
}

/// What a pump is told.
pub enum Command {
    /// A device takes a seat; one that has it already leaves.
    Attach(Seat, Tap),
    /// A seat is empty again.
    Detach(Seat),
    /// Somebody watches the switch, or nobody.
    Observe(Option<Box<dyn Observer + Send>>),
    /// The wire is worse than it could be, or as it was.
    Degrade(Degraded),
    /// The counters are wanted.
    Count(Sender<Counted>),
    /// It ends.
    Stop,
}

/// What a pump has done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// For each device.
    pub seats: Vec<(Seat, Counters)>,
    /// Frames for ports that no device is behind.
    pub unseated: u64,
    /// What the degraded wire took.
    pub link: LinkCounters,
    /// How the wire is worse than it could be.
    pub degraded: Degraded,
}

/// Tells a pump what to do.
#[derive(Clone, Debug)]
pub struct Handle {
    commands: Sender<Command>,
    wake: Arc<OwnedFd>,
}

impl Handle {
    /// Hands a command over. Tells whether the pump still runs.
    pub fn tell(&self, command: Command) -> bool {
        let told = self.commands.send(command).is_ok();
        // A full counter wakes as well as one that could be increased.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        told
    }

    /// What it has done. None: it has ended.
    pub fn count(&self) -> Option<Counted> {
        let (sender, receiver) = std::sync::mpsc::channel();
        self.tell(Command::Count(sender));
        receiver.recv().ok()
    }
}

/// What a pump needs.
pub struct Parts {
    /// Tells which port is whose.
    pub hns: Hns,
    /// The switch.
    pub switch: Arc<SwitchHandle>,
    /// What the switch asks of the host.
    pub shadow: Shadow,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Decides which frames a degraded wire loses.
    pub entropy: Arc<dyn Entropy>,
    /// The switch takes up connections of one before it.
    pub resumes: bool,
}

/// The thread's state.
pub struct Pump {
    hns: Hns,
    switch: Arc<SwitchHandle>,
    shadow: Shadow,
    clock: Arc<dyn Clock>,
    link: Link,
    epoll: OwnedFd,
    wake: Arc<OwnedFd>,
    commands: Receiver<Command>,
    slots: Slots,
    /// The generation of ports that the slots follow.
    seen: Option<u64>,
    vxlan_port: u16,
    observer: Option<Box<dyn Observer + Send>>,
    pool: Vec<Packet>,
    batch: Vec<Packet>,
    output: Output,
    waiting: Vec<Pending>,
    settled: u64,
    tick: Duration,
    /// Until when connections of a switch before this one are taken up.
    resumes: Option<Duration>,
    unseated: u64,
}

impl Pump {
    /// A pump without devices.
    pub fn new(parts: Parts) -> io::Result<(Self, Handle)> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        let wake = Arc::new(rustix::event::eventfd(0, flags)?);
        epoll::add(&epoll, &wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)?;
        let (sender, commands) = std::sync::mpsc::channel();
        let handle = Handle { commands: sender, wake: Arc::clone(&wake) };
        let Parts { hns, switch, shadow, clock, entropy, resumes } = parts;
        // What was idle for longer would have been forgotten anyhow.
        let resumes = resumes.then(|| clock.now() + FlowSettings::default().default_ttl);
        let pump = Self {
            hns,
            switch,
            shadow,
            clock,
            link: Link::new(entropy),
            epoll,
            wake,
            commands,
            slots: Slots::default(),
            seen: None,
            vxlan_port: wire::vxlan::UDP_PORT,
            observer: None,
            pool: Vec::new(),
            batch: Vec::new(),
            output: Output::default(),
            waiting: Vec::new(),
            settled: 0,
            tick: Duration::ZERO,
            resumes,
            unseated: 0,
        };
        Ok((pump, handle))
    }

    /// Runs until it is stopped.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(BATCH);
        loop {
            let timeout = self.timeout();
            events.clear();
            let waited =
                epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout));
            match waited {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let now = self.clock.now();
            self.shadow.at(now);
            for event in &events {
                match event.data.u64() {
                    WAKE => {
                        let mut counter = [0; 8];
                        // Whatever woke is found in the queue of commands.
                        let _ = rustix::io::read(&self.wake, &mut counter);
                        if self.obey()? {
                            return Ok(());
                        }
                    }
                    slot => self.receive(usize::try_from(slot).unwrap_or(usize::MAX), now),
                }
            }
            self.pass_time(now);
        }
    }

    fn timeout(&mut self) -> rustix::event::Timespec {
        let now = self.clock.now();
        let due = [Some(self.tick + TICK), self.shadow.next_timer(), self.link.next_due()];
        let due = due.into_iter().flatten().min().unwrap_or(now);
        let rest = due.saturating_sub(now).clamp(Duration::from_micros(50), TICK);
        rustix::event::Timespec { tv_sec: 0, tv_nsec: rest.subsec_nanos().into() }
    }

    /// Does what it was told. True: it is to end.
    fn obey(&mut self) -> io::Result<bool> {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Attach(seat, tap) => {
                    self.detach(seat);
                    let slot = self.slots.add(seat, tap);
                    if let Some(tap) = self.slots.tap(slot) {
                        let data = epoll::EventData::new_u64(slot as u64);
                        epoll::add(&self.epoll, tap, data, epoll::EventFlags::IN)?;
                    }
                    self.seen = None;
                }
                Command::Detach(seat) => self.detach(seat),
                Command::Observe(observer) => self.observer = observer,
                Command::Degrade(degraded) => self.link.set(degraded),
                Command::Count(sender) => {
                    let counted = Counted {
                        seats: self.slots.counters().collect(),
                        unseated: self.unseated,
                        link: self.link.counters(),
                        degraded: self.link.degraded(),
                    };
                    // Whoever asked may be gone.
                    let _ = sender.send(counted);
                }
                Command::Stop => return Ok(true),
            }
        }
        self.follow();
        Ok(false)
    }

    fn detach(&mut self, seat: Seat) {
        if let Some(slot) = self.slots.remove(seat) {
            // Closing would take it out too, but another process may have the device open as well.
            let _ = epoll::delete(&self.epoll, slot.tap.as_fd());
        }
    }

    /// Takes over which port is whose.
    fn follow(&mut self) {
        let generation = self.switch.generation();
        if self.seen == Some(generation) {
            return;
        }
        self.seen = Some(generation);
        let (external, host) = (self.hns.external_port(), self.hns.host_port());
        let endpoints = self.hns.endpoint_ports();
        self.slots.seat(|seat| match seat {
            Seat::External => Some(external),
            Seat::Host => Some(host),
            Seat::Endpoint(id) => endpoints.iter().find(|port| port.endpoint == id).map(|port| port.port),
        });
    }

    /// What happens by time alone.
    fn pass_time(&mut self, now: Duration) {
        if now.saturating_sub(self.tick) >= TICK {
            self.tick = now;
            self.hns.catch_up();
            self.switch.sweep(now);
            if self.resumes.take_if(|until| *until <= now).is_some()
                && let Err(error) = self.switch.resume_connections(false)
            {
                tracing::error!(%error, "Connections of before are still taken up");
            }
            self.vxlan_port = self.switch.with(|switch| switch.settings().vxlan_port);
            self.follow();
        }
        self.shadow.poll();
        self.ask();
        self.resume(now);
        while let Some((inbound, packet)) = self.link.take_due(now) {
            if inbound {
                let port = self.hns.external_port();
                self.transmit(port, vec![packet], now);
            } else {
                self.write_external(packet);
            }
        }
    }

    /// Takes frames from a device and passes them through the switch.
    fn receive(&mut self, slot: usize, now: Duration) {
        let mut batch = std::mem::take(&mut self.batch);
        let Some(Slot { seat, port, tap, counters }) = self.slots.get_mut(slot) else { return };
        let (external, port) = (*seat == Seat::External, *port);
        let header = tap.abilities().header();
        while batch.len() < BATCH {
            let mut packet = self.pool.pop().unwrap_or_else(|| Packet::with_room(LONGEST));
            if packet.refill(header, |room| tap.read(room)).is_err() || packet.is_empty() {
                self.pool.push(packet);
                break;
            }
            let mut head = [0; offload::LONGEST];
            if let Some(room) = head.get_mut(..header) {
                room.copy_from_slice(packet.prefix(header));
            }
            offload::take(&head, &mut packet, self.vxlan_port);
            counters.received(packet.len());
            if external && self.link.is_degraded() {
                match self.link.fate(now, true, packet) {
                    Fate::Passes(packet) => batch.push(packet),
                    Fate::Lost(packet) => self.pool.push(packet),
                    Fate::Later => {}
                }
            } else {
                batch.push(packet);
            }
        }
        // Whoever watches sees what was sent.
        if self.observer.is_none() {
            join::datagrams(&mut batch, &mut self.pool, self.vxlan_port);
        }
        if let Some(port) = port {
            batch = self.transmit(port, batch, now);
        } else {
            self.pool.append(&mut batch);
        }
        self.pool.truncate(KEPT);
        self.batch = batch;
    }

    /// Passes frames through the switch and writes what comes out. Gives the emptied list back.
    fn transmit(&mut self, port: Uuid, mut packets: Vec<Packet>, now: Duration) -> Vec<Packet> {
        if !packets.is_empty() {
            self.act(now, |switch, env, output| switch.transmit(port, &mut packets, env, output));
        }
        packets
    }

    /// Moves what waited for a next hop on once there is news of one.
    fn resume(&mut self, now: Duration) {
        if self.waiting.is_empty() || self.settled == self.shadow.settled() {
            return;
        }
        self.settled = self.shadow.settled();
        let waiting = std::mem::take(&mut self.waiting);
        self.act(now, |switch, env, output| switch.resume(waiting, env, output));
    }

    fn act(&mut self, now: Duration, act: impl FnOnce(&SwitchHandle, &mut Env<'_>, &mut Output)) {
        // What begins to wait in here waits for news from now on.
        if self.waiting.is_empty() {
            self.settled = self.shadow.settled();
        }
        let observer = self.observer.as_deref_mut().map(|observer| observer as &mut dyn Observer);
        let mut env = Env { now, routes: &mut self.shadow, observer };
        act(&self.switch, &mut env, &mut self.output);
        let mut output = std::mem::take(&mut self.output);
        for (port, packet) in output.delivered.drain(..) {
            self.deliver(port, packet, now);
        }
        for mut pending in output.pending.drain(..) {
            // A buffer for the largest frame is too much to wait with.
            if pending.packet.capacity() > 4 * pending.packet.len() {
                let small = pending.packet.clone();
                self.pool.push(std::mem::replace(&mut pending.packet, small));
            }
            self.waiting.push(pending);
        }
        let surplus = self.waiting.len().saturating_sub(WAITING);
        self.waiting.drain(..surplus);
        self.output = output;
        self.ask();
    }

    /// Sends the shadow's questions by the host's port.
    fn ask(&mut self) {
        let questions = self.shadow.questions();
        if questions.is_empty() {
            return;
        }
        let (port, now) = (self.hns.host_port(), self.clock.now());
        self.transmit(port, questions, now);
    }

    fn deliver(&mut self, port: Uuid, mut packet: Packet, now: Duration) {
        let Some(slot) = self.slots.of_port(port) else {
            self.unseated += 1;
            return self.reuse(packet);
        };
        match slot.seat {
            Seat::External if self.link.is_degraded() => match self.link.fate(now, false, packet) {
                Fate::Passes(packet) => return self.write_external(packet),
                Fate::Lost(packet) => return self.reuse(packet),
                Fate::Later => return,
            },
            Seat::Host => self.shadow.hear(packet.data()),
            _ => {}
        }
        write(slot, &mut packet, self.vxlan_port);
        self.reuse(packet);
    }

    fn write_external(&mut self, mut packet: Packet) {
        if let Some(slot) = self.slots.of_seat(Seat::External) {
            write(slot, &mut packet, self.vxlan_port);
        }
        self.reuse(packet);
    }

    fn reuse(&mut self, packet: Packet) {
        if packet.capacity() >= LONGEST && self.pool.len() < KEPT {
            self.pool.push(packet);
        }
    }
}

/// Hands a frame to a device.
fn write(slot: &mut Slot, packet: &mut Packet, vxlan_port: u16) {
    let abilities = slot.tap.abilities();
    match offload::give(packet, abilities, vxlan_port) {
        Ready::Header(header) => write_with(slot, packet, &header),
        Ready::Cut => match wire::offload::segments(packet, vxlan_port) {
            Ok(pieces) => {
                for mut piece in pieces {
                    write_with(slot, &mut piece, &[0; offload::LONGEST]);
                }
            }
            Err(_) => slot.counters.refused += 1,
        },
    }
}

fn write_with(slot: &mut Slot, packet: &mut Packet, header: &[u8; offload::LONGEST]) {
    let (length, frame) = (slot.tap.abilities().header(), packet.len());
    let room = packet.push_or_grow(length);
    if let Some(header) = header.get(..length) {
        room.copy_from_slice(header);
    }
    match slot.tap.write(packet.data()) {
        Ok(_) => slot.counters.sent(frame),
        // The device is down, or the kernel has no memory left for it: as a full queue of an adapter.
        Err(_) => slot.counters.refused += 1,
    }
}
