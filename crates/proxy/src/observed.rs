//! What HNS holds, as last read: endpoints of the proxy's network and all load balancers of the host, indexed the
//! way reconciliation asks. Nothing is decided here. Objects whose state is unknown because a write failed are
//! marked and must be read again before anything is done to them.

use std::net::IpAddr;

use hcn::loadbalancer::{Distribution, Frontend, LoadBalancerFlags, PortMappingFlags, protocol};
use hcn::{Guid, LoadBalancer};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// Who made an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointOwner {
    /// This proxy, now or in an earlier run: the id is derived from the address.
    Ours,
    /// An earlier kube-proxy: remote, nameless, with the MAC only kube-proxy gives.
    KubeProxy,
    /// Somebody else: a CNI plugin, another agent, a person.
    Foreign,
}

/// An endpoint, cut down to what matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedEndpoint {
    /// Its addresses.
    pub addresses: SmallVec<[IpAddr; 2]>,
    /// It stands for an address on another node (or for a VIP).
    pub remote: bool,
    /// Who made it.
    pub owner: EndpointOwner,
    /// Its provider address.
    pub provider_address: Option<IpAddr>,
    /// Its MAC in dash form, upper case; empty when unknown.
    pub mac: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// The namespace it is in.
    pub namespace: Option<Guid>,
}

impl ObservedEndpoint {
    /// A local endpoint that is in no namespace: of a pod that is being set up or has gone, or the host's own.
    fn lacks_namespace(&self) -> bool {
        !self.remote && self.namespace.is_none()
    }
}

/// A load balancer, cut down to what is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedBalancer {
    /// The frontends it holds; one for every load balancer that a service proxy makes.
    pub frontends: SmallVec<[Frontend; 1]>,
    /// The backends' port.
    pub internal_port: u16,
    /// Backend choice.
    pub distribution: Distribution,
    /// Flags of the port mapping.
    pub mapping_flags: PortMappingFlags,
    /// Flags.
    pub flags: LoadBalancerFlags,
    /// Source translation; `None` when the document gives none.
    pub source_vip: Option<IpAddr>,
    /// Backends, sorted.
    pub backends: Box<[Guid]>,
    /// The document's `Owner`.
    pub owner: Option<Box<str>>,
    /// It has several mappings or none, or a VIP that is no address: nothing that this proxy or kube-proxy makes.
    pub odd: bool,
    /// HNS holds it and no longer acts on it: its network is gone.
    pub degraded: bool,
}

/// The `State` of such a load balancer.
const DEGRADED: u32 = 4;

impl ObservedBalancer {
    /// Whether two readings agree in all that HNS acts on. A build may not hand the owner back.
    pub fn same_as(&self, other: &Self) -> bool {
        let owner = other.owner.clone();
        Self { owner, ..self.clone() } == *other
    }

    /// The pools of dynamic ports that it has a block of: none with direct server return.
    fn pools(&self) -> SmallVec<[Pool; 1]> {
        let mut pools = SmallVec::new();
        if !self.flags.contains(LoadBalancerFlags::DSR) {
            // Only TCP and UDP have dynamic ports.
            let of_ports = |frontend: &&Frontend| matches!(frontend.protocol, protocol::TCP | protocol::UDP);
            let pool = |frontend: &Frontend| (frontend.protocol, frontend.ipv6);
            pools.extend(self.frontends.iter().filter(of_ports).map(pool));
            pools.sort_unstable();
            pools.dedup();
        }
        pools
    }

    /// Cuts a document down.
    pub fn of(document: &LoadBalancer) -> Self {
        let frontends: SmallVec<[Frontend; 1]> = document.frontends().into();
        let mapping = document.port_mappings.first();
        let mut backends = document.endpoints.clone();
        backends.sort_unstable();
        Self {
            odd: frontends.len() != 1 || document.port_mappings.len() != 1,
            frontends,
            internal_port: mapping.map_or(0, |mapping| mapping.internal_port),
            distribution: mapping
                .and_then(|mapping| mapping.distribution.clone())
                .unwrap_or(Distribution::None),
            mapping_flags: mapping.map_or_else(PortMappingFlags::empty, |mapping| mapping.flags),
            flags: document.flags,
            source_vip: document.source_vip.parse().ok(),
            backends: backends.into(),
            owner: document.owner.as_deref().map(Into::into),
            degraded: document.extra.read::<u32>("State") == Some(DEGRADED),
        }
    }
}

type Ids = SmallVec<[Guid; 1]>;

/// A pool of dynamic ports of the host: IP protocol number, and whether it is IPv6's.
pub type Pool = (u32, bool);

/// Everything read so far.
#[derive(Debug, Default)]
pub struct Observed {
    endpoints: FxHashMap<Guid, ObservedEndpoint>,
    by_address: FxHashMap<IpAddr, Ids>,
    balancers: FxHashMap<Guid, ObservedBalancer>,
    by_frontend: FxHashMap<Frontend, Ids>,
    references: FxHashMap<Guid, u32>,
    /// Load balancers without direct server return, by pool of dynamic ports.
    without_dsr: FxHashMap<Pool, u32>,
    /// How many frontends have the address as their VIP.
    vips: FxHashMap<IpAddr, u32>,
    /// Ids whose state is unknown.
    uncertain: FxHashSet<Guid>,
    /// Load balancers that may be there after a write that failed, and the backends they may refer to.
    suspects: FxHashMap<Guid, Box<[Guid]>>,
    /// Local endpoints that are in no namespace and that HNS refused as backends: they have no switch port.
    portless: FxHashSet<Guid>,
}

impl Observed {
    /// Puts an endpoint in, replacing what was known under its id.
    pub fn put_endpoint(&mut self, id: Guid, endpoint: ObservedEndpoint) {
        let still_portless = self.portless.contains(&id) && endpoint.lacks_namespace();
        self.remove_endpoint(id);
        if still_portless {
            self.portless.insert(id);
        }
        for &address in &endpoint.addresses {
            self.by_address.entry(address).or_default().push(id);
        }
        self.endpoints.insert(id, endpoint);
        self.uncertain.remove(&id);
    }

    /// Forgets an endpoint that is known to be gone.
    pub fn remove_endpoint(&mut self, id: Guid) -> Option<ObservedEndpoint> {
        self.uncertain.remove(&id);
        self.portless.remove(&id);
        let old = self.endpoints.remove(&id)?;
        for address in &old.addresses {
            if let Some(ids) = self.by_address.get_mut(address) {
                ids.retain(|other| *other != id);
                if ids.is_empty() {
                    self.by_address.remove(address);
                }
            }
        }
        Some(old)
    }

    /// Puts a load balancer in, replacing what was known under its id.
    pub fn put_balancer(&mut self, id: Guid, balancer: ObservedBalancer) {
        self.remove_balancer(id);
        self.clear_suspicion(id);
        for &frontend in &balancer.frontends {
            self.by_frontend.entry(frontend).or_default().push(id);
            if let Some(vip) = frontend.vip {
                *self.vips.entry(vip).or_default() += 1;
            }
        }
        for &backend in &balancer.backends {
            *self.references.entry(backend).or_default() += 1;
        }
        for pool in balancer.pools() {
            *self.without_dsr.entry(pool).or_default() += 1;
        }
        self.balancers.insert(id, balancer);
        self.uncertain.remove(&id);
    }

    /// Forgets a load balancer that is known to be gone.
    pub fn remove_balancer(&mut self, id: Guid) -> Option<ObservedBalancer> {
        self.uncertain.remove(&id);
        let old = self.balancers.remove(&id)?;
        for pool in old.pools() {
            release(&mut self.without_dsr, pool);
        }
        for frontend in &old.frontends {
            if let Some(ids) = self.by_frontend.get_mut(frontend) {
                ids.retain(|other| *other != id);
                if ids.is_empty() {
                    self.by_frontend.remove(frontend);
                }
            }
            if let Some(vip) = frontend.vip {
                release(&mut self.vips, vip);
            }
        }
        for backend in &old.backends {
            release(&mut self.references, *backend);
        }
        Some(old)
    }

    /// The endpoint with this id.
    pub fn endpoint(&self, id: Guid) -> Option<&ObservedEndpoint> {
        self.endpoints.get(&id)
    }

    /// All endpoints.
    pub fn endpoints(&self) -> impl Iterator<Item = (Guid, &ObservedEndpoint)> {
        self.endpoints.iter().map(|(&id, endpoint)| (id, endpoint))
    }

    /// How many endpoints there are.
    pub fn endpoint_count(&self) -> usize {
        self.endpoints.len()
    }

    /// All endpoints with an address.
    pub fn endpoints_at(&self, address: IpAddr) -> &[Guid] {
        self.by_address.get(&address).map_or(&[], |ids| ids)
    }

    /// The endpoint that stands for an address: a local one before a remote one whatever the order they were listed
    /// in, then ours, then the lowest id. One without a switch port comes last.
    pub fn resolve(&self, address: IpAddr) -> Option<Guid> {
        match self.endpoints_at(address) {
            [] => None,
            [only] => Some(*only),
            several => several.iter().copied().min_by_key(|id| {
                let rank =
                    self.endpoints.get(id).map_or(3, |endpoint| match (endpoint.remote, endpoint.owner) {
                        _ if self.is_portless(*id) => 4,
                        (false, _) => 0,
                        (true, EndpointOwner::Ours) => 1,
                        (true, _) => 2,
                    });
                (rank, *id)
            }),
        }
    }

    /// Notes that HNS refused an endpoint as a backend because it has no switch port. False: that is not new, or
    /// cannot be, because the endpoint is remote or in a namespace.
    pub fn note_portless(&mut self, id: Guid) -> bool {
        self.endpoints.get(&id).is_some_and(ObservedEndpoint::lacks_namespace) && self.portless.insert(id)
    }

    /// Whether HNS has refused the endpoint as a backend and it is still in no namespace.
    pub fn is_portless(&self, id: Guid) -> bool {
        self.portless.contains(&id)
    }

    /// The load balancer with this id.
    pub fn balancer(&self, id: Guid) -> Option<&ObservedBalancer> {
        self.balancers.get(&id)
    }

    /// All load balancers.
    pub fn balancers(&self) -> impl Iterator<Item = (Guid, &ObservedBalancer)> {
        self.balancers.iter().map(|(&id, balancer)| (id, balancer))
    }

    /// How many load balancers without direct server return draw on a pool of dynamic ports.
    pub fn without_dsr(&self, pool: Pool) -> u32 {
        self.without_dsr.get(&pool).copied().unwrap_or(0)
    }

    /// Every pool of dynamic ports that load balancers draw on, with their number.
    pub fn pools(&self) -> impl Iterator<Item = (Pool, u32)> {
        self.without_dsr.iter().map(|(&pool, &taken)| (pool, taken))
    }

    /// How many load balancers there are.
    pub fn balancer_count(&self) -> usize {
        self.balancers.len()
    }

    /// The load balancers that hold a frontend.
    pub fn balancers_at(&self, frontend: Frontend) -> &[Guid] {
        self.by_frontend.get(&frontend).map_or(&[], |ids| ids)
    }

    /// Whether a load balancer refers to the endpoint.
    pub fn is_referenced(&self, endpoint: Guid) -> bool {
        self.references.contains_key(&endpoint)
    }

    /// Whether a load balancer has the address as a VIP.
    pub fn is_vip(&self, address: IpAddr) -> bool {
        self.vips.contains_key(&address)
    }

    /// The frontends of the load balancers that refer to an endpoint. Walks all load balancers: for rare events.
    pub fn frontends_of_endpoint(&self, endpoint: Guid) -> Vec<Frontend> {
        if !self.is_referenced(endpoint) {
            return Vec::new();
        }
        self.balancers
            .values()
            .filter(|balancer| balancer.backends.binary_search(&endpoint).is_ok())
            .flat_map(|balancer| balancer.frontends.iter().copied())
            .collect()
    }

    /// Marks an id as unknown: a write to it failed, so it may or may not have had its effect.
    pub fn doubt(&mut self, id: Guid) {
        self.uncertain.insert(id);
    }

    /// Whether an id must be read before anything is done to it.
    pub fn is_doubted(&self, id: Guid) -> bool {
        self.uncertain.contains(&id)
    }

    /// The ids that must be read.
    pub fn doubted(&self) -> Vec<Guid> {
        let mut ids: Vec<Guid> = self.uncertain.iter().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// The id has been read and is not there, or needs no reading any more.
    pub fn settle(&mut self, id: Guid) {
        self.uncertain.remove(&id);
        self.clear_suspicion(id);
    }

    /// Marks a load balancer as unknown, and the backends that it may refer to as referenced until it is known.
    pub fn doubt_balancer(&mut self, id: Guid, backends: impl IntoIterator<Item = Guid>) {
        let backends: Box<[Guid]> = backends.into_iter().collect();
        for &backend in &backends {
            *self.references.entry(backend).or_default() += 1;
        }
        self.clear_suspicion(id);
        self.suspects.insert(id, backends);
        self.uncertain.insert(id);
    }

    fn clear_suspicion(&mut self, id: Guid) {
        for backend in self.suspects.remove(&id).unwrap_or_default() {
            release(&mut self.references, backend);
        }
    }
}

/// Takes one from a count that is not kept at zero.
fn release<K: Eq + std::hash::Hash>(counts: &mut FxHashMap<K, u32>, key: K) {
    if let std::collections::hash_map::Entry::Occupied(mut count) = counts.entry(key) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(remote: bool, owner: EndpointOwner) -> ObservedEndpoint {
        ObservedEndpoint {
            addresses: ["10.50.0.9".parse().unwrap()].into_iter().collect(),
            remote,
            owner,
            provider_address: None,
            mac: "".into(),
            name: "".into(),
            namespace: None,
        }
    }

    /// kubernetes/kubernetes#130963, #138000: whichever is listed last must not decide.
    #[test]
    fn a_local_endpoint_stands_for_its_address_in_any_order() {
        let address = "10.50.0.9".parse().unwrap();
        let all = [
            (Guid::from_u128(9), endpoint(false, EndpointOwner::Foreign)),
            (Guid::from_u128(1), endpoint(true, EndpointOwner::Ours)),
            (Guid::from_u128(2), endpoint(true, EndpointOwner::KubeProxy)),
        ];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut observed = Observed::default();
            for at in order {
                let (id, endpoint) = &all[at];
                observed.put_endpoint(*id, endpoint.clone());
            }
            assert_eq!(observed.resolve(address), Some(Guid::from_u128(9)), "{order:?}");
            observed.remove_endpoint(Guid::from_u128(9));
            assert_eq!(observed.resolve(address), Some(Guid::from_u128(1)), "{order:?}");
            observed.remove_endpoint(Guid::from_u128(1));
            observed.remove_endpoint(Guid::from_u128(2));
            assert_eq!(observed.resolve(address), None);
        }
    }

    #[test]
    fn an_endpoint_without_a_switch_port_comes_last_until_it_is_in_a_namespace() {
        let address = "10.50.0.9".parse().unwrap();
        let (local, remote) = (Guid::from_u128(1), Guid::from_u128(2));
        let mut observed = Observed::default();
        observed.put_endpoint(local, endpoint(false, EndpointOwner::Foreign));
        observed.put_endpoint(remote, endpoint(true, EndpointOwner::Ours));
        assert_eq!((observed.note_portless(local), observed.note_portless(local)), (true, false));
        assert!(!observed.note_portless(remote), "a remote endpoint needs no port");
        assert_eq!(observed.resolve(address), Some(remote));
        observed.put_endpoint(local, endpoint(false, EndpointOwner::Foreign));
        assert_eq!(observed.resolve(address), Some(remote), "read again, it is still in no namespace");
        let attached = ObservedEndpoint {
            namespace: Some(Guid::from_u128(7)),
            ..endpoint(false, EndpointOwner::Foreign)
        };
        observed.put_endpoint(local, attached);
        assert_eq!(observed.resolve(address), Some(local));
        assert!(!observed.note_portless(local), "what is in a namespace has a port");
    }

    #[test]
    fn indexes_follow_a_replaced_balancer() {
        let frontend = |port| Frontend { ipv6: false, vip: None, protocol: 6, port };
        let balancer = |port, backend| ObservedBalancer {
            frontends: [frontend(port)].into_iter().collect(),
            internal_port: 80,
            distribution: Distribution::None,
            mapping_flags: PortMappingFlags::empty(),
            flags: LoadBalancerFlags::empty(),
            source_vip: None,
            backends: vec![backend].into(),
            owner: None,
            odd: false,
            degraded: false,
        };
        let (a, b) = (Guid::from_u128(1), Guid::from_u128(2));
        let mut observed = Observed::default();
        observed.put_balancer(a, balancer(80, b));
        observed.put_balancer(a, balancer(81, a));
        observed.put_balancer(b, ObservedBalancer { flags: LoadBalancerFlags::DSR, ..balancer(82, a) });
        assert_eq!(observed.without_dsr((protocol::TCP, false)), 1, "direct server return takes no ports");
        assert_eq!(observed.pools().collect::<Vec<_>>(), [((protocol::TCP, false), 1)]);
        observed.remove_balancer(b);
        assert_eq!(observed.balancers_at(frontend(80)), &[] as &[Guid]);
        assert_eq!(observed.balancers_at(frontend(81)), &[a]);
        assert!(!observed.is_referenced(b));
        assert!(observed.is_referenced(a));
        observed.remove_balancer(a);
        assert!(!observed.is_referenced(a));
        assert_eq!(observed.pools().count(), 0);
        assert_eq!(observed.balancer_count(), 0);
    }
}
