//! One port: its layers, flows, pools and counters.
//!
//! A port changes while packets pass; [`Shared`] does not. So ports can be worked on side by side.

mod act;
mod again;
mod cached;
mod compose;
mod fragments;
mod nodes;
mod paths;
mod slow;
mod totals;
mod track;
mod walk;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use wire::{Mac, Packet, vxlan};

use crate::DropReason;
use crate::counters::{FlowCounters, MeterCounters, PortCounters, RuleCounters};
use crate::flow::key::Addr;
use crate::flow::pair::{Common, Pair, TcpState};
use crate::flow::quick::{Extra, Seen, TunnelId};
use crate::flow::table::Table;
use crate::model::{Direction, Guards, LayerFlags, LayerSpec, PoolKey, PortKind, PortSpec};
use crate::nat::{Binding, Pool};
use crate::shared::Shared;
use crate::trace::{Sighting, Stage};
use crate::view::OuterView;

pub(crate) use cached::{Context, FLOOD, Piece, Step};
use fragments::Fragments;
pub(crate) use nodes::Nodes;
use paths::Paths;
pub(crate) use walk::{End, Role};

/// A layer at work.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    pub(crate) spec: LayerSpec,
    /// Unique on the port and never given again.
    pub(crate) serial: u16,
    /// Groups of each direction and family, by priority: `[OUT, IN][IPv4, IPv6]`.
    pub(crate) groups: [[Vec<u32>; 2]; 2],
    /// When groups were last hung in or taken out.
    pub(crate) generation: u32,
}

/// The flows of one family.
pub(crate) struct Flows<A> {
    pub(crate) table: Table<A>,
    pub(crate) nodes: Nodes<A>,
}

impl<A: Addr> Flows<A> {
    fn new(seed: u64) -> Self {
        Self { table: Table::new(seed), nodes: Nodes::default() }
    }
}

/// A family whose flows a port keeps.
pub(crate) trait FlowFamily: Addr {
    /// The flows of this family.
    fn flows(port: &Port) -> &Flows<Self>;

    /// The flows of this family, to be changed.
    fn flows_mut(port: &mut Port) -> &mut Flows<Self>;
}

impl FlowFamily for [u8; 4] {
    #[inline]
    fn flows(port: &Port) -> &Flows<Self> {
        &port.v4
    }

    #[inline]
    fn flows_mut(port: &mut Port) -> &mut Flows<Self> {
        &mut port.v4
    }
}

impl FlowFamily for [u8; 16] {
    #[inline]
    fn flows(port: &Port) -> &Flows<Self> {
        &port.v6
    }

    #[inline]
    fn flows_mut(port: &mut Port) -> &mut Flows<Self> {
        &mut port.v6
    }
}

/// A next hop that is remembered for a while.
#[derive(Clone, Copy, Debug)]
struct Remembered {
    mac: Mac,
    source_mac: Mac,
    until: u32,
}

/// A bandwidth and what is left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bucket {
    bytes_per_second: u64,
    /// Bytes that may be sent at once.
    level: u64,
    filled: u32,
}

pub(crate) struct Port {
    pub(crate) spec: PortSpec,
    pub(crate) index: u16,
    /// What every flow must have been composed for; goes up with every change that could matter to the port.
    pub(crate) generation: u32,
    pub(crate) layers: Vec<Layer>,
    next_layer: u16,
    v4: Flows<[u8; 4]>,
    v6: Flows<[u8; 16]>,
    templates: Vec<vxlan::Template>,
    template_of: FxHashMap<OuterView, u16>,
    tunnel_of: FxHashMap<TunnelId, u16>,
    last_tunnel: Option<(TunnelId, u16)>,
    pub(crate) pools: FxHashMap<PoolKey, Pool>,
    bindings: Vec<Option<Binding>>,
    free_bindings: Vec<u32>,
    paths: Paths,
    pub(crate) counters: [PortCounters; 2],
    rule_counters: FxHashMap<u32, RuleCounters>,
    meters: BTreeMap<u32, MeterCounters>,
    classes: [[FlowCounters; 6]; 2],
    fragments: Fragments,
    bucket: Option<Bucket>,
    next_hops: FxHashMap<IpAddr, Remembered>,
    /// Packets to the adapter need not pass the layers: nothing in them can concern one.
    pub(crate) plain_in: bool,
    /// MACs of destinations that load balancers chose: flows may outlive their destination's rule.
    dip_macs: FxHashMap<IpAddr, Mac>,
    /// The same for choices that did not rewrite the address, by their number.
    choice_macs: FxHashMap<u32, Mac>,
    /// Idle times in milliseconds, by state.
    limits: [u32; TcpState::COUNT],
    swept: [u32; 2],
}

/// How many tunnels packets may come in; beyond, all flows in tunnels are forgotten.
const MAX_TUNNELS: usize = 65_000;

fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX / 2)
}

impl Port {
    pub(crate) fn new(spec: PortSpec, index: u16, seed: u64) -> Self {
        let seed = crate::flow::key::fold(seed ^ u64::from(index), 0xA076_1D64_78BD_642F);
        let mut port = Self {
            index,
            generation: 0,
            layers: Vec::new(),
            next_layer: 0,
            v4: Flows::new(seed),
            v6: Flows::new(seed),
            templates: Vec::new(),
            template_of: FxHashMap::default(),
            tunnel_of: FxHashMap::default(),
            last_tunnel: None,
            pools: FxHashMap::default(),
            bindings: Vec::new(),
            free_bindings: Vec::new(),
            paths: Paths::default(),
            counters: [PortCounters::default(), PortCounters::default()],
            rule_counters: FxHashMap::default(),
            meters: BTreeMap::new(),
            classes: [[FlowCounters::default(); 6]; 2],
            fragments: Fragments::default(),
            bucket: None,
            next_hops: FxHashMap::default(),
            plain_in: false,
            dip_macs: FxHashMap::default(),
            choice_macs: FxHashMap::default(),
            limits: [0; TcpState::COUNT],
            swept: [0; 2],
            spec,
        };
        port.respec();
        port
    }

    /// Other properties; layers and flows stay.
    pub(crate) fn set_spec(&mut self, spec: PortSpec) {
        self.spec = spec;
        self.respec();
    }

    fn respec(&mut self) {
        let flows = &self.spec.flows;
        let (default, half) = (millis(flows.default_ttl), millis(flows.half_ttl));
        self.limits =
            [default, half, half, default, default, millis(flows.time_wait_ttl), millis(flows.reset_ttl)];
        for (direction, limits) in flows.limits.iter().enumerate() {
            for (class, &limit) in limits.iter().enumerate() {
                self.classes[direction][class].limit = limit;
            }
        }
    }

    /// UDP packets to this port number are looked into; 0: none.
    pub(crate) fn vxlan_port(&self, shared: &Shared) -> u16 {
        if self.spec.kind == PortKind::External { shared.settings.vxlan_port } else { 0 }
    }

    pub(crate) fn layer(&self, id: &str) -> Option<&Layer> {
        self.layers.iter().find(|layer| *layer.spec.id == *id)
    }

    pub(crate) fn layer_mut(&mut self, id: &str) -> Option<&mut Layer> {
        self.layers.iter_mut().find(|layer| *layer.spec.id == *id)
    }

    /// Makes a layer or replaces its properties.
    pub(crate) fn put_layer(&mut self, spec: LayerSpec, generation: u32) {
        if let Some(layer) = self.layer_mut(&Arc::clone(&spec.id)) {
            layer.spec = spec;
            layer.generation = generation;
        } else {
            let serial = self.next_layer;
            self.next_layer = self.next_layer.wrapping_add(1);
            self.layers.push(Layer { spec, serial, groups: Default::default(), generation });
        }
        self.layers.sort_by_key(|layer| layer.spec.priority);
    }

    /// Finds out whether packets to the adapter can skip the layers: no rule is for them, no connection that the
    /// adapter opened can have a decision that replies must follow, and nothing guards the port.
    pub(crate) fn reconsider(&mut self, shared: &Shared) {
        let unguarded = self.spec.enabled && !self.spec.guards.contains(Guards::BLOCK_BROADCAST);
        let idle = |layer: &Layer| {
            let [out, into] = &layer.groups;
            let mut groups = out.iter().flatten();
            let quiet = groups.all(|&group| {
                !layer.spec.stateful && shared.group(group).is_some_and(|group| !group.hairpins())
            });
            let passes =
                layer.spec.flags.contains(LayerFlags::DEFAULT_ALLOW) || out.iter().all(Vec::is_empty);
            into.iter().all(Vec::is_empty) && quiet && passes
        };
        self.plain_in = unguarded && self.layers.iter().all(idle);
    }

    /// Counts a packet that skips the layers on its way to the adapter.
    #[inline]
    pub(crate) fn let_through(&mut self, bytes: usize, tcp: u8) {
        let counters = &mut self.counters[1];
        counters.packets += 1;
        counters.bytes += bytes as u64;
        if tcp & 7 != 0 {
            counters.tcp(tcp);
        }
    }

    /// What a guard has against a frame, whatever is in it.
    pub(crate) fn guard_frame(&self, direction: Direction, to: Mac, from: Mac) -> Option<DropReason> {
        let guards = self.spec.guards;
        match direction {
            Direction::In if to.is_multicast() && guards.contains(Guards::BLOCK_BROADCAST) => {
                Some(DropReason::Broadcast)
            }
            Direction::Out if from != self.spec.mac && guards.contains(Guards::MAC) => {
                Some(DropReason::MacSpoofing)
            }
            _ => None,
        }
    }

    /// Tunnel headers are made anew.
    pub(crate) fn forget_templates(&mut self) {
        self.templates.clear();
        self.template_of.clear();
    }

    /// Makes sure that a batch cannot use up the numbers of tunnels: keys that were read must stay true.
    #[inline]
    pub(crate) fn spare_tunnels(&mut self) {
        if self.tunnel_of.len() >= MAX_TUNNELS {
            self.tunnel_of.clear();
            self.last_tunnel = None;
            self.forget_tunnelled();
        }
    }

    /// The number of a tunnel, for keys.
    #[inline]
    pub(crate) fn tunnel(&mut self, tunnel: Option<&TunnelId>) -> u16 {
        let Some(tunnel) = tunnel else { return 0 };
        if let Some((last, number)) = &self.last_tunnel
            && last == tunnel
        {
            return *number;
        }
        self.other_tunnel(tunnel)
    }

    fn other_tunnel(&mut self, tunnel: &TunnelId) -> u16 {
        let next = u16::try_from(self.tunnel_of.len() + 1).unwrap_or(u16::MAX);
        let number = *self.tunnel_of.entry(*tunnel).or_insert(next);
        self.last_tunnel = Some((*tunnel, number));
        number
    }

    #[cold]
    fn forget_tunnelled(&mut self) {
        self.remove_where::<[u8; 4]>(|pair| pair.halves.iter().any(|half| half.key.tunnel != 0));
        self.remove_where::<[u8; 16]>(|pair| pair.halves.iter().any(|half| half.key.tunnel != 0));
    }

    /// Removes flows; returns how many.
    pub(crate) fn remove_where<A: FlowFamily>(&mut self, mut which: impl FnMut(&Pair<A>) -> bool) -> usize {
        let gone: Vec<u32> =
            A::flows(self).table.iter().filter(|(_, pair)| which(pair)).map(|(number, _)| number).collect();
        for &number in &gone {
            self.remove_pair::<A>(number);
        }
        gone.len()
    }

    /// Removes one flow with all that hangs on it.
    pub(crate) fn remove_pair<A: FlowFamily>(&mut self, number: u32) {
        let flows = A::flows_mut(self);
        let pair = flows.table.remove(number);
        let bindings = flows.nodes.remove(pair.common.results);
        for binding in bindings {
            self.give_back(binding);
        }
        self.settle(&pair.common);
        self.uncount(&pair);
    }

    fn give_back(&mut self, number: u32) {
        if let Some(binding) = self.bindings.get_mut(number as usize).and_then(Option::take) {
            self.free_bindings.push(number);
            if let Some(pool) = self.pools.get_mut(&binding.pool) {
                pool.give_back(&binding);
            }
        }
    }

    fn lend(&mut self, binding: Binding) -> u32 {
        if let Some(number) = self.free_bindings.pop() {
            self.bindings[number as usize] = Some(binding);
            return number;
        }
        self.bindings.push(Some(binding));
        u32::try_from(self.bindings.len() - 1).unwrap_or(u32::MAX - 1)
    }

    /// The ports that are lent.
    pub(crate) fn bindings(&self) -> impl Iterator<Item = &Binding> {
        self.bindings.iter().flatten()
    }

    /// After how many milliseconds without a packet a flow is gone.
    #[inline]
    fn idle_limit(&self, common: &Common) -> u32 {
        if common.ttl != 0
            && matches!(common.state, TcpState::Plain | TcpState::Established | TcpState::HalfClosed)
        {
            return u32::from(common.ttl) * 1000;
        }
        self.limits[common.state as usize]
    }

    /// The outer header of a template.
    pub(crate) fn outer_of(&self, template: u16) -> Option<&OuterView> {
        self.template_of.iter().find(|(_, number)| **number == template).map(|(outer, _)| outer)
    }

    pub(crate) fn sighting_at(
        &self,
        direction: Direction,
        stage: Stage,
        group: u64,
        now: Duration,
        packet: &Packet,
    ) -> Sighting {
        Sighting { port: self.spec.name, direction, stage, group, now, offload: packet.offload }
    }

    /// Remembers a first fragment's ports, or gives them to a later one. False: the first was not seen.
    pub(crate) fn join_fragments<A: Addr>(
        &mut self,
        direction: Direction,
        seen: &mut Seen<A>,
        extra: Extra,
        (id, tunnel): (u32, u16),
        now: u32,
    ) -> bool {
        let ends = &mut seen.ends;
        let key = (ends.src.ip(), ends.dst.ip(), id, seen.meta.proto, direction.number(), tunnel);
        if extra.later {
            let Some((sport, dport)) = self.fragments.ports(&key, now) else { return false };
            ends.sport = sport;
            ends.dport = dport;
        } else {
            let flows = &self.spec.flows;
            let until = now.wrapping_add(millis(flows.fragment_ttl));
            self.fragments.remember(key, (ends.sport, ends.dport), now, until, flows.fragments);
        }
        true
    }

    /// Bytes of memory that flows take.
    pub(crate) fn memory(&self) -> usize {
        self.v4.table.memory()
            + self.v6.table.memory()
            + self.v4.nodes.memory()
            + self.v6.nodes.memory()
            + self.bindings.capacity() * size_of::<Option<Binding>>()
    }
}
