//! The loop: takes what comes in, makes a pass when one is worth while, and publishes what came of it. Runs on the caller's
//! thread, which HNS may block for as long as it likes; nobody else waits for it.
//!
//! Nothing is programmed before the source has told of everything. An outage of the source brings no input, so the node stays
//! as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime};

use hcn::time::Clock;
use proxy::status::FrontendState;
use proxy::{Config, Driver, Interface, Report};
use services::{Change, IpFamily, Object, ObjectKind, ServiceKey, ServiceView, TrafficPolicy};

use crate::programming::Programming;
use crate::state::{HealthCheck, NodeState, Phase, ServiceEntry, State};

/// What comes in.
#[derive(Debug)]
pub enum Input {
    /// An object changed; for endpoints, when that was triggered.
    Changed(Change, Option<SystemTime>),
    /// The source has told of everything that must be known.
    Synced,
    /// The proxy's settings are others.
    Config(Box<Config>),
    /// The network has another name, and these endpoints may have the source VIP.
    Network(String, Vec<String>),
    /// The least time between two passes is another.
    MinPeriod(Duration),
    /// The primary address is another, or the Node's own again.
    PrimaryAddress(Option<std::net::IpAddr>),
    /// The host's interfaces are others.
    Interfaces(Vec<Interface>),
    /// HNS has said that something happened there.
    Heard,
    /// The loop is to end.
    Stop,
}

/// How the loop works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The own Node's name.
    pub node: String,
    /// The least time between two passes (kube-proxy's minSyncPeriod).
    pub min_period: Duration,
}

/// What a pass did, for those who measure or tell.
pub struct Passed<'a> {
    /// What was changed and what failed.
    pub report: &'a Report,
    /// How long it took.
    pub took: Duration,
    /// The families that are served.
    pub families: &'a [IpFamily],
    /// The Services whose status may be another.
    pub touched: &'a BTreeSet<ServiceKey>,
    /// How long changes of endpoints of a family took from their trigger until they were programmed.
    pub programmed: &'a [(IpFamily, Duration)],
    /// What the pass was begun for is done: HNS could be read and nothing is left for lack of time.
    pub completed: bool,
    /// It ran out of time; the next one goes on.
    pub unfinished: bool,
    /// The state, with what this pass has brought.
    pub state: &'a State,
}

/// Is told of each pass, on the loop's thread.
pub trait Observer: Send {
    /// A pass was made.
    fn passed(&mut self, passed: &Passed<'_>);
}

/// How a loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was told to.
    Stopped,
    /// Nobody can tell it anything any more.
    Forsaken,
}

/// A loop.
pub struct Loop {
    driver: Driver,
    inbox: Receiver<Input>,
    state: State,
    settings: Settings,
    clock: Arc<dyn Clock>,
    observers: Vec<Box<dyn Observer>>,
    programming: Programming,
    synced: bool,
    /// Services that have endpoints, but none where a policy wants local ones.
    no_local: BTreeSet<(IpFamily, Policy, ServiceKey)>,
}

impl Loop {
    /// A loop around a driver.
    pub fn new(driver: Driver, inbox: Receiver<Input>, state: State, settings: Settings) -> Self {
        let clock = Arc::clone(state.clock());
        Self {
            driver,
            inbox,
            state,
            settings,
            clock,
            observers: Vec::new(),
            programming: Programming::default(),
            synced: false,
            no_local: BTreeSet::new(),
        }
    }

    /// Adds somebody who is told of passes.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.observers.push(observer);
    }

    /// The driver, for those who look once the loop has ended.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// Runs until it is told to end.
    pub fn run(&mut self) -> Ended {
        self.state.set_phase(Phase::Syncing);
        let mut last: Option<Duration> = None;
        loop {
            if let Err(ended) = self.gather(last) {
                return ended;
            }
            if self.synced {
                self.pass();
                last = Some(self.clock.now());
            }
        }
    }

    /// Waits until a pass is worth while: something came in, or it is time for one by itself. Changes come in bursts; all
    /// that comes until the least period is over is one pass.
    fn gather(&mut self, last: Option<Duration>) -> Result<(), Ended> {
        let wakeup = if self.synced { self.driver.next_wakeup() } else { Duration::MAX };
        let mut due = last.is_none() && self.synced;
        while !due {
            match self.next(wakeup) {
                Ok(Some(input)) => {
                    self.take(input)?;
                    due = true;
                }
                Ok(None) => due = true,
                Err(ended) => return Err(ended),
            }
        }
        // A pass that ran out of time goes on at once: the least period spares HNS what comes in bursts, not what it has to do anyway.
        let until = last
            .filter(|_| !self.driver.proxy().is_unfinished())
            .map_or(Duration::ZERO, |last| last + self.settings.min_period);
        loop {
            match self.next(until) {
                Ok(Some(input)) => self.take(input)?,
                Ok(None) => return Ok(()),
                Err(ended) => return Err(ended),
            }
        }
    }

    /// The next input, or nothing when it is so late.
    fn next(&self, until: Duration) -> Result<Option<Input>, Ended> {
        let wait = until.saturating_sub(self.clock.now());
        // The channel cannot wait for ever by a time.
        match self.inbox.recv_timeout(wait.min(Duration::from_hours(1))) {
            Ok(input) => Ok(Some(input)),
            Err(RecvTimeoutError::Timeout) if self.clock.now() < until && until != Duration::MAX => {
                self.next(until)
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Ended::Forsaken),
        }
    }

    fn take(&mut self, input: Input) -> Result<(), Ended> {
        match input {
            Input::Changed(change, triggered) => self.changed(change, triggered),
            Input::Synced => {
                if !self.synced {
                    tracing::info!("All Services and endpoints are known");
                    self.synced = true;
                    self.programming.begin();
                    self.state.set_phase(Phase::Running);
                }
            }
            Input::Config(mut config) => {
                // Which network it is was found out here, and not by who changes settings.
                config.network_name.clone_from(&self.driver.proxy().config().network_name);
                self.driver.proxy_mut().set_config(*config);
            }
            Input::Network(name, endpoints) => {
                let mut config = self.driver.proxy().config().clone();
                (config.network_name, config.source_vip_endpoints) = (name, endpoints);
                self.driver.proxy_mut().set_config(config);
            }
            Input::MinPeriod(period) => self.settings.min_period = period,
            Input::PrimaryAddress(address) => self.driver.set_primary_address(address),
            Input::Interfaces(interfaces) => self.driver.set_interfaces(interfaces),
            Input::Heard => {}
            Input::Stop => return Err(Ended::Stopped),
        }
        Ok(())
    }

    fn changed(&mut self, change: Change, triggered: Option<SystemTime>) {
        let reference = change.reference();
        let now = self.clock.now();
        let families = self.driver.proxy().families();
        self.state.change(|facts| {
            match reference.kind {
                ObjectKind::EndpointSlice => {
                    facts.queued.0 += 1;
                    facts.changes.0 += 1;
                }
                ObjectKind::Service => {
                    facts.queued.1 += 1;
                    facts.changes.1 += 1;
                }
                ObjectKind::Node if *reference.name == *self.settings.node => {
                    facts.node = match &change {
                        Change::Set(Object::Node(node)) => {
                            NodeState { seen: true, present: true, eligible: node.eligible }
                        }
                        _ => NodeState { present: false, eligible: false, ..facts.node },
                    };
                }
                ObjectKind::Node | ObjectKind::Pod => {}
            }
            for family in families {
                let times = facts.times.entry(family).or_default();
                times.queued.get_or_insert(now);
                times.last_queued = Some(now);
            }
        });
        if let (Some(triggered), Change::Set(Object::EndpointSlice(slice))) = (triggered, &change)
            && let Some(service) = slice.service()
        {
            self.programming.changed(&service, slice.family(), triggered);
        }
        self.driver.apply(change);
    }

    fn pass(&mut self) {
        let start = self.clock.now();
        self.state.change(|facts| {
            facts.queued = (0, 0);
            facts.passes.under_way = Some(start);
        });
        let report = self.driver.pass();
        let now = self.clock.now();
        let touched = self.driver.proxy_mut().take_touched();
        let entries = touched.iter().map(|key| (key.clone(), self.entry(key))).collect();
        self.state.put(entries);
        let waiting: Vec<ServiceKey> = self.programming.services().cloned().collect();
        let mut programmed = Vec::new();
        for key in waiting {
            if self.is_programmed(&key) {
                programmed.extend(self.programming.done(&key, self.clock.wall()));
            }
        }
        let families = self.driver.proxy().families();
        let completed = self.driver.proxy().is_ready() && !self.driver.proxy().is_unfinished();
        self.publish(&report, &families, now, completed);
        let passed = Passed {
            report: &report,
            took: now.saturating_sub(start),
            families: &families,
            touched: &touched,
            programmed: &programmed,
            completed,
            unfinished: self.driver.proxy().is_unfinished(),
            state: &self.state,
        };
        for observer in &mut self.observers {
            observer.passed(&passed);
        }
    }

    fn publish(&mut self, report: &Report, families: &[IpFamily], now: Duration, completed: bool) {
        let proxy = self.driver.proxy();
        let checks = self.driver.proxy().services().filter_map(|(key, view)| check(key, view)).collect();
        let (wanted, repairs, census) = (proxy.wanted_count(), proxy.repairs_total(), proxy.census());
        let (unfinished, next) = (proxy.is_unfinished(), self.driver.next_wakeup());
        let mut no_local: BTreeMap<IpFamily, (usize, usize)> =
            families.iter().map(|&family| (family, (0, 0))).collect();
        for (family, policy, _) in &self.no_local {
            let counts = no_local.entry(*family).or_default();
            match policy {
                Policy::Internal => counts.0 += 1,
                Policy::External => counts.1 += 1,
            }
        }
        self.state.change(|facts| {
            facts.families = families.to_vec();
            facts.pending = report.pending;
            facts.conditions.clone_from(&report.conditions);
            let reasons: BTreeSet<_> = report.conditions.iter().map(|condition| condition.reason).collect();
            facts.conditions_since.retain(|reason, _| reasons.contains(reason));
            for reason in reasons {
                facts.conditions_since.entry(reason).or_insert(now);
            }
            facts.census = census;
            let passes = &mut facts.passes;
            passes.under_way = None;
            passes.ended = Some(now);
            passes.next = Some(next);
            passes.total += 1;
            passes.completed += u64::from(completed);
            passes.unfinished += u64::from(unfinished);
            facts.wanted = wanted;
            facts.repairs = repairs;
            facts.checks = checks;
            facts.no_local = no_local;
            for family in families {
                let times = facts.times.entry(*family).or_default();
                if completed {
                    times.queued = None;
                    times.completed = Some(now);
                }
            }
        });
    }

    /// What is known of a Service, `None` when it is gone.
    fn entry(&mut self, key: &ServiceKey) -> Option<ServiceEntry> {
        let proxy = self.driver.proxy();
        let view = proxy.service(key);
        for family in [IpFamily::V4, IpFamily::V6] {
            for policy in [Policy::Internal, Policy::External] {
                let entry = (family, policy, key.clone());
                if view.is_some_and(|view| lacks_local(view, family, policy)) {
                    self.no_local.insert(entry);
                } else {
                    self.no_local.remove(&entry);
                }
            }
        }
        let (view, status) = (view?, proxy.status(key)?);
        let condition = |condition: &services::Condition| {
            (condition.kind.reason().to_owned(), condition.port.clone(), condition.message.clone())
        };
        Some(ServiceEntry {
            status,
            unsupported: view.conditions.iter().map(condition).collect(),
            left_out: view.ports.iter().map(|port| port.left_out.len()).sum(),
        })
    }

    /// Whether HNS holds all that a Service wants; one that is gone wants nothing.
    fn is_programmed(&self, key: &ServiceKey) -> bool {
        let status = self.driver.proxy().status(key);
        let done = |state: &FrontendState| {
            matches!(state, FrontendState::Programmed | FrontendState::Waiting { .. })
        };
        status.is_none_or(|status| status.frontends.iter().all(|frontend| done(&frontend.state)))
    }
}

/// The port where load balancers ask about a Service, if it has one.
fn check(key: &ServiceKey, view: &ServiceView) -> Option<(u16, HealthCheck)> {
    let port = view.ports.iter().find_map(|port| port.health_check_node_port)?;
    let check = HealthCheck {
        service: key.clone(),
        local: view.local_ready,
        by_family: view.local_ready_by_family.clone(),
    };
    Some((port, check))
}

/// Which traffic a policy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Policy {
    Internal,
    External,
}

/// Whether a Service has endpoints, wants those of this node only, and has none.
fn lacks_local(view: &ServiceView, family: IpFamily, policy: Policy) -> bool {
    let local = |port: &services::ServicePort| match policy {
        Policy::Internal => port.internal_policy == TrafficPolicy::Local,
        Policy::External => port.external_policy == TrafficPolicy::Local,
    };
    let lacks =
        |port: &&services::ServicePort| local(port) && port.local.is_empty() && !port.cluster.is_empty();
    view.ports.iter().filter(|port| port.family == family).any(|port| lacks(&port))
}
