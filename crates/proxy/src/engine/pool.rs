//! The host's dynamic ports: each load balancer without direct server return takes a block of 64 of them, per
//! protocol and family, for as long as it lives. When the blocks are spent, HNS refuses further load balancers, and
//! no process of the node gets a port any more. So the end is told before it comes, and where the size of the range
//! is known, the last blocks are kept for DNS and the API server. Which load balancers there are is read, not kept.

use hcn::Feature;
use hcn::loadbalancer::{Frontend, LoadBalancerFlags, protocol};

use super::Proxy;
use crate::observed::Pool;
use crate::plan::WantedBalancer;
use crate::status::{ConditionReason, ProxyCondition};

/// Ports in a block.
pub(super) const BLOCK: u32 = 64;

/// The range of Windows unless somebody has changed it: 49152 to 65535.
pub(super) const WINDOWS_DEFAULT: u32 = 16_384;

/// Blocks of each pool that only DNS and the API server may take, where the size of the range is known.
const KEPT: u32 = 8;

fn pool(frontend: &Frontend) -> Pool {
    (frontend.protocol, frontend.ipv6)
}

fn pool_name((number, ipv6): Pool) -> String {
    format!("{} {}", if ipv6 { "IPv6" } else { "IPv4" }, protocol::Protocol(number))
}

impl Proxy {
    /// Why a load balancer that is not there yet has to wait for a block of ports.
    /// `creating`: those that will take one in a moment.
    pub(super) fn waits_for_ports(
        &self,
        wanted: &WantedBalancer,
        importance: u8,
        creating: &[Frontend],
    ) -> Option<String> {
        let total = self.config.dynamic_ports? / BLOCK;
        let free_of_charge = wanted.flags.contains(LoadBalancerFlags::DSR)
            || importance < 2
            || !self.observed.balancers_at(wanted.frontend).is_empty();
        let pool_of = pool(&wanted.frontend);
        let soon = creating.iter().filter(|&frontend| pool(frontend) == pool_of).count();
        let taken = self.observed.without_dsr(pool_of) + u32::try_from(soon).unwrap_or(u32::MAX);
        (!free_of_charge && taken.saturating_add(KEPT.min(total / 4)) >= total).then(|| {
            format!(
                "load balancers take {taken} of {total} blocks of 64 dynamic ports; the rest is kept for DNS and the API server"
            )
        })
    }

    /// Says when a pool is nine tenths spent.
    pub(super) fn note_port_pool(&mut self) {
        let total = self.config.dynamic_ports.unwrap_or(WINDOWS_DEFAULT) / BLOCK;
        let mut low: Vec<(Pool, u32)> =
            self.observed.pools().filter(|&(_, taken)| taken * 10 >= total * 9).collect();
        if low.is_empty() {
            self.clear_condition(ConditionReason::PortPoolLow);
            return;
        }
        low.sort_unstable();
        let pools: Vec<String> = low
            .into_iter()
            .map(|(pool, taken)| format!("{taken} of {total} blocks of 64 {} ports", pool_name(pool)))
            .collect();
        let remedy = if self.config.enable_dsr || !self.features.supports(Feature::Dsr) {
            "widen the dynamic port range"
        } else {
            "turn --enable-dsr on or widen the dynamic port range"
        };
        self.set_condition(ProxyCondition::new(
            ConditionReason::PortPoolLow,
            format!(
                "load balancers without direct server return take {} from the dynamic range; {remedy}",
                pools.join(" and ")
            ),
        ));
    }
}
