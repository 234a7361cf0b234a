//! Frames as bytes: what a header means, how it is checked, rewritten, built, shown and kept in a capture.
//!
//! Everything that reads takes any bytes and never panics; nothing that reads a packet allocates. The crate knows
//! Ethernet with one VLAN tag, ARP, IPv4, IPv6 with its extension headers, TCP, UDP, SCTP, ICMP, ICMPv6, neighbour
//! discovery and VXLAN (RFC 7348). It must not know flows, rules, the Host Networking Service, sockets or time.

pub mod build;
pub mod bytes;
pub mod checksum;
mod describe;
mod error;
mod frame;
pub mod ipv4;
pub mod ipv6;
mod mac;
pub mod nd;
pub mod offload;
mod packet;
mod parse;
#[cfg(test)]
mod parse_tests;
pub mod pcapng;
pub mod quoted;
pub mod rewrite;
pub mod tcp;
pub mod vlan;
pub mod vxlan;

pub use describe::{Description, describe};
pub use error::{Header, Malformed, TooLong};
pub use frame::{Arp, ArpOp, Fragment, Frame, Ip, Kind, L2, L4, TcpFlags, VlanTag, ethertype, proto};
pub use mac::{Mac, ParseMacError};
pub use packet::{HEADROOM, Offload, Packet};
pub use parse::parse;
