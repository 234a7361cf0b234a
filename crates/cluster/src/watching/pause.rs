//! How long to wait before a failed request is tried again.

use std::time::Duration;

/// How failed requests are tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first pause.
    pub first: Duration,
    /// The longest.
    pub longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(800), longest: Duration::from_secs(30) }
    }
}

/// Pauses that grow, each of random length: many nodes must not come back at the same moment.
pub(super) struct Pause {
    backoff: Backoff,
    next: Duration,
}

impl Pause {
    pub(super) fn new(backoff: Backoff) -> Self {
        Self { backoff, next: backoff.first }
    }

    pub(super) fn reset(&mut self) {
        self.next = self.backoff.first;
    }

    /// From one half to all of the present pause, at least what the server asks for.
    pub(super) fn next(&mut self, asked: Duration) -> Duration {
        let full = self.next;
        self.next = (full * 2).min(self.backoff.longest);
        let part = f64::from(random()) / f64::from(u32::MAX);
        full.mul_f64(0.5 + part / 2.0).max(asked)
    }
}

/// A number of which nobody knows more than that each node has another. Chance decides when a request is tried again, and
/// nothing else.
fn random() -> u32 {
    use std::hash::{BuildHasher as _, RandomState};
    let [a, b, c, d, ..] = RandomState::new().hash_one(0).to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_heed_the_server() {
        let (first, longest) = (Duration::from_secs(1), Duration::from_secs(5));
        let mut pause = Pause::new(Backoff { first, longest });
        for full in [1, 2, 4, 5, 5].map(Duration::from_secs) {
            let next = pause.next(Duration::ZERO);
            assert!(next >= full / 2 && next <= full, "{next:?} of {full:?}");
        }
        assert_eq!(pause.next(Duration::from_mins(1)), Duration::from_mins(1));
        pause.reset();
        assert!(pause.next(Duration::ZERO) <= first);
    }
}
