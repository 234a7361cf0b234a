//! What is known → what is degraded and what follows from it. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use proxy::status::ConditionReason;
use services::IpFamily;

use super::{Degraded, Effect, HnsSeen, Reason, Seen, Settings};
use crate::state::{Facts, FamilyTimes, Phase, Unserved};

/// How many frontends are named at most.
const NAMED: usize = 5;

/// One family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FamilyState {
    /// No change waits for too long.
    pub healthy: bool,
    /// When a pass was last completed.
    pub completed: Option<Duration>,
}

/// What came of judging.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// The families that are served.
    pub families: BTreeMap<IpFamily, FamilyState>,
    /// The own Node was seen and is not about to go.
    pub node_eligible: bool,
    /// All that is not as it should be, the gravest first.
    pub degraded: Vec<Degraded>,
}

impl Verdict {
    /// Whether HNS follows the Services (the node aside).
    pub fn is_serving(&self) -> bool {
        self.degraded.iter().all(|degraded| degraded.effect == Effect::Shown)
    }

    /// Whether the process is worth keeping.
    pub fn is_alive(&self) -> bool {
        self.degraded.iter().all(|degraded| degraded.effect != Effect::Dead)
    }
}

/// Judges.
pub fn judge(seen: &Seen, settings: &Settings) -> Verdict {
    let facts = &seen.facts;
    let families: BTreeMap<IpFamily, FamilyState> = facts
        .times
        .iter()
        .filter(|(family, _)| facts.families.is_empty() || facts.families.contains(family))
        .map(|(&family, times)| {
            let healthy = stale(times, seen.now, settings).is_none();
            (family, FamilyState { healthy, completed: times.completed })
        })
        .collect();
    let node_eligible = facts.node.seen && facts.node.eligible;
    let mut list = Findings { seen, settings, found: Vec::new() };
    list.start();
    list.stale();
    list.stuck();
    list.hangs();
    list.conditions();
    list.unserved();
    list.surroundings();
    let mut degraded = list.found;
    degraded.sort_by_key(|degraded| std::cmp::Reverse(degraded.effect));
    Verdict { families, node_eligible, degraded }
}

/// For how long a family's changes have waited, if that is too long.
fn stale(times: &FamilyTimes, now: Duration, settings: &Settings) -> Option<Duration> {
    let waited = now.saturating_sub(times.queued?);
    (waited > settings.stale_after()).then_some(waited)
}

/// Conditions under which nothing at all can be programmed.
fn blocks(reason: ConditionReason) -> bool {
    matches!(
        reason,
        ConditionReason::NetworkMissing
            | ConditionReason::HnsUnavailable
            | ConditionReason::NodeFactsMissing
            | ConditionReason::Unsupported
    )
}

struct Findings<'a> {
    seen: &'a Seen,
    settings: &'a Settings,
    found: Vec<Degraded>,
}

impl Findings<'_> {
    fn facts(&self) -> &Facts {
        &self.seen.facts
    }

    fn add(&mut self, reason: Reason, effect: Effect, since: Option<Duration>, message: String) {
        let seconds = since.map(|since| self.seen.now.saturating_sub(since).as_secs());
        self.found.push(Degraded { reason, message, seconds, effect });
    }

    /// What the proxy still has to do before it serves at all.
    fn start(&mut self) {
        let (reason, message) = match &self.facts().phase {
            Phase::Starting => (Reason::Starting, "the proxy is starting".to_owned()),
            Phase::Waiting { what } => (Reason::Waiting, format!("waiting for {what}")),
            Phase::Syncing => {
                (Reason::Syncing, "waiting until all Services and endpoints are known".to_owned())
            }
            Phase::Running if self.facts().passes.completed == 0 => {
                (Reason::FirstPass, "waiting until the first pass has programmed HNS".to_owned())
            }
            Phase::Running => return,
        };
        self.add(reason, Effect::Unhealthy, None, message);
    }

    fn stale(&mut self) {
        let limit = self.settings.stale_after().as_secs();
        let stale: Vec<(IpFamily, Duration)> = self
            .facts()
            .times
            .iter()
            .filter(|(family, _)| self.facts().families.is_empty() || self.facts().families.contains(family))
            .filter(|(_, times)| stale(times, self.seen.now, self.settings).is_some())
            .filter_map(|(&family, times)| Some((family, times.queued?)))
            .collect();
        for (family, queued) in stale {
            let message = format!(
                "changes of {family} wait for a pass that programs all of them; {limit} s are the limit"
            );
            self.add(Reason::Stale, Effect::Unhealthy, Some(queued), message);
        }
    }

    /// The loop should do something, is in no call of HNS, and has done nothing for long: its thread is stuck or gone.
    fn stuck(&mut self) {
        let facts = self.facts();
        let passes = facts.passes;
        let hns = self.seen.hns.unwrap_or_default();
        if facts.phase != Phase::Running || hns.under_way.is_some() {
            return;
        }
        let queued = facts.times.values().filter_map(|times| times.queued).min();
        let Some(should) = passes.under_way.or(queued) else { return };
        // When the next one is due says something between passes only.
        let next = passes.next.filter(|_| passes.under_way.is_none());
        let moved = [Some(should), passes.ended, next, Some(hns.moved)];
        let last = moved.into_iter().flatten().max().unwrap_or_default();
        if self.seen.now.saturating_sub(last) > self.settings.stale_after() {
            let message =
                "the proxy's loop does nothing although there is work, and is in no call of HNS".to_owned();
            self.add(Reason::LoopStuck, Effect::Dead, Some(last), message);
        }
    }

    fn hangs(&mut self) {
        let Some(HnsSeen { under_way: Some((operation, kind, took)), .. }) = self.seen.hns else { return };
        if took <= self.settings.hang_after {
            return;
        }
        let dead = self.settings.restart_after.is_some_and(|limit| took > limit);
        let effect = if dead { Effect::Dead } else { Effect::Unhealthy };
        let of = kind.map(|kind| format!(" of a {kind}")).unwrap_or_default();
        let message =
            format!("HNS has not returned from a call ({}{of}); it may need a restart", operation.name());
        self.add(Reason::HnsHangs, effect, Some(self.seen.now.saturating_sub(took)), message);
    }

    /// A condition that blocks everything is forgiven for as long as a pass may take: HNS may be restarting.
    fn conditions(&mut self) {
        for condition in self.facts().conditions.clone() {
            let since = self.facts().conditions_since.get(&condition.reason).copied();
            let lasted = since.map_or(Duration::ZERO, |since| self.seen.now.saturating_sub(since));
            let blocks = blocks(condition.reason);
            let effect = if blocks && lasted > self.settings.stale_after() {
                Effect::Unhealthy
            } else {
                Effect::Shown
            };
            let reason = if blocks { Reason::HnsUnusable } else { Reason::Condition };
            let message = format!("{}: {}", condition.reason, condition.message);
            self.add(reason, effect, since, message);
        }
    }

    /// One Service that cannot be served is no reason to take the node from all others; that none can is.
    fn unserved(&mut self) {
        let (now, limit) = (self.seen.now, self.settings.unserved_after);
        let facts = &self.seen.facts;
        let late: Vec<(&String, &Unserved)> =
            facts.unserved.iter().filter(|(_, open)| now.saturating_sub(open.since) > limit).collect();
        if late.is_empty() {
            return;
        }
        let since = late.iter().map(|(_, open)| open.since).min();
        let named: Vec<String> = late
            .iter()
            .take(NAMED)
            .map(|(name, open)| {
                let error = open.error.as_deref().unwrap_or("not written yet");
                format!("{name} ({}/{}): {error}", open.service.namespace, open.service.name)
            })
            .collect();
        let more = late.len().saturating_sub(NAMED);
        let more = if more == 0 { String::new() } else { format!("; and {more} more") };
        let all = facts.programmed == 0;
        let (reason, effect) =
            if all { (Reason::NothingServed, Effect::Unhealthy) } else { (Reason::Unserved, Effect::Shown) };
        let message = format!(
            "{} of {} frontends are not programmed for more than {} s: {}{more}",
            late.len(),
            facts.wanted.max(late.len()),
            limit.as_secs(),
            named.join("; ")
        );
        self.add(reason, effect, since, message);
    }

    /// What is around the proxy. While the API is away HNS stays as it is: a cluster whose API server is down must not lose its
    /// load balancers' targets as well.
    fn surroundings(&mut self) {
        if let Some(since) = self.seen.api.outage {
            let failing: Vec<String> = self
                .seen
                .api
                .resources
                .iter()
                .filter_map(|resource| {
                    let error = resource.error.as_ref()?;
                    Some(format!("{}: {error}", resource.name))
                })
                .collect();
            let message =
                format!("the API cannot be followed; Services stay as last seen ({})", failing.join("; "));
            self.add(Reason::ApiOutage, Effect::Shown, Some(since), message);
        }
        for (what, error) in self.seen.listeners.clone() {
            let message = format!("{what} cannot be listened on: {error}");
            self.add(Reason::ListenFailed, Effect::Shown, None, message);
        }
    }
}
