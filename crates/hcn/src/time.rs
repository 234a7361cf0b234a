//! How time and randomness reach the rest of Transom: always from outside.
//!
//! A crate that needs "now", a pause or a random number takes a [`Clock`] or an [`Entropy`]. Programs pass
//! [`SystemClock`] and [`SeededEntropy::from_time`]; tests pass [`ManualClock`] and a fixed seed, so no test
//! waits and every random run can be repeated.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A source of time.
pub trait Clock: Send + Sync {
    /// Monotonic time since some fixed start.
    fn now(&self) -> Duration;

    /// Wall-clock time, for what people and other programs read.
    fn wall(&self) -> SystemTime;

    /// Blocks the caller for `duration` of this clock's time.
    fn sleep(&self, duration: Duration);
}

/// The operating system's clock.
#[derive(Debug, Clone)]
pub struct SystemClock {
    start: std::time::Instant,
}

impl Default for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place where real time enters")]
    fn default() -> Self {
        Self { start: std::time::Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "the one place where real time enters")]
    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    #[expect(clippy::disallowed_methods, reason = "the one place where real time passes")]
    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

/// A clock that moves only when told, or, when made with [`ManualClock::jumping`], by the length of each sleep.
#[derive(Debug, Clone, Default)]
pub struct ManualClock {
    inner: Arc<ManualInner>,
}

#[derive(Debug, Default)]
struct ManualInner {
    now: Mutex<Duration>,
    moved: Condvar,
    jumping: bool,
}

impl ManualClock {
    /// A clock at zero whose sleepers wait for [`ManualClock::advance`].
    pub fn new() -> Self {
        Self::default()
    }

    /// A clock at zero that moves on by itself whenever somebody sleeps: virtual time for one thread.
    pub fn jumping() -> Self {
        Self { inner: Arc::new(ManualInner { jumping: true, ..ManualInner::default() }) }
    }

    /// Moves the clock on and wakes the sleepers whose time has come.
    pub fn advance(&self, by: Duration) {
        let mut now = self.inner.now.lock().unwrap_or_else(PoisonError::into_inner);
        *now += by;
        self.inner.moved.notify_all();
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        *self.inner.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The Unix epoch plus this clock's time: the same in every run.
    fn wall(&self) -> SystemTime {
        UNIX_EPOCH + self.now()
    }

    fn sleep(&self, duration: Duration) {
        let mut now = self.inner.now.lock().unwrap_or_else(PoisonError::into_inner);
        let until = *now + duration;
        if self.inner.jumping {
            *now = until;
            self.inner.moved.notify_all();
            return;
        }
        while *now < until {
            now = self.inner.moved.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A source of random numbers.
pub trait Entropy: Send + Sync {
    /// The next 64 bits.
    fn next_u64(&self) -> u64;

    /// A number in `0..bound`; 0 when `bound` is 0.
    fn below(&self, bound: u64) -> u64 {
        // The multiply-shift reduction: its bias is below 2⁻³² for every bound used here.
        u64::try_from((u128::from(self.next_u64()) * u128::from(bound)) >> 64).unwrap_or(0)
    }

    /// A number in `[0, 1)`.
    fn unit(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
        let mantissa = (self.next_u64() >> 11) as f64;
        mantissa / 9_007_199_254_740_992.0
    }
}

/// `SplitMix64`: small, fast, repeatable, good enough for jitter, ids and fault plans. Not for secrets.
#[derive(Debug)]
pub struct SeededEntropy {
    state: AtomicU64,
}

impl SeededEntropy {
    /// The sequence of a seed.
    pub const fn new(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed) }
    }

    /// A seed taken from a clock; for programs that need no repeatability.
    pub fn from_time(clock: &dyn Clock) -> Self {
        let nanos = clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are the ones that vary")]
        let seed = nanos as u64;
        Self::new(seed ^ (u64::from(std::process::id()) << 32))
    }
}

impl Entropy for SeededEntropy {
    fn next_u64(&self) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut z = self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jumping_clock_moves_by_the_sleep() {
        let clock = ManualClock::jumping();
        clock.sleep(Duration::from_hours(1));
        assert_eq!(clock.now(), Duration::from_hours(1));
    }

    #[test]
    fn a_sleeper_wakes_when_the_clock_is_moved_past_it() {
        let clock = ManualClock::new();
        let sleeper = {
            let clock = clock.clone();
            std::thread::spawn(move || {
                clock.sleep(Duration::from_secs(5));
                clock.now()
            })
        };
        // Whether or not the sleeper has started, it must wake: its time is counted from when it looks.
        while !sleeper.is_finished() {
            clock.advance(Duration::from_secs(5));
            std::thread::yield_now();
        }
        assert!(sleeper.join().unwrap() >= Duration::from_secs(5));
    }

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let (a, b) = (SeededEntropy::new(7), SeededEntropy::new(7));
        let left: Vec<u64> = (0..8).map(|_| a.below(100)).collect();
        let right: Vec<u64> = (0..8).map(|_| b.below(100)).collect();
        assert_eq!(left, right);
        assert!(left.iter().any(|&n| n != left[0]));
        assert!((0..1000).all(|_| {
            let unit = a.unit();
            (0.0..1.0).contains(&unit)
        }));
    }
}
