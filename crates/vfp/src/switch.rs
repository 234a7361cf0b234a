//! The switch: frames come in by a port, pass its layers, and leave by other ports' layers.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use rustc_hash::FxHashMap;
use uuid::Uuid;
use wire::Packet;

use crate::DropReason;
use crate::flow::key::Key;
use crate::flow::quick::{Careful, Extra, Seen, careful, quick};
use crate::model::{Direction, Guards, PoolKey, PortKind, SwitchSettings};
use crate::neighbor::Neighbor;
use crate::port::{Context, FlowFamily, Piece, Port, Step};
use crate::shared::Shared;
use crate::trace::{Env, Stage};

/// Packets that are worked on together, so that their cache misses overlap.
const BATCH: usize = 32;

/// How often a packet may be sent back.
const MAX_HAIRPINS: u8 = 8;

/// A packet that waits for the host's stack to resolve a next hop. Give it to [`Switch::resume`] afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The port whose layers it did not pass.
    pub port: Uuid,
    /// Which way it was going there.
    pub direction: Direction,
    /// The packet as it came to them.
    pub packet: Packet,
    /// What is not resolved.
    pub next_hop: IpAddr,
    /// How often it was sent back.
    pub hairpins: u8,
}

/// What comes out of a switch. Drained by the caller; kept between calls, it costs no allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Frames for adapters, by port, in order.
    pub delivered: Vec<(Uuid, Packet)>,
    /// Packets that wait.
    pub pending: Vec<Pending>,
}

/// What is known of a packet on its way through the switch.
#[derive(Clone, Copy)]
struct Tag {
    group: u64,
    hairpins: u8,
    /// TCP flags as last read, else 0.
    tcp: u8,
    /// What became of it at the last port.
    step: Step,
}

impl Tag {
    const fn new(group: u64, hairpins: u8) -> Self {
        Self { group, hairpins, tcp: 0, step: Step::Drop }
    }
}

/// A frame of the switch's own making, or one that passes without layers.
pub(crate) enum Aside {
    /// To an adapter.
    Deliver(u16, Packet),
    /// To a port's IN layers.
    Enter(u16, Packet),
}

/// A virtual switch.
#[derive(Default)]
pub struct Switch {
    pub(crate) shared: Shared,
    pub(crate) ports: Vec<Option<Port>>,
    pub(crate) pool_owner: FxHashMap<PoolKey, Uuid>,
    next_group: u64,
    queue: VecDeque<(Direction, u16, Packet, Tag)>,
    work: Vec<Packet>,
    tags: Vec<Tag>,
    /// Room for what is read of a batch.
    reads: Box<[Read; BATCH]>,
}

impl Switch {
    /// A switch without ports.
    pub fn new(settings: SwitchSettings) -> Self {
        Self { shared: Shared { settings, ..Shared::default() }, ..Self::default() }
    }

    /// The settings.
    pub fn settings(&self) -> &SwitchSettings {
        &self.shared.settings
    }

    pub(crate) fn port(&self, name: Uuid) -> Option<&Port> {
        let index = *self.shared.port_of.get(&name)?;
        self.ports.get(usize::from(index))?.as_ref()
    }

    pub(crate) fn port_mut(&mut self, name: Uuid) -> Option<&mut Port> {
        let index = *self.shared.port_of.get(&name)?;
        self.ports.get_mut(usize::from(index))?.as_mut()
    }

    /// Frames that the adapter on a port sends; of the external port: that arrive from the wire. Drains `packets`.
    /// Frames from a port that is not there are lost.
    pub fn transmit(&mut self, port: Uuid, packets: &mut Vec<Packet>, env: &mut Env<'_>, out: &mut Output) {
        let Some(&index) = self.shared.port_of.get(&port) else {
            packets.clear();
            return;
        };
        let first = self.next_group + 1;
        self.next_group += packets.len() as u64;
        self.tags.clear();
        self.tags.extend((first..=self.next_group).map(|group| Tag::new(group, 0)));
        self.pass(Direction::Out, index, packets, env, out);
        self.drain_queue(env, out);
    }

    /// Takes packets up again that waited for a next hop.
    pub fn resume(&mut self, pending: Vec<Pending>, env: &mut Env<'_>, out: &mut Output) {
        for waiting in pending {
            let Some(&index) = self.shared.port_of.get(&waiting.port) else { continue };
            self.next_group += 1;
            self.tags.clear();
            self.tags.push(Tag::new(self.next_group, waiting.hairpins));
            self.pass(waiting.direction, index, &mut vec![waiting.packet], env, out);
            self.drain_queue(env, out);
        }
    }

    fn drain_queue(&mut self, env: &mut Env<'_>, out: &mut Output) {
        if self.queue.is_empty() {
            return;
        }
        let mut work = std::mem::take(&mut self.work);
        while let Some((direction, port, packet, tag)) = self.queue.pop_front() {
            self.tags.clear();
            self.tags.push(tag);
            work.push(packet);
            // Neighbours in the queue that go the same way are one batch.
            while work.len() < BATCH
                && self.queue.front().is_some_and(|(way, to, ..)| *way == direction && *to == port)
            {
                if let Some((_, _, packet, tag)) = self.queue.pop_front() {
                    self.tags.push(tag);
                    work.push(packet);
                }
            }
            self.pass(direction, port, &mut work, env, out);
        }
        self.work = work;
    }

    /// Passes packets through the layers of a port, in batches, in place; what comes of them is queued or delivered.
    /// `self.tags` are theirs.
    fn pass(
        &mut self,
        direction: Direction,
        index: u16,
        packets: &mut Vec<Packet>,
        env: &mut Env<'_>,
        out: &mut Output,
    ) {
        let Some(Some(port)) = self.ports.get_mut(usize::from(index)) else {
            packets.clear();
            return;
        };
        let now = millis(env.now);
        let watched = env.observer.as_ref().is_some_and(|observer| observer.wants_events());
        let mut ctx = Context {
            shared: &self.shared,
            now,
            time: env.now,
            routes: &mut *env.routes,
            observer: match &mut env.observer {
                Some(observer) => Some(&mut **observer),
                None => None,
            },
            watched,
            group: 0,
            hairpins: 0,
            made: Vec::new(),
            next_hops: Vec::new(),
            pieces: Vec::new(),
        };
        let mut tags = std::mem::take(&mut self.tags);
        let mut asides: Vec<Aside> = Vec::new();
        for (packets, tags) in packets.chunks_mut(BATCH).zip(tags.chunks_mut(BATCH)) {
            batch(port, direction, packets, tags, &mut self.reads, &mut asides, &mut ctx);
        }
        let (made, pieces) = (std::mem::take(&mut ctx.made), std::mem::take(&mut ctx.pieces));
        let next_hops = std::mem::take(&mut ctx.next_hops);
        let name = port.spec.name;
        let mut place = Place { direction, index, name, watched, next_hops: next_hops.into_iter() };
        for (packet, tag) in packets.drain(..).zip(&tags) {
            match tag.step {
                Step::Drop => {}
                // By far the most: out to a port whose layers cannot concern it.
                Step::Forward(to) if direction == Direction::Out && !watched && env.observer.is_none() => {
                    match self.ports.get_mut(usize::from(to)) {
                        Some(Some(port)) if port.plain_in => {
                            port.let_through(packet.len(), tag.tcp);
                            out.delivered.push((port.spec.name, packet));
                        }
                        _ => self.queue.push_back((Direction::In, to, packet, *tag)),
                    }
                }
                _ => self.place(&mut place, packet, *tag, out, env),
            }
        }
        self.tags = tags;
        if !pieces.is_empty() {
            for Piece { target, packet, group, hairpins } in pieces {
                let tag = Tag { step: Step::Forward(target), ..Tag::new(group, hairpins) };
                self.place(&mut place, packet, tag, out, env);
            }
        }
        if !(made.is_empty() && asides.is_empty()) {
            self.send_asides(index, name, made, asides, out);
        }
    }

    /// Frames that a port made itself.
    #[cold]
    fn send_asides(
        &mut self,
        index: u16,
        name: Uuid,
        made: Vec<(Direction, Packet)>,
        asides: Vec<Aside>,
        out: &mut Output,
    ) {
        let tag = Tag::new(self.next_group, 0);
        for (way, packet) in made {
            match way {
                Direction::In => out.delivered.push((name, packet)),
                Direction::Out => self.answer(index, packet, tag),
            }
        }
        for aside in asides {
            match aside {
                Aside::Deliver(port, packet) => {
                    if let Some(brief) = self.shared.brief(port) {
                        out.delivered.push((brief.name, packet));
                    }
                }
                Aside::Enter(port, packet) => self.queue.push_back((Direction::In, port, packet, tag)),
            }
        }
    }

    /// A frame that a port answers with goes to whoever has its destination MAC.
    fn answer(&mut self, index: u16, packet: Packet, tag: Tag) {
        let mac = wire::bytes::get_mac(packet.data(), 0).unwrap_or_default();
        if let crate::shared::Way::Port(port, _) = self.shared.way_of_mac(index, mac) {
            self.queue.push_back((Direction::In, port, packet, tag));
        }
    }

    /// Does with a packet what its last port decided.
    fn place(
        &mut self,
        place: &mut Place,
        packet: Packet,
        mut tag: Tag,
        out: &mut Output,
        env: &mut Env<'_>,
    ) {
        match (tag.step, place.direction) {
            (Step::Drop, _) => {}
            (Step::Forward(_), Direction::In) | (Step::Back, Direction::Out) => {
                out.delivered.push((place.name, packet));
            }
            (Step::Forward(to), Direction::Out) => {
                // Nothing can happen to it in the layers of a port without rules.
                if !place.watched
                    && let Some(Some(port)) = self.ports.get_mut(usize::from(to))
                    && port.plain_in
                {
                    port.let_through(packet.len(), tag.tcp);
                    if let Some(observer) = &mut env.observer {
                        for stage in [Stage::Enter, Stage::Leave] {
                            let at = port.sighting_at(Direction::In, stage, tag.group, env.now, &packet);
                            observer.seen(&at, packet.data());
                        }
                    }
                    out.delivered.push((port.spec.name, packet));
                    return;
                }
                self.queue.push_back((Direction::In, to, packet, tag));
            }
            (Step::Flood, _) => {
                for port in self.shared.flooded(place.index, false) {
                    self.queue.push_back((Direction::In, port, packet.clone(), tag));
                }
            }
            (Step::Back | Step::Into(_), direction) => {
                tag.hairpins += 1;
                if tag.hairpins > MAX_HAIRPINS {
                    self.drop_looping(place, &packet, tag, env);
                    return;
                }
                match tag.step {
                    Step::Into(port) => self.queue.push_back((Direction::In, port, packet, tag)),
                    _ => self.queue.push_back((direction.reverse(), place.index, packet, tag)),
                }
            }
            (Step::Pending, direction) => {
                if let Some(next_hop) = place.next_hops.next() {
                    let (port, hairpins) = (place.name, tag.hairpins);
                    out.pending.push(Pending { port, direction, packet, next_hop, hairpins });
                }
            }
        }
    }

    #[cold]
    fn drop_looping(&mut self, place: &Place, packet: &Packet, tag: Tag, env: &mut Env<'_>) {
        let Some(Some(port)) = self.ports.get_mut(usize::from(place.index)) else { return };
        port.counters[place.direction.index()].drops[DropReason::HairpinLoop.index()] += 1;
        let at = port.sighting_at(place.direction, Stage::Leave, tag.group, env.now, packet);
        if let Some(observer) = &mut env.observer {
            observer.dropped(&at, DropReason::HairpinLoop, None, packet.data());
        }
    }

    /// Looks at some flows of each port and removes those that were idle for too long: `budget` of each family.
    pub fn sweep(&mut self, now: Duration, budget: u32) {
        let now = millis(now);
        for port in self.ports.iter_mut().flatten() {
            port.sweep(now, budget);
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a clock of 49 days that goes round; differences are taken"
)]
fn millis(now: Duration) -> u32 {
    now.as_millis() as u32
}

/// Where packets stand that a port has worked on.
struct Place {
    direction: Direction,
    index: u16,
    name: Uuid,
    watched: bool,
    next_hops: std::vec::IntoIter<IpAddr>,
}

/// What the first pass over a batch read of a packet.
#[derive(Clone, Copy, Default)]
struct Read {
    /// It is plain TCP or UDP over IPv4.
    quick: bool,
    seen: Seen<[u8; 4]>,
    key: Key<[u8; 4]>,
    hash: u64,
    /// Where its flow probably is: see [`Table::candidate`](crate::flow::table::Table::candidate).
    candidate: u32,
}

/// Reads a packet.
#[inline]
fn read(port: &mut Port, way: u8, packet: &Packet, vxlan: u16, read: &mut Read) {
    read.candidate = 0;
    let Some((ends, proto)) = quick(packet.data(), vxlan, &mut read.seen) else {
        read.quick = false;
        return;
    };
    let tunnel = if vxlan == 0 { 0 } else { port.tunnel(read.seen.tunnel.as_ref()) };
    let key = Key { ends, proto, direction: way, tunnel };
    read.quick = true;
    read.hash = port.hash(&key);
    read.key = key;
}

/// Asks for a frame's headers to be brought near.
#[inline]
fn prefetch_frame(frame: &[u8]) {
    if let Some(first) = frame.first() {
        crate::flow::table::prefetch(first);
    }
}

fn batch(
    port: &mut Port,
    direction: Direction,
    packets: &mut [Packet],
    tags: &mut [Tag],
    reads: &mut [Read; BATCH],
    asides: &mut Vec<Aside>,
    ctx: &mut Context<'_, '_>,
) {
    port.spare_tunnels();
    let vxlan = port.vxlan_port(ctx.shared);
    let way = direction.number();
    let counters = &mut port.counters[direction.index()];
    counters.packets += packets.len() as u64;
    counters.bytes += packets.iter().map(|packet| packet.len() as u64).sum::<u64>();
    let single = packets.len() == 1;
    if !single {
        for packet in &*packets {
            prefetch_frame(packet.data());
        }
    }
    for (packet, place) in packets.iter().zip(reads.iter_mut()) {
        read(port, way, packet, vxlan, place);
        if place.quick && !single {
            <[u8; 4]>::flows(port).table.prefetch_slot(place.hash);
        }
    }
    if !single {
        for read in reads.iter_mut().take(packets.len()).filter(|read| read.quick) {
            read.candidate = <[u8; 4]>::flows(port).table.candidate(read.hash);
        }
    }
    for ((packet, tag), read) in packets.iter_mut().zip(tags).zip(&*reads) {
        one(port, direction, packet, tag, read, asides, ctx);
    }
}

/// One packet.
#[inline]
fn one(
    port: &mut Port,
    direction: Direction,
    packet: &mut Packet,
    tag: &mut Tag,
    read: &Read,
    asides: &mut Vec<Aside>,
    ctx: &mut Context<'_, '_>,
) {
    ctx.group = tag.group;
    ctx.hairpins = tag.hairpins;
    if ctx.observer.is_some() {
        see(port, direction, Stage::Enter, packet, ctx);
    }
    let step = if read.quick {
        let Read { seen, key, hash, candidate, .. } = read;
        tag.tcp = seen.meta.tcp;
        if seen.meta.tcp & 7 != 0 {
            port.counters[direction.index()].tcp(seen.meta.tcp);
        }
        port.run(direction, seen, &Extra::default(), key, (*hash, *candidate), packet, ctx)
    } else {
        odd(port, direction, packet, tag, asides, ctx)
    };
    tag.step = if step == Step::Forward(crate::port::FLOOD - 1) { Step::Flood } else { step };
    if ctx.observer.is_some() && step != Step::Drop {
        see(port, direction, Stage::Leave, packet, ctx);
    }
}

#[cold]
fn see(port: &Port, direction: Direction, stage: Stage, packet: &Packet, ctx: &mut Context<'_, '_>) {
    let at = port.sighting_at(direction, stage, ctx.group, ctx.time, packet);
    if let Some(observer) = &mut ctx.observer {
        observer.seen(&at, packet.data());
    }
}

/// A frame that is not plain TCP or UDP over IPv4.
#[cold]
fn odd(
    port: &mut Port,
    direction: Direction,
    packet: &mut Packet,
    tag: &mut Tag,
    asides: &mut Vec<Aside>,
    ctx: &mut Context<'_, '_>,
) -> Step {
    let Ok(frame) = wire::parse(packet.data()) else {
        return port.drop(direction, DropReason::Malformed, None, packet, ctx);
    };
    if !port.spec.enabled {
        return port.drop(direction, DropReason::BlockedPort, None, packet, ctx);
    }
    if let Some(reason) = port.guard_frame(direction, frame.l2.dst, frame.l2.src) {
        return port.drop(direction, reason, None, packet, ctx);
    }
    if let Some(neighbor) = Neighbor::of(packet.data(), &frame) {
        return match direction {
            Direction::In => Step::Forward(0),
            Direction::Out => crate::neighbor::out(port, &neighbor, packet, asides, ctx),
        };
    }
    let vxlan = port.vxlan_port(ctx.shared);
    match careful(packet.data(), &frame, vxlan) {
        None => port.drop(direction, DropReason::Malformed, None, packet, ctx),
        Some(Careful::Other) => other(port, direction, frame.l2.dst, packet, ctx),
        Some(Careful::V4(seen, extra)) => ip(port, direction, seen, extra, packet, tag, ctx),
        Some(Careful::V6(seen, extra)) => ip(port, direction, seen, extra, packet, tag, ctx),
    }
}

/// A frame that is neither IP nor ARP goes by its MAC.
fn other(
    port: &mut Port,
    direction: Direction,
    to: wire::Mac,
    packet: &Packet,
    ctx: &mut Context<'_, '_>,
) -> Step {
    if port.spec.guards.contains(Guards::BLOCK_NON_IP) {
        return port.drop(direction, DropReason::Guard, None, packet, ctx);
    }
    if direction == Direction::In {
        return Step::Forward(0);
    }
    match ctx.shared.way_of_mac(port.index, to) {
        crate::shared::Way::Port(to, _) => Step::Forward(to),
        crate::shared::Way::Flood => Step::Flood,
        crate::shared::Way::Nowhere => port.drop(direction, DropReason::Forwarding, None, packet, ctx),
    }
}

fn ip<A: FlowFamily>(
    port: &mut Port,
    direction: Direction,
    mut seen: Seen<A>,
    extra: Extra,
    packet: &mut Packet,
    tag: &mut Tag,
    ctx: &mut Context<'_, '_>,
) -> Step {
    tag.tcp = seen.meta.tcp;
    if seen.meta.tcp & 7 != 0 {
        port.counters[direction.index()].tcp(seen.meta.tcp);
    }
    let tunnel = port.tunnel(seen.tunnel.as_ref());
    if let Some(id) = extra.fragment
        && !port.join_fragments(direction, &mut seen, extra, (id, tunnel), ctx.now)
    {
        return port.drop(direction, DropReason::Fragment, None, packet, ctx);
    }
    let key = seen.key(direction.number(), tunnel);
    if extra.is_icmp_message() {
        return port.message(direction, &seen, extra, key, packet, ctx);
    }
    let hash = port.hash(&key);
    port.run(direction, &seen, &extra, &key, (hash, 0), packet, ctx)
}

/// Whether frames of a kind of port come from the wire.
pub(crate) fn is_wire(kind: PortKind) -> bool {
    kind == PortKind::External
}
