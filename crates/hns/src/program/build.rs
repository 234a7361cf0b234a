//! How a fragment is put together.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use smallvec::{SmallVec, smallvec};
use uuid::Uuid;
use vfp::model::{
    Action, AddressSet, Conditions, Family, GroupKey, GroupSpec, LayerFlags, LayerSpec, NeighborSpec,
    PoolSpec, PortRange, Rule, RuleFlags,
};
use wire::Mac;

use super::table::{Entry, Item, Key};
use super::words::Group;

/// The entries of one source.
#[derive(Default)]
pub(super) struct Build {
    pub(super) entries: Vec<Entry>,
    /// The rank of entries that several sources may bring.
    pub(super) rank: u64,
}

impl Build {
    pub(super) fn ranked(rank: u64) -> Self {
        Self { entries: Vec::with_capacity(8), rank }
    }

    pub(super) fn put(&mut self, key: Key, item: Item) {
        self.entries.push(Entry { key, item, rank: self.rank, shared: false });
    }

    pub(super) fn share(&mut self, key: Key, item: Item) {
        self.entries.push(Entry { key, item, rank: 0, shared: true });
    }

    /// A layer of a port; `shared` when several sources bring it.
    pub(super) fn layer(&mut self, port: Uuid, spec: LayerSpec, shared: bool) {
        let key = Key::Layer(port, Arc::clone(&spec.id));
        if shared {
            self.share(key, Item::Layer(spec));
        } else {
            self.put(key, Item::Layer(spec));
        }
    }

    /// A group without rules.
    pub(super) fn group(&mut self, group: &Group, shared: bool) {
        let item = Item::Group(Arc::new(shell(group)));
        let key = Key::Group(group.key.clone());
        if shared {
            self.share(key, item);
        } else {
            self.put(key, item);
        }
    }

    /// A group with its rules, replaced as a unit.
    pub(super) fn full_group(&mut self, group: &Group, rules: Vec<Arc<Rule>>) {
        let spec = GroupSpec { rules, ..shell(group) };
        self.put(Key::Group(group.key.clone()), Item::Group(Arc::new(spec)));
    }

    pub(super) fn attach(&mut self, port: Uuid, layer: &Arc<str>, group: &Group, shared: bool) {
        let key = Key::Attach(port, Arc::clone(layer), group.key.clone());
        if shared {
            self.share(key, Item::Attach);
        } else {
            self.put(key, Item::Attach);
        }
    }

    /// A group of its own, hung into a layer.
    pub(super) fn own_group(&mut self, port: Uuid, layer: &Arc<str>, group: &Group, shared: bool) {
        self.group(group, shared);
        self.attach(port, layer, group, shared);
    }

    pub(super) fn rule(&mut self, group: &GroupKey, rule: Rule) {
        self.put(Key::Rule(group.clone(), Arc::clone(&rule.id)), Item::Rule(Arc::new(rule)));
    }

    pub(super) fn pool(&mut self, pool: PoolSpec) {
        self.put(Key::Pool(pool.key.clone()), Item::Pool(Arc::new(pool)));
    }

    pub(super) fn neighbor(&mut self, segment: u32, address: IpAddr, mac: Mac) {
        let item = Item::Neighbor(NeighborSpec { segment, address, mac });
        self.put(Key::Neighbor(segment, address), item);
    }
}

fn shell(group: &Group) -> GroupSpec {
    GroupSpec {
        key: group.key.clone(),
        id: Arc::clone(&group.id),
        name: Arc::clone(&group.id),
        direction: group.direction,
        family: group.family,
        priority: group.priority,
        conditions: Conditions::any(),
        rules: Vec::new(),
    }
}

/// A layer whose packets pass when no rule matches.
pub(super) fn layer(name: &Arc<str>, priority: u32, stateful: bool) -> LayerSpec {
    LayerSpec {
        id: Arc::clone(name),
        name: Arc::clone(name),
        priority,
        stateful,
        flags: LayerFlags::DEFAULT_ALLOW,
    }
}

/// A rule whose friendly name is its id.
pub(super) fn rule(
    id: impl Into<Arc<str>>,
    priority: u32,
    flags: RuleFlags,
    conditions: Conditions,
    action: Action,
) -> Rule {
    let id = id.into();
    let ttl = if flags.contains(RuleFlags::STATEFUL) { super::words::FLOW_TTL } else { 0 };
    Rule { name: Arc::clone(&id), id, priority, flags, ttl, conditions, action }
}

/// A match that ends its layer.
pub(super) const FINAL: RuleFlags = RuleFlags::TERMINATING;

/// A match that ends its layer and is remembered for the connection.
pub(super) const FLOW: RuleFlags = RuleFlags::TERMINATING.union(RuleFlags::STATEFUL);

/// To one address, by protocol and port; ICMP has no ports.
pub(super) fn to(protocol: u8, address: IpAddr, port: u16) -> Conditions {
    Conditions {
        protocols: smallvec![protocol],
        destinations: AddressSet::one(address),
        destination_ports: ports(protocol, port),
        ..Conditions::default()
    }
}

/// From one address, by protocol and port.
pub(super) fn from(protocol: u8, address: IpAddr, port: u16) -> Conditions {
    Conditions {
        protocols: smallvec![protocol],
        sources: AddressSet::one(address),
        source_ports: ports(protocol, port),
        ..Conditions::default()
    }
}

fn ports(protocol: u8, port: u16) -> SmallVec<[PortRange; 1]> {
    use vfp::model::protocol as known;
    if matches!(protocol, known::TCP | known::UDP | known::SCTP) {
        smallvec![PortRange::one(port)]
    } else {
        smallvec![]
    }
}

/// To a prefix.
pub(super) fn to_net(net: IpNet) -> Conditions {
    Conditions { destinations: std::iter::once(net).collect(), ..Conditions::default() }
}

/// To these addresses.
pub(super) fn to_any(addresses: &[IpAddr]) -> Conditions {
    Conditions { destinations: addresses.iter().copied().collect(), ..Conditions::default() }
}

/// The addresses of one family.
pub(super) fn of_family(addresses: &[IpAddr], family: Family) -> Vec<IpAddr> {
    addresses.iter().copied().filter(|&address| Family::of(address) == family).collect()
}

/// The family of a prefix.
pub(super) fn family_of(net: IpNet) -> Family {
    Family::of(net.addr())
}

/// The same address in the other crate's type.
pub(super) const fn mac(mac: hcn::Mac) -> Mac {
    Mac(mac.0)
}
