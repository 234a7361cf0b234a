//! The stack's way for IP packets: in, through, out.

use std::net::IpAddr;

use wire::build::IcmpError;
use wire::{Ip, Kind, L4, bytes, checksum};

use super::fragment::Fit;
use super::masquerade::Verdict;
use super::services::{self, Surroundings};
use super::{Stack, StackDrop, is_group};
use crate::app::Transport;

impl Stack {
    /// A packet came from a link.
    pub(super) fn arrive(&mut self, frame: Vec<u8>, ip: &Ip) {
        if self.owns(ip.src) {
            return self.count_drop(StackDrop::Martian);
        }
        if (self.masquerade.is_some() || self.services.is_some()) && ip.is_fragment() {
            // The ports are in the first part only: the packet is put together, and cut again on its way out.
            if let Some((whole, ip)) = self.whole(&frame, ip) {
                self.pass(whole, &ip, true);
            }
        } else {
            self.pass(frame, ip, false);
        }
    }

    fn pass(&mut self, mut frame: Vec<u8>, ip: &Ip, was_cut: bool) {
        let mut ip = *ip;
        match self.serve_frontend(&mut frame, &mut ip, true) {
            services::Verdict::Untouched => self.pass_on(frame, &ip, was_cut),
            services::Verdict::Rewritten if self.owns(ip.dst) => self.deliver(frame, &ip),
            services::Verdict::Rewritten => self.forward(frame, &ip, was_cut, false),
            services::Verdict::Refused => {
                self.count_drop(StackDrop::Service);
                self.complain(&frame, &ip, IcmpError::PortUnreachable);
            }
            services::Verdict::Dropped => self.count_drop(StackDrop::Service),
        }
    }

    /// Translates what goes to a Service and comes from one.
    fn serve_frontend(&mut self, frame: &mut [u8], ip: &mut Ip, arrives: bool) -> services::Verdict {
        let Some(mut services) = self.services.take() else { return services::Verdict::Untouched };
        let verdict = services.translate(self.now, frame, ip, arrives, self);
        self.services = Some(services);
        verdict
    }

    /// A frame passes a bridge of this machine's, from one station to another: packets of connections to Services
    /// that this stack has translated are translated here too (what `bridge-nf-call-iptables` does). Returns what
    /// goes on.
    pub fn bridged(&mut self, now: std::time::Duration, interface: usize, frame: &[u8]) -> Vec<Vec<u8>> {
        self.now = self.now.max(now);
        let Ok(wire::Frame { kind: Kind::Ip(ip), .. }) = wire::parse(frame) else {
            return vec![frame.to_vec()];
        };
        if self.services.is_none() {
            return vec![frame.to_vec()];
        }
        let whole = if ip.is_fragment() { self.whole(frame, &ip) } else { Some((frame.to_vec(), ip)) };
        let Some((mut frame, mut ip)) = whole else { return Vec::new() };
        if let Some(services) = &mut self.services {
            // One that cannot be rewritten is let through as it is.
            services.known(self.now, &mut frame, &mut ip);
        }
        let id = self.next_fragment_id();
        match super::fragment::fit(frame, self.mtu(interface, ip.dst).into(), true, id) {
            Fit::Parts(parts) => parts,
            Fit::TooBig => Vec::new(),
        }
    }

    fn pass_on(&mut self, mut frame: Vec<u8>, ip: &Ip, was_cut: bool) {
        if self.owns(ip.dst) {
            let verdict = match &mut self.masquerade {
                Some(masquerade) => masquerade.arrive(self.now, &mut frame, ip),
                None => Verdict::Untouched,
            };
            match verdict {
                Verdict::Untouched => self.deliver(frame, ip),
                Verdict::Rewritten => {
                    if let Ok(wire::Frame { kind: Kind::Ip(ip), .. }) = wire::parse(&frame) {
                        self.forward(frame, &ip, was_cut, false);
                    }
                }
                Verdict::Refused => self.count_drop(StackDrop::Masquerade),
            }
        } else if self.owns_link_local(ip.dst) {
            self.deliver(frame, ip);
        } else if is_group(ip.dst) {
            // No program here joins a group.
            self.count_drop(StackDrop::NoProtocol);
        } else if self.forwarding {
            self.forward(frame, ip, was_cut, true);
        } else {
            self.count_drop(StackDrop::NotForwarding);
        }
    }

    /// A packet goes on. `was_cut`: it came in parts and may leave in parts; `masqueraded`: its source may be
    /// rewritten.
    fn forward(&mut self, mut frame: Vec<u8>, ip: &Ip, was_cut: bool, masqueraded: bool) {
        if ip.ttl <= 1 {
            self.count_drop(StackDrop::TimeExceeded);
            return self.complain(&frame, ip, IcmpError::TimeExceeded);
        }
        let Some(hop) = self.routes.hop(ip.dst) else {
            self.count_drop(StackDrop::NoRoute);
            return self.complain(&frame, ip, IcmpError::HostUnreachable);
        };
        let mtu = self.mtu(hop.interface, ip.dst);
        // What an error tells of is the packet as it came.
        let original = if usize::from(ip.total_len) > mtu.into() { frame.clone() } else { Vec::new() };
        decrement(&mut frame, ip);
        let own = self.source_on(hop.interface, ip.dst);
        if let Some(masquerade) = self.masquerade.as_mut().filter(|_| masqueraded) {
            masquerade.enter(self.now, ip);
            let verdict = match own {
                Some(own) => masquerade.leave(self.now, &mut frame, ip, own),
                None => Verdict::Untouched,
            };
            if verdict == Verdict::Refused {
                return self.count_drop(StackDrop::Masquerade);
            }
        }
        self.counters.forwarded += 1;
        let id = self.next_fragment_id();
        match super::fragment::fit(frame, mtu.into(), was_cut, id) {
            Fit::Parts(parts) => {
                for part in parts {
                    self.put_to(hop.interface, hop.address, part);
                }
            }
            Fit::TooBig => {
                self.count_drop(StackDrop::TooBig);
                self.complain(&original, ip, IcmpError::FragmentationNeeded { mtu });
            }
        }
    }

    /// Takes a part of a packet; the whole one, if it is complete now.
    fn whole(&mut self, frame: &[u8], ip: &Ip) -> Option<(Vec<u8>, Ip)> {
        let whole = self.reassembly.add(self.now, frame, ip)?;
        match wire::parse(&whole) {
            Ok(wire::Frame { kind: Kind::Ip(ip), .. }) if checksum::verify_with(&whole, &[]).is_ok() => {
                Some((whole, ip))
            }
            _ => {
                self.count_drop(StackDrop::Malformed);
                None
            }
        }
    }

    /// Tells the sender of a packet about an error.
    pub(super) fn complain(&mut self, frame: &[u8], ip: &Ip, error: IcmpError) {
        let Some(own) = self.source_for(ip.src) else { return };
        if let Some(reply) = wire::build::icmp_error(frame, own, error) {
            self.send(reply);
        }
    }

    /// A packet of this stack's own goes out. Its MACs are written here.
    pub(super) fn send(&mut self, mut frame: Vec<u8>) {
        let Ok(wire::Frame { kind: Kind::Ip(mut ip), .. }) = wire::parse(&frame) else {
            return self.count_drop(StackDrop::Malformed);
        };
        match self.serve_frontend(&mut frame, &mut ip, false) {
            services::Verdict::Untouched | services::Verdict::Rewritten => {}
            services::Verdict::Refused => {
                self.count_drop(StackDrop::Service);
                return self.complain(&frame, &ip, IcmpError::PortUnreachable);
            }
            services::Verdict::Dropped => return self.count_drop(StackDrop::Service),
        }
        if self.owns(ip.dst) {
            self.looped.push_back(frame);
            return;
        }
        let Some(hop) = self.routes.hop(ip.dst) else {
            self.count_drop(StackDrop::NoRoute);
            return;
        };
        let id = self.next_fragment_id();
        match super::fragment::fit(frame, self.mtu(hop.interface, ip.dst).into(), true, id) {
            Fit::Parts(parts) => {
                for part in parts {
                    self.put_to(hop.interface, hop.address, part);
                }
            }
            Fit::TooBig => self.count_drop(StackDrop::TooBig),
        }
    }

    /// Sends an IP packet that somebody else made, as if a program here had: a tunnel's. The frame's MACs are
    /// replaced.
    pub fn originate(&mut self, now: std::time::Duration, frame: Vec<u8>) {
        self.now = self.now.max(now);
        self.send(frame);
        self.settle();
    }

    fn next_fragment_id(&mut self) -> u32 {
        self.fragment_id = self.fragment_id.wrapping_add(1);
        self.fragment_id
    }

    /// The largest packet to an address.
    pub(super) fn mtu(&self, interface: usize, to: IpAddr) -> u16 {
        let link = self.interfaces.get(interface).map_or(u16::MAX, |interface| interface.spec.mtu);
        self.path_mtu.get(&to).map_or(link, |&path| path.min(link))
    }

    /// The first address on an interface of the same family, else the one that would be used.
    fn source_on(&self, interface: usize, to: IpAddr) -> Option<IpAddr> {
        let near = self.interfaces.get(interface)?.spec.addresses.iter().map(ipnet::IpNet::addr);
        near.into_iter().find(|address| address.is_ipv4() == to.is_ipv4()).or_else(|| self.source_for(to))
    }

    /// Nobody has the next hop's address: the sender is told, be it this stack itself.
    pub(super) fn undeliverable(&mut self, frame: &[u8]) {
        self.count_drop(StackDrop::NoNeighbor);
        if let Ok(wire::Frame { kind: Kind::Ip(ip), .. }) = wire::parse(frame) {
            self.complain(frame, &ip, IcmpError::HostUnreachable);
        }
    }

    /// A packet for one of the stack's own addresses.
    pub(super) fn deliver(&mut self, frame: Vec<u8>, ip: &Ip) {
        if ip.is_fragment() {
            if let Some((whole, ip)) = self.whole(&frame, ip) {
                self.hand_over(whole, &ip);
            }
        } else {
            self.hand_over(frame, ip);
        }
    }

    fn hand_over(&mut self, frame: Vec<u8>, ip: &Ip) {
        match ip.l4 {
            L4::Tcp { dport, .. } => {
                let mtu = self.interface_mtu(ip.dst);
                let server = self.servers.get(&(Transport::Tcp, dport)).map(String::as_str);
                self.tcp.input(self.now, &frame, ip, mtu, server);
            }
            L4::Udp { .. } => self.datagram(frame, ip),
            L4::Icmp { .. } | L4::Icmp6 { .. } => self.icmp(&frame, ip),
            L4::Sctp { .. } | L4::Other | L4::None => self.count_drop(StackDrop::NoProtocol),
        }
    }

    /// The MTU of the interface that has an address.
    pub(super) fn interface_mtu(&self, own: IpAddr) -> u16 {
        let spec = self.interfaces.iter().map(|interface| &interface.spec).find(|spec| super::has(spec, own));
        // TCP needs room for its headers whatever the link says.
        spec.map_or(1500, |spec| spec.mtu).max(if own.is_ipv4() { 68 } else { 1280 })
    }
}

impl Surroundings for Stack {
    fn owns(&self, address: IpAddr) -> bool {
        Self::owns(self, address)
    }

    fn address_towards(&self, to: IpAddr) -> Option<IpAddr> {
        if Self::owns(self, to) {
            return Some(to);
        }
        self.source_on(self.routes.hop(to)?.interface, to)
    }

    fn masquerades(&self, from: IpAddr, to: IpAddr) -> bool {
        self.masquerade.as_ref().is_some_and(|masquerade| masquerade.covers(from, to))
    }
}

/// Time to live - 1.
fn decrement(frame: &mut [u8], ip: &Ip) {
    let at = usize::from(ip.offset);
    if ip.is_v6() {
        bytes::set_u8(frame, at + 7, ip.ttl.saturating_sub(1));
        return;
    }
    let old = bytes::get_u16(frame, at + 8).unwrap_or_default();
    let new = old.wrapping_sub(0x100);
    let sum = bytes::get_u16(frame, at + 10).unwrap_or_default();
    bytes::set_u16(frame, at + 8, new);
    bytes::set_u16(frame, at + 10, checksum::adjust(sum, old, new));
}
