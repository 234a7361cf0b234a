//! The slow path: packets without a flow, and what becomes a flow of them.

use wire::Packet;
use wire::quoted::Quoted;
use wire::rewrite::Rewrite;

use super::cached::{Context, Step};
use super::compose::Composed;
use super::walk::{End, Role, Walk};
use super::{FlowFamily, Port};
use crate::DropReason;
use crate::flow::key::{Addr, Ends, Key};
use crate::flow::pair::{Bits, Common, Half, Ht, HtFlags, NONE, Pair, TcpState};
use crate::flow::quick::{Extra, Seen};
use crate::flow::table::Found;
use crate::model::{Direction, Guards};
use crate::view::View;

const SYN: u8 = 2;
const ACK: u8 = 16;

/// No flow is behind it.
const NOWHERE: Found = Found { pair: NONE, half: 0 };

/// Whether a flow can have the key of its replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// It can.
    Free,
    /// The other way is a flow of its own, with a better claim: this one stays without replies.
    Others,
    /// Another connection has it.
    Taken,
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
        packet: &mut Packet,
        ctx: &mut Context<'_, '_>,
    ) -> Step {
        self.counters_of(direction).slow += 1;
        if !self.spec.enabled {
            return self.drop(direction, DropReason::BlockedPort, None, packet, ctx);
        }
        if let Some(reason) = self.guarded(direction, seen) {
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
            None => self.open(direction, seen, extra, key, packet, ctx),
            Some(found) => self.follow(direction, seen, extra, found, packet, ctx),
        }
    }

    /// Guards against false senders.
    fn guarded<A: Addr>(&self, direction: Direction, seen: &Seen<A>) -> Option<DropReason> {
        let guards = self.spec.guards;
        if let Some(reason) = self.guard_frame(direction, seen.l2.destination(), seen.l2.source()) {
            return Some(reason);
        }
        if direction == Direction::In {
            return None;
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
    fn open<A: FlowFamily>(
        &mut self,
        direction: Direction,
        seen: &Seen<A>,
        extra: Extra,
        key: Key<A>,
        packet: &mut Packet,
        ctx: &mut Context<'_, '_>,
    ) -> Step {
        let first = View::of(seen, extra, ctx.came_back(direction));
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
        if extra.later || extra.is_icmp_message() {
            // It tells of other packets, or cannot be told apart from them: no flow.
            self.count_rules(&walk, Step::Back);
            self.give_back_all(&walk);
            if composed.ht.flags.contains(HtFlags::ENDS) {
                let reason = if extra.icmp.is_some() { DropReason::IcmpNat } else { DropReason::Fragment };
                return self.drop(direction, reason, None, packet, ctx);
            }
            return self.finish(direction, &composed.ht, composed.target, NOWHERE, meta, packet, ctx);
        }
        let pair = self.new_pair(direction, seen, key, &walk, &composed, ctx);
        match self.insert::<A>(pair, &walk, ctx) {
            Ok(number) => {
                let found = Found { pair: number, half: 0 };
                let common = &mut A::flows_mut(self).table.pair_mut(number).common;
                common.packets[0] += 1;
                common.bytes[0] += u64::from(meta.ip_len);
                self.finish(direction, &composed.ht, composed.target, found, meta, packet, ctx)
            }
            Err(reason) => {
                self.count_rules(&walk, Step::Drop);
                self.give_back_all(&walk);
                self.drop(direction, reason, None, packet, ctx)
            }
        }
    }

    fn new_pair<A: FlowFamily>(
        &self,
        direction: Direction,
        seen: &Seen<A>,
        key: Key<A>,
        walk: &Walk<A>,
        composed: &Composed<A>,
        ctx: &Context<'_, '_>,
    ) -> Pair<A> {
        let mut bits = Bits::empty();
        bits.set(Bits::CAME_BACK, ctx.came_back(direction));
        bits.set(Bits::SENT_BACK, matches!(walk.end, End::Hairpin(_)));
        if seen.meta.proto == wire::proto::TCP {
            bits.set(Bits::OPENED, seen.meta.tcp & (SYN | ACK) == SYN);
            bits.set(Bits::ANSWERS, seen.meta.tcp & (SYN | ACK) == SYN | ACK);
        }
        let state = match (seen.meta.proto, self.spec.flows.track_tcp) {
            (wire::proto::TCP, true) if seen.meta.tcp & (SYN | ACK) == SYN => TcpState::SynSent,
            (wire::proto::TCP, true) => TcpState::Established,
            _ => TcpState::Plain,
        };
        let reply = Key {
            ends: composed.view.ends::<A>().reversed(),
            proto: key.proto,
            direction: direction.reverse().number(),
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
        let mut paired = walk.stateful || pair.common.bits.intersects(Bits::SENT_BACK | Bits::CAME_BACK);
        if !self.has_room(&pair) {
            self.sweep(ctx.now, 64);
            if !self.has_room(&pair) {
                return Err(DropReason::FlowLimit);
            }
        }
        if paired {
            paired = match self.make_way::<A>(&pair, &pair.halves[1].key, None, ctx.now) {
                Room::Free => true,
                Room::Others => false,
                Room::Taken => return Err(DropReason::FlowConflict),
            };
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

    /// Whether a reply's key is free for a flow. Flows that are over or have expired make way.
    pub(super) fn make_way<A: FlowFamily>(
        &mut self,
        flow: &Pair<A>,
        key: &Key<A>,
        own: Option<u32>,
        now: u32,
    ) -> Room {
        // Whoever opened a connection decides about its replies; else the next segment of the other side would open the
        // way again that a new rule has closed. Only a flow that is not translated can do without its replies.
        let plain = key.ends == flow.halves[0].key.ends.reversed()
            && !flow.common.bits.intersects(Bits::SENT_BACK | Bits::CAME_BACK);
        if plain && flow.common.bits.contains(Bits::ANSWERS) {
            return Room::Others;
        }
        let table = &A::flows(self).table;
        let Some(other) = table.find(key, table.hash(key)) else { return Room::Free };
        if Some(other.pair) == own {
            return Room::Free;
        }
        let common = &table.pair(other.pair).common;
        if self.is_expired(common, now) {
            self.expire::<A>(other.pair);
            return Room::Free;
        }
        // Also when it has replies elsewhere: what is let through must not depend on which of the two was looked at last.
        let theirs = other.half == 0 && common.bits.contains(Bits::OPENED) && !common.state.is_over();
        if theirs && plain && !flow.common.bits.contains(Bits::OPENED) {
            return Room::Others;
        }
        if common.state.is_over() || !common.bits.contains(Bits::PAIRED) {
            self.remove_pair::<A>(other.pair);
            return Room::Free;
        }
        Room::Taken
    }

    /// An ICMP message other than an echo. An error about a connection goes the way of the connection's packets in
    /// its direction; what it quotes is translated as those would be.
    pub(crate) fn message<A: FlowFamily>(
        &mut self,
        direction: Direction,
        seen: &Seen<A>,
        extra: Extra,
        key: Key<A>,
        packet: &mut Packet,
        ctx: &mut Context<'_, '_>,
    ) -> Step {
        if self.spec.enabled
            && self.guarded(direction, seen).is_none()
            && let Some(step) = self.error_of_flow(direction, seen, extra, packet, ctx)
        {
            self.counters[direction.index()].slow += 1;
            return step;
        }
        self.slow(direction, seen, extra, key, None, packet, ctx)
    }

    /// None: it is about no connection here, or about one that is not translated.
    fn error_of_flow<A: FlowFamily>(
        &mut self,
        direction: Direction,
        seen: &Seen<A>,
        extra: Extra,
        packet: &mut Packet,
        ctx: &mut Context<'_, '_>,
    ) -> Option<Step> {
        let quoted = extra.quoted.filter(|quoted| quoted.src.is_ipv6() == A::V6)?;
        let (sport, dport) = quoted.ports?;
        let ends = Ends { src: A::of(quoted.src), dst: A::of(quoted.dst), sport, dport }.reversed();
        let key = Key { ends, proto: quoted.proto, direction: direction.number(), tunnel: 0 };
        let table = &A::flows(self).table;
        let found = table.find(&key, table.hash(&key))?;
        let pair = *table.pair(found.pair);
        let stale = found.half == 0 && pair.common.generation[0] != self.generation;
        if stale || self.is_expired(&pair.common, ctx.now) || pair.common.bits.contains(Bits::BLOCKED) {
            return None;
        }
        // As a packet of the connection that comes from where the error comes from.
        let mut first = View::of(seen, extra, ctx.came_back(direction));
        first.set_ends(&ends);
        first.protocol = quoted.proto;
        first.quoted = None;
        let echo = matches!(quoted.proto, wire::proto::ICMP | wire::proto::ICMP6);
        first.icmp = echo.then_some(if A::V6 { (129, 0) } else { (0, 0) });
        first.tcp_flags = if quoted.proto == wire::proto::TCP { ACK } else { 0 };
        let walk = self.walk_known(direction, first, found, &pair, ctx);
        self.give_back_all(&walk);
        let reply = (found.half == 1).then_some(pair.common.bits);
        if !matches!(walk.end, End::Pass | End::Hairpin(_)) {
            return None;
        }
        let composed = self.compose(direction, &first, &walk, reply, ctx).ok()?;
        if !composed.ht.flags.contains(HtFlags::ENDS) {
            return None;
        }
        if !ctx.shared.settings.icmp_nat || !translate_error(packet, &ends, &composed.ht.ends, seen, &quoted)
        {
            return Some(self.drop(direction, DropReason::IcmpNat, None, packet, ctx));
        }
        self.count_rules(&walk, Step::Back);
        let ht = Ht { flags: composed.ht.flags - HtFlags::ENDS, ..composed.ht };
        Some(self.finish(direction, &ht, composed.target, NOWHERE, &seen.meta, packet, ctx))
    }
}

/// Both headers of an error are translated: its own addresses, as far as they are the connection's, and the quote.
fn translate_error<A: Addr>(
    packet: &mut Packet,
    old: &Ends<A>,
    new: &Ends<A>,
    seen: &Seen<A>,
    quoted: &Quoted,
) -> bool {
    let Some(frame) = packet.data_mut().get_mut(usize::from(seen.meta.outer)..) else { return false };
    let Ok(parsed) = wire::parse(frame) else { return false };
    let Some(mut ip) = parsed.ip().copied() else { return false };
    let address = |old: A, new: A| (old != new).then(|| new.ip());
    let echo = matches!(quoted.proto, wire::proto::ICMP | wire::proto::ICMP6);
    let kind = wire::bytes::get_u8(frame, quoted.l4_offset);
    let request = matches!(kind, Some(8 | 128));
    // The quoted packet went the other way.
    let quote = Rewrite {
        src: address(old.dst, new.dst),
        dst: address(old.src, new.src),
        sport: (old.dport != new.dport && (!echo || request)).then_some(new.dport),
        dport: (old.sport != new.sport && (!echo || !request)).then_some(new.sport),
    };
    let own = Rewrite {
        src: address(old.src, new.src).filter(|_| seen.ends.src == old.src),
        dst: address(old.dst, new.dst).filter(|_| seen.ends.dst == old.dst),
        ..Rewrite::default()
    };
    quote.apply_to_quote(frame, &ip, quoted).is_ok() && own.apply(frame, &mut ip).is_ok()
}
