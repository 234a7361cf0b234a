//! A packet's headers as rules see and change them, while a packet walks the layers.
//!
//! Walking changes a [`View`] only; the packet's bytes are rewritten once, by the transposition composed from the
//! first and the last view.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use wire::Mac;

use crate::flow::apply::deltas;
use crate::flow::key::{Addr, Ends};
use crate::flow::pair::{Ht, HtFlags};
use crate::flow::quick::{Extra, Seen, TunnelId};

/// A tunnel header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OuterView {
    /// Source MAC.
    pub source_mac: Mac,
    /// Destination MAC.
    pub destination_mac: Mac,
    /// VLAN id, 0 for none.
    pub vlan: u16,
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// VXLAN network identifier.
    pub vni: u32,
}

/// A packet's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// The tunnel header, if the packet is in a tunnel.
    pub outer: Option<OuterView>,
    /// Source MAC.
    pub source_mac: Mac,
    /// Destination MAC.
    pub destination_mac: Mac,
    /// VLAN id, 0 for none.
    pub vlan: u16,
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// IP protocol.
    pub protocol: u8,
    /// Source port; an ICMP echo's identifier.
    pub source_port: u16,
    /// Destination port; an ICMP echo's identifier.
    pub destination_port: u16,
    /// ICMP type and code.
    pub icmp: Option<(u8, u8)>,
    /// TCP flags, else 0.
    pub tcp_flags: u8,
    /// How often the TTL was decremented, at most three times.
    pub ttl_decrements: u8,
    /// The tenant that a tunnel header gave.
    pub tenant: Option<u32>,
    /// Metadata of an earlier layer.
    pub mark: Option<u32>,
    /// The packet was sent back once already.
    pub hairpinned: bool,
    /// A fragment other than the first: it has no ports of its own.
    pub later_fragment: bool,
    /// An ICMP error: protocol and source port of the packet that it tells of.
    pub quoted: Option<(u8, u16)>,
}

/// The header fields that conditions look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: u8,
    /// Source and destination port, where there are any.
    pub(crate) ports: Option<(u16, u16)>,
    pub(crate) source_mac: Mac,
    pub(crate) destination_mac: Mac,
    pub(crate) vlan: u16,
}

impl View {
    pub(crate) fn of<A: Addr>(seen: &Seen<A>, extra: Extra, hairpinned: bool) -> Self {
        let outer = seen.tunnel.map(|tunnel| outer(&tunnel));
        Self {
            outer,
            source_mac: seen.l2.source(),
            destination_mac: seen.l2.destination(),
            vlan: seen.l2.vlan(),
            source: seen.ends.src.ip(),
            destination: seen.ends.dst.ip(),
            protocol: seen.meta.proto,
            source_port: seen.ends.sport,
            destination_port: seen.ends.dport,
            icmp: extra.icmp,
            tcp_flags: seen.meta.tcp,
            ttl_decrements: 0,
            tenant: outer.map(|outer| outer.vni),
            mark: None,
            hairpinned,
            later_fragment: extra.later,
            quoted: extra.quoted.and_then(|quoted| Some((quoted.proto, quoted.ports?.0))),
        }
    }

    pub(crate) fn ends<A: Addr>(&self) -> Ends<A> {
        Ends {
            src: A::of(self.source),
            dst: A::of(self.destination),
            sport: self.source_port,
            dport: self.destination_port,
        }
    }

    pub(crate) fn set_ends<A: Addr>(&mut self, ends: &Ends<A>) {
        self.source = ends.src.ip();
        self.destination = ends.dst.ip();
        self.source_port = ends.sport;
        self.destination_port = ends.dport;
    }

    /// What conditions look at: the outermost headers.
    pub(crate) fn fields(&self, vxlan_port: u16) -> Fields {
        match &self.outer {
            Some(outer) => Fields {
                source: outer.source,
                destination: outer.destination,
                protocol: wire::proto::UDP,
                ports: Some((0, vxlan_port)),
                source_mac: outer.source_mac,
                destination_mac: outer.destination_mac,
                vlan: outer.vlan,
            },
            None => Fields {
                source: self.source,
                destination: self.destination,
                protocol: self.protocol,
                ports: self.has_ports().then_some((self.source_port, self.destination_port)),
                source_mac: self.source_mac,
                destination_mac: self.destination_mac,
                vlan: self.vlan,
            },
        }
    }

    /// One hop more.
    pub(crate) fn decrement_ttl(&mut self) {
        self.ttl_decrements = (self.ttl_decrements + 1).min(3);
    }

    /// TCP, UDP or SCTP.
    pub(crate) fn has_ports(&self) -> bool {
        matches!(self.protocol, wire::proto::TCP | wire::proto::UDP | wire::proto::SCTP)
    }

    /// The first packet of a TCP connection.
    pub(crate) fn is_first_syn(&self) -> bool {
        const SYN: u8 = 2;
        const ACK: u8 = 16;
        self.protocol == wire::proto::TCP && self.tcp_flags & (SYN | ACK) == SYN
    }

    /// An ICMP message other than an echo.
    pub(crate) fn is_icmp_message(&self) -> bool {
        Extra { icmp: self.icmp, ..Extra::default() }.is_icmp_message()
    }

    /// The transposition from this view to another one, without tunnel template, target and verdict.
    pub(crate) fn transposition<A: Addr>(&self, last: &Self) -> Ht<A> {
        let mut ht = Ht { flags: HtFlags::VALID, ..Ht::default() };
        if last.source_mac != self.source_mac {
            ht.flags |= HtFlags::SRC_MAC;
            ht.src_mac = last.source_mac.0;
        }
        if last.destination_mac != self.destination_mac {
            ht.flags |= HtFlags::DST_MAC;
            ht.dst_mac = last.destination_mac.0;
        }
        let (old, new) = (self.ends::<A>(), last.ends::<A>());
        ht.ends = new;
        if old != new {
            ht.flags |= HtFlags::ENDS;
            (ht.l3_delta, ht.l4_delta) = deltas(&old, &new);
        }
        ht.flags.set(HtFlags::TTL, last.ttl_decrements & 1 != 0);
        ht.flags.set(HtFlags::TTL_TWICE, last.ttl_decrements & 2 != 0);
        if last.vlan != self.vlan {
            ht.flags |= HtFlags::VLAN;
            ht.extra = last.vlan;
        }
        match (self.outer, last.outer) {
            (Some(_), None) => ht.flags |= HtFlags::POP,
            (None, Some(_)) => ht.flags |= HtFlags::PUSH,
            (Some(old), Some(new)) if old != new => ht.flags |= HtFlags::POP | HtFlags::PUSH,
            _ => {}
        }
        ht
    }
}

fn narrow(address: [u8; 16]) -> IpAddr {
    std::net::Ipv6Addr::from(address).to_canonical()
}

fn outer(tunnel: &TunnelId) -> OuterView {
    let source = match tunnel.src {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d] => IpAddr::from([a, b, c, d]),
        wide => narrow(wide),
    };
    let destination = match tunnel.dst {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d] => IpAddr::from([a, b, c, d]),
        wide => narrow(wide),
    };
    OuterView {
        source_mac: tunnel.l2.source(),
        destination_mac: tunnel.l2.destination(),
        vlan: tunnel.l2.vlan(),
        source,
        destination,
        vni: tunnel.vni,
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(outer) = &self.outer {
            write!(
                f,
                "[{} > {} {} > {} vni {}] ",
                outer.source_mac, outer.destination_mac, outer.source, outer.destination, outer.vni
            )?;
        }
        write!(f, "{} > {} ", self.source_mac, self.destination_mac)?;
        if self.vlan != 0 {
            write!(f, "vlan {} ", self.vlan)?;
        }
        let protocol = match self.protocol {
            6 => "TCP".to_owned(),
            17 => "UDP".to_owned(),
            132 => "SCTP".to_owned(),
            1 => "ICMP".to_owned(),
            58 => "ICMPv6".to_owned(),
            other => format!("protocol {other}"),
        };
        if self.has_ports() {
            write!(
                f,
                "{protocol} {} > {}",
                end(self.source, self.source_port),
                end(self.destination, self.destination_port)
            )
        } else {
            write!(f, "{protocol} {} > {}", self.source, self.destination)?;
            match self.icmp {
                Some((0 | 8 | 128 | 129, _)) => write!(f, " id {}", self.source_port),
                Some((kind, code)) => write!(f, " type {kind} code {code}"),
                None => Ok(()),
            }
        }
    }
}

fn end(address: IpAddr, port: u16) -> std::net::SocketAddr {
    std::net::SocketAddr::new(address, port)
}
