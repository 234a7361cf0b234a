//! The slow path: the first packet of a flow, and flows that must be looked at again.

use wire::Packet;

use super::cached::{Context, FLOOD, Step};
use super::walk::{End, Role, Walk};
use super::{Bucket, FlowFamily, Port};
use crate::DropReason;
use crate::flow::key::{Addr, Key};
use crate::flow::pair::{Bits, Common, Half, Ht, HtFlags, NONE, Pair, TcpState};
use crate::flow::quick::{Extra, Seen};
use crate::flow::table::Found;
use crate::model::{Direction, Guards, Hairpin};
use crate::shared::Way;
use crate::trace::{Event, Why};
use crate::view::{OuterView, View};

const SYN: u8 = 2;
const ACK: u8 = 16;

/// A walk turned into what is kept with a flow.
struct Composed<A> {
    ht: Ht<A>,
    target: u16,
    view: View,
}

impl Port {
    #[cold]
    #[expect(clippy::too_many_arguments, reason = "the packet and all that was read of it")]
    pub(crate) fn slow<A: FlowFamily>(
        &mut self,
        direction: Direction,
        seen: &Seen<A>,
        extra: Extra,
        key: Key<A>,
        mut found: Option<Found>,
        hairpinned: bool,
        packet: &mut Packet,
        ctx: &mut Context<'_, '_>,
    ) -> Step {
        self.counters_of(direction).slow += 1;
        if !self.spec.enabled {
            return self.drop(direction, DropReason::BlockedPort, None, packet, ctx);
        }
        if direction == Direction::Out
            && let Some(reason) = self.guarded(seen)
        {
            return self.drop(direction, reason, None, packet, ctx);
        }
        if let Some(old) = found {
            let pair = A::flows(self).table.pair(old.pair);
            let first_syn = seen.meta.proto == wire::proto::TCP && seen.meta.tcp & (SYN | ACK) == SYN;
            let state = pair.common.state;
            if self.is_expired(&pair.common, ctx.now) {
                self.expire::<A>(old.pair);
                found = None;
            } else if first_syn && (state.is_over() || old.half == 0 && state >= TcpState::Established) {
                // A new connection with the old one's addresses and ports.
                let main = usize::from(pair.halves[0].key.direction);
                self.counters[main].reset_by_syn += 1;
                self.remove_pair::<A>(old.pair);
                found = None;
            }
        }
        match found {
            None => self.open(direction, seen, extra, key, hairpinned, packet, ctx),
            Some(found) => self.follow(direction, seen, extra, found, hairpinned, packet, ctx),
        }
    }

    /// Guards against false senders.
    fn guarded<A: Addr>(&self, seen: &Seen<A>) -> Option<DropReason> {
        let guards = self.spec.guards;
        if guards.contains(Guards::MAC) && seen.l2[6..12] != self.spec.mac.0 {
            return Some(DropReason::MacSpoofing);
        }
        let (guard, reason) = if A::V6 {
            (Guards::SPOOF_V6, DropReason::SpoofV6)
        } else {
            (Guards::SPOOF_V4, DropReason::SpoofV4)
        };
        if guards.contains(guard) && !self.spec.addresses.contains(&seen.ends.src.ip()) {
            return Some(reason);
        }
        let dhcp_server = seen.meta.proto == wire::proto::UDP && matches!(seen.ends.sport, 67 | 547);
        (guards.contains(Guards::DHCP) && dhcp_server).then_some(DropReason::Guard)
    }

    /// A packet without a flow.
    #[expect(clippy::too_many_arguments, reason = "the packet and all that was read of it")]
    fn open<A: FlowFamily>(
        &mut self,
        direction: Direction,
        seen: &Seen<A>,
        extra: Extra,
        key: Key<A>,
        hairpinned: bool,
        packet: &mut Packet,
        ctx: &mut Context<'_, '_>,
    ) -> Step {
        let first = View::of(seen, extra, hairpinned);
        let mut walk = self.walk::<A>(direction, first, &Role::New, ctx);
        let end = self.settle_end(direction, &mut walk, packet, ctx);
        if let Err(step) = end {
            self.count_rules(&walk, step);
            self.give_back_all(&walk);
            return step;
        }
        let composed = match self.compose(direction, &first, &walk, None, ctx) {
            Ok(composed) => composed,
            Err(reason) => {
                self.count_rules(&walk, Step::Drop);
                self.give_back_all(&walk);
                return self.drop(direction, reason, None, packet, ctx);
            }
        };
        let meta = &seen.meta;
        if extra.later
            || extra.is_icmp_message()
            || seen.meta.proto == wire::proto::SCTP && extra.fragment.is_some()
        {
            // It tells of other packets, or cannot be kept apart from them: no flow.
            self.count_rules(&walk, Step::Back);
            self.give_back_all(&walk);
            if composed.ht.flags.contains(HtFlags::ENDS) {
                let reason = if extra.icmp.is_some() { DropReason::IcmpNat } else { DropReason::Fragment };
                return self.drop(direction, reason, None, packet, ctx);
            }
            let found = Found { pair: NONE, half: 0 };
            return self.finish_kept(direction, &composed, found, seen, packet, ctx);
        }
        let pair = self.new_pair(direction, seen, key, hairpinned, &walk, &composed, ctx);
        match self.insert::<A>(pair, &walk, ctx) {
            Ok(number) => {
                let found = Found { pair: number, half: 0 };
                let common = &mut A::flows_mut(self).table.pair_mut(number).common;
                common.packets[0] += 1;
                common.bytes[0] += u64::from(meta.ip_len);
                self.finish_kept(direction, &composed, found, seen, packet, ctx)
            }
            Err(reason) => {
                self.count_rules(&walk, Step::Drop);
                self.give_back_all(&walk);
                self.drop(direction, reason, None, packet, ctx)
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what a flow is made of")]
    fn new_pair<A: FlowFamily>(
        &mut self,
        direction: Direction,
        seen: &Seen<A>,
        key: Key<A>,
        hairpinned: bool,
        walk: &Walk<A>,
        composed: &Composed<A>,
        ctx: &Context<'_, '_>,
    ) -> Pair<A> {
        let mut bits = Bits::empty();
        bits.set(Bits::CAME_BACK, hairpinned);
        bits.set(Bits::SENT_BACK, matches!(walk.end, End::Hairpin(_)));
        let state = match (seen.meta.proto, self.spec.flows.track_tcp) {
            (wire::proto::TCP, true) if seen.meta.tcp & (SYN | ACK) == SYN => TcpState::SynSent,
            (wire::proto::TCP, true) => TcpState::Established,
            _ => TcpState::Plain,
        };
        let reply = Key {
            ends: composed.view.ends::<A>().reversed(),
            proto: key.proto,
            direction: direction.reverse().index() as u8,
            tunnel: 0,
        };
        Pair {
            halves: [
                Half { key, ht: composed.ht, l2: seen.l2, target: composed.target },
                Half { key: reply, ..Half::default() },
            ],
            common: Common {
                generation: [self.generation, self.generation],
                seen: ctx.now,
                recheck: walk.recheck,
                results: NONE,
                state,
                bits,
                ttl: walk.ttl,
                paths: [NONE, NONE],
                ..Common::default()
            },
        }
    }

    /// Puts a flow into the tables.
    fn insert<A: FlowFamily>(
        &mut self,
        mut pair: Pair<A>,
        walk: &Walk<A>,
        ctx: &Context<'_, '_>,
    ) -> Result<u32, DropReason> {
        let paired = walk.stateful || pair.common.bits.intersects(Bits::SENT_BACK | Bits::CAME_BACK);
        if !self.has_room(&pair) {
            self.sweep(ctx.now, 64);
            if !self.has_room(&pair) {
                return Err(DropReason::FlowLimit);
            }
        }
        if paired && !self.make_way::<A>(&pair.halves[1].key, None, ctx.now) {
            return Err(DropReason::FlowConflict);
        }
        pair.common.bits.set(Bits::PAIRED, paired);
        pair.common.paths[0] = self.paths.acquire(&walk.path);
        let flows = A::flows_mut(self);
        pair.common.results = flows.nodes.insert(&walk.nodes);
        let number = flows.table.insert(pair);
        flows.table.index(Found { pair: number, half: 0 });
        if paired {
            flows.table.index(Found { pair: number, half: 1 });
        }
        self.count(&pair);
        for &lent in &walk.lent {
            if let Some(Some(binding)) = self.bindings.get_mut(lent as usize) {
                binding.flow = Some((number, A::V6));
            }
        }
        Ok(number)
    }

    /// Whether a reply's key is free. Flows that are over or have expired make way.
    fn make_way<A: FlowFamily>(&mut self, key: &Key<A>, own: Option<u32>, now: u32) -> bool {
        let table = &A::flows(self).table;
        let Some(other) = table.find(key, table.hash(key)) else { return true };
        if Some(other.pair) == own {
            return true;
        }
        let common = &table.pair(other.pair).common;
        if self.is_expired(common, now) {
            self.expire::<A>(other.pair);
            return true;
        }
        if common.state.is_over() || !common.bits.contains(Bits::PAIRED) {
            self.remove_pair::<A>(other.pair);
            return true;
        }
        false
    }

    /// A packet of a known flow that the cached path did not take.
    #[expect(clippy::too_many_arguments, reason = "the packet and all that was found for it")]
    fn follow<A: FlowFamily>(
        &mut self,
        direction: Direction,
        seen: &Seen<A>,
        extra: Extra,
        found: Found,
        hairpinned: bool,
        packet: &mut Packet,
        ctx: &mut Context<'_, '_>,
    ) -> Step {
        if seen.meta.proto == wire::proto::TCP && !extra.later {
            self.track::<A>(found.pair, found.half, seen.meta.tcp);
        }
        let generation = self.generation;
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
                self.main_again(direction, seen, extra, found, hairpinned, packet, ctx)
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
    #[expect(clippy::too_many_arguments, reason = "the packet and all that was found for it")]
    fn main_again<A: FlowFamily>(
        &mut self,
        direction: Direction,
        seen: &Seen<A>,
        extra: Extra,
        found: Found,
        hairpinned: bool,
        packet: &mut Packet,
        ctx: &mut Context<'_, '_>,
    ) -> Option<Step> {
        self.counters_of(direction).resimulated += 1;
        let flows = A::flows(self);
        let pair = *flows.table.pair(found.pair);
        let prior = flows.nodes.list(pair.common.results);
        let first = View::of(seen, extra, hairpinned);
        let established = matches!(pair.common.state, TcpState::Established | TcpState::HalfClosed);
        let mac = pair.halves[0]
            .ht
            .flags
            .contains(HtFlags::DST_MAC)
            .then_some(wire::Mac(pair.halves[0].ht.dst_mac));
        let role = Role::Main { prior: &prior, first: pair.halves[0].key.ends, established, mac };
        let mut walk = self.walk::<A>(direction, first, &role, ctx);
        let composed = match self.settle_end(direction, &mut walk, packet, ctx) {
            // Waiting for a next hop decides nothing about the flow.
            Err(step @ Step::Pending(_)) => {
                self.give_back_all(&walk);
                return Some(step);
            }
            Err(Step::Drop) => {
                let reason = match walk.end {
                    End::Drop(reason) => reason,
                    _ => DropReason::Acl,
                };
                self.block::<A>(found.pair, reason, &walk, packet, ctx);
                return Some(Step::Drop);
            }
            Err(step) => {
                self.give_back_all(&walk);
                return Some(step);
            }
            Ok(()) => match self.compose(direction, &first, &walk, None, ctx) {
                Ok(composed) => composed,
                Err(reason) => {
                    self.give_back_all(&walk);
                    return Some(self.drop(direction, reason, None, packet, ctx));
                }
            },
        };
        let reply = composed.view.ends::<A>().reversed();
        let moved = reply != pair.halves[1].key.ends;
        let paired = walk.stateful || pair.common.bits.intersects(Bits::SENT_BACK | Bits::CAME_BACK);
        if moved && paired {
            let key = Key { ends: reply, ..pair.halves[1].key };
            if !self.make_way::<A>(&key, Some(found.pair), ctx.now) {
                self.give_back_all(&walk);
                return Some(self.drop(direction, DropReason::FlowConflict, None, packet, ctx));
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
        reply: crate::flow::key::Ends<A>,
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
        walk: &Walk<A>,
        packet: &Packet,
        ctx: &mut Context<'_, '_>,
    ) {
        let path = self.paths.acquire(&walk.path);
        let generation = self.generation;
        self.give_back_all(walk);
        let flows = A::flows_mut(self);
        let pair = flows.table.pair_mut(number);
        let before = pair.common;
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
        let main = usize::from(pair.halves[0].key.direction);
        self.settle(&before);
        if let Some(&serial) = walk.path.rules.last() {
            self.rule_counters.entry(serial).or_default().dropped_flows += 1;
        }
        if established
            && ctx.shared.settings.reset_on_block
            && let Some(reset) = wire::build::tcp_reset(packet.data())
        {
            self.counters[main].reset_injected += 1;
            ctx.made.push((Direction::In, Packet::new(&reset)));
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
        let flows = A::flows(self);
        let pair = *flows.table.pair(found.pair);
        if pair.common.bits.contains(Bits::BLOCKED) {
            return None;
        }
        let prior = flows.nodes.list(pair.common.results);
        let first = View::of(seen, extra, false);
        let role = Role::Reply { prior: &prior, first: pair.halves[0].key.ends };
        let mut walk = self.walk::<A>(direction, first, &role, ctx);
        if let Err(step) = self.settle_end(direction, &mut walk, packet, ctx) {
            self.count_rules(&walk, step);
            self.give_back_all(&walk);
            return Some(step);
        }
        if pair.common.bits.contains(Bits::CAME_BACK) {
            walk.end = End::Hairpin(Hairpin::Back);
        }
        if pair.common.bits.contains(Bits::SENT_BACK) {
            // The adapter never saw the packet; whoever sent it must see the reply.
            let main = &pair.halves[0].l2;
            walk.view.destination_mac = wire::bytes::get_mac(main, 6).unwrap_or_default();
            walk.view.source_mac = wire::bytes::get_mac(main, 0).unwrap_or_default();
        }
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

    /// Handles ends of a walk other than passing on.
    fn settle_end<A: Addr>(
        &mut self,
        direction: Direction,
        walk: &mut Walk<A>,
        packet: &mut Packet,
        ctx: &mut Context<'_, '_>,
    ) -> Result<(), Step> {
        match walk.end {
            End::Pass | End::Hairpin(_) => Ok(()),
            End::Drop(reason) => {
                let rule = walk.dropped_by.take();
                Err(self.drop(direction, reason, rule.as_ref(), packet, ctx))
            }
            End::Pending(next_hop) => {
                if ctx.watched {
                    ctx.event(&Event::Pending { port: self.spec.name, next_hop });
                }
                Err(Step::Pending(next_hop))
            }
            End::Ping => match wire::build::echo_reply(packet.data()) {
                Some(reply) => {
                    *packet = Packet::new(&reply);
                    ctx.made.push((direction.reverse(), packet.clone()));
                    Err(self.drop(direction, DropReason::Answered, None, packet, ctx))
                }
                None => Err(self.drop(direction, DropReason::Malformed, None, packet, ctx)),
            },
        }
    }

    /// The transposition of a walk, and where the packet goes.
    fn compose<A: FlowFamily>(
        &mut self,
        direction: Direction,
        first: &View,
        walk: &Walk<A>,
        reply: Option<Bits>,
        ctx: &mut Context<'_, '_>,
    ) -> Result<Composed<A>, DropReason> {
        let mut view = walk.view;
        let mut target = 0;
        let mut extra_flags = HtFlags::empty();
        match walk.end {
            End::Hairpin(Hairpin::Back) => extra_flags |= HtFlags::HAIRPIN,
            End::Hairpin(Hairpin::Port(name)) => {
                extra_flags |= HtFlags::HAIRPIN;
                let port = ctx.shared.port_of.get(&name).ok_or(DropReason::Forwarding)?;
                target = port + 1;
            }
            _ if direction == Direction::Out => {
                let way = ctx.shared.way(self.index, &mut view);
                let back = ctx.shared.settings.drop_loopback_hairpin && reply.is_none();
                target = match way {
                    Way::Port(port, _) if port == self.index && back => {
                        return Err(DropReason::LoopbackHairpin);
                    }
                    Way::Port(port, _) => port + 1,
                    Way::Flood => FLOOD,
                    Way::Nowhere => return Err(DropReason::Forwarding),
                };
                if ctx.watched {
                    let (to, why) = match way {
                        Way::Port(port, why) => (ctx.shared.brief(port).map(|brief| brief.name), why),
                        _ => (None, Why::Flood),
                    };
                    ctx.event(&Event::Forward { from: self.spec.name, to, why, view });
                }
            }
            _ => {}
        }
        if ctx.watched && extra_flags.contains(HtFlags::HAIRPIN) {
            ctx.event(&Event::Hairpin { port: self.spec.name, view });
        }
        let mut ht = first.transposition::<A>(&view);
        ht.flags |= extra_flags;
        if walk.mirror {
            ht.flags |= HtFlags::MIRROR;
        }
        if let Some(bytes_per_second) = walk.bytes_per_second {
            ht.flags |= HtFlags::QOS;
            if self.bucket.is_none_or(|bucket| bucket.bytes_per_second != bytes_per_second) {
                self.bucket = Some(Bucket { bytes_per_second, level: bytes_per_second, filled: ctx.now });
            }
        }
        if ht.flags.contains(HtFlags::PUSH)
            && let Some(outer) = &view.outer
        {
            ht.flags.remove(HtFlags::VLAN);
            ht.extra = self.template(outer, ctx);
        }
        Ok(Composed { ht, target, view })
    }

    /// The number of a tunnel header.
    fn template(&mut self, outer: &OuterView, ctx: &Context<'_, '_>) -> u16 {
        if let Some(&number) = self.template_of.get(outer) {
            return number;
        }
        if self.templates.len() >= usize::from(u16::MAX) {
            // Numbers are used up: every flow that names one is composed again.
            self.templates.clear();
            self.template_of.clear();
            self.generation = self.generation.wrapping_add(1);
        }
        let settings = &ctx.shared.settings;
        let template = wire::vxlan::Outer {
            src_mac: outer.source_mac,
            dst_mac: outer.destination_mac,
            vlan: (outer.vlan != 0).then(|| wire::VlanTag::new(outer.vlan)),
            src: outer.source,
            dst: outer.destination,
            src_port: 0,
            dst_port: settings.vxlan_port,
            vni: outer.vni,
            ttl: settings.outer_ttl,
            tos: 0,
            df: settings.outer_df,
        };
        let number = u16::try_from(self.templates.len()).unwrap_or(0);
        self.templates.push(template.template());
        self.template_of.insert(*outer, number);
        number
    }

    /// Applies what was just composed.
    fn finish_kept<A: FlowFamily>(
        &mut self,
        direction: Direction,
        composed: &Composed<A>,
        found: Found,
        seen: &Seen<A>,
        packet: &mut Packet,
        ctx: &mut Context<'_, '_>,
    ) -> Step {
        self.finish(direction, &composed.ht, composed.target, found, &seen.meta, packet, ctx)
    }

    pub(crate) fn give_back_all<A>(&mut self, walk: &Walk<A>) {
        for &binding in &walk.lent {
            self.give_back(binding);
        }
    }

    /// Counts a packet for the rules that decided when no flow does.
    fn count_rules<A>(&mut self, walk: &Walk<A>, step: Step) {
        for (index, &serial) in walk.path.rules.iter().enumerate() {
            let counters = self.rule_counters.entry(serial).or_default();
            counters.matched_packets += 1;
            if index + 1 == walk.path.rules.len() {
                counters.dropped_packets += u64::from(step == Step::Drop);
                counters.pending_packets += u64::from(matches!(step, Step::Pending(_)));
            }
        }
    }
}
