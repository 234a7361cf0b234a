//! What of a running proxy is not as it should be → lines for its log: when it begins, every ten minutes while it lasts, and when it
//! is over. For those who read logs only, and for what ends in no error of its own: a call that hangs, passes that never get done.
//!
//! Pure but for [`Line::write`]. Decides nothing about health: it repeats what was judged.

use std::collections::BTreeMap;
use std::time::Duration;

use proxy::meter::{LATENCY_BOUNDS, Meters};

use crate::health::{Degraded, Effect, Reason, Seen, Verdict};

/// How often is looked.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// How often something that lasts is said again.
const AGAIN: Duration = Duration::from_mins(10);

/// For how long something must be gone to be over, so that what comes and goes is no flood.
const QUIET: Duration = Duration::from_secs(10);

/// How often it is said at most that HNS is slow, or that passes run out of time.
const SELDOM: Duration = Duration::from_mins(1);

/// A call that takes longer is slow.
const SLOW: Duration = Duration::from_secs(1);

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Line {
    /// Something is not as it should be, since now or still.
    Degraded { what: Degraded, again: bool },
    /// It is again, after that long.
    Over { reason: Reason, lasted: Duration },
    /// The own Node is gone or about to go.
    NodeGone,
    /// It is there again.
    NodeBack,
    /// That many calls of HNS took longer than a second, the longest of all calls so far that long.
    HnsSlow { calls: u64, longest: Duration },
    /// That many passes ended before all was written.
    Unfinished { passes: u64 },
}

/// Something that is not as it should be.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    since: Duration,
    said: Duration,
    seen: Duration,
}

/// A figure that only grows, and what of it was said.
#[derive(Clone, Copy, Debug, Default)]
struct Grown {
    told: u64,
    at: Option<Duration>,
}

impl Grown {
    /// By how much it has grown since that was said, if it is time to say it.
    fn more(&mut self, total: u64, now: Duration) -> Option<u64> {
        let more = total.saturating_sub(self.told);
        if more == 0 || self.at.is_some_and(|at| now.saturating_sub(at) < SELDOM) {
            return None;
        }
        *self = Self { told: total, at: Some(now) };
        Some(more)
    }
}

/// What was said so far.
#[derive(Debug, Default)]
pub(crate) struct Log {
    troubles: BTreeMap<Reason, Trouble>,
    node_was_there: bool,
    node_is_gone: bool,
    slow: Grown,
    unfinished: Grown,
}

impl Log {
    /// Looks, and says what is new.
    pub(crate) fn look(&mut self, seen: &Seen, verdict: &Verdict, meters: Option<&Meters>) -> Vec<Line> {
        let now = seen.now;
        let mut lines = Vec::new();
        self.degraded(now, verdict, &mut lines);
        self.node(verdict.node_eligible, &mut lines);
        if let Some(meters) = meters
            && let Some(calls) = self.slow.more(slow_calls(meters), now)
        {
            let longest = meters.figures.values().map(|figures| figures.longest).max().unwrap_or_default();
            lines.push(Line::HnsSlow { calls, longest });
        }
        if let Some(passes) = self.unfinished.more(seen.facts.passes.unfinished, now) {
            lines.push(Line::Unfinished { passes });
        }
        lines
    }

    fn degraded(&mut self, now: Duration, verdict: &Verdict, lines: &mut Vec<Line>) {
        // The gravest of each reason comes first and speaks for all of it.
        let mut now_there: BTreeMap<Reason, &Degraded> = BTreeMap::new();
        for degraded in verdict.degraded.iter().filter(|degraded| !is_start(degraded.reason)) {
            now_there.entry(degraded.reason).or_insert(degraded);
        }
        for (&reason, &what) in &now_there {
            let known = self.troubles.get(&reason).copied();
            let again = known.is_some();
            if known.is_none_or(|known| now.saturating_sub(known.said) >= AGAIN) {
                lines.push(Line::Degraded { what: what.clone(), again });
            }
            let trouble = self.troubles.entry(reason).or_insert(Trouble { since: now, said: now, seen: now });
            trouble.seen = now;
            if now.saturating_sub(trouble.said) >= AGAIN {
                trouble.said = now;
            }
        }
        self.troubles.retain(|&reason, trouble| {
            let over = now.saturating_sub(trouble.seen) >= QUIET;
            if over {
                let lasted = trouble.seen.saturating_sub(trouble.since);
                lines.push(Line::Over { reason, lasted });
            }
            !over
        });
    }

    fn node(&mut self, is_there: bool, lines: &mut Vec<Line>) {
        if is_there && self.node_is_gone {
            lines.push(Line::NodeBack);
        } else if !is_there && self.node_was_there && !self.node_is_gone {
            lines.push(Line::NodeGone);
        }
        self.node_was_there |= is_there;
        self.node_is_gone = self.node_was_there && !is_there;
    }
}

/// A start says itself what it waits for.
fn is_start(reason: Reason) -> bool {
    matches!(reason, Reason::Starting | Reason::Waiting | Reason::Syncing | Reason::FirstPass)
}

/// Calls that took longer than [`SLOW`].
fn slow_calls(meters: &Meters) -> u64 {
    let classes = LATENCY_BOUNDS.iter().filter(|&&bound| Duration::from_millis(bound) <= SLOW).count();
    meters
        .figures
        .values()
        .map(|figures| figures.calls.saturating_sub(figures.classes[..classes].iter().sum()))
        .sum()
}

impl Line {
    /// Writes it.
    pub(crate) fn write(&self) {
        match self {
            Self::Degraded { what, again } => {
                let (reason, message, seconds) = (what.reason, what.message.as_str(), what.seconds);
                let again = if *again { "still " } else { "" };
                if what.effect == Effect::Shown {
                    tracing::warn!(%reason, seconds, "The proxy is {again}degraded: {message}");
                } else {
                    tracing::error!(%reason, seconds, "The proxy is {again}not healthy: {message}");
                }
            }
            Self::Over { reason, lasted } => {
                tracing::info!(%reason, lasted_seconds = lasted.as_secs(), "What was degraded is as it should be");
            }
            Self::NodeGone => tracing::warn!("The own Node is gone or about to go: /healthz says 503"),
            Self::NodeBack => tracing::info!("The own Node is there again"),
            Self::HnsSlow { calls, longest } => {
                tracing::warn!(
                    calls,
                    longest_seconds = longest.as_secs_f64(),
                    "HNS is slow: calls took longer than a second"
                );
            }
            Self::Unfinished { passes } => {
                tracing::warn!(
                    passes,
                    "Passes ended before all was written: there is more to write than HNS takes"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests;
