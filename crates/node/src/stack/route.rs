//! Routes: which interface and which next hop lead to an address. Knows nothing of packets.

use std::net::IpAddr;

use ipnet::IpNet;

/// One route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destinations.
    pub destination: IpNet,
    /// The router; none: the destinations are on the link.
    pub via: Option<IpAddr>,
    /// The interface, by its number in the stack.
    pub interface: usize,
    /// The lower one wins among routes to the same prefix.
    pub metric: u32,
}

impl Route {
    /// The route to everything of the router's family.
    pub fn default_by(router: IpAddr, interface: usize) -> Self {
        let all = match router {
            IpAddr::V4(_) => IpNet::V4(ipnet::Ipv4Net::default()),
            IpAddr::V6(_) => IpNet::V6(ipnet::Ipv6Net::default()),
        };
        Self { destination: all, via: Some(router), interface, metric: 0 }
    }
}

/// Where a packet goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The interface.
    pub interface: usize,
    /// The station on its link.
    pub address: IpAddr,
}

/// A routing table: the longest prefix wins, then the lowest metric, then the older route.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    /// In the order in which they are tried.
    routes: Vec<Route>,
}

impl Routes {
    /// Adds a route; one with the same destination, router and interface is replaced.
    pub fn add(&mut self, mut route: Route) {
        route.destination = route.destination.trunc();
        self.routes.retain(|old| {
            (old.destination, old.via, old.interface) != (route.destination, route.via, route.interface)
        });
        let rank = |route: &Route| (std::cmp::Reverse(route.destination.prefix_len()), route.metric);
        let at = self.routes.partition_point(|old| rank(old) <= rank(&route));
        self.routes.insert(at, route);
    }

    /// Removes the routes to a prefix; the number that there were.
    pub fn remove(&mut self, destination: IpNet) -> usize {
        let before = self.routes.len();
        self.routes.retain(|route| route.destination != destination.trunc());
        before - self.routes.len()
    }

    /// The route to an address.
    pub fn lookup(&self, to: IpAddr) -> Option<&Route> {
        self.routes.iter().find(|route| route.destination.contains(&to))
    }

    /// The next hop to an address.
    pub fn hop(&self, to: IpAddr) -> Option<Hop> {
        let route = self.lookup(to)?;
        Some(Hop { interface: route.interface, address: route.via.unwrap_or(to) })
    }

    /// All routes, in the order in which they are tried.
    pub fn iter(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn route(destination: &str, interface: usize, metric: u32) -> Route {
        Route { destination: destination.parse().unwrap(), via: None, interface, metric }
    }

    #[test]
    fn the_longest_prefix_then_the_lowest_metric_wins() {
        let mut routes = Routes::default();
        routes.add(route("0.0.0.0/0", 1, 0));
        routes.add(route("10.0.0.0/8", 2, 5));
        routes.add(route("10.0.0.0/8", 3, 1));
        routes.add(route("10.1.0.0/16", 4, 9));
        let interface = |to: &str| routes.lookup(to.parse().unwrap()).map(|route| route.interface);
        assert_eq!(interface("10.1.2.3"), Some(4));
        assert_eq!(interface("10.2.2.3"), Some(3));
        assert_eq!(interface("192.0.2.1"), Some(1));
        assert_eq!(interface("2001:db8::1"), None);
    }

    #[test]
    fn a_route_is_replaced_and_removed() {
        let mut routes = Routes::default();
        routes.add(route("10.0.0.1/8", 2, 5));
        routes.add(route("10.0.0.0/8", 2, 7));
        assert_eq!(routes.iter().map(|route| route.metric).collect::<Vec<_>>(), [7]);
        assert_eq!(routes.remove("10.9.9.9/8".parse().unwrap()), 1);
        assert_eq!(routes.hop("10.0.0.1".parse().unwrap()), None);
    }

    proptest! {
        #[test]
        fn lookup_is_the_best_of_all_matches(
            nets in proptest::collection::vec((any::<u32>(), 0_u8..=32, 0_u32..4), 0..20),
            to in any::<u32>(),
        ) {
            let mut routes = Routes::default();
            for (interface, (bits, length, metric)) in nets.iter().enumerate() {
                let net = IpNet::new(IpAddr::V4((*bits).into()), *length).unwrap();
                routes.add(Route { destination: net, via: None, interface, metric: *metric });
            }
            let to = IpAddr::V4(to.into());
            let best = routes
                .iter()
                .filter(|route| route.destination.contains(&to))
                .min_by_key(|route| (32 - route.destination.prefix_len(), route.metric))
                .map(|route| (route.destination.prefix_len(), route.metric));
            let found = routes.lookup(to).map(|route| (route.destination.prefix_len(), route.metric));
            prop_assert_eq!(found, best);
        }
    }
}
