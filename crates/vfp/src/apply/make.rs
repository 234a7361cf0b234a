//! Doing changes that were checked.

use std::sync::Arc;

use uuid::Uuid;

use super::Touched;
use crate::group::Group;
use crate::model::{Change, GroupKey, GroupSpec, PoolKey, PoolSpec, PortSpec};
use crate::nat::Pool;
use crate::port::Port;
use crate::switch::Switch;

impl Switch {
    pub(super) fn make(&mut self, change: &Change, touched: &mut Touched) {
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
                touched.all = true;
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
            Change::PutGroup(spec) => self.put_group(spec, touched),
            Change::RemoveGroup(group) => {
                if let Some(number) = self.shared.group_of.remove(group) {
                    self.shared.groups[number as usize] = None;
                }
            }
            Change::Attach { port, layer, group } => self.attach(*port, layer, group, touched),
            Change::Detach { port, layer, group } => self.detach(*port, layer, group, touched),
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
            Change::PutPool(spec) => self.put_pool(spec, touched),
            Change::RemovePool(pool) => self.remove_pool(pool, touched),
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

    fn put_group(&mut self, spec: &GroupSpec, touched: &mut Touched) {
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

    fn attach(&mut self, port: Uuid, layer: &str, group: &GroupKey, touched: &mut Touched) {
        let Some(&number) = self.shared.group_of.get(group) else { return };
        let clock = self.shared.clock;
        let Some(Some(group)) = self.shared.groups.get_mut(number as usize) else { return };
        group.users += 1;
        let (direction, family) = (group.direction.index(), group.family as usize);
        if let Some(port) = self.port_mut(port) {
            touched.ports.insert(port.index);
            if let Some(layer) = port.layer_mut(layer) {
                layer.groups[direction][family].push(number);
                layer.generation = clock;
            }
        }
        touched.resort.insert(number);
    }

    fn detach(&mut self, port: Uuid, layer: &str, group: &GroupKey, touched: &mut Touched) {
        let Some(&number) = self.shared.group_of.get(group) else { return };
        let clock = self.shared.clock;
        if let Some(port) = self.port_mut(port) {
            touched.ports.insert(port.index);
            if let Some(layer) = port.layer_mut(layer) {
                for groups in layer.groups.iter_mut().flatten() {
                    groups.retain(|other| *other != number);
                }
                layer.generation = clock;
            }
        }
        self.unuse(number);
    }

    fn put_pool(&mut self, spec: &PoolSpec, touched: &mut Touched) {
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

    fn remove_pool(&mut self, pool: &PoolKey, touched: &mut Touched) {
        let owner = self.pool_owner.remove(pool);
        if let Some(port) = owner.and_then(|owner| self.port_mut(owner)) {
            port.pools.remove(pool);
        }
        touched.owners = true;
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
}
