//! What an address is, as far as load balancing is concerned: a pure function of the address and the network's
//! facts, so that two Services with the same backend always get the same answer (kubernetes/kubernetes#91886).

use std::net::IpAddr;

use ipnet::IpNet;

/// A remote subnet of an overlay network: the pods of one other node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteSubnet {
    /// The other node's pods.
    pub prefix: IpNet,
    /// The other node.
    pub provider_address: IpAddr,
    /// The VXLAN network identifier.
    pub isolation_id: u32,
    /// The distributed router's MAC there.
    pub dr_mac: String,
}

/// Where an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A pod's, on this node or another.
    Pod,
    /// This node's own.
    OwnNode,
    /// Another node's.
    OtherNode,
    /// None of the cluster's.
    Outside,
}

/// The addresses of the cluster as this node knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressBook {
    /// This node's addresses.
    pub own: Vec<IpAddr>,
    /// Other nodes' addresses, beyond the provider addresses.
    pub others: Vec<IpAddr>,
    /// The HNS network's own subnets.
    pub subnets: Vec<IpNet>,
    /// The other nodes' pods.
    pub remote_subnets: Vec<RemoteSubnet>,
}

impl AddressBook {
    /// Where the address is. Pods come before nodes: a pod range may contain a node's tunnel address.
    pub fn place(&self, address: IpAddr) -> Place {
        if self.own.contains(&address) {
            Place::OwnNode
        } else if self.remote_subnets.iter().any(|subnet| subnet.provider_address == address)
            || self.others.contains(&address)
        {
            Place::OtherNode
        } else if self.subnets.iter().any(|subnet| subnet.contains(&address))
            || self.subnet_of(address).is_some()
        {
            Place::Pod
        } else {
            Place::Outside
        }
    }

    /// The provider address of a remote endpoint: the node behind the most specific remote subnet that holds the
    /// address, else the address itself when it is a node's, else this node (`own`).
    pub fn provider_address(&self, address: IpAddr, own: IpAddr) -> IpAddr {
        if let Some(subnet) = self.subnet_of(address) {
            return subnet.provider_address;
        }
        if self.remote_subnets.iter().any(|subnet| subnet.provider_address == address) {
            address
        } else {
            own
        }
    }

    fn subnet_of(&self, address: IpAddr) -> Option<&RemoteSubnet> {
        self.remote_subnets
            .iter()
            .filter(|subnet| subnet.prefix.contains(&address))
            .max_by_key(|subnet| subnet.prefix.prefix_len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book() -> AddressBook {
        let subnet = |prefix: &str, provider: &str| RemoteSubnet {
            prefix: prefix.parse().unwrap(),
            provider_address: provider.parse().unwrap(),
            isolation_id: 4096,
            dr_mac: "00-11-22-33-44-55".to_owned(),
        };
        AddressBook {
            own: vec!["192.0.2.11".parse().unwrap()],
            others: vec!["192.0.2.14".parse().unwrap()],
            subnets: vec!["10.50.1.0/24".parse().unwrap()],
            remote_subnets: vec![
                subnet("10.50.2.0/24", "192.0.2.12"),
                subnet("10.50.2.128/25", "192.0.2.15"),
                subnet("10.50.3.0/24", "192.0.2.13"),
            ],
        }
    }

    #[test]
    fn an_address_has_one_place_whatever_uses_it() {
        for (address, place) in [
            ("192.0.2.11", Place::OwnNode),
            ("192.0.2.12", Place::OtherNode),
            ("192.0.2.14", Place::OtherNode),
            ("10.50.1.5", Place::Pod),
            ("10.50.3.7", Place::Pod),
            ("203.0.113.9", Place::Outside),
            ("2001:db8::1", Place::Outside),
        ] {
            assert_eq!(book().place(address.parse().unwrap()), place, "{address}");
        }
    }

    #[test]
    fn the_provider_address_is_that_of_the_most_specific_subnet() {
        let own = "192.0.2.11".parse().unwrap();
        for (address, provider) in [
            ("10.50.2.5", "192.0.2.12"),
            ("10.50.2.200", "192.0.2.15"),
            ("192.0.2.12", "192.0.2.12"),
            ("203.0.113.9", "192.0.2.11"),
            ("10.60.0.20", "192.0.2.11"),
        ] {
            assert_eq!(
                book().provider_address(address.parse().unwrap(), own).to_string(),
                provider,
                "{address}"
            );
        }
    }
}
