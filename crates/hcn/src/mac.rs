//! MAC addresses. HNS writes them `00-15-5D-52-C0-00`; some clients send colons.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::network::MacRange;

/// A 48-bit MAC address; prints in dash form, upper case.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// The address with these bytes, first byte first.
    pub const fn from_octets(octets: [u8; 6]) -> Self {
        Self(octets)
    }

    /// The address as a number, for arithmetic on ranges.
    pub const fn to_u64(self) -> u64 {
        let mut number = 0;
        let mut at = 0;
        while at < self.0.len() {
            number = number << 8 | self.0[at] as u64;
            at += 1;
        }
        number
    }

    /// The address with this number; the upper 16 bits are dropped.
    pub const fn from_u64(number: u64) -> Self {
        let bytes = number.to_be_bytes();
        Self([bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]])
    }

    /// Whether the address names a group, not a station.
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }
}

/// A text that is not a MAC address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a MAC address: six pairs of hexadecimal digits parted by dashes (or all by colons)")]
pub struct ParseMacError(pub String);

impl FromStr for Mac {
    type Err = ParseMacError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text.as_bytes()).map(Self).ok_or_else(|| ParseMacError(text.chars().take(64).collect()))
    }
}

fn parse(text: &[u8]) -> Option<[u8; 6]> {
    let separator = *text.get(2)?;
    if text.len() != 17 || !matches!(separator, b'-' | b':') {
        return None;
    }
    let mut mac = [0; 6];
    for (byte, group) in mac.iter_mut().zip(text.chunks(3)) {
        if group.get(2).is_some_and(|&s| s != separator) {
            return None;
        }
        *byte = digit(group[0])? << 4 | digit(group[1])?;
    }
    Some(mac)
}

const fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        b'A'..=b'F' => Some(character - b'A' + 10),
        _ => None,
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("-")?;
            }
            write!(f, "{byte:02X}")?;
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

impl MacRange {
    /// First and last address; an end below the start is left to the caller to judge.
    pub fn bounds(&self) -> Result<(Mac, Mac), ParseMacError> {
        Ok((self.start.parse()?, self.end.parse()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_dashes_are_written() {
        for text in ["00-15-5D-52-C0-0a", "00:15:5d:52:c0:0A"] {
            assert_eq!(text.parse::<Mac>().unwrap().to_string(), "00-15-5D-52-C0-0A");
        }
    }

    #[test]
    fn numbers_go_there_and_back() {
        let mac: Mac = "00-15-5D-52-CF-FF".parse().unwrap();
        assert_eq!(mac.to_u64(), 0x0015_5D52_CFFF);
        assert_eq!(Mac::from_u64(mac.to_u64()), mac);
        assert_eq!(Mac::from_u64(mac.to_u64() + 1).to_string(), "00-15-5D-52-D0-00");
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "00",
            "00-15-5D-52-C0",
            "00-15-5D-52-C0-0",
            "00-15-5D-52-C0-0g",
            "00-15:5D-52-C0-00",
            "00155D52C000",
            "00-15-5D-52-C0-000",
            "é0-15-5D-52-C0-00",
            "0--15-5D-52-C0-00",
            "+0-15-5D-52-C0-00",
        ] {
            assert!(text.parse::<Mac>().is_err(), "{text:?} was taken");
        }
    }
}
