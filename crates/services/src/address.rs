//! Reading addresses and ports from text and numbers, strictly.
//!
//! An address that is not an ordinary unicast address must never become a frontend or a backend: an empty or
//! unspecified frontend would capture the node's own port (CVE-2021-25736), a loopback or link-local one would
//! capture traffic of the node itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use thiserror::Error;

/// Why a text is not an address that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum AddressError {
    #[error("is empty; an IPv4 or IPv6 address is needed")]
    Empty,
    #[error("has leading zeros, which some programs read as octal; write the numbers without them")]
    LeadingZeros,
    #[error("is not an IPv4 or IPv6 address")]
    Syntax,
    #[error("is an IPv4 address mapped into IPv6; write it as plain IPv4")]
    Mapped,
    #[error("is the unspecified address, which would stand for every address of the node")]
    Unspecified,
    #[error("is a loopback address")]
    Loopback,
    #[error("is a link-local address")]
    LinkLocal,
    #[error("is a multicast or broadcast address")]
    Multicast,
}

/// Reads an address that may be a frontend, an endpoint or a node address.
pub(crate) fn unicast(text: &str) -> Result<IpAddr, AddressError> {
    if text.is_empty() {
        return Err(AddressError::Empty);
    }
    let address: IpAddr = text.parse().map_err(|_| syntax_error(text))?;
    match address {
        IpAddr::V4(v4) => check_v4(v4)?,
        IpAddr::V6(v6) => check_v6(v6)?,
    }
    Ok(address)
}

fn syntax_error(text: &str) -> AddressError {
    let parts: Vec<&str> = text.split('.').collect();
    let decimal =
        parts.len() == 4 && parts.iter().all(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()));
    if decimal && parts.iter().any(|p| p.len() > 1 && p.starts_with('0')) {
        AddressError::LeadingZeros
    } else {
        AddressError::Syntax
    }
}

fn check_v4(address: Ipv4Addr) -> Result<(), AddressError> {
    if address.is_unspecified() {
        Err(AddressError::Unspecified)
    } else if address.is_loopback() {
        Err(AddressError::Loopback)
    } else if address.is_link_local() {
        Err(AddressError::LinkLocal)
    } else if address.is_multicast() || address.is_broadcast() {
        Err(AddressError::Multicast)
    } else {
        Ok(())
    }
}

fn check_v6(address: Ipv6Addr) -> Result<(), AddressError> {
    if address.to_ipv4_mapped().is_some() {
        Err(AddressError::Mapped)
    } else if address.is_unspecified() {
        Err(AddressError::Unspecified)
    } else if address.is_loopback() {
        Err(AddressError::Loopback)
    } else if address.is_unicast_link_local() {
        Err(AddressError::LinkLocal)
    } else if address.is_multicast() {
        Err(AddressError::Multicast)
    } else {
        Ok(())
    }
}

/// Reads a network in CIDR form. The host bits are cleared.
pub(crate) fn network(text: &str) -> Result<IpNet, &'static str> {
    let net: IpNet = text.trim().parse().map_err(|_| "is not a network in CIDR form, such as 10.0.0.0/8")?;
    Ok(net.trunc())
}

/// A port number in the range 1 to 65535.
pub(crate) fn port(number: i32) -> Option<u16> {
    u16::try_from(number).ok().filter(|p| *p != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_addresses_are_refused() {
        let cases = [
            ("", AddressError::Empty),
            ("0.0.0.0", AddressError::Unspecified),
            ("::", AddressError::Unspecified),
            ("127.0.0.1", AddressError::Loopback),
            ("::1", AddressError::Loopback),
            ("169.254.169.254", AddressError::LinkLocal),
            ("fe80::1", AddressError::LinkLocal),
            ("224.0.0.1", AddressError::Multicast),
            ("255.255.255.255", AddressError::Multicast),
            ("ff02::1", AddressError::Multicast),
            ("::ffff:10.0.0.1", AddressError::Mapped),
            ("010.0.0.1", AddressError::LeadingZeros),
            ("10.0.0", AddressError::Syntax),
            ("10.0.0.1 ", AddressError::Syntax),
            ("10.0.0.1/32", AddressError::Syntax),
            ("fe80::1%eth0", AddressError::Syntax),
            ("lb.example.com", AddressError::Syntax),
        ];
        for (text, error) in cases {
            assert_eq!(unicast(text), Err(error), "{text:?}");
        }
        for text in ["10.0.0.1", "198.51.100.7", "fd00::1", "2001:db8::1"] {
            assert!(unicast(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn ports_are_one_to_65535() {
        assert_eq!(port(0), None);
        assert_eq!(port(-1), None);
        assert_eq!(port(65_536), None);
        assert_eq!(port(1), Some(1));
        assert_eq!(port(65_535), Some(65_535));
    }

    #[test]
    fn networks_lose_their_host_bits() {
        assert_eq!(network(" 10.1.2.3/8 ").map(|n| n.to_string()), Ok("10.0.0.0/8".to_owned()));
        assert!(network("10.0.0.0").is_err());
        assert!(network("10.0.0.0/33").is_err());
    }
}
