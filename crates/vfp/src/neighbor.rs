//! ARP and neighbour discovery: answered by the switch, or carried from port to port. They pass no layers.

use std::net::IpAddr;

use wire::{ArpOp, Frame, Kind, Mac, Packet, VlanTag, build, nd};

use crate::DropReason;
use crate::model::{ArpMode, Direction, Guards, PortKind};
use crate::port::{Context, Port, Step};
use crate::shared::{Brief, Shared, Way};
use crate::switch::{Aside, is_wire};
use crate::trace::Event;

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Neighbor {
    request: bool,
    /// Who sends it.
    sender: IpAddr,
    sender_mac: Mac,
    /// A request: who is asked for. An answer: whom it is for.
    target: IpAddr,
    frame_dst: Mac,
    /// The tag that the frame has, 0 for none.
    vlan: u16,
    /// An answer to IPv6: of whom it tells.
    tells_of: Option<IpAddr>,
    solicited: bool,
}

impl Neighbor {
    /// Reads a frame that is one.
    pub(crate) fn of(bytes: &[u8], frame: &Frame) -> Option<Self> {
        let vlan = frame.l2.vlan.map_or(0, |tag| tag.id);
        match &frame.kind {
            Kind::Arp(arp) if matches!(arp.op, ArpOp::Request | ArpOp::Reply) => Some(Self {
                request: arp.op == ArpOp::Request,
                sender: arp.sender_ip.into(),
                sender_mac: arp.sender_mac,
                target: arp.target_ip.into(),
                frame_dst: frame.l2.dst,
                vlan,
                tells_of: None,
                solicited: true,
            }),
            Kind::Ip(ip) => match nd::read(bytes, ip)? {
                nd::Message::Solicitation { target, source } => Some(Self {
                    request: true,
                    sender: ip.src,
                    sender_mac: source.unwrap_or(frame.l2.src),
                    target: target.into(),
                    frame_dst: frame.l2.dst,
                    vlan,
                    tells_of: None,
                    solicited: true,
                }),
                nd::Message::Advertisement { target, mac, solicited, .. } => Some(Self {
                    request: false,
                    sender: ip.src,
                    sender_mac: mac.unwrap_or(frame.l2.src),
                    target: ip.dst,
                    frame_dst: frame.l2.dst,
                    vlan,
                    tells_of: Some(target.into()),
                    solicited,
                }),
            },
            _ => None,
        }
    }

    /// The message as it looks with another sender MAC.
    fn sent_from(&self, mac: Mac, packet: &Packet) -> Packet {
        let bytes = match (self.sender, self.target, self.tells_of) {
            (IpAddr::V4(sender), IpAddr::V4(target), _) if self.request => {
                build::arp_request(mac, sender, target)
            }
            (IpAddr::V4(sender), IpAddr::V4(target), _) => {
                build::arp_reply(mac, sender, self.frame_dst, target)
            }
            (IpAddr::V6(sender), IpAddr::V6(target), None) if !sender.is_unspecified() => {
                build::neighbor_solicitation(mac, sender, target)
            }
            (IpAddr::V6(_), IpAddr::V6(to), Some(IpAddr::V6(target))) => {
                build::neighbor_advertisement(mac, target, self.frame_dst, to, self.solicited)
            }
            _ => return packet.clone(),
        };
        Packet::new(&bytes)
    }

    /// An answer as it looks for another receiver.
    fn sent_to(&self, mac: Mac, packet: &Packet) -> Packet {
        let bytes = match (self.sender, self.target, self.tells_of) {
            (IpAddr::V4(sender), IpAddr::V4(target), _) if !self.request => {
                build::arp_reply(self.sender_mac, sender, mac, target)
            }
            (_, IpAddr::V6(to), Some(IpAddr::V6(target))) => {
                build::neighbor_advertisement(self.sender_mac, target, mac, to, self.solicited)
            }
            _ => {
                let mut copy = packet.clone();
                if !self.frame_dst.is_multicast() {
                    wire::bytes::set_mac(copy.data_mut(), 0, mac);
                }
                return copy;
            }
        };
        Packet::new(&bytes)
    }

    /// The answer to a request.
    fn answered(&self, mac: Mac) -> Option<Packet> {
        let bytes = match (self.sender, self.target) {
            (IpAddr::V4(sender), IpAddr::V4(target)) => {
                build::arp_reply(mac, target, self.sender_mac, sender)
            }
            (IpAddr::V6(sender), IpAddr::V6(target)) => {
                build::neighbor_advertisement(mac, target, self.sender_mac, sender, true)
            }
            _ => return None,
        };
        Some(Packet::new(&bytes))
    }
}

/// Who answers for an address, as far as the switch knows.
fn known(shared: &Shared, sender: &Brief, address: IpAddr) -> Option<Mac> {
    match sender.kind {
        PortKind::Endpoint => shared.neighbors.get(&(sender.segment, address)).copied(),
        // The host lies in all segments; the first in order answers.
        PortKind::Host => {
            let mut segments: Vec<&u32> = shared.segments.keys().collect();
            segments.sort_unstable();
            segments.into_iter().find_map(|segment| shared.neighbors.get(&(*segment, address)).copied())
        }
        PortKind::External => None,
    }
}

/// A message that the adapter of a port sends.
pub(crate) fn out(
    port: &mut Port,
    message: &Neighbor,
    packet: &Packet,
    asides: &mut Vec<Aside>,
    ctx: &mut Context<'_, '_>,
) -> Step {
    let shared = ctx.shared;
    if !port.spec.enabled {
        return port.drop(Direction::Out, DropReason::BlockedPort, None, packet, ctx);
    }
    let guard = if message.target.is_ipv4() { Guards::ARP } else { Guards::ND };
    let probe = message.sender.is_unspecified();
    let own = port.spec.addresses.contains(&message.sender)
        || message.tells_of.is_some_and(|address| port.spec.addresses.contains(&address));
    if port.spec.guards.contains(guard) && !probe && !own {
        return port.drop(Direction::Out, DropReason::Arp, None, packet, ctx);
    }
    let Some(sender) = shared.brief(port.index) else { return Step::Drop };
    if message.request
        && !probe
        && message.target != message.sender
        && let Some(mac) = known(shared, sender, message.target)
        && let Some(answer) = message.answered(mac)
    {
        ctx.event(&Event::Resolved { port: port.spec.name, address: message.target, mac });
        asides.push(Aside::Deliver(port.index, answer));
        return Step::Drop;
    }
    if is_wire(sender.kind)
        && let Some((index, brief)) = behind_host(shared, message)
    {
        let mut copy = message.sent_to(brief.mac, packet);
        wire::vlan::clear(&mut copy);
        asides.push(Aside::Enter(index, copy));
        return Step::Drop;
    }
    let targets = match shared.way_of_mac(port.index, message.frame_dst) {
        Way::Flood => shared.flooded(port.index, true),
        Way::Port(to, _) => vec![to],
        Way::Nowhere => Vec::new(),
    };
    let segment = shared.segment(sender.segment);
    let proxied = sender.kind == PortKind::Endpoint && segment.arp == ArpMode::Proxy;
    if targets.is_empty() || proxied && message.request {
        return port.drop(Direction::Out, DropReason::Arp, None, packet, ctx);
    }
    for to in targets {
        let Some(target) = shared.brief(to) else { continue };
        if is_wire(sender.kind) && target.vlan != message.vlan {
            continue;
        }
        let wire = is_wire(target.kind);
        let hidden = wire && sender.kind == PortKind::Endpoint && segment.host_mac_on_wire;
        let mut copy = match shared.host().filter(|_| hidden) {
            Some(host) => message.sent_from(host.mac, packet),
            None => packet.clone(),
        };
        if is_wire(sender.kind) {
            wire::vlan::clear(&mut copy);
        } else if wire && sender.vlan != 0 {
            wire::vlan::set(&mut copy, VlanTag::new(sender.vlan));
        }
        asides.push(Aside::Enter(to, copy));
    }
    Step::Drop
}

/// The port behind the host's MAC that a message from the wire is for.
fn behind_host<'s>(shared: &'s Shared, message: &Neighbor) -> Option<(u16, &'s Brief)> {
    let host = shared.host()?;
    if message.frame_dst != host.mac && !message.frame_dst.is_multicast() {
        return None;
    }
    shared.ports.iter().enumerate().find_map(|(index, brief)| {
        let brief = brief.as_ref()?;
        let behind = brief.kind == PortKind::Endpoint
            && shared.segment(brief.segment).host_mac_on_wire
            && brief.vlan == message.vlan
            && brief.addresses.contains(&message.target);
        behind.then_some((u16::try_from(index).ok()?, brief))
    })
}
