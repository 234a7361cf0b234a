//! The pools that networks give MAC addresses out of.

use hcn::Mac;
use hcn::network::{MacPool, MacRange};
use hcn::time::Entropy;
use rustc_hash::FxHashMap;

use super::RangeSet;

fn number(mac: Mac) -> u128 {
    u128::from(mac.to_u64())
}

/// The free MAC addresses of one network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MacPools {
    ranges: Vec<(Mac, Mac)>,
    free: RangeSet,
    /// How many endpoints have an address of the pool: nothing keeps two from being given the same one.
    held: FxHashMap<Mac, u32>,
}

impl MacPools {
    /// All addresses of a network's pool; ranges that do not parse were refused when the network was made.
    pub(crate) fn of(pool: Option<&MacPool>) -> Self {
        let mut pools = Self::default();
        for range in pool.into_iter().flat_map(|pool| &pool.ranges) {
            if let Ok((start, end)) = range.bounds() {
                pools.free.add(number(start), number(end));
                pools.ranges.push((start, end));
            }
        }
        pools
    }

    /// The address that would be given out next.
    pub(crate) fn next(&self) -> Option<Mac> {
        let lowest = self.free.lowest().and_then(|number| u64::try_from(number).ok());
        lowest.map(Mac::from_u64)
    }

    /// An endpoint has this address now.
    pub(crate) fn take(&mut self, mac: Mac) {
        if self.has(mac) {
            *self.held.entry(mac).or_default() += 1;
            self.free.take(number(mac));
        }
    }

    /// An endpoint has this address no more.
    pub(crate) fn give_back(&mut self, mac: Mac) {
        if let Some(count) = self.held.get_mut(&mac) {
            *count -= 1;
            if *count == 0 {
                self.held.remove(&mac);
                self.free.add(number(mac), number(mac));
            }
        }
    }

    fn has(&self, mac: Mac) -> bool {
        self.ranges.iter().any(|&(start, end)| start <= mac && mac <= end)
    }
}

/// A pool as HNS generates them: 4,096 addresses under Microsoft's prefix, `00-15-5D-xx-y0-00` to
/// `00-15-5D-xx-yF-FF`, that no other network has.
pub(crate) fn generate_pool(entropy: &dyn Entropy, taken: impl Fn(Mac, Mac) -> bool) -> Option<MacPool> {
    const POOLS: u64 = 1 << 12;
    let first = entropy.below(POOLS);
    (0..POOLS).map(|n| (first + n) % POOLS).find_map(|n| {
        let start = Mac::from_u64(0x0015_5D00_0000 | n << 12);
        let end = Mac::from_u64(start.to_u64() | 0xFFF);
        (!taken(start, end)).then(|| MacPool {
            ranges: vec![MacRange { start: start.to_string(), end: end.to_string(), ..MacRange::default() }],
            ..MacPool::default()
        })
    })
}

#[cfg(test)]
mod tests {
    use hcn::time::SeededEntropy;

    use super::*;

    #[test]
    fn a_generated_pool_has_4096_addresses_and_avoids_others() {
        let entropy = SeededEntropy::new(1);
        let pool = generate_pool(&entropy, |_, _| false).unwrap();
        let (start, end) = pool.ranges[0].bounds().unwrap();
        assert_eq!(end.to_u64() - start.to_u64(), 4095);
        assert!(start.to_string().starts_with("00-15-5D-") && start.to_string().ends_with("0-00"));
        let other = generate_pool(&SeededEntropy::new(1), |low, _| low == start).unwrap();
        assert_ne!(other.ranges[0].start, start.to_string());
        assert_eq!(generate_pool(&entropy, |_, _| true), None);
    }

    #[test]
    fn addresses_outside_the_pool_are_not_added_by_giving_them_back() {
        let range = MacRange {
            start: "00-15-5D-00-00-00".into(),
            end: "00-15-5D-00-00-01".into(),
            ..MacRange::default()
        };
        let mut pools = MacPools::of(Some(&MacPool { ranges: vec![range], ..MacPool::default() }));
        let first = pools.next().unwrap();
        pools.take(first);
        let second = pools.next().unwrap();
        pools.take(second);
        assert_eq!(pools.next(), None);
        pools.give_back("02-11-0A-00-00-01".parse().unwrap());
        assert_eq!(pools.next(), None);
        pools.take(second);
        pools.give_back(second);
        assert_eq!(pools.next(), None, "another endpoint has it");
        pools.give_back(second);
        pools.give_back(second);
        assert_eq!(pools.next(), Some(second));
    }
}
