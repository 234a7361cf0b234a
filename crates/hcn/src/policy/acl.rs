//! What an ACL matches, read from its comma lists.
//!
//! HNS takes lists as text: `"192.168.100.0/24,10.0.0.21"`, `"80,8080,30000-32767"`, `"6,17"`. Empty text matches
//! anything. An address list may also name IP sets (SetPolicy) by id.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;

use super::common::Acl;
use super::endpoint::{FiveTuple, TierAclRule};

/// A list that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {entry:?} is not {expected}")]
pub struct ListError {
    /// The ACL's field.
    pub field: &'static str,
    /// The entry, shortened.
    pub entry: String,
    /// What would be right.
    pub expected: &'static str,
}

/// One entry of an address list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// A prefix; a single address is a prefix of full length.
    Net(IpNet),
    /// The id of an IP set.
    Set(String),
}

/// What traffic an ACL is about. An empty list matches anything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Match {
    /// IANA protocol numbers.
    pub protocols: Vec<u8>,
    /// Addresses on the endpoint's side.
    pub local_addresses: Vec<Address>,
    /// Addresses on the other side.
    pub remote_addresses: Vec<Address>,
    /// Ports on the endpoint's side.
    pub local_ports: Vec<RangeInclusive<u16>>,
    /// Ports on the other side.
    pub remote_ports: Vec<RangeInclusive<u16>>,
}

/// The number that Calico sends for "any protocol".
const ANY_PROTOCOL: u16 = 256;

/// Reads a comma list of protocol numbers. Empty text, and a list that holds 256, mean any protocol.
pub fn protocols(field: &'static str, list: &str) -> Result<Vec<u8>, ListError> {
    const EXPECTED: &str = "a protocol number from 0 to 255, or 256 for any";
    let numbers = entries(list, |entry| {
        entry
            .parse::<u16>()
            .ok()
            .filter(|&number| number <= ANY_PROTOCOL)
            .ok_or_else(|| bad(field, entry, EXPECTED))
    })?;
    if numbers.contains(&ANY_PROTOCOL) {
        return Ok(Vec::new());
    }
    Ok(numbers.into_iter().filter_map(|number| u8::try_from(number).ok()).collect())
}

/// Reads a comma list of addresses, prefixes and ids of IP sets. Host bits of a prefix are dropped.
pub fn addresses(field: &'static str, list: &str) -> Result<Vec<Address>, ListError> {
    const EXPECTED: &str = "an address, a prefix or the id of an IP set";
    entries(list, |entry| {
        if let Ok(address) = entry.parse::<IpAddr>() {
            return Ok(Address::Net(address.into()));
        }
        if let Ok(net) = entry.parse::<IpNet>() {
            return Ok(Address::Net(net.trunc()));
        }
        // What is written like an address but is none is a mistake, not the id of a set.
        let like_address =
            entry.contains(['/', ':']) || entry.bytes().all(|b| b.is_ascii_digit() || b".-".contains(&b));
        if like_address { Err(bad(field, entry, EXPECTED)) } else { Ok(Address::Set(entry.to_owned())) }
    })
}

/// Reads a comma list of ports and ranges ("first-last", both included).
pub fn ports(field: &'static str, list: &str) -> Result<Vec<RangeInclusive<u16>>, ListError> {
    const EXPECTED: &str = "a port or a range of ports (first-last) from 0 to 65535";
    entries(list, |entry| {
        let (low, high) = entry.split_once('-').unwrap_or((entry, entry));
        match (port(low), port(high)) {
            (Some(low), Some(high)) if low <= high => Ok(low..=high),
            _ => Err(bad(field, entry, EXPECTED)),
        }
    })
}

fn port(text: &str) -> Option<u16> {
    let text = text.trim();
    // `parse` would take a sign.
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// The entries of a list, read one by one; blanks around them are dropped, and empty text has none.
fn entries<T>(list: &str, read: impl Fn(&str) -> Result<T, ListError>) -> Result<Vec<T>, ListError> {
    if list.trim().is_empty() {
        Ok(Vec::new())
    } else {
        list.split(',').map(|entry| read(entry.trim())).collect()
    }
}

fn bad(field: &'static str, entry: &str, expected: &'static str) -> ListError {
    ListError { field, entry: entry.chars().take(64).collect(), expected }
}

macro_rules! matching {
    ($($settings:ty),*) => { $(impl $settings {
        /// What traffic this is about; the error names the field.
        pub fn matching(&self) -> Result<Match, ListError> {
            Ok(Match {
                protocols: protocols("Protocols", &self.protocols)?,
                local_addresses: addresses("LocalAddresses", &self.local_addresses)?,
                remote_addresses: addresses("RemoteAddresses", &self.remote_addresses)?,
                local_ports: ports("LocalPorts", &self.local_ports)?,
                remote_ports: ports("RemotePorts", &self.remote_ports)?,
            })
        }
    })* };
}

matching!(Acl, FiveTuple, TierAclRule);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        let acl = Acl {
            protocols: "6, 17".to_owned(),
            local_addresses: "10.50.1.5,10.50.2.9/24,2001:db8::/48".to_owned(),
            remote_addresses: "azure-npm-123".to_owned(),
            local_ports: "80,8080,30000-32767".to_owned(),
            ..Acl::default()
        };
        let net = |text: &str| Address::Net(text.parse().unwrap());
        assert_eq!(
            acl.matching().unwrap(),
            Match {
                protocols: vec![6, 17],
                local_addresses: vec![net("10.50.1.5/32"), net("10.50.2.0/24"), net("2001:db8::/48")],
                remote_addresses: vec![Address::Set("azure-npm-123".to_owned())],
                local_ports: vec![80..=80, 8080..=8080, 30000..=32767],
                remote_ports: vec![],
            }
        );
    }

    #[test]
    fn empty_lists_and_protocol_256_match_anything() {
        assert_eq!(Acl::default().matching().unwrap(), Match::default());
        assert_eq!(protocols("Protocols", "6,256").unwrap(), Vec::<u8>::new());
        assert_eq!(ports("LocalPorts", "  ").unwrap(), vec![]);
    }

    #[test]
    fn errors_name_field_and_entry() {
        for (result, says) in [
            (ports("LocalPorts", "80,x").map(drop), r#"LocalPorts: "x" is not a port"#),
            (ports("LocalPorts", "80,,81").map(drop), r#"LocalPorts: "" is not a port"#),
            (ports("LocalPorts", "9-1").map(drop), r#"LocalPorts: "9-1" is not"#),
            (ports("LocalPorts", "65536").map(drop), r#"LocalPorts: "65536" is not"#),
            (ports("LocalPorts", "+80").map(drop), r#"LocalPorts: "+80" is not"#),
            (addresses("RemoteAddresses", "10.0.0.256").map(drop), r#"RemoteAddresses: "10.0.0.256" is not"#),
            (
                addresses("RemoteAddresses", "10.0.0.0/33").map(drop),
                r#"RemoteAddresses: "10.0.0.0/33" is not"#,
            ),
            (addresses("RemoteAddresses", "10.0.0.1-10.0.0.9").map(drop), "is not an address"),
            (addresses("RemoteAddresses", "").map(drop), ""),
            (protocols("Protocols", "257").map(drop), r#"Protocols: "257" is not a protocol number"#),
            (protocols("Protocols", "TCP").map(drop), r#"Protocols: "TCP" is not"#),
        ] {
            match result {
                Ok(()) => assert_eq!(says, ""),
                Err(error) => assert!(!says.is_empty() && error.to_string().contains(says), "{error}"),
            }
        }
    }
}
