//! How many objects of which sort HNS was last read to hold, and how much of the host's dynamic ports they take. For those who
//! look; nothing is decided by it.

use std::collections::BTreeMap;

use hcn::loadbalancer::protocol::Protocol;
use serde::Serialize;
use services::IpFamily;

use super::pool::{BLOCK, WINDOWS_DEFAULT};
use super::{OWNER, Proxy};
use crate::observed::EndpointOwner;

/// Blocks of dynamic ports that load balancers of one family and protocol take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PoolUse {
    /// The family.
    pub family: IpFamily,
    /// The protocol, as text.
    pub protocol: String,
    /// Blocks of 64 ports that are taken.
    pub taken: u32,
}

/// A count of what HNS holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Census {
    /// Load balancers by state: `ours`, `foreign`, `degraded` (whoever made them) and `unknown` (a write failed and they were
    /// not read since).
    pub balancers: BTreeMap<&'static str, usize>,
    /// Endpoints of the network: `local`, `remote-ours`, `remote-kube-proxy`, `remote-foreign`.
    pub endpoints: BTreeMap<&'static str, usize>,
    /// What of the dynamic ports is taken.
    pub pools: Vec<PoolUse>,
    /// The blocks that each pool has; assumed to be Windows' default where it was not told.
    pub pool_size: u32,
}

impl Proxy {
    /// Counts.
    pub fn census(&self) -> Census {
        let mut balancers = BTreeMap::from([("ours", 0), ("foreign", 0), ("degraded", 0), ("unknown", 0)]);
        for (id, balancer) in self.observed.balancers() {
            let state = if self.observed.is_doubted(id) {
                "unknown"
            } else if balancer.degraded {
                "degraded"
            } else if self.mine.contains(&id) || balancer.owner.as_deref() == Some(OWNER) {
                "ours"
            } else {
                "foreign"
            };
            *balancers.entry(state).or_default() += 1;
        }
        let mut endpoints = BTreeMap::from([
            ("local", 0),
            ("remote-ours", 0),
            ("remote-kube-proxy", 0),
            ("remote-foreign", 0),
        ]);
        for (_, endpoint) in self.observed.endpoints() {
            let state = match (endpoint.remote, endpoint.owner) {
                (false, _) => "local",
                (true, EndpointOwner::Ours) => "remote-ours",
                (true, EndpointOwner::KubeProxy) => "remote-kube-proxy",
                (true, EndpointOwner::Foreign) => "remote-foreign",
            };
            *endpoints.entry(state).or_default() += 1;
        }
        let mut pools: Vec<_> = self.observed.pools().collect();
        pools.sort_unstable();
        let pools = pools
            .into_iter()
            .map(|((number, ipv6), taken)| PoolUse {
                family: if ipv6 { IpFamily::V6 } else { IpFamily::V4 },
                protocol: Protocol(number).to_string(),
                taken,
            })
            .collect();
        let pool_size = self.config.dynamic_ports.unwrap_or(WINDOWS_DEFAULT) / BLOCK;
        Census { balancers, endpoints, pools, pool_size }
    }
}
