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
            index: Index::default(),
            next_age: 0,
            generation: 0,
            users: 0,
        }
    }

    /// Puts a rule; one with the same id keeps its age.
    pub(crate) fn put(&mut self, rule: Arc<Rule>, serial: u32) {
        let age = match self.places.get(&rule.id) {
            Some(&(_, age)) => {
                self.remove(&Arc::clone(&rule.id));
                age
            }
            None => {
                self.next_age += 1;
                self.next_age
            }
        };
        let place = (rule.priority, age);
        let hashes = match &rule.action {
            Action::LbNat(lb) => lb.dips.iter().map(pick::of_dip).collect(),
            _ => Arc::default(),
        };
        self.index.insert(place, &rule.conditions, self.family);
        self.places.insert(Arc::clone(&rule.id), place);
        self.entries.insert(place, Entry { rule, serial, hashes });
    }

    /// Takes a rule out.
    pub(crate) fn remove(&mut self, id: &str) -> Option<Entry> {
        let place = self.places.remove(id)?;
        let entry = self.entries.remove(&place)?;
        self.index.remove(place, &entry.rule.conditions, self.family);
        Some(entry)
    }

    pub(crate) fn contains(&self, id: &str) -> bool {
        self.places.contains_key(id)
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
