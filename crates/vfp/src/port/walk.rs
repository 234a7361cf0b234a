//! A packet's walk through the layers of a port.
//!
//! A walk changes a [`View`] and collects what each layer decided. It puts nothing into the flow tables; only NAT
//! ports are lent on the way, and given back by the caller when nothing comes of the walk.

use std::net::IpAddr;
use std::sync::Arc;

use smallvec::SmallVec;

use super::act::{fix_mac, is_choice, keeps, set_mac};
use super::nodes::{List, Node};
use super::paths::Path;
use super::{Context, Layer, Port};
use crate::DropReason;
use crate::flow::key::{Addr, Ends};
use crate::flow::pair::NONE;
use crate::group::{Entry, Group};
use crate::model::{Action, Direction, Family, Hairpin, LayerFlags, LbFlags, RuleFlags};
use crate::trace::{Event, FlowUse, LayerEvent, RuleRef};
use crate::view::View;

/// How a packet stands to the flows of the port.
pub(crate) enum Role<'a, A> {
    /// It may open a flow.
    New,
    /// It has a flow and goes its main way. What the layers decided before, and whether the connection is
    /// established.
    Main { prior: &'a [Node<A>], first: Ends<A>, established: bool },
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
pub(super) struct Act {
    pub(super) stateful: bool,
    pub(super) balanced: bool,
    pub(super) binding: u32,
    pub(super) end: End,
}

impl Act {
    pub(super) fn pass(stateful: bool) -> Self {
        Self { stateful, balanced: false, binding: NONE, end: End::Pass }
    }

    pub(super) fn end(end: End) -> Self {
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
            if layer.spec.flags.contains(LayerFlags::CLEAR_TENANT) {
                walk.view.tenant = None;
            }
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
                    tell(layer, None, true, &before, walk, ctx);
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
                    tell(layer, None, true, &before, walk, ctx);
                    return;
                }
            }
            Role::New => {}
        }
        let Some((group, entry)) = answer(layer, direction, &walk.view, ctx) else {
            let kept = self.keep_gone(layer, role, &before, walk, ctx);
            let has_groups = layer.groups.iter().flatten().any(|groups| !groups.is_empty());
            if !kept && has_groups && !layer.spec.flags.contains(LayerFlags::DEFAULT_ALLOW) {
                walk.end = End::Drop(DropReason::NoRuleMatch);
            }
            tell(layer, None, kept, &before, walk, ctx);
            return;
        };
        let Entry { rule, serial, .. } = entry;
        let serial = *serial;
        if matches!(rule.action, Action::Allow) && self.keep_gone(layer, role, &before, walk, ctx) {
            tell(layer, None, true, &before, walk, ctx);
            return;
        }
        walk.path.rules.push(serial);
        walk.mirror |= rule.flags.contains(RuleFlags::MIRROR);
        if rule.ttl != 0 {
            walk.ttl = u16::try_from(rule.ttl).unwrap_or(u16::MAX);
        }
        let act = self.act(layer, first, entry, role, walk, ctx);
        walk.end = act.end;
        let after = walk.view.ends::<A>();
        if act.stateful || after != before.ends::<A>() {
            walk.stateful |= act.stateful;
            walk.nodes.push(Node {
                layer: layer.serial,
                stateful: act.stateful,
                balanced: act.balanced,
                generation: newest(layer, direction, before_family(&before), ctx),
                rule: serial,
                binding: act.binding,
                ends: after,
                ..Node::default()
            });
        }
        let dropped = matches!(walk.end, End::Drop(_));
        if !dropped && !ctx.watched {
            return;
        }
        let named = RuleRef {
            layer: Arc::clone(&layer.spec.id),
            group: Arc::clone(&group.id),
            rule: Arc::clone(&rule.id),
            name: Arc::clone(&rule.name),
            action: rule.action.word().into(),
        };
        if dropped {
            walk.path.drops = true;
            walk.dropped_by = Some(named.clone());
        }
        tell(layer, Some(named), false, &before, walk, ctx);
    }

    /// No rule translates any more (none answers, or one that only allows), but a load balancer once did, or a
    /// translation of the destination as a load balancer's backends have it: the connection may outlive it.
    fn keep_gone<A: Addr>(
        &self,
        layer: &Layer,
        role: &Role<'_, A>,
        before: &View,
        walk: &mut Walk<A>,
        ctx: &Context<'_, '_>,
    ) -> bool {
        let Role::Main { prior, first, established } = role else { return false };
        let Some((node, old)) = stateful_node(prior, *first, layer.serial) else { return false };
        let moved = (node.ends.dst, node.ends.dport) != (old.dst, old.dport);
        if !(node.balanced || moved)
            || old != before.ends::<A>()
            || !keeps(ctx.shared.settings.removed_dip, *established)
        {
            return false;
        }
        walk.view.set_ends(&node.ends);
        if node.balanced {
            self.old_mac(node, &mut walk.view);
        }
        walk.nodes.push(*node);
        walk.path.rules.push(node.rule);
        walk.stateful = true;
        true
    }

    /// A kept decision is taken again, for what is not an end (MACs). False: it must be made anew.
    fn again<A: Addr>(
        &self,
        layer: &Layer,
        direction: Direction,
        node: &Node<A>,
        walk: &mut Walk<A>,
        ctx: &Context<'_, '_>,
    ) -> bool {
        // Nothing in the layer changed, so its rule is still there; it need not match this packet (TCP flags).
        let groups = &layer.groups[direction.index()][before_family(&walk.view) as usize];
        let mut groups = groups.iter().filter_map(|&group| ctx.shared.group(group));
        let Some(entry) = groups.find_map(|group| group.by_serial(node.rule)) else { return false };
        let rule = &entry.rule;
        match &rule.action {
            Action::LbNat(lb) => {
                if lb.source.as_ref().is_some_and(|pool| !self.still_lent(node.binding, pool)) {
                    return false;
                }
                match lb.dips.iter().find(|dip| is_choice(lb, dip, node)) {
                    Some(dip) => fix_mac(lb, dip, &mut walk.view),
                    None => self.old_mac(node, &mut walk.view),
                }
                if lb.flags.contains(LbFlags::DECREMENT_TTL) {
                    walk.view.decrement_ttl();
                }
            }
            Action::Nat(nat) => set_mac(nat.mac, &mut walk.view),
            Action::DynNat(dynnat) if self.still_lent(node.binding, &dynnat.pool) => {}
            Action::Allow => {}
            // Whatever else is stateful is cheap to do anew.
            _ => return false,
        }
        walk.view.set_ends(&node.ends);
        walk.path.rules.push(node.rule);
        walk.mirror |= rule.flags.contains(RuleFlags::MIRROR);
        if rule.ttl != 0 {
            walk.ttl = u16::try_from(rule.ttl).unwrap_or(u16::MAX);
        }
        true
    }
}

/// Tells those who want every decision what a layer did.
fn tell<A>(
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
pub(super) fn stateful_node<A: Addr>(
    prior: &[Node<A>],
    first: Ends<A>,
    layer: u16,
) -> Option<(&Node<A>, Ends<A>)> {
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
