//! Ids of what a proxy makes: derived from the network's id and what the object is for, so that a later run, or who cleans up, finds
//! them again, also where HNS tells no owner.

use std::net::IpAddr;

use hcn::Guid;
use hcn::loadbalancer::Frontend;

use super::endpoints::{EndpointRole, SOURCE_VIP_KEY};
use crate::status::frontend_key;

/// Whether a proxy would give this id to a load balancer of one of these frontends on a network.
pub fn is_derived_balancer(network: Guid, id: Guid, frontends: &[Frontend]) -> bool {
    frontends.iter().any(|frontend| network.derive(&frontend_key(frontend)) == id)
}

/// Whether a proxy would give this id to an endpoint with one of these addresses on a network, or to its source VIP's.
pub fn is_derived_endpoint(network: Guid, id: Guid, addresses: &[IpAddr]) -> bool {
    id == network.derive(SOURCE_VIP_KEY)
        || addresses.iter().any(|&address| {
            id == network.derive(&EndpointRole::Remote.key(address))
                || id == network.derive(&EndpointRole::Vip.key(address))
        })
}
