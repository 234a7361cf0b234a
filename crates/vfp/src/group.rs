//! A group at work: its rules, filed for finding, and whether a packet fulfils conditions.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::classify::{Index, Place};
use crate::model::{
    Action, AddressSet, Conditions, Direction, Family, GroupKey, GroupSpec, Rule, RuleFlags, protocol,
};
use crate::pick;
use crate::view::{Fields, View};

/// A rule at work.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) rule: Arc<Rule>,
    /// Unique in the switch and never given again.
    pub(crate) serial: u32,
    /// The hashes of a load balancer's destinations.
    pub(crate) hashes: Arc<[u64]>,
}

#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) key: GroupKey,
    pub(crate) id: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) direction: Direction,
    pub(crate) family: Family,
    pub(crate) priority: u32,
    pub(crate) conditions: Conditions,
    entries: FxHashMap<Place, Entry>,
    places: FxHashMap<Arc<str>, Place>,
    serials: FxHashMap<u32, Place>,
    /// How many rules send packets elsewhere.
    hairpins: u32,
    index: Index,
    next_age: u64,
    /// When it was last changed, in the switch's count of changes.
    pub(crate) generation: u32,
    /// In how many layers it hangs.
    pub(crate) users: u32,
}

impl Group {
    pub(crate) fn new(spec: &GroupSpec) -> Self {
        Self {
            key: spec.key.clone(),
            id: Arc::clone(&spec.id),
            name: Arc::clone(&spec.name),
            direction: spec.direction,
            family: spec.family,
            priority: spec.priority,
            conditions: spec.conditions.clone(),
            entries: FxHashMap::default(),
            places: FxHashMap::default(),
            serials: FxHashMap::default(),
            hairpins: 0,
            index: Index::default(),
            next_age: 0,
            generation: 0,
            users: 0,
        }
    }

    /// Puts a rule; one with the same id keeps its age.
    pub(crate) fn put(&mut self, rule: Arc<Rule>, serial: u32) {
        let age = if let Some(&(_, age)) = self.places.get(&rule.id) {
            self.remove(&rule.id);
            age
        } else {
            self.next_age += 1;
            self.next_age
        };
        let place = (rule.priority, age);
        let hashes = match &rule.action {
            Action::LbNat(lb) => lb.dips.iter().map(pick::of_dip).collect(),
            _ => Arc::default(),
        };
        self.index.insert(place, &rule.conditions, self.family);
        self.places.insert(Arc::clone(&rule.id), place);
        self.serials.insert(serial, place);
        self.hairpins += u32::from(rule.action.hairpins());
        self.entries.insert(place, Entry { rule, serial, hashes });
    }

    /// Takes a rule out.
    pub(crate) fn remove(&mut self, id: &str) -> Option<Entry> {
        let place = self.places.remove(id)?;
        let entry = self.entries.remove(&place)?;
        self.index.remove(place, &entry.rule.conditions, self.family);
        self.serials.remove(&entry.serial);
        self.hairpins -= u32::from(entry.rule.action.hairpins());
        Some(entry)
    }

    pub(crate) fn contains(&self, id: &str) -> bool {
        self.places.contains_key(id)
    }

    /// A rule by its serial.
    pub(crate) fn by_serial(&self, serial: u32) -> Option<&Entry> {
        self.entries.get(self.serials.get(&serial)?)
    }

    /// Whether a rule sends packets elsewhere.
    pub(crate) fn hairpins(&self) -> bool {
        self.hairpins > 0
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The rules in the order in which they are asked.
    pub(crate) fn rules(&self) -> Vec<&Entry> {
        let mut sorted: Vec<(&Place, &Entry)> = self.entries.iter().collect();
        sorted.sort_unstable_by_key(|(place, _)| **place);
        sorted.into_iter().map(|(_, entry)| entry).collect()
    }

    /// Whether a rule or the group itself asks for a tag.
    pub(crate) fn names_tag(&self, tag: &str) -> bool {
        let names = |conditions: &Conditions| {
            conditions.source_tag.as_deref() == Some(tag)
                || conditions.destination_tag.as_deref() == Some(tag)
        };
        names(&self.conditions) || self.entries.values().any(|entry| names(&entry.rule.conditions))
    }

    /// The first rule that matches.
    pub(crate) fn find(&self, view: &View, fields: &Fields, tags: &Tags, vxlan_port: u16) -> Option<&Entry> {
        if !fulfils(&self.conditions, view, fields, tags, vxlan_port) {
            return None;
        }
        let matches = |place: Place| {
            self.entries.get(&place).is_some_and(|entry| {
                flags_match(entry.rule.flags, view)
                    && fulfils(&entry.rule.conditions, view, fields, tags, vxlan_port)
            })
        };
        self.entries.get(&self.index.find(fields, matches)?)
    }

    /// What [`Group::find`] must give, found by walking.
    #[cfg(test)]
    pub(crate) fn find_by_walking(
        &self,
        view: &View,
        fields: &Fields,
        tags: &Tags,
        vxlan_port: u16,
    ) -> Option<&Entry> {
        if !fulfils(&self.conditions, view, fields, tags, vxlan_port) {
            return None;
        }
        self.rules().into_iter().find(|entry| {
            flags_match(entry.rule.flags, view)
                && fulfils(&entry.rule.conditions, view, fields, tags, vxlan_port)
        })
    }
}

/// The switch's tags.
pub(crate) type Tags = FxHashMap<String, AddressSet>;

fn flags_match(flags: RuleFlags, view: &View) -> bool {
    let tcp = view.protocol == protocol::TCP;
    if flags.contains(RuleFlags::SYN) && tcp && !view.is_first_syn() {
        return false;
    }
    if flags.contains(RuleFlags::NON_SYN) && tcp && view.is_first_syn() {
        return false;
    }
    !(flags.contains(RuleFlags::SKIP_HAIRPIN) && view.hairpinned)
}

/// Whether a packet fulfils conditions.
pub(crate) fn fulfils(
    conditions: &Conditions,
    view: &View,
    fields: &Fields,
    tags: &Tags,
    vxlan_port: u16,
) -> bool {
    let proto_matches = |&wanted: &u8| match wanted {
        protocol::VXLAN => {
            fields.protocol == protocol::UDP && fields.ports.is_some_and(|(_, to)| to == vxlan_port)
        }
        other => other == fields.protocol,
    };
    if !conditions.protocols.is_empty() && !conditions.protocols.iter().any(proto_matches) {
        return false;
    }
    if !conditions.destinations.is_empty() && !conditions.destinations.contains(fields.destination) {
        return false;
    }
    if !conditions.sources.is_empty() && !conditions.sources.contains(fields.source) {
        return false;
    }
    if !conditions.destination_ports.is_empty()
        && !fields
            .ports
            .is_some_and(|(_, to)| conditions.destination_ports.iter().any(|range| range.contains(to)))
    {
        return false;
    }
    if !conditions.source_ports.is_empty()
        && !fields
            .ports
            .is_some_and(|(from, _)| conditions.source_ports.iter().any(|range| range.contains(from)))
    {
        return false;
    }
    if !conditions.source_macs.is_empty() && !conditions.source_macs.contains(&fields.source_mac) {
        return false;
    }
    if !conditions.destination_macs.is_empty()
        && !conditions.destination_macs.contains(&fields.destination_mac)
    {
        return false;
    }
    if conditions.vlans.is_some_and(|(first, last)| fields.vlan < first || fields.vlan > last) {
        return false;
    }
    if conditions.tenant.is_some() && conditions.tenant != view.tenant {
        return false;
    }
    if conditions.mark.is_some() && conditions.mark != view.mark {
        return false;
    }
    if conditions.encapsulated.is_some_and(|wanted| wanted != view.outer.is_some()) {
        return false;
    }
    let tagged = |tag: &Option<String>, address| match tag {
        None => true,
        Some(tag) => tags.get(tag).is_some_and(|set| set.contains(address)),
    };
    tagged(&conditions.source_tag, fields.source) && tagged(&conditions.destination_tag, fields.destination)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;
    use smallvec::SmallVec;
    use wire::Mac;

    use super::*;
    use crate::model::{AddressRange, PortRange};

    const VXLAN_PORT: u16 = 4789;

    fn address() -> impl Strategy<Value = IpAddr> {
        // Few values, so that rules and packets meet.
        (0..3_u8, 0..4_u8).prop_map(|(net, host)| IpAddr::from([10, 0, net, host]))
    }

    fn set() -> impl Strategy<Value = AddressSet> {
        let range = (address(), address())
            .prop_map(|(a, b)| AddressRange::new(a.min(b), a.max(b)).expect("one family, in order"));
        let net = (address(), 22..=32_u8)
            .prop_map(|(address, length)| ipnet::IpNet::new(address, length).expect("a length of IPv4"));
        prop_oneof![
            3 => Just(AddressSet::default()),
            3 => address().prop_map(AddressSet::one),
            1 => proptest::collection::vec(range, 1..3).prop_map(AddressSet::new),
            2 => proptest::collection::vec(net, 1..12).prop_map(|nets| nets.into_iter().collect()),
        ]
    }

    fn ports() -> impl Strategy<Value = SmallVec<[PortRange; 1]>> {
        let range = (0..4_u16, 0..4_u16).prop_map(|(a, b)| PortRange { first: a.min(b), last: a.max(b) });
        prop_oneof![
            2 => Just(SmallVec::new()),
            2 => (0..4_u16).prop_map(|port| SmallVec::from_slice(&[PortRange::one(port)])),
            1 => proptest::collection::vec(range, 1..3).prop_map(SmallVec::from_vec),
        ]
    }

    fn mac() -> impl Strategy<Value = Mac> {
        (0..2_u8).prop_map(|last| Mac([2, 0, 0, 0, 0, last]))
    }

    fn conditions() -> impl Strategy<Value = Conditions> {
        let protocol = prop::sample::select(vec![6, 17, 1, protocol::VXLAN]);
        let macs = || proptest::collection::vec(mac(), 0..2).prop_map(SmallVec::from_vec);
        let protocols = proptest::collection::vec(protocol, 0..3).prop_map(SmallVec::from_vec);
        let tag = || prop::option::weighted(0.1, Just("tag".to_owned()));
        (
            (set(), set(), ports(), ports()),
            (macs(), macs(), protocols),
            (tag(), tag(), prop::option::weighted(0.1, 0..2_u32), prop::option::weighted(0.1, any::<bool>())),
        )
            .prop_map(|((sources, destinations, from, to), (from_mac, to_mac, protocols), rest)| {
                Conditions {
                    protocols,
                    sources,
                    destinations,
                    source_ports: from,
                    destination_ports: to,
                    source_macs: from_mac,
                    destination_macs: to_mac,
                    source_tag: rest.0,
                    destination_tag: rest.1,
                    mark: rest.2,
                    encapsulated: rest.3,
                    ..Conditions::default()
                }
            })
    }

    prop_compose! {
        fn rule()(
            id in 0..24_u32,
            priority in 0..4_u32,
            flags in prop::sample::select(vec![RuleFlags::empty(), RuleFlags::SYN, RuleFlags::NON_SYN]),
            conditions in conditions(),
        ) -> Rule {
            let id: Arc<str> = id.to_string().into();
            Rule { name: Arc::clone(&id), id, priority, flags, ttl: 0, conditions, action: Action::Allow }
        }
    }

    prop_compose! {
        fn view()(
            source in address(),
            destination in address(),
            protocol in prop::sample::select(vec![6, 17, 1]),
            ports in (0..4_u16, prop::sample::select(vec![0, 1, 2, 3, VXLAN_PORT])),
            macs in (mac(), mac()),
            mark in prop::option::of(0..2_u32),
            tcp_flags in prop::sample::select(vec![2, 16, 18]),
        ) -> View {
            View {
                outer: None,
                source_mac: macs.0,
                destination_mac: macs.1,
                vlan: 0,
                source,
                destination,
                protocol,
                source_port: ports.0,
                destination_port: ports.1,
                icmp: (protocol == 1).then_some((8, 0)),
                tcp_flags: if protocol == 6 { tcp_flags } else { 0 },
                ttl_decrements: 0,
                tenant: None,
                mark,
                hairpinned: false,
                later_fragment: false,
                quoted: None,
            }
        }
    }

    proptest! {
        /// Whatever was put and taken away before: what is found is what a walk over all rules finds.
        #[test]
        fn finding_is_walking(
            steps in proptest::collection::vec((rule(), any::<bool>()), 1..40),
            views in proptest::collection::vec(view(), 1..30),
        ) {
            let mut group = Group::new(&GroupSpec {
                key: GroupKey("g".into()),
                id: "g".into(),
                name: "g".into(),
                direction: Direction::Out,
                family: Family::V4,
                priority: 1,
                conditions: Conditions::any(),
                rules: Vec::new(),
            });
            let mut tags = Tags::default();
            tags.insert("tag".to_owned(), AddressSet::one(IpAddr::from([10, 0, 1, 1])));
            for (serial, (rule, put)) in (0_u32..).zip(steps) {
                if put || !group.contains(&rule.id) {
                    group.put(Arc::new(rule), serial);
                } else {
                    group.remove(&rule.id);
                }
                for view in &views {
                    let fields = view.fields(VXLAN_PORT);
                    let found = group.find(view, &fields, &tags, VXLAN_PORT).map(|entry| entry.serial);
                    let walked =
                        group.find_by_walking(view, &fields, &tags, VXLAN_PORT).map(|entry| entry.serial);
                    prop_assert_eq!(found, walked);
                    if let Some(serial) = found {
                        prop_assert_eq!(group.by_serial(serial).map(|entry| entry.serial), Some(serial));
                    }
                }
            }
        }
    }
}
