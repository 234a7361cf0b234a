//! The objects and their indexes.
//!
//! [`State::put`] and [`State::take`] are the only ways in and out, and they keep every index, pool and port
//! reservation in step with the records: all of those are a function of the records (and of the host's
//! listeners). So undoing a change, restarting the service and reading the store are the same act: putting
//! records. No rule of HNS lives here.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use hcn::loadbalancer::Frontend;
use hcn::network::NetworkMode;
use hcn::{Guid, Kind};
use rustc_hash::FxHashMap;

use crate::alloc::{AddressPools, MacPools};
use crate::host::Host;
use crate::ports::{Holder, Ports};
use crate::record::{BalancerRecord, EndpointRecord, NamespaceRecord, NetworkRecord, Object, RouteRecord};
use crate::switches::ListOrder;

#[cfg(test)]
pub(crate) mod check;
mod table;

pub(crate) use table::{IdMap, Row, Table, in_order};

/// Sequence numbers leave gaps, so that an object can be placed right beside another one (F-DUPIP).
pub(crate) const SEQ_STEP: u64 = 1 << 16;

/// What one network gives out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pools {
    pub(crate) addresses: AddressPools,
    pub(crate) macs: MacPools,
}

#[derive(Clone)]
pub(crate) struct State {
    pub(crate) networks: Table<NetworkRecord>,
    pub(crate) endpoints: Table<EndpointRecord>,
    pub(crate) namespaces: Table<NamespaceRecord>,
    pub(crate) balancers: Table<BalancerRecord>,
    pub(crate) routes: Table<RouteRecord>,
    /// Who holds a frontend.
    pub(crate) frontends: FxHashMap<Frontend, Guid>,
    pub(crate) ports: Ports,
    /// By exact name.
    network_names: IdMap<String>,
    endpoint_names: FxHashMap<String, BTreeMap<u64, Guid>>,
    endpoints_on: FxHashMap<Guid, BTreeMap<u64, Guid>>,
    /// Which endpoints of a network have an address.
    at: IdMap<(Guid, IpAddr)>,
    pools: FxHashMap<Guid, Pools>,
    balancers_of: IdMap<Guid>,
    balancers_on: IdMap<Guid>,
    routes_of: IdMap<Guid>,
    host_addresses: Vec<IpAddr>,
    last_seq: u64,
}

impl State {
    pub(crate) fn new(host: &Host, ports: Ports) -> Self {
        let host_addresses =
            host.adapters.iter().flat_map(|adapter| &adapter.addresses).map(ipnet::IpNet::addr).collect();
        Self {
            networks: Table::default(),
            endpoints: Table::default(),
            namespaces: Table::default(),
            balancers: Table::default(),
            routes: Table::default(),
            frontends: FxHashMap::default(),
            ports,
            network_names: IdMap::default(),
            endpoint_names: FxHashMap::default(),
            endpoints_on: FxHashMap::default(),
            at: IdMap::default(),
            pools: FxHashMap::default(),
            balancers_of: IdMap::default(),
            balancers_on: IdMap::default(),
            routes_of: IdMap::default(),
            host_addresses,
            last_seq: 0,
        }
    }

    /// A sequence number after all others.
    pub(crate) fn next_seq(&mut self) -> u64 {
        self.last_seq = (self.last_seq / SEQ_STEP + 1) * SEQ_STEP;
        self.last_seq
    }

    pub(crate) fn get(&self, kind: Kind, id: Guid) -> Option<Object> {
        Some(match kind {
            Kind::Network => Object::Network(Arc::clone(self.networks.get(id)?)),
            Kind::Endpoint => Object::Endpoint(Arc::clone(self.endpoints.get(id)?)),
            Kind::Namespace => Object::Namespace(Arc::clone(self.namespaces.get(id)?)),
            Kind::LoadBalancer => Object::Balancer(Arc::clone(self.balancers.get(id)?)),
            Kind::SdnRoute => Object::Route(Arc::clone(self.routes.get(id)?)),
        })
    }

    pub(crate) fn contains(&self, kind: Kind, id: Guid) -> bool {
        match kind {
            Kind::Network => self.networks.contains(id),
            Kind::Endpoint => self.endpoints.contains(id),
            Kind::Namespace => self.namespaces.contains(id),
            Kind::LoadBalancer => self.balancers.contains(id),
            Kind::SdnRoute => self.routes.contains(id),
        }
    }

    /// Every object, in an order in which they can be put.
    pub(crate) fn objects(&self) -> impl Iterator<Item = Object> {
        let networks = self.networks.iter().map(|record| Object::Network(Arc::clone(record)));
        let endpoints = self.endpoints.iter().map(|record| Object::Endpoint(Arc::clone(record)));
        let namespaces = self.namespaces.iter().map(|record| Object::Namespace(Arc::clone(record)));
        let balancers = self.balancers.iter().map(|record| Object::Balancer(Arc::clone(record)));
        let routes = self.routes.iter().map(|record| Object::Route(Arc::clone(record)));
        networks.chain(endpoints).chain(namespaces).chain(balancers).chain(routes)
    }

    /// The ids of a kind.
    pub(crate) fn ids(&self, kind: Kind, order: ListOrder) -> Vec<Guid> {
        match kind {
            Kind::Network => self.networks.ids(order),
            Kind::Endpoint => self.endpoints.ids(order),
            Kind::Namespace => self.namespaces.ids(order),
            Kind::LoadBalancer => self.balancers.ids(order),
            Kind::SdnRoute => self.routes.ids(order),
        }
    }

    /// Puts an object, new or in place of the one with its id; returns the latter.
    pub(crate) fn put(&mut self, object: Object) -> Option<Object> {
        let (id, seq) = (object.id(), object.seq());
        self.last_seq = self.last_seq.max(seq);
        match object {
            Object::Network(new) => {
                let old = self.networks.insert(id, seq, Arc::clone(&new));
                self.index_network(id, old.as_deref(), Some(&new));
                old.map(Object::Network)
            }
            Object::Endpoint(new) => {
                let old = self.endpoints.insert(id, seq, Arc::clone(&new));
                if let Some(old) = &old {
                    self.drop_endpoint(id, old);
                }
                self.index_endpoint(id, &new);
                old.map(Object::Endpoint)
            }
            Object::Namespace(new) => self.namespaces.insert(id, seq, new).map(Object::Namespace),
            Object::Balancer(new) => {
                let old = self.balancers.insert(id, seq, Arc::clone(&new));
                if let Some(old) = &old {
                    self.drop_balancer(id, old);
                }
                self.index_balancer(id, &new);
                old.map(Object::Balancer)
            }
            Object::Route(new) => {
                let old = self.routes.insert(id, seq, Arc::clone(&new));
                if let Some(old) = &old {
                    self.drop_route(id, old);
                }
                for &endpoint in &new.doc.endpoints {
                    self.routes_of.insert(endpoint, id);
                }
                old.map(Object::Route)
            }
        }
    }

    /// Takes an object out.
    pub(crate) fn take(&mut self, kind: Kind, id: Guid) -> Option<Object> {
        Some(match kind {
            Kind::Network => {
                let old = self.networks.remove(id, |record| record.seq)?;
                self.index_network(id, Some(&old), None);
                Object::Network(old)
            }
            Kind::Endpoint => {
                let old = self.endpoints.remove(id, |record| record.seq)?;
                self.drop_endpoint(id, &old);
                Object::Endpoint(old)
            }
            Kind::Namespace => Object::Namespace(self.namespaces.remove(id, |record| record.seq)?),
            Kind::LoadBalancer => {
                let old = self.balancers.remove(id, |record| record.seq)?;
                self.drop_balancer(id, &old);
                Object::Balancer(old)
            }
            Kind::SdnRoute => {
                let old = self.routes.remove(id, |record| record.seq)?;
                self.drop_route(id, &old);
                Object::Route(old)
            }
        })
    }

    fn index_network(&mut self, id: Guid, old: Option<&NetworkRecord>, new: Option<&NetworkRecord>) {
        if let Some(name) = old.and_then(|old| old.doc.name.as_ref()) {
            self.network_names.remove(name, id);
        }
        if let Some(name) = new.and_then(|new| new.doc.name.as_ref()) {
            self.network_names.insert(name.clone(), id);
        }
        let Some(new) = new else {
            self.pools.remove(&id);
            return;
        };
        let same = old.is_some_and(|old| {
            old.doc.ipams == new.doc.ipams
                && old.doc.mac_pool == new.doc.mac_pool
                && self.pools.contains_key(&id)
        });
        if !same {
            let mut pools = Pools {
                addresses: AddressPools::of(&new.doc, &self.host_addresses),
                macs: MacPools::of(new.doc.mac_pool.as_ref()),
            };
            for endpoint in self.endpoints_of(id) {
                endpoint.addresses.iter().for_each(|&address| pools.addresses.take(address));
                if let Some(mac) = endpoint.mac {
                    pools.macs.take(mac);
                }
            }
            self.pools.insert(id, pools);
        }
    }

    fn index_endpoint(&mut self, id: Guid, new: &EndpointRecord) {
        if let Some(name) = &new.doc.name {
            match self.endpoint_names.get_mut(name) {
                Some(ids) => ids.insert(new.seq, id),
                None => self.endpoint_names.entry(name.clone()).or_default().insert(new.seq, id),
            };
        }
        self.endpoints_on.entry(new.network).or_default().insert(new.seq, id);
        let mut pools = self.pools.get_mut(&new.network);
        for &address in &new.addresses {
            self.at.insert((new.network, address), id);
            if let Some(pools) = &mut pools {
                pools.addresses.take(address);
            }
        }
        if let (Some(pools), Some(mac)) = (pools, new.mac) {
            pools.macs.take(mac);
        }
        let holder = Holder::Endpoint(id);
        new.ports.iter().for_each(|&port| self.ports.claim(port, holder));
        new.blocks.iter().for_each(|&block| self.ports.claim_block(block, holder));
    }

    fn drop_endpoint(&mut self, id: Guid, old: &EndpointRecord) {
        if let Some(name) = &old.doc.name
            && let Some(ids) = self.endpoint_names.get_mut(name)
        {
            ids.remove(&old.seq);
            if ids.is_empty() {
                self.endpoint_names.remove(name);
            }
        }
        if let Some(ids) = self.endpoints_on.get_mut(&old.network) {
            ids.remove(&old.seq);
            if ids.is_empty() {
                self.endpoints_on.remove(&old.network);
            }
        }
        let mut pools = self.pools.get_mut(&old.network);
        for &address in &old.addresses {
            let key = (old.network, address);
            self.at.remove(&key, id);
            if let Some(pools) = &mut pools
                && !self.at.contains_key(&key)
            {
                pools.addresses.give_back(address);
            }
        }
        if let (Some(pools), Some(mac)) = (pools, old.mac) {
            pools.macs.give_back(mac);
        }
        let holder = Holder::Endpoint(id);
        old.ports.iter().for_each(|&port| self.ports.release(port, holder));
        old.blocks.iter().for_each(|&block| self.ports.release_block(block, holder));
    }

    fn index_balancer(&mut self, id: Guid, new: &BalancerRecord) {
        for &endpoint in &new.doc.endpoints {
            self.balancers_of.insert(endpoint, id);
        }
        if let Some(network) = new.network {
            self.balancers_on.insert(network, id);
        }
        for &frontend in &new.frontends {
            self.frontends.insert(frontend, id);
        }
        let holder = Holder::LoadBalancer(id);
        new.ports.iter().for_each(|&port| self.ports.claim(port, holder));
        new.blocks.iter().for_each(|&block| self.ports.claim_block(block, holder));
    }

    fn drop_balancer(&mut self, id: Guid, old: &BalancerRecord) {
        for endpoint in &old.doc.endpoints {
            self.balancers_of.remove(endpoint, id);
        }
        if let Some(network) = old.network {
            self.balancers_on.remove(&network, id);
        }
        for frontend in &old.frontends {
            if self.frontends.get(frontend) == Some(&id) {
                self.frontends.remove(frontend);
            }
        }
        let holder = Holder::LoadBalancer(id);
        old.ports.iter().for_each(|&port| self.ports.release(port, holder));
        old.blocks.iter().for_each(|&block| self.ports.release_block(block, holder));
    }

    fn drop_route(&mut self, id: Guid, old: &RouteRecord) {
        for endpoint in &old.doc.endpoints {
            self.routes_of.remove(endpoint, id);
        }
    }

    /// Networks with exactly this name.
    pub(crate) fn networks_named(&self, name: &str) -> Vec<Guid> {
        self.network_names.get(&name.to_owned()).collect()
    }

    /// Endpoints with exactly this name.
    pub(crate) fn endpoints_named(&self, name: &str, order: ListOrder) -> Vec<Guid> {
        self.endpoint_names.get(name).map(|ids| in_order(ids, order)).unwrap_or_default()
    }

    /// Ids of the endpoints on a network.
    pub(crate) fn endpoint_ids_on(&self, network: Guid, order: ListOrder) -> Vec<Guid> {
        self.endpoints_on.get(&network).map(|ids| in_order(ids, order)).unwrap_or_default()
    }

    /// How many endpoints are on a network.
    pub(crate) fn endpoint_count(&self, network: Guid) -> usize {
        self.endpoints_on.get(&network).map_or(0, BTreeMap::len)
    }

    /// The endpoints on a network, first created first.
    pub(crate) fn endpoints_of(&self, network: Guid) -> impl Iterator<Item = &Arc<EndpointRecord>> {
        let ids = self.endpoints_on.get(&network).into_iter().flat_map(BTreeMap::values);
        ids.filter_map(|&id| self.endpoints.get(id))
    }

    /// The endpoints of a network that have an address.
    pub(crate) fn endpoints_at(
        &self,
        network: Guid,
        address: IpAddr,
    ) -> impl Iterator<Item = &Arc<EndpointRecord>> {
        self.at.get(&(network, address)).filter_map(|id| self.endpoints.get(id))
    }

    /// The load balancers that name an endpoint.
    pub(crate) fn balancers_of(&self, endpoint: Guid) -> Vec<Guid> {
        self.balancers_of.get(&endpoint).collect()
    }

    /// The load balancers that lie on a network.
    pub(crate) fn balancers_on(&self, network: Guid) -> Vec<Guid> {
        self.balancers_on.get(&network).collect()
    }

    /// The SDN routes that name an endpoint.
    pub(crate) fn routes_of(&self, endpoint: Guid) -> Vec<Guid> {
        self.routes_of.get(&endpoint).collect()
    }

    /// What a network gives out.
    pub(crate) fn pools(&self, network: Guid) -> Option<&Pools> {
        self.pools.get(&network)
    }

    /// The mode of a network, if it is there.
    pub(crate) fn mode(&self, network: Guid) -> Option<NetworkMode> {
        self.networks.get(network).map(|record| record.doc.network_mode())
    }
}
