//! A wire that is worse than it could be: cut, lossy, slow.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hcn::time::Entropy;
use serde::{Deserialize, Serialize};
use wire::Packet;

/// How many frames are under way on a slow wire in each direction; what comes then is lost.
const MOST: usize = 4096;

/// How a wire is worse than it could be. The default is a good one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Degraded {
    /// Nothing passes.
    pub cut: bool,
    /// The part of frames that is lost, 0 to 1, each way.
    pub loss: f64,
    /// How long each frame takes, each way.
    pub delay: Duration,
    /// Bytes of frames that pass in a second, each way; 0: as many as come.
    pub rate: u64,
}

/// What a degraded wire took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkCounters {
    /// Frames that were lost.
    pub lost: u64,
    /// Frames that were late.
    pub delayed: u64,
}

/// What becomes of a frame.
pub(super) enum Fate {
    Passes(Packet),
    Lost(Packet),
    Later,
}

pub(super) struct Link {
    degraded: Degraded,
    entropy: Arc<dyn Entropy>,
    /// When each frame arrives, whether from outside; in order.
    queue: VecDeque<(Duration, bool, Packet)>,
    /// When the wire has sent all that it was given, outbound and inbound.
    free: [Duration; 2],
    counters: LinkCounters,
}

impl Link {
    pub(super) fn new(entropy: Arc<dyn Entropy>) -> Self {
        Self {
            degraded: Degraded::default(),
            entropy,
            queue: VecDeque::new(),
            free: [Duration::ZERO; 2],
            counters: LinkCounters::default(),
        }
    }

    pub(super) fn set(&mut self, degraded: Degraded) {
        self.degraded = degraded;
    }

    pub(super) fn degraded(&self) -> Degraded {
        self.degraded
    }

    /// Whether frames must be asked about.
    pub(super) fn is_degraded(&self) -> bool {
        self.degraded != Degraded::default() || !self.queue.is_empty()
    }

    pub(super) fn fate(&mut self, now: Duration, inbound: bool, packet: Packet) -> Fate {
        let lost = self.degraded.cut
            || (self.degraded.loss > 0.0 && self.entropy.unit() < self.degraded.loss)
            || self.queue.len() >= 2 * MOST;
        if lost {
            self.counters.lost += 1;
            return Fate::Lost(packet);
        }
        // Behind others that are under way, so that none overtakes.
        let behind = self.queue.iter().rev().find(|(_, way, _)| *way == inbound).map(|(due, ..)| *due);
        if self.degraded.delay.is_zero() && self.degraded.rate == 0 && behind.is_none() {
            return Fate::Passes(packet);
        }
        let sent = self.sent(now, inbound, packet.len());
        let due = (sent + self.degraded.delay).max(behind.unwrap_or_default());
        self.counters.delayed += 1;
        let small = if packet.capacity() > 4 * packet.len() { packet.clone() } else { packet };
        let at = self.queue.partition_point(|(other, ..)| *other <= due);
        self.queue.insert(at, (due, inbound, small));
        Fate::Later
    }

    /// When a frame is sent as a whole.
    fn sent(&mut self, now: Duration, inbound: bool, bytes: usize) -> Duration {
        if self.degraded.rate == 0 {
            return now;
        }
        let nanos = u128::from(bytes as u64) * 1_000_000_000 / u128::from(self.degraded.rate);
        let free = &mut self.free[usize::from(inbound)];
        *free = now.max(*free) + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        *free
    }

    pub(super) fn next_due(&self) -> Option<Duration> {
        self.queue.front().map(|(due, ..)| *due)
    }

    /// A frame that has arrived, and whether it comes from outside.
    pub(super) fn take_due(&mut self, now: Duration) -> Option<(bool, Packet)> {
        self.queue.front().filter(|(due, ..)| *due <= now)?;
        self.queue.pop_front().map(|(_, inbound, packet)| (inbound, packet))
    }

    pub(super) fn counters(&self) -> LinkCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hcn::time::SeededEntropy;

    fn link() -> Link {
        Link::new(Arc::new(SeededEntropy::new(1)))
    }

    #[test]
    fn frames_arrive_in_order_and_in_time() {
        let mut link = link();
        let ms = Duration::from_millis;
        assert!(!link.is_degraded());
        link.set(Degraded { delay: ms(10), ..Degraded::default() });
        for (now, inbound, byte) in [(0, true, 1), (1, false, 2), (2, true, 3)] {
            assert!(matches!(link.fate(ms(now), inbound, Packet::new(&[byte])), Fate::Later));
        }
        assert!(link.take_due(ms(9)).is_none());
        link.set(Degraded::default());
        assert!(link.is_degraded(), "some are under way");
        assert!(matches!(link.fate(ms(9), true, Packet::new(&[4])), Fate::Later), "none overtakes");
        let arrived: Vec<(bool, u8)> = std::iter::from_fn(|| link.take_due(ms(12)))
            .map(|(inbound, packet)| (inbound, packet.data()[0]))
            .collect();
        assert_eq!(arrived, [(true, 1), (false, 2), (true, 3), (true, 4)]);
        assert!(!link.is_degraded());
    }

    #[test]
    fn frames_take_as_long_as_their_bytes() {
        let mut link = link();
        let ms = Duration::from_millis;
        link.set(Degraded { rate: 100_000, ..Degraded::default() });
        for inbound in [true, true, false] {
            assert!(matches!(link.fate(ms(5), inbound, Packet::new(&[0; 1000])), Fate::Later));
        }
        assert!(link.take_due(ms(14)).is_none());
        assert_eq!(std::iter::from_fn(|| link.take_due(ms(15))).count(), 2, "one each way");
        assert_eq!(std::iter::from_fn(|| link.take_due(ms(25))).count(), 1);
    }

    #[test]
    fn frames_are_lost_as_often_as_said() {
        let mut link = link();
        link.set(Degraded { loss: 0.25, ..Degraded::default() });
        let lost = (0..10_000)
            .filter(|_| matches!(link.fate(Duration::ZERO, true, Packet::new(&[1])), Fate::Lost(_)))
            .count();
        assert!((2_300..2_700).contains(&lost), "{lost}");
        link.set(Degraded { cut: true, ..Degraded::default() });
        assert!(matches!(link.fate(Duration::ZERO, false, Packet::new(&[1])), Fate::Lost(_)));
        assert_eq!(link.counters().lost, lost as u64 + 1);
    }
}
