//! How long calls take: distributions that are drawn from numbers, never from a clock.

use std::time::Duration;

/// A draw in `[0, 1)` that depends on nothing but its arguments: the same plan gives the same numbers whatever
/// other rules there are and whichever thread calls.
pub(super) fn unit(seed: u64, stream: u64, index: u64) -> f64 {
    use hcn::time::{Entropy as _, SeededEntropy};
    // Two rounds keep streams apart even when seeds and streams are small consecutive numbers.
    let stream = SeededEntropy::new(seed ^ stream.rotate_left(32)).next_u64();
    SeededEntropy::new(stream ^ index.wrapping_mul(0x9E37_79B9_7F4A_7C15)).unit()
}

/// A distribution of latencies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Latency {
    /// Always the same.
    Fixed(Duration),
    /// Anything in between, evenly.
    Uniform {
        /// Shortest.
        from: Duration,
        /// Longest.
        to: Duration,
    },
    /// Many short ones, a tail that falls off evenly.
    Exponential {
        /// Mean.
        mean: Duration,
        /// Longer draws are cut to this.
        max: Duration,
    },
    /// A typical value and a heavy tail: what a busy service looks like.
    LogNormal {
        /// Half of the draws are shorter.
        median: Duration,
        /// Standard deviation of the logarithm: 0 is fixed, 1 puts one draw in a hundred above ten medians.
        sigma: f64,
        /// Longer draws are cut to this.
        max: Duration,
    },
}

impl Latency {
    /// The bound of heavy tails when a script names none.
    pub const DEFAULT_MAX: Duration = Duration::from_mins(5);

    /// The latency for one draw. `draw(n)` gives the `n`-th number in `[0, 1)`.
    pub fn sample(&self, draw: impl Fn(u64) -> f64) -> Duration {
        match *self {
            Self::Fixed(duration) => duration,
            Self::Uniform { from, to } => {
                from.saturating_add(scaled(to.saturating_sub(from), draw(0), Duration::MAX))
            }
            Self::Exponential { mean, max } => scaled(mean, -(1.0 - draw(0)).ln(), max),
            Self::LogNormal { median, sigma, max } => {
                // Box and Muller's way from two even draws to a normal one.
                let radius = (-2.0 * (1.0 - draw(0)).ln()).sqrt();
                let normal = radius * (std::f64::consts::TAU * draw(1)).cos();
                scaled(median, (sigma * normal).exp(), max)
            }
        }
    }

    /// What is wrong with the numbers, and what would be right.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        match *self {
            Self::Uniform { from, to } if from > to => {
                Err(("uniform", format!("from {from:?} is after to {to:?}; give the shorter one first")))
            }
            Self::Exponential { mean, max } if mean > max => {
                Err(("exponential", format!("mean {mean:?} is above max {max:?}; raise max")))
            }
            Self::LogNormal { sigma, .. } if !(0.0..=4.0).contains(&sigma) => {
                Err(("lognormal", format!("sigma {sigma} is not in 0 to 4")))
            }
            Self::LogNormal { median, max, .. } if median > max => {
                Err(("lognormal", format!("median {median:?} is above max {max:?}; raise max")))
            }
            Self::Fixed(_) | Self::Uniform { .. } | Self::Exponential { .. } | Self::LogNormal { .. } => {
                Ok(())
            }
        }
    }
}

/// `unit` times `factor`, at most `max`; a product that is no duration is `max`.
fn scaled(unit: Duration, factor: f64, max: Duration) -> Duration {
    Duration::try_from_secs_f64(unit.as_secs_f64() * factor).unwrap_or(max).min(max)
}

/// Reads "500ms", "30s", "1m30s", "2h", "250us"; a bare number has no unit and is refused.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    const MINUTE: u64 = 60 * 1_000_000_000;
    let wrong = || format!("{text:?} is not a duration; write it like 500ms, 30s, 1m30s or 2h");
    let mut rest = text.trim();
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, after) = rest.split_at(digits);
        let (nanos, tail) = [
            ("ns", 1),
            ("us", 1_000),
            ("ms", 1_000_000),
            ("s", 1_000_000_000),
            ("m", MINUTE),
            ("h", 60 * MINUTE),
        ]
        .into_iter()
        .find_map(|(name, nanos)| Some((nanos, after.strip_prefix(name)?)))
        .ok_or_else(wrong)?;
        // Whole numbers exactly, so that what is written reads back as it was.
        let part = match number.parse::<u64>() {
            Ok(whole) => whole.checked_mul(nanos).map(Duration::from_nanos),
            Err(_) => None,
        };
        let part = part.or_else(|| {
            let number: f64 = number.parse().ok()?;
            Duration::try_from_secs_f64(number * Duration::from_nanos(nanos).as_secs_f64()).ok()
        });
        let part = part.ok_or_else(wrong)?;
        total = total.checked_add(part).ok_or_else(wrong)?;
        rest = tail;
    }
    Ok(total)
}

/// Writes a duration so that [`parse_duration`] reads it back.
pub(super) fn duration_text(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let (unit, name) = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")]
        .into_iter()
        .find(|&(unit, _)| nanos.is_multiple_of(unit))
        .unwrap_or((1, "ns"));
    format!("{}{name}", nanos / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(latency: Latency) -> f64 {
        let draws: u32 = 20_000;
        let total: Duration = (0..u64::from(draws)).map(|n| latency.sample(|k| unit(1, k, n))).sum();
        (total / draws).as_secs_f64()
    }

    #[test]
    fn distributions_have_the_shape_they_say() {
        let ms = Duration::from_millis;
        assert!((mean(Latency::Fixed(ms(7))) - 0.007).abs() < 1e-9);
        assert!((mean(Latency::Uniform { from: ms(10), to: ms(30) }) - 0.020).abs() < 0.000_5);
        let exponential = Latency::Exponential { mean: ms(10), max: Latency::DEFAULT_MAX };
        assert!((mean(exponential) - 0.010).abs() < 0.000_5);
        let lognormal = Latency::LogNormal { median: ms(10), sigma: 1.0, max: Latency::DEFAULT_MAX };
        let mut draws: Vec<Duration> = (0..10_000).map(|n| lognormal.sample(|k| unit(2, k, n))).collect();
        draws.sort_unstable();
        let median = draws[5_000].as_secs_f64();
        assert!((median - 0.010).abs() < 0.001, "median {median}");
        assert!(draws[9_950] > ms(100), "no heavy tail: {:?}", draws[9_950]);
        let cut = Latency::LogNormal { median: ms(10), sigma: 4.0, max: ms(50) };
        assert!((0..1_000).all(|n| cut.sample(|k| unit(3, k, n)) <= ms(50)));
    }

    #[test]
    fn draws_depend_on_nothing_but_their_arguments() {
        assert!((unit(1, 2, 3) - unit(1, 2, 3)).abs() < f64::EPSILON);
        let all: Vec<u64> = (0..4)
            .flat_map(|seed| {
                (0..4).flat_map(move |stream| (0..64).map(move |n| unit(seed, stream, n).to_bits()))
            })
            .collect();
        let distinct: std::collections::BTreeSet<u64> = all.iter().copied().collect();
        assert_eq!(distinct.len(), all.len(), "streams overlap");
    }

    #[test]
    fn durations_are_read_and_written() {
        for (text, wanted) in [
            ("500ms", Duration::from_millis(500)),
            ("1m30s", Duration::from_secs(90)),
            ("0.5s", Duration::from_millis(500)),
            ("2h", Duration::from_hours(2)),
            ("250us", Duration::from_micros(250)),
            ("0", Duration::ZERO),
            ("1500ns", Duration::from_nanos(1500)),
            ("1s1ns", Duration::from_nanos(1_000_000_001)),
        ] {
            assert_eq!(parse_duration(text), Ok(wanted), "{text}");
            assert_eq!(parse_duration(&duration_text(wanted)), Ok(wanted), "{text} written again");
        }
        for text in ["", "5", "s", "5 s", "-1s", "1e99h", "1d", "..s", "99999999999999999999h"] {
            assert!(parse_duration(text).is_err(), "{text:?} was taken");
        }
    }
}
