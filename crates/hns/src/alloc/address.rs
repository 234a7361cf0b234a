//! The addresses of one network's subnets: which are reserved, which are free.

use std::net::IpAddr;

use hcn::Network;
use hcn::network::{IpamType, Subnet, SubnetFlags};
use ipnet::IpNet;

use super::RangeSet;

/// One subnet's addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddressPool {
    /// The prefix, without host bits.
    pub(crate) prefix: IpNet,
    /// The next hop of the default route.
    pub(crate) gateway: Option<IpAddr>,
    /// Addresses that no endpoint may have, with the reason.
    reserved: Vec<(IpAddr, &'static str)>,
    /// Whether HNS gives addresses out (a DHCP subnet's are somebody else's).
    managed: bool,
    free: RangeSet,
}

/// All subnets of one network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AddressPools {
    pools: Vec<AddressPool>,
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

fn address(number: u128, v4: bool) -> Option<IpAddr> {
    if v4 {
        u32::try_from(number).ok().map(|n| IpAddr::V4(n.into()))
    } else {
        Some(IpAddr::V6(number.into()))
    }
}

impl AddressPool {
    fn of(subnet: &Subnet, managed: bool, host: &[IpAddr]) -> Option<Self> {
        let prefix = subnet.prefix.parse::<IpNet>().ok()?.trunc();
        let gateway = subnet.gateway().and_then(|hop| hop.parse().ok());
        let (first, last) = (prefix.network(), prefix.broadcast());
        let v4 = prefix.addr().is_ipv4();
        let mut reserved = Vec::new();
        // Point-to-point prefixes have no network and broadcast address; IPv6 has no broadcast, but the lowest
        // address is the routers' anycast address.
        if prefix.prefix_len() + 1 < prefix.max_prefix_len() {
            reserved.push((first, "the subnet's network address"));
            if v4 {
                reserved.push((last, "the subnet's broadcast address"));
            }
        }
        let keeps_gateway = !subnet.flags.contains(SubnetFlags::DO_NOT_RESERVE_GATEWAY_ADDRESS);
        if let Some(gateway) = gateway.filter(|gateway| keeps_gateway && prefix.contains(gateway)) {
            reserved.push((gateway, "the subnet's gateway"));
        }
        reserved
            .extend(host.iter().filter(|own| prefix.contains(*own)).map(|&own| (own, "the host's address")));
        let mut free = RangeSet::new();
        if managed {
            free.add(number(first), number(last));
            for &(address, _) in &reserved {
                free.take(number(address));
            }
        }
        Some(Self { prefix, gateway, reserved, managed, free })
    }

    /// The address that would be given out next.
    pub(crate) fn next(&self) -> Option<IpAddr> {
        self.free.lowest().and_then(|free| address(free, self.prefix.addr().is_ipv4()))
    }

    /// Whether HNS gives addresses of this subnet out.
    pub(crate) fn is_managed(&self) -> bool {
        self.managed
    }

    /// Why no endpoint may have the address.
    pub(crate) fn reserved(&self, address: IpAddr) -> Option<&'static str> {
        self.reserved.iter().find(|(own, _)| *own == address).map(|&(_, why)| why)
    }
}

impl AddressPools {
    /// All addresses of a network; `host` are the host's own.
    pub(crate) fn of(network: &Network, host: &[IpAddr]) -> Self {
        let pools = network
            .ipams
            .iter()
            .flat_map(|ipam| {
                let managed = ipam.kind != Some(IpamType::Dhcp);
                ipam.subnets.iter().filter_map(move |subnet| AddressPool::of(subnet, managed, host))
            })
            .collect();
        Self { pools }
    }

    /// The subnets.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &AddressPool> {
        self.pools.iter()
    }

    /// The smallest subnet that contains the address.
    pub(crate) fn containing(&self, address: IpAddr) -> Option<&AddressPool> {
        self.pools
            .iter()
            .filter(|pool| pool.prefix.contains(&address))
            .max_by_key(|pool| pool.prefix.prefix_len())
    }

    /// An endpoint has this address now.
    pub(crate) fn take(&mut self, address: IpAddr) {
        for pool in self.pools.iter_mut().filter(|pool| pool.prefix.contains(&address)) {
            pool.free.take(number(address));
        }
    }

    /// No endpoint has this address any more.
    pub(crate) fn give_back(&mut self, address: IpAddr) {
        for pool in &mut self.pools {
            if pool.managed && pool.prefix.contains(&address) && pool.reserved(address).is_none() {
                pool.free.add(number(address), number(address));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use hcn::network::{Ipam, Route};

    use super::*;

    fn pools(prefix: &str, gateway: &str, host: &[&str]) -> AddressPools {
        let route = Route {
            next_hop: gateway.into(),
            destination_prefix: if gateway.contains(':') { "::/0" } else { "0.0.0.0/0" }.into(),
            ..Route::default()
        };
        let subnet = Subnet { prefix: prefix.into(), routes: vec![route], ..Subnet::default() };
        let network =
            Network { ipams: vec![Ipam { subnets: vec![subnet], ..Ipam::default() }], ..Network::default() };
        let host: Vec<IpAddr> = host.iter().map(|text| text.parse().unwrap()).collect();
        AddressPools::of(&network, &host)
    }

    fn drain(pools: &mut AddressPools) -> Vec<String> {
        let mut given = Vec::new();
        let lowest = |pools: &AddressPools| pools.iter().find_map(AddressPool::next);
        while let Some(next) = lowest(pools) {
            pools.take(next);
            given.push(next.to_string());
            assert!(given.len() < 600);
        }
        given
    }

    #[test]
    fn reserved_addresses_are_never_given_out() {
        let cases: [(&str, &str, &[&str], &[&str]); 5] = [
            ("10.1.0.0/29", "10.1.0.1", &[], &["10.1.0.2", "10.1.0.3", "10.1.0.4", "10.1.0.5", "10.1.0.6"]),
            ("10.1.0.0/29", "10.1.0.1", &["10.1.0.4"], &["10.1.0.2", "10.1.0.3", "10.1.0.5", "10.1.0.6"]),
            ("10.1.0.0/31", "", &[], &["10.1.0.0", "10.1.0.1"]),
            ("10.1.0.9/32", "", &[], &["10.1.0.9"]),
            ("fd00::/126", "fd00::1", &[], &["fd00::2", "fd00::3"]),
        ];
        for (prefix, gateway, host, wanted) in cases {
            assert_eq!(drain(&mut pools(prefix, gateway, host)), wanted, "{prefix}");
        }
    }

    #[test]
    fn an_address_that_comes_back_is_given_out_again_unless_it_is_reserved() {
        let mut pools = pools("10.1.0.0/29", "10.1.0.1", &[]);
        drain(&mut pools);
        for address in ["10.1.0.0", "10.1.0.1", "10.1.0.7", "10.9.9.9"] {
            pools.give_back(address.parse().unwrap());
            assert_eq!(pools.iter().find_map(AddressPool::next), None, "{address}");
        }
        pools.give_back("10.1.0.4".parse().unwrap());
        assert_eq!(drain(&mut pools), ["10.1.0.4"]);
    }
}
