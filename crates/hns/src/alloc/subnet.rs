//! The subnet that HNS picks for a network that names none: a /20 of 172.16.0.0/12 with the gateway at .1, as
//! public dumps of NAT networks show.

use std::net::Ipv4Addr;

use hcn::network::{Ipam, IpamType, Route, Subnet};
use hcn::time::Entropy;
use ipnet::{IpNet, Ipv4Net};

/// An address management section with one free subnet; `None` when all 256 are taken.
pub(crate) fn pick_subnet(entropy: &dyn Entropy, taken: impl Fn(&IpNet) -> bool) -> Option<Ipam> {
    const SUBNETS: u64 = 256;
    let first = entropy.below(SUBNETS);
    let base = u32::from(Ipv4Addr::new(172, 16, 0, 0));
    (0..SUBNETS).map(|n| (first + n) % SUBNETS).find_map(|n| {
        let network = base + (u32::try_from(n).ok()? << 12);
        let prefix = Ipv4Net::new(Ipv4Addr::from(network), 20).ok()?;
        if taken(&prefix.into()) {
            return None;
        }
        let gateway = Route {
            next_hop: Ipv4Addr::from(network + 1).to_string(),
            destination_prefix: "0.0.0.0/0".to_owned(),
            ..Route::default()
        };
        let subnet = Subnet { prefix: prefix.to_string(), routes: vec![gateway], ..Subnet::default() };
        Some(Ipam { kind: Some(IpamType::Static), subnets: vec![subnet], ..Ipam::default() })
    })
}

#[cfg(test)]
mod tests {
    use hcn::time::SeededEntropy;

    use super::*;

    #[test]
    fn a_free_slash_20_is_found_while_there_is_one() {
        let entropy = SeededEntropy::new(3);
        let mut taken: Vec<IpNet> = Vec::new();
        for _ in 0..256 {
            let ipam = pick_subnet(&entropy, |candidate| taken.contains(candidate)).unwrap();
            let prefix: IpNet = ipam.subnets[0].prefix.parse().unwrap();
            assert_eq!(prefix.prefix_len(), 20);
            assert!("172.16.0.0/12".parse::<IpNet>().unwrap().contains(&prefix));
            assert!(
                prefix.contains(&ipam.subnets[0].gateway().unwrap().parse::<std::net::IpAddr>().unwrap())
            );
            taken.push(prefix);
        }
        assert_eq!(pick_subnet(&entropy, |candidate| taken.contains(candidate)), None);
    }
}
