//! What a port counts: flows by class, packets by rule and meter.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::Port;
use crate::counters::{FlowCounters, MeterCounters, RuleCounters};
use crate::flow::key::Addr;
use crate::flow::pair::{Common, Pair};
use crate::model::{Direction, FlowClass};

impl Port {
    /// Adds what a flow counted to its rules and meters.
    pub(super) fn settle(&mut self, common: &Common) {
        for half in 0..2 {
            let path = common.paths[half];
            if let Some(entry) = self.paths.get(path) {
                for &serial in &entry.rules {
                    let counters = self.rule_counters.entry(serial).or_default();
                    counters.matched_packets += common.packets[half];
                    if entry.drops && Some(&serial) == entry.rules.last() {
                        counters.dropped_packets += common.packets[half];
                    }
                }
                for &class in &entry.meters {
                    let meter = self.meters.entry(class).or_default();
                    meter.packets += common.packets[half];
                    meter.bytes += common.bytes[half];
                }
            }
            self.paths.release(path);
        }
    }

    /// Which limits a flow counts against.
    fn classes_of<A: Addr>(pair: &Pair<A>) -> [Option<FlowClass>; 4] {
        let half_open = pair.common.state.is_half_open().then_some(FlowClass::HalfOpen);
        let class = match pair.halves[0].key.proto {
            wire::proto::TCP => FlowClass::Tcp,
            wire::proto::UDP => FlowClass::Udp,
            _ => FlowClass::Other,
        };
        [Some(FlowClass::Total), Some(class), half_open, Some(FlowClass::TotalEntry)]
    }

    /// Whether one more such flow is allowed.
    pub(super) fn has_room<A: Addr>(&self, pair: &Pair<A>) -> bool {
        let direction = usize::from(pair.halves[0].key.direction);
        Self::classes_of(pair).into_iter().flatten().all(|class| {
            let counters = &self.classes[direction][class as usize];
            counters.count < counters.limit
        })
    }

    pub(super) fn count<A: Addr>(&mut self, pair: &Pair<A>) {
        let direction = usize::from(pair.halves[0].key.direction);
        for class in Self::classes_of(pair).into_iter().flatten() {
            let counters = &mut self.classes[direction][class as usize];
            counters.count += 1;
            counters.created += 1;
            counters.maximum = counters.maximum.max(counters.count);
        }
    }

    pub(super) fn uncount<A: Addr>(&mut self, pair: &Pair<A>) {
        let direction = usize::from(pair.halves[0].key.direction);
        for class in Self::classes_of(pair).into_iter().flatten() {
            let counters = &mut self.classes[direction][class as usize];
            counters.count = counters.count.saturating_sub(1);
        }
    }

    /// A flow's handshake is over, one way or the other.
    pub(super) fn no_longer_half_open(&mut self, direction: u8) {
        let counters = &mut self.classes[usize::from(direction)][FlowClass::HalfOpen as usize];
        counters.count = counters.count.saturating_sub(1);
    }

    /// Counters of flow classes.
    pub(crate) fn flow_counters(&self, direction: Direction) -> &[FlowCounters; 6] {
        &self.classes[direction.index()]
    }

    /// Counters of rules, flows that live included, by serial.
    pub(crate) fn rule_totals(&self) -> FxHashMap<u32, RuleCounters> {
        let mut totals = self.rule_counters.clone();
        let mut add = |common: &Common| {
            for half in 0..2 {
                if let Some(entry) = self.paths.get(common.paths[half]) {
                    for &serial in &entry.rules {
                        let counters = totals.entry(serial).or_default();
                        counters.matched_packets += common.packets[half];
                        if entry.drops && Some(&serial) == entry.rules.last() {
                            counters.dropped_packets += common.packets[half];
                        }
                    }
                }
            }
        };
        self.v4.table.iter().for_each(|(_, pair)| add(&pair.common));
        self.v6.table.iter().for_each(|(_, pair)| add(&pair.common));
        totals
    }

    /// Counters of meter classes, flows that live included.
    pub(crate) fn meter_totals(&self) -> BTreeMap<u32, MeterCounters> {
        let mut totals = self.meters.clone();
        let mut add = |common: &Common| {
            for half in 0..2 {
                if let Some(entry) = self.paths.get(common.paths[half]) {
                    for &class in &entry.meters {
                        let meter = totals.entry(class).or_default();
                        meter.packets += common.packets[half];
                        meter.bytes += common.bytes[half];
                    }
                }
            }
        };
        self.v4.table.iter().for_each(|(_, pair)| add(&pair.common));
        self.v6.table.iter().for_each(|(_, pair)| add(&pair.common));
        totals
    }
}
