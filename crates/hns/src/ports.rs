//! The host's port space: what listeners, load balancers and port mappings hold, and the blocks of 64 that HNS
//! takes out of the dynamic range.
//!
//! TCP and UDP are apart, and so are IPv4 and IPv6 (Windows keeps a dynamic range for each of the four). What an
//! object holds follows from the object; this module keeps the sum, so that a clash is one look-up. Leaked
//! reservations (F-PORTLEAK) are the one thing here that no object accounts for.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use hcn::Guid;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::host::{DynamicPorts, Protocol};

mod report;

pub use report::{PortReport, SpaceReport};

/// How many ports HNS takes at once for a source-translating pool.
pub const BLOCK: u16 = 64;

/// One of the four port spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Space {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// IPv6 or IPv4.
    pub ipv6: bool,
}

impl Space {
    /// All four.
    pub const ALL: [Self; 4] = [
        Self { protocol: Protocol::Tcp, ipv6: false },
        Self { protocol: Protocol::Udp, ipv6: false },
        Self { protocol: Protocol::Tcp, ipv6: true },
        Self { protocol: Protocol::Udp, ipv6: true },
    ];

    fn index(self) -> usize {
        usize::from(self.protocol == Protocol::Udp) + 2 * usize::from(self.ipv6)
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.protocol, if self.ipv6 { "v6" } else { "v4" })
    }
}

/// A port of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// Where.
    pub space: Space,
    /// On this address only; none: on every address.
    pub vip: Option<IpAddr>,
    /// The number.
    pub port: u16,
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.vip {
            Some(vip) => write!(f, "{} port {} on {vip}", self.space, self.port),
            None => write!(f, "{} port {}", self.space, self.port),
        }
    }
}

/// A block of [`BLOCK`] ports of the dynamic range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Block {
    /// Where.
    pub space: Space,
    /// Its place in the range, from 0.
    pub index: u16,
}

/// Who holds a port or a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Holder {
    /// A process of the host.
    Listener,
    /// A load balancer.
    LoadBalancer(Guid),
    /// An endpoint: a port mapping or an OutBoundNAT pool.
    Endpoint(Guid),
    /// Nobody any more: a reservation that outlived this object.
    Leaked {
        /// The object that had it.
        by: Guid,
        /// When it ends, in the clock's time; none: never.
        until: Option<Duration>,
    },
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listener => f.write_str("a process of the host"),
            Self::LoadBalancer(id) => write!(f, "load balancer {id}"),
            Self::Endpoint(id) => write!(f, "endpoint {id}"),
            Self::Leaked { by, .. } => write!(f, "a reservation left over from {by}"),
        }
    }
}

impl Holder {
    fn same(&self, other: &Self) -> bool {
        matches!(
            (self, other),
            (Self::LoadBalancer(a), Self::LoadBalancer(b)) | (Self::Endpoint(a), Self::Endpoint(b)) if a == b
        )
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct One {
    range: RangeInclusive<u16>,
    ports: FxHashMap<(Option<IpAddr>, u16), Vec<Holder>>,
    blocks: Vec<Option<Holder>>,
    /// Single ports held in each block; a block with any is not given out.
    singles: Vec<u16>,
    free: BTreeSet<u16>,
}

impl One {
    fn new(range: &RangeInclusive<u16>) -> Self {
        // 32 bits: the range may have all 65,536 ports.
        let length = if range.is_empty() { 0 } else { u32::from(range.end() - range.start()) + 1 };
        let count = u16::try_from(length / u32::from(BLOCK)).unwrap_or(0);
        Self {
            range: range.clone(),
            ports: FxHashMap::default(),
            blocks: vec![None; usize::from(count)],
            singles: vec![0; usize::from(count)],
            free: (0..count).collect(),
        }
    }

    fn block_of(&self, port: u16) -> Option<u16> {
        let index = port.checked_sub(*self.range.start())? / BLOCK;
        (usize::from(index) < self.blocks.len()).then_some(index)
    }

    fn claim(&mut self, vip: Option<IpAddr>, port: u16, holder: Holder) {
        self.ports.entry((vip, port)).or_default().push(holder);
        if let Some(index) = self.block_of(port) {
            self.singles[usize::from(index)] += 1;
            self.free.remove(&index);
        }
    }

    fn release(&mut self, vip: Option<IpAddr>, port: u16, gone: impl Fn(&Holder) -> bool) -> bool {
        let Some(holders) = self.ports.get_mut(&(vip, port)) else {
            return false;
        };
        let Some(at) = holders.iter().position(gone) else {
            return false;
        };
        holders.swap_remove(at);
        if holders.is_empty() {
            self.ports.remove(&(vip, port));
        }
        if let Some(index) = self.block_of(port) {
            self.singles[usize::from(index)] -= 1;
            self.settle(index);
        }
        true
    }

    fn settle(&mut self, index: u16) {
        let at = usize::from(index);
        if self.singles[at] == 0 && self.blocks[at].is_none() {
            self.free.insert(index);
        }
    }
}

/// The sum of what is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ports {
    spaces: [One; 4],
    lost_singles: Vec<(HostPort, Guid, Option<Duration>)>,
    lost_blocks: Vec<(Block, Guid, Option<Duration>)>,
}

impl Ports {
    pub(crate) fn new(dynamic: &DynamicPorts) -> Self {
        Self {
            spaces: Space::ALL.map(|space| One::new(dynamic.of(space.protocol))),
            lost_singles: Vec::new(),
            lost_blocks: Vec::new(),
        }
    }

    fn space(&self, space: Space) -> &One {
        &self.spaces[space.index()]
    }

    fn space_mut(&mut self, space: Space) -> &mut One {
        &mut self.spaces[space.index()]
    }

    /// Who, other than `me`, holds the port.
    pub(crate) fn holder(&self, port: HostPort, me: Holder) -> Option<Holder> {
        let space = self.space(port.space);
        let single = space
            .ports
            .get(&(port.vip, port.port))
            .and_then(|holders| holders.iter().find(|holder| !holder.same(&me)))
            .copied();
        // A port on every address inside a block is the block's.
        let block = || {
            let index = space.block_of(port.port).filter(|_| port.vip.is_none())?;
            space.blocks[usize::from(index)].filter(|holder| !holder.same(&me))
        };
        single.or_else(block)
    }

    /// Whether a process of the host listens on the port.
    pub(crate) fn is_listening(&self, space: Space, port: u16) -> bool {
        let holders = self.space(space).ports.get(&(None, port));
        holders.is_some_and(|holders| holders.contains(&Holder::Listener))
    }

    pub(crate) fn claim(&mut self, port: HostPort, holder: Holder) {
        self.space_mut(port.space).claim(port.vip, port.port, holder);
    }

    pub(crate) fn release(&mut self, port: HostPort, holder: Holder) {
        self.space_mut(port.space).release(port.vip, port.port, |held| held.same(&holder));
    }

    /// The lowest free blocks, or how many there are when that is too few.
    pub(crate) fn free_blocks(&self, space: Space, wanted: u32) -> Result<Vec<Block>, usize> {
        let free = &self.space(space).free;
        if free.len() < wanted as usize {
            return Err(free.len());
        }
        Ok(free.iter().take(wanted as usize).map(|&index| Block { space, index }).collect())
    }

    /// Takes a block. A block that is no more (the host's range shrank between runs) is passed over.
    pub(crate) fn claim_block(&mut self, block: Block, holder: Holder) {
        let space = self.space_mut(block.space);
        if let Some(slot) = space.blocks.get_mut(usize::from(block.index)) {
            *slot = Some(holder);
            space.free.remove(&block.index);
        }
    }

    pub(crate) fn release_block(&mut self, block: Block, holder: Holder) {
        let space = self.space_mut(block.space);
        if let Some(slot) = space.blocks.get_mut(usize::from(block.index))
            && slot.is_some_and(|held| held.same(&holder))
        {
            *slot = None;
            space.settle(block.index);
        }
    }

    /// A process of the host starts to listen, on both families; the holder when the port is taken.
    pub(crate) fn listen(&mut self, protocol: Protocol, port: u16) -> Result<(), (HostPort, Holder)> {
        let on = |ipv6| HostPort { space: Space { protocol, ipv6 }, vip: None, port };
        for ipv6 in [false, true] {
            if let Some(holder) = self.holder(on(ipv6), Holder::Listener) {
                return Err((on(ipv6), holder));
            }
        }
        for ipv6 in [false, true] {
            self.claim(on(ipv6), Holder::Listener);
        }
        Ok(())
    }

    /// A process of the host stops listening; false when none did.
    pub(crate) fn unlisten(&mut self, protocol: Protocol, port: u16) -> bool {
        let mut was = false;
        for ipv6 in [false, true] {
            let space = self.space_mut(Space { protocol, ipv6 });
            was |= space.release(None, port, |held| *held == Holder::Listener);
        }
        was
    }

    /// What an object held stays taken although it is gone.
    pub(crate) fn leak(&mut self, ports: &[HostPort], blocks: &[Block], by: Guid, until: Option<Duration>) {
        for &port in ports {
            self.claim(port, Holder::Leaked { by, until });
            self.lost_singles.push((port, by, until));
        }
        for &block in blocks {
            self.claim_block(block, Holder::Leaked { by, until });
            self.lost_blocks.push((block, by, until));
        }
    }

    /// Ends the leaked reservations whose time is over.
    pub(crate) fn expire(&mut self, now: Duration) {
        if self.lost_singles.is_empty() && self.lost_blocks.is_empty() {
            return;
        }
        let over = |until: &Option<Duration>| until.is_some_and(|until| until <= now);
        for (port, by, until) in
            self.lost_singles.extract_if(.., |(_, _, until)| over(until)).collect::<Vec<_>>()
        {
            let leak = Holder::Leaked { by, until };
            self.space_mut(port.space).release(port.vip, port.port, |held| *held == leak);
        }
        for (block, ..) in self.lost_blocks.extract_if(.., |(_, _, until)| over(until)).collect::<Vec<_>>() {
            let space = self.space_mut(block.space);
            if let Some(slot) = space.blocks.get_mut(usize::from(block.index)) {
                *slot = None;
                space.settle(block.index);
            }
        }
    }

    /// The listeners and leaks, which no object accounts for, taken over into a fresh space.
    pub(crate) fn carry_over(&self, dynamic: &DynamicPorts) -> Self {
        let mut fresh = Self::new(dynamic);
        for protocol in Protocol::ALL {
            let space = self.space(Space { protocol, ipv6: false });
            for (&(_, port), holders) in &space.ports {
                if holders.contains(&Holder::Listener) {
                    // The fresh space has listeners only, and each port once.
                    let _ = fresh.listen(protocol, port);
                }
            }
        }
        for &(port, by, until) in &self.lost_singles {
            fresh.leak(&[port], &[], by, until);
        }
        for &(block, by, until) in &self.lost_blocks {
            fresh.leak(&[], &[block], by, until);
        }
        fresh
    }
}

#[cfg(test)]
mod tests;
