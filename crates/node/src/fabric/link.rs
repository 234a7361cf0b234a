//! One link: what becomes of a frame on it. By a seed of its own, so that one link's chance does not depend on
//! another's traffic.

use std::time::Duration;

use hcn::time::{Entropy as _, SeededEntropy};

use super::LinkDrop;

/// How a link treats frames, in either direction.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSettings {
    /// From one end to the other.
    pub delay: Duration,
    /// Up to so much more, by chance; the order stays.
    pub jitter: Duration,
    /// The share of frames that are lost, 0 to 1.
    pub loss: f64,
    /// The share of frames that arrive twice, 0 to 1.
    pub duplicate: f64,
    /// The share of frames that later ones may overtake, 0 to 1.
    pub reorder: f64,
    /// For how long a frame that is overtaken is held up.
    pub held: Duration,
    /// The largest frame, without the Ethernet header (14 bytes, 18 with a tag), in bytes.
    pub mtu: u16,
    /// Not cut.
    pub up: bool,
}

/// A share is not one.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("link: {field} is {value}; it is a share, from 0 to 1")]
pub struct RangeError {
    /// The field.
    pub field: &'static str,
    /// Its value.
    pub value: f64,
}

impl Default for LinkSettings {
    /// A good cable in a rack: 50 microseconds, 1500 bytes, nothing is lost.
    fn default() -> Self {
        Self {
            delay: Duration::from_micros(50),
            jitter: Duration::ZERO,
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            held: Duration::from_millis(5),
            mtu: 1500,
            up: true,
        }
    }
}

impl LinkSettings {
    /// Whether the shares are shares. Others count as 0 or 1, whichever is nearer.
    pub fn check(&self) -> Result<(), RangeError> {
        for (field, value) in [("loss", self.loss), ("duplicate", self.duplicate), ("reorder", self.reorder)]
        {
            if !(0.0..=1.0).contains(&value) {
                return Err(RangeError { field, value });
            }
        }
        Ok(())
    }
}

/// What a link has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Frames that were handed to it.
    pub carried: u64,
    /// Frames that it lost, for whatever reason.
    pub lost: u64,
    /// Frames that it delivered twice.
    pub duplicated: u64,
    /// Frames that it held up.
    pub held: u64,
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Travel {
    /// It arrives.
    Arrives {
        /// Device and port.
        to: (usize, usize),
        /// When.
        first: Duration,
        /// When once more.
        again: Option<Duration>,
    },
    /// It does not.
    Lost(LinkDrop),
}

pub(super) struct Link {
    ends: [(usize, usize); 2],
    pub(super) settings: LinkSettings,
    pub(super) counters: LinkCounters,
    chance: SeededEntropy,
    /// When the last frame in order arrives, by direction.
    last: [Duration; 2],
}

impl Link {
    pub(super) fn new(ends: [(usize, usize); 2], settings: LinkSettings, seed: u64, number: usize) -> Self {
        let number = u64::try_from(number).unwrap_or(u64::MAX);
        let seed = SeededEntropy::new(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).next_u64();
        Self {
            ends,
            settings,
            counters: LinkCounters::default(),
            chance: SeededEntropy::new(seed),
            last: [Duration::ZERO; 2],
        }
    }

    /// A share of frames; no number is drawn where there is nothing to decide.
    fn happens(&mut self, share: f64) -> bool {
        share > 0.0 && self.chance.unit() < share
    }

    pub(super) fn carry(&mut self, now: Duration, from: (usize, usize), bytes: usize) -> Travel {
        self.counters.carried += 1;
        let direction = usize::from(self.ends[0] != from);
        let to = if direction == 0 { self.ends[1] } else { self.ends[0] };
        let lost = if !self.settings.up {
            Some(LinkDrop::Cut)
        } else if bytes > usize::from(self.settings.mtu) + 18 {
            Some(LinkDrop::TooBig)
        } else if self.happens(self.settings.loss) {
            Some(LinkDrop::Loss)
        } else {
            None
        };
        if let Some(reason) = lost {
            self.counters.lost += 1;
            return Travel::Lost(reason);
        }
        let jitter = if self.settings.jitter.is_zero() {
            Duration::ZERO
        } else {
            self.settings.jitter.mul_f64(self.chance.unit())
        };
        let mut first = now + self.settings.delay + jitter;
        if self.happens(self.settings.reorder) {
            self.counters.held += 1;
            first += self.settings.held;
        } else {
            first = first.max(self.last[direction]);
            self.last[direction] = first;
        }
        let again = self.happens(self.settings.duplicate).then(|| first + self.settings.delay);
        self.counters.duplicated += u64::from(again.is_some());
        Travel::Arrives { to, first, again }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: (usize, usize) = (0, 0);
    const B: (usize, usize) = (1, 0);

    #[test]
    fn frames_arrive_in_order_despite_jitter() {
        let settings = LinkSettings { jitter: Duration::from_millis(9), ..LinkSettings::default() };
        let mut link = Link::new([A, B], settings, 7, 0);
        let mut last = Duration::ZERO;
        for n in 0..200 {
            let Travel::Arrives { to, first, again: None } = link.carry(Duration::from_micros(n), A, 100)
            else {
                panic!("nothing is lost")
            };
            assert!(to == B && first >= last);
            last = first;
        }
        assert!(matches!(link.carry(Duration::ZERO, B, 100), Travel::Arrives { to: A, .. }));
    }

    #[test]
    fn a_cut_link_and_a_large_frame() {
        let mut link = Link::new([A, B], LinkSettings::default(), 7, 0);
        assert_eq!(link.carry(Duration::ZERO, A, 1519), Travel::Lost(LinkDrop::TooBig));
        assert!(matches!(link.carry(Duration::ZERO, A, 1514), Travel::Arrives { .. }));
        link.settings.up = false;
        assert_eq!(link.carry(Duration::ZERO, A, 100), Travel::Lost(LinkDrop::Cut));
        assert_eq!(link.counters, LinkCounters { carried: 3, lost: 2, ..LinkCounters::default() });
    }

    #[test]
    fn chance_has_the_asked_share_and_the_same_seed_the_same_course() {
        let settings = LinkSettings { loss: 0.3, duplicate: 0.2, reorder: 0.1, ..LinkSettings::default() };
        settings.check().unwrap();
        let course = |seed| {
            let mut link = Link::new([A, B], settings.clone(), seed, 3);
            let course: Vec<Travel> = (0..2000).map(|_| link.carry(Duration::ZERO, A, 60)).collect();
            (course, link.counters)
        };
        assert_eq!(course(1), course(1));
        assert_ne!(course(1).0, course(2).0);
        let counters = course(1).1;
        assert!((500..700).contains(&counters.lost), "{counters:?}");
        assert!((200..360).contains(&counters.duplicated), "{counters:?}");
        assert!((90..190).contains(&counters.held), "{counters:?}");
        assert!(LinkSettings { loss: 1.5, ..settings }.check().is_err());
    }
}
