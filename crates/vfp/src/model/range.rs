//! Intervals of addresses, and sets of them.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::Serialize;

use super::Family;

/// An address as a number, so that both families compare alike.
pub(crate) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

/// First and last address, both included; one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct AddressRange {
    /// The first.
    pub first: IpAddr,
    /// The last.
    pub last: IpAddr,
}

impl AddressRange {
    /// A range, if both ends are of one family and in order.
    pub fn new(first: IpAddr, last: IpAddr) -> Option<Self> {
        (Family::of(first) == Family::of(last) && first <= last).then_some(Self { first, last })
    }

    /// One address.
    pub const fn one(address: IpAddr) -> Self {
        Self { first: address, last: address }
    }

    /// The family.
    pub const fn family(&self) -> Family {
        Family::of(self.first)
    }

    /// Whether an address lies in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        Family::of(address) == self.family() && self.first <= address && address <= self.last
    }

    /// The prefix that is exactly this range, if there is one.
    pub fn prefix(&self) -> Option<IpNet> {
        let (first, last) = (number(self.first), number(self.last));
        let bits: u32 = if self.family() == Family::V4 { 32 } else { 128 };
        let size = last - first;
        // 2^n - 1, and the first address a multiple of 2^n.
        if size & size.wrapping_add(1) != 0 || first & size != 0 {
            return None;
        }
        let host = 128 - size.leading_zeros();
        IpNet::new(self.first, u8::try_from(bits - host).ok()?).ok()
    }
}

impl From<IpNet> for AddressRange {
    fn from(net: IpNet) -> Self {
        Self { first: net.network(), last: net.broadcast() }
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// Addresses as sorted ranges that neither overlap nor touch; found by binary search.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct AddressSet {
    ranges: Vec<AddressRange>,
}

impl AddressSet {
    /// A set of ranges in any order.
    pub fn new(ranges: impl IntoIterator<Item = AddressRange>) -> Self {
        let mut sorted: Vec<AddressRange> = ranges.into_iter().collect();
        sorted.sort_unstable();
        let mut merged: Vec<AddressRange> = Vec::with_capacity(sorted.len());
        for range in sorted {
            match merged.last_mut() {
                Some(last)
                    if last.family() == range.family()
                        && number(range.first) <= number(last.last).saturating_add(1) =>
                {
                    last.last = last.last.max(range.last);
                }
                _ => merged.push(range),
            }
        }
        Self { ranges: merged }
    }

    /// A set of one address.
    pub fn one(address: IpAddr) -> Self {
        Self { ranges: vec![AddressRange::one(address)] }
    }

    /// Nothing is in it; as a condition that means *any*.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The ranges, sorted.
    pub fn ranges(&self) -> &[AddressRange] {
        &self.ranges
    }

    /// The only address, if there is exactly one.
    pub fn single(&self) -> Option<IpAddr> {
        match self.ranges.as_slice() {
            [range] if range.first == range.last => Some(range.first),
            _ => None,
        }
    }

    /// Whether an address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        let after = self.ranges.partition_point(|range| range.first <= address);
        after > 0 && self.ranges[after - 1].contains(address)
    }
}

impl FromIterator<IpNet> for AddressSet {
    fn from_iter<T: IntoIterator<Item = IpNet>>(nets: T) -> Self {
        Self::new(nets.into_iter().map(AddressRange::from))
    }
}

impl FromIterator<IpAddr> for AddressSet {
    fn from_iter<T: IntoIterator<Item = IpAddr>>(addresses: T) -> Self {
        Self::new(addresses.into_iter().map(AddressRange::one))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_merge_and_are_searched() {
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let set: AddressSet =
            [net("10.0.1.0/24"), net("10.0.0.0/24"), net("10.0.3.0/30"), net("2001:db8::/64")]
                .into_iter()
                .collect();
        assert_eq!(set.ranges().len(), 3, "{set:?}");
        for (address, inside) in [
            ("10.0.0.0", true),
            ("10.0.1.255", true),
            ("10.0.2.0", false),
            ("10.0.3.3", true),
            ("10.0.3.4", false),
            ("9.255.255.255", false),
            ("2001:db8::ffff", true),
            ("2001:db8:0:1::", false),
            ("::a00:1", false),
        ] {
            assert_eq!(set.contains(ip(address)), inside, "{address}");
        }
        assert!(AddressSet::default().is_empty());
    }

    #[test]
    fn a_range_knows_its_prefix() {
        for (first, last, prefix) in [
            ("10.0.0.0", "10.0.0.255", Some("10.0.0.0/24")),
            ("10.0.0.1", "10.0.0.1", Some("10.0.0.1/32")),
            ("0.0.0.0", "255.255.255.255", Some("0.0.0.0/0")),
            ("10.0.0.1", "10.0.0.2", None),
            ("10.0.0.2", "10.0.0.5", None),
            ("2001:db8::", "2001:db8::ffff", Some("2001:db8::/112")),
        ] {
            let range = AddressRange::new(first.parse().unwrap(), last.parse().unwrap()).unwrap();
            assert_eq!(range.prefix().map(|net| net.to_string()).as_deref(), prefix, "{range}");
        }
        assert_eq!(AddressRange::new("10.0.0.2".parse().unwrap(), "10.0.0.1".parse().unwrap()), None);
    }
}
