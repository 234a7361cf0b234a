//! What is known of a running proxy. The loop writes it between its passes, everybody else reads it at any moment: a call of HNS
//! that hangs holds up nobody who asks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hcn::time::Clock;
use parking_lot::Mutex;
use proxy::engine::Census;
use proxy::meter::Watch;
use proxy::status::{ConditionReason, FrontendState, FrontendStatus, ProxyCondition, ServiceStatus};
use serde::Serialize;
use services::{IpFamily, ServiceKey};

/// How far a proxy has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "phase")]
pub enum Phase {
    /// It prepares; why it is not further.
    #[default]
    Starting,
    /// It waits for something outside, as text for people.
    Waiting {
        /// For what.
        what: String,
    },
    /// The source has not told of everything yet: nothing is programmed.
    Syncing,
    /// It keeps HNS as the Services want it.
    Running,
}

/// The own Node, as far as load balancers should use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeState {
    /// It was seen once.
    pub seen: bool,
    /// It is there now.
    pub present: bool,
    /// It is neither being deleted nor about to be removed.
    pub eligible: bool,
}

/// Times of one family's passes, in the clock's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FamilyTimes {
    /// When the oldest change came in that no completed pass has seen.
    pub queued: Option<Duration>,
    /// When the newest change came in.
    pub last_queued: Option<Duration>,
    /// When a pass was last completed.
    pub completed: Option<Duration>,
}

/// The loop's passes, in the clock's time: enough to tell a loop that waits from one that is stuck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Passes {
    /// When the one under way began; none is under way: `None`.
    pub under_way: Option<Duration>,
    /// When one last ended, whatever came of it.
    pub ended: Option<Duration>,
    /// When the next one is due if nothing comes in.
    pub next: Option<Duration>,
    /// How many ended.
    pub total: u64,
    /// Of those, how many were completed.
    pub completed: u64,
    /// Of those, how many ran out of time.
    pub unfinished: u64,
}

/// A frontend that is wanted and not programmed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unserved {
    /// Its Service.
    pub service: ServiceKey,
    /// Since when, in the clock's time.
    pub since: Duration,
    /// What stands in the way, if anything is known.
    pub error: Option<String>,
}

/// A port where load balancers ask whether this node has endpoints of a Service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HealthCheck {
    /// The Service.
    pub service: ServiceKey,
    /// How many ready endpoints this node has.
    pub local: usize,
    /// The same by family.
    pub by_family: Vec<(IpFamily, usize)>,
}

/// What is known of a Service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServiceEntry {
    /// Frontends and conditions of programming.
    #[serde(flatten)]
    pub status: ServiceStatus,
    /// What cannot be honoured of the Service as it is: reason, port, message.
    pub unsupported: Vec<(String, Option<String>, String)>,
    /// Endpoints that serve nothing, of all its ports.
    pub left_out: usize,
}

/// Everything, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// How far the proxy has come.
    pub phase: Phase,
    /// The families that are served, primary first.
    pub families: Vec<IpFamily>,
    /// The loop's passes.
    pub passes: Passes,
    /// The families' passes.
    pub times: BTreeMap<IpFamily, FamilyTimes>,
    /// The own Node.
    pub node: NodeState,
    /// Frontends and deletions that are not done.
    pub pending: usize,
    /// Frontends that are wanted.
    pub wanted: usize,
    /// Frontends that HNS holds as wanted.
    pub programmed: usize,
    /// Differences found in HNS that the proxy had not made.
    pub repairs: u64,
    /// Conditions of the node.
    pub conditions: Vec<ProxyCondition>,
    /// Since when there is a condition of each reason.
    pub conditions_since: BTreeMap<ConditionReason, Duration>,
    /// What HNS was last read to hold.
    pub census: Census,
    /// Frontends that are wanted and not programmed, by name.
    pub unserved: BTreeMap<String, Unserved>,
    /// Ports of health checks.
    pub checks: BTreeMap<u16, HealthCheck>,
    /// By family, Services that have no ready endpoint on this node although a policy wants local ones: internal, external.
    pub no_local: BTreeMap<IpFamily, (usize, usize)>,
    /// Changes that no pass has taken yet: endpoints, Services.
    pub queued: (u64, u64),
    /// Changes since the start: endpoints, Services.
    pub changes: (u64, u64),
}

struct Inner {
    facts: Facts,
    services: BTreeMap<ServiceKey, Arc<ServiceEntry>>,
    hns: Option<Watch>,
}

/// Shared by the loop and those who ask. Clones are the same state.
#[derive(Clone)]
pub struct State {
    inner: Arc<Mutex<Inner>>,
    clock: Arc<dyn Clock>,
    /// When the process began, for people.
    started: SystemTime,
}

impl State {
    /// A proxy that starts.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let inner = Inner { facts: Facts::default(), services: BTreeMap::new(), hns: None };
        let started = clock.wall();
        Self { inner: Arc::new(Mutex::new(inner)), clock, started }
    }

    /// The clock that all times in here are of.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// When the process began.
    pub fn started(&self) -> SystemTime {
        self.started
    }

    /// A moment of the clock, gone or to come, as people write it.
    pub fn wall(&self, at: Duration) -> SystemTime {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let moment = match at.checked_sub(now) {
            Some(ahead) => wall.checked_add(ahead),
            None => wall.checked_sub(now.saturating_sub(at)),
        };
        moment.unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Names what counts and times the calls of HNS.
    pub fn set_hns(&self, hns: Watch) {
        self.inner.lock().hns = Some(hns);
    }

    /// What counts and times the calls of HNS, once there is an HNS.
    pub fn hns(&self) -> Option<Watch> {
        self.inner.lock().hns.clone()
    }

    /// Says how far the proxy has come.
    pub fn set_phase(&self, phase: Phase) {
        self.inner.lock().facts.phase = phase;
    }

    /// Everything but the single Services.
    pub fn facts(&self) -> Facts {
        self.inner.lock().facts.clone()
    }

    /// Reads something without copying all.
    pub fn with<R>(&self, read: impl FnOnce(&Facts) -> R) -> R {
        read(&self.inner.lock().facts)
    }

    /// The Services, as last known.
    pub fn services(&self) -> Vec<(ServiceKey, Arc<ServiceEntry>)> {
        self.inner.lock().services.iter().map(|(key, entry)| (key.clone(), Arc::clone(entry))).collect()
    }

    /// One Service.
    pub fn service(&self, key: &ServiceKey) -> Option<Arc<ServiceEntry>> {
        self.inner.lock().services.get(key).cloned()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.inner.lock().facts);
    }

    /// Puts Services in place; `None`: it is gone. What of their frontends is not programmed is known from then on.
    pub(crate) fn put(&self, entries: Vec<(ServiceKey, Option<ServiceEntry>)>) {
        let now = self.clock.now();
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        for (key, entry) in entries {
            let before: BTreeSet<String> = inner
                .services
                .get(&key)
                .into_iter()
                .flat_map(|entry| entry.status.frontends.iter().map(|frontend| frontend.frontend.clone()))
                .collect();
            let mut open = BTreeMap::new();
            for frontend in entry.iter().flat_map(|entry| &entry.status.frontends) {
                let error = match &frontend.state {
                    FrontendState::Programmed => continue,
                    FrontendState::Pending => None,
                    FrontendState::Waiting { reason } => Some(reason.clone()),
                    FrontendState::Failed { error, .. } => Some(error.clone()),
                };
                open.insert(frontend.frontend.clone(), error);
            }
            let unserved = &mut inner.facts.unserved;
            // One that another Service holds now is that one's business.
            unserved.retain(|name, known| {
                known.service != key || open.contains_key(name) || !before.contains(name)
            });
            for (name, error) in open {
                let entry = unserved.entry(name).or_insert_with(|| Unserved {
                    service: key.clone(),
                    since: now,
                    error: None,
                });
                if entry.service == key {
                    entry.error = error;
                }
            }
            let programmed = &mut inner.facts.programmed;
            *programmed += entry.as_ref().map_or(0, programmed_of);
            *programmed -= inner.services.get(&key).map_or(0, |entry| programmed_of(entry));
            match entry {
                Some(entry) => inner.services.insert(key, Arc::new(entry)),
                None => inner.services.remove(&key),
            };
        }
    }
}

fn programmed_of(entry: &ServiceEntry) -> usize {
    let programmed = |frontend: &&FrontendStatus| frontend.state == FrontendState::Programmed;
    entry.status.frontends.iter().filter(programmed).count()
}

#[cfg(test)]
mod tests {
    use hcn::time::ManualClock;
    use proxy::plan::Role;

    use super::*;

    fn entry(states: &[(&str, FrontendState)]) -> ServiceEntry {
        let frontend = |(name, state): &(&str, FrontendState)| FrontendStatus {
            frontend: (*name).to_owned(),
            role: Role::ClusterIp,
            id: None,
            state: state.clone(),
            left_out: Vec::new(),
        };
        let frontends = states.iter().map(frontend).collect();
        let programming = ServiceStatus { frontends, conditions: Vec::new() };
        ServiceEntry { status: programming, unsupported: Vec::new(), left_out: 0 }
    }

    fn key(name: &str) -> ServiceKey {
        ServiceKey::new("shop", name)
    }

    #[test]
    fn what_is_not_served_is_known_since_it_was_so() {
        let clock = ManualClock::default();
        let state = State::new(Arc::new(clock.clone()));
        let failed = |attempts| FrontendState::Failed {
            error: "no switch port".to_owned(),
            attempts,
            retry_at: Duration::ZERO,
        };
        state.put(vec![(
            key("web"),
            Some(entry(&[("a", FrontendState::Pending), ("b", FrontendState::Programmed)])),
        )]);
        clock.advance(Duration::from_secs(3));
        state.put(vec![(key("web"), Some(entry(&[("a", failed(1)), ("b", failed(1))])))]);
        let told = |state: &State| -> Vec<(String, u64, Option<String>)> {
            let facts = state.facts();
            let tell =
                |(name, open): (&String, &Unserved)| (name.clone(), open.since.as_secs(), open.error.clone());
            facts.unserved.iter().map(tell).collect()
        };
        let error = Some("no switch port".to_owned());
        assert_eq!(told(&state), [("a".to_owned(), 0, error.clone()), ("b".to_owned(), 3, error.clone())]);
        clock.advance(Duration::from_secs(3));
        state.put(vec![(key("web"), Some(entry(&[("a", failed(2)), ("b", FrontendState::Programmed)])))]);
        assert_eq!(told(&state), [("a".to_owned(), 0, error)]);
        assert_eq!(state.with(|facts| facts.programmed), 1);
        // A Service that goes takes its own with it, and nobody else's.
        state.put(vec![(key("db"), Some(entry(&[("c", FrontendState::Pending)])))]);
        state.put(vec![(key("web"), None)]);
        assert_eq!(told(&state), [("c".to_owned(), 6, None)]);
        assert_eq!(state.with(|facts| facts.programmed), 0);
        assert!(state.service(&key("web")).is_none() && state.service(&key("db")).is_some());
    }

    #[test]
    fn a_frontend_that_another_service_serves_is_not_cleared_by_it() {
        let state = State::new(Arc::new(ManualClock::default()));
        let waiting = FrontendState::Waiting { reason: "served for another".to_owned() };
        state.put(vec![(key("late"), Some(entry(&[("a", waiting)])))]);
        state.put(vec![(key("early"), Some(entry(&[("a", FrontendState::Programmed)])))]);
        assert_eq!(state.with(|facts| facts.unserved["a"].service.clone()), key("late"));
    }
}
