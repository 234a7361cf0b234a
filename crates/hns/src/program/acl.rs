//! ACLs, tiers of ACLs and the ACLs of a network as groups that are replaced as a unit.

use std::ops::RangeInclusive;
use std::sync::Arc;

use hcn::Guid;
use hcn::policy::acl::{Address, Match};
use hcn::policy::endpoint::{Acl, TierAcl};
use hcn::policy::{ActionType, DirectionType, RuleType};
use smallvec::SmallVec;
use uuid::Uuid;
use vfp::model::{
    Action, AddressRange, AddressSet, Conditions, Direction, Family, PortRange, Rule, RuleFlags,
};

use super::Cx;
use super::build::{Build, rule};
use super::network::tag;
use super::view::NetworkView;
use super::words::{FAMILIES, Group, capital, layers};

/// Priorities of the groups in the layer. What the host's own filter (WFP) blocks, the switch does not let through,
/// so its group is asked first and only its blocks end the layer.
mod place {
    pub(super) const HOST: u32 = 50;
    pub(super) const TIERS: u32 = 100;
    pub(super) const SWITCH: u32 = 0x2_0000;
    pub(super) const DEFAULT: u32 = 0x3_0000;
}

const ACL: RuleFlags = RuleFlags::TERMINATING.union(RuleFlags::STATEFUL).union(RuleFlags::HNS_ACL);
const DIRECTIONS: [(Direction, DirectionType); 2] =
    [(Direction::In, DirectionType::In), (Direction::Out, DirectionType::Out)];

/// One line of a filter, read.
struct Line<'a> {
    id: Uuid,
    name: Option<&'a str>,
    priority: u16,
    action: &'a ActionType,
    matching: Match,
    flags: RuleFlags,
}

/// What one side of a packet must be.
enum Side {
    Any,
    In(AddressSet),
    Tagged(String),
    Nothing,
}

/// Reads address lists against the sets of a network, and remembers whether an answer depends on what is in one.
struct Sets<'a> {
    view: &'a NetworkView,
    expanded: bool,
}

impl Sets<'_> {
    /// Several sets in one list mean what is in all of them (as Azure NPM uses them); addresses beside them are
    /// added.
    fn side(&mut self, list: &[Address], family: Family) -> Side {
        if list.is_empty() {
            return Side::Any;
        }
        let nets = list.iter().filter_map(|entry| match entry {
            Address::Net(net) => Some(AddressRange::from(*net)),
            Address::Set(_) => None,
        });
        let ids: Vec<&str> = list
            .iter()
            .filter_map(|entry| match entry {
                Address::Set(id) => Some(id.as_str()),
                Address::Net(_) => None,
            })
            .collect();
        if let ([id], 1) = (ids.as_slice(), list.len()) {
            return Side::Tagged(tag(self.view, id));
        }
        let mut ranges: Vec<AddressRange> = nets.collect();
        if !ids.is_empty() {
            self.expanded = true;
            ranges.extend(self.view.in_all(&ids).iter().flat_map(|set| set.ranges().iter().copied()));
        }
        ranges.retain(|range| range.family() == family);
        if ranges.is_empty() { Side::Nothing } else { Side::In(AddressSet::new(ranges)) }
    }

    /// The conditions of a line in one direction and family; none when no such packet can match.
    fn conditions(&mut self, matching: &Match, direction: Direction, family: Family) -> Option<Conditions> {
        let local = self.side(&matching.local_addresses, family);
        let remote = self.side(&matching.remote_addresses, family);
        let ports = |list: &[RangeInclusive<u16>]| -> SmallVec<[PortRange; 1]> {
            list.iter().map(|range| PortRange { first: *range.start(), last: *range.end() }).collect()
        };
        let (local_ports, remote_ports) = (ports(&matching.local_ports), ports(&matching.remote_ports));
        let (source, destination, source_ports, destination_ports) = match direction {
            Direction::In => (remote, local, remote_ports, local_ports),
            Direction::Out => (local, remote, local_ports, remote_ports),
        };
        let split = |side| match side {
            Side::Any => Some((AddressSet::default(), None)),
            Side::In(set) => Some((set, None)),
            Side::Tagged(tag) => Some((AddressSet::default(), Some(tag))),
            Side::Nothing => None,
        };
        let (sources, source_tag) = split(source)?;
        let (destinations, destination_tag) = split(destination)?;
        Some(Conditions {
            protocols: matching.protocols.iter().copied().collect(),
            sources,
            destinations,
            source_ports,
            destination_ports,
            source_tag,
            destination_tag,
            ..Conditions::default()
        })
    }

    fn rules(&mut self, lines: &[Line<'_>], direction: Direction, family: Family) -> Vec<Arc<Rule>> {
        let mut rules = Vec::new();
        for line in lines {
            let Some(conditions) = self.conditions(&line.matching, direction, family) else { continue };
            let action = if *line.action == ActionType::Block { Action::Block } else { Action::Allow };
            let id = line.id.as_hyphenated().to_string().to_uppercase();
            let mut made = rule(id, u32::from(line.priority), line.flags, conditions, action);
            made.ttl = super::words::FLOW_TTL;
            if let Some(name) = line.name {
                made.name = name.into();
            }
            rules.push(Arc::new(made));
        }
        rules
    }
}

fn is_direction(given: Option<&DirectionType>, wanted: &DirectionType) -> bool {
    given == Some(wanted)
}

fn is_host(acl: &Acl) -> bool {
    acl.rule_type == Some(RuleType::Host)
}

/// The lines of a list of ACLs, by priority; of equal ones the one that was given first counts.
fn lines<'a>(owner: Guid, acls: &[&'a Acl], wanted: &DirectionType, host: bool) -> Vec<Line<'a>> {
    let mut lines: Vec<Line<'a>> = acls
        .iter()
        .enumerate()
        .filter(|(_, acl)| is_direction(acl.direction.as_ref(), wanted) && is_host(acl) == host)
        .filter_map(|(index, acl)| {
            let action = acl.action.as_ref()?;
            Some(Line {
                id: owner.derive(&format!("acl/{index}")).uuid(),
                name: acl.id.as_deref(),
                priority: acl.priority,
                action,
                matching: acl.matching().ok()?,
                flags: if host && *action != ActionType::Block { ACL - RuleFlags::TERMINATING } else { ACL },
            })
        })
        .collect();
    lines.sort_by_key(|line| line.priority);
    lines
}

fn tier_lines(owner: Guid, index: usize, tier: &TierAcl) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = tier
        .rules
        .iter()
        .enumerate()
        .filter_map(|(at, rule)| {
            let action = rule.action.as_ref()?;
            Some(Line {
                id: owner.derive(&format!("tier/{index}/{at}")).uuid(),
                name: rule.id.as_deref(),
                priority: rule.priority,
                action,
                matching: rule.matching().ok()?,
                // Pass leaves the answer to the next tier that has one.
                flags: if *action == ActionType::Pass { RuleFlags::HNS_ACL } else { ACL },
            })
        })
        .collect();
    lines.sort_by_key(|line| line.priority);
    lines
}

/// The filters of an endpoint.
pub(super) struct Filters<'a> {
    pub(super) owner: Guid,
    pub(super) acls: Vec<&'a Acl>,
    pub(super) tiers: Vec<&'a TierAcl>,
}

/// Hangs an endpoint's filters into the layer of its port; whether they depend on what is in sets.
pub(super) fn endpoint(
    cx: &Cx<'_>,
    view: &NetworkView,
    port: Uuid,
    filters: &Filters<'_>,
    build: &mut Build,
) -> bool {
    let mut sets = Sets { view, expanded: false };
    let layer = &layers().acl;
    let scope = port.to_string();
    let Filters { owner, acls, tiers } = filters;
    if acls.is_empty() && tiers.is_empty() {
        return false;
    }
    for (direction, wanted) in &DIRECTIONS {
        let direction = *direction;
        let mut tiers: Vec<(usize, &&TierAcl)> = tiers
            .iter()
            .enumerate()
            .filter(|(_, tier)| is_direction(tier.direction.as_ref(), wanted))
            .collect();
        tiers.sort_by_key(|(_, tier)| tier.order);
        let switch = lines(*owner, acls, wanted, false);
        let host = lines(*owner, acls, wanted, true);
        let denies =
            cx.switches().acl_default_deny && !(switch.is_empty() && host.is_empty() && tiers.is_empty());
        for family in FAMILIES {
            let mut hang = |id: String, priority: u32, rules: Vec<Arc<Rule>>| {
                if !rules.is_empty() {
                    let group = Group::new(&scope, layer, &id, direction, family, priority);
                    build.full_group(&group, rules);
                    build.attach(port, layer, &group, false);
                }
            };
            let end = format!("{}_{direction}", capital(family));
            hang(format!("ACL_HOST_GROUP_{end}"), place::HOST, sets.rules(&host, direction, family));
            for (place, (index, tier)) in (place::TIERS..).zip(&tiers) {
                let rules = sets.rules(&tier_lines(*owner, *index, tier), direction, family);
                hang(format!("ACL_TIER_{}_{}_GROUP_{end}", tier.order, tier.name), place, rules);
            }
            hang(format!("ACL_ENDPOINT_GROUP_{end}"), place::SWITCH, sets.rules(&switch, direction, family));
            let last = last_rule(*owner, direction, denies);
            hang(format!("ACL_DEFAULT_GROUP_{end}"), place::DEFAULT, vec![last]);
        }
    }
    sets.expanded
}

/// What becomes of packets that nothing matches. An allow is kept with the flow like any other, so that replies pass
/// although the other direction blocks them.
fn last_rule(owner: Guid, direction: Direction, denies: bool) -> Arc<Rule> {
    let (word, action) = if denies { ("deny", Action::Block) } else { ("allow", Action::Allow) };
    let id = owner.derive(&format!("{word}/{direction}")).upper().to_string();
    let mut last = rule(id, super::words::rank::ACL_DEFAULT, ACL, Conditions::any(), action);
    last.ttl = super::words::FLOW_TTL;
    Arc::new(last)
}

/// The groups of a network's ACLs; its endpoints' ports hang them into a layer of their own.
pub(super) fn network(view: &NetworkView, acls: &[&Acl], build: &mut Build) {
    let mut sets = Sets { view, expanded: false };
    let mut groups = view.shared.acl.iter();
    for (direction, wanted) in &DIRECTIONS {
        let mut own = lines(view.id, acls, wanted, false);
        own.extend(lines(view.id, acls, wanted, true).into_iter().map(|line| Line { flags: ACL, ..line }));
        own.sort_by_key(|line| line.priority);
        for family in FAMILIES {
            let Some(group) = groups.next() else { return };
            let mut rules = sets.rules(&own, *direction, family);
            rules.push(last_rule(view.id, *direction, false));
            build.full_group(group, rules);
        }
    }
}
