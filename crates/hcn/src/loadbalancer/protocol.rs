//! IANA protocol numbers as HCN uses them.

use std::fmt;

use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// ICMP for IPv4.
pub const ICMP_V4: u32 = 1;
/// TCP.
pub const TCP: u32 = 6;
/// UDP.
pub const UDP: u32 = 17;
/// ICMP for IPv6.
pub const ICMP_V6: u32 = 58;
/// SCTP (kube-proxy sends it; no HCN constant).
pub const SCTP: u32 = 132;
/// IGMP.
pub const IGMP: u32 = 2;

/// The number of a name, in any case, or of digits. `ICMP` is the one for IPv4.
pub fn number(text: &str) -> Option<u32> {
    const NAMES: [(&str, u32); 8] = [
        ("TCP", TCP),
        ("UDP", UDP),
        ("SCTP", SCTP),
        ("ICMPv4", ICMP_V4),
        ("ICMP", ICMP_V4),
        ("ICMPv6", ICMP_V6),
        ("IGMP", IGMP),
        ("Unknown", 0),
    ];
    let text = text.trim();
    let named = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    named.map(|&(_, number)| number).or_else(|| text.parse().ok())
}

/// The name of a number, where it has one.
pub const fn name(number: u32) -> Option<&'static str> {
    match number {
        TCP => Some("TCP"),
        UDP => Some("UDP"),
        SCTP => Some("SCTP"),
        ICMP_V4 => Some("ICMPv4"),
        ICMP_V6 => Some("ICMPv6"),
        IGMP => Some("IGMP"),
        _ => None,
    }
}

/// A protocol as it stands in JSON: read as a number, as digits or as a name (Microsoft's schema has names,
/// everyone sends numbers), written as a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Protocol(pub u32);

impl From<Protocol> for u32 {
    fn from(protocol: Protocol) -> Self {
        protocol.0
    }
}

impl crate::json::Blank for Protocol {
    fn is_blank(&self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match name(self.0) {
            Some(name) => f.write_str(name),
            None => write!(f, "protocol {}", self.0),
        }
    }
}

impl Serialize for Protocol {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.0)
    }
}

impl<'de> Deserialize<'de> for Protocol {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Protocol;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an IANA protocol number, or TCP, UDP, SCTP, ICMPv4, ICMPv6 or IGMP")
            }
            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Protocol, E> {
                u32::try_from(value)
                    .map(Protocol)
                    .map_err(|_| E::invalid_value(Unexpected::Unsigned(value), &self))
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Protocol, E> {
                number(text).map(Protocol).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Either)
    }
}
