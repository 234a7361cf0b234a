//! The life of flows: TCP states, idle times, expiry.

use super::{FlowFamily, Port};
use crate::flow::pair::{Bits, Common, TcpState};
use crate::model::{Direction, PoolKey};
use crate::nat::{Ask, Binding};

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// What a TCP packet did to its connection.
#[expect(clippy::struct_excessive_bools, reason = "one packet may do several of these")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) left_half_open: bool,
    pub(crate) verified: bool,
    pub(crate) reset: bool,
    pub(crate) closed: bool,
}

/// A packet of one half (0: the main way) moves a connection on.
pub(crate) fn advance(common: &mut Common, half: usize, flags: u8) -> Moved {
    let mut moved = Moved::default();
    let before = common.state;
    if before == TcpState::Plain {
        return moved;
    }
    if flags & RST != 0 {
        moved.reset = before != TcpState::Reset;
        common.state = TcpState::Reset;
    } else {
        match (before, half) {
            (TcpState::SynSent, 1) if flags & (SYN | ACK) == SYN | ACK => {
                common.state = TcpState::SynReceived;
            }
            // The handshake's last packet; or replies that pass by elsewhere.
            (TcpState::SynSent | TcpState::SynReceived, 0) if flags & (SYN | ACK) == ACK => {
                moved.verified = before == TcpState::SynReceived;
                common.state = TcpState::Established;
            }
            _ => {}
        }
        if flags & FIN != 0 && !common.state.is_over() {
            common.bits |= if half == 0 { Bits::FIN_MAIN } else { Bits::FIN_REPLY };
            if common.bits.contains(Bits::FIN_MAIN | Bits::FIN_REPLY) {
                moved.closed = true;
                common.state = TcpState::TimeWait;
            } else {
                common.state = TcpState::HalfClosed;
            }
        }
    }
    moved.left_half_open = before.is_half_open() && !common.state.is_half_open();
    moved
}

impl Port {
    /// Takes note of a TCP packet of a flow.
    pub(crate) fn track<A: FlowFamily>(&mut self, pair: u32, half: usize, flags: u8) {
        let pair = A::flows_mut(self).table.pair_mut(pair);
        let moved = advance(&mut pair.common, half, flags);
        let main = pair.halves[0].key.direction;
        if moved.left_half_open {
            self.no_longer_half_open(main);
        }
        let counters = &mut self.counters[usize::from(main)];
        counters.verified += u64::from(moved.verified);
        counters.reset += u64::from(moved.reset);
        counters.closed_by_fin += u64::from(moved.closed);
    }

    /// A flow was idle for too long.
    pub(crate) fn is_expired(&self, common: &Common, now: u32) -> bool {
        now.wrapping_sub(common.seen) >= self.idle_limit(common)
    }

    /// Milliseconds until a flow is gone if no packet comes.
    pub(crate) fn idle_left(&self, common: &Common, now: u32) -> u32 {
        self.idle_limit(common).saturating_sub(now.wrapping_sub(common.seen))
    }

    /// Removes a flow that was idle for too long, and counts why.
    pub(crate) fn expire<A: FlowFamily>(&mut self, number: u32) {
        let pair = A::flows(self).table.pair(number);
        let (state, main) = (pair.common.state, pair.halves[0].key.direction);
        let counters = &mut self.counters[usize::from(main)];
        match state {
            TcpState::SynSent | TcpState::SynReceived => counters.half_open_timeouts += 1,
            TcpState::TimeWait => counters.expired_to_time_wait += 1,
            TcpState::Reset => {}
            TcpState::Plain | TcpState::Established | TcpState::HalfClosed => counters.timed_out += 1,
        }
        self.remove_pair::<A>(number);
    }

    /// Looks at some flows and removes those that were idle for too long. Calling it often enough goes round all of
    /// them; a call looks at `budget` of each family.
    pub(crate) fn sweep(&mut self, now: u32, budget: u32) {
        self.sweep_family::<[u8; 4]>(0, now, budget);
        self.sweep_family::<[u8; 16]>(1, now, budget);
    }

    fn sweep_family<A: FlowFamily>(&mut self, family: usize, now: u32, budget: u32) {
        let end = A::flows(self).table.end();
        for _ in 0..budget.min(end) {
            if self.swept[family] >= end {
                self.swept[family] = 0;
            }
            let number = self.swept[family];
            self.swept[family] += 1;
            let table = &A::flows(self).table;
            if table.is_live(number) && self.is_expired(&table.pair(number).common, now) {
                self.expire::<A>(number);
            }
        }
    }

    /// Ends the connection that waits longest in TIME_WAIT with a port of the pool, among those whose end makes room for
    /// what is asked. False: there is none.
    pub(crate) fn reclaim(&mut self, key: &PoolKey, ask: &Ask) -> bool {
        let Some(pool) = self.pools.get(key) else { return false };
        let helps = |binding: &&Binding| binding.pool == *key && pool.would_serve(binding, ask);
        let over = self.bindings().filter(helps).filter_map(|binding| {
            let (pair, v6) = binding.flow?;
            let common = if v6 { &self.v6.table.pair(pair).common } else { &self.v4.table.pair(pair).common };
            common.state.is_over().then_some((common.seen, pair, v6))
        });
        match over.min() {
            Some((_, pair, true)) => self.remove_pair::<[u8; 16]>(pair),
            Some((_, pair, false)) => self.remove_pair::<[u8; 4]>(pair),
            None => return false,
        }
        true
    }

    /// How many flows there are.
    pub(crate) fn flow_count(&self) -> usize {
        self.v4.table.len() + self.v6.table.len()
    }

    /// Flows of both families as dumps show them.
    pub(crate) fn each_flow(&self, mut see: impl FnMut(crate::dump::Raw<'_>)) {
        for (number, pair) in self.v4.table.iter() {
            see(crate::dump::Raw::V4(number, pair));
        }
        for (number, pair) in self.v6.table.iter() {
            see(crate::dump::Raw::V6(number, pair));
        }
    }

    /// The direction that opened a flow counts it.
    pub(crate) fn counters_of(&mut self, direction: Direction) -> &mut crate::counters::PortCounters {
        &mut self.counters[direction.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_move_as_the_table_says() {
        use TcpState::{Established, HalfClosed, Plain, Reset, SynReceived, SynSent, TimeWait};
        let table: &[(TcpState, usize, u8, TcpState)] = &[
            (SynSent, 0, SYN, SynSent),
            (SynSent, 1, SYN | ACK, SynReceived),
            (SynSent, 1, ACK, SynSent),
            (SynSent, 0, ACK, Established),
            (SynReceived, 0, ACK, Established),
            (SynReceived, 1, SYN | ACK, SynReceived),
            (SynReceived, 1, ACK, SynReceived),
            (SynReceived, 1, RST, Reset),
            (Established, 0, ACK, Established),
            (Established, 0, FIN | ACK, HalfClosed),
            (Established, 1, FIN | ACK, HalfClosed),
            (Established, 1, RST, Reset),
            (TimeWait, 0, FIN | ACK, TimeWait),
            (TimeWait, 0, RST, Reset),
            (Reset, 0, RST, Reset),
            (Reset, 1, FIN, Reset),
            (Plain, 0, FIN, Plain),
        ];
        for &(before, half, flags, after) in table {
            let mut common = Common { state: before, ..Common::default() };
            let moved = advance(&mut common, half, flags);
            assert_eq!(common.state, after, "{before:?} half {half} flags {flags:#x}");
            assert_eq!(moved.left_half_open, before.is_half_open() && !after.is_half_open());
        }
        let mut common = Common { state: Established, ..Common::default() };
        assert!(!advance(&mut common, 0, FIN | ACK).closed);
        assert!(advance(&mut common, 1, FIN | ACK).closed);
        assert_eq!(common.state, TimeWait);
    }
}
