//! The cached path: a packet whose flow is known and current.
//!
//! It allocates nothing, takes no lock and makes no system call. A batch is worked on in two passes, so that the
//! cache misses of its packets overlap.

use std::net::IpAddr;
use std::time::Duration;

use wire::Packet;

use super::{FlowFamily, Layer, Port};
use crate::DropReason;
use crate::flow::apply::{self, Failed, Tunnels};
use crate::flow::key::Key;
use crate::flow::pair::{Ht, HtFlags, NONE, TcpState};
use crate::flow::quick::{Extra, Meta, Seen};
use crate::flow::table::Found;
use crate::model::Direction;
use crate::shared::Shared;
use crate::trace::{Event, HostRoutes, Observer, RuleRef, Sighting, Stage};

/// What a packet meets at a port.
pub(crate) struct Context<'s, 'e> {
    pub(crate) shared: &'s Shared,
    /// Milliseconds.
    pub(crate) now: u32,
    pub(crate) time: Duration,
    pub(crate) routes: &'e mut dyn HostRoutes,
    pub(crate) observer: Option<&'e mut dyn Observer>,
    /// The observer wants every decision.
    pub(crate) watched: bool,
    /// The number of the packet that is worked on.
    pub(crate) group: u64,
    /// How often it was sent back.
    pub(crate) hairpins: u8,
    /// Frames that the port makes itself (ICMP errors, resets): towards the adapter, or into the switch.
    pub(crate) made: Vec<(Direction, Packet)>,
    /// The next hops that packets wait for, in the order of these packets.
    pub(crate) next_hops: Vec<IpAddr>,
    /// Pieces of fragmented packets, beside the first, and where they go.
    pub(crate) pieces: Vec<Piece>,
}

/// A piece of a fragmented packet.
pub(crate) struct Piece {
    /// The port that it goes to.
    pub(crate) target: u16,
    pub(crate) packet: Packet,
    pub(crate) group: u64,
    pub(crate) hairpins: u8,
}

impl Context<'_, '_> {
    /// The packet was sent back at this port and passes it once more. Only then does a packet that was ever sent back
    /// go OUT: further on it goes IN, and what it makes there is nothing special.
    pub(crate) fn came_back(&self, direction: Direction) -> bool {
        direction == Direction::Out && self.hairpins > 0
    }

    pub(crate) fn event(&mut self, event: &Event) {
        if let Some(observer) = &mut self.observer {
            observer.event(event);
        }
    }

    /// The names of a rule by its serial.
    pub(crate) fn rule_ref(&self, layer: &Layer, serial: u32) -> Option<RuleRef> {
        layer.groups.iter().flatten().flatten().find_map(|&group| {
            let group = self.shared.group(group)?;
            let entry = group.by_serial(serial)?;
            Some(RuleRef {
                layer: layer.spec.id.clone(),
                group: group.id.clone(),
                rule: entry.rule.id.clone(),
                name: entry.rule.name.clone(),
                action: entry.rule.action.word().into(),
            })
        })
    }
}

/// What becomes of a packet at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// OUT: to this port's layers. IN: to the adapter.
    Forward(u16),
    /// OUT: to several ports.
    Flood,
    /// Gone; it was told and counted.
    Drop,
    /// Back: an IN packet as if the adapter had sent it, an OUT packet to the adapter.
    Back,
    /// Into another port, as delivered there.
    Into(u16),
    /// Waiting for a next hop: see [`Context::next_hops`].
    Pending,
}

/// The place that [`Half::target`](crate::flow::pair::Half::target) uses for a flood.
pub(crate) const FLOOD: u16 = u16::MAX;

const UNUSUAL: HtFlags =
    HtFlags::DROP.union(HtFlags::HAIRPIN).union(HtFlags::QOS).union(HtFlags::VLAN).union(HtFlags::MIRROR);

/// SYN, FIN and RST change a connection.
const EVENTFUL: u8 = 1 | 2 | 4;

/// The length of the longest IP packet that a frame of several segments becomes.
#[cold]
fn segmented(packet: &Packet, meta: &Meta) -> u32 {
    let tcp = meta.proto == wire::proto::TCP;
    wire::offload::wire_len(packet, meta.ip.into(), meta.l4.into(), meta.ip_len, tcp)
}

impl Port {
    /// The flow of a packet, for a first pass over a batch.
    #[inline]
    pub(crate) fn hash<A: FlowFamily>(&self, key: &Key<A>) -> u64 {
        A::flows(self).table.hash(key)
    }

    /// Works on one packet: the cached path if there is one. `candidate` is where its flow probably is, 0 for not known.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the packet and all that was read of it")]
    pub(crate) fn run<A: FlowFamily>(
        &mut self,
        direction: Direction,
        seen: &Seen<A>,
        extra: &Extra,
        key: &Key<A>,
        (hash, candidate): (u64, u32),
        packet: &mut Packet,
        ctx: &mut Context<'_, '_>,
    ) -> Step {
        let (generation, limits) = (self.generation, self.limits);
        let flows = A::flows_mut(self);
        let found = flows.table.confirm(candidate, key).or_else(|| flows.table.find(key, hash));
        if let Some(found) = found
            && !ctx.watched
        {
            let pair = flows.table.pair_mut(found.pair);
            let half = &pair.halves[found.half];
            let common = &mut pair.common;
            let current = common.generation[found.half] == generation
                && half.l2 == seen.l2
                && half.ht.flags.contains(HtFlags::VALID);
            let calm = seen.meta.tcp & EVENTFUL == 0
                && matches!(common.state, TcpState::Plain | TcpState::Established | TcpState::HalfClosed);
            let aged = ctx.now.wrapping_sub(common.seen);
            let due = common.recheck != NONE && ctx.now.wrapping_sub(common.recheck).cast_signed() >= 0;
            if current && calm && !due {
                let limit = if common.ttl == 0 {
                    limits[common.state as usize]
                } else {
                    u32::from(common.ttl) * 1000
                };
                if aged < limit {
                    common.seen = ctx.now;
                    common.packets[found.half] += 1;
                    common.bytes[found.half] += u64::from(seen.meta.ip_len);
                    let (ht, target) = (half.ht, half.target);
                    return self.finish(direction, &ht, target, found, &seen.meta, packet, ctx);
                }
            }
        }
        self.slow(direction, seen, *extra, *key, found, packet, ctx)
    }

    /// Applies a composed transposition.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the packet and all that was found for it")]
    pub(crate) fn finish<A: FlowFamily>(
        &mut self,
        direction: Direction,
        ht: &Ht<A>,
        target: u16,
        found: Found,
        meta: &Meta,
        packet: &mut Packet,
        ctx: &mut Context<'_, '_>,
    ) -> Step {
        if ht.flags.intersects(UNUSUAL) {
            return self.unusual(direction, ht, target, found, meta, packet, ctx);
        }
        self.rewrite(direction, ht, target, meta, packet, ctx)
    }

    #[inline]
    fn rewrite<A: FlowFamily>(
        &mut self,
        direction: Direction,
        ht: &Ht<A>,
        target: u16,
        meta: &Meta,
        packet: &mut Packet,
        ctx: &mut Context<'_, '_>,
    ) -> Step {
        // Where it goes is one less: 0 stands for "not known", which only IN packets have.
        let mtu = match direction {
            Direction::Out => {
                ctx.shared.mtus.get(usize::from(target.wrapping_sub(1))).copied().unwrap_or(u16::MAX)
            }
            Direction::In => u16::MAX,
        };
        let mut size = u32::from(meta.ip_len);
        if packet.offload.segment != 0 {
            size = segmented(packet, meta);
        }
        if ht.flags.contains(HtFlags::PUSH) {
            size += self.overhead(ht.extra) + u32::from(meta.ip - meta.outer);
        } else if meta.outer != 0 && !ht.flags.contains(HtFlags::POP) {
            // The outer Ethernet header is not part of the packet, the inner one is.
            size += u32::from(meta.ip) - 14;
        }
        if size > u32::from(mtu) {
            return self.oversize(direction, ht, target, meta, mtu, packet, ctx);
        }
        self.write(direction, ht, target, meta, packet, ctx)
    }

    /// Rewrites without looking at the length.
    #[inline]
    pub(crate) fn write<A: FlowFamily>(
        &mut self,
        direction: Direction,
        ht: &Ht<A>,
        target: u16,
        meta: &Meta,
        packet: &mut Packet,
        ctx: &mut Context<'_, '_>,
    ) -> Step {
        let settings = &ctx.shared.settings;
        let tunnels = Tunnels {
            base: settings.vxlan_source_base,
            range: settings.vxlan_source_range,
            copy_tos: settings.copy_tos,
        };
        match apply::apply(ht, packet, meta, &self.templates, tunnels) {
            Ok(()) => Step::Forward(target.wrapping_sub(1)),
            Err(failed) => self.failed(direction, failed, meta, packet, ctx),
        }
    }

    /// Bytes of a tunnel header from IP on: what the outer packet has in front of the inner Ethernet header.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "at most 74")]
    fn overhead(&self, template: u16) -> u32 {
        // 36 and 56 are those of IPv4 and IPv6; whatever is above has a tag.
        let length = |template: &wire::vxlan::Template| match template.outer_len() as u32 {
            50 | 54 => 36,
            _ => 56,
        };
        self.templates.get(usize::from(template)).map_or(36, length)
    }

    #[cold]
    #[expect(clippy::too_many_arguments, reason = "the packet and all that was found for it")]
    fn unusual<A: FlowFamily>(
        &mut self,
        direction: Direction,
        ht: &Ht<A>,
        target: u16,
        found: Found,
        meta: &Meta,
        packet: &mut Packet,
        ctx: &mut Context<'_, '_>,
    ) -> Step {
        if ht.flags.contains(HtFlags::MIRROR) {
            let at = self.sighting(direction, Stage::Enter, ctx, packet);
            if let Some(observer) = &mut ctx.observer {
                observer.seen(&at, packet.data());
            }
        }
        if ht.flags.contains(HtFlags::DROP) {
            let reason = DropReason::from_index(ht.extra);
            let rule = ctx.observer.is_some().then(|| self.last_rule::<A>(found, ctx)).flatten();
            return self.drop(direction, reason, rule.as_ref(), packet, ctx);
        }
        if ht.flags.contains(HtFlags::QOS) && !self.spend(packet.len(), ctx.now) {
            return self.drop(direction, DropReason::Qos, None, packet, ctx);
        }
        let step = self.rewrite(direction, ht, target, meta, packet, ctx);
        if ht.flags.contains(HtFlags::VLAN) && !ht.flags.contains(HtFlags::PUSH) && step != Step::Drop {
            apply::retag(packet, ht.extra);
        }
        match step {
            Step::Forward(_) if ht.flags.contains(HtFlags::HAIRPIN) => match target {
                0 => Step::Back,
                port => Step::Into(port - 1),
            },
            step => step,
        }
    }

    /// The rule that decided last for a flow.
    pub(crate) fn last_rule<A: FlowFamily>(&self, found: Found, ctx: &Context<'_, '_>) -> Option<RuleRef> {
        let path = A::flows(self).table.pair(found.pair).common.paths[found.half];
        let serial = *self.paths.get(path)?.rules.last()?;
        self.layers.iter().find_map(|layer| ctx.rule_ref(layer, serial))
    }

    /// Takes bytes from the port's bandwidth. A second's worth may be sent at once.
    fn spend(&mut self, bytes: usize, now: u32) -> bool {
        let Some(bucket) = &mut self.bucket else { return true };
        let elapsed = u64::from(now.wrapping_sub(bucket.filled));
        let gained = bucket.bytes_per_second.saturating_mul(elapsed) / 1000;
        if gained > 0 {
            bucket.level = bucket.level.saturating_add(gained).min(bucket.bytes_per_second);
            // Only the milliseconds that were paid out, so that slow rates lose nothing to rounding.
            let paid = gained.saturating_mul(1000).div_ceil(bucket.bytes_per_second).min(elapsed);
            bucket.filled = bucket.filled.wrapping_add(u32::try_from(paid).unwrap_or(u32::MAX));
        }
        let bytes = bytes as u64;
        if bucket.level < bytes {
            return false;
        }
        bucket.level -= bytes;
        true
    }

    pub(crate) fn sighting(
        &self,
        direction: Direction,
        stage: Stage,
        ctx: &Context<'_, '_>,
        packet: &Packet,
    ) -> Sighting {
        self.sighting_at(direction, stage, ctx.group, ctx.time, packet)
    }

    /// Drops a packet: counted and told.
    #[cold]
    pub(crate) fn drop(
        &mut self,
        direction: Direction,
        reason: DropReason,
        rule: Option<&RuleRef>,
        packet: &Packet,
        ctx: &mut Context<'_, '_>,
    ) -> Step {
        self.counters[direction.index()].drops[reason.index()] += 1;
        let at = self.sighting(direction, Stage::Enter, ctx, packet);
        if let Some(observer) = &mut ctx.observer {
            observer.dropped(&at, reason, rule, packet.data());
        }
        if ctx.watched {
            ctx.event(&Event::Drop { port: self.spec.name, direction, reason, rule: rule.cloned() });
        }
        Step::Drop
    }

    #[cold]
    fn failed(
        &mut self,
        direction: Direction,
        failed: Failed,
        meta: &Meta,
        packet: &mut Packet,
        ctx: &mut Context<'_, '_>,
    ) -> Step {
        let reason = match failed {
            Failed::Ttl => {
                // Nobody behind a tunnel can be told: the way back would need a tunnel, too.
                if meta.outer == 0 {
                    self.complain(direction, wire::build::IcmpError::TimeExceeded, None, packet, ctx);
                }
                DropReason::TtlExceeded
            }
            Failed::Length => DropReason::MtuExceeded,
            Failed::Fragment => DropReason::Fragment,
        };
        self.drop(direction, reason, None, packet, ctx)
    }

    /// Too long for where it goes: fragmented, or refused with an ICMP error to its sender.
    #[cold]
    #[expect(clippy::too_many_arguments, reason = "the packet and all that was found for it")]
    fn oversize<A: FlowFamily>(
        &mut self,
        direction: Direction,
        ht: &Ht<A>,
        target: u16,
        meta: &Meta,
        mtu: u16,
        packet: &mut Packet,
        ctx: &mut Context<'_, '_>,
    ) -> Step {
        let pushes = ht.flags.contains(HtFlags::PUSH);
        let tunnelled = meta.outer != 0 && !ht.flags.contains(HtFlags::POP);
        let extra = if pushes { self.overhead(ht.extra) + u32::from(meta.ip - meta.outer) } else { 0 };
        let room = u32::from(mtu).saturating_sub(extra);
        // A frame of several segments is TCP's, whose sender learns the size, or a sender's that chose it.
        if A::V6 || meta.df || tunnelled || packet.offload.segment != 0 {
            let kind = if A::V6 {
                wire::build::IcmpError::PacketTooBig { mtu: room }
            } else {
                wire::build::IcmpError::FragmentationNeeded { mtu: u16::try_from(room).unwrap_or(u16::MAX) }
            };
            if meta.outer == 0 || tunnelled {
                self.complain(direction, kind, Some(ht.extra).filter(|_| pushes), packet, ctx);
            }
            return self.drop(direction, DropReason::MtuExceeded, None, packet, ctx);
        }
        wire::offload::complete(packet, ctx.shared.settings.vxlan_port);
        // Rewritten in whole, because some checksums cover what will be in several pieces; then cut; then wrapped.
        let plain = Ht { flags: ht.flags - HtFlags::PUSH, ..*ht };
        if self.write(direction, &plain, target, meta, packet, ctx) == Step::Drop {
            return Step::Drop;
        }
        let wrap = Ht { flags: ht.flags & (HtFlags::VALID | HtFlags::PUSH), ..*ht };
        let meta = Meta { outer: 0, ..*meta };
        let retag = (ht.flags.contains(HtFlags::VLAN) && !pushes).then_some(ht.extra);
        let mut first = None;
        for part in wire::ipv4::fragment(packet.data(), room as usize) {
            let mut piece = Packet::new(&part);
            if self.write(direction, &wrap, target, &meta, &mut piece, ctx) == Step::Drop {
                return Step::Drop;
            }
            if first.is_none() {
                first = Some(piece);
                continue;
            }
            if let Some(id) = retag {
                apply::retag(&mut piece, id);
            }
            ctx.pieces.push(Piece {
                target: target.wrapping_sub(1),
                packet: piece,
                group: ctx.group,
                hairpins: ctx.hairpins,
            });
        }
        let Some(first) = first else {
            return self.drop(direction, DropReason::MtuExceeded, None, packet, ctx);
        };
        *packet = first;
        Step::Forward(target.wrapping_sub(1))
    }

    /// Tells the sender what went wrong, by ICMP. `tunnel`: from the near end of this tunnel.
    fn complain(
        &mut self,
        direction: Direction,
        kind: wire::build::IcmpError,
        tunnel: Option<u16>,
        packet: &Packet,
        ctx: &mut Context<'_, '_>,
    ) {
        if !ctx.shared.settings.icmp_errors {
            return;
        }
        let Ok(frame) = wire::parse(packet.data()) else { return };
        let Some(ip) = frame.ip() else { return };
        let near = tunnel.and_then(|template| self.outer_of(template)).map(|outer| outer.source);
        // Nobody believes an error that seems to come from himself, as the host would whose tunnel it is.
        let told_by = |near: &IpAddr| near.is_ipv4() == ip.dst.is_ipv4() && *near != ip.src;
        let from = near.filter(told_by).unwrap_or(ip.dst);
        // Whoever sent it: the adapter, or somebody behind the switch when it came in or was sent back.
        let own = direction == Direction::Out && ctx.hairpins == 0;
        let way = if own { Direction::In } else { Direction::Out };
        if let Some(error) = wire::build::icmp_error(packet.data(), from, kind) {
            ctx.made.push((way, Packet::new(&error)));
        }
    }
}
