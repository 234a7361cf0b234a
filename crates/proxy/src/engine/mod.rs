//! Reconciliation: wanted against observed, the fewest HCN calls, in a safe order.
//!
//! A [`Proxy`] holds three things: the *wanted* load balancers by frontend (from [`crate::plan`]), what HNS was
//! last *observed* to hold ([`crate::observed`]), and the set of frontends whose two sides may differ. There is no
//! "applied" flag. One [`Proxy::sync`] goes through what may differ, most important first:
//!
//! 1. for each frontend: create the endpoints it lacks, then create, modify or replace its load balancer;
//! 2. delete load balancers that are ours and unwanted;
//! 3. delete endpoints that are ours, unused and referenced by no load balancer.
//!
//! Whatever fails is tried again by itself, later, with back-off; nothing is concluded from a failed read. The
//! engine does not know where Services come from, what a packet is, or which HNS it talks to.

mod balancers;
mod census;
mod cleanup;
mod context;
mod endpoints;
mod ids;
mod pool;
mod read;
mod source_vip;
mod target;
mod together;
mod wanted;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hcn::loadbalancer::Frontend;
use hcn::time::{Clock, Entropy};
use hcn::{ErrorClass, Features, Guid, Hcn, Notification, NotificationKind};
use rustc_hash::{FxHashMap, FxHashSet};
use services::{IpFamily, ServiceKey};

use crate::backoff::Backoff;
use crate::config::{Config, NodeInput};
use crate::observed::Observed;
use crate::plan::{NodeContext, RemoteSubnet};
use crate::status::{Change, Failure, ProxyCondition, Report};
use wanted::{Claims, FrontendSet, Service};

pub use census::{Census, PoolUse};
pub use ids::{is_derived_balancer, is_derived_endpoint};

/// The `Owner` that objects made by the proxy carry.
pub const OWNER: &str = "transom";

/// What is retried, each by itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Retryable {
    /// Reading HNS: version, network, lists, check.
    Read,
    /// A load balancer.
    Frontend(Frontend),
    /// A remote or VIP endpoint.
    Endpoint(IpAddr),
    /// Deleting an object.
    Delete(Guid),
    /// Finding or making the source VIP.
    SourceVip,
    /// Looking for local endpoints that slices name and HNS lacks.
    MissingLocals,
}

/// The HNS network, as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NetworkState {
    pub(crate) id: Guid,
    pub(crate) overlay: bool,
    pub(crate) subnets: Vec<ipnet::IpNet>,
    pub(crate) remote_subnets: Vec<RemoteSubnet>,
}

/// What notifications leave for the next pass.
#[derive(Default)]
struct Signals {
    /// HNS restarted: everything must be looked at.
    disconnected: AtomicBool,
    /// Something was attached, detached, created or deleted: a check is worth while.
    nudged: AtomicBool,
    /// Who is to make the next pass come soon.
    waker: OnceLock<Waker>,
}

/// Called, on a thread of HNS's choosing, when HNS has said something; it must not call back into HNS.
pub type Waker = Box<dyn Fn() + Send + Sync>;

/// Trouble with one frontend, for its status.
#[derive(Clone, Debug, Default)]
struct Trouble {
    /// Backends that could not be used.
    left_out: Vec<(IpAddr, String)>,
    /// Why it is not served.
    waiting: Option<String>,
    /// It was taken from a load balancer of somebody else.
    foreign: Option<Guid>,
    /// Several load balancers hold it.
    ambiguous: bool,
}

impl Trouble {
    fn is_empty(&self) -> bool {
        self.left_out.is_empty() && self.waiting.is_none() && self.foreign.is_none() && !self.ambiguous
    }
}

/// Keeps one node's HNS as the Services want it.
pub struct Proxy {
    hcn: Arc<dyn Hcn>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    config: Config,
    node: NodeInput,
    /// In which order calls are made that may be under way together; none: by threads.
    by_chance: Option<Arc<dyn Entropy>>,

    features: Features,
    network: Option<NetworkState>,
    context: Option<NodeContext>,
    gateway: Option<Guid>,
    source_vip: Option<(Guid, IpAddr)>,

    services: BTreeMap<ServiceKey, Service>,
    claims: FxHashMap<Frontend, Claims>,
    uses: FxHashMap<IpAddr, FrontendSet>,
    vip_uses: FxHashMap<IpAddr, FrontendSet>,

    observed: Observed,
    /// Load balancers made or adopted here whatever their id.
    mine: FxHashSet<Guid>,
    pending: BTreeSet<(u8, Frontend)>,
    /// Where a pass that ran out of time stopped among those of no special importance; the next one begins there.
    turn: Option<(u8, Frontend)>,
    /// The last pass ran out of time.
    unfinished: bool,
    /// Services whose status may be another than when it was last asked for.
    touched: BTreeSet<ServiceKey>,
    doomed: BTreeSet<Guid>,
    garbage: BTreeSet<Guid>,
    missing_locals: FxHashSet<IpAddr>,
    /// Frontends that are replaced even when nothing differs (the remedy after an HNS restart).
    reapply: FxHashSet<Frontend>,
    trouble: FxHashMap<Frontend, Trouble>,
    backoff: Backoff<Retryable>,

    signals: Arc<Signals>,
    subscription: Option<hcn::api::SubscriptionId>,
    next_check: Duration,
    balancer_cursor: Option<Guid>,
    endpoint_cursor: Option<Guid>,
    /// HNS was away: the next check reads every load balancer and not a slice of them.
    verify_all: bool,
    modify_ineffective: bool,
    learned_limit: Option<usize>,
    conditions: BTreeSet<ProxyCondition>,
    repairs_total: u64,
}

/// One pass under way.
struct Pass {
    report: Report,
    now: Duration,
    /// HNS does not answer: no further calls in this pass.
    down: bool,
    /// The load balancers were listed anew in this pass.
    relisted: bool,
    /// When load balancers must stop, for deletions to get their share; when all must.
    shares: Option<(Duration, Duration)>,
    /// Frontends without DSR whose load balancers are about to be created.
    creating: Vec<Frontend>,
}

impl Pass {
    fn failed(&mut self, what: impl Into<String>, error: &hcn::Error) {
        if error.class() == ErrorClass::Unavailable {
            self.down = true;
        }
        let (what, error) = (what.into(), error.to_string());
        tracing::warn!(what = %what, error = %error, "HNS call failed");
        self.report.failures.push(Failure { what, error });
    }

    fn changed(&mut self, change: Change) {
        tracing::debug!(
            action = %change.action, kind = %change.kind, subject = %change.subject, id = %change.id,
            why = %change.why, "Changed HNS"
        );
        self.report.changes.push(change);
    }
}

impl Proxy {
    /// A proxy that knows nothing yet.
    pub fn new(
        hcn: Arc<dyn Hcn>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        config: Config,
        node: NodeInput,
    ) -> Self {
        Self {
            hcn,
            clock,
            entropy,
            config,
            node,
            by_chance: None,
            features: Features::unknown(),
            network: None,
            context: None,
            gateway: None,
            source_vip: None,
            services: BTreeMap::new(),
            claims: FxHashMap::default(),
            uses: FxHashMap::default(),
            vip_uses: FxHashMap::default(),
            observed: Observed::default(),
            mine: FxHashSet::default(),
            pending: BTreeSet::new(),
            turn: None,
            unfinished: false,
            touched: BTreeSet::new(),
            doomed: BTreeSet::new(),
            garbage: BTreeSet::new(),
            missing_locals: FxHashSet::default(),
            reapply: FxHashSet::default(),
            trouble: FxHashMap::default(),
            backoff: Backoff::default(),
            signals: Arc::default(),
            subscription: None,
            next_check: Duration::ZERO,
            balancer_cursor: None,
            endpoint_cursor: None,
            verify_all: false,
            modify_ineffective: false,
            learned_limit: None,
            conditions: BTreeSet::new(),
            repairs_total: 0,
        }
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Changes the node's facts; everything that depends on them follows at the next pass.
    pub fn set_node(&mut self, node: NodeInput) {
        if node != self.node {
            self.node = node;
            self.rebuild_context();
        }
    }

    /// Changes settings; everything that depends on them follows at the next pass.
    pub fn set_config(&mut self, config: Config) {
        let network_changed = config.network_name != self.config.network_name;
        if config.source_vips != self.config.source_vips
            || config.source_vip_endpoints != self.config.source_vip_endpoints
        {
            if let Some((id, _)) = self.source_vip.take() {
                self.garbage.insert(id);
            }
            self.all_pending();
        }
        self.config = config;
        if network_changed {
            self.forget_network();
        }
        self.next_check = Duration::ZERO;
        self.rebuild_context();
    }

    /// The IP families that are served, primary first: both only where HNS, network and node have both
    /// (an overlay network never has).
    pub fn families(&self) -> Vec<IpFamily> {
        let primary = self.node.primary_family();
        let mut families = vec![primary];
        let other = if primary == IpFamily::V4 { IpFamily::V6 } else { IpFamily::V4 };
        if let Some(network) = &self.network {
            let has_subnet = network.subnets.is_empty()
                || network.subnets.iter().any(|subnet| IpFamily::of_net(subnet) == other);
            if !network.overlay
                && has_subnet
                && self.node.address(other).is_some()
                && self.features.supports(hcn::Feature::IPv6DualStack)
            {
                families.push(other);
            }
        }
        families
    }

    /// The most backends a load balancer may have: what HNS refused tells, else its version: 64 for Server 2019's
    /// line, 1024 since (kubernetes/kubernetes#98680, #135518).
    pub fn max_backends(&self) -> usize {
        let by_version = match self.features.version() {
            Some(version) if version.major < 10 => 64,
            _ => 1024,
        };
        self.learned_limit.map_or(by_version, |learned| learned.min(by_version))
    }

    /// Whether HNS has been read and Services can be programmed.
    pub fn is_ready(&self) -> bool {
        self.context.is_some()
    }

    /// Frontends that are wanted.
    pub fn wanted_count(&self) -> usize {
        self.claims.len()
    }

    /// Differences found in HNS that nobody here had made, since the start.
    pub fn repairs_total(&self) -> u64 {
        self.repairs_total
    }

    /// Conditions of the node.
    pub fn conditions(&self) -> impl Iterator<Item = &ProxyCondition> {
        self.conditions.iter()
    }

    /// When the next pass is worth while if nothing else happens, in the clock's time.
    pub fn next_wakeup(&self) -> Duration {
        let retry = self.backoff.next().unwrap_or(Duration::MAX);
        if self.signals.disconnected.load(Ordering::Acquire) || self.signals.nudged.load(Ordering::Acquire) {
            return self.clock.now();
        }
        let next = if self.unfinished { self.clock.now() } else { self.next_check.min(retry) };
        // While HNS cannot be read nothing else is done either.
        self.backoff.get(&Retryable::Read).map_or(next, |read| next.max(read.at))
    }

    /// Names who is called when HNS says that something happened, so that a caller that sleeps until
    /// [`Proxy::next_wakeup`] can look again. The first one counts.
    pub fn set_waker(&mut self, waker: Waker) {
        // A second one would mean that two loops drive one proxy.
        let _ = self.signals.waker.set(waker);
    }

    /// Whether the last pass ran out of its time ([`Config::pass_time`]).
    pub fn is_unfinished(&self) -> bool {
        self.unfinished
    }

    /// The Services whose status may have changed since this was last asked.
    pub fn take_touched(&mut self) -> BTreeSet<ServiceKey> {
        std::mem::take(&mut self.touched)
    }

    /// Makes the next pass check HNS, whatever time it is.
    pub fn check_now(&mut self) {
        self.next_check = Duration::ZERO;
    }

    /// Reads what must be read: everything at first, later the ids and a slice of the objects once a period, or at
    /// once when HNS has said that something happened. Never writes.
    pub fn observe(&mut self) -> Report {
        let mut pass = self.start();
        self.read_hns(&mut pass);
        self.finish(pass)
    }

    /// Writes what differs.
    pub fn sync(&mut self) -> Report {
        let mut pass = self.start();
        self.unfinished = false;
        if self.context.is_some() && self.backoff.is_due(&Retryable::Read, pass.now) {
            self.converge_pending(&mut pass);
            if !pass.down {
                self.delete_doomed(&mut pass);
                self.retry_taken(&mut pass);
            }
            if !pass.down {
                self.collect_garbage(&mut pass);
            }
            self.unfinished &= !pass.down;
            if pass.down {
                // Everything waits for HNS together, not each object by itself.
                let error =
                    pass.report.failures.last().map(|failure| failure.error.clone()).unwrap_or_default();
                self.backoff.failed(Retryable::Read, error, &*self.clock, &*self.entropy);
                self.next_check = Duration::ZERO;
            } else if !self.unfinished {
                // Whatever was due and somebody still needs has been tried by now. The rest would wake up for nothing.
                self.backoff.forget_overdue(pass.now, |key| {
                    !matches!(key, Retryable::Read | Retryable::MissingLocals)
                });
            }
            self.note_port_pool();
        }
        self.finish(pass)
    }

    fn start(&self) -> Pass {
        let now = self.clock.now();
        let shares = self.config.pass_time.map(|time| (now + time / 4 * 3, now + time));
        Pass { report: Report::default(), now, down: false, relisted: false, shares, creating: Vec::new() }
    }

    fn finish(&mut self, mut pass: Pass) -> Report {
        self.repairs_total += pass.report.repairs as u64;
        pass.report.conditions = self.conditions.iter().cloned().collect();
        // What HNS holds is not known while it cannot be read.
        let unknown = !self.is_ready() || self.backoff.get(&Retryable::Read).is_some();
        pass.report.pending = self.pending.len() + self.doomed.len() + usize::from(unknown);
        pass.report
    }

    /// The id of an object of ours.
    fn derived(&self, key: &str) -> Guid {
        self.network.as_ref().map_or(Guid::NIL, |network| network.id.derive(key))
    }

    fn balancer_id(&self, frontend: &Frontend) -> Guid {
        self.derived(&crate::status::frontend_key(frontend))
    }

    fn all_pending(&mut self) {
        let frontends: Vec<(u8, Frontend)> =
            self.claims.iter().map(|(&frontend, claims)| (claims.rank(), frontend)).collect();
        self.pending.extend(frontends);
    }

    fn touch(&mut self, frontend: Frontend) {
        if let Some(claims) = self.claims.get(&frontend) {
            self.pending.insert((claims.rank(), frontend));
        } else {
            self.pending.insert((u8::MAX, frontend));
        }
    }

    fn touch_users_of(&mut self, address: IpAddr) {
        let mut users: Vec<Frontend> = Vec::new();
        for map in [&self.uses, &self.vip_uses] {
            if let Some(set) = map.get(&address) {
                users.extend(set.iter());
            }
        }
        for frontend in users {
            self.touch(frontend);
        }
    }

    fn set_condition(&mut self, condition: ProxyCondition) {
        self.conditions.retain(|old| old.reason != condition.reason);
        self.conditions.insert(condition);
    }

    fn clear_condition(&mut self, reason: crate::status::ConditionReason) {
        self.conditions.retain(|old| old.reason != reason);
    }

    fn subscribe(&mut self) {
        if self.subscription.is_some() {
            return;
        }
        let signals = Arc::clone(&self.signals);
        let sink: hcn::api::NotificationSink = Arc::new(move |notification: &Notification| {
            if notification.kind == NotificationKind::ServiceDisconnect {
                signals.disconnected.store(true, Ordering::Release);
            } else {
                signals.nudged.store(true, Ordering::Release);
            }
            if let Some(waker) = signals.waker.get() {
                waker();
            }
        });
        // Notifications only make things quicker; without them the periodic check finds the same.
        self.subscription = self.hcn.subscribe(sink).ok();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(subscription) = self.subscription.take() {
            self.hcn.unsubscribe(subscription);
        }
    }
}
