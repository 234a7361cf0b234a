//! What HNS's objects are in the switch: layers, groups, rules and pools of ports, kept in step with every write.
//!
//! Each object brings its own part (a *fragment*), which is a pure function of the state: a network its segment and
//! the groups that its ports share, an endpoint its port, a load balancer its rules. After a write, the parts of the
//! objects that it touched and of those that depend on them are made anew; what became different goes to the
//! [`Datapath`]. The switch's own words stand in [`words`].
//!
//! This module knows HNS's records and the engine's model, never a packet.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hcn::{Guid, Kind};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use uuid::Uuid;
use vfp::model::{ApplyError, Change, GroupKey, PoolSpec};

use crate::network::has_management_address;
use crate::record::{EndpointRecord, NetworkRecord, Object};
use crate::state::State;
use crate::switches::Switches;
use crate::tx::Env;

mod acl;
mod balancer;
mod build;
mod endpoint;
mod host;
mod nat;
mod network;
mod proxy;
pub(crate) mod table;
#[cfg(test)]
mod tests;
mod view;
mod words;

pub(crate) use host::{HostPorts, settings};
use table::{Key, Source, Table};
use view::NetworkView;
pub(crate) use view::segment;

/// A switch that carries out what HNS programs.
pub trait Datapath: Send + Sync {
    /// Takes changes, all or none, from first to last. HNS holds its lock meanwhile: an implementation must not call
    /// it. A refusal is a bug of one of the two; HNS keeps it ([`crate::Hns::datapath_errors`]) and goes on.
    fn apply(&self, changes: &[Change]) -> Result<(), ApplyError>;
}

/// How many refusals are kept.
const ERRORS: usize = 64;

/// What a fragment is made from.
pub(crate) struct Cx<'a> {
    pub(crate) state: &'a State,
    pub(crate) env: &'a Env,
    pub(crate) ports: HostPorts,
    memory: &'a Memory,
}

impl Cx<'_> {
    fn switches(&self) -> &Switches {
        &self.env.switches
    }

    /// The node's address of a family: the network's management address, else an adapter's. None while the network
    /// waits for its management address.
    fn node_address(&self, view: &NetworkView, ipv6: bool) -> Option<IpAddr> {
        let facts = &view.facts;
        if !facts.ready {
            return None;
        }
        let own = facts.management.filter(|address| address.is_ipv6() == ipv6);
        let adapters = &self.env.host.adapters;
        own.or_else(|| {
            let addresses = adapters.iter().flat_map(|adapter| &adapter.addresses).map(ipnet::IpNet::addr);
            addresses.into_iter().find(|address| address.is_ipv6() == ipv6)
        })
    }

    /// Whether some local endpoint of a network is attached.
    fn has_ports(&self, network: Guid) -> bool {
        self.memory.attached.get(&network).is_some_and(|count| *count > 0)
    }

    /// The NAT groups of a port: IN, OUT; each v4, v6.
    fn nat_groups(&self, port: Uuid) -> [[GroupKey; 2]; 2] {
        match self.memory.nat_groups.get(&port) {
            Some(known) => known.clone(),
            None => nat_groups(port),
        }
    }
}

fn nat_groups(port: Uuid) -> [[GroupKey; 2]; 2] {
    nat::groups(port).map(|direction| direction.map(|group| group.key))
}

/// What is kept beside the table: readings of objects that others need, and what faults left.
#[derive(Clone, Debug, Default)]
struct Memory {
    views: FxHashMap<Guid, Arc<NetworkView>>,
    /// Attached local endpoints by network.
    attached: FxHashMap<Guid, u32>,
    nat_groups: FxHashMap<Uuid, [[GroupKey; 2]; 2]>,
    /// Pools of the host's port by address and protocol: they never change.
    common_pools: RefCell<FxHashMap<(IpAddr, u8), Arc<PoolSpec>>>,
    /// Networks whose management address is to come, by when.
    waiting: BTreeSet<(Duration, Guid)>,
    /// Endpoints that depend on what is in sets.
    expanders: FxHashSet<Guid>,
    /// Objects whose rules a fault kept off the switch.
    unprogrammed: FxHashSet<Source>,
    /// Networks of load balancers that left rules behind.
    stale: FxHashMap<Source, Option<Guid>>,
}

/// An object that a write touched: its kind, its id, and what it was before.
pub(crate) type Touched = (Kind, Guid, Option<Object>);

/// How a fault bends what becomes of a write in the switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bend {
    /// The rules of what is written are kept off (an endpoint's: its NAT).
    pub(crate) unprogrammed: bool,
    /// The rules of a load balancer that is deleted stay.
    pub(crate) stale: bool,
}

/// Keeps a datapath in step.
pub(crate) struct Programmer {
    table: Table,
    memory: Memory,
    ports: HostPorts,
    datapath: Arc<dyn Datapath>,
    errors: Vec<String>,
    /// The time that was followed last.
    #[cfg(test)]
    seen: Duration,
}

impl Programmer {
    pub(crate) fn new(env: &Env, datapath: Arc<dyn Datapath>) -> Self {
        let ports = HostPorts::of(&env.host);
        Self {
            table: Table::default(),
            memory: Memory::default(),
            ports,
            datapath,
            errors: Vec::new(),
            #[cfg(test)]
            seen: Duration::ZERO,
        }
    }

    pub(crate) fn errors(&self) -> &[String] {
        &self.errors
    }

    /// When the next network gets its management address.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.memory.waiting.first().map(|(at, _)| *at)
    }

    /// Makes everything anew, as after a start. With `lost`, HNS lists its load balancers, but the switch is without
    /// their rules until they are written again.
    pub(crate) fn rebuild(&mut self, state: &State, env: &Env, now: Duration, lost: bool) {
        #[cfg(test)]
        self.see(now);
        self.memory = Memory::default();
        if lost {
            let balancers = state.balancers.iter().filter_map(|record| record.doc.id);
            self.memory.unprogrammed = balancers.map(Source::Balancer).collect();
        }
        self.make_all(state, env, now);
        self.apply();
    }

    fn make_all(&mut self, state: &State, env: &Env, now: Duration) {
        let mut dirty: BTreeSet<Source> = self.table.sources().collect();
        dirty.insert(Source::Host);
        for object in state.objects() {
            match &object {
                Object::Network(record) => {
                    self.memory.read_network(object.id(), Some(record), now);
                    dirty.insert(Source::Network(object.id()));
                }
                Object::Endpoint(record) => {
                    self.memory.read_endpoint(None, Some(record));
                    dirty.insert(Source::Endpoint(object.id()));
                }
                Object::Balancer(_) => {
                    dirty.insert(Source::Balancer(object.id()));
                }
                Object::Namespace(_) | Object::Route(_) => {}
            }
        }
        self.make(state, env, &dirty);
    }

    /// Follows one write, and the time.
    pub(crate) fn follow(
        &mut self,
        state: &State,
        env: &Env,
        now: Duration,
        touched: &[Touched],
        bend: Bend,
    ) {
        #[cfg(test)]
        self.see(now);
        let mut dirty = BTreeSet::new();
        self.tick(state, now, &mut dirty);
        for (kind, id, before) in touched {
            match kind {
                Kind::Network => self.network(state, now, *id, &mut dirty),
                Kind::Endpoint => self.endpoint(state, *id, before.as_ref(), bend, &mut dirty),
                Kind::LoadBalancer => self.balancer(state, *id, before.as_ref(), bend, &mut dirty),
                Kind::SdnRoute => {
                    let now = state.get(*kind, *id);
                    for object in [before.as_ref(), now.as_ref()].into_iter().flatten() {
                        if let Object::Route(record) = object {
                            dirty.extend(record.doc.endpoints.iter().map(|id| Source::Endpoint(*id)));
                        }
                    }
                }
                // What a namespace is, is settled when it is made; who is in it, its endpoints say.
                Kind::Namespace => {}
            }
        }
        if !dirty.is_empty() {
            self.make(state, env, &dirty);
            self.apply();
        }
    }

    /// Networks whose management address has appeared by now.
    fn tick(&mut self, state: &State, now: Duration, dirty: &mut BTreeSet<Source>) {
        while let Some(&(at, id)) = self.memory.waiting.first()
            && at <= now
        {
            self.network(state, now, id, dirty);
        }
    }

    fn network(&mut self, state: &State, now: Duration, id: Guid, dirty: &mut BTreeSet<Source>) {
        let record = state.networks.get(id);
        let before = self.memory.views.get(&id).cloned();
        self.memory.read_network(id, record.map(|record| &**record), now);
        let after = self.memory.views.get(&id);
        dirty.insert(Source::Network(id));
        if record.is_none() {
            let gone = self.memory.stale.extract_if(|_, network| *network == Some(id));
            dirty.extend(gone.map(|(source, _)| source));
        }
        let facts = before.as_ref().map(|view| &view.facts) != after.map(|view| &view.facts);
        let sets = before.as_ref().map(|view| &view.sets) != after.map(|view| &view.sets);
        let endpoints = state.endpoints_of(id).filter_map(|endpoint| endpoint.doc.id);
        if facts {
            dirty.extend(endpoints.map(Source::Endpoint));
            dirty.extend(state.balancers_on(id).into_iter().map(Source::Balancer));
        } else if sets {
            let expanders = &self.memory.expanders;
            dirty.extend(endpoints.filter(|id| expanders.contains(id)).map(Source::Endpoint));
        }
    }

    fn endpoint(
        &mut self,
        state: &State,
        id: Guid,
        before: Option<&Object>,
        bend: Bend,
        dirty: &mut BTreeSet<Source>,
    ) {
        let old = match before {
            Some(Object::Endpoint(record)) => Some(&**record),
            _ => None,
        };
        let new = state.endpoints.get(id).map(|record| &**record);
        let source = Source::Endpoint(id);
        if bend.unprogrammed && new.is_some() {
            self.memory.unprogrammed.insert(source);
        } else {
            self.memory.unprogrammed.remove(&source);
        }
        for network in self.memory.read_endpoint(old, new) {
            dirty.insert(Source::Network(network));
        }
        if new.is_none() {
            self.memory.expanders.remove(&id);
        }
        dirty.insert(source);
        let as_backend = |record: &EndpointRecord| {
            (record.addresses.clone(), record.mac, record.port, record.network, record.doc.is_remote())
        };
        if old.map(as_backend) != new.map(as_backend) {
            dirty.extend(state.balancers_of(id).into_iter().map(Source::Balancer));
        }
    }

    fn balancer(
        &mut self,
        state: &State,
        id: Guid,
        before: Option<&Object>,
        bend: Bend,
        dirty: &mut BTreeSet<Source>,
    ) {
        let source = Source::Balancer(id);
        let there = state.balancers.contains(id);
        if bend.unprogrammed && there {
            self.memory.unprogrammed.insert(source);
        } else {
            self.memory.unprogrammed.remove(&source);
        }
        if bend.stale && !there {
            self.leave_behind(state, id, before);
        }
        dirty.insert(source);
    }

    /// Keeps the rules of a deleted load balancer that its network's pods share.
    fn leave_behind(&mut self, state: &State, id: Guid, before: Option<&Object>) {
        let Some(Object::Balancer(record)) = before else { return };
        let Some(view) = record.network.and_then(|network| self.memory.views.get(&network)) else { return };
        let mut entries = self.table.fragment(Source::Balancer(id));
        let shared = |group: &GroupKey| view.shared.lb_dsr.iter().any(|own| own.key == *group);
        entries.retain(|entry| matches!(&entry.key, Key::Rule(group, _) if shared(group)));
        let network = record.network.filter(|network| state.networks.contains(*network));
        if network.is_some() && !entries.is_empty() {
            self.table.set(Source::Stale(id), entries);
            self.memory.stale.insert(Source::Stale(id), network);
        }
    }

    /// Makes fragments anew.
    fn make(&mut self, state: &State, env: &Env, dirty: &BTreeSet<Source>) {
        for &source in dirty {
            let cx = Cx { state, env, ports: self.ports, memory: &self.memory };
            let mut expands = false;
            let entries = match source {
                Source::Host => host::build(&cx).entries,
                Source::Network(id) => {
                    let found = state.networks.get(id).zip(self.memory.views.get(&id));
                    found.map(|(record, view)| network::build(&cx, view, record).entries).unwrap_or_default()
                }
                Source::Endpoint(id) => {
                    let without_nat = self.memory.unprogrammed.contains(&source);
                    let found = state.endpoints.get(id).and_then(|record| {
                        let view = self.memory.views.get(&record.network)?;
                        Some(endpoint::build(&cx, view, record, without_nat))
                    });
                    let (build, needs_sets) = found.unwrap_or_default();
                    expands = needs_sets;
                    build.entries
                }
                Source::Balancer(_) if self.memory.unprogrammed.contains(&source) => Vec::new(),
                Source::Balancer(id) => {
                    let found = state.balancers.get(id).and_then(|record| {
                        let view = self.memory.views.get(&record.network?)?;
                        Some(balancer::build(&cx, view, record).entries)
                    });
                    found.unwrap_or_default()
                }
                Source::Stale(_) if self.memory.stale.contains_key(&source) => continue,
                Source::Stale(_) => Vec::new(),
            };
            if let Source::Endpoint(id) = source {
                if expands {
                    self.memory.expanders.insert(id);
                } else {
                    self.memory.expanders.remove(&id);
                }
            }
            self.table.set(source, entries);
        }
    }

    fn apply(&mut self) {
        let changes = self.table.take_changes();
        if changes.is_empty() {
            return;
        }
        if let Err(error) = self.datapath.apply(&changes) {
            let change = changes.get(error.index).map(|change| format!("{change:?}")).unwrap_or_default();
            tracing::error!(%error, change, "the datapath refused what HNS programmed");
            if self.errors.len() < ERRORS {
                self.errors.push(format!("{error}: {change}"));
            }
        }
    }
}

#[cfg(test)]
impl Programmer {
    /// What the table says the switch holds, every rule on its own.
    pub(crate) fn items(&self) -> std::collections::BTreeMap<Key, table::Item> {
        let mut items = self.table.items();
        let whole: Vec<_> = items
            .values()
            .filter_map(|item| match item {
                table::Item::Group(spec) if !spec.rules.is_empty() => Some(Arc::clone(spec)),
                _ => None,
            })
            .collect();
        for spec in whole {
            items.insert(Key::Group(spec.key.clone()), crate::testing::bare(&spec));
            for rule in &spec.rules {
                let key = Key::Rule(spec.key.clone(), Arc::clone(&rule.id));
                items.insert(key, table::Item::Rule(Arc::clone(rule)));
            }
        }
        items
    }

    fn see(&mut self, now: Duration) {
        self.seen = now;
    }

    /// The time that was followed last.
    pub(crate) fn seen(&self) -> Duration {
        self.seen
    }

    /// The same made from the state alone; what faults left is taken over.
    pub(crate) fn afresh(&self, state: &State, env: &Env, now: Duration) -> Self {
        let mut fresh = Self::new(env, Arc::clone(&self.datapath));
        fresh.memory.unprogrammed.clone_from(&self.memory.unprogrammed);
        fresh.memory.stale.clone_from(&self.memory.stale);
        for source in self.memory.stale.keys() {
            fresh.table.set(*source, self.table.fragment(*source));
        }
        fresh.make_all(state, env, now);
        fresh
    }
}

impl Memory {
    fn read_network(&mut self, id: Guid, record: Option<&NetworkRecord>, now: Duration) {
        self.waiting.retain(|(_, waiting)| *waiting != id);
        let Some(record) = record else {
            self.views.remove(&id);
            return;
        };
        if has_management_address(&record.doc.network_mode()) && record.ready_at > now {
            self.waiting.insert((record.ready_at, id));
        }
        self.views.insert(id, Arc::new(NetworkView::of(record, now)));
    }

    /// Notes which port an endpoint has; the networks that got their first or lost their last one.
    fn read_endpoint(&mut self, old: Option<&EndpointRecord>, new: Option<&EndpointRecord>) -> Vec<Guid> {
        let seat = |record: &EndpointRecord| {
            let port = record.port.filter(|_| !record.doc.is_remote())?;
            Some((record.network, port.uuid()))
        };
        let (old, new) = (old.and_then(seat), new.and_then(seat));
        let mut turned = Vec::new();
        if old == new {
            return turned;
        }
        if let Some((network, port)) = old {
            self.nat_groups.remove(&port);
            if let Some(count) = self.attached.get_mut(&network) {
                *count -= 1;
                if *count == 0 {
                    self.attached.remove(&network);
                    turned.push(network);
                }
            }
        }
        if let Some((network, port)) = new {
            self.nat_groups.insert(port, nat_groups(port));
            let count = self.attached.entry(network).or_default();
            *count += 1;
            if *count == 1 {
                turned.push(network);
            }
        }
        turned
    }
}

/// A programmer that calls can share; see [`crate::service`] for the order of locks.
pub(crate) type Shared = Mutex<Programmer>;
