//! Retry times: per object, exponential, with jitter, so that one failing object never holds up another and many
//! failing objects do not come back at once.

use std::hash::Hash;
use std::time::Duration;

use hcn::time::{Clock, Entropy};
use rustc_hash::FxHashMap;

/// The first delay.
pub const FIRST: Duration = Duration::from_secs(1);
/// The longest delay.
pub const LONGEST: Duration = Duration::from_mins(2);

/// How often something has failed in a row, and when it may be tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Failures in a row.
    pub attempts: u32,
    /// Not before this time.
    pub at: Duration,
    /// The last error.
    pub error: String,
}

/// Retry times by key.
#[derive(Debug)]
pub struct Backoff<K> {
    entries: FxHashMap<K, Retry>,
}

impl<K> Default for Backoff<K> {
    fn default() -> Self {
        Self { entries: FxHashMap::default() }
    }
}

impl<K: Eq + Hash + Clone> Backoff<K> {
    /// Notes a failure and returns when to try again.
    pub fn failed(&mut self, key: K, error: String, clock: &dyn Clock, entropy: &dyn Entropy) -> Duration {
        let entry = self.entries.entry(key).or_insert(Retry {
            attempts: 0,
            at: Duration::ZERO,
            error: String::new(),
        });
        let exponent = entry.attempts.min(16);
        let full = FIRST.saturating_mul(1 << exponent).min(LONGEST);
        // Between half of the delay and all of it.
        let delay = full.mul_f64(0.5 + entropy.unit() / 2.0);
        entry.attempts = entry.attempts.saturating_add(1);
        entry.at = clock.now() + delay;
        entry.error = error;
        entry.at
    }

    /// Notes a success.
    pub fn succeeded(&mut self, key: &K) {
        self.entries.remove(key);
    }

    /// Whether the key may be tried now.
    pub fn is_due(&self, key: &K, now: Duration) -> bool {
        self.entries.get(key).is_none_or(|entry| entry.at <= now)
    }

    /// The failure record of a key.
    pub fn get(&self, key: &K) -> Option<&Retry> {
        self.entries.get(key)
    }

    /// All failing keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &Retry)> {
        self.entries.iter()
    }

    /// Forgets the keys that were due at a time and that nobody has tried again, among those that may be forgotten.
    pub fn forget_overdue(&mut self, now: Duration, may: impl Fn(&K) -> bool) {
        self.entries.retain(|key, entry| entry.at > now || !may(key));
    }

    /// Lets every key be tried at once (the world has changed), without forgetting the attempts.
    pub fn hurry(&mut self) {
        for entry in self.entries.values_mut() {
            entry.at = Duration::ZERO;
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// The earliest retry time.
    pub fn next(&self) -> Option<Duration> {
        self.entries.values().map(|entry| entry.at).min()
    }
}

#[cfg(test)]
mod tests {
    use hcn::time::{ManualClock, SeededEntropy};

    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_keep_jitter_within_half() {
        let (clock, entropy) = (ManualClock::new(), SeededEntropy::new(1));
        let mut backoff = Backoff::default();
        for attempt in 0..40_u32 {
            let at = backoff.failed("x", "e".to_owned(), &clock, &entropy);
            let full = FIRST.saturating_mul(1 << attempt.min(16)).min(LONGEST);
            assert!(at >= full / 2 && at <= full, "attempt {attempt}: {at:?}");
            assert!(!backoff.is_due(&"x", Duration::ZERO));
        }
        assert_eq!(backoff.get(&"x").map(|retry| retry.attempts), Some(40));
        backoff.succeeded(&"x");
        assert!(backoff.is_due(&"x", Duration::ZERO));
    }
}
