//! The machine around the emulated HNS: its adapters, its dynamic port range and what listens on it.
//!
//! HNS takes a network's management address from an adapter, refuses a network on an adapter that is not there,
//! and shares the TCP and UDP port space with the host's processes. Nothing here changes while HNS runs except
//! the listeners ([`crate::Hns::listen`]).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;

use hcn::Mac;
use ipnet::{IpNet, Ipv4Net};
use serde::{Deserialize, Serialize};

/// A transport protocol with a port space of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Tcp, Self::Udp];

    /// The protocol with this IANA number, if it has ports that the host's stack hands out.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            hcn::loadbalancer::protocol::TCP => Some(Self::Tcp),
            hcn::loadbalancer::protocol::UDP => Some(Self::Udp),
            _ => None,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        })
    }
}

/// A physical network adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// Its alias, which a `NetAdapterName` policy may name.
    pub name: String,
    /// Its MAC address.
    pub mac: Mac,
    /// Its addresses; the first of a network's family becomes the management address.
    pub addresses: Vec<IpNet>,
}

/// The dynamic ("ephemeral") port ranges; HNS takes blocks of 64 out of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamicPorts {
    /// TCP.
    pub tcp: RangeInclusive<u16>,
    /// UDP.
    pub udp: RangeInclusive<u16>,
}

impl DynamicPorts {
    /// The range of a protocol.
    pub fn of(&self, protocol: Protocol) -> &RangeInclusive<u16> {
        match protocol {
            Protocol::Tcp => &self.tcp,
            Protocol::Udp => &self.udp,
        }
    }
}

impl Default for DynamicPorts {
    /// Windows' default since Vista: 16,384 ports, 256 blocks.
    fn default() -> Self {
        Self { tcp: 49152..=65535, udp: 49152..=65535 }
    }
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its adapters; the first is used by networks that name none.
    pub adapters: Vec<Adapter>,
    /// Its dynamic port ranges.
    pub dynamic_ports: DynamicPorts,
    /// Ports that processes listen on when HNS starts.
    pub listeners: Vec<(Protocol, u16)>,
}

impl Default for Host {
    /// One adapter, "Ethernet", with 10.0.0.4/24.
    fn default() -> Self {
        let address = Ipv4Net::new_assert(Ipv4Addr::new(10, 0, 0, 4), 24);
        Self {
            name: "node".to_owned(),
            adapters: vec![Adapter {
                name: "Ethernet".to_owned(),
                mac: Mac::from_octets([0x00, 0x0D, 0x3A, 0x10, 0x20, 0x30]),
                addresses: vec![address.into()],
            }],
            dynamic_ports: DynamicPorts::default(),
            listeners: Vec::new(),
        }
    }
}

impl Host {
    /// The adapter with this alias, without regard to case.
    pub fn adapter(&self, name: &str) -> Option<&Adapter> {
        self.adapters.iter().find(|adapter| adapter.name.eq_ignore_ascii_case(name))
    }

    /// Whether the address is one of the machine's.
    pub fn has_address(&self, address: IpAddr) -> bool {
        self.adapters.iter().flat_map(|adapter| &adapter.addresses).any(|own| own.addr() == address)
    }
}

impl Adapter {
    /// The address that becomes a network's management address: IPv4 first.
    pub fn management_address(&self) -> Option<IpAddr> {
        let of = |v4: bool| self.addresses.iter().map(IpNet::addr).find(|address| address.is_ipv4() == v4);
        of(true).or_else(|| of(false))
    }
}
