//! The decisions of a node's start, which start scripts make elsewhere: which HNS network, when to go on, and where
//! the source VIP is looked for.
//!
//! They are pure, and the waiting takes an HNS and a clock from outside. Nothing here must know of Services, of
//! manifests or of how a state is shown; the source VIP itself is found or made by `proxy::engine::source_vip`,
//! where it is also kept right later.

mod network;
mod wait;

pub use network::{NetworkPattern, PatternError, Resolution};
pub use wait::{State, await_network, look};

use proxy::Config;

/// Lets the proxy's settings name the network that was found, and, where a pattern has found it, the endpoint that
/// Calico makes beside each of its networks (`NAME_ep`), whose address is the source VIP on overlays.
pub fn settle(config: &mut Config, pattern: &NetworkPattern, network: &str) {
    network.clone_into(&mut config.network_name);
    if pattern.is_exact() {
        return;
    }
    let endpoint = format!("{network}_ep");
    if !config.source_vip_endpoints.iter().any(|name| name.eq_ignore_ascii_case(&endpoint)) {
        // Names that were given come first.
        config.source_vip_endpoints.push(endpoint);
    }
}

#[cfg(test)]
mod tests;
