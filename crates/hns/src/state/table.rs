//! The containers that the state is built of.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hcn::Guid;
use rustc_hash::FxHashMap;

use crate::switches::ListOrder;

/// What a table keeps.
pub(crate) trait Row {
    /// What other objects' checks ask for most, kept beside the pointer: a load balancer looks at a thousand
    /// endpoints, and each look into a record is a cache miss.
    type Brief: Copy;

    fn brief(&self) -> Self::Brief;
}

/// Records by id, and their ids in order of creation.
pub(crate) struct Table<T: Row> {
    by_id: FxHashMap<Guid, (Arc<T>, T::Brief)>,
    order: BTreeMap<u64, Guid>,
}

impl<T: Row> Clone for Table<T> {
    fn clone(&self) -> Self {
        Self { by_id: self.by_id.clone(), order: self.order.clone() }
    }
}

impl<T: Row> Default for Table<T> {
    fn default() -> Self {
        Self { by_id: FxHashMap::default(), order: BTreeMap::new() }
    }
}

impl<T: Row> Table<T> {
    pub(crate) fn get(&self, id: Guid) -> Option<&Arc<T>> {
        self.by_id.get(&id).map(|(record, _)| record)
    }

    pub(crate) fn brief(&self, id: Guid) -> Option<T::Brief> {
        self.by_id.get(&id).map(|&(_, brief)| brief)
    }

    pub(crate) fn contains(&self, id: Guid) -> bool {
        self.by_id.contains_key(&id)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Puts a record; returns the one that it replaces, which has the same sequence number.
    pub(crate) fn insert(&mut self, id: Guid, seq: u64, record: Arc<T>) -> Option<Arc<T>> {
        self.order.insert(seq, id);
        let brief = record.brief();
        self.by_id.insert(id, (record, brief)).map(|(old, _)| old)
    }

    pub(crate) fn remove(&mut self, id: Guid, seq: impl Fn(&T) -> u64) -> Option<Arc<T>> {
        let (record, _) = self.by_id.remove(&id)?;
        self.order.remove(&seq(&record));
        Some(record)
    }

    /// The records, first created first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<T>> {
        self.order.values().filter_map(|&id| self.get(id))
    }

    pub(crate) fn ids(&self, order: ListOrder) -> Vec<Guid> {
        in_order(&self.order, order)
    }
}

/// Ids by sequence number, in the order asked for.
pub(crate) fn in_order(ids: &BTreeMap<u64, Guid>, order: ListOrder) -> Vec<Guid> {
    let mut list: Vec<Guid> = match order {
        ListOrder::Newest => ids.values().rev().copied().collect(),
        ListOrder::Oldest | ListOrder::Id => ids.values().copied().collect(),
    };
    if order == ListOrder::Id {
        list.sort_unstable();
    }
    list
}

/// A set of ids that mostly has one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IdSet {
    One(Guid),
    Many(BTreeSet<Guid>),
}

impl IdSet {
    fn insert(&mut self, id: Guid) {
        match self {
            Self::One(own) if *own == id => {}
            Self::One(own) => *self = Self::Many(BTreeSet::from([*own, id])),
            Self::Many(set) => {
                set.insert(id);
            }
        }
    }

    /// Takes an id out; true when the set is empty then.
    fn remove(&mut self, id: Guid) -> bool {
        match self {
            Self::One(own) => *own == id,
            Self::Many(set) => {
                set.remove(&id);
                if let (1, Some(&last)) = (set.len(), set.first()) {
                    *self = Self::One(last);
                }
                false
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Guid> {
        let (one, many) = match self {
            Self::One(id) => (Some(*id), None),
            Self::Many(set) => (None, Some(set.iter().copied())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

/// Sets of ids by key; a key without ids is not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IdMap<K: std::hash::Hash + Eq>(FxHashMap<K, IdSet>);

impl<K: std::hash::Hash + Eq> Default for IdMap<K> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<K: std::hash::Hash + Eq> IdMap<K> {
    pub(crate) fn insert(&mut self, key: K, id: Guid) {
        match self.0.entry(key) {
            std::collections::hash_map::Entry::Occupied(mut entry) => entry.get_mut().insert(id),
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(IdSet::One(id));
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &K, id: Guid) {
        if self.0.get_mut(key).is_some_and(|set| set.remove(id)) {
            self.0.remove(key);
        }
    }

    pub(crate) fn get<'a>(&'a self, key: &K) -> impl Iterator<Item = Guid> + use<'a, K> {
        self.0.get(key).into_iter().flat_map(IdSet::iter)
    }

    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Row for u64 {
        type Brief = u64;

        fn brief(&self) -> u64 {
            *self * 10
        }
    }

    fn id(n: u128) -> Guid {
        Guid::from_u128(n)
    }

    #[test]
    fn an_id_map_keeps_no_empty_sets() {
        let mut map = IdMap::default();
        for n in [1, 2, 2, 3] {
            map.insert("a", id(n));
        }
        assert_eq!(map.get(&"a").collect::<Vec<_>>(), [id(1), id(2), id(3)]);
        for n in [2, 9, 1] {
            map.remove(&"a", id(n));
        }
        assert_eq!(map.get(&"a").collect::<Vec<_>>(), [id(3)]);
        map.remove(&"a", id(1));
        assert!(map.contains_key(&"a"));
        map.remove(&"a", id(3));
        assert!(!map.contains_key(&"a"));
    }

    #[test]
    fn a_table_lists_in_every_order() {
        let mut table = Table::default();
        for (seq, n) in [(1, 3), (2, 1), (3, 2)] {
            table.insert(id(n), seq, Arc::new(seq));
        }
        assert_eq!(table.ids(ListOrder::Oldest), [id(3), id(1), id(2)]);
        assert_eq!(table.ids(ListOrder::Newest), [id(2), id(1), id(3)]);
        assert_eq!(table.ids(ListOrder::Id), [id(1), id(2), id(3)]);
        assert_eq!(table.brief(id(1)), Some(20));
        table.remove(id(1), |&seq| seq);
        assert_eq!((table.len(), table.iter().count()), (2, 2));
    }
}
