//! What all ports of a switch read while packets pass: groups, tags, segments, and who has which MAC and which NAT
//! ports. It changes between batches only.

use std::net::IpAddr;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use uuid::Uuid;
use wire::Mac;

use crate::group::{Group, Tags};
use crate::model::{ArpMode, GroupKey, NatReply, PortKind, SegmentSpec, SwitchSettings};
use crate::trace::Why;
use crate::view::View;

/// What the switch needs to know of a port.
#[derive(Clone, Debug)]
pub(crate) struct Brief {
    pub(crate) name: Uuid,
    pub(crate) kind: PortKind,
    pub(crate) segment: u32,
    pub(crate) mac: Mac,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) vlan: u16,
}

/// A range of NAT ports and the switch port that owns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) first: u16,
    pub(crate) last: u16,
    /// The highest port of this and all ranges before it.
    pub(crate) reach: u16,
    pub(crate) port: u16,
}

/// Whether frames pass between two ports.
fn sees(from: &Brief, to: &Brief) -> bool {
    from.kind != PortKind::Endpoint || to.kind != PortKind::Endpoint || from.segment == to.segment
}

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Port(u16, Why),
    Flood,
    Nowhere,
}

#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) settings: SwitchSettings,
    pub(crate) groups: Vec<Option<Group>>,
    pub(crate) group_of: FxHashMap<GroupKey, u32>,
    pub(crate) tags: Tags,
    pub(crate) tag_names: FxHashMap<String, String>,
    pub(crate) segments: FxHashMap<u32, SegmentSpec>,
    pub(crate) neighbors: FxHashMap<(u32, IpAddr), Mac>,
    pub(crate) ports: Vec<Option<Brief>>,
    pub(crate) port_of: FxHashMap<Uuid, u16>,
    /// Largest IP packet of each port.
    pub(crate) mtus: Vec<u16>,
    pub(crate) macs: FxHashMap<Mac, SmallVec<[u16; 2]>>,
    pub(crate) owners: FxHashMap<(IpAddr, u8), Vec<Owned>>,
    pub(crate) external: Option<u16>,
    /// Counts changes; what was made at which count is a generation.
    pub(crate) clock: u32,
    pub(crate) serials: u32,
}

impl Shared {
    pub(crate) fn brief(&self, port: u16) -> Option<&Brief> {
        self.ports.get(usize::from(port)).and_then(Option::as_ref)
    }

    pub(crate) fn group(&self, group: u32) -> Option<&Group> {
        self.groups.get(group as usize).and_then(Option::as_ref)
    }

    pub(crate) fn segment(&self, segment: u32) -> SegmentSpec {
        self.segments.get(&segment).cloned().unwrap_or_default()
    }

    /// The first host port.
    pub(crate) fn host(&self) -> Option<&Brief> {
        self.ports.iter().flatten().find(|brief| brief.kind == PortKind::Host)
    }

    /// The port that owns a NAT port.
    pub(crate) fn owner(&self, address: IpAddr, protocol: u8, port: u16) -> Option<u16> {
        let ranges = self.owners.get(&(address, protocol))?;
        let after = ranges.partition_point(|range| range.first <= port);
        // Ranges may overlap while blocks change hands: the one that begins last counts.
        let before = ranges.get(..after)?.iter().rev();
        before
            .take_while(|range| range.reach >= port)
            .find(|range| port <= range.last)
            .map(|range| range.port)
    }

    /// Where a unicast or multicast packet goes that has left the layers of a port. A NAT port's owner gets the
    /// frame with its own MAC.
    pub(crate) fn way(&self, from: u16, view: &mut View) -> Way {
        let led = self.settings.nat_reply == NatReply::Everywhere || self.external == Some(from);
        if view.outer.is_none()
            && led
            && !self.owners.is_empty()
            && let Some((protocol, port)) = self.nat_port(view)
            && let Some(owner) = self.owner(view.destination, protocol, port)
            && let Some(brief) = self.brief(owner)
        {
            view.destination_mac = brief.mac;
            return Way::Port(owner, Why::NatOwner);
        }
        let mac = view.outer.map_or(view.destination_mac, |outer| outer.destination_mac);
        self.way_of_mac(from, mac)
    }

    /// By which protocol and port a packet's NAT owner is found; an error's by those of the packet that it tells of.
    fn nat_port(&self, view: &View) -> Option<(u8, u16)> {
        if view.icmp.is_some() && !self.settings.icmp_nat {
            return None;
        }
        if view.is_icmp_message() { view.quoted } else { Some((view.protocol, view.destination_port)) }
    }

    /// Where a frame with this destination MAC goes.
    pub(crate) fn way_of_mac(&self, from: u16, mac: Mac) -> Way {
        if mac.is_multicast() {
            return Way::Flood;
        }
        let Some(sender) = self.brief(from) else { return Way::Nowhere };
        if let Some(ports) = self.macs.get(&mac) {
            let reachable = |&&port: &&u16| self.brief(port).is_some_and(|to| sees(sender, to));
            // An endpoint of the host has the host's MAC, too: the host's own port comes first.
            let host = |port: u16| self.brief(port).is_some_and(|to| to.kind == PortKind::Host);
            let found =
                ports.iter().filter(reachable).max_by_key(|&&port| (host(port), std::cmp::Reverse(port)));
            if let Some(&port) = found {
                return Way::Port(port, Why::Mac);
            }
        }
        let outward = match sender.kind {
            PortKind::External => false,
            PortKind::Host => true,
            PortKind::Endpoint => self.segment(sender.segment).unknown_to_external,
        };
        match self.external {
            Some(external) if outward => Way::Port(external, Why::Unknown),
            _ => Way::Nowhere,
        }
    }

    /// The ports that a broadcast or multicast frame reaches.
    pub(crate) fn flooded(&self, from: u16, arp: bool) -> Vec<u16> {
        let Some(sender) = self.brief(from) else { return Vec::new() };
        let mode = |brief: &Brief| match brief.kind {
            PortKind::Endpoint => self.segment(brief.segment).arp,
            _ => ArpMode::Flood,
        };
        self.ports
            .iter()
            .enumerate()
            .filter_map(|(index, brief)| {
                let to = brief.as_ref()?;
                let index = u16::try_from(index).ok()?;
                if index == from || !sees(sender, to) {
                    return None;
                }
                // Overlay segments keep broadcasts to themselves; the wire is not theirs.
                let wire = to.kind == PortKind::External || sender.kind == PortKind::External;
                let closed = mode(sender) != ArpMode::Flood || mode(to) != ArpMode::Flood;
                let proxied = mode(sender) == ArpMode::Proxy || mode(to) == ArpMode::Proxy;
                let passes = !(wire && closed || arp && proxied);
                passes.then_some(index)
            })
            .collect()
    }
}
