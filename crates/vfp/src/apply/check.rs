//! Whether changes can be done, one after the other, without doing any.

use std::net::IpAddr;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use uuid::Uuid;

use crate::model::{
    Action, Change, Family, GroupKey, GroupSpec, LbFlags, PoolKey, PoolSpec, PortKind, PortSpec, Transpose,
};
use crate::switch::Switch;

/// As many ports as there are numbers for, less those that mean something else.
const MAX_PORTS: usize = 65_000;

/// What would be there after the changes checked so far: only what they touch.
#[derive(Default)]
pub(super) struct Draft {
    /// Kind and segment; none: it is taken away.
    ports: FxHashMap<Uuid, Option<(PortKind, u32)>>,
    layers: FxHashMap<(Uuid, Arc<str>), bool>,
    groups: FxHashMap<GroupKey, bool>,
    /// Rules put or taken, and groups that were replaced.
    rules: FxHashMap<(GroupKey, Arc<str>), bool>,
    fresh: FxHashSet<GroupKey>,
    attached: FxHashMap<(Uuid, Arc<str>, GroupKey), bool>,
    users: FxHashMap<GroupKey, i64>,
    /// The owner; none: it is taken away.
    pools: FxHashMap<PoolKey, Option<Uuid>>,
    tags: FxHashMap<String, bool>,
}

impl Switch {
    fn has_port(&self, port: Uuid, draft: &Draft) -> bool {
        draft.ports.get(&port).map_or_else(|| self.shared.port_of.contains_key(&port), Option::is_some)
    }

    /// Ports that would be there, of what kind and in which segment.
    fn ports_then<'s>(&'s self, draft: &'s Draft) -> impl Iterator<Item = (Uuid, PortKind, u32)> + 's {
        let old = self.shared.ports.iter().flatten().map(|port| (port.name, port.kind, port.segment));
        let old = old.filter(|(name, ..)| !draft.ports.contains_key(name));
        let new = draft.ports.iter().filter_map(|(&name, port)| port.map(|(kind, at)| (name, kind, at)));
        old.chain(new)
    }

    fn has_layer(&self, port: Uuid, layer: &Arc<str>, draft: &Draft) -> bool {
        draft.layers.get(&(port, Arc::clone(layer))).copied().unwrap_or_else(|| {
            self.has_port(port, draft) && self.port(port).is_some_and(|port| port.layer(layer).is_some())
        })
    }

    fn has_group(&self, group: &GroupKey, draft: &Draft) -> bool {
        draft.groups.get(group).copied().unwrap_or_else(|| self.shared.group_of.contains_key(group))
    }

    fn has_pool(&self, pool: &PoolKey, draft: &Draft) -> bool {
        let owner = match draft.pools.get(pool) {
            Some(owner) => *owner,
            None => self.pool_owner.get(pool).copied(),
        };
        owner.is_some()
    }

    fn is_attached(&self, port: Uuid, layer: &Arc<str>, group: &GroupKey, draft: &Draft) -> bool {
        let key = (port, Arc::clone(layer), group.clone());
        draft.attached.get(&key).copied().unwrap_or_else(|| {
            let number = self.shared.group_of.get(group);
            let layer = self.port(port).and_then(|port| port.layer(layer));
            match (number, layer) {
                (Some(number), Some(layer)) => {
                    layer.groups.iter().flatten().flatten().any(|other| other == number)
                }
                _ => false,
            }
        })
    }

    pub(super) fn check(&self, change: &Change, draft: &mut Draft) -> Result<(), String> {
        match change {
            Change::Settings(settings) if settings.vxlan_port == 0 => {
                return Err("settings: the VXLAN port is 0; 4789 is usual".to_owned());
            }
            Change::RemoveSegment(id) => {
                let mut ports = self.ports_then(draft);
                let used = ports.find(|(_, kind, at)| at == id && *kind == PortKind::Endpoint);
                if let Some((port, ..)) = used {
                    return Err(format!("segment {id} still has port {port}; remove the port first"));
                }
            }
            Change::PutPort(spec) => self.check_port(spec, draft)?,
            Change::RemovePort(port) => self.check_remove_port(*port, draft)?,
            Change::PutLayer { port, layer } => {
                if !self.has_port(*port, draft) {
                    return Err(format!("layer {}: there is no port {port}; put the port first", layer.id));
                }
                draft.layers.insert((*port, Arc::clone(&layer.id)), true);
            }
            Change::RemoveLayer { port, layer } => {
                if !self.has_layer(*port, layer, draft) {
                    return Err(format!("port {port} has no layer {layer} to remove"));
                }
                draft.layers.insert((*port, Arc::clone(layer)), false);
                self.forget_attachments(*port, Some(layer), draft);
            }
            Change::PutGroup(spec) => check_group(spec, draft)?,
            Change::RemoveGroup(group) => self.check_remove_group(group, draft)?,
            Change::Attach { port, layer, group } => self.check_attach(*port, layer, group, draft)?,
            Change::Detach { port, layer, group } => {
                if !self.is_attached(*port, layer, group, draft) {
                    return Err(format!("group {group} does not hang in layer {layer} of port {port}"));
                }
                draft.attached.insert((*port, Arc::clone(layer), group.clone()), false);
                *draft.users.entry(group.clone()).or_default() -= 1;
            }
            Change::PutRule { group, rule } => {
                if !self.has_group(group, draft) {
                    return Err(format!("rule {}: there is no group {group}; put the group first", rule.id));
                }
                check_rule(&rule.id, &rule.action)?;
                draft.rules.insert((group.clone(), Arc::clone(&rule.id)), true);
            }
            Change::RemoveRule { group, rule } => self.check_remove_rule(group, rule, draft)?,
            Change::PutPool(pool) => self.check_pool(pool, draft)?,
            Change::RemovePool(pool) => {
                if !self.has_pool(pool, draft) {
                    return Err(format!("there is no pool {pool} to remove"));
                }
                draft.pools.insert(pool.clone(), None);
            }
            Change::PutTag(tag) => {
                draft.tags.insert(tag.id.clone(), true);
            }
            Change::RemoveTag(tag) => {
                let there = draft.tags.get(tag).copied();
                if !there.unwrap_or_else(|| self.shared.tags.contains_key(tag)) {
                    return Err(format!("there is no tag {tag} to remove"));
                }
                draft.tags.insert(tag.clone(), false);
            }
            Change::Settings(_)
            | Change::PutSegment(_)
            | Change::PutNeighbor(_)
            | Change::RemoveNeighbor { .. } => {}
        }
        Ok(())
    }

    fn check_port(&self, spec: &PortSpec, draft: &mut Draft) -> Result<(), String> {
        if spec.kind == PortKind::External {
            let mut ports = self.ports_then(draft);
            let other = ports.find(|(name, kind, _)| *kind == PortKind::External && *name != spec.name);
            if let Some((other, ..)) = other {
                let name = spec.name;
                return Err(format!("port {name}: the switch has the external port {other} already"));
            }
        }
        if !self.has_port(spec.name, draft) && self.ports_then(draft).count() >= MAX_PORTS {
            return Err(format!("port {}: the switch has as many ports as it can", spec.name));
        }
        draft.ports.insert(spec.name, Some((spec.kind, spec.segment)));
        Ok(())
    }

    fn check_remove_port(&self, port: Uuid, draft: &mut Draft) -> Result<(), String> {
        if !self.has_port(port, draft) {
            return Err(format!("there is no port {port} to remove"));
        }
        self.forget_attachments(port, None, draft);
        // A port of this name that comes later in the list begins without anything.
        let layers = self.port(port).into_iter().flat_map(|found| &found.layers);
        for layer in layers {
            draft.layers.insert((port, Arc::clone(&layer.spec.id)), false);
        }
        draft.layers.iter_mut().filter(|((at, _), _)| *at == port).for_each(|(_, there)| *there = false);
        for (pool, _) in self.pool_owner.iter().filter(|(_, owner)| **owner == port) {
            draft.pools.entry(pool.clone()).or_insert(None);
        }
        draft.pools.values_mut().filter(|owner| **owner == Some(port)).for_each(|owner| *owner = None);
        draft.ports.insert(port, None);
        Ok(())
    }

    fn check_remove_group(&self, group: &GroupKey, draft: &mut Draft) -> Result<(), String> {
        if !self.has_group(group, draft) {
            return Err(format!("there is no group {group} to remove"));
        }
        let number = self.shared.group_of.get(group);
        let users = number.and_then(|&number| self.shared.group(number)).map_or(0, |group| group.users);
        let users = i64::from(users) + draft.users.get(group).copied().unwrap_or(0);
        if users > 0 {
            return Err(format!("group {group} still hangs in {users} layers; detach it first"));
        }
        draft.groups.insert(group.clone(), false);
        draft.rules.retain(|(of, _), _| of != group);
        draft.fresh.insert(group.clone());
        Ok(())
    }

    fn check_attach(
        &self,
        port: Uuid,
        layer: &Arc<str>,
        group: &GroupKey,
        draft: &mut Draft,
    ) -> Result<(), String> {
        if !self.has_layer(port, layer, draft) {
            return Err(format!("group {group}: port {port} has no layer {layer}; put the layer first"));
        }
        if !self.has_group(group, draft) {
            return Err(format!("there is no group {group} to attach; put the group first"));
        }
        if self.is_attached(port, layer, group, draft) {
            return Err(format!("group {group} hangs in layer {layer} of port {port} already"));
        }
        draft.attached.insert((port, Arc::clone(layer), group.clone()), true);
        *draft.users.entry(group.clone()).or_default() += 1;
        Ok(())
    }

    fn check_remove_rule(&self, group: &GroupKey, rule: &Arc<str>, draft: &mut Draft) -> Result<(), String> {
        let key = (group.clone(), Arc::clone(rule));
        let there = draft.rules.get(&key).copied().unwrap_or_else(|| {
            !draft.fresh.contains(group)
                && self.shared.group_of.get(group).is_some_and(|&number| {
                    self.shared.group(number).is_some_and(|group| group.contains(rule))
                })
        });
        if !there {
            return Err(format!("group {group} has no rule {rule} to remove"));
        }
        draft.rules.insert(key, false);
        Ok(())
    }

    fn check_pool(&self, pool: &PoolSpec, draft: &mut Draft) -> Result<(), String> {
        if !self.has_port(pool.owner, draft) {
            return Err(format!("pool {}: there is no port {}; put the port first", pool.key, pool.owner));
        }
        if let Some(range) = pool.ranges.iter().find(|range| range.first > range.last) {
            let (first, last) = (range.first, range.last);
            return Err(format!("pool {}: range {first}-{last} runs backwards", pool.key));
        }
        draft.pools.insert(pool.key.clone(), Some(pool.owner));
        Ok(())
    }

    /// Groups that hang in a layer that goes, or in all layers of a port.
    fn forget_attachments(&self, port: Uuid, layer: Option<&Arc<str>>, draft: &mut Draft) {
        let Draft { attached, users, .. } = draft;
        let goes = |id: &Arc<str>| layer.is_none_or(|layer| layer == id);
        let layers = self.port(port).into_iter().flat_map(|found| &found.layers);
        for found in layers.filter(|found| goes(&found.spec.id)) {
            for &number in found.groups.iter().flatten().flatten() {
                let Some(group) = self.shared.group(number) else { continue };
                attached.entry((port, Arc::clone(&found.spec.id), group.key.clone())).or_insert(true);
            }
        }
        for ((at, id, group), hangs) in attached {
            if *at == port && goes(id) && *hangs {
                *hangs = false;
                *users.entry(group.clone()).or_default() -= 1;
            }
        }
    }
}

fn check_group(spec: &GroupSpec, draft: &mut Draft) -> Result<(), String> {
    for rule in &spec.rules {
        check_rule(&rule.id, &rule.action)?;
    }
    let mut seen = FxHashSet::default();
    if let Some(twice) = spec.rules.iter().find(|rule| !seen.insert(&rule.id)) {
        return Err(format!("group {}: rule {} is given twice", spec.key, twice.id));
    }
    draft.groups.insert(spec.key.clone(), true);
    draft.fresh.insert(spec.key.clone());
    draft.rules.retain(|(group, _), _| *group != spec.key);
    for rule in &spec.rules {
        draft.rules.insert((spec.key.clone(), Arc::clone(&rule.id)), true);
    }
    Ok(())
}

/// What can be said of a rule without knowing packets.
fn check_rule(id: &str, action: &Action) -> Result<(), String> {
    let mixed = |addresses: &mut dyn Iterator<Item = IpAddr>| {
        let mut families = addresses.map(Family::of);
        let first = families.next();
        families.any(|family| Some(family) != first)
    };
    match action {
        Action::LbNat(lb) if mixed(&mut lb.dips.iter().map(|dip| dip.address)) => {
            Err(format!("rule {id}: its destinations are of both families; a packet has one"))
        }
        Action::RouteEncap(encap) if encap.destinations.is_empty() => {
            Err(format!("rule {id}: routeencap needs at least one destination"))
        }
        Action::RouteEncap(encap) if encap.destinations.len() > 8 => {
            let count = encap.destinations.len();
            Err(format!("rule {id}: routeencap takes at most 8 destinations, not {count}"))
        }
        Action::RouteEncap(encap) if encap.destinations.iter().any(|to| to.vni >= 1 << 24) => {
            Err(format!("rule {id}: a VXLAN network identifier has 24 bits"))
        }
        Action::LbNat(lb) if lb.source.is_some() && !lb.flags.contains(LbFlags::REWRITE_ADDRESS) => {
            Err(format!("rule {id}: a source pool needs the destination address rewritten, too"))
        }
        Action::RouteEncap(encap)
            if mixed(&mut std::iter::once(encap.source).chain(encap.destinations.iter().map(|to| to.pa))) =>
        {
            Err(format!("rule {id}: its provider addresses are of both families; a tunnel has one"))
        }
        Action::Transpose(Transpose { encap: Some(tunnel), .. })
            if tunnel.vni >= 1 << 24 || Family::of(tunnel.source) != Family::of(tunnel.destination) =>
        {
            Err(format!(
                "rule {id}: a tunnel has addresses of one family and a network identifier of 24 bits"
            ))
        }
        Action::Transpose(Transpose { vlan: Some(vlan), .. }) if *vlan > 4094 => {
            Err(format!("rule {id}: VLAN {vlan} is not in 0 to 4094"))
        }
        Action::PaRoute(route) if route.vlan > 4094 => {
            Err(format!("rule {id}: VLAN {} is not in 0 to 4094", route.vlan))
        }
        _ => Ok(()),
    }
}
