//! Flows that must be looked at again: after a policy change, when next hops have aged, for frames with other MACs.

use wire::{Packet, TcpFlags};

use super::cached::{Context, Piece, Step};
use super::compose::Composed;
use super::slow::Room;
use super::walk::{End, Role, Walk};
use super::{FlowFamily, Port};
use crate::DropReason;
use crate::flow::key::{Ends, Key};
use crate::flow::pair::{Bits, Common, Half, Ht, HtFlags, NONE, Pair, TcpState};
use crate::flow::quick::{Extra, Meta, Seen};
use crate::flow::table::Found;
use crate::model::{Direction, Hairpin};
use crate::view::View;

const RST: u8 = 4;

/// The reset that a segment's sender could have sent instead of it. Only plain frames: no tunnel, no fragment.
fn onward_reset(frame: &[u8]) -> Option<Vec<u8>> {
    let parsed = wire::parse(frame).ok()?;
    let ip =
        *parsed.ip().filter(|ip| !ip.is_fragment() && ip.header_len == if ip.is_v6() { 40 } else { 20 })?;
    let wire::L4::Tcp { sport, dport, seq, ack, .. } = ip.l4 else { return None };
    let reset = wire::build::FrameBuilder::eth(parsed.l2.src, parsed.l2.dst).tag(parsed.l2.vlan);
    let reset = reset.ip(ip.src, ip.dst).tcp(sport, dport, TcpFlags::RST | TcpFlags::ACK);
    Some(reset.seq(seq).ack(ack).window(0).build())
}

impl Port {
    /// Walks the layers with what they decided before for a flow.
    pub(super) fn walk_known<A: FlowFamily>(
        &mut self,
        direction: Direction,
        first: View,
        found: Found,
        pair: &Pair<A>,
        ctx: &mut Context<'_, '_>,
    ) -> Walk<A> {
        let prior = A::flows(self).nodes.list(pair.common.results);
        let ends = pair.halves[0].key.ends;
        if found.half == 0 {
            let established = matches!(pair.common.state, TcpState::Established | TcpState::HalfClosed);
            return self.walk(direction, first, &Role::Main { prior: &prior, first: ends, established }, ctx);
        }
        let mut walk = self.walk(direction, first, &Role::Reply { prior: &prior, first: ends }, ctx);
        if walk.end == End::Pass {
            if pair.common.bits.contains(Bits::CAME_BACK) {
                walk.end = End::Hairpin(Hairpin::Back);
            }
            if pair.common.bits.contains(Bits::SENT_BACK) {
                // The adapter never saw the packet; whoever sent it must see the reply.
                let main = pair.halves[0].l2;
                walk.view.destination_mac = main.source();
                walk.view.source_mac = main.destination();
            }
        }
        walk
    }

    /// A packet of a known flow that the cached path did not take.
    pub(super) fn follow<A: FlowFamily>(
        &mut self,
        direction: Direction,
        seen: &Seen<A>,
        extra: Extra,
        found: Found,
        packet: &mut Packet,
        ctx: &mut Context<'_, '_>,
    ) -> Step {
        let generation = self.generation;
        let common = &A::flows(self).table.pair(found.pair).common;
        // What is dropped moves no connection on.
        let blocked =
            common.bits.contains(Bits::BLOCKED) && (found.half == 1 || common.generation[0] == generation);
        if seen.meta.proto == wire::proto::TCP && !extra.later && !blocked {
            self.track::<A>(found.pair, found.half, seen.meta.tcp);
        }
        let pair = A::flows_mut(self).table.pair_mut(found.pair);
        pair.common.seen = ctx.now;
        let half = &pair.halves[found.half];
        let due = pair.common.recheck != NONE && ctx.now.wrapping_sub(pair.common.recheck).cast_signed() >= 0;
        let current = pair.common.generation[found.half] == generation
            && half.l2 == seen.l2
            && half.ht.flags.contains(HtFlags::VALID)
            && !due;
        if !current || ctx.watched {
            let step = if found.half == 0 {
                self.main_again(direction, seen, extra, found, packet, ctx)
            } else {
                self.reply_again(direction, seen, extra, found, packet, ctx)
            };
            if let Some(step) = step {
                return step;
            }
        }
        let pair = A::flows_mut(self).table.pair_mut(found.pair);
        pair.common.packets[found.half] += 1;
        pair.common.bytes[found.half] += u64::from(seen.meta.ip_len);
        let (ht, target) = (pair.halves[found.half].ht, pair.halves[found.half].target);
        self.finish(direction, &ht, target, found, &seen.meta, packet, ctx)
    }

    /// The main way of a flow is composed again. `Some`: the packet is done with.
    fn main_again<A: FlowFamily>(
        &mut self,
        direction: Direction,
        seen: &Seen<A>,
        extra: Extra,
        found: Found,
        packet: &mut Packet,
        ctx: &mut Context<'_, '_>,
    ) -> Option<Step> {
        self.counters_of(direction).resimulated += 1;
        let pair = *A::flows(self).table.pair(found.pair);
        let first = View::of(seen, extra, ctx.came_back(direction));
        let mut walk = self.walk_known(direction, first, found, &pair, ctx);
        if let Err(step) = self.settle_end(direction, &mut walk, packet, ctx) {
            // What the rules say holds for the packets to come; what has to do with this packet or with the moment
            // (no next hop yet, no free NAT port) decides nothing about the flow.
            if let End::Drop(
                reason @ (DropReason::Acl
                | DropReason::NoRuleMatch
                | DropReason::NoDestination
                | DropReason::IcmpNat),
            ) = walk.end
            {
                self.block::<A>(found.pair, reason, seen, &walk, packet, ctx);
            } else {
                self.count_rules(&walk, step);
                self.give_back_all(&walk);
            }
            return Some(step);
        }
        let composed = match self.compose(direction, &first, &walk, None, ctx) {
            Ok(composed) => composed,
            Err(reason) => {
                self.give_back_all(&walk);
                return Some(self.drop(direction, reason, None, packet, ctx));
            }
        };
        let reply = composed.view.ends::<A>().reversed();
        let moved = reply != pair.halves[1].key.ends;
        let mut paired = walk.stateful || pair.common.bits.intersects(Bits::SENT_BACK | Bits::CAME_BACK);
        if paired && (moved || !pair.common.bits.contains(Bits::PAIRED)) {
            let key = Key { ends: reply, ..pair.halves[1].key };
            match self.make_way::<A>(&pair, &key, Some(found.pair), ctx.now) {
                Room::Free => {}
                Room::Others => paired = false,
                Room::Taken => {
                    self.give_back_all(&walk);
                    return Some(self.drop(direction, DropReason::FlowConflict, None, packet, ctx));
                }
            }
        }
        self.replace::<A>(found.pair, seen, &walk, &composed, reply, paired);
        None
    }

    /// Puts a new composition in a flow's place.
    fn replace<A: FlowFamily>(
        &mut self,
        number: u32,
        seen: &Seen<A>,
        walk: &Walk<A>,
        composed: &Composed<A>,
        reply: Ends<A>,
        paired: bool,
    ) {
        let path = self.paths.acquire(&walk.path);
        let generation = self.generation;
        let flows = A::flows_mut(self);
        let was_paired = flows.table.pair(number).common.bits.contains(Bits::PAIRED);
        if was_paired {
            flows.table.unindex(Found { pair: number, half: 1 });
        }
        let old_results = flows.table.pair(number).common.results;
        let old = flows.nodes.remove(old_results);
        let results = flows.nodes.insert(&walk.nodes);
        let kept: smallvec::SmallVec<[u32; 2]> = walk.nodes.iter().map(|node| node.binding).collect();
        let pair = flows.table.pair_mut(number);
        let before = pair.common;
        let changed = pair.halves[0].ht != composed.ht || before.paths[0] != path;
        pair.halves[0].ht = composed.ht;
        pair.halves[0].l2 = seen.l2;
        pair.halves[0].target = composed.target;
        pair.halves[1].key.ends = reply;
        pair.common.results = results;
        pair.common.recheck = walk.recheck;
        pair.common.ttl = walk.ttl;
        pair.common.bits.set(Bits::PAIRED, paired);
        pair.common.bits.remove(Bits::BLOCKED);
        pair.common.generation[0] = generation;
        if before.recheck != NONE {
            // Next hops age for replies, too.
            pair.common.generation[1] = generation.wrapping_sub(1);
        }
        if changed {
            // What was counted belongs to the rules of before; replies are composed anew.
            pair.halves[1].ht = Ht::default();
            pair.common.packets = [0; 2];
            pair.common.bytes = [0; 2];
            pair.common.paths = [path, NONE];
        }
        if paired {
            flows.table.index(Found { pair: number, half: 1 });
        }
        if changed {
            self.settle(&before);
        } else {
            self.paths.release(path);
        }
        for binding in old {
            if !kept.contains(&binding) {
                self.give_back(binding);
            }
        }
        for &lent in &walk.lent {
            if let Some(Some(binding)) = self.bindings.get_mut(lent as usize) {
                binding.flow = Some((number, A::V6));
            }
        }
    }

    /// A policy change drops a flow from now on.
    fn block<A: FlowFamily>(
        &mut self,
        number: u32,
        reason: DropReason,
        seen: &Seen<A>,
        walk: &Walk<A>,
        packet: &Packet,
        ctx: &mut Context<'_, '_>,
    ) {
        let path = self.paths.acquire(&walk.path);
        let generation = self.generation;
        self.give_back_all(walk);
        let flows = A::flows_mut(self);
        let pair = flows.table.pair_mut(number);
        let (before, old) = (pair.common, pair.halves[0]);
        let index = u16::try_from(reason.index()).unwrap_or(0);
        pair.halves[0].ht = Ht { flags: HtFlags::VALID | HtFlags::DROP, extra: index, ..Ht::default() };
        pair.halves[0].ht.ends = pair.halves[0].key.ends;
        pair.halves[1].ht = Ht { flags: HtFlags::VALID | HtFlags::DROP, extra: index, ..Ht::default() };
        pair.common.bits.insert(Bits::BLOCKED);
        pair.common.generation = [generation; 2];
        pair.common.packets = [1, 0];
        pair.common.bytes = [0; 2];
        pair.common.paths = [path, NONE];
        let established = matches!(before.state, TcpState::Established | TcpState::HalfClosed);
        self.settle(&before);
        if let Some(&serial) = walk.path.rules.last() {
            self.rule_counters.entry(serial).or_default().dropped_flows += 1;
        }
        if established && ctx.shared.settings.reset_on_block {
            self.reset_both(&old, seen, packet, ctx);
        }
    }

    /// Both ends of a connection that is blocked from now on are told, as if the other had.
    fn reset_both<A: FlowFamily>(
        &mut self,
        old: &Half<A>,
        seen: &Seen<A>,
        packet: &Packet,
        ctx: &mut Context<'_, '_>,
    ) {
        let direction = if old.key.direction == 0 { Direction::Out } else { Direction::In };
        let Some(back) = wire::build::tcp_reset(packet.data()) else { return };
        self.counters[direction.index()].reset_injected += 1;
        let own = direction == Direction::Out && ctx.hairpins == 0;
        ctx.made.push((if own { Direction::In } else { Direction::Out }, Packet::new(&back)));
        // Onward it goes as the packets until now went.
        if old.l2 != seen.l2 || !old.ht.flags.contains(HtFlags::VALID) || old.ht.flags.contains(HtFlags::DROP)
        {
            return;
        }
        let Some(onward) = onward_reset(packet.data()) else { return };
        let mut onward = Packet::new(&onward);
        let Ok(frame) = wire::parse(onward.data()) else { return };
        let Some(ip) = frame.ip() else { return };
        let meta = Meta { ip_len: ip.total_len, tcp: RST, df: false, ..seen.meta };
        let target = old.target;
        if self.write(direction, &old.ht, target, &meta, &mut onward, ctx) == Step::Drop {
            return;
        }
        match direction {
            Direction::In => ctx.made.push((Direction::In, onward)),
            Direction::Out => ctx.pieces.push(Piece {
                target: target.wrapping_sub(1),
                packet: onward,
                group: ctx.group,
                hairpins: ctx.hairpins,
            }),
        }
    }

    /// The replies of a flow are composed (again). `Some`: the packet is done with.
    fn reply_again<A: FlowFamily>(
        &mut self,
        direction: Direction,
        seen: &Seen<A>,
        extra: Extra,
        found: Found,
        packet: &mut Packet,
        ctx: &mut Context<'_, '_>,
    ) -> Option<Step> {
        let pair = *A::flows(self).table.pair(found.pair);
        if pair.common.bits.contains(Bits::BLOCKED) {
            return None;
        }
        let first = View::of(seen, extra, ctx.came_back(direction));
        let mut walk = self.walk_known(direction, first, found, &pair, ctx);
        if let Err(step) = self.settle_end(direction, &mut walk, packet, ctx) {
            self.count_rules(&walk, step);
            self.give_back_all(&walk);
            return Some(step);
        }
        self.give_back_all(&walk);
        let composed = match self.compose(direction, &first, &walk, Some(pair.common.bits), ctx) {
            Ok(composed) => composed,
            Err(reason) => return Some(self.drop(direction, reason, None, packet, ctx)),
        };
        let path = self.paths.acquire(&walk.path);
        let generation = self.generation;
        let common = &mut A::flows_mut(self).table.pair_mut(found.pair).common;
        let before = *common;
        if before.paths[1] == path {
            self.paths.release(path);
        } else {
            common.paths[1] = path;
            common.packets[1] = 0;
            common.bytes[1] = 0;
            // Only the reply's share is settled.
            let reply = Common {
                packets: [0, before.packets[1]],
                bytes: [0, before.bytes[1]],
                paths: [NONE, before.paths[1]],
                ..before
            };
            self.settle(&reply);
        }
        let pair = A::flows_mut(self).table.pair_mut(found.pair);
        pair.common.generation[1] = generation;
        pair.common.recheck = pair.common.recheck.min(walk.recheck);
        pair.halves[1].ht = composed.ht;
        pair.halves[1].l2 = seen.l2;
        pair.halves[1].target = composed.target;
        None
    }
}
