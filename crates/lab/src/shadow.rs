//! What a switch asks of the host's stack: the next hop of a tunnel's outer packets.
//!
//! The host is a network namespace whose kernel cannot be asked without privileges for each packet. So a stack of our
//! own stands beside it, with the same address and MAC, hears the same ARP and neighbour discovery, and asks for
//! neighbours in the host's name. It answers nobody: the kernel does.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use node::stack::{InterfaceSpec, Route, Stack};
use vfp::{HostRoutes, NextHop};
use wire::{ArpOp, Kind, L4, Mac, Packet, ethertype};

/// A neighbour is asked for.
const SOLICITATION: u8 = 135;
/// A neighbour answers.
const ADVERTISEMENT: u8 = 136;

/// The host's interface on the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostInterface {
    /// Its MAC.
    pub mac: Mac,
    /// Its addresses.
    pub addresses: Vec<IpNet>,
    /// Default routers.
    pub routers: Vec<IpAddr>,
}

/// A stack beside the host's.
#[derive(Debug)]
pub struct Shadow {
    stack: Stack,
    now: Duration,
}

/// Whether a frame is ARP or neighbour discovery.
fn is_neighborly(frame: &[u8]) -> bool {
    match wire::bytes::get_u16(frame, 12) {
        Some(ethertype::ARP) => true,
        Some(ethertype::IPV6) => {
            let Ok(parsed) = wire::parse(frame) else { return false };
            let kind = parsed.ip().map(|ip| ip.l4);
            matches!(kind, Some(L4::Icmp6 { kind: SOLICITATION | ADVERTISEMENT, .. }))
        }
        _ => false,
    }
}

/// Whether a frame asks for a neighbour.
fn asks(frame: &[u8]) -> bool {
    let Ok(parsed) = wire::parse(frame) else { return false };
    match parsed.kind {
        Kind::Arp(arp) => arp.op == ArpOp::Request,
        Kind::Ip(ip) => matches!(ip.l4, L4::Icmp6 { kind: SOLICITATION, .. }),
        Kind::Other => false,
    }
}

impl Shadow {
    /// The shadow of a host.
    pub fn new(name: &str, interface: &HostInterface) -> Self {
        let mut stack = Stack::new(name, 1);
        let index = stack.add_interface(InterfaceSpec {
            name: name.to_owned(),
            mac: interface.mac,
            addresses: interface.addresses.clone(),
            mtu: 1500,
        });
        for router in &interface.routers {
            stack.routes_mut().add(Route::default_by(*router, index));
        }
        Self { stack, now: Duration::ZERO }
    }

    /// The time from now on.
    pub fn at(&mut self, now: Duration) {
        self.now = now;
    }

    /// Hears a frame that the host receives.
    pub fn hear(&mut self, frame: &[u8]) {
        if is_neighborly(frame) {
            self.stack.receive(self.now, 0, frame);
        }
    }

    /// Does what is due.
    pub fn poll(&mut self) {
        if self.stack.next_timer().is_some_and(|due| due <= self.now) {
            self.stack.poll(self.now);
        }
    }

    /// When something will be due.
    pub fn next_timer(&mut self) -> Option<Duration> {
        self.stack.next_timer()
    }

    /// Questions for neighbours, to be sent by the host's port.
    pub fn questions(&mut self) -> Vec<Packet> {
        let output = self.stack.take_output();
        output.into_iter().map(|(_, frame)| frame).filter(|frame| asks(frame.data())).collect()
    }

    /// A number that changes whenever there is news of a neighbour.
    pub fn settled(&self) -> u64 {
        self.stack.settled()
    }
}

impl HostRoutes for Shadow {
    fn next_hop(&mut self, _: u32, destination: IpAddr) -> NextHop {
        self.stack.next_hop(self.now, destination)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::build::{arp_reply, arp_request};

    const PEER: Mac = Mac([2, 0, 0, 0, 0, 9]);

    fn host() -> HostInterface {
        HostInterface {
            mac: Mac([0, 0x15, 0x5d, 1, 2, 3]),
            addresses: vec!["192.0.2.12/24".parse().unwrap()],
            routers: vec!["192.0.2.1".parse().unwrap()],
        }
    }

    #[test]
    fn a_next_hop_is_asked_for_and_learnt() {
        let mut shadow = Shadow::new("win-1", &host());
        let far: IpAddr = "203.0.113.5".parse().unwrap();
        assert_eq!(shadow.next_hop(1, far), NextHop::Pending);
        let questions = shadow.questions();
        assert_eq!(questions.len(), 1);
        let parsed = wire::parse(questions[0].data()).unwrap();
        let Kind::Arp(arp) = parsed.kind else { panic!("{parsed:?}") };
        assert_eq!(arp.target_ip, std::net::Ipv4Addr::new(192, 0, 2, 1));
        let before = shadow.settled();
        shadow.hear(&arp_reply(PEER, arp.target_ip, host().mac, arp.sender_ip));
        assert_ne!(shadow.settled(), before);
        assert_eq!(shadow.next_hop(1, far), NextHop::Via { mac: PEER, source_mac: host().mac });
    }

    #[test]
    fn it_answers_nobody() {
        let mut shadow = Shadow::new("win-1", &host());
        let own = std::net::Ipv4Addr::new(192, 0, 2, 12);
        shadow.hear(&arp_request(PEER, [192, 0, 2, 13].into(), own));
        assert!(shadow.questions().is_empty());
        let echo = wire::build::FrameBuilder::eth(PEER, host().mac)
            .ipv4(std::net::Ipv4Addr::new(192, 0, 2, 13), own)
            .icmp_echo(true, 1, 1)
            .build();
        shadow.hear(&echo);
        assert!(shadow.questions().is_empty());
    }
}
