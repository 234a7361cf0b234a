//! A set of numbers kept as disjoint ranges: taking the lowest, taking or giving back any one number are all
//! logarithmic in the number of ranges, whatever the size of the pool (an IPv6 /64 has 2⁶⁴ addresses).

use std::collections::BTreeMap;

/// Free numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeSet {
    /// First number → last number, disjoint and not touching.
    ranges: BTreeMap<u128, u128>,
}

impl RangeSet {
    /// An empty set.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds all numbers of an inclusive range; those already there are no error.
    pub(crate) fn add(&mut self, first: u128, last: u128) {
        if first > last {
            return;
        }
        let (mut first, mut last) = (first, last);
        // Swallow every range that overlaps or touches.
        let low = first.saturating_sub(1);
        let high = last.saturating_add(1);
        let touching: Vec<u128> = self
            .ranges
            .range(..=high)
            .rev()
            .take_while(|&(_, &end)| end >= low)
            .map(|(&start, _)| start)
            .collect();
        for start in touching {
            if let Some(end) = self.ranges.remove(&start) {
                first = first.min(start);
                last = last.max(end);
            }
        }
        self.ranges.insert(first, last);
    }

    /// Takes one number out; false when it was not there.
    pub(crate) fn take(&mut self, number: u128) -> bool {
        let Some((&start, &end)) = self.ranges.range(..=number).next_back() else {
            return false;
        };
        if end < number {
            return false;
        }
        self.ranges.remove(&start);
        if start < number {
            self.ranges.insert(start, number - 1);
        }
        if number < end {
            self.ranges.insert(number + 1, end);
        }
        true
    }

    /// The lowest number.
    pub(crate) fn lowest(&self) -> Option<u128> {
        self.ranges.first_key_value().map(|(&start, _)| start)
    }

    /// Whether the number is in the set.
    #[cfg(test)]
    pub(crate) fn contains(&self, number: u128) -> bool {
        self.ranges.range(..=number).next_back().is_some_and(|(_, &end)| end >= number)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_ends_of_the_number_line_are_no_special_case() {
        let mut set = RangeSet::new();
        set.add(0, u128::MAX);
        assert!(set.take(0) && set.take(u128::MAX) && !set.take(0));
        assert_eq!(set.lowest(), Some(1));
        set.add(u128::MAX, u128::MAX);
        set.add(0, 0);
        let mut whole = RangeSet::new();
        whole.add(0, u128::MAX);
        assert_eq!(set, whole);
        set.add(5, 4);
        assert_eq!(set, whole);
    }

    proptest! {
        #[test]
        fn acts_like_a_set(steps in prop::collection::vec((any::<bool>(), 0u128..64, 0u128..8), 0..200)) {
            let (mut set, mut model) = (RangeSet::new(), BTreeSet::new());
            for (add, number, length) in steps {
                if add {
                    set.add(number, number + length);
                    model.extend(number..=number + length);
                } else {
                    prop_assert_eq!(set.take(number), model.remove(&number));
                }
                prop_assert_eq!(set.lowest(), model.first().copied());
                prop_assert!((0..80).all(|n| set.contains(n) == model.contains(&n)));
                // Disjoint and not touching, or lookups would miss.
                let ranges: Vec<_> = set.ranges.iter().collect();
                prop_assert!(ranges.windows(2).all(|pair| *pair[0].1 + 1 < *pair[1].0));
            }
        }
    }
}
