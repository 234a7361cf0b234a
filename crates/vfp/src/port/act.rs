//! What rules do to a packet on its walk.

use std::net::IpAddr;

use super::nodes::Node;
use super::walk::{Act, End, Role, Walk, stateful_node};
use super::{Context, Layer, Port, Remembered};
use crate::DropReason;
use crate::flow::key::{Addr, Ends};
use crate::flow::pair::NONE;
use crate::group::Entry;
use crate::model::{
    Action, Decap, DecapFlags, Dip, Distribution, DynNat, DynNatFlags, EncapFlags, LbFlags, LbNat, Nat,
    NatSide, NativeRoute, PaRoute, PoolKey, PortKind, RemovedDip, RouteEncap, RuleFlags, Transpose,
};
use crate::nat::{Ask, Binding};
use crate::pick;
use crate::trace::NextHop;
use crate::view::{OuterView, View};

/// How many MACs of destinations are remembered.
const MAX_DIP_MACS: usize = 65_536;

impl Port {
    pub(super) fn act<A: Addr>(
        &mut self,
        layer: &Layer,
        first: &View,
        entry: &Entry,
        as_what: &Role<'_, A>,
        walk: &mut Walk<A>,
        ctx: &mut Context<'_, '_>,
    ) -> Act {
        let Entry { rule, .. } = entry;
        let stateful = layer.spec.stateful && rule.flags.contains(RuleFlags::STATEFUL);
        if rule.action.translates()
            && let Some(reason) = untranslatable(&walk.view, as_what, stateful, ctx)
        {
            return Act::end(End::Drop(reason));
        }
        match &rule.action {
            // The far end of a connection that it opened would not know another source or destination.
            Action::DynNat(_) | Action::LbNat(_) if matches!(as_what, Role::Reply { .. }) => Act::pass(false),
            Action::Allow => Act::pass(stateful),
            Action::Block => Act::end(End::Drop(DropReason::Acl)),
            Action::Nat(nat) => {
                translate(nat, &mut walk.view);
                Act::pass(stateful)
            }
            Action::DynNat(dynnat) => self.dynamic(layer, dynnat, stateful, as_what, walk, ctx),
            Action::LbNat(lb) => self.balance(layer, lb, entry, stateful, as_what, walk, ctx),
            Action::Transpose(transpose) => transposed(transpose, stateful, walk),
            Action::RouteEncap(encap) => encapsulate(encap, self.spec.kind == PortKind::Host, walk, ctx),
            Action::Decap(decap) => {
                decapsulate(decap, &mut walk.view);
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
            && let Some((node, old)) = node_of(prior, *first, layer.serial)
            && old == walk.view.ends::<A>()
            && self.still_lent(node.binding, &dynnat.pool)
        {
            walk.view.set_ends(&node.ends);
            return Act { stateful, balanced: false, binding: node.binding, end: End::Pass };
        }
        match self.lend_port(&dynnat.pool, dynnat.flags, walk, ctx) {
            Some(binding) => Act { stateful, balanced: false, binding, end: End::Pass },
            None => Act::end(End::Drop(DropReason::NatPool)),
        }
    }

    /// Whether a lent port may be kept: its pool is still the rule's and still has it.
    pub(super) fn still_lent(&self, binding: u32, pool: &PoolKey) -> bool {
        self.binding(binding).is_some_and(|binding| {
            binding.pool == *pool && self.pools.get(pool).is_some_and(|pool| pool.gives(binding.outer))
        })
    }

    /// The MAC of a destination that no rule names any more.
    pub(super) fn old_mac<A: Addr>(&self, node: &Node<A>, view: &mut View) {
        let mac = if is_number(node.binding) {
            self.choice_macs.get(&node.binding)
        } else {
            self.dip_macs.get(&node.ends.dst.ip())
        };
        set_mac(mac.copied(), view);
    }

    /// Lends a port and puts it in the source's place.
    fn lend_port<A: Addr>(
        &mut self,
        pool: &PoolKey,
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
            hash: pick::of_packet(view, Distribution::FiveTuple, ctx.shared.settings.hash_seed),
        };
        let protocol = view.protocol;
        let mut outer = self.pools.get_mut(pool).filter(|pool| pool.protocol == protocol)?.take(&ask);
        if outer.is_none() && flags.contains(DynNatFlags::RECLAIM_TIME_WAIT) && self.reclaim(pool, &ask) {
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
        let mut act = Act { stateful, balanced: true, binding: NONE, end: End::Pass };
        if lb.flags.contains(LbFlags::DECREMENT_TTL) {
            walk.view.decrement_ttl();
        }
        // A rule that makes no layer flow keeps no choice.
        if stateful
            && let Some((node, dip)) =
                kept_choice(layer, lb, role, &walk.view, ctx.shared.settings.removed_dip)
        {
            match dip {
                Some(dip) => fix_mac(lb, dip, &mut walk.view),
                None => self.old_mac(node, &mut walk.view),
            }
            let same_source = match &lb.source {
                Some(pool) => self.still_lent(node.binding, pool),
                None => self.binding(node.binding).is_none(),
            };
            if same_source {
                walk.view.set_ends(&node.ends);
                act.binding = node.binding;
                return act;
            }
            walk.view.destination = node.ends.dst.ip();
            walk.view.destination_port = node.ends.dport;
        } else {
            let packet = pick::of_packet(&walk.view, lb.distribution, ctx.shared.settings.hash_seed);
            let Some(dip) = pick::pick(ctx.shared.settings.lb_choice, packet, &lb.dips, &entry.hashes)
                .map(|index| &lb.dips[index])
            else {
                return Act::end(End::Drop(DropReason::NoDestination));
            };
            if lb.flags.contains(LbFlags::REWRITE_ADDRESS) {
                walk.view.destination = dip.address;
            } else {
                act.binding = choice(dip);
            }
            if lb.flags.contains(LbFlags::REWRITE_PORT)
                && let Some(port) = dip.port
                && walk.view.has_ports()
            {
                walk.view.destination_port = port;
            }
            fix_mac(lb, dip, &mut walk.view);
            self.remember_mac(lb, dip);
        }
        if let Some(pool) = &lb.source {
            match self.lend_port(pool, DynNatFlags::RECLAIM_TIME_WAIT, walk, ctx) {
                Some(lent) => act.binding = lent,
                None => return Act::end(End::Drop(DropReason::NatPool)),
            }
        }
        act
    }

    fn remember_mac(&mut self, lb: &LbNat, dip: &Dip) {
        let fixes = lb.flags.intersects(LbFlags::FIX_MAC | LbFlags::FIX_MAC_CA_SOURCE);
        let Some(mac) = dip.mac.filter(|_| fixes) else { return };
        if !lb.flags.contains(LbFlags::REWRITE_ADDRESS) {
            let number = choice(dip);
            if self.choice_macs.len() >= MAX_DIP_MACS && !self.choice_macs.contains_key(&number) {
                self.choice_macs.clear();
            }
            self.choice_macs.insert(number, mac);
            return;
        }
        if self.dip_macs.len() >= MAX_DIP_MACS && !self.dip_macs.contains_key(&dip.address) {
            self.dip_macs.clear();
        }
        self.dip_macs.insert(dip.address, mac);
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
                if let Some(outer) = &mut walk.view.outer {
                    outer.destination_mac = mac;
                    outer.source_mac = source_mac;
                    outer.vlan = route.vlan;
                } else {
                    walk.view.destination_mac = mac;
                    walk.view.source_mac = source_mac;
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
    pub(super) fn route_outer<A: Addr>(&mut self, walk: &mut Walk<A>, ctx: &mut Context<'_, '_>) {
        if walk.view.outer.is_some_and(|outer| outer.destination_mac == wire::Mac::ZERO) {
            let first = walk.view;
            walk.end = self.pa_route(&PaRoute::default(), &first, walk, ctx);
        }
    }
}

/// A layer's decision, stateful or not, and the ends before it.
fn node_of<A: Addr>(prior: &[Node<A>], first: Ends<A>, layer: u16) -> Option<(&Node<A>, Ends<A>)> {
    let at = prior.iter().position(|node| node.layer == layer)?;
    let before = at.checked_sub(1).map_or(first, |at| prior[at].ends);
    Some((&prior[at], before))
}

/// The choice that a load balancer made before, if it is kept; the destination, if it is still there.
fn kept_choice<'k, A: Addr>(
    layer: &Layer,
    lb: &'k LbNat,
    role: &Role<'k, A>,
    view: &View,
    removed: RemovedDip,
) -> Option<(&'k Node<A>, Option<&'k Dip>)> {
    let Role::Main { prior, first, established } = role else { return None };
    let (node, old) = stateful_node(prior, *first, layer.serial)?;
    if !node.balanced || old != view.ends::<A>() {
        return None;
    }
    let dip = lb.dips.iter().find(|dip| is_choice(lb, dip, node));
    (dip.is_some() || keeps(removed, *established)).then_some((node, dip))
}

fn decapsulate(decap: &Decap, view: &mut View) {
    let Some(outer) = view.outer.take() else { return };
    if !decap.flags.contains(DecapFlags::KEEP_INNER_MAC) {
        set_mac(decap.destination_mac, view);
    }
    view.tenant = decap.flags.contains(DecapFlags::PUSH_VSID).then_some(outer.vni);
    if decap.flags.contains(DecapFlags::PUSH_TENANT_METADATA) {
        view.mark = Some(outer.vni);
    }
}

fn encapsulate<A: Addr>(
    encap: &RouteEncap,
    from_host: bool,
    walk: &mut Walk<A>,
    ctx: &Context<'_, '_>,
) -> Act {
    let view = &mut walk.view;
    let spread = encap.flags.intersects(EncapFlags::SPREAD_L3 | EncapFlags::SPREAD_L4);
    let index = if spread && encap.destinations.len() > 1 {
        let distribution = if encap.flags.contains(EncapFlags::SPREAD_L4) {
            Distribution::FiveTuple
        } else {
            Distribution::Source
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
        view.decrement_ttl();
    }
    // The far end is this node: no tunnel, straight to the host.
    if to.pa == encap.source {
        // What the host itself sends is on its way already.
        if !from_host {
            set_mac(ctx.shared.host().map(|host| host.mac), view);
        }
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

pub(super) fn keeps(removed: RemovedDip, established: bool) -> bool {
    match removed {
        RemovedDip::KeepEstablished => established,
        RemovedDip::Keep => true,
        RemovedDip::Rehash => false,
    }
}

/// A destination as a number, for balancers that do not rewrite the address.
#[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
fn choice(dip: &Dip) -> u32 {
    (pick::of_dip(dip) as u32 | 1 << 31) & !1
}

/// A node's binding is such a number: bindings are few, and none is [`NONE`].
fn is_number(binding: u32) -> bool {
    binding >> 31 == 1 && binding & 1 == 0
}

pub(super) fn is_choice<A: Addr>(lb: &LbNat, dip: &Dip, node: &Node<A>) -> bool {
    if !lb.flags.contains(LbFlags::REWRITE_ADDRESS) {
        return node.binding == choice(dip);
    }
    dip.address == node.ends.dst.ip()
        && dip.port.is_none_or(|port| port == node.ends.dport || !lb.flags.contains(LbFlags::REWRITE_PORT))
}

pub(super) fn fix_mac(lb: &LbNat, dip: &Dip, view: &mut View) {
    if lb.flags.intersects(LbFlags::FIX_MAC | LbFlags::FIX_MAC_CA_SOURCE) {
        set_mac(dip.mac, view);
    }
}

pub(super) fn set_mac(mac: Option<wire::Mac>, view: &mut View) {
    if let Some(mac) = mac {
        view.destination_mac = mac;
    }
}

fn translate(nat: &Nat, view: &mut View) {
    let ports = view.has_ports();
    let (address, port) = match nat.side {
        NatSide::Source => (&mut view.source, &mut view.source_port),
        NatSide::Destination => (&mut view.destination, &mut view.destination_port),
    };
    if let Some(new) = nat.address {
        *address = new;
    }
    if let Some(new) = nat.port.filter(|_| ports) {
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
    if let Some(port) = transpose.source_port.filter(|_| view.has_ports()) {
        view.source_port = port;
    }
    if let Some(port) = transpose.destination_port.filter(|_| view.has_ports()) {
        view.destination_port = port;
    }
    if let Some(vlan) = transpose.vlan {
        view.vlan = vlan;
    }
    if transpose.decrement_ttl {
        view.decrement_ttl();
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
