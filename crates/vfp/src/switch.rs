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

/// A packet on its way through the switch.
struct Item {
    packet: Packet,
    group: u64,
    hairpins: u8,
    /// TCP flags as last read, else 0.
    tcp: u8,
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
    queue: VecDeque<(Direction, u16, Item)>,
    work: Vec<Item>,
    steps: Vec<Step>,
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
        let mut all = packets.drain(..);
        while all.len() > 0 {
            let count = all.len().min(BATCH);
            let first = self.next_group;
            self.next_group += count as u64;
            let groups = first + 1..=self.next_group;
            work.extend(all.by_ref().zip(groups).map(|(packet, group)| Item {
                packet,
                group,
                hairpins: 0,
                tcp: 0,
            }));
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
            work.push(Item {
                packet: waiting.packet,
                group: self.next_group,
                hairpins: waiting.hairpins,
                tcp: 0,
            });
            self.pass(waiting.direction, index, &mut work, env, out);
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
            hairpins: 0,
            made: Vec::new(),
            pieces: Vec::new(),
        };
        let mut steps = std::mem::take(&mut self.steps);
        let mut asides: Vec<Aside> = Vec::new();
        batch(port, direction, work, &mut steps, &mut asides, &mut ctx);
        let (made, pieces) = (std::mem::take(&mut ctx.made), std::mem::take(&mut ctx.pieces));
        let name = port.spec.name;
        for (item, step) in work.drain(..).zip(steps.drain(..)) {
            self.place(direction, index, name, item, step, out, env, watched);
        }
        self.steps = steps;
        for Piece { target, packet, group, hairpins } in pieces {
            let item = Item { packet, group, hairpins, tcp: 0 };
            self.place(direction, index, name, item, Step::Forward(target), out, env, watched);
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
        let group = self.next_group;
        for (way, packet) in made {
            match way {
                Direction::In => out.delivered.push((name, packet)),
                Direction::Out => self.answer(index, Item { packet, group, hairpins: 0, tcp: 0 }),
            }
        }
        for aside in asides {
            match aside {
                Aside::Deliver(port, packet) => {
                    if let Some(brief) = self.shared.brief(port) {
                        out.delivered.push((brief.name, packet));
                    }
                }
                Aside::Enter(port, packet) => {
                    self.queue.push_back((Direction::In, port, Item { packet, group, hairpins: 0, tcp: 0 }));
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

    #[inline]
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
        watched: bool,
    ) {
        match (step, direction) {
            (Step::Forward(_), Direction::In) | (Step::Back, Direction::Out) => {
                out.delivered.push((name, item.packet));
            }
            (Step::Forward(to), Direction::Out) => {
                // Nothing can happen to it in the layers of a port without rules.
                if !watched
                    && let Some(Some(port)) = self.ports.get_mut(usize::from(to))
                    && port.plain_in
                {
                    port.let_through(item.packet.len(), item.tcp);
                    if let Some(observer) = &mut env.observer {
                        for stage in [Stage::Enter, Stage::Leave] {
                            let at = port.sighting_at(Direction::In, stage, item.group, env.now);
                            observer.seen(&at, item.packet.data());
                        }
                    }
                    out.delivered.push((port.spec.name, item.packet));
                    return;
                }
                self.queue.push_back((Direction::In, to, item));
            }
            (Step::Drop, _) => {}
            (Step::Flood, _) => {
                for port in self.shared.flooded(index, false) {
                    let copy = Item { packet: item.packet.clone(), ..item };
                    self.queue.push_back((Direction::In, port, copy));
                }
            }
            (Step::Back | Step::Into(_), _) => {
                item.hairpins += 1;
                if item.hairpins > MAX_HAIRPINS {
                    self.drop_looping(direction, index, &item, env);
                    return;
                }
                match step {
                    Step::Into(port) => self.queue.push_back((Direction::In, port, item)),
                    _ => self.queue.push_back((Direction::Out, index, item)),
                }
            }
            (Step::Pending(next_hop), _) => out.pending.push(Pending {
                port: name,
                direction,
                packet: item.packet,
                next_hop,
                hairpins: item.hairpins,
            }),
        }
    }

    #[cold]
    fn drop_looping(&mut self, direction: Direction, index: u16, item: &Item, env: &mut Env<'_>) {
        let Some(Some(port)) = self.ports.get_mut(usize::from(index)) else { return };
        port.counters[direction.index()].drops[DropReason::HairpinLoop.index()] += 1;
        let at = port.sighting_at(direction, Stage::Leave, item.group, env.now);
        if let Some(observer) = &mut env.observer {
            observer.dropped(&at, DropReason::HairpinLoop, None, item.packet.data());
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

/// What the first pass over a batch read of a packet.
#[derive(Clone, Copy)]
struct Read {
    seen: Seen<[u8; 4]>,
    key: Key<[u8; 4]>,
    hash: u64,
}

/// Reads a packet and asks for its place in the flow table to be brought near.
#[inline]
fn read(port: &mut Port, way: u8, packet: &Packet, vxlan: u16) -> Option<Read> {
    let seen = quick(packet.data(), vxlan)?;
    let tunnel = port.tunnel(seen.tunnel.as_ref());
    let key = seen.key(way, tunnel);
    let hash = port.hash(&key);
    Some(Read { seen, key, hash })
}

fn batch(
    port: &mut Port,
    direction: Direction,
    work: &mut [Item],
    steps: &mut Vec<Step>,
    asides: &mut Vec<Aside>,
    ctx: &mut Context<'_, '_>,
) {
    port.spare_tunnels();
    let vxlan = port.vxlan_port(ctx.shared);
    let way = direction.number();
    if let [item] = work {
        let read = read(port, way, &item.packet, vxlan);
        steps.push(one(port, direction, item, read.as_ref(), asides, ctx));
        return;
    }
    let mut reads: [Option<Read>; BATCH] = [None; BATCH];
    for (item, place) in work.iter().zip(&mut reads) {
        *place = read(port, way, &item.packet, vxlan);
        if let Some(read) = place {
            <[u8; 4]>::flows(port).table.prefetch_slot(read.hash);
        }
    }
    for read in reads.iter().take(work.len()).flatten() {
        <[u8; 4]>::flows(port).table.prefetch_pair(read.hash);
    }
    for (item, read) in work.iter_mut().zip(&reads) {
        steps.push(one(port, direction, item, read.as_ref(), asides, ctx));
    }
}

/// One packet.
#[inline]
fn one(
    port: &mut Port,
    direction: Direction,
    item: &mut Item,
    read: Option<&Read>,
    asides: &mut Vec<Aside>,
    ctx: &mut Context<'_, '_>,
) -> Step {
    ctx.group = item.group;
    ctx.hairpins = item.hairpins;
    let counters = &mut port.counters[direction.index()];
    counters.packets += 1;
    counters.bytes += item.packet.len() as u64;
    if ctx.observer.is_some() {
        see(port, direction, Stage::Enter, &item.packet, ctx);
    }
    let step = match read {
        Some(Read { seen, key, hash }) => {
            item.tcp = seen.meta.tcp;
            if seen.meta.tcp & 7 != 0 {
                port.counters[direction.index()].tcp(seen.meta.tcp);
            }
            port.run(direction, seen, Extra::default(), (*key, *hash), &mut item.packet, ctx)
        }
        None => odd(port, direction, item, asides, ctx),
    };
    let step = if step == Step::Forward(crate::port::FLOOD - 1) { Step::Flood } else { step };
    if ctx.observer.is_some() && step != Step::Drop {
        see(port, direction, Stage::Leave, &item.packet, ctx);
    }
    step
}

#[cold]
fn see(port: &Port, direction: Direction, stage: Stage, packet: &Packet, ctx: &mut Context<'_, '_>) {
    let at = port.sighting_at(direction, stage, ctx.group, ctx.time);
    if let Some(observer) = &mut ctx.observer {
        observer.seen(&at, packet.data());
    }
}

/// A frame that is not plain TCP or UDP over IPv4.
#[cold]
fn odd(
    port: &mut Port,
    direction: Direction,
    item: &mut Item,
    asides: &mut Vec<Aside>,
    ctx: &mut Context<'_, '_>,
) -> Step {
    let Ok(frame) = wire::parse(item.packet.data()) else {
        return port.drop(direction, DropReason::Malformed, None, &item.packet, ctx);
    };
    if !port.spec.enabled {
        return port.drop(direction, DropReason::BlockedPort, None, &item.packet, ctx);
    }
    if let Some(reason) = port.guard_frame(direction, frame.l2.dst, frame.l2.src) {
        return port.drop(direction, reason, None, &item.packet, ctx);
    }
    if let Some(neighbor) = Neighbor::of(item.packet.data(), &frame) {
        return match direction {
            Direction::In => Step::Forward(0),
            Direction::Out => crate::neighbor::out(port, &neighbor, &item.packet, asides, ctx),
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
    item.tcp = seen.meta.tcp;
    if seen.meta.tcp & 7 != 0 {
        port.counters[direction.index()].tcp(seen.meta.tcp);
    }
    let tunnel = port.tunnel(seen.tunnel.as_ref());
    if let Some(id) = extra.fragment
        && !port.join_fragments(direction, &mut seen, extra, (id, tunnel), ctx.now)
    {
        return port.drop(direction, DropReason::Fragment, None, &item.packet, ctx);
    }
    let key = seen.key(direction.number(), tunnel);
    if extra.is_icmp_message() {
        return port.message(direction, &seen, extra, key, &mut item.packet, ctx);
    }
    let hash = port.hash(&key);
    port.run(direction, &seen, extra, (key, hash), &mut item.packet, ctx)
}

/// Whether frames of a kind of port come from the wire.
pub(crate) fn is_wire(kind: PortKind) -> bool {
    kind == PortKind::External
}
