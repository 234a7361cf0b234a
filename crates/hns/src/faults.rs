//! Faults: what can go wrong in HNS, on demand, by script or by code, the same in every run.
//!
//! This module decides and knows no state: [`Faults::decide`] is asked once per API call and answers how long the
//! call takes and what becomes of it; carrying that out is the service's work. The names are those of public
//! reports' fault classes; each [`Effect`] says what the service owes it.
//!
//! # Faults
//!
//! | name | a call that it strikes | strikes, unless the rule says less | code | seen in |
//! |---|---|---|---|---|
//! | F-DOWN | fails, the service is down | every call | 0x800706BE | kubernetes/kubernetes#139519 |
//! | F-HANG | does not return until released | every call | – | Azure/aks-engine#4315 |
//! | F-SLOW | takes `latency` longer | every call | – | kubernetes/kubernetes#109162 |
//! | F-NILGET | succeeds with an empty document (on request: an empty list) | Query | – | kube-proxy start panics |
//! | F-PARTIAL | fails and leaves an object without port mapping | Create of load balancers, endpoints | 0x80004005 | odd replies that crashed a proxy |
//! | F-DELFAIL | fails, the object stays | Delete | 0x80004005 | kubernetes/kubernetes#113524 |
//! | F-DELGHOST | succeeds, the object stays | Delete | – | microsoft/Windows-Containers#631 |
//! | F-PORTLEAK | succeeds, the ports stay taken (for `hold`) | Delete of load balancers, endpoints | – | kubernetes/kubernetes#137530 |
//! | F-MODNOOP | succeeds, nothing changes | Modify of load balancers (others on request) | – | kubernetes/kubernetes#131466 |
//! | F-DEGRADED | network: goes, its load balancers stay in state 4; load balancer (on request): fails | Delete of networks | 0x803B0001 | load balancers outliving their network |
//! | F-PARAM | is refused as a whole | Create, Modify (others on request) | 0x80070057 | microsoft/SDN#177 |
//! | F-PORT | finds the port reserved | Create, Modify of load balancers, endpoints | 0x803B0013 | microsoft/hcsshim#1043 |
//! | F-SWPORT | finds no switch port | Create, Modify of load balancers, endpoints | 0x803B0007 | microsoft/hcsshim#1043 |
//! | F-ADDR | finds the address reserved | Create of endpoints | 0x803B002F | kubernetes/kubernetes#100962 |
//! | F-SUBNET | finds the address in no subnet | Create of endpoints | 0x803B001E | HCN error pages |
//! | F-POLICY | finds a policy that the build refuses | Create, Modify of endpoints (networks on request) | 0x803B000D | projectcalico/calico#8465 |
//! | F-NONET | finds no network | Create of endpoints, all but lists of networks | 0x803B0001 | Azure/azure-container-networking#283 |
//! | F-NETNAME | finds the name taken, though not listed | Create of networks | 0x803B0010 | microsoft/hcsshim#850 |
//! | F-NOADAPTER | finds no adapter | Create of networks | 0x803B0006 | antrea-io/antrea#3636 |
//! | F-NOELEM | finds no element | Query, Modify, Delete of namespaces (others on request) | 0x80070490 | Azure/azure-container-networking#283 |
//! | F-NSBUSY | finds a dead container in the namespace | Delete of namespaces | 0x803B0015 | microsoft/Windows-Containers#485 |
//! | F-UNATTACHED | succeeds, the endpoint stays in state 3 | Create of endpoints (Modify, namespaces on request) | – | projectcalico/calico#12795 |
//! | F-NORULES | succeeds, the switch lacks the endpoint's NAT (a load balancer's rules, on request) | Create of endpoints (Modify, load balancers on request) | – | projectcalico/calico#12862 |
//! | F-STALERULES | succeeds, its rules stay on pods' ports | Delete of load balancers | – | moby/libnetwork#2527 |
//!
//! A failing fault may name another `code`, and `after_effect: true` lets the call have its effect before it fails:
//! the reply is lost, and the caller must find out.
//!
//! # Acts of others
//!
//! F-LOSE, F-EXT and F-DUPIP are no answers to a call but acts, listed under `actions` with a call or a time; see
//! [`Action`] and [`FaultActions`].
//!
//! # Behaviours
//!
//! Five classes need no injection: the emulated HNS behaves so by itself. A script that names one is told this.
//!
//! | name | what brings it about |
//! |---|---|
//! | F-PORTPOOL | the host's dynamic port range: each non-DSR load balancer takes a block of 64 |
//! | F-MAXDST | the profile's destination limit (a switch overrides it), code 0x80070057 |
//! | F-EMPTYREF | a load balancer without endpoints, code 0x803B001C |
//! | F-EXISTS | a frontend that is there already, code 0x800700B7 |
//! | F-ORDER | the profile's HNS version, from which its features follow |
//!
//! # How rules work together
//!
//! 1. Every call gets an index, from 0 in the order in which calls are decided. Actions due by then come first.
//! 2. The call's latency is the first matching row of `latency`, plus every F-SLOW rule that strikes.
//! 3. Of the other rules, in the order of the plan (rules added later come last), the first one that strikes
//!    decides the effect; the rest are not asked and count nothing.
//! 4. A rule that is asked and whose conditions hold: lets `skip` calls go by, then strikes with `probability`,
//!    until it has struck `times` times.
//! 5. Draws are numbered per rule and depend on the plan's seed, the rule's place and the number alone: other
//!    rules, threads and time do not change them.
//!
//! # Script
//!
//! ```yaml
//! seed: 7
//! latency:
//!   - {op: [Create, Modify, Delete], uniform: {from: 500ms, to: 30s}}
//!   - {lognormal: {median: 2ms, sigma: 1.0, max: 1s}}
//! rules:
//!   - name: the DNS VIP cannot be deleted at first
//!     fault: F-DELFAIL
//!     when: {kind: LoadBalancer, subject: "10.60.0.10:53/*", actor: proxy}
//!     times: 3
//!   - {fault: F-DOWN, when: {time: {from: 60s, until: 90s}}}
//! actions:
//!   - {at: {call: 40}, restart: {lose: LoadBalancers}}
//!   - {at: {time: 2m}, delete: {kind: LoadBalancer, subject: "10.60.0.1:443/TCP"}}
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hcn::{Guid, HResult, Kind};
use parking_lot::Mutex;

use crate::journal::Op;

mod action;
mod fault;
mod fields;
mod glob;
mod hang;
mod latency;
mod plan;
#[cfg(test)]
mod tests;
mod write;
mod yaml;

pub use action::{Action, Due, FaultActions, Loss, Performed, ScheduledAction, Target, neighbour_id};
pub use fault::{ACTIONS, BEHAVIOURS, Elsewhere, Fault};
pub use glob::Glob;
pub use hang::{HangToken, Release};
pub use latency::Latency;
pub use plan::{FaultPlan, FaultRule, LatencyRule, Match, PlanError, Window};

use fault::Manner;
use hang::HangGate;

/// One API call, as rules see it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Who calls.
    pub actor: &'a str,
    /// What.
    pub op: Op,
    /// On which kind; for v1 calls, what the path is about.
    pub kind: Option<Kind>,
    /// On which object; for v1 calls, the id in the path. None for lists, and for creates whose id is not given.
    pub id: Option<Guid>,
    /// As [`crate::journal::Entry::subject`]: from the settings for a create, from the stored object otherwise.
    pub subject: &'a str,
}

/// What becomes of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// How long it takes: slept before the effect, outside every lock.
    pub delay: Duration,
    /// What happens then.
    pub effect: Effect,
    /// The fault to note in the journal: the effect's, else F-SLOW when a rule of it struck.
    pub fault: Option<&'static str>,
    /// The rule that decided the effect.
    pub rule: Option<RuleId>,
}

impl Decision {
    const PROCEED: Self = Self { delay: Duration::ZERO, effect: Effect::Proceed, fault: None, rule: None };
}

/// What happens to a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// What the state says.
    Proceed,
    /// It fails with this code; the state is untouched.
    Fail(HResult),
    /// The state changes as if nothing was wrong; if that succeeds, the caller is told this code instead (a create's
    /// id is lost). A call that fails by itself keeps its own code.
    FailAfterEffect(HResult),
    /// The object is made without what distinguishes it (a load balancer without port mappings, so with no
    /// frontend; an endpoint without policies) and stays; the caller is told this code.
    FailPartial(HResult),
    /// It succeeds and the state is untouched. An object that is not there is still not found.
    Ghost,
    /// The delete succeeds but the object's port reservations (frontends and the block of the dynamic range) stay
    /// until this time of the clock, or for ever.
    KeepPorts {
        /// The time; none: for ever, restarts included.
        until: Option<Duration>,
    },
    /// A query succeeds with the document `{}`, an enumeration with no ids; an object that is not there is still
    /// not found.
    NilGet,
    /// The caller waits on the token and does then what [`HangToken::wait`] says.
    Hang(HangToken),
    /// The endpoint is made, or the attachment reported, but it stays in state 3 and in no namespace.
    Unattached,
    /// The write is done; the rules of what it made are not in the switch (an endpoint's: its NAT) until the next
    /// write of it.
    Unprogrammed,
    /// The load balancer is deleted; its rules on pods' ports stay until its network goes or the service restarts.
    LeaveRules,
    /// The network is deleted; its load balancers stay, in state 4, and every later delete of them fails with this
    /// code (until a restart drops them).
    Degrade(HResult),
}

/// Names a rule of a running plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(u64);

#[derive(Debug)]
struct Active {
    id: RuleId,
    rule: FaultRule,
    scope: plan::Resolved,
    /// The rule's place among those of the plan, which numbers its stream of draws.
    place: u64,
    /// Matching calls so far, the number of the next draw.
    matched: u64,
    struck: u64,
}

#[derive(Debug, Default)]
struct Inner {
    seed: u64,
    next_rule: u64,
    next_place: u64,
    latency: Vec<LatencyRule>,
    rules: Vec<Active>,
    actions: Vec<ScheduledAction>,
    performed: Vec<Performed>,
}

impl Inner {
    fn is_idle(&self) -> bool {
        self.latency.is_empty() && self.rules.is_empty() && self.actions.is_empty()
    }

    fn push(&mut self, rule: FaultRule) -> RuleId {
        let id = RuleId(self.next_rule);
        self.next_rule += 1;
        let place = self.next_place;
        self.next_place += 1;
        let scope = rule.when.resolve(rule.fault);
        self.rules.push(Active { id, rule, scope, place, matched: 0, struck: 0 });
        id
    }
}

/// The running plan of one HNS. Every method may be called from any thread, while calls are being made.
#[derive(Debug, Default)]
pub struct Faults {
    inner: Mutex<Inner>,
    /// Set while there is nothing to decide, so that an HNS without faults pays one load per call.
    idle: AtomicBool,
    calls: AtomicU64,
    gate: Arc<HangGate>,
}

impl Faults {
    /// Starts a plan, after checking it.
    pub fn new(plan: FaultPlan) -> Result<Self, PlanError> {
        let faults = Self::default();
        faults.replace(plan)?;
        Ok(faults)
    }

    /// Decides one call. The service asks exactly once per call, after [`Faults::perform_due`].
    pub fn decide(&self, call: &Call<'_>, now: Duration) -> Decision {
        let index = self.calls.fetch_add(1, Ordering::SeqCst);
        if self.idle.load(Ordering::Acquire) {
            return Decision::PROCEED;
        }
        let mut inner = self.inner.lock();
        let Inner { seed, latency, rules, .. } = &mut *inner;
        let seed = *seed;
        let mut decision = Decision::PROCEED;
        if let Some(row) = latency.iter().position(|row| row.matches(call)) {
            // The top half of the stream numbers belongs to the rows of the latency table.
            let stream = u64::MAX - row as u64;
            decision.delay = latency[row].latency.sample(|n| latency::unit(seed, stream ^ (n << 48), index));
        }
        for active in rules {
            let slow = active.rule.fault.spec().manner == Manner::Delay;
            if decision.rule.is_some() && !slow {
                continue;
            }
            if !active.strikes(seed, call, index, now) {
                continue;
            }
            if slow {
                let draw = active.matched;
                if let Some(latency) = active.rule.latency {
                    let more = latency.sample(|n| latency::unit(seed, active.place ^ ((n + 2) << 48), draw));
                    decision.delay = decision.delay.saturating_add(more);
                }
                decision.fault.get_or_insert(active.rule.fault.name());
            } else {
                decision.effect = active.effect(call, now, &self.gate);
                decision.fault = Some(active.rule.fault.name());
                decision.rule = Some(active.id);
            }
        }
        decision
    }

    /// Has the actions done that are due before the next call. The service calls this first for each call, holding
    /// no lock; what the actions themselves do must not come through here again.
    pub fn perform_due(&self, now: Duration, on: &dyn FaultActions) {
        if self.idle.load(Ordering::Acquire) {
            return;
        }
        let before_call = self.calls();
        for scheduled in self.take_due(before_call, now) {
            let result = scheduled.action.perform(on);
            self.inner.lock().performed.push(Performed { scheduled, before_call, result });
        }
    }

    fn take_due(&self, index: u64, now: Duration) -> Vec<ScheduledAction> {
        let mut inner = self.inner.lock();
        let (due, later) =
            std::mem::take(&mut inner.actions).into_iter().partition(|scheduled| match scheduled.due {
                Due::Call(call) => call <= index,
                Due::Time(time) => time <= now,
            });
        inner.actions = later;
        self.idle.store(inner.is_idle(), Ordering::Release);
        due
    }

    /// Replaces everything by another plan; the call index goes on.
    pub fn replace(&self, plan: FaultPlan) -> Result<(), PlanError> {
        plan.check()?;
        let mut inner = self.inner.lock();
        inner.seed = plan.seed;
        inner.latency = plan.latency;
        inner.actions = plan.actions;
        inner.rules.clear();
        inner.next_place = 0;
        for rule in plan.rules {
            inner.push(rule);
        }
        self.idle.store(inner.is_idle(), Ordering::Release);
        Ok(())
    }

    /// Adds a rule after the others. Its `skip` and `times` count from now.
    pub fn add(&self, rule: FaultRule) -> Result<RuleId, PlanError> {
        rule.check(&rule.place(self.inner.lock().rules.len()))?;
        let mut inner = self.inner.lock();
        let id = inner.push(rule);
        self.idle.store(false, Ordering::Release);
        Ok(id)
    }

    /// Takes a rule away; false when it was gone already.
    pub fn remove(&self, id: RuleId) -> bool {
        let mut inner = self.inner.lock();
        let before = inner.rules.len();
        inner.rules.retain(|active| active.id != id);
        self.idle.store(inner.is_idle(), Ordering::Release);
        inner.rules.len() < before
    }

    /// Takes every rule, latency and action away. Hung calls stay hung.
    pub fn clear(&self) {
        let mut inner = self.inner.lock();
        inner.rules.clear();
        inner.latency.clear();
        inner.actions.clear();
        self.idle.store(true, Ordering::Release);
    }

    /// Adds an action.
    pub fn schedule(&self, scheduled: ScheduledAction) -> Result<(), PlanError> {
        plan::check_action("action", &scheduled.action)?;
        self.inner.lock().actions.push(scheduled);
        self.idle.store(false, Ordering::Release);
        Ok(())
    }

    /// Replaces the latency table.
    pub fn set_latency(&self, rows: Vec<LatencyRule>) -> Result<(), PlanError> {
        FaultPlan { latency: rows.clone(), ..FaultPlan::default() }.check()?;
        let mut inner = self.inner.lock();
        inner.latency = rows;
        self.idle.store(inner.is_idle(), Ordering::Release);
        Ok(())
    }

    /// The rules in force, with how many calls each has struck.
    pub fn rules(&self) -> Vec<(RuleId, FaultRule, u64)> {
        self.inner.lock().rules.iter().map(|active| (active.id, active.rule.clone(), active.struck)).collect()
    }

    /// How many calls a rule has struck; 0 when there is no such rule.
    pub fn struck(&self, id: RuleId) -> u64 {
        self.inner.lock().rules.iter().find(|active| active.id == id).map_or(0, |active| active.struck)
    }

    /// Actions that are not due yet.
    pub fn pending(&self) -> Vec<ScheduledAction> {
        self.inner.lock().actions.clone()
    }

    /// What became of the actions that were due.
    pub fn performed(&self) -> Vec<Performed> {
        self.inner.lock().performed.clone()
    }

    /// The index that the next call will have.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// Ends every hung call as an HNS that is restarted does: failed, without effect.
    pub fn release_hung(&self) {
        self.release_hung_as(Release::Fail(HResult::RPC_CALL_FAILED));
    }

    /// Ends every hung call in this manner.
    pub fn release_hung_as(&self, how: Release) {
        self.gate.release(how);
    }

    /// How many calls hang.
    pub fn hung(&self) -> usize {
        self.gate.waiting()
    }

    /// Blocks until at least this many calls hang: how a test knows that another thread has got there.
    pub fn wait_until_hung(&self, calls: usize) {
        self.gate.wait_until_waiting(calls);
    }
}

impl Active {
    fn strikes(&mut self, seed: u64, call: &Call<'_>, index: u64, now: Duration) -> bool {
        let rule = &self.rule;
        if rule.times.is_some_and(|times| self.struck >= u64::from(times)) {
            return false;
        }
        if !rule.when.matches(&self.scope, call, index, now) {
            return false;
        }
        let number = self.matched;
        self.matched += 1;
        if number < u64::from(rule.skip) {
            return false;
        }
        let struck = rule.probability >= 1.0 || latency::unit(seed, self.place, number) < rule.probability;
        self.struck += u64::from(struck);
        struck
    }

    fn effect(&self, call: &Call<'_>, now: Duration, gate: &Arc<HangGate>) -> Effect {
        let rule = &self.rule;
        let code = |own: HResult| rule.code.unwrap_or(own);
        match rule.fault.spec().manner {
            Manner::Fail(own) if rule.after_effect => Effect::FailAfterEffect(code(own)),
            Manner::Partial(own) => Effect::FailPartial(code(own)),
            Manner::Ghost => Effect::Ghost,
            Manner::Nil => Effect::NilGet,
            Manner::Hang => Effect::Hang(gate.token()),
            Manner::KeepPorts => Effect::KeepPorts { until: rule.hold.map(|hold| now.saturating_add(hold)) },
            Manner::Unattached => Effect::Unattached,
            Manner::Unprogrammed => Effect::Unprogrammed,
            Manner::LeaveRules => Effect::LeaveRules,
            Manner::Degrade(own) if call.kind == Some(Kind::Network) => Effect::Degrade(code(own)),
            Manner::Fail(own) | Manner::Degrade(own) => Effect::Fail(code(own)),
            // Decided by the caller: a delay has no effect.
            Manner::Delay => Effect::Proceed,
        }
    }
}
