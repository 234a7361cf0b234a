//! What the switch is to hold, as a map, and which part of it each object brought.
//!
//! An object's part is its *fragment*. Setting a fragment anew touches only the keys that it had or has, and
//! [`Table::take_changes`] turns what became different into a list of changes that a switch can take from first to
//! last. Nothing here knows what the entries mean.

use std::net::IpAddr;
use std::sync::Arc;

use hcn::Guid;
use rustc_hash::{FxHashMap, FxHashSet};
use uuid::Uuid;
use vfp::model::{
    Change, GroupKey, GroupSpec, LayerSpec, NeighborSpec, PoolKey, PoolSpec, PortSpec, Rule, SegmentSpec,
    SwitchSettings, TagSpec,
};

/// Who brings entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Source {
    /// The machine.
    Host,
    /// A network.
    Network(Guid),
    /// An endpoint.
    Endpoint(Guid),
    /// A load balancer.
    Balancer(Guid),
    /// A load balancer that is gone and left rules behind (F-STALERULES).
    Stale(Guid),
}

/// What an entry is called in the switch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Key {
    Settings,
    Segment(u32),
    Port(Uuid),
    Layer(Uuid, Arc<str>),
    Pool(PoolKey),
    Tag(Arc<str>),
    Group(GroupKey),
    Rule(GroupKey, Arc<str>),
    Attach(Uuid, Arc<str>, GroupKey),
    Neighbor(u32, IpAddr),
}

/// What it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    Settings(Arc<SwitchSettings>),
    Segment(SegmentSpec),
    Port(Arc<PortSpec>),
    Layer(LayerSpec),
    Pool(Arc<PoolSpec>),
    Tag(Arc<TagSpec>),
    /// Either without rules, which come as entries of their own, or complete and replaced as a unit.
    Group(Arc<GroupSpec>),
    Rule(Arc<Rule>),
    Attach,
    Neighbor(NeighborSpec),
}

/// One entry of a fragment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: Key,
    pub(crate) item: Item,
    /// Of several sources that bring the same key the lowest rank counts.
    pub(crate) rank: u64,
    /// Every source that brings the key brings the same item: they are counted, not told apart.
    pub(crate) shared: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Slot {
    One(Source, u64, Item),
    Many(Vec<(u64, Source, Item)>),
    Shared(u32, Item),
    /// Nobody brings it any more; it goes with the next [`Table::take_changes`].
    Empty,
}

impl Slot {
    /// The entry that counts.
    fn item(&self) -> Option<&Item> {
        match self {
            Self::One(_, _, item) | Self::Shared(_, item) => Some(item),
            Self::Many(all) => all.first().map(|(.., item)| item),
            Self::Empty => None,
        }
    }
}

/// A slot, and whether it was touched since the last [`Table::take_changes`].
#[derive(Clone, Debug)]
struct Cell {
    slot: Slot,
    touched: bool,
}

/// The map.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    cells: FxHashMap<Key, Cell>,
    fragments: FxHashMap<Source, Vec<Key>>,
    /// What was touched, and what it was before the first touch.
    touched: Vec<(Key, Option<Item>)>,
}

/// Up to so many keys are compared one by one.
const FEW: usize = 12;

/// Looks for keys among others.
struct Among<'a> {
    keys: &'a [Key],
    set: FxHashSet<&'a Key>,
}

impl<'a> Among<'a> {
    fn new(keys: &'a [Key]) -> Self {
        let set = if keys.len() > FEW { keys.iter().collect() } else { FxHashSet::default() };
        Self { keys, set }
    }

    fn has(&self, key: &Key) -> bool {
        if self.keys.len() > FEW { self.set.contains(key) } else { self.keys.contains(key) }
    }
}

impl Table {
    /// The sources that bring something.
    pub(crate) fn sources(&self) -> impl Iterator<Item = Source> {
        self.fragments.keys().copied()
    }

    /// What a source brings.
    pub(crate) fn fragment(&self, source: Source) -> Vec<Entry> {
        let keys = self.fragments.get(&source).map(Vec::as_slice).unwrap_or_default();
        let own = |key: &Key| {
            let (rank, item, shared) = match &self.cells.get(key)?.slot {
                Slot::One(_, rank, item) => (*rank, item, false),
                Slot::Shared(_, item) => (0, item, true),
                Slot::Many(all) => {
                    let (rank, _, item) = all.iter().find(|(_, owner, _)| *owner == source)?;
                    (*rank, item, false)
                }
                Slot::Empty => return None,
            };
            Some(Entry { key: key.clone(), item: item.clone(), rank, shared })
        };
        keys.iter().filter_map(own).collect()
    }

    /// Every entry that counts.
    #[cfg(test)]
    pub(crate) fn items(&self) -> std::collections::BTreeMap<Key, Item> {
        let items =
            self.cells.iter().filter_map(|(key, cell)| Some((key.clone(), cell.slot.item()?.clone())));
        items.collect()
    }

    /// Replaces what a source brings. A key that is given twice counts once, as it came first.
    pub(crate) fn set(&mut self, source: Source, entries: Vec<Entry>) {
        let old = self.fragments.remove(&source).unwrap_or_default();
        if old.is_empty() && entries.is_empty() {
            return;
        }
        let had = Among::new(&old);
        let mut keys: Vec<Key> = Vec::with_capacity(entries.len());
        let mut seen: FxHashSet<Key> = FxHashSet::default();
        let many = entries.len() > FEW;
        for Entry { key, item, rank, shared } in entries {
            let twice = if many { !seen.insert(key.clone()) } else { keys.contains(&key) };
            if twice {
                continue;
            }
            let held = had.has(&key);
            self.put(source, &key, item, rank, shared, held);
            keys.push(key);
        }
        let has = Among::new(&keys);
        for key in old.iter().filter(|key| !has.has(key)) {
            self.drop_key(source, key);
        }
        if !keys.is_empty() {
            self.fragments.insert(source, keys);
        }
    }

    fn put(&mut self, source: Source, key: &Key, item: Item, rank: u64, shared: bool, had: bool) {
        let Some(cell) = self.cells.get_mut(key) else {
            let slot = if shared { Slot::Shared(1, item) } else { Slot::One(source, rank, item) };
            self.cells.insert(key.clone(), Cell { slot, touched: true });
            self.touched.push((key.clone(), None));
            return;
        };
        match &mut cell.slot {
            Slot::One(owner, old_rank, old) if *owner == source && *old_rank == rank && *old == item => {
                return;
            }
            // Whoever brings a shared item brings the same.
            Slot::Shared(count, _) => {
                *count += u32::from(!had);
                return;
            }
            _ => {}
        }
        if !cell.touched {
            cell.touched = true;
            self.touched.push((key.clone(), cell.slot.item().cloned()));
        }
        match &mut cell.slot {
            Slot::Empty | Slot::Shared(..) => {
                cell.slot = if shared { Slot::Shared(1, item) } else { Slot::One(source, rank, item) };
            }
            Slot::One(owner, ..) if *owner == source => cell.slot = Slot::One(source, rank, item),
            Slot::One(owner, own_rank, own) => {
                let mut all = vec![(*own_rank, *owner, own.clone()), (rank, source, item)];
                all.sort_by_key(|(rank, source, _)| (*rank, *source));
                cell.slot = Slot::Many(all);
            }
            Slot::Many(all) => {
                all.retain(|(_, owner, _)| *owner != source);
                let at = all.partition_point(|(r, s, _)| (*r, *s) < (rank, source));
                all.insert(at, (rank, source, item));
            }
        }
    }

    fn drop_key(&mut self, source: Source, key: &Key) {
        let Some(cell) = self.cells.get_mut(key) else { return };
        if let Slot::Shared(count, _) = &mut cell.slot
            && *count > 1
        {
            *count -= 1;
            return;
        }
        if !cell.touched {
            cell.touched = true;
            self.touched.push((key.clone(), cell.slot.item().cloned()));
        }
        match &mut cell.slot {
            Slot::One(owner, ..) if *owner != source => {}
            Slot::One(..) | Slot::Shared(..) | Slot::Empty => cell.slot = Slot::Empty,
            Slot::Many(all) => {
                all.retain(|(_, owner, _)| *owner != source);
                if let [(rank, owner, item)] = all.as_slice() {
                    cell.slot = Slot::One(*owner, *rank, item.clone());
                }
            }
        }
    }

    /// What became different since the last call, in an order in which a switch can take it.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        let mut order = Ordered::default();
        for (key, old) in std::mem::take(&mut self.touched) {
            let Some(cell) = self.cells.get_mut(&key) else { continue };
            cell.touched = false;
            match (old, cell.slot.item()) {
                (Some(old), Some(new)) if old == *new => {}
                (old, Some(new)) => order.put(key, new.clone(), old.is_some()),
                (old, None) => {
                    self.cells.remove(&key);
                    if old.is_some() {
                        order.remove(key);
                    }
                }
            }
        }
        order.finish()
    }
}

/// Changes by the place that they must have: what others stand on comes first and goes last.
#[derive(Default)]
struct Ordered {
    list: Vec<(u8, Change)>,
    /// Groups that are new: their rules go with them.
    fresh: FxHashMap<GroupKey, GroupSpec>,
    gone_groups: FxHashSet<GroupKey>,
    gone_ports: FxHashSet<Uuid>,
}

/// Where changes stand that may come to nothing: see [`Ordered::finish`].
mod phase {
    pub(super) const GROUP: u8 = 6;
    pub(super) const RULE: u8 = 7;
    pub(super) const RULE_GONE: u8 = 10;
    pub(super) const LAYER_GONE: u8 = 13;
}

impl Ordered {
    fn put(&mut self, key: Key, item: Item, existed: bool) {
        let (phase, change) = match (key, item) {
            (Key::Group(key), Item::Group(spec)) => {
                if !existed {
                    self.fresh.insert(key, (*spec).clone());
                }
                (phase::GROUP, Change::PutGroup((*spec).clone()))
            }
            (Key::Rule(group, _), Item::Rule(rule)) => (phase::RULE, Change::PutRule { group, rule }),
            (Key::Attach(port, layer, group), _) => (8, Change::Attach { port, layer, group }),
            (Key::Layer(port, _), Item::Layer(layer)) => (3, Change::PutLayer { port, layer }),
            (_, Item::Settings(settings)) => (0, Change::Settings((*settings).clone())),
            (_, Item::Segment(segment)) => (1, Change::PutSegment(segment)),
            (_, Item::Port(port)) => (2, Change::PutPort((*port).clone())),
            (_, Item::Pool(pool)) => (4, Change::PutPool((*pool).clone())),
            (_, Item::Tag(tag)) => (5, Change::PutTag((*tag).clone())),
            (_, Item::Neighbor(neighbor)) => (5, Change::PutNeighbor(neighbor)),
            // A key and an item of different kinds are never put together.
            (_, Item::Group(_) | Item::Layer(_) | Item::Rule(_) | Item::Attach) => return,
        };
        self.list.push((phase, change));
    }

    fn remove(&mut self, key: Key) {
        let placed = match key {
            // There is always a switch.
            Key::Settings => return,
            Key::Attach(port, layer, group) => (9, Change::Detach { port, layer, group }),
            Key::Rule(group, rule) => (phase::RULE_GONE, Change::RemoveRule { group, rule }),
            Key::Group(group) => {
                self.gone_groups.insert(group.clone());
                (11, Change::RemoveGroup(group))
            }
            Key::Layer(port, layer) => (phase::LAYER_GONE, Change::RemoveLayer { port, layer }),
            Key::Pool(pool) => (12, Change::RemovePool(pool)),
            Key::Port(port) => {
                self.gone_ports.insert(port);
                (14, Change::RemovePort(port))
            }
            Key::Tag(tag) => (13, Change::RemoveTag(tag.to_string())),
            Key::Neighbor(segment, address) => (13, Change::RemoveNeighbor { segment, address }),
            Key::Segment(segment) => (15, Change::RemoveSegment(segment)),
        };
        self.list.push(placed);
    }

    fn finish(self) -> Vec<Change> {
        let Self { mut list, mut fresh, gone_groups, gone_ports } = self;
        list.sort_by_key(|(phase, _)| *phase);
        if !fresh.is_empty() {
            list.retain_mut(|(_, change)| match change {
                Change::PutRule { group, rule } => match fresh.get_mut(group) {
                    Some(spec) => {
                        spec.rules.push(Arc::clone(rule));
                        false
                    }
                    None => true,
                },
                _ => true,
            });
            for (_, change) in &mut list {
                if let Change::PutGroup(spec) = change
                    && let Some(whole) = fresh.remove(&spec.key)
                {
                    *spec = whole;
                }
            }
        }
        // A group takes its rules with it, a port its layers.
        if !gone_groups.is_empty() || !gone_ports.is_empty() {
            list.retain(|(_, change)| match change {
                Change::RemoveRule { group, .. } => !gone_groups.contains(group),
                Change::RemoveLayer { port, .. } => !gone_ports.contains(port),
                _ => true,
            });
        }
        list.into_iter().map(|(_, change)| change).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn neighbor(last: u8, mac: u8, rank: u64, shared: bool) -> Entry {
        let address = IpAddr::from([10, 0, 0, last]);
        let item = Item::Neighbor(NeighborSpec { segment: 1, address, mac: wire::Mac([mac; 6]) });
        Entry { key: Key::Neighbor(1, address), item, rank, shared }
    }

    fn source(n: u128) -> Source {
        Source::Endpoint(Guid::from_u128(n))
    }

    fn mac(changes: &[Change]) -> Vec<String> {
        changes
            .iter()
            .map(|change| match change {
                Change::PutNeighbor(neighbor) => format!("+{}", neighbor.mac.0[0]),
                Change::RemoveNeighbor { .. } => "-".to_owned(),
                other => format!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn of_several_sources_the_lowest_rank_counts_and_its_end_brings_the_next() {
        let mut table = Table::default();
        table.set(source(1), vec![neighbor(1, 1, 5, false)]);
        assert_eq!(mac(&table.take_changes()), ["+1"]);
        table.set(source(2), vec![neighbor(1, 2, 9, false)]);
        assert!(table.take_changes().is_empty());
        table.set(source(3), vec![neighbor(1, 3, 1, false)]);
        assert_eq!(mac(&table.take_changes()), ["+3"]);
        table.set(source(1), Vec::new());
        assert!(table.take_changes().is_empty());
        table.set(source(3), Vec::new());
        assert_eq!(mac(&table.take_changes()), ["+2"]);
        table.set(source(2), Vec::new());
        assert_eq!(mac(&table.take_changes()), ["-"]);
        assert!(table.items().is_empty() && table.sources().next().is_none());
    }

    #[test]
    fn shared_entries_go_with_the_last_source() {
        let mut table = Table::default();
        for n in 1..4 {
            table.set(source(n), vec![neighbor(1, 7, 0, true), neighbor(1, 7, 0, true)]);
            table.set(source(n), vec![neighbor(1, 7, 0, true)]);
        }
        assert_eq!(mac(&table.take_changes()), ["+7"]);
        table.set(source(1), Vec::new());
        table.set(source(2), Vec::new());
        assert!(table.take_changes().is_empty());
        table.set(source(3), Vec::new());
        assert_eq!(mac(&table.take_changes()), ["-"]);
    }

    #[test]
    fn what_is_as_it_was_makes_no_change() {
        let mut table = Table::default();
        table.set(source(1), vec![neighbor(1, 1, 0, false), neighbor(2, 2, 0, false)]);
        table.take_changes();
        table.set(source(1), vec![neighbor(2, 2, 0, false)]);
        table.set(source(1), vec![neighbor(1, 1, 0, false), neighbor(2, 2, 0, false)]);
        assert!(table.take_changes().is_empty());
        assert_eq!(table.fragment(source(1)).len(), 2);
    }
}
