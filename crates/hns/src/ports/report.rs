//! What is held of the host's port space, for people and tests.

use std::fmt;
use std::ops::RangeInclusive;

use super::{BLOCK, Holder, HostPort, Ports, Space};

/// All four port spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortReport {
    /// One report per space, in the order of [`Space::ALL`].
    pub spaces: Vec<SpaceReport>,
}

/// One port space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceReport {
    /// Which.
    pub space: Space,
    /// The dynamic range.
    pub range: RangeInclusive<u16>,
    /// Blocks in the range.
    pub total: usize,
    /// Blocks that can still be given out.
    pub free: usize,
    /// Taken blocks: their ports and who holds them, by port.
    pub blocks: Vec<(RangeInclusive<u16>, Holder)>,
    /// Ports held one by one, by number.
    pub ports: Vec<(HostPort, Holder)>,
}

impl PortReport {
    /// The report of one space.
    pub fn space(&self, space: Space) -> Option<&SpaceReport> {
        self.spaces.iter().find(|report| report.space == space)
    }
}

impl Ports {
    pub(crate) fn report(&self) -> PortReport {
        let spaces = Space::ALL
            .into_iter()
            .map(|space| {
                let one = self.space(space);
                let blocks = (0u16..).zip(&one.blocks).filter_map(|(index, holder)| {
                    let first = *one.range.start() + index * BLOCK;
                    holder.map(|holder| (first..=first + (BLOCK - 1), holder))
                });
                let mut ports: Vec<(HostPort, Holder)> = one
                    .ports
                    .iter()
                    .flat_map(|(&(vip, port), holders)| {
                        holders.iter().map(move |&holder| (HostPort { space, vip, port }, holder))
                    })
                    .collect();
                ports.sort_unstable_by_key(|&(port, holder)| (port.port, port.vip, holder));
                SpaceReport {
                    space,
                    range: one.range.clone(),
                    total: one.blocks.len(),
                    free: one.free.len(),
                    blocks: blocks.collect(),
                    ports,
                }
            })
            .collect();
        PortReport { spaces }
    }
}

impl fmt::Display for PortReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for report in &self.spaces {
            let (first, last) = (report.range.start(), report.range.end());
            writeln!(
                f,
                "{}: {} of {} blocks free in {first}-{last}, {} single ports",
                report.space,
                report.free,
                report.total,
                report.ports.len()
            )?;
            for (ports, holder) in &report.blocks {
                writeln!(f, "  {}-{}  {holder}", ports.start(), ports.end())?;
            }
            for (port, holder) in &report.ports {
                match port.vip {
                    Some(vip) => writeln!(f, "  {} on {vip}  {holder}", port.port)?,
                    None => writeln!(f, "  {}  {holder}", port.port)?,
                }
            }
        }
        Ok(())
    }
}
