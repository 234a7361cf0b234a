//! A packet's walk through the layers of a port.
//!
//! A walk changes a [`View`] and collects what each layer decided. It puts nothing into the flow tables; only NAT
//! ports are lent on the way, and given back by the caller when nothing comes of the walk.

use std::net::IpAddr;
use std::sync::Arc;

use smallvec::SmallVec;

use super::nodes::{List, Node};
use super::paths::Path;
use super::{Context, Layer, Port, Remembered};
use crate::DropReason;
use crate::flow::key::{Addr, Ends};
use crate::flow::pair::NONE;
use crate::group::{Entry, Group};
use crate::model::{
    Action, Dip, Direction, DynNat, DynNatFlags, EncapFlags, Family, Hairpin, LayerFlags, LbFlags, LbNat,
    Nat, NatSide, NativeRoute, PaRoute, RemovedDip, RouteEncap, RuleFlags, Transpose,
};
use crate::nat::{Ask, Binding};
use crate::pick;
use crate::trace::{Event, FlowUse, LayerEvent, NextHop, RuleRef};
use crate::view::{OuterView, View};

/// How a packet stands to the flows of the port.
pub(crate) enum Role<'a, A> {
    /// It may open a flow.
    New,
    /// It has a flow and goes its main way. What the layers decided before, and whether the connection is
    /// established.
    Main {
        prior: &'a [Node<A>],
        first: Ends<A>,
        established: bool,
        /// The destination MAC that the flow's packets got until now.
        mac: Option<wire::Mac>,
    },
    /// It is a reply: what the layers decided for the main way, and the ends that it began with.
    Reply { prior: &'a [Node<A>], first: Ends<A> },
}

/// Where a walk ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Pass,
    Drop(DropReason),
    /// Back to where it came from, or into another port.
    Hairpin(Hairpin),
    /// An echo request that is answered here.
    Ping,
    /// The next hop is being resolved.
    Pending(IpAddr),
}

/// What a walk found.
pub(crate) struct Walk<A> {
    pub(crate) view: View,
    pub(crate) end: End,
    pub(crate) nodes: List<A>,
    pub(crate) path: Path,
    /// When the walk must be done again whatever happens, in milliseconds; `u32::MAX`: never.
    pub(crate) recheck: u32,
    /// Idle time in seconds, 0: as the port says.
    pub(crate) ttl: u16,
    /// A stateful rule matched.
    pub(crate) stateful: bool,
    pub(crate) mirror: bool,
    pub(crate) bytes_per_second: Option<u64>,
    /// NAT ports that were lent on this walk.
    pub(crate) lent: SmallVec<[u32; 2]>,
    /// The rule that dropped it.
    pub(crate) dropped_by: Option<RuleRef>,
}

/// What one rule did.
struct Act {
    stateful: bool,
    balanced: bool,
    binding: u32,
    end: End,
}

impl Act {
    fn pass(stateful: bool) -> Self {
        Self { stateful, balanced: false, binding: NONE, end: End::Pass }
    }

    fn end(end: End) -> Self {
        Self { stateful: false, balanced: false, binding: NONE, end }
    }
}

impl Port {
    /// Walks the layers.
    pub(crate) fn walk<A: Addr>(
        &mut self,
        direction: Direction,
        first: View,
        role: &Role<'_, A>,
        ctx: &mut Context<'_, '_>,
    ) -> Walk<A> {
        let mut walk = Walk {
            view: first,
            end: End::Pass,
            nodes: List::new(),
            path: Path::default(),
            recheck: NONE,
            ttl: 0,
            stateful: false,
            mirror: false,
            bytes_per_second: None,
            lent: SmallVec::new(),
            dropped_by: None,
        };
        if ctx.watched {
            let flow = match role {
                Role::New => FlowUse::Opens,
                Role::Main { .. } => FlowUse::Main,
                Role::Reply { .. } => FlowUse::Reply,
            };
            ctx.event(&Event::Enter { port: self.spec.name, direction, view: first, flow });
        }
        let layers = std::mem::take(&mut self.layers);
        let mut forward = layers.iter();
        let mut backward = layers.iter().rev();
        let order: &mut dyn Iterator<Item = &Layer> = match direction {
            Direction::Out => &mut forward,
            Direction::In => &mut backward,
        };
        for layer in order {
            self.layer_step(layer, direction, &first, role, &mut walk, ctx);
            if walk.end != End::Pass {
                break;
            }
        }
        self.layers = layers;
        if walk.end == End::Pass {
            self.route_outer(&mut walk, ctx);
        }
        walk
    }

    /// One layer.
    fn layer_step<A: Addr>(
        &mut self,
        layer: &Layer,
        direction: Direction,
        first: &View,
        role: &Role<'_, A>,
        walk: &mut Walk<A>,
        ctx: &mut Context<'_, '_>,
    ) {
        let before = walk.view;
        match role {
            Role::Reply { prior, first } => {
                if let Some((node, old)) = stateful_node(prior, *first, layer.serial) {
                    undo(&mut walk.view, &old, &node.ends);
                    walk.path.rules.push(node.rule);
                    walk.stateful = true;
                    self.tell(layer, None, true, &before, walk, ctx);
                    return;
                }
            }
            Role::Main { prior, first, .. } => {
                let newest = newest(layer, direction, before_family(&before), ctx);
                if let Some((node, old)) = stateful_node(prior, *first, layer.serial)
                    && node.generation == newest
                    && old == before.ends::<A>()
                    && self.again(layer, direction, node, walk, ctx)
                {
                    walk.nodes.push(Node { ..*node });
                    walk.stateful = true;
                    self.tell(layer, None, true, &before, walk, ctx);
                    return;
                }
            }
            Role::New => {}
        }
        let Some((group, entry)) = answer(layer, direction, &walk.view, ctx) else {
            if let Role::Main { prior, first, established, mac } = role
                && let Some((node, old)) = stateful_node(prior, *first, layer.serial)
                && node.balanced
                && old == before.ends::<A>()
                && keeps(ctx.shared.settings.removed_dip, *established)
            {
                // The load balancer is gone; the connection is not.
                walk.view.set_ends(&node.ends);
                if let Some(mac) = mac {
                    walk.view.destination_mac = *mac;
                }
                walk.nodes.push(*node);
                walk.path.rules.push(node.rule);
                walk.stateful = true;
                self.tell(layer, None, true, &before, walk, ctx);
                return;
            }
            let has_groups = layer.groups.iter().flatten().any(|groups| !groups.is_empty());
            if has_groups && !layer.spec.flags.contains(LayerFlags::DEFAULT_ALLOW) {
                walk.end = End::Drop(DropReason::NoRuleMatch);
            }
            self.tell(layer, None, false, &before, walk, ctx);
            return;
        };
        let newest = newest(layer, direction, before_family(&before), ctx);
        let (rule, serial) = (Arc::clone(&entry.rule), entry.serial);
        let entry = entry.clone();
        let group_id = Arc::clone(&group.id);
        walk.path.rules.push(serial);
        walk.mirror |= rule.flags.contains(RuleFlags::MIRROR);
        if rule.ttl != 0 {
            walk.ttl = u16::try_from(rule.ttl).unwrap_or(u16::MAX);
        }
        let act = self.act(layer, first, &entry, role, walk, ctx);
        walk.end = act.end;
        let after = walk.view.ends::<A>();
        if act.stateful || after != before.ends::<A>() {
            walk.stateful |= act.stateful;
            walk.nodes.push(Node {
                layer: layer.serial,
                stateful: act.stateful,
                balanced: act.balanced,
                generation: newest,
                rule: serial,
                binding: act.binding,
                ends: after,
                ..Node::default()
            });
        }
        if layer.spec.flags.contains(LayerFlags::CLEAR_TENANT) {
            walk.view.tenant = None;
        }
        let named = RuleRef {
            layer: Arc::clone(&layer.spec.id),
            group: group_id,
            rule: Arc::clone(&rule.id),
            name: Arc::clone(&rule.name),
            action: rule.action.word(),
        };
        if matches!(walk.end, End::Drop(_)) {
            walk.path.drops = true;
            walk.dropped_by = Some(named.clone());
        }
        self.tell(layer, Some(named), false, &before, walk, ctx);
    }

    fn tell<A>(
        &self,
        layer: &Layer,
        rule: Option<RuleRef>,
        from_flow: bool,
        before: &View,
        walk: &Walk<A>,
        ctx: &mut Context<'_, '_>,
    ) {
        if !ctx.watched {
            return;
        }
        let rule = rule.or_else(|| {
            let serial = *walk.path.rules.last().filter(|_| from_flow)?;
            ctx.rule_ref(layer, serial)
        });
        let dropped = match walk.end {
            End::Drop(reason) => Some(reason),
            _ => None,
        };
        ctx.event(&Event::Layer(LayerEvent {
            layer: Arc::clone(&layer.spec.id),
            rule,
            from_flow,
            before: *before,
            after: walk.view,
            dropped,
        }));
    }

    /// A kept decision is taken again. False: its rule cannot be found, so it is not.
    fn again<A: Addr>(
        &mut self,
        layer: &Layer,
        direction: Direction,
        node: &Node<A>,
        walk: &mut Walk<A>,
        ctx: &Context<'_, '_>,
    ) -> bool {
        // Nothing in the layer changed, so the same rule answers; it is asked for what is not an end (MACs).
        let Some((_, entry)) = answer(layer, direction, &walk.view, ctx) else { return false };
        if entry.serial != node.rule {
            return false;
        }
        let rule = Arc::clone(&entry.rule);
        match &rule.action {
            Action::LbNat(lb) => {
                let chosen = lb.dips.iter().find(|dip| is_choice(lb, dip, node));
                if let Some(dip) = chosen {
                    fix_mac(lb, dip, &mut walk.view);
                }
            }
            Action::Nat(nat) => set_mac(nat.mac, &mut walk.view),
            Action::DynNat(_) | Action::Allow => {}
            // Whatever else is stateful is cheap to do anew.
            _ => return false,
        }
        walk.view.set_ends(&node.ends);
        walk.path.rules.push(node.rule);
        if rule.ttl != 0 {
            walk.ttl = u16::try_from(rule.ttl).unwrap_or(u16::MAX);
        }
        true
    }

    fn act<A: Addr>(
        &mut self,
        layer: &Layer,
        first: &View,
        entry: &Entry,
        role: &Role<'_, A>,
        walk: &mut Walk<A>,
        ctx: &mut Context<'_, '_>,
    ) -> Act {
        let rule = &entry.rule;
        let stateful = layer.spec.stateful && rule.flags.contains(RuleFlags::STATEFUL);
        if rule.action.translates() {
            if let Some(reason) = untranslatable(&walk.view, role, stateful, ctx) {
                return Act::end(End::Drop(reason));
            }
        }
        match &rule.action {
            Action::Allow => Act::pass(stateful),
            Action::Block => Act::end(End::Drop(DropReason::Acl)),
            Action::Nat(nat) => {
                translate(nat, &mut walk.view);
                Act::pass(stateful)
            }
            Action::DynNat(dynnat) => self.dynamic(layer, dynnat, stateful, role, walk, ctx),
            Action::LbNat(lb) => self.balance(layer, lb, entry, stateful, role, walk, ctx),
            Action::Transpose(transpose) => transposed(transpose, stateful, walk),
            Action::RouteEncap(encap) => self.encapsulate(encap, walk, ctx),
            Action::Decap(decap) => {
                if let Some(outer) = walk.view.outer.take() {
                    use crate::model::DecapFlags as F;
                    if !decap.flags.contains(F::KEEP_INNER_MAC) {
                        set_mac(decap.destination_mac, &mut walk.view);
                    }
                    walk.view.tenant = decap.flags.contains(F::PUSH_VSID).then_some(outer.vni);
                    if decap.flags.contains(F::PUSH_TENANT_METADATA) {
                        walk.view.mark = Some(outer.vni);
                    }
                }
                Act::pass(false)
            }
            Action::PaRoute(route) => Act::end(self.pa_route(route, first, walk, ctx)),
            Action::PingResponse => {
                let request = matches!(walk.view.icmp, Some((8 | 128, _)));
                if request { Act::end(End::Ping) } else { Act::pass(false) }
            }
            Action::Meter(meter) => {
                walk.path.meters.push(meter.class);
                Act::pass(false)
            }
            Action::Qos { bytes_per_second } => {
                walk.bytes_per_second = Some(*bytes_per_second);
                Act::pass(false)
            }
            Action::Mark(mark) => {
                walk.view.mark = Some(*mark);
                Act::pass(false)
            }
        }
    }

    fn dynamic<A: Addr>(
        &mut self,
        layer: &Layer,
        dynnat: &DynNat,
        stateful: bool,
        role: &Role<'_, A>,
        walk: &mut Walk<A>,
        ctx: &Context<'_, '_>,
    ) -> Act {
        if let Role::Main { prior, first, .. } = role
            && let Some((node, old)) = stateful_node(prior, *first, layer.serial)
            && old == walk.view.ends::<A>()
            && self.binding(node.binding).is_some_and(|binding| binding.pool == dynnat.pool)
        {
            walk.view.set_ends(&node.ends);
            return Act { stateful, balanced: false, binding: node.binding, end: End::Pass };
        }
        match self.lend_port(&dynnat.pool, dynnat.flags, walk, ctx) {
            Some(binding) => Act { stateful, balanced: false, binding, end: End::Pass },
            None => Act::end(End::Drop(DropReason::NatPool)),
        }
    }

    /// Lends a port and puts it in the source's place.
    fn lend_port<A: Addr>(
        &mut self,
        pool: &crate::model::PoolKey,
        flags: DynNatFlags,
        walk: &mut Walk<A>,
        ctx: &Context<'_, '_>,
    ) -> Option<u32> {
        let view = &mut walk.view;
        let inner = (view.source, view.source_port);
        let icmp = !view.has_ports();
        let remote = (view.destination, if icmp { 0 } else { view.destination_port });
        let ask = Ask {
            inner,
            remote,
            reuse_socket: view.protocol == wire::proto::UDP && flags.contains(DynNatFlags::REUSE_UDP),
            hash: pick::of_packet(view, crate::model::Distribution::FiveTuple, ctx.shared.settings.hash_seed),
        };
        let protocol = view.protocol;
        let mut outer = self.pools.get_mut(pool).filter(|pool| pool.protocol == protocol)?.take(&ask);
        if outer.is_none() && flags.contains(DynNatFlags::RECLAIM_TIME_WAIT) && self.reclaim(pool) {
            outer = self.pools.get_mut(pool)?.take(&ask);
        }
        let outer = outer?;
        view.source = outer.0;
        view.source_port = outer.1;
        if icmp {
            view.destination_port = outer.1;
        }
        let binding = self.lend(Binding { pool: pool.clone(), protocol, inner, outer, remote, flow: None });
        walk.lent.push(binding);
        Some(binding)
    }

    pub(crate) fn binding(&self, number: u32) -> Option<&Binding> {
        self.bindings.get(number as usize)?.as_ref()
    }

    #[expect(clippy::too_many_arguments, reason = "a rule, its layer, and what the walk knows")]
    fn balance<A: Addr>(
        &mut self,
        layer: &Layer,
        lb: &LbNat,
        entry: &Entry,
        stateful: bool,
        role: &Role<'_, A>,
        walk: &mut Walk<A>,
        ctx: &Context<'_, '_>,
    ) -> Act {
        let before = walk.view.ends::<A>();
        let mut binding = NONE;
        if let Role::Main { prior, first, established, mac } = role
            && let Some((node, old)) = stateful_node(prior, *first, layer.serial)
            && node.balanced
            && old == before
        {
            let kept = lb.dips.iter().find(|dip| is_choice(lb, dip, node));
            if kept.is_some() || keeps(ctx.shared.settings.removed_dip, *established) {
                match kept {
                    Some(dip) => fix_mac(lb, dip, &mut walk.view),
                    None => set_mac(*mac, &mut walk.view),
                }
                let same_pool = match (&lb.source, self.binding(node.binding)) {
                    (Some(pool), Some(binding)) => *pool == binding.pool,
                    (None, None) => true,
                    _ => false,
                };
                if same_pool {
                    walk.view.set_ends(&node.ends);
                    return Act { stateful, balanced: true, binding: node.binding, end: End::Pass };
                }
                walk.view.destination = node.ends.dst.ip();
                walk.view.destination_port = node.ends.dport;
                if let Some(pool) = &lb.source {
                    match self.lend_port(pool, DynNatFlags::RECLAIM_TIME_WAIT, walk, ctx) {
                        Some(lent) => binding = lent,
                        None => return Act::end(End::Drop(DropReason::NatPool)),
                    }
                }
                return Act { stateful, balanced: true, binding, end: End::Pass };
            }
        }
        let packet = pick::of_packet(&walk.view, lb.distribution, ctx.shared.settings.hash_seed);
        let Some(dip) = pick::pick(packet, &lb.dips, &entry.hashes).map(|index| &lb.dips[index]) else {
            return Act::end(End::Drop(DropReason::NoDestination));
        };
        if lb.flags.contains(LbFlags::REWRITE_ADDRESS) {
            walk.view.destination = dip.address;
        }
        if lb.flags.contains(LbFlags::REWRITE_PORT)
            && let Some(port) = dip.port
        {
            walk.view.destination_port = port;
        }
        fix_mac(lb, dip, &mut walk.view);
        if lb.flags.contains(LbFlags::DECREMENT_TTL) {
            walk.view.ttl_decrements = 1;
        }
        if let Some(pool) = &lb.source {
            match self.lend_port(pool, DynNatFlags::RECLAIM_TIME_WAIT, walk, ctx) {
                Some(lent) => binding = lent,
                None => return Act::end(End::Drop(DropReason::NatPool)),
            }
        }
        if !lb.flags.contains(LbFlags::REWRITE_ADDRESS) {
            binding = choice(dip);
        }
        Act { stateful, balanced: true, binding, end: End::Pass }
    }

    fn encapsulate<A: Addr>(&mut self, encap: &RouteEncap, walk: &mut Walk<A>, ctx: &Context<'_, '_>) -> Act {
        let view = &mut walk.view;
        let spread = encap.flags.intersects(EncapFlags::SPREAD_L3 | EncapFlags::SPREAD_L4);
        let index = if spread && encap.destinations.len() > 1 {
            let distribution = if encap.flags.contains(EncapFlags::SPREAD_L4) {
                crate::model::Distribution::FiveTuple
            } else {
                crate::model::Distribution::Source
            };
            let hash = pick::of_packet(view, distribution, ctx.shared.settings.hash_seed);
            usize::try_from(hash % encap.destinations.len() as u64).unwrap_or(0)
        } else {
            0
        };
        let Some(to) = encap.destinations.get(index) else {
            return Act::end(End::Drop(DropReason::NoDestination));
        };
        if encap.flags.contains(EncapFlags::DECREMENT_TTL) {
            view.ttl_decrements = 1;
        }
        // The far end is this node: no tunnel, straight to the host.
        if to.pa == encap.source {
            set_mac(ctx.shared.host().map(|host| host.mac), view);
            return Act::pass(false);
        }
        if encap.flags.intersects(EncapFlags::FIX_INNER_MAC | EncapFlags::FIX_INNER_MAC_CA_SOURCE) {
            set_mac(to.ca_mac, view);
        }
        if encap.flags.contains(EncapFlags::FIX_INNER_MAC_CA_SOURCE)
            && let Some(mac) = encap.source_mac
        {
            view.source_mac = mac;
        }
        view.outer = Some(OuterView {
            source_mac: wire::Mac::ZERO,
            destination_mac: wire::Mac::ZERO,
            vlan: 0,
            source: encap.source,
            destination: to.pa,
            vni: to.vni,
        });
        Act::pass(false)
    }

    /// The next hop of the outer header, or of a packet without one that the rule means.
    fn pa_route<A: Addr>(
        &mut self,
        route: &PaRoute,
        first: &View,
        walk: &mut Walk<A>,
        ctx: &mut Context<'_, '_>,
    ) -> End {
        let destination = match (&walk.view.outer, route.native) {
            (Some(outer), _) => outer.destination,
            (None, NativeRoute::ToMac(mac)) if walk.view.destination_mac == mac => walk.view.destination,
            (None, NativeRoute::Readdressed) if walk.view.destination != first.destination => {
                walk.view.destination
            }
            _ => return End::Pass,
        };
        let (hop, recheck) = self.next_hop(route, destination, ctx);
        walk.recheck = walk.recheck.min(recheck);
        match hop {
            NextHop::Via { mac, source_mac } => {
                match &mut walk.view.outer {
                    Some(outer) => {
                        outer.destination_mac = mac;
                        outer.source_mac = source_mac;
                        outer.vlan = route.vlan;
                    }
                    None => {
                        walk.view.destination_mac = mac;
                        walk.view.source_mac = source_mac;
                    }
                }
                End::Pass
            }
            NextHop::Local => match (ctx.shared.host().map(|host| host.mac), &mut walk.view.outer) {
                (Some(mac), None) => {
                    walk.view.destination_mac = mac;
                    End::Pass
                }
                _ => End::Drop(DropReason::PaRoute),
            },
            NextHop::Pending => End::Pending(destination),
            NextHop::Unreachable => End::Drop(DropReason::PaRoute),
        }
    }

    fn next_hop(
        &mut self,
        route: &PaRoute,
        destination: IpAddr,
        ctx: &mut Context<'_, '_>,
    ) -> (NextHop, u32) {
        if let Some(known) = self.next_hops.get(&destination)
            && known.until.wrapping_sub(ctx.now).cast_signed() > 0
        {
            return (NextHop::Via { mac: known.mac, source_mac: known.source_mac }, known.until);
        }
        let hop = ctx.routes.next_hop(route.compartment, destination);
        let until = ctx.now.wrapping_add(route.cache_timeout.saturating_mul(1000)).min(NONE - 1);
        if let NextHop::Via { mac, source_mac } = hop {
            if self.next_hops.len() >= route.cache_limit.max(1) as usize {
                let oldest = self.next_hops.iter().min_by_key(|(address, hop)| (hop.until, **address));
                if let Some(oldest) = oldest.map(|(address, _)| *address) {
                    self.next_hops.remove(&oldest);
                }
            }
            self.next_hops.insert(destination, Remembered { mac, source_mac, until });
        }
        (hop, until)
    }

    /// A tunnel header that no rule has given a next hop gets the host's.
    fn route_outer<A: Addr>(&mut self, walk: &mut Walk<A>, ctx: &mut Context<'_, '_>) {
        if walk.view.outer.is_some_and(|outer| outer.destination_mac == wire::Mac::ZERO) {
            let first = walk.view;
            walk.end = self.pa_route(&PaRoute::default(), &first, walk, ctx);
        }
    }
}

fn before_family(view: &View) -> Family {
    Family::of(view.outer.map_or(view.source, |outer| outer.source))
}

/// The latest change among the groups that a packet would be asked by.
fn newest(layer: &Layer, direction: Direction, family: Family, ctx: &Context<'_, '_>) -> u32 {
    let groups = &layer.groups[direction.index()][family as usize];
    let latest =
        groups.iter().filter_map(|&group| ctx.shared.group(group)).map(|group| group.generation).max();
    latest.unwrap_or(0).max(layer.generation)
}

/// The rule whose answer counts.
fn answer<'s>(
    layer: &Layer,
    direction: Direction,
    view: &View,
    ctx: &Context<'s, '_>,
) -> Option<(&'s Group, &'s Entry)> {
    let shared = ctx.shared;
    let vxlan = shared.settings.vxlan_port;
    let fields = view.fields(vxlan);
    let mut last = None;
    for &group in &layer.groups[direction.index()][before_family(view) as usize] {
        let Some(group) = shared.group(group) else { continue };
        let Some(entry) = group.find(view, &fields, &shared.tags, vxlan) else { continue };
        last = Some((group, entry));
        if entry.rule.flags.contains(RuleFlags::TERMINATING) {
            break;
        }
    }
    last
}

/// A layer's stateful decision, and the ends before it.
fn stateful_node<A: Addr>(prior: &[Node<A>], first: Ends<A>, layer: u16) -> Option<(&Node<A>, Ends<A>)> {
    let mut before = first;
    for node in prior {
        if node.layer == layer {
            return node.stateful.then_some((node, before));
        }
        before = node.ends;
    }
    None
}

/// A reply passes a layer that turned `old` into `new`.
fn undo<A: Addr>(view: &mut View, old: &Ends<A>, new: &Ends<A>) {
    if (new.dst, new.dport) != (old.dst, old.dport) {
        view.source = old.dst.ip();
        view.source_port = old.dport;
    }
    if (new.src, new.sport) != (old.src, old.sport) {
        view.destination = old.src.ip();
        view.destination_port = old.sport;
    }
    if !view.has_ports() {
        // An echo has one identifier for both ends.
        view.source_port = old.sport;
        view.destination_port = old.sport;
    }
}

fn keeps(removed: RemovedDip, established: bool) -> bool {
    match removed {
        RemovedDip::KeepEstablished => established,
        RemovedDip::Keep => true,
        RemovedDip::Rehash => false,
    }
}

/// A destination as a number, for balancers that do not rewrite the address.
#[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
fn choice(dip: &Dip) -> u32 {
    pick::of_dip(dip) as u32 | 1 << 31
}

fn is_choice<A: Addr>(lb: &LbNat, dip: &Dip, node: &Node<A>) -> bool {
    if !lb.flags.contains(LbFlags::REWRITE_ADDRESS) {
        return node.binding == choice(dip);
    }
    dip.address == node.ends.dst.ip()
        && dip.port.is_none_or(|port| port == node.ends.dport || !lb.flags.contains(LbFlags::REWRITE_PORT))
}

fn fix_mac(lb: &LbNat, dip: &Dip, view: &mut View) {
    if lb.flags.intersects(LbFlags::FIX_MAC | LbFlags::FIX_MAC_CA_SOURCE) {
        set_mac(dip.mac, view);
    }
}

fn set_mac(mac: Option<wire::Mac>, view: &mut View) {
    if let Some(mac) = mac {
        view.destination_mac = mac;
    }
}

fn translate(nat: &Nat, view: &mut View) {
    let (address, port) = match nat.side {
        NatSide::Source => (&mut view.source, &mut view.source_port),
        NatSide::Destination => (&mut view.destination, &mut view.destination_port),
    };
    if let Some(new) = nat.address {
        *address = new;
    }
    if let Some(new) = nat.port {
        *port = new;
    }
    set_mac(nat.mac, view);
}

/// Why a packet cannot be translated.
fn untranslatable<A>(
    view: &View,
    role: &Role<'_, A>,
    stateful: bool,
    ctx: &Context<'_, '_>,
) -> Option<DropReason> {
    if view.icmp.is_some() && (view.is_icmp_message() || !ctx.shared.settings.icmp_nat) {
        return Some(DropReason::IcmpNat);
    }
    let stray = view.protocol == wire::proto::TCP && !view.is_first_syn() && matches!(role, Role::New);
    (stray && stateful && !ctx.shared.settings.mid_stream).then_some(DropReason::NonSyn)
}

fn transposed<A: Addr>(transpose: &Transpose, stateful: bool, walk: &mut Walk<A>) -> Act {
    let view = &mut walk.view;
    if transpose.decap {
        view.outer = None;
    }
    if let Some(mac) = transpose.source_mac {
        view.source_mac = mac;
    }
    set_mac(transpose.destination_mac, view);
    if let Some(address) = transpose.source {
        view.source = address;
    }
    if let Some(address) = transpose.destination {
        view.destination = address;
    }
    if let Some(port) = transpose.source_port {
        view.source_port = port;
    }
    if let Some(port) = transpose.destination_port {
        view.destination_port = port;
    }
    if let Some(vlan) = transpose.vlan {
        view.vlan = vlan;
    }
    if transpose.decrement_ttl {
        view.ttl_decrements = 1;
    }
    if let Some(tunnel) = &transpose.encap {
        view.outer = Some(OuterView {
            source_mac: wire::Mac::ZERO,
            destination_mac: wire::Mac::ZERO,
            vlan: 0,
            source: tunnel.source,
            destination: tunnel.destination,
            vni: tunnel.vni,
        });
    }
    let end = transpose.hairpin.map_or(End::Pass, End::Hairpin);
    Act { stateful, balanced: false, binding: NONE, end }
}
