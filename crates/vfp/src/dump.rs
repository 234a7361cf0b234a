//! What a switch holds, for people and tools to look at.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use serde::Serialize;
use uuid::Uuid;
use wire::Mac;

use crate::counters::{FlowCounters, MeterCounters, PortCounters, RuleCounters};
use crate::flow::key::Addr;
use crate::flow::pair::{Bits, HtFlags, Pair};
use crate::model::{
    Direction, GroupSpec, LayerSpec, NeighborSpec, PoolRange, PortSpec, Rule, SegmentSpec, TagSpec,
};
use crate::switch::Switch;
use crate::view::OuterView;
use crate::{DropReason, port::Port};

/// A flow pair of either family.
pub(crate) enum Raw<'a> {
    V4(u32, &'a Pair<[u8; 4]>),
    V6(u32, &'a Pair<[u8; 16]>),
}

/// A rule and what it counted on one port.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuleDump {
    /// The rule.
    pub rule: Arc<Rule>,
    /// Its counters.
    pub counters: RuleCounters,
}

/// A group as it hangs in a layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupDump {
    /// The group, its rules in the order in which they are asked.
    pub group: GroupSpec,
    /// Counters of the rules, in the same order.
    pub counters: Vec<RuleCounters>,
}

/// A layer with its groups, OUT before IN, IPv4 before IPv6, by priority.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerDump {
    /// The layer.
    pub layer: LayerSpec,
    /// Its groups.
    pub groups: Vec<GroupDump>,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortDump {
    /// The number that the switch gave it, from 1.
    pub id: u16,
    /// What was put.
    pub spec: PortSpec,
}

/// One direction of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlowDump {
    /// The pair, unique on its port and family while it lives.
    pub pair: u32,
    /// It opened the connection.
    pub main: bool,
    /// Which way it goes.
    pub direction: Direction,
    /// IP protocol.
    pub protocol: u8,
    /// Source address and port as the packets come.
    pub source: SocketAddr,
    /// Destination address and port as the packets come.
    pub destination: SocketAddr,
    /// What becomes of the packets.
    pub result: FlowResult,
    /// The composed transposition.
    pub transposition: TranspositionDump,
    /// State of the connection.
    pub state: &'static str,
    /// The generation for which it was composed.
    pub generation: u32,
    /// It must be composed again before the next packet.
    pub stale: bool,
    /// Seconds until it is gone if no packet comes.
    pub ttl_left: u32,
    /// Packets since its rules last changed.
    pub packets: u64,
    /// Bytes of IP since its rules last changed.
    pub bytes: u64,
}

/// What becomes of a flow's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowResult {
    /// They go on; OUT packets to this port.
    Forward(Option<Uuid>),
    /// They are dropped.
    Drop(DropReason),
    /// They are sent back.
    Hairpin,
    /// No packet has come yet.
    Unknown,
}

/// The fields that a transposition sets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TranspositionDump {
    /// Source MAC.
    pub source_mac: Option<Mac>,
    /// Destination MAC.
    pub destination_mac: Option<Mac>,
    /// Source address and port.
    pub source: Option<SocketAddr>,
    /// Destination address and port.
    pub destination: Option<SocketAddr>,
    /// The tunnel header comes off.
    pub pop: bool,
    /// A tunnel header is put on.
    pub push: Option<OuterView>,
    /// The VLAN id is set; 0: taken off.
    pub vlan: Option<u16>,
    /// TTL - 1.
    pub decrement_ttl: bool,
}

/// A NAT pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PoolDump {
    /// Its key.
    pub key: String,
    /// Its friendly name.
    pub name: String,
    /// The IP protocol.
    pub protocol: u8,
    /// The port that owns it.
    pub owner: Uuid,
    /// What it gives out.
    pub ranges: Vec<PoolRange>,
    /// How many ports it has.
    pub size: u32,
    /// Connections that have one.
    pub in_use: u32,
    /// How often there was none.
    pub exhausted: u64,
}

/// A NAT port lent to a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BindingDump {
    /// The pool.
    pub pool: String,
    /// IP protocol.
    pub protocol: u8,
    /// The end that was translated.
    pub inner: SocketAddr,
    /// What stands in its place.
    pub outer: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
}

impl Switch {
    /// The ports, in the order of their numbers.
    pub fn ports(&self) -> Vec<PortDump> {
        let dump = |port: &Port| PortDump { id: port.index + 1, spec: port.spec.clone() };
        self.ports.iter().flatten().map(dump).collect()
    }

    /// The layers of a port by ascending priority.
    pub fn layers(&self, port: Uuid) -> Option<Vec<LayerDump>> {
        let port = self.port(port)?;
        let totals = port.rule_totals();
        let group = |number: &u32| {
            let group = self.shared.group(*number)?;
            let entries = group.rules();
            let counters =
                entries.iter().map(|entry| totals.get(&entry.serial).copied().unwrap_or_default()).collect();
            Some(GroupDump {
                group: GroupSpec {
                    key: group.key.clone(),
                    id: Arc::clone(&group.id),
                    name: Arc::clone(&group.name),
                    direction: group.direction,
                    family: group.family,
                    priority: group.priority,
                    conditions: group.conditions.clone(),
                    rules: entries.iter().map(|entry| Arc::clone(&entry.rule)).collect(),
                },
                counters,
            })
        };
        let layers = port.layers.iter().map(|layer| LayerDump {
            layer: layer.spec.clone(),
            groups: layer.groups.iter().flatten().flatten().filter_map(group).collect(),
        });
        Some(layers.collect())
    }

    /// How many rules a group has, found by its key.
    pub fn group_size(&self, key: &crate::model::GroupKey) -> Option<usize> {
        let number = self.shared.group_of.get(key)?;
        Some(self.shared.group(*number)?.len())
    }

    /// The counters of a port's direction.
    pub fn counters(&self, port: Uuid, direction: Direction) -> Option<&PortCounters> {
        Some(&self.port(port)?.counters[direction.index()])
    }

    /// Counters of flow classes, in the order of [`crate::model::FlowClass::ALL`].
    pub fn flow_counters(&self, port: Uuid, direction: Direction) -> Option<[FlowCounters; 6]> {
        Some(*self.port(port)?.flow_counters(direction))
    }

    /// Counters of meter classes of a port.
    pub fn meters(&self, port: Uuid) -> Option<Vec<(u32, MeterCounters)>> {
        Some(self.port(port)?.meter_totals().into_iter().collect())
    }

    /// The flows of a port, both directions of each, main first. `now`: the switch's time.
    pub fn flows(&self, port: Uuid, now: std::time::Duration) -> Option<Vec<FlowDump>> {
        let port = self.port(port)?;
        let now = u32::try_from(now.as_millis() & u128::from(u32::MAX)).unwrap_or(0);
        let mut flows = Vec::new();
        port.each_flow(|raw| match raw {
            Raw::V4(number, pair) => self.flow(port, number, pair, now, &mut flows),
            Raw::V6(number, pair) => self.flow(port, number, pair, now, &mut flows),
        });
        Some(flows)
    }

    /// How many flow pairs a port has.
    pub fn flow_count(&self, port: Uuid) -> Option<usize> {
        Some(self.port(port)?.flow_count())
    }

    /// Bytes of memory that a port's flows take.
    pub fn flow_memory(&self, port: Uuid) -> Option<usize> {
        Some(self.port(port)?.memory())
    }

    fn flow<A: Addr>(&self, port: &Port, number: u32, pair: &Pair<A>, now: u32, flows: &mut Vec<FlowDump>) {
        let common = &pair.common;
        for (index, half) in pair.halves.iter().enumerate() {
            if index == 1 && !common.bits.contains(Bits::PAIRED) {
                continue;
            }
            let direction = if half.key.direction == 0 { Direction::Out } else { Direction::In };
            let ht = &half.ht;
            let result = if !ht.flags.contains(HtFlags::VALID) {
                FlowResult::Unknown
            } else if ht.flags.contains(HtFlags::DROP) {
                FlowResult::Drop(DropReason::from_index(ht.extra))
            } else if ht.flags.contains(HtFlags::HAIRPIN) {
                FlowResult::Hairpin
            } else {
                let to = half.target.checked_sub(1).and_then(|port| self.shared.brief(port));
                FlowResult::Forward(to.map(|brief| brief.name))
            };
            let end = |address: A, port: u16| SocketAddr::new(address.ip(), port);
            let (old, new) = (&half.key.ends, &ht.ends);
            let ends = ht.flags.contains(HtFlags::ENDS);
            let source = (end(old.src, old.sport), end(new.src, new.sport));
            let destination = (end(old.dst, old.dport), end(new.dst, new.dport));
            flows.push(FlowDump {
                pair: number,
                main: index == 0,
                direction,
                protocol: half.key.proto,
                source: source.0,
                destination: destination.0,
                result,
                transposition: TranspositionDump {
                    source_mac: ht.flags.contains(HtFlags::SRC_MAC).then_some(Mac(ht.src_mac)),
                    destination_mac: ht.flags.contains(HtFlags::DST_MAC).then_some(Mac(ht.dst_mac)),
                    source: (ends && source.0 != source.1).then_some(source.1),
                    destination: (ends && destination.0 != destination.1).then_some(destination.1),
                    pop: ht.flags.contains(HtFlags::POP),
                    push: port.outer_of(ht.extra).filter(|_| ht.flags.contains(HtFlags::PUSH)).copied(),
                    vlan: ht.flags.contains(HtFlags::VLAN).then_some(ht.extra),
                    decrement_ttl: ht.flags.ttl() != 0,
                },
                state: common.state.word(),
                generation: common.generation[index],
                stale: common.generation[index] != port.generation,
                ttl_left: port.idle_left(common, now) / 1000,
                packets: common.packets[index],
                bytes: common.bytes[index],
            });
        }
    }

    /// The NAT pools, by key.
    pub fn pools(&self) -> Vec<PoolDump> {
        let mut pools: Vec<PoolDump> = self
            .ports
            .iter()
            .flatten()
            .flat_map(|port| port.pools.values())
            .map(|pool| PoolDump {
                key: pool.key.to_string(),
                name: pool.name.to_string(),
                protocol: pool.protocol,
                owner: pool.owner,
                ranges: pool.ranges.clone(),
                size: pool.size(),
                in_use: pool.in_use,
                exhausted: pool.exhausted,
            })
            .collect();
        pools.sort_by(|a, b| a.key.cmp(&b.key));
        pools
    }

    /// The NAT ports that are lent, by pool and port.
    pub fn bindings(&self) -> Vec<BindingDump> {
        let end = |(address, port): (IpAddr, u16)| SocketAddr::new(address, port);
        let mut bindings: Vec<BindingDump> = self
            .ports
            .iter()
            .flatten()
            .flat_map(Port::bindings)
            .map(|binding| BindingDump {
                pool: binding.pool.to_string(),
                protocol: binding.protocol,
                inner: end(binding.inner),
                outer: end(binding.outer),
                remote: end(binding.remote),
            })
            .collect();
        bindings.sort_by(|a, b| (&a.pool, a.outer, a.remote).cmp(&(&b.pool, b.outer, b.remote)));
        bindings
    }

    /// The tags, by id.
    pub fn tags(&self) -> Vec<TagSpec> {
        let mut tags: Vec<TagSpec> = self
            .shared
            .tags
            .iter()
            .map(|(id, addresses)| TagSpec {
                id: id.clone(),
                name: self.shared.tag_names.get(id).cloned().unwrap_or_default(),
                addresses: addresses.clone(),
            })
            .collect();
        tags.sort_by(|a, b| a.id.cmp(&b.id));
        tags
    }

    /// The segments, by number.
    pub fn segments(&self) -> Vec<SegmentSpec> {
        let mut segments: Vec<SegmentSpec> = self.shared.segments.values().cloned().collect();
        segments.sort_by_key(|segment| segment.id);
        segments
    }

    /// The addresses that the switch answers for.
    pub fn neighbors(&self) -> Vec<NeighborSpec> {
        let mut neighbors: Vec<NeighborSpec> = self
            .shared
            .neighbors
            .iter()
            .map(|(&(segment, address), &mac)| NeighborSpec { segment, address, mac })
            .collect();
        neighbors.sort_by_key(|neighbor| (neighbor.segment, neighbor.address));
        neighbors
    }
}
