//! MAC addresses. Windows writes them `00-15-5D-52-C0-00`; Linux writes colons.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A 48-bit MAC address; prints in dash form, upper case.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// All stations.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// No address, as in the target of an ARP request.
    pub const ZERO: Self = Self([0; 6]);

    /// Whether the address names a group of stations; broadcast is one.
    #[inline]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether the address names all stations.
    #[inline]
    pub const fn is_broadcast(self) -> bool {
        matches!(self.0, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff])
    }
}

impl From<[u8; 6]> for Mac {
    fn from(octets: [u8; 6]) -> Self {
        Self(octets)
    }
}

impl From<Mac> for [u8; 6] {
    fn from(mac: Mac) -> Self {
        mac.0
    }
}

/// A text that is not a MAC address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a MAC address: write six pairs of hexadecimal digits, all parted by dashes or all by colons"
)]
pub struct ParseMacError(pub String);

impl FromStr for Mac {
    type Err = ParseMacError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        octets(text).map(Self).ok_or_else(|| ParseMacError(text.chars().take(64).collect()))
    }
}

fn octets(text: &str) -> Option<[u8; 6]> {
    let separator = if text.contains(':') { ':' } else { '-' };
    let mut parts = text.split(separator);
    let mut octets = [0; 6];
    for octet in &mut octets {
        let part = parts.next()?;
        // `from_str_radix` alone would take a sign.
        if part.len() != 2 || !part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        *octet = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(octets)
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, octet) in self.0.iter().enumerate() {
            let dash = if place == 0 { "" } else { "-" };
            write!(f, "{dash}{octet:02X}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Mac {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Mac {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_dashes_are_written() {
        for text in ["0E-2A-0A-32-01-05", "0e:2a:0a:32:01:05"] {
            assert_eq!(text.parse::<Mac>().unwrap().to_string(), "0E-2A-0A-32-01-05");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "0E",
            "0E-2A-0A-32-01",
            "0E-2A-0A-32-01-05-06",
            "0E-2A:0A-32-01-05",
            "+1-2A-0A-32-01-05",
            "é-2A-0A-32-01-05",
        ] {
            assert_eq!(text.parse::<Mac>(), Err(ParseMacError(text.to_owned())));
        }
    }

    #[test]
    fn groups_are_told_apart() {
        assert!(Mac::BROADCAST.is_broadcast() && Mac::BROADCAST.is_multicast());
        let multicast = Mac([0x33, 0x33, 0, 0, 0, 1]);
        assert!(multicast.is_multicast() && !multicast.is_broadcast());
        assert!(!Mac::ZERO.is_multicast());
    }
}
