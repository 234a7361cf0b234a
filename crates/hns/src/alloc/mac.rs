//! MAC addresses and the pools that networks give them out of.

use std::fmt;
use std::str::FromStr;

use hcn::network::{MacPool, MacRange};
use hcn::time::Entropy;
use rustc_hash::FxHashMap;

use super::RangeSet;

/// A 48-bit MAC address; printed in HNS's dash form, `00-15-5D-52-C0-00`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(u64);

/// A text that is no MAC address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a MAC address: six pairs of hexadecimal digits parted by dashes or colons")]
pub struct ParseMacError(pub String);

impl Mac {
    /// From its bytes, first byte first.
    pub const fn from_octets(octets: [u8; 6]) -> Self {
        let mut number = 0;
        let mut at = 0;
        while at < octets.len() {
            number = number << 8 | octets[at] as u64;
            at += 1;
        }
        Self(number)
    }

    /// Its bytes, first byte first.
    pub fn octets(self) -> [u8; 6] {
        let mut octets = [0; 6];
        octets.copy_from_slice(&self.0.to_be_bytes()[2..]);
        octets
    }

    fn number(self) -> u128 {
        u128::from(self.0)
    }

    fn from_number(number: u128) -> Option<Self> {
        u64::try_from(number).ok().filter(|&number| number >> 48 == 0).map(Self)
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, octet) in self.octets().into_iter().enumerate() {
            write!(f, "{}{octet:02X}", if at == 0 { "" } else { "-" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Mac {
    type Err = ParseMacError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ParseMacError(text.chars().take(32).collect());
        let bytes = text.as_bytes();
        if bytes.len() != 17 {
            return Err(bad());
        }
        let mut octets = [0; 6];
        for (octet, part) in octets.iter_mut().zip(bytes.chunks(3)) {
            let digit = |at: usize| {
                let byte = *part.get(at)?;
                char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
            };
            let (Some(high), Some(low)) = (digit(0), digit(1)) else {
                return Err(bad());
            };
            if !matches!(part.get(2), None | Some(b'-' | b':')) {
                return Err(bad());
            }
            *octet = high << 4 | low;
        }
        Ok(Self::from_octets(octets))
    }
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
            if let (Ok(start), Ok(end)) = (range.start.parse::<Mac>(), range.end.parse::<Mac>()) {
                pools.free.add(start.number(), end.number());
                pools.ranges.push((start, end));
            }
        }
        pools
    }

    /// The address that would be given out next.
    pub(crate) fn next(&self) -> Option<Mac> {
        self.free.lowest().and_then(Mac::from_number)
    }

    /// An endpoint has this address now.
    pub(crate) fn take(&mut self, mac: Mac) {
        if self.has(mac) {
            *self.held.entry(mac).or_default() += 1;
            self.free.take(mac.number());
        }
    }

    /// An endpoint has this address no more.
    pub(crate) fn give_back(&mut self, mac: Mac) {
        if let Some(count) = self.held.get_mut(&mac) {
            *count -= 1;
            if *count == 0 {
                self.held.remove(&mac);
                self.free.add(mac.number(), mac.number());
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
        let start = Mac(0x0015_5D00_0000 | n << 12);
        let end = Mac(start.0 | 0xFFF);
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
    fn both_forms_are_read_and_dashes_printed() {
        for text in ["00-15-5D-52-c0-0f", "00:15:5d:52:C0:0F"] {
            assert_eq!(text.parse::<Mac>().unwrap().to_string(), "00-15-5D-52-C0-0F");
        }
        for bad in [
            "",
            "00155D52C000",
            "00-15-5D-52-C0",
            "00-15-5D-52-C0-0G",
            "00-15-5D-52-C0-001",
            "0é-15-5D-52-C0-0",
        ] {
            assert!(bad.parse::<Mac>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_generated_pool_has_4096_addresses_and_avoids_others() {
        let entropy = SeededEntropy::new(1);
        let pool = generate_pool(&entropy, |_, _| false).unwrap();
        let (start, end): (Mac, Mac) =
            (pool.ranges[0].start.parse().unwrap(), pool.ranges[0].end.parse().unwrap());
        assert_eq!(end.number() - start.number(), 4095);
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
