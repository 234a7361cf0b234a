//! Changes to a switch's policy: checked as a whole, then done.

use std::net::IpAddr;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use uuid::Uuid;

use crate::group::Group;
use crate::model::{Action, ApplyError, Change, Family, GroupKey, PortKind, PortSpec};
use crate::nat::Pool;
use crate::port::Port;
use crate::shared::{Brief, Owned};
use crate::switch::Switch;

/// What would be there after the changes checked so far: only what they touch.
#[derive(Default)]
struct Draft {
    ports: FxHashMap<Uuid, bool>,
    layers: FxHashMap<(Uuid, Arc<str>), bool>,
    groups: FxHashMap<GroupKey, bool>,
    /// Rules put or taken, and groups that were replaced.
    rules: FxHashMap<(GroupKey, Arc<str>), bool>,
    fresh: FxHashSet<GroupKey>,
    attached: FxHashMap<(Uuid, Arc<str>, GroupKey), bool>,
    users: FxHashMap<GroupKey, i64>,
}

impl Switch {
    /// Does all changes of a list, or none of them. No packet sees a part.
    pub fn apply(&mut self, changes: &[Change]) -> Result<(), ApplyError> {
        let mut draft = Draft::default();
        for (index, change) in changes.iter().enumerate() {
            self.check(change, &mut draft).map_err(|what| ApplyError { index, what })?;
        }
        if changes.is_empty() {
            return Ok(());
        }
        self.shared.clock = self.shared.clock.wrapping_add(1);
        let mut touched = Touched::default();
        for change in changes {
            self.make(change, &mut touched);
        }
        self.after(&touched);
        Ok(())
    }

    fn has_port(&self, port: Uuid, draft: &Draft) -> bool {
        draft.ports.get(&port).copied().unwrap_or_else(|| self.shared.port_of.contains_key(&port))
    }

    fn has_layer(&self, port: Uuid, layer: &Arc<str>, draft: &Draft) -> bool {
        draft.layers.get(&(port, Arc::clone(layer))).copied().unwrap_or_else(|| {
            // A port that is new in the list begins without layers.
            !draft.ports.contains_key(&port)
                && self.port(port).is_some_and(|port| port.layer(layer).is_some())
        })
    }

    fn has_group(&self, group: &GroupKey, draft: &Draft) -> bool {
        draft.groups.get(group).copied().unwrap_or_else(|| self.shared.group_of.contains_key(group))
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

    fn check(&self, change: &Change, draft: &mut Draft) -> Result<(), String> {
        match change {
            Change::Settings(settings) => {
                if settings.vxlan_port == 0 {
                    return Err("settings: the VXLAN port is 0; 4789 is usual".to_owned());
                }
            }
            Change::PutSegment(_) | Change::PutNeighbor(_) | Change::RemoveNeighbor { .. } => {}
            Change::RemoveSegment(id) => {
                let used = self.shared.ports.iter().flatten().find(|port| {
                    port.segment == *id && port.kind == PortKind::Endpoint && self.has_port(port.name, draft)
                });
                if let Some(port) = used {
                    return Err(format!("segment {id} still has port {}; remove the port first", port.name));
                }
            }
            Change::PutPort(spec) => self.check_port(spec, draft)?,
            Change::RemovePort(port) => {
                if !self.has_port(*port, draft) {
                    return Err(format!("there is no port {port} to remove"));
                }
                draft.ports.insert(*port, false);
                if let Some(found) = self.port(*port) {
                    for layer in &found.layers {
                        self.forget_attachments(*port, &layer.spec.id, draft);
                    }
                }
            }
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
                self.forget_attachments(*port, layer, draft);
            }
            Change::PutGroup(spec) => {
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
            }
            Change::RemoveGroup(group) => {
                if !self.has_group(group, draft) {
                    return Err(format!("there is no group {group} to remove"));
                }
                let number = self.shared.group_of.get(group);
                let users =
                    number.and_then(|&number| self.shared.group(number)).map_or(0, |group| group.users);
                let users = i64::from(users) + draft.users.get(group).copied().unwrap_or(0);
                if users > 0 {
                    return Err(format!("group {group} still hangs in {users} layers; detach it first"));
                }
                draft.groups.insert(group.clone(), false);
                draft.fresh.insert(group.clone());
            }
            Change::Attach { port, layer, group } => {
                if !self.has_layer(*port, layer, draft) {
                    return Err(format!(
                        "group {group}: port {port} has no layer {layer}; put the layer first"
                    ));
                }
                if !self.has_group(group, draft) {
                    return Err(format!("there is no group {group} to attach; put the group first"));
                }
                if self.is_attached(*port, layer, group, draft) {
                    return Err(format!("group {group} hangs in layer {layer} of port {port} already"));
                }
                draft.attached.insert((*port, Arc::clone(layer), group.clone()), true);
                *draft.users.entry(group.clone()).or_default() += 1;
            }
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
            Change::RemoveRule { group, rule } => {
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
            }
            Change::PutPool(pool) => {
                if !self.has_port(pool.owner, draft) {
                    return Err(format!(
                        "pool {}: there is no port {}; put the port first",
                        pool.key, pool.owner
                    ));
                }
                if let Some(range) = pool.ranges.iter().find(|range| range.first > range.last) {
                    let (first, last) = (range.first, range.last);
                    return Err(format!("pool {}: range {first}-{last} runs backwards", pool.key));
                }
            }
            Change::RemovePool(pool) => {
                if !self.pool_owner.contains_key(pool) {
                    return Err(format!("there is no pool {pool} to remove"));
                }
            }
            Change::PutTag(_) => {}
            Change::RemoveTag(tag) => {
                if !self.shared.tags.contains_key(tag) {
                    return Err(format!("there is no tag {tag} to remove"));
                }
            }
        }
        Ok(())
    }

    fn check_port(&self, spec: &PortSpec, draft: &mut Draft) -> Result<(), String> {
        let is_new = !self.has_port(spec.name, draft);
        if spec.kind == PortKind::External
            && let Some(other) = self.shared.external.and_then(|port| self.shared.brief(port))
            && other.name != spec.name
            && self.has_port(other.name, draft)
        {
            return Err(format!(
                "port {}: the switch has the external port {} already",
                spec.name, other.name
            ));
        }
        if is_new {
            if self.shared.ports.len() >= usize::from(u16::MAX) - 2 {
                return Err(format!("port {}: the switch has as many ports as it can", spec.name));
            }
            draft.ports.insert(spec.name, true);
        }
        Ok(())
    }

    /// Groups that hang in a layer that goes.
    fn forget_attachments(&self, port: Uuid, layer: &Arc<str>, draft: &mut Draft) {
        let Some(found) = self.port(port).and_then(|port| port.layer(layer)) else { return };
        for &number in found.groups.iter().flatten().flatten() {
            let Some(group) = self.shared.group(number) else { continue };
            let key = (port, Arc::clone(layer), group.key.clone());
            if draft.attached.insert(key, false) != Some(false) {
                *draft.users.entry(group.key.clone()).or_default() -= 1;
            }
        }
    }

    fn make(&mut self, change: &Change, touched: &mut Touched) {
        match change {
            Change::Settings(settings) => {
                self.shared.settings = settings.clone();
                touched.all = true;
            }
            Change::PutSegment(spec) => {
                self.shared.segments.insert(spec.id, spec.clone());
                touched.all = true;
            }
            Change::RemoveSegment(id) => {
                self.shared.segments.remove(id);
            }
            Change::PutPort(spec) => self.put_port(spec, touched),
            Change::RemovePort(port) => self.remove_port(*port, touched),
            Change::PutLayer { port, layer } => {
                let clock = self.shared.clock;
                if let Some(port) = self.port_mut(*port) {
                    port.put_layer(layer.clone(), clock);
                    touched.ports.insert(port.index);
                }
            }
            Change::RemoveLayer { port, layer } => {
                let Some(found) = self.port_mut(*port) else { return };
                let Some(at) = found.layers.iter().position(|other| other.spec.id == *layer) else { return };
                let gone = found.layers.remove(at);
                touched.ports.insert(found.index);
                for group in gone.groups.into_iter().flatten().flatten() {
                    self.unuse(group);
                }
            }
            Change::PutGroup(spec) => {
                let old = self.shared.group_of.get(&spec.key).copied();
                let users = old.and_then(|number| self.shared.group(number)).map_or(0, |group| group.users);
                let mut group = Group::new(spec);
                group.generation = self.shared.clock;
                group.users = users;
                for rule in &spec.rules {
                    self.shared.serials = self.shared.serials.wrapping_add(1);
                    group.put(Arc::clone(rule), self.shared.serials);
                }
                if let Some(number) = old {
                    self.shared.groups[number as usize] = Some(group);
                    touched.groups.insert(number);
                    touched.resort.insert(number);
                } else {
                    let free = self.shared.groups.iter().position(Option::is_none);
                    let number = free.unwrap_or_else(|| {
                        self.shared.groups.push(None);
                        self.shared.groups.len() - 1
                    });
                    self.shared.groups[number] = Some(group);
                    self.shared.group_of.insert(spec.key.clone(), u32::try_from(number).unwrap_or(u32::MAX));
                }
            }
            Change::RemoveGroup(group) => {
                if let Some(number) = self.shared.group_of.remove(group) {
                    self.shared.groups[number as usize] = None;
                }
            }
            Change::Attach { port, layer, group } => {
                let Some(&number) = self.shared.group_of.get(group) else { return };
                let clock = self.shared.clock;
                let Some(Some(group)) = self.shared.groups.get_mut(number as usize) else { return };
                group.users += 1;
                let (direction, family) = (group.direction.index(), group.family as usize);
                if let Some(port) = self.port_mut(*port) {
                    touched.ports.insert(port.index);
                    if let Some(layer) = port.layer_mut(layer) {
                        layer.groups[direction][family].push(number);
                        layer.generation = clock;
                    }
                }
                touched.resort.insert(number);
            }
            Change::Detach { port, layer, group } => {
                let Some(&number) = self.shared.group_of.get(group) else { return };
                let clock = self.shared.clock;
                if let Some(port) = self.port_mut(*port) {
                    touched.ports.insert(port.index);
                    if let Some(layer) = port.layer_mut(layer) {
                        layer
                            .groups
                            .iter_mut()
                            .flatten()
                            .for_each(|groups| groups.retain(|other| *other != number));
                        layer.generation = clock;
                    }
                }
                self.unuse(number);
            }
            Change::PutRule { group, rule } => {
                let clock = self.shared.clock;
                self.shared.serials = self.shared.serials.wrapping_add(1);
                let serial = self.shared.serials;
                self.with_group(group, touched, |group| {
                    group.put(Arc::clone(rule), serial);
                    group.generation = clock;
                });
            }
            Change::RemoveRule { group, rule } => {
                let clock = self.shared.clock;
                self.with_group(group, touched, |group| {
                    group.remove(rule);
                    group.generation = clock;
                });
            }
            Change::PutPool(spec) => {
                let owner = spec.owner;
                let moved = self.pool_owner.get(&spec.key).copied().filter(|&old| old != owner);
                if let Some(old) = moved.and_then(|old| self.port_mut(old)) {
                    old.pools.remove(&spec.key);
                }
                self.pool_owner.insert(spec.key.clone(), owner);
                if let Some(port) = self.port_mut(owner) {
                    match port.pools.get_mut(&spec.key) {
                        Some(pool) => pool.set(spec),
                        None => {
                            port.pools.insert(spec.key.clone(), Pool::new(spec));
                        }
                    }
                }
                touched.owners = true;
            }
            Change::RemovePool(pool) => {
                let owner = self.pool_owner.remove(pool);
                if let Some(port) = owner.and_then(|owner| self.port_mut(owner)) {
                    port.pools.remove(pool);
                }
                touched.owners = true;
            }
            Change::PutTag(tag) => {
                self.shared.tags.insert(tag.id.clone(), tag.addresses.clone());
                self.shared.tag_names.insert(tag.id.clone(), tag.name.clone());
                touched.tags.insert(tag.id.clone());
            }
            Change::RemoveTag(tag) => {
                self.shared.tags.remove(tag);
                self.shared.tag_names.remove(tag);
                touched.tags.insert(tag.clone());
            }
            Change::PutNeighbor(neighbor) => {
                self.shared.neighbors.insert((neighbor.segment, neighbor.address), neighbor.mac);
            }
            Change::RemoveNeighbor { segment, address } => {
                self.shared.neighbors.remove(&(*segment, *address));
            }
        }
    }

    fn with_group(&mut self, key: &GroupKey, touched: &mut Touched, change: impl FnOnce(&mut Group)) {
        if let Some(&number) = self.shared.group_of.get(key)
            && let Some(Some(group)) = self.shared.groups.get_mut(number as usize)
        {
            change(group);
            touched.groups.insert(number);
        }
    }

    fn unuse(&mut self, number: u32) {
        if let Some(Some(group)) = self.shared.groups.get_mut(number as usize) {
            group.users = group.users.saturating_sub(1);
        }
    }

    fn put_port(&mut self, spec: &PortSpec, touched: &mut Touched) {
        touched.forwarding = true;
        if let Some(port) = self.port_mut(spec.name) {
            port.set_spec(spec.clone());
            touched.ports.insert(port.index);
            return;
        }
        let free = self.ports.iter().position(Option::is_none);
        let index = free.unwrap_or(self.ports.len());
        let Ok(number) = u16::try_from(index) else { return };
        let port = Port::new(spec.clone(), number, self.shared.settings.hash_seed);
        if index == self.ports.len() {
            self.ports.push(None);
        }
        self.ports[index] = Some(port);
        self.shared.port_of.insert(spec.name, number);
        touched.ports.insert(number);
    }

    fn remove_port(&mut self, name: Uuid, touched: &mut Touched) {
        let Some(index) = self.shared.port_of.remove(&name) else { return };
        if let Some(port) = self.ports[usize::from(index)].take() {
            for group in port.layers.iter().flat_map(|layer| layer.groups.iter().flatten().flatten()) {
                self.unuse(*group);
            }
            self.pool_owner.retain(|_, owner| *owner != name);
        }
        touched.forwarding = true;
        touched.owners = true;
    }

    /// Brings what follows from the policy up to date, and tells the ports that are concerned.
    fn after(&mut self, touched: &Touched) {
        let mut groups = touched.groups.clone();
        if !touched.tags.is_empty() {
            let clock = self.shared.clock;
            for (number, group) in self.shared.groups.iter_mut().enumerate() {
                if let Some(group) = group
                    && touched.tags.iter().any(|tag| group.names_tag(tag))
                {
                    group.generation = clock;
                    groups.insert(u32::try_from(number).unwrap_or(u32::MAX));
                }
            }
        }
        if touched.forwarding {
            self.file_ports();
        }
        if touched.owners || touched.forwarding {
            self.file_owners();
        }
        let everybody = touched.all || touched.forwarding || touched.owners;
        let shared = &self.shared;
        for port in self.ports.iter_mut().flatten() {
            let mut concerned = everybody || touched.ports.contains(&port.index);
            if !concerned && !groups.is_empty() {
                let mut used = port.layers.iter().flat_map(|layer| layer.groups.iter().flatten().flatten());
                concerned = used.any(|group| groups.contains(group));
            }
            if !touched.resort.is_empty() && touched.ports.contains(&port.index)
                || touched.resort.iter().any(|group| groups.contains(group))
            {
                resort(port, shared);
            }
            if concerned {
                port.generation = port.generation.wrapping_add(1);
                port.reconsider();
            }
        }
    }

    fn file_ports(&mut self) {
        let shared = &mut self.shared;
        shared.ports.clear();
        shared.mtus.clear();
        shared.macs.clear();
        shared.external = None;
        for (index, port) in self.ports.iter().enumerate() {
            shared.mtus.push(port.as_ref().map_or(u16::MAX, |port| port.spec.mtu));
            shared.ports.push(port.as_ref().map(|port| Brief {
                name: port.spec.name,
                kind: port.spec.kind,
                segment: port.spec.segment,
                mac: port.spec.mac,
                mtu: port.spec.mtu,
                addresses: port.spec.addresses.clone(),
            }));
            let (Some(port), Ok(index)) = (port, u16::try_from(index)) else { continue };
            match port.spec.kind {
                PortKind::External => shared.external = Some(index),
                _ => shared.macs.entry(port.spec.mac).or_default().push(index),
            }
        }
    }

    fn file_owners(&mut self) {
        let mut owners: FxHashMap<(IpAddr, u8), Vec<Owned>> = FxHashMap::default();
        for port in self.ports.iter().flatten() {
            for pool in port.pools.values() {
                for range in &pool.ranges {
                    let owned = Owned { first: range.first, last: range.last, port: port.index };
                    owners.entry((range.address, pool.protocol)).or_default().push(owned);
                }
            }
        }
        owners.values_mut().for_each(|ranges| ranges.sort_unstable_by_key(|range| range.first));
        self.shared.owners = owners;
    }
}

/// What a list of changes concerns.
#[derive(Default)]
struct Touched {
    all: bool,
    forwarding: bool,
    owners: bool,
    ports: FxHashSet<u16>,
    groups: FxHashSet<u32>,
    resort: FxHashSet<u32>,
    tags: FxHashSet<String>,
}

/// Puts a port's groups where their direction, family and priority say.
fn resort(port: &mut Port, shared: &crate::shared::Shared) {
    for layer in &mut port.layers {
        let mut all: Vec<u32> = layer.groups.iter_mut().flatten().flat_map(std::mem::take).collect();
        all.sort_unstable_by_key(|&number| {
            let group = shared.group(number);
            (group.map(|group| group.priority), group.map(|group| group.key.clone()))
        });
        all.dedup();
        for number in all {
            let Some(group) = shared.group(number) else { continue };
            layer.groups[group.direction.index()][group.family as usize].push(number);
        }
    }
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
        _ => Ok(()),
    }
}
