//! The stack's side towards its links: ARP, neighbour discovery, and putting a packet on a link.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::{Arp, ArpOp, Frame, Ip, L4, Mac, Packet, build, bytes};

use super::neighbor::{Key, Known};
use super::{Stack, StackDrop, has, is_group, is_link_local, link_local};

impl Stack {
    /// Asks a link for a neighbour.
    pub(super) fn ask(&mut self, key: Key) {
        let (number, target) = key;
        let Some(interface) = self.interfaces.get(number) else { return };
        let mac = interface.spec.mac;
        let own = |v4: bool| {
            let near = interface.spec.addresses.iter().filter(|net| net.addr().is_ipv4() == v4);
            let best = near.clone().find(|net| net.contains(&target)).or_else(|| near.clone().next());
            best.map(ipnet::IpNet::addr)
        };
        let frame = match target {
            IpAddr::V4(target) => {
                let sender = match own(true) {
                    Some(IpAddr::V4(v4)) => v4,
                    _ => Ipv4Addr::UNSPECIFIED,
                };
                build::arp_request(mac, sender, target)
            }
            IpAddr::V6(target) => {
                let sender = match own(false) {
                    Some(IpAddr::V6(v6)) if !target.is_unicast_link_local() => v6,
                    _ => link_local(mac),
                };
                build::neighbor_solicitation(mac, sender, target)
            }
        };
        self.put(number, &frame);
    }

    /// Puts a finished frame on a link.
    pub(super) fn put(&mut self, interface: usize, frame: &[u8]) {
        if self.interfaces.get(interface).is_some_and(|interface| interface.up) {
            self.counters.sent += 1;
            self.out.push((interface, Packet::new(frame)));
        }
    }

    /// Puts a packet on a link, to a station there; it waits until that one's MAC is known.
    pub(super) fn put_to(&mut self, interface: usize, station: IpAddr, mut frame: Vec<u8>) {
        let Some(mac) = self.interfaces.get(interface).map(|interface| interface.spec.mac) else { return };
        let known = if is_group(station) {
            Known::Mac(group_mac(station))
        } else {
            self.neighbors.resolve(self.now, (interface, station))
        };
        match known {
            Known::Mac(to) => {
                address(&mut frame, to, mac);
                self.put(interface, &frame);
            }
            Known::Ask | Known::Asking => {
                if let Some(dropped) = self.neighbors.wait((interface, station), frame) {
                    self.undeliverable(&dropped);
                }
                if known == Known::Ask {
                    self.ask((interface, station));
                }
            }
            Known::Failed => self.undeliverable(&frame),
        }
    }

    /// Who is behind a neighbour's address was heard.
    fn heard(&mut self, interface: usize, address: IpAddr, mac: Mac, learn: bool) {
        let Some(own) = self.interfaces.get(interface).map(|interface| interface.spec.mac) else { return };
        for mut frame in self.neighbors.heard(self.now, (interface, address), mac, learn) {
            self::address(&mut frame, mac, own);
            self.put(interface, &frame);
        }
    }

    /// Whether the interface answers for an address.
    fn answers(&self, interface: usize, address: IpAddr) -> bool {
        self.interfaces.get(interface).is_some_and(|interface| {
            has(&interface.spec, address)
                || interface.proxied.contains(&address)
                || address == IpAddr::V6(link_local(interface.spec.mac))
        })
    }

    pub(super) fn arp(&mut self, interface: usize, arp: &Arp) {
        let target = self.answers(interface, arp.target_ip.into());
        if !arp.sender_ip.is_unspecified() && !self.owns(arp.sender_ip.into()) {
            // One that asks for us will be spoken to soon (RFC 826).
            self.heard(interface, arp.sender_ip.into(), arp.sender_mac, target);
        }
        let Some(mac) = self.interfaces.get(interface).map(|interface| interface.spec.mac) else { return };
        // A request for the sender's own address is an announcement.
        if arp.op == ArpOp::Request && target && arp.sender_ip != arp.target_ip {
            let reply = build::arp_reply(mac, arp.target_ip, arp.sender_mac, arp.sender_ip);
            self.put(interface, &reply);
        }
    }

    /// Neighbour solicitations and advertisements. `false`: the packet is neither.
    pub(super) fn neighbor_discovery(
        &mut self,
        interface: usize,
        frame: &[u8],
        parsed: &Frame,
        ip: &Ip,
    ) -> bool {
        let L4::Icmp6 { kind: kind @ 133..=137, .. } = ip.l4 else { return false };
        let target = bytes::get::<16>(frame, ip.l4_offset() + 8).copied().map(Ipv6Addr::from);
        // Nobody beyond the link may speak of it (RFC 4861).
        let (Some(target), 255, IpAddr::V6(src)) = (target, ip.ttl, ip.src) else {
            self.count_drop(StackDrop::Malformed);
            return true;
        };
        let told = link_option(frame, ip, if kind == 135 { 1 } else { 2 });
        match kind {
            135 => self.solicited(interface, parsed, src, target, told),
            136 => self.heard(interface, target.into(), told.unwrap_or(parsed.l2.src), false),
            // Routers are configured here, never discovered.
            _ => {}
        }
        true
    }

    fn solicited(
        &mut self,
        interface: usize,
        parsed: &Frame,
        src: Ipv6Addr,
        target: Ipv6Addr,
        told: Option<Mac>,
    ) {
        if !self.answers(interface, target.into()) {
            return;
        }
        let Some(mac) = self.interfaces.get(interface).map(|interface| interface.spec.mac) else { return };
        let (to_mac, to) = if src.is_unspecified() {
            // A probe for a duplicate: all must hear the answer.
            (build::multicast_mac(build::all_nodes()), build::all_nodes())
        } else {
            let from = told.unwrap_or(parsed.l2.src);
            self.heard(interface, src.into(), from, true);
            (from, src)
        };
        let reply = build::neighbor_advertisement(mac, target, to_mac, to, !src.is_unspecified());
        self.put(interface, &reply);
    }

    /// Whether a link-local address is one of the stack's.
    pub(super) fn owns_link_local(&self, address: IpAddr) -> bool {
        is_link_local(address)
            && self.interfaces.iter().any(|interface| IpAddr::V6(link_local(interface.spec.mac)) == address)
    }
}

/// The link-layer address in an option of neighbour discovery.
fn link_option(frame: &[u8], ip: &Ip, wanted: u8) -> Option<Mac> {
    let mut at = ip.l4_offset() + 24;
    while at + 8 <= ip.end() {
        let (kind, units) = (bytes::get_u8(frame, at)?, bytes::get_u8(frame, at + 1)?);
        if units == 0 {
            return None;
        }
        if kind == wanted {
            return bytes::get_mac(frame, at + 2);
        }
        at += usize::from(units) * 8;
    }
    None
}

/// Writes the MACs of a frame.
fn address(frame: &mut [u8], to: Mac, from: Mac) {
    bytes::set_mac(frame, 0, to);
    bytes::set_mac(frame, 6, from);
}

/// The MAC of a group's address.
fn group_mac(group: IpAddr) -> Mac {
    match group {
        IpAddr::V4(v4) if v4.is_multicast() => {
            let [_, b, c, d] = v4.octets();
            Mac([0x01, 0x00, 0x5e, b & 0x7f, c, d])
        }
        IpAddr::V4(_) => Mac::BROADCAST,
        IpAddr::V6(v6) => build::multicast_mac(v6),
    }
}
