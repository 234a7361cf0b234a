//! Finding the first matching rule of a group.
//!
//! A group of a few rules is walked. In a large one each rule is filed under its most telling exact condition (an
//! address with port and protocol, an address, a MAC) or its address prefixes, and a packet looks in a handful of
//! hash tables; whatever has no such condition is walked. All candidates are then compared by priority and checked
//! in full, so filing never decides anything.

use std::collections::BTreeMap;
use std::net::IpAddr;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wire::Mac;

use crate::model::{AddressSet, Conditions, Family};
use crate::view::Fields;

/// Ranges are filed as prefixes when there are no more of them than this.
const MAX_PREFIXES: usize = 8;

/// Where a rule stands in its group: priority, then age.
pub(crate) type Place = (u32, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Exact {
    Destination(IpAddr, u16, u8),
    Source(IpAddr, u16, u8),
    DestinationAddress(IpAddr),
    SourceAddress(IpAddr),
    DestinationMac(Mac),
    SourceMac(Mac),
    DestinationPrefix(u8, IpAddr),
    SourcePrefix(u8, IpAddr),
}

type Places = SmallVec<[Place; 2]>;

/// The files of one group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    exact: FxHashMap<Exact, Places>,
    /// How many rules are filed under each prefix length, destinations then sources.
    lengths: [BTreeMap<u8, u32>; 2],
    /// How many rules are filed under each kind of exact key.
    kinds: [u32; 6],
    rest: Vec<Place>,
}

fn kind(key: &Exact) -> Option<usize> {
    Some(match key {
        Exact::Destination(..) => 0,
        Exact::Source(..) => 1,
        Exact::DestinationAddress(_) => 2,
        Exact::SourceAddress(_) => 3,
        Exact::DestinationMac(_) => 4,
        Exact::SourceMac(_) => 5,
        Exact::DestinationPrefix(..) | Exact::SourcePrefix(..) => return None,
    })
}

/// The leading bits of an address.
fn masked(address: IpAddr, length: u8) -> IpAddr {
    ipnet::IpNet::new(address, length).map_or(address, |net| net.network())
}

fn prefixes(set: &AddressSet, family: Family) -> Option<SmallVec<[(u8, IpAddr); 4]>> {
    if set.is_empty() || set.ranges().len() > MAX_PREFIXES {
        return None;
    }
    set.ranges()
        .iter()
        .filter(|range| range.family() == family)
        .map(|range| range.prefix().map(|net| (net.prefix_len(), net.network())))
        .collect()
}

/// Under which keys a rule is filed; none: it is walked.
fn keys(conditions: &Conditions, family: Family) -> SmallVec<[Exact; 4]> {
    let one_port = |ports: &[crate::model::PortRange]| match ports {
        [range] if range.first == range.last => Some(range.first),
        _ => None,
    };
    let one_proto = match conditions.protocols.as_slice() {
        [proto] if *proto < 250 => Some(*proto),
        _ => None,
    };
    let destination = conditions.destinations.single();
    let source = conditions.sources.single();
    if let (Some(ip), Some(port), Some(proto)) =
        (destination, one_port(&conditions.destination_ports), one_proto)
    {
        return [Exact::Destination(ip, port, proto)].into_iter().collect();
    }
    if let (Some(ip), Some(port), Some(proto)) = (source, one_port(&conditions.source_ports), one_proto) {
        return [Exact::Source(ip, port, proto)].into_iter().collect();
    }
    if let Some(ip) = destination {
        return [Exact::DestinationAddress(ip)].into_iter().collect();
    }
    if let Some(ip) = source {
        return [Exact::SourceAddress(ip)].into_iter().collect();
    }
    if let [mac] = conditions.source_macs.as_slice() {
        return [Exact::SourceMac(*mac)].into_iter().collect();
    }
    if let [mac] = conditions.destination_macs.as_slice() {
        return [Exact::DestinationMac(*mac)].into_iter().collect();
    }
    if let Some(list) = prefixes(&conditions.destinations, family) {
        return list.into_iter().map(|(length, net)| Exact::DestinationPrefix(length, net)).collect();
    }
    if let Some(list) = prefixes(&conditions.sources, family) {
        return list.into_iter().map(|(length, net)| Exact::SourcePrefix(length, net)).collect();
    }
    SmallVec::new()
}

impl Index {
    /// Files a rule.
    pub(crate) fn insert(&mut self, place: Place, conditions: &Conditions, family: Family) {
        let keys = keys(conditions, family);
        if keys.is_empty() {
            let at = self.rest.partition_point(|other| *other < place);
            self.rest.insert(at, place);
            return;
        }
        for key in keys {
            let places = self.exact.entry(key).or_default();
            let at = places.partition_point(|other| *other < place);
            places.insert(at, place);
            self.count(&key, true);
        }
    }

    /// Takes a rule out of the files.
    pub(crate) fn remove(&mut self, place: Place, conditions: &Conditions, family: Family) {
        let keys = keys(conditions, family);
        if keys.is_empty() {
            self.rest.retain(|other| *other != place);
            return;
        }
        for key in keys {
            if let Some(places) = self.exact.get_mut(&key) {
                places.retain(|other| *other != place);
                if places.is_empty() {
                    self.exact.remove(&key);
                }
                self.count(&key, false);
            }
        }
    }

    fn count(&mut self, key: &Exact, more: bool) {
        let change = |count: &mut u32| *count = if more { *count + 1 } else { count.saturating_sub(1) };
        match key {
            Exact::DestinationPrefix(length, _) => change(self.lengths[0].entry(*length).or_default()),
            Exact::SourcePrefix(length, _) => change(self.lengths[1].entry(*length).or_default()),
            other => {
                if let Some(kind) = kind(other) {
                    change(&mut self.kinds[kind]);
                }
            }
        }
        self.lengths[0].retain(|_, count| *count > 0);
        self.lengths[1].retain(|_, count| *count > 0);
    }

    /// The first place, in order, for which `matches` holds.
    pub(crate) fn find(&self, fields: &Fields, mut matches: impl FnMut(Place) -> bool) -> Option<Place> {
        let mut best: Option<Place> = None;
        let mut consider = |places: &[Place], best: &mut Option<Place>| {
            for &place in places {
                if best.is_some_and(|best| best <= place) {
                    return;
                }
                if matches(place) {
                    *best = Some(place);
                    return;
                }
            }
        };
        let (source, destination) = (fields.source, fields.destination);
        let (source_port, destination_port) = fields.ports.unwrap_or((0, 0));
        let probes = [
            Exact::Destination(destination, destination_port, fields.protocol),
            Exact::Source(source, source_port, fields.protocol),
            Exact::DestinationAddress(destination),
            Exact::SourceAddress(source),
            Exact::DestinationMac(fields.destination_mac),
            Exact::SourceMac(fields.source_mac),
        ];
        for (probe, count) in probes.iter().zip(self.kinds) {
            if count > 0
                && let Some(places) = self.exact.get(probe)
            {
                consider(places, &mut best);
            }
        }
        for (lengths, make, address) in [
            (&self.lengths[0], Exact::DestinationPrefix as fn(u8, IpAddr) -> Exact, destination),
            (&self.lengths[1], Exact::SourcePrefix as fn(u8, IpAddr) -> Exact, source),
        ] {
            for &length in lengths.keys().rev() {
                if let Some(places) = self.exact.get(&make(length, masked(address, length))) {
                    consider(places, &mut best);
                }
            }
        }
        consider(&self.rest, &mut best);
        best
    }
}
