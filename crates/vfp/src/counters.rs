//! Counters of ports, rules and meters.

use serde::Serialize;

use crate::DropReason;

/// Counters of one direction of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PortCounters {
    /// Packets that came to the layers.
    pub packets: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// TCP SYN without ACK.
    pub syn: u64,
    /// TCP SYN with ACK.
    pub syn_ack: u64,
    /// TCP FIN.
    pub fin: u64,
    /// TCP RST.
    pub rst: u64,
    /// Handshakes that were completed.
    pub verified: u64,
    /// Connections that were idle for too long.
    pub timed_out: u64,
    /// Handshakes that were not completed in time.
    pub half_open_timeouts: u64,
    /// Connections that were reset.
    pub reset: u64,
    /// Connections that a new SYN replaced.
    pub reset_by_syn: u64,
    /// Connections that a policy change blocked and that were reset.
    pub reset_injected: u64,
    /// Connections that both ends closed.
    pub closed_by_fin: u64,
    /// Those whose time of waiting is over.
    pub expired_to_time_wait: u64,
    /// Packets that took the slow path.
    pub slow: u64,
    /// Flows that were looked at again after a policy change.
    pub resimulated: u64,
    /// Dropped packets, in the order of [`DropReason::ALL`].
    pub drops: [u64; DropReason::ALL.len()],
}

impl Default for PortCounters {
    fn default() -> Self {
        Self {
            packets: 0,
            bytes: 0,
            syn: 0,
            syn_ack: 0,
            fin: 0,
            rst: 0,
            verified: 0,
            timed_out: 0,
            half_open_timeouts: 0,
            reset: 0,
            reset_by_syn: 0,
            reset_injected: 0,
            closed_by_fin: 0,
            expired_to_time_wait: 0,
            slow: 0,
            resimulated: 0,
            drops: [0; DropReason::ALL.len()],
        }
    }
}

impl PortCounters {
    /// Packets dropped for one reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason.index()]
    }

    /// Packets dropped.
    pub fn dropped_total(&self) -> u64 {
        self.drops.iter().sum()
    }

    /// Counts the flags of a TCP packet.
    #[inline]
    pub(crate) fn tcp(&mut self, flags: u8) {
        if flags & 2 != 0 {
            if flags & 16 != 0 {
                self.syn_ack += 1;
            } else {
                self.syn += 1;
            }
        }
        self.fin += u64::from(flags & 1);
        self.rst += u64::from(flags >> 2 & 1);
    }
}

/// Counters of a rule on one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RuleCounters {
    /// Packets that it decided, by itself or through flows.
    pub matched_packets: u64,
    /// Those that were dropped.
    pub dropped_packets: u64,
    /// Those that waited for a next hop.
    pub pending_packets: u64,
    /// Flows that it ended.
    pub dropped_flows: u64,
}

/// Counters of one flow class of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FlowCounters {
    /// Now.
    pub count: u32,
    /// At most.
    pub limit: u32,
    /// The most that there were.
    pub maximum: u32,
    /// Ever made.
    pub created: u64,
}

/// Packets and bytes of a meter class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MeterCounters {
    /// Packets.
    pub packets: u64,
    /// Bytes of IP.
    pub bytes: u64,
}
