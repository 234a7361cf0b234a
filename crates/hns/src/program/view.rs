//! A network as the objects on it see it: read once from its document, so that a load balancer does not read
//! policies.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use hcn::Guid;
use hcn::network::NetworkMode;
use hcn::policy::acl::Address;
use hcn::policy::network::SetPolicyType;
use hcn::policy::{NetworkPolicy, SubnetPolicy};
use ipnet::IpNet;
use vfp::model::{AddressRange, AddressSet, Direction, Family};
use wire::Mac;

use super::words::{self, FAMILIES, Group, capital, mixed};
use crate::network::has_management_address;
use crate::record::NetworkRecord;
use crate::state::SEQ_STEP;

/// The segment of a network: its place among all objects, so that it is the same after a restart.
pub(crate) fn segment(record: &NetworkRecord) -> u32 {
    u32::try_from(record.seq / SEQ_STEP).unwrap_or(u32::MAX)
}

/// A subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SubnetView {
    pub(crate) prefix: IpNet,
    pub(crate) gateway: Option<IpAddr>,
    pub(crate) vsid: Option<u32>,
    pub(crate) vlan: Option<u16>,
}

/// A set of addresses that ACLs name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SetView {
    pub(crate) name: String,
    pub(crate) addresses: AddressSet,
}

/// What of a network endpoints and load balancers depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Facts {
    pub(crate) mode: NetworkMode,
    pub(crate) segment: u32,
    /// Its management address and DR MAC have appeared, where it gets any.
    pub(crate) ready: bool,
    pub(crate) management: Option<IpAddr>,
    /// The distributed router.
    pub(crate) router: Option<Mac>,
    pub(crate) subnets: Vec<SubnetView>,
    /// A VLAN or VSID policy of the network itself.
    pub(crate) vlan: Option<u16>,
    pub(crate) vsid: Option<u32>,
    /// The host reaches its endpoints through the switch.
    pub(crate) host_route: bool,
    /// It has ACLs of its own.
    pub(crate) acl: bool,
    /// It has proxies of its own.
    pub(crate) proxy: bool,
}

/// Groups that all ports of a network share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) lb_dsr: [Group; 2],
    pub(crate) steer: [Group; 2],
    pub(crate) encap: [Group; 2],
    pub(crate) pa_route: [Group; 2],
    pub(crate) external_to_local: [Group; 2],
    pub(crate) host_to_local: [Group; 2],
    pub(crate) proxy: [Group; 2],
    /// In, then out; each v4, then v6.
    pub(crate) acl: [Group; 4],
}

/// A network.
#[derive(Clone, Debug)]
pub(crate) struct NetworkView {
    pub(crate) id: Guid,
    pub(crate) facts: Facts,
    pub(crate) sets: BTreeMap<String, SetView>,
    pub(crate) shared: Shared,
}

impl NetworkView {
    pub(crate) fn of(record: &NetworkRecord, now: Duration) -> Self {
        let id = record.doc.id.unwrap_or_default();
        let mode = record.doc.network_mode();
        let ready = !has_management_address(&mode) || now >= record.ready_at;
        let mut facts = Facts {
            segment: segment(record),
            ready,
            management: record.management.filter(|_| ready),
            router: record.dr_mac.as_deref().filter(|_| ready).and_then(|text| text.parse().ok()),
            subnets: subnets(record),
            vlan: None,
            vsid: None,
            host_route: false,
            acl: false,
            proxy: false,
            mode,
        };
        let mut sets = Vec::new();
        for policy in &record.doc.policies {
            match NetworkPolicy::decode(policy) {
                // What a client says itself stands in place of what HNS would add.
                Ok(NetworkPolicy::ProviderAddress(own)) if ready => {
                    facts.management = own.provider_address.parse().ok().or(facts.management);
                }
                Ok(NetworkPolicy::DrMacAddress(own)) if ready => {
                    facts.router = own.address.parse().ok().or(facts.router);
                }
                Ok(NetworkPolicy::HostRoute(_)) => facts.host_route = true,
                Ok(NetworkPolicy::Acl(_)) => facts.acl = true,
                Ok(NetworkPolicy::L4Proxy(_)) => facts.proxy = true,
                Ok(NetworkPolicy::Set(set)) => sets.push(set),
                Ok(NetworkPolicy::Unknown(_)) => match SubnetPolicy::decode(policy) {
                    Ok(SubnetPolicy::Vlan(isolation)) => facts.vlan = vlan(isolation.isolation_id),
                    Ok(SubnetPolicy::Vsid(isolation)) => facts.vsid = Some(isolation.isolation_id),
                    _ => {}
                },
                _ => {}
            }
        }
        Self { id, facts, sets: resolve(&sets), shared: Shared::of(id) }
    }

    pub(crate) fn is_overlay(&self) -> bool {
        self.facts.mode == NetworkMode::Overlay
    }

    /// Where an overlay's tunnels start: the provider address and the distributed router's MAC.
    pub(crate) fn tunnel(&self) -> Option<(IpAddr, Mac)> {
        let facts = &self.facts;
        if self.is_overlay() { facts.management.zip(facts.router) } else { None }
    }

    /// On the wire the host's MAC stands for those of the endpoints.
    pub(crate) fn is_bridged(&self) -> bool {
        matches!(self.facts.mode, NetworkMode::L2Bridge | NetworkMode::L2Tunnel)
    }

    /// The host is the gateway and translates.
    pub(crate) fn is_translated(&self) -> bool {
        matches!(self.facts.mode, NetworkMode::Nat | NetworkMode::Ics | NetworkMode::ConstrainedIcs)
    }

    /// The host sends to local endpoints through the switch.
    pub(crate) fn host_sends(&self) -> bool {
        self.is_overlay()
            || self.is_translated()
            || self.facts.host_route
            || self.facts.mode == NetworkMode::Internal
    }

    /// The subnet that an address is in.
    pub(crate) fn subnet(&self, address: IpAddr) -> Option<&SubnetView> {
        self.facts.subnets.iter().find(|subnet| subnet.prefix.contains(&address))
    }

    /// The virtual subnets, each once.
    pub(crate) fn vsids(&self) -> BTreeSet<u32> {
        let own = self.facts.subnets.iter().filter_map(|subnet| subnet.vsid);
        own.chain(self.facts.vsid).collect()
    }

    /// The addresses of the sets with these ids that are in all of them, or none when there is no such address.
    pub(crate) fn in_all(&self, ids: &[&str]) -> Option<AddressSet> {
        let mut found: Option<AddressSet> = None;
        for id in ids {
            let set = &self.sets.get(*id)?.addresses;
            found = Some(match found {
                None => set.clone(),
                Some(before) => intersect(&before, set),
            });
        }
        found.filter(|set| !set.is_empty())
    }
}

/// What is in both.
fn intersect(a: &AddressSet, b: &AddressSet) -> AddressSet {
    let both = a.ranges().iter().flat_map(|one| {
        b.ranges().iter().filter_map(move |other| {
            (one.family() == other.family())
                .then(|| AddressRange::new(one.first.max(other.first), one.last.min(other.last)))?
        })
    });
    AddressSet::new(both)
}

fn vlan(id: u32) -> Option<u16> {
    u16::try_from(id).ok().filter(|id| (1..4095).contains(id))
}

/// The VLAN and VSID of a list of policies.
pub(crate) fn isolation(policies: &[hcn::Policy]) -> (Option<u16>, Option<u32>) {
    let mut found = (None, None);
    for policy in policies {
        match SubnetPolicy::decode(policy) {
            Ok(SubnetPolicy::Vlan(isolation)) => found.0 = vlan(isolation.isolation_id),
            Ok(SubnetPolicy::Vsid(isolation)) => found.1 = Some(isolation.isolation_id),
            _ => {}
        }
    }
    found
}

fn subnets(record: &NetworkRecord) -> Vec<SubnetView> {
    let view = |subnet: &hcn::network::Subnet| {
        let (vlan, vsid) = isolation(&subnet.policies);
        let prefix: IpNet = subnet.prefix.parse().ok()?;
        let gateway = subnet.gateway().and_then(|hop| hop.parse().ok());
        Some(SubnetView { prefix: prefix.trunc(), gateway, vsid, vlan })
    };
    record.doc.subnets().filter_map(view).collect()
}

/// The addresses of each set, those of the sets it names included.
fn resolve(policies: &[hcn::policy::network::SetPolicy]) -> BTreeMap<String, SetView> {
    let by_id: BTreeMap<&str, &hcn::policy::network::SetPolicy> =
        policies.iter().map(|set| (set.id.as_str(), set)).collect();
    let collect = |id: &str| {
        let mut ranges = Vec::new();
        let mut seen = BTreeSet::from([id]);
        let mut open = vec![id];
        // A set that names itself in a circle adds nothing the second time.
        while let Some(id) = open.pop() {
            let Some(set) = by_id.get(id) else { continue };
            if set.policy_type == Some(SetPolicyType::NestedIpSet) {
                let members = set.values.split(',').map(str::trim).filter(|id| !id.is_empty());
                open.extend(members.filter(|id| seen.insert(id)));
            } else if let Ok(list) = hcn::policy::acl::addresses("Values", &set.values) {
                ranges.extend(list.into_iter().filter_map(|entry| match entry {
                    Address::Net(net) => Some(AddressRange::from(net)),
                    Address::Set(_) => None,
                }));
            }
        }
        AddressSet::new(ranges)
    };
    by_id
        .iter()
        .map(|(&id, set)| (id.to_owned(), SetView { name: set.name.clone(), addresses: collect(id) }))
        .collect()
}

impl Shared {
    fn of(id: Guid) -> Self {
        let scope = id.lower().to_string();
        let layers = words::layers();
        let out = |layer: &str, name: &dyn Fn(Family) -> String, priority: u32| {
            FAMILIES.map(|family| Group::new(&scope, layer, &name(family), Direction::Out, family, priority))
        };
        let at = |port: &str| format!("{scope}/{port}");
        let to_local = |port: &str| {
            FAMILIES.map(|family| {
                let name = format!("INTERNAL_L2_REWRITE_GROUP_{}_OUT", capital(family));
                Group::new(&at(port), &layers.internal_l2, &name, Direction::Out, family, 0)
            })
        };
        let acl = |direction: Direction, family| {
            let name = format!("ACL_NETWORK_GROUP_{}_{direction}", capital(family));
            Group::new(&scope, &layers.acl_network, &name, direction, family, 100)
        };
        Self {
            lb_dsr: out(&layers.lb_dsr, &|family| format!("LB_DSR_{}_OUT", mixed(family)), 100),
            steer: out(&layers.slb_nat, &|family| format!("SLB_GROUP_STEER_{}_OUT", mixed(family)), 50),
            encap: out(
                &layers.vnet_encap,
                &|family| format!("VNET_GROUP_ENCAP_{}_OUT", capital(family)),
                200,
            ),
            pa_route: out(
                &layers.vnet_pa_route,
                &|family| format!("VNET_GROUP_PA_ROUTE_{}_OUT", capital(family)),
                200,
            ),
            external_to_local: to_local("external"),
            host_to_local: to_local("host"),
            proxy: out(
                &layers.l4_proxy,
                &|family| format!("L4_PROXY_NETWORK_GROUP_{}_OUT", capital(family)),
                200,
            ),
            acl: [
                acl(Direction::In, Family::V4),
                acl(Direction::In, Family::V6),
                acl(Direction::Out, Family::V4),
                acl(Direction::Out, Family::V6),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(id: &str, nested: bool, values: &str) -> hcn::policy::network::SetPolicy {
        let kind = if nested { SetPolicyType::NestedIpSet } else { SetPolicyType::IpSet };
        hcn::policy::network::SetPolicy {
            id: id.to_owned(),
            name: format!("set {id}"),
            policy_type: Some(kind),
            values: values.to_owned(),
            ..hcn::policy::network::SetPolicy::default()
        }
    }

    #[test]
    fn sets_hold_those_they_name_and_circles_end() {
        let sets = resolve(&[
            set("a", false, "10.0.0.0/24,10.0.1.0/24"),
            set("b", true, "a, c"),
            set("c", true, "b,d"),
            set("d", false, "fd00::/64"),
        ]);
        let text = |id: &str| -> Vec<String> {
            sets[id].addresses.ranges().iter().map(ToString::to_string).collect()
        };
        assert_eq!(text("a"), ["10.0.0.0-10.0.1.255"]);
        assert_eq!(text("b"), ["10.0.0.0-10.0.1.255", "fd00::-fd00::ffff:ffff:ffff:ffff"]);
        assert_eq!(text("b"), text("c"));
    }

    #[test]
    fn several_sets_are_what_is_in_all() {
        let one = AddressSet::new([AddressRange::from("10.0.0.0/24".parse::<IpNet>().unwrap())]);
        let other = AddressSet::new([
            AddressRange::from("10.0.0.128/25".parse::<IpNet>().unwrap()),
            AddressRange::from("10.9.0.0/16".parse::<IpNet>().unwrap()),
        ]);
        assert_eq!(intersect(&one, &other).ranges()[0].to_string(), "10.0.0.128-10.0.0.255");
        assert_eq!(intersect(&one, &other).ranges().len(), 1);
    }
}
