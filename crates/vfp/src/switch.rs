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
use crate::port::{Context, FlowFamily, Port, Step};
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

/// A packet on its way through the switch.
struct Item {
    packet: Packet,
    group: u64,
    hairpins: u8,
}

/// A frame of the switch's own making, or one that passes without layers.
pub(crate) enum Extra2 {
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
    queue: VecDeque<(Direction, u16, Item)>,
    work: Vec<Item>,
    done: Vec<(Item, Step)>,
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
        let mut work = std::mem::take(&mut self.work);
        while !packets.is_empty() {
            let count = packets.len().min(BATCH);
            for packet in packets.drain(..count) {
                self.next_group += 1;
                work.push(Item { packet, group: self.next_group, hairpins: 0 });
            }
            self.pass(Direction::Out, index, &mut work, env, out);
            self.drain_queue(&mut work, env, out);
        }
        self.work = work;
    }

    /// Takes packets up again that waited for a next hop.
    pub fn resume(&mut self, pending: Vec<Pending>, env: &mut Env<'_>, out: &mut Output) {
        let mut work = std::mem::take(&mut self.work);
        for waiting in pending {
            let Some(&index) = self.shared.port_of.get(&waiting.port) else { continue };
            self.next_group += 1;
            let item = Item { packet: waiting.packet, group: self.next_group, hairpins: waiting.hairpins };
            work.push(item);
            self.pass(Direction::Out, index, &mut work, env, out);
            self.drain_queue(&mut work, env, out);
        }
        self.work = work;
    }

    fn drain_queue(&mut self, work: &mut Vec<Item>, env: &mut Env<'_>, out: &mut Output) {
        while let Some((direction, port, item)) = self.queue.pop_front() {
            work.push(item);
            // Neighbours in the queue that go the same way are one batch.
            while work.len() < BATCH
                && self.queue.front().is_some_and(|(way, to, _)| *way == direction && *to == port)
            {
                if let Some((_, _, item)) = self.queue.pop_front() {
                    work.push(item);
                }
            }
            self.pass(direction, port, work, env, out);
        }
    }

    /// Passes a batch through the layers of a port; what comes of it is queued or delivered.
    fn pass(
        &mut self,
        direction: Direction,
        index: u16,
        work: &mut Vec<Item>,
        env: &mut Env<'_>,
        out: &mut Output,
    ) {
        let Some(Some(port)) = self.ports.get_mut(usize::from(index)) else {
            work.clear();
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
            made: Vec::new(),
            pieces: Vec::new(),
        };
        let mut done = std::mem::take(&mut self.done);
        let mut extras: Vec<Extra2> = Vec::new();
        batch(port, direction, work, &mut done, &mut extras, &mut ctx);
        let (made, pieces) = (std::mem::take(&mut ctx.made), std::mem::take(&mut ctx.pieces));
        let name = port.spec.name;
        for (item, step) in done.drain(..) {
            self.place(direction, index, name, item, step, out, env);
        }
        self.done = done;
        for (target, packet) in pieces {
            let item = Item { packet, group: self.next_group, hairpins: 0 };
            self.place(direction, index, name, item, Step::Forward(target), out, env);
        }
        for (way, packet) in made {
            let item = Item { packet, group: self.next_group, hairpins: 0 };
            match way {
                Direction::In => out.delivered.push((name, item.packet)),
                Direction::Out => self.answer(index, item),
            }
        }
        for extra in extras {
            match extra {
                Extra2::Deliver(port, packet) => {
                    if let Some(brief) = self.shared.brief(port) {
                        out.delivered.push((brief.name, packet));
                    }
                }
                Extra2::Enter(port, packet) => {
                    let item = Item { packet, group: self.next_group, hairpins: 0 };
                    self.queue.push_back((Direction::In, port, item));
                }
            }
        }
    }

    /// A frame that a port answers with goes to whoever has its destination MAC.
    fn answer(&mut self, index: u16, item: Item) {
        let mac = wire::bytes::get_mac(item.packet.data(), 0).unwrap_or_default();
        if let crate::shared::Way::Port(port, _) = self.shared.way_of_mac(index, mac) {
            self.queue.push_back((Direction::In, port, item));
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a packet and where it stands")]
    fn place(
        &mut self,
        direction: Direction,
        index: u16,
        name: Uuid,
        mut item: Item,
        step: Step,
        out: &mut Output,
        env: &mut Env<'_>,
    ) {
        match (step, direction) {
            (Step::Drop, _) => {}
            (Step::Forward(_), Direction::In) => out.delivered.push((name, item.packet)),
            (Step::Flood, _) => {
                for port in self.shared.flooded(index, false) {
                    let copy = Item { packet: item.packet.clone(), ..item };
                    self.queue.push_back((Direction::In, port, copy));
                }
            }
            (Step::Forward(port) | Step::Into(port), _) => self.queue.push_back((Direction::In, port, item)),
            (Step::Back, Direction::In) => {
                item.hairpins += 1;
                if item.hairpins > MAX_HAIRPINS {
                    if let Some(Some(port)) = self.ports.get_mut(usize::from(index)) {
                        let drops = &mut port.counters[direction.index()].drops;
                        drops[DropReason::HairpinLoop.index()] += 1;
                        let at = crate::trace::Sighting {
                            port: name,
                            direction,
                            stage: Stage::Leave,
                            group: item.group,
                            now: env.now,
                        };
                        if let Some(observer) = &mut env.observer {
                            observer.dropped(&at, DropReason::HairpinLoop, None, item.packet.data());
                        }
                    }
                    return;
                }
                self.queue.push_back((Direction::Out, index, item));
            }
            (Step::Back, Direction::Out) => out.delivered.push((name, item.packet)),
            (Step::Pending(next_hop), _) => out.pending.push(Pending {
                port: name,
                packet: item.packet,
                next_hop,
                hairpins: item.hairpins,
            }),
        }
    }

    /// Looks at some flows of each port and removes those that were idle for too long.
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

/// What the first pass over a batch read of a packet.
#[derive(Clone, Copy)]
struct Read {
    seen: Seen<[u8; 4]>,
    key: Key<[u8; 4]>,
    hash: u64,
}

fn batch(
    port: &mut Port,
    direction: Direction,
    work: &mut Vec<Item>,
    done: &mut Vec<(Item, Step)>,
    extras: &mut Vec<Extra2>,
    ctx: &mut Context<'_, '_>,
) {
    let vxlan = port.vxlan_port(ctx.shared);
    let mut reads: [Option<Read>; BATCH] = [None; BATCH];
    let way = direction.index() as u8;
    for (item, read) in work.iter().zip(&mut reads) {
        if let Some(seen) = quick(item.packet.data(), vxlan) {
            let tunnel = port.tunnel(seen.tunnel.as_ref());
            let key = seen.key(way, tunnel);
            let hash = port.hash(&key);
            <[u8; 4]>::flows(port).table.prefetch_slot(hash);
            *read = Some(Read { seen, key, hash });
        }
    }
    if work.len() > 1 {
        for read in reads.iter().flatten() {
            <[u8; 4]>::flows(port).table.prefetch_pair(read.hash);
        }
    }
    for (mut item, read) in work.drain(..).zip(reads) {
        ctx.group = item.group;
        let length = item.packet.len() as u64;
        let counters = &mut port.counters[direction.index()];
        counters.packets += 1;
        counters.bytes += length;
        if let Some(observer) = &mut ctx.observer {
            let at = port.sighting_at(direction, Stage::Enter, ctx.group, ctx.time);
            observer.seen(&at, item.packet.data());
        }
        let step = match read {
            Some(read) => {
                if read.seen.meta.tcp & 7 != 0 {
                    port.counters[direction.index()].tcp(read.seen.meta.tcp);
                }
                let keyed = (read.key, read.hash);
                let hairpinned = item.hairpins > 0;
                port.run(direction, &read.seen, Extra::default(), keyed, hairpinned, &mut item.packet, ctx)
            }
            None => odd(port, direction, &mut item, extras, ctx),
        };
        let step = if step == Step::Forward(crate::port::FLOOD - 1) { Step::Flood } else { step };
        if step != Step::Drop
            && let Some(observer) = &mut ctx.observer
        {
            let at = port.sighting_at(direction, Stage::Leave, ctx.group, ctx.time);
            observer.seen(&at, item.packet.data());
        }
        done.push((item, step));
    }
}

/// A frame that is not plain TCP or UDP over IPv4.
#[cold]
fn odd(
    port: &mut Port,
    direction: Direction,
    item: &mut Item,
    extras: &mut Vec<Extra2>,
    ctx: &mut Context<'_, '_>,
) -> Step {
    let Ok(frame) = wire::parse(item.packet.data()) else {
        return port.drop(direction, DropReason::Malformed, None, &item.packet, ctx);
    };
    let broadcast = frame.l2.dst.is_multicast();
    if direction == Direction::In && broadcast && port.spec.guards.contains(Guards::BLOCK_BROADCAST) {
        return port.drop(direction, DropReason::Broadcast, None, &item.packet, ctx);
    }
    if let Some(neighbor) = Neighbor::of(item.packet.data(), &frame) {
        return match direction {
            Direction::In => Step::Forward(0),
            Direction::Out => crate::neighbor::out(port, &neighbor, &item.packet, extras, ctx),
        };
    }
    let vxlan = port.vxlan_port(ctx.shared);
    match careful(item.packet.data(), &frame, vxlan) {
        None => port.drop(direction, DropReason::Malformed, None, &item.packet, ctx),
        Some(Careful::Other) => other(port, direction, frame.l2.dst, item, ctx),
        Some(Careful::V4(seen, extra)) => ip(port, direction, seen, extra, item, ctx),
        Some(Careful::V6(seen, extra)) => ip(port, direction, seen, extra, item, ctx),
    }
}

/// A frame that is neither IP nor ARP goes by its MAC.
fn other(
    port: &mut Port,
    direction: Direction,
    to: wire::Mac,
    item: &Item,
    ctx: &mut Context<'_, '_>,
) -> Step {
    if !port.spec.enabled {
        return port.drop(direction, DropReason::BlockedPort, None, &item.packet, ctx);
    }
    if port.spec.guards.contains(Guards::BLOCK_NON_IP) {
        return port.drop(direction, DropReason::Guard, None, &item.packet, ctx);
    }
    if direction == Direction::In {
        return Step::Forward(0);
    }
    match ctx.shared.way_of_mac(port.index, to) {
        crate::shared::Way::Port(to, _) => Step::Forward(to),
        crate::shared::Way::Flood => Step::Flood,
        crate::shared::Way::Nowhere => port.drop(direction, DropReason::Forwarding, None, &item.packet, ctx),
    }
}

fn ip<A: FlowFamily>(
    port: &mut Port,
    direction: Direction,
    mut seen: Seen<A>,
    extra: Extra,
    item: &mut Item,
    ctx: &mut Context<'_, '_>,
) -> Step {
    if seen.meta.tcp & 7 != 0 {
        port.counters[direction.index()].tcp(seen.meta.tcp);
    }
    if let Some(id) = extra.fragment
        && !port.join_fragments(direction, &mut seen, extra, id, ctx.now)
    {
        return port.drop(direction, DropReason::Fragment, None, &item.packet, ctx);
    }
    let tunnel = port.tunnel(seen.tunnel.as_ref());
    let key = seen.key(direction.index() as u8, tunnel);
    let hash = port.hash(&key);
    port.run(direction, &seen, extra, (key, hash), item.hairpins > 0, &mut item.packet, ctx)
}

/// Whether frames of a kind of port come from the wire.
pub(crate) fn is_wire(kind: PortKind) -> bool {
    kind == PortKind::External
}
