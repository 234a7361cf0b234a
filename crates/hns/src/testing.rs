//! What the unit tests of this crate share.

use std::collections::BTreeMap;
use std::sync::Arc;

use hcn::time::SeededEntropy;
use hcn::{Features, Version};
use parking_lot::Mutex;
use vfp::model::{Action, ApplyError, Change, GroupSpec, PoolKey, SwitchSettings};

use crate::host::Host;
use crate::profile::Profile;
use crate::program::Datapath;
use crate::program::table::{Item, Key};
use crate::switches::Switches;
use crate::tx::Env;

/// An environment of this version.
pub(crate) fn env_of(version: Version) -> Env {
    Env {
        profile: Profile::Newest,
        version,
        features: Features::of(version),
        switches: Switches::default(),
        host: Host::default(),
        entropy: Arc::new(SeededEntropy::new(1)),
    }
}

/// An engine with a ledger before it, which takes nothing that refers to what is not there.
#[derive(Default)]
pub(crate) struct Ledger {
    held: Mutex<BTreeMap<Key, Item>>,
    log: Mutex<Vec<Change>>,
    /// The engine, which refuses for reasons of its own.
    switch: Mutex<Option<vfp::Switch>>,
}

impl Ledger {
    /// What it holds, every rule on its own.
    pub(crate) fn items(&self) -> BTreeMap<Key, Item> {
        self.held.lock().clone()
    }

    /// The changes since the last call.
    pub(crate) fn take_log(&self) -> Vec<Change> {
        std::mem::take(&mut self.log.lock())
    }
}

impl Datapath for Ledger {
    fn apply(&self, changes: &[Change]) -> Result<(), ApplyError> {
        let mut held = self.held.lock().clone();
        for (index, change) in changes.iter().enumerate() {
            take(&mut held, change).map_err(|what| ApplyError { index, what })?;
        }
        let mut switch = self.switch.lock();
        let switch = switch.get_or_insert_with(|| vfp::Switch::new(SwitchSettings::default()));
        switch.apply(changes)?;
        *self.held.lock() = held;
        self.log.lock().extend_from_slice(changes);
        Ok(())
    }
}

type Held = BTreeMap<Key, Item>;

fn need(held: &Held, key: &Key) -> Result<(), String> {
    if held.contains_key(key) { Ok(()) } else { Err(format!("{key:?} is not there")) }
}

fn remove(held: &mut Held, key: &Key) -> Result<(), String> {
    held.remove(key).map(|_| ()).ok_or_else(|| format!("{key:?} is not there to be removed"))
}

fn pool_of(action: &Action) -> Option<&PoolKey> {
    match action {
        Action::DynNat(nat) => Some(&nat.pool),
        Action::LbNat(balance) => balance.source.as_ref(),
        _ => None,
    }
}

/// A group without its rules.
pub(crate) fn bare(spec: &GroupSpec) -> Item {
    Item::Group(Arc::new(GroupSpec { rules: Vec::new(), ..spec.clone() }))
}

fn put_rule(
    held: &mut Held,
    group: &vfp::model::GroupKey,
    rule: &Arc<vfp::model::Rule>,
) -> Result<(), String> {
    if let Some(pool) = pool_of(&rule.action) {
        need(held, &Key::Pool(pool.clone()))?;
    }
    held.insert(Key::Rule(group.clone(), Arc::clone(&rule.id)), Item::Rule(Arc::clone(rule)));
    Ok(())
}

fn take(held: &mut Held, change: &Change) -> Result<(), String> {
    match change.clone() {
        Change::Settings(settings) => {
            held.insert(Key::Settings, Item::Settings(Arc::new(settings)));
        }
        Change::PutSegment(segment) => {
            held.insert(Key::Segment(segment.id), Item::Segment(segment));
        }
        Change::PutPort(port) => {
            if port.segment != 0 {
                need(held, &Key::Segment(port.segment))?;
            }
            held.insert(Key::Port(port.name), Item::Port(Arc::new(port)));
        }
        Change::PutLayer { port, layer } => {
            need(held, &Key::Port(port))?;
            held.insert(Key::Layer(port, Arc::clone(&layer.id)), Item::Layer(layer));
        }
        Change::PutPool(pool) => {
            need(held, &Key::Port(pool.owner))?;
            held.insert(Key::Pool(pool.key.clone()), Item::Pool(Arc::new(pool)));
        }
        Change::PutTag(tag) => {
            held.insert(Key::Tag(tag.id.as_str().into()), Item::Tag(Arc::new(tag)));
        }
        Change::PutNeighbor(neighbor) => {
            need(held, &Key::Segment(neighbor.segment))?;
            held.insert(Key::Neighbor(neighbor.segment, neighbor.address), Item::Neighbor(neighbor));
        }
        Change::PutGroup(spec) => {
            held.retain(|key, _| !matches!(key, Key::Rule(group, _) if *group == spec.key));
            held.insert(Key::Group(spec.key.clone()), bare(&spec));
            for rule in &spec.rules {
                if held.contains_key(&Key::Rule(spec.key.clone(), Arc::clone(&rule.id))) {
                    return Err(format!("group {} has rule {} twice", spec.key, rule.id));
                }
                put_rule(held, &spec.key, rule)?;
            }
        }
        Change::PutRule { group, rule } => {
            need(held, &Key::Group(group.clone()))?;
            put_rule(held, &group, &rule)?;
        }
        Change::Attach { port, layer, group } => {
            need(held, &Key::Layer(port, Arc::clone(&layer)))?;
            need(held, &Key::Group(group.clone()))?;
            if held.insert(Key::Attach(port, layer, group.clone()), Item::Attach).is_some() {
                return Err(format!("group {group} hangs there already"));
            }
        }
        gone => take_away(held, gone)?,
    }
    Ok(())
}

fn take_away(held: &mut Held, change: Change) -> Result<(), String> {
    let blocked =
        |held: &Held, by: &dyn Fn(&Key, &Item) -> bool| match held.iter().find(|(key, item)| by(key, item)) {
            Some((key, _)) => Err(format!("{key:?} is in the way")),
            None => Ok(()),
        };
    match change {
        Change::Detach { port, layer, group } => remove(held, &Key::Attach(port, layer, group)),
        Change::RemoveRule { group, rule } => remove(held, &Key::Rule(group, rule)),
        Change::RemoveGroup(group) => {
            blocked(held, &|key, _| matches!(key, Key::Attach(_, _, hung) if *hung == group))?;
            held.retain(|key, _| !matches!(key, Key::Rule(of, _) if *of == group));
            remove(held, &Key::Group(group))
        }
        Change::RemoveLayer { port, layer } => {
            blocked(held, &|key, _| matches!(key, Key::Attach(on, of, _) if *on == port && *of == layer))?;
            remove(held, &Key::Layer(port, layer))
        }
        Change::RemovePool(pool) => {
            blocked(
                held,
                &|_, item| matches!(item, Item::Rule(rule) if pool_of(&rule.action) == Some(&pool)),
            )?;
            remove(held, &Key::Pool(pool))
        }
        Change::RemovePort(port) => {
            blocked(held, &|key, item| match (key, item) {
                (Key::Attach(on, ..), _) => *on == port,
                (_, Item::Pool(pool)) => pool.owner == port,
                _ => false,
            })?;
            held.retain(|key, _| !matches!(key, Key::Layer(on, _) if *on == port));
            remove(held, &Key::Port(port))
        }
        Change::RemoveTag(tag) => remove(held, &Key::Tag(tag.into())),
        Change::RemoveNeighbor { segment, address } => remove(held, &Key::Neighbor(segment, address)),
        Change::RemoveSegment(segment) => {
            blocked(held, &|key, item| match (key, item) {
                (_, Item::Port(port)) => port.segment == segment,
                (Key::Neighbor(of, _), _) => *of == segment,
                _ => false,
            })?;
            remove(held, &Key::Segment(segment))
        }
        other => Err(format!("{other:?} puts something")),
    }
}
