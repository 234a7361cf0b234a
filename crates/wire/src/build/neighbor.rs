//! ARP and neighbour discovery (RFC 826, RFC 4861): who has this address?

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::Mac;
use crate::build::FrameBuilder;
use crate::frame::{ArpOp, ethertype};

/// Asks all stations for the MAC address of an IPv4 address.
pub fn arp_request(sender_mac: Mac, sender_ip: Ipv4Addr, target_ip: Ipv4Addr) -> Vec<u8> {
    arp(Mac::BROADCAST, ArpOp::Request, (sender_mac, sender_ip), (Mac::ZERO, target_ip))
}

/// Answers a request.
pub fn arp_reply(sender_mac: Mac, sender_ip: Ipv4Addr, target_mac: Mac, target_ip: Ipv4Addr) -> Vec<u8> {
    arp(target_mac, ArpOp::Reply, (sender_mac, sender_ip), (target_mac, target_ip))
}

/// Tells all stations of an address (RFC 5227's announcement: a request for the sender's own address).
pub fn gratuitous(mac: Mac, ip: Ipv4Addr) -> Vec<u8> {
    arp_request(mac, ip, ip)
}

fn arp(to: Mac, op: ArpOp, sender: (Mac, Ipv4Addr), target: (Mac, Ipv4Addr)) -> Vec<u8> {
    let mut body = Vec::with_capacity(28);
    body.extend_from_slice(&[0, 1, 8, 0, 6, 4]);
    body.extend_from_slice(&op.bits().to_be_bytes());
    for (mac, ip) in [sender, target] {
        body.extend_from_slice(&mac.0);
        body.extend_from_slice(&ip.octets());
    }
    FrameBuilder::eth(sender.0, to).ethertype(ethertype::ARP).payload(&body).build()
}

/// The multicast address that all nodes of a link listen to.
pub const fn all_nodes() -> Ipv6Addr {
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1)
}

/// The multicast address at which an address is asked for.
pub const fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., high, low] = address.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | high & 0xff, low)
}

/// The MAC address of an IPv6 multicast address (RFC 2464).
pub const fn multicast_mac(address: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = address.octets();
    Mac([0x33, 0x33, a, b, c, d])
}

/// Asks for the MAC address of an IPv6 address. From the unspecified address it is the probe for a duplicate, which
/// carries no address of the sender.
pub fn neighbor_solicitation(src_mac: Mac, src_ip: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
    let mut body = target.octets().to_vec();
    if !src_ip.is_unspecified() {
        body.extend_from_slice(&[1, 1]);
        body.extend_from_slice(&src_mac.0);
    }
    let group = solicited_node(target);
    FrameBuilder::eth(src_mac, multicast_mac(group))
        .ipv6(src_ip, group)
        .ttl(255)
        .icmp6(135, 0, [0; 4])
        .payload(&body)
        .build()
}

/// Tells of an IPv6 address: in answer to a solicitation (`solicited`), or unasked to [`all_nodes`]. It replaces
/// what the receiver knew.
pub fn neighbor_advertisement(
    src_mac: Mac,
    target: Ipv6Addr,
    dst_mac: Mac,
    dst_ip: Ipv6Addr,
    solicited: bool,
) -> Vec<u8> {
    let mut body = target.octets().to_vec();
    body.extend_from_slice(&[2, 1]);
    body.extend_from_slice(&src_mac.0);
    let flags = if solicited { 0x60 } else { 0x20 };
    FrameBuilder::eth(src_mac, dst_mac)
        .ipv6(target, dst_ip)
        .ttl(255)
        .icmp6(136, 0, [flags, 0, 0, 0])
        .payload(&body)
        .build()
}
