//! Changes to a switch's policy: checked as a whole, then done.

mod check;
mod make;

use std::net::IpAddr;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::model::{ApplyError, Change, PortKind};
use crate::port::Port;
use crate::shared::{Brief, Owned, Shared};
use crate::switch::Switch;
use check::Draft;

impl Switch {
    /// Does all changes of a list, or none of them. No packet sees a part.
    pub fn apply(&mut self, changes: &[Change]) -> Result<(), ApplyError> {
        let mut draft = Draft::default();
        for (index, change) in changes.iter().enumerate() {
            self.check(change, &mut draft).map_err(|what| ApplyError { index, what })?;
        }
        if changes.is_empty() {
            return Ok(());
        }
        self.shared.clock = self.shared.clock.wrapping_add(1);
        let mut touched = Touched::default();
        for change in changes {
            self.make(change, &mut touched);
        }
        self.after(&touched);
        Ok(())
    }

    /// Brings what follows from the policy up to date, and tells the ports that are concerned.
    fn after(&mut self, touched: &Touched) {
        let mut groups = touched.groups.clone();
        if !touched.tags.is_empty() {
            let clock = self.shared.clock;
            for (number, group) in self.shared.groups.iter_mut().enumerate() {
                if let Some(group) = group
                    && touched.tags.iter().any(|tag| group.names_tag(tag))
                {
                    group.generation = clock;
                    groups.insert(u32::try_from(number).unwrap_or(u32::MAX));
                }
            }
        }
        if touched.forwarding {
            self.file_ports();
        }
        if touched.owners || touched.forwarding {
            self.file_owners();
        }
        let everybody = touched.all || touched.forwarding || touched.owners;
        let shared = &self.shared;
        for port in self.ports.iter_mut().flatten() {
            let mut concerned = everybody || touched.ports.contains(&port.index);
            if !concerned && !groups.is_empty() {
                let mut used = port.layers.iter().flat_map(|layer| layer.groups.iter().flatten().flatten());
                concerned = used.any(|group| groups.contains(group));
            }
            if !touched.resort.is_empty() && touched.ports.contains(&port.index)
                || touched.resort.iter().any(|group| groups.contains(group))
            {
                resort(port, shared);
            }
            if touched.all {
                port.forget_templates();
            }
            if concerned {
                port.generation = port.generation.wrapping_add(1);
                port.reconsider(shared);
            }
        }
    }

    fn file_ports(&mut self) {
        let shared = &mut self.shared;
        shared.ports.clear();
        shared.mtus.clear();
        shared.macs.clear();
        shared.external = None;
        for (index, port) in self.ports.iter().enumerate() {
            shared.mtus.push(port.as_ref().map_or(u16::MAX, |port| port.spec.mtu));
            shared.ports.push(port.as_ref().map(|port| Brief {
                name: port.spec.name,
                kind: port.spec.kind,
                segment: port.spec.segment,
                mac: port.spec.mac,
                addresses: port.spec.addresses.clone(),
                vlan: port.spec.vlan,
            }));
            let (Some(port), Ok(index)) = (port, u16::try_from(index)) else { continue };
            match port.spec.kind {
                PortKind::External => shared.external = Some(index),
                _ => shared.macs.entry(port.spec.mac).or_default().push(index),
            }
        }
    }

    fn file_owners(&mut self) {
        let mut owners: FxHashMap<(IpAddr, u8), Vec<Owned>> = FxHashMap::default();
        for port in self.ports.iter().flatten() {
            for pool in port.pools.values() {
                for range in &pool.ranges {
                    let (first, last) = (range.first, range.last);
                    let owned = Owned { first, last, reach: last, port: port.index };
                    owners.entry((range.address, pool.protocol)).or_default().push(owned);
                }
            }
        }
        for ranges in owners.values_mut() {
            ranges.sort_unstable_by_key(|range| (range.first, range.last, range.port));
            let mut reach = 0;
            for range in ranges {
                reach = reach.max(range.last);
                range.reach = reach;
            }
        }
        self.shared.owners = owners;
    }
}

/// What a list of changes concerns.
#[derive(Default)]
struct Touched {
    /// Settings or segments.
    all: bool,
    forwarding: bool,
    owners: bool,
    ports: FxHashSet<u16>,
    groups: FxHashSet<u32>,
    resort: FxHashSet<u32>,
    tags: FxHashSet<String>,
}

/// Puts a port's groups where their direction, family and priority say.
fn resort(port: &mut Port, shared: &Shared) {
    for layer in &mut port.layers {
        let mut all: Vec<u32> = layer.groups.iter_mut().flatten().flat_map(std::mem::take).collect();
        all.sort_unstable_by_key(|&number| {
            let group = shared.group(number);
            (group.map(|group| group.priority), group.map(|group| group.key.clone()))
        });
        all.dedup();
        for number in all {
            let Some(group) = shared.group(number) else { continue };
            layer.groups[group.direction.index()][group.family as usize].push(number);
        }
    }
}
