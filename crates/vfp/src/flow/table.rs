//! Where flow pairs are kept: an index of both directions' keys over pairs that never move.
//!
//! The index is an open-addressed array of 8-byte slots: 32 bits of the hash beside the pair's number and
//! direction. It grows by a quarter, so that a flow's share of it stays small. Deletion shifts slots back, so there are no tombstones. Pairs lie in blocks that are never moved or
//! given back, so growth costs the index only.

use super::key::{Addr, Key};
use super::pair::{Bits, Pair};

const BLOCK: usize = 1024;
const EMPTY: u64 = 0;
const MIN_SLOTS: usize = 64;

/// A pair and one of its directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) pair: u32,
    /// 0: the main direction.
    pub(crate) half: usize,
}

pub(crate) struct Table<A> {
    slots: Vec<u64>,
    blocks: Vec<Box<[Pair<A>]>>,
    free: Vec<u32>,
    /// Pairs ever used.
    next: u32,
    /// Which pairs live.
    live: Vec<u64>,
    used: usize,
    seed: u64,
}

impl<A: Addr> Table<A> {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            slots: vec![EMPTY; MIN_SLOTS],
            blocks: Vec::new(),
            free: Vec::new(),
            next: 0,
            live: Vec::new(),
            used: 0,
            seed,
        }
    }

    /// How many pairs there are.
    pub(crate) fn len(&self) -> usize {
        self.next as usize - self.free.len()
    }

    /// Bytes of memory in use.
    pub(crate) fn memory(&self) -> usize {
        self.slots.capacity() * 8
            + self.blocks.len() * BLOCK * size_of::<Pair<A>>()
            + self.free.capacity() * 4
            + self.live.capacity() * 8
    }

    #[inline]
    pub(crate) fn hash(&self, key: &Key<A>) -> u64 {
        key.hash(self.seed)
    }

    /// The slot where a search for a hash begins.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
    fn home(&self, hash: u64) -> usize {
        home(hash as u32, self.slots.len())
    }

    /// Asks for the slot of a hash to be brought near.
    #[inline]
    pub(crate) fn prefetch_slot(&self, hash: u64) {
        prefetch(&self.slots[self.home(hash)]);
    }

    /// The pair and direction that a hash probably means, as a number for [`Table::confirm`]; 0: none. It is asked to be
    /// brought near.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
    pub(crate) fn candidate(&self, hash: u64) -> u32 {
        let count = self.slots.len();
        let mut at = self.home(hash);
        loop {
            let slot = self.slots[at];
            if slot == EMPTY {
                return 0;
            }
            if (slot >> 32) as u32 == hash as u32 {
                let reference = (slot as u32).wrapping_sub(1);
                let pair = self.pair(reference >> 1);
                prefetch(&pair.halves[(reference & 1) as usize]);
                prefetch(&pair.common);
                return slot as u32;
            }
            at = next(at, count);
        }
    }

    /// A candidate, if it is the flow of a key. Pairs that were taken out have no keys, and a reply's key that is not
    /// known does not count.
    #[inline]
    pub(crate) fn confirm(&self, candidate: u32, key: &Key<A>) -> Option<Found> {
        let reference = candidate.checked_sub(1)?;
        let half = (reference & 1) as usize;
        let pair =
            self.blocks.get((reference >> 1) as usize / BLOCK)?.get((reference >> 1) as usize % BLOCK)?;
        let known = half == 0 || pair.common.bits.contains(Bits::PAIRED);
        (known && pair.halves[half].key == *key).then_some(Found { pair: reference >> 1, half })
    }

    /// Finds a key.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
    pub(crate) fn find(&self, key: &Key<A>, hash: u64) -> Option<Found> {
        let count = self.slots.len();
        let mut at = self.home(hash);
        loop {
            let slot = self.slots[at];
            if slot == EMPTY {
                return None;
            }
            if (slot >> 32) as u32 == hash as u32 {
                let reference = (slot as u32).wrapping_sub(1);
                let half = (reference & 1) as usize;
                if self.pair(reference >> 1).halves[half].key == *key {
                    return Some(Found { pair: reference >> 1, half });
                }
            }
            at = next(at, count);
        }
    }

    #[inline]
    pub(crate) fn pair(&self, pair: u32) -> &Pair<A> {
        &self.blocks[pair as usize / BLOCK][pair as usize % BLOCK]
    }

    #[inline]
    pub(crate) fn pair_mut(&mut self, pair: u32) -> &mut Pair<A> {
        &mut self.blocks[pair as usize / BLOCK][pair as usize % BLOCK]
    }

    /// Puts a pair in, without its keys; see [`Table::index`].
    pub(crate) fn insert(&mut self, pair: Pair<A>) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            let number = self.next;
            self.next += 1;
            if number as usize / BLOCK == self.blocks.len() {
                self.blocks.push(vec![Pair::default(); BLOCK].into_boxed_slice());
                self.live.resize(self.blocks.len() * BLOCK / 64, 0);
            }
            number
        });
        *self.pair_mut(number) = pair;
        self.live[number as usize / 64] |= 1 << (number % 64);
        number
    }

    /// Makes one direction of a pair known by its key; the key must not be known yet.
    pub(crate) fn index(&mut self, found: Found) {
        if (self.used + 1) * 5 > self.slots.len() * 4 {
            self.grow();
        }
        let hash = self.hash(&self.pair(found.pair).halves[found.half].key);
        self.place(hash, found);
        self.used += 1;
    }

    #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant; a half is 0 or 1")]
    fn place(&mut self, hash: u64, found: Found) {
        let count = self.slots.len();
        let mut at = self.home(hash);
        while self.slots[at] != EMPTY {
            at = next(at, count);
        }
        let reference = (found.pair << 1 | found.half as u32) + 1;
        self.slots[at] = u64::from(hash as u32) << 32 | u64::from(reference);
    }

    fn grow(&mut self) {
        // A quarter more: the index stays between six and eight tenths full, whatever the number of flows.
        let larger = vec![EMPTY; self.slots.len() + self.slots.len() / 4];
        let old = std::mem::replace(&mut self.slots, larger);
        let count = self.slots.len();
        for slot in old.into_iter().filter(|&slot| slot != EMPTY) {
            let mut at = home((slot >> 32) as u32, count);
            while self.slots[at] != EMPTY {
                at = next(at, count);
            }
            self.slots[at] = slot;
        }
    }

    /// Forgets a direction's key; nothing happens when it is not known.
    pub(crate) fn unindex(&mut self, found: Found) {
        let hash = self.hash(&self.pair(found.pair).halves[found.half].key);
        let count = self.slots.len();
        let reference = u64::from(found.pair) << 1 | found.half as u64;
        let mut at = self.home(hash);
        loop {
            let slot = self.slots[at];
            if slot == EMPTY {
                return;
            }
            if slot & 0xffff_ffff == reference + 1 {
                break;
            }
            at = next(at, count);
        }
        self.used -= 1;
        // Whatever follows without a gap moves up, unless that would put it before its home.
        let mut hole = at;
        loop {
            at = next(at, count);
            let slot = self.slots[at];
            if slot == EMPTY {
                break;
            }
            let wanted = home((slot >> 32) as u32, count);
            let back = |from: usize| if at >= from { at - from } else { at + count - from };
            if back(wanted) >= back(hole) {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = EMPTY;
    }

    /// Takes a pair out, with its keys.
    pub(crate) fn remove(&mut self, pair: u32) -> Pair<A> {
        self.unindex(Found { pair, half: 0 });
        self.unindex(Found { pair, half: 1 });
        self.live[pair as usize / 64] &= !(1 << (pair % 64));
        self.free.push(pair);
        let gone = *self.pair(pair);
        for half in &mut self.pair_mut(pair).halves {
            half.key = Key::default();
        }
        gone
    }

    /// Whether a number is that of a living pair.
    pub(crate) fn is_live(&self, pair: u32) -> bool {
        self.live.get(pair as usize / 64).is_some_and(|word| word >> (pair % 64) & 1 == 1)
    }

    /// One more than the highest number ever given.
    pub(crate) fn end(&self) -> u32 {
        self.next
    }

    /// All pairs.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Pair<A>)> {
        (0..self.next).filter(|&pair| self.is_live(pair)).map(|pair| (pair, self.pair(pair)))
    }
}

/// The slot where a search begins: hashes are spread over any number of slots, in their order.
#[inline]
const fn home(hash: u32, slots: usize) -> usize {
    ((hash as u64 * slots as u64) >> 32) as usize
}

/// The slot behind one.
#[inline]
const fn next(at: usize, slots: usize) -> usize {
    if at + 1 == slots { 0 } else { at + 1 }
}

/// Asks the processor to bring a value near.
#[inline]
#[cfg_attr(
    target_arch = "x86_64",
    expect(
        unsafe_code,
        reason = "batches of lookups overlap their cache misses only if they are asked for early"
    )
)]
pub(crate) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: prefetching is a hint that reads nothing and cannot fault; the address is that of a live reference.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast::<i8>()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::super::key::Ends;
    use super::*;

    fn key(number: u16, direction: u8) -> Key<[u8; 4]> {
        let [a, b] = number.to_be_bytes();
        Key { ends: Ends { src: [10, 0, a, b], ..Ends::default() }, direction, ..Key::default() }
    }

    proptest! {
        /// Any order of insertions and removals finds what is there and nothing else.
        #[test]
        fn a_table_is_a_map(steps in proptest::collection::vec((any::<bool>(), 0_u16..96), 0..600)) {
            let mut table = Table::<[u8; 4]>::new(1);
            let mut model: HashMap<u16, u32> = HashMap::new();
            for (put, number) in steps {
                if put {
                    model.entry(number).or_insert_with(|| {
                        let mut pair = Pair::default();
                        pair.halves[0].key = key(number, 0);
                        pair.halves[1].key = key(number, 1);
                        let at = table.insert(pair);
                        table.index(Found { pair: at, half: 0 });
                        table.index(Found { pair: at, half: 1 });
                        at
                    });
                } else if let Some(at) = model.remove(&number) {
                    table.remove(at);
                }
                for probe in 0..96 {
                    for half in 0..2_u8 {
                        let key = key(probe, half);
                        let found = table.find(&key, table.hash(&key));
                        let expected = model.get(&probe).map(|&pair| Found { pair, half: half.into() });
                        prop_assert_eq!(found, expected);
                    }
                }
                prop_assert_eq!(table.len(), model.len());
                prop_assert_eq!(table.iter().count(), model.len());
            }
        }
    }
}
