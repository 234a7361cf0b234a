//! The host's network interfaces: which MAC stands for which address.

use std::collections::BTreeMap;
use std::net::IpAddr;

use network_interface::{Addr, NetworkInterface, NetworkInterfaceConfig as _};
use proxy::Interface;

/// Reads them, in the order of their names.
pub(super) fn read() -> Result<Vec<Interface>, network_interface::Error> {
    Ok(merge(NetworkInterface::show()?))
}

/// Some systems tell of an interface once for each of its addresses.
fn merge(told: Vec<NetworkInterface>) -> Vec<Interface> {
    let mut found: BTreeMap<String, Interface> = BTreeMap::new();
    for interface in told {
        let entry = found.entry(interface.name.clone()).or_insert_with(|| Interface {
            name: interface.name,
            mac: String::new(),
            addresses: Vec::new(),
        });
        if let Some(mac) = interface.mac_addr.filter(|mac| entry.mac.is_empty() && !mac.is_empty()) {
            entry.mac = mac.replace(':', "-").to_ascii_uppercase();
        }
        for address in interface.addr {
            let ip = match address {
                Addr::V4(address) => IpAddr::V4(address.ip),
                Addr::V6(address) => IpAddr::V6(address.ip),
            };
            if !entry.addresses.contains(&ip) {
                entry.addresses.push(ip);
            }
        }
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use network_interface::V4IfAddr;

    use super::*;

    #[test]
    fn an_interface_that_is_told_of_twice_is_one() {
        let told = |name: &str, last: u8, mac: Option<&str>| NetworkInterface {
            name: name.to_owned(),
            addr: vec![Addr::V4(V4IfAddr {
                ip: Ipv4Addr::new(192, 0, 2, last),
                broadcast: None,
                netmask: None,
            })],
            mac_addr: mac.map(str::to_owned),
            index: 1,
            internal: false,
        };
        let merged =
            merge(vec![told("b", 1, None), told("a", 2, Some("00:15:5d:aa:0b:0c")), told("a", 3, None)]);
        assert_eq!(merged.len(), 2);
        assert_eq!((&*merged[0].name, &*merged[0].mac), ("a", "00-15-5D-AA-0B-0C"));
        assert_eq!(merged[0].addresses.len(), 2);
        assert_eq!(merged[1].mac, "");
    }

    #[test]
    fn this_machine_has_a_loopback_address() {
        let found = read().expect("interfaces can be read");
        let loopback = |interface: &Interface| interface.addresses.iter().any(IpAddr::is_loopback);
        assert!(found.iter().any(loopback), "{found:?}");
    }
}
