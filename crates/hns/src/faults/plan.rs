//! What a fault plan says: rules, latencies, actions, and the checks that every rule passes before it counts.

use std::time::Duration;

use hcn::{Guid, HResult, Kind};

use super::Call;
use super::action::{Action, Loss, ScheduledAction};
use super::fault::{Fault, Manner, Scope};
use super::glob::Glob;
use super::latency::Latency;
use crate::journal::Op;

/// A plan or rule that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The text is not YAML, or not of the outer shape.
    #[error("fault plan: {0}")]
    Text(String),
    /// One field is wrong.
    #[error("fault plan: {place}{}: {problem}", field_text(.field))]
    Field {
        /// Which entry: `rules[2] "dns"`.
        place: String,
        /// Which field of it; empty for the entry as a whole.
        field: String,
        /// What is wrong and what would be right.
        problem: String,
    },
}

/// An empty field stands for the entry as a whole.
fn field_text(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!(": field `{field}`") }
}

impl PlanError {
    pub(super) fn field(place: &str, field: &str, problem: impl Into<String>) -> Self {
        Self::Field { place: place.to_owned(), field: field.to_owned(), problem: problem.into() }
    }
}

/// Rules, latencies and actions. The order of rules matters; see [`super`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// Where every random choice of the plan comes from.
    pub seed: u64,
    /// How long calls take; the first row that matches a call counts.
    pub latency: Vec<LatencyRule>,
    /// Faults.
    pub rules: Vec<FaultRule>,
    /// Acts of others.
    pub actions: Vec<ScheduledAction>,
}

impl FaultPlan {
    /// A plan of rules only.
    pub fn of(seed: u64, rules: impl IntoIterator<Item = FaultRule>) -> Self {
        Self { seed, rules: rules.into_iter().collect(), ..Self::default() }
    }

    /// Checks every entry.
    pub fn check(&self) -> Result<(), PlanError> {
        for (index, row) in self.latency.iter().enumerate() {
            let place = format!("latency[{index}]");
            row.latency.check().map_err(|(field, problem)| PlanError::field(&place, field, problem))?;
        }
        for (index, rule) in self.rules.iter().enumerate() {
            rule.check(&rule.place(index))?;
        }
        for (index, scheduled) in self.actions.iter().enumerate() {
            check_action(&format!("actions[{index}]"), &scheduled.action)?;
        }
        Ok(())
    }
}

pub(super) fn check_action(place: &str, action: &Action) -> Result<(), PlanError> {
    let json = |field: &str, text: &str| {
        serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text).map(|_| ()).map_err(
            |error| {
                PlanError::field(
                    place,
                    field,
                    format!("not a JSON object ({error}); give the call's settings"),
                )
            },
        )
    };
    let named = |field: &str, target: &super::Target| {
        if target.id.is_none() && target.subject.is_none() {
            return Err(PlanError::field(
                place,
                field,
                "names no object; give `id` or `subject` (a pattern, \"*\" for all)",
            ));
        }
        Ok(())
    };
    match action {
        Action::Restart { loss: Loss::Fraction { share, .. }, .. } if !(0.0..=1.0).contains(share) => {
            Err(PlanError::field(place, "share", format!("{share} is not in 0 to 1")))
        }
        Action::Delete { target, .. } => named("delete", target),
        Action::Modify { target, settings, .. } => {
            named("modify", target)?;
            json("settings", settings)
        }
        Action::Create { kind: Kind::Endpoint, network: None, .. } => {
            Err(PlanError::field(place, "network", "is missing; an endpoint is made on a network"))
        }
        Action::Create { network, settings, .. } => {
            network.as_ref().map_or(Ok(()), |network| named("network", network))?;
            json("settings", settings)
        }
        Action::DuplicateEndpoint { target, .. } => named("duplicate_endpoint", target),
        Action::Listen { port: 0, .. } => {
            Err(PlanError::field(place, "port", "0 is no port; give one from 1 to 65535"))
        }
        Action::Restart { .. } | Action::Listen { .. } => Ok(()),
    }
}

/// How long the calls of some operations and kinds take.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyRule {
    /// Which operations; empty: all.
    pub ops: Vec<Op>,
    /// Which kinds; empty: all, and calls on none.
    pub kinds: Vec<Kind>,
    /// How long.
    pub latency: Latency,
}

impl LatencyRule {
    pub(super) fn matches(&self, call: &Call<'_>) -> bool {
        matches_op(&self.ops, call) && matches_kind(&self.kinds, call)
    }
}

/// From here (inclusive) until there (exclusive).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window<T> {
    /// First.
    pub from: T,
    /// First that is out again; none: no end.
    pub until: Option<T>,
}

impl<T: PartialOrd> Window<T> {
    /// Whether a point is in.
    pub fn contains(&self, at: &T) -> bool {
        *at >= self.from && self.until.as_ref().is_none_or(|until| at < until)
    }
}

/// Which calls a rule is about: those that fulfil every condition. The default is what the fault says for itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Match {
    /// Which operations; a v1 call fulfils its own and the v2 operation that it amounts to.
    pub ops: Vec<Op>,
    /// Which kinds.
    pub kinds: Vec<Kind>,
    /// Which object.
    pub id: Option<Guid>,
    /// Which frontend, address, name or v1 path.
    pub subject: Option<Glob>,
    /// Whose calls.
    pub actor: Option<Glob>,
    /// Which calls by index, counted over the life of the HNS from 0.
    pub calls: Option<Window<u64>>,
    /// Which calls by the clock's time.
    pub time: Option<Window<Duration>>,
}

/// The operations and kinds that a rule is about, after the fault's own scope has been narrowed by the rule.
/// None: any call whose operation and kind the rule itself does not rule out.
pub(super) type Resolved = Option<Vec<(Op, Kind)>>;

impl Match {
    /// What the rule asks for within the usual scope, else within all that is possible.
    pub(super) fn resolve(&self, fault: Fault) -> Resolved {
        let spec = fault.spec();
        if spec.scope.is_empty() {
            return None;
        }
        let within = |scope: Scope| -> Vec<(Op, Kind)> {
            scope
                .iter()
                .flat_map(|&(op, kinds)| kinds.iter().map(move |&kind| (op, kind)))
                .filter(|&(op, kind)| {
                    self.names_op(op) && (self.kinds.is_empty() || self.kinds.contains(&kind))
                })
                .collect()
        };
        let usual = within(spec.usual);
        Some(if usual.is_empty() { within(spec.scope) } else { usual })
    }

    /// Whether the v2 operation `op` is named, itself or by a v1 call that amounts to it.
    fn names_op(&self, op: Op) -> bool {
        self.ops.is_empty()
            || self.ops.contains(&op)
            || self
                .ops
                .iter()
                .any(|named| [false, true].into_iter().any(|has_id| named.acts_as(has_id) == op))
    }

    pub(super) fn matches(&self, scope: &Resolved, call: &Call<'_>, index: u64, now: Duration) -> bool {
        let in_scope = match scope {
            None => matches_kind(&self.kinds, call),
            Some(pairs) => {
                let op = call.op.acts_as(call.id.is_some());
                call.kind.is_some_and(|kind| pairs.contains(&(op, kind)))
            }
        };
        in_scope
            && matches_op(&self.ops, call)
            && self.id.is_none_or(|id| call.id == Some(id))
            && self.subject.as_ref().is_none_or(|glob| glob.matches_subject(call.subject))
            && self.actor.as_ref().is_none_or(|glob| glob.matches(call.actor))
            && self.calls.is_none_or(|window| window.contains(&index))
            && self.time.is_none_or(|window| window.contains(&now))
    }
}

fn matches_op(ops: &[Op], call: &Call<'_>) -> bool {
    ops.is_empty() || ops.contains(&call.op) || ops.contains(&call.op.acts_as(call.id.is_some()))
}

fn matches_kind(kinds: &[Kind], call: &Call<'_>) -> bool {
    kinds.is_empty() || call.kind.is_some_and(|kind| kinds.contains(&kind))
}

/// One fault, and when it strikes.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultRule {
    /// For people.
    pub name: Option<String>,
    /// What.
    pub fault: Fault,
    /// Which calls.
    pub when: Match,
    /// How many matching calls go by first.
    pub skip: u32,
    /// How many calls it strikes at most; none: no end.
    pub times: Option<u32>,
    /// How likely it strikes a matching call, 0 to 1.
    pub probability: f64,
    /// The code, where it is not the fault's own.
    pub code: Option<HResult>,
    /// The call has its effect before it fails: the reply is lost.
    pub after_effect: bool,
    /// How long (F-SLOW only).
    pub latency: Option<Latency>,
    /// How long the ports stay taken (F-PORTLEAK only); none: for ever.
    pub hold: Option<Duration>,
}

impl FaultRule {
    /// The fault at each call it can befall.
    pub fn new(fault: Fault) -> Self {
        Self {
            name: None,
            fault,
            when: Match::default(),
            skip: 0,
            times: None,
            probability: 1.0,
            code: None,
            after_effect: false,
            latency: None,
            hold: None,
        }
    }

    /// F-SLOW with a latency.
    pub fn slow(latency: Latency) -> Self {
        Self { latency: Some(latency), ..Self::new(Fault::Slow) }
    }

    /// Only calls with this operation (may be repeated).
    #[must_use]
    pub fn on(mut self, op: Op) -> Self {
        self.when.ops.push(op);
        self
    }

    /// Only calls on this kind (may be repeated).
    #[must_use]
    pub fn kind(mut self, kind: Kind) -> Self {
        self.when.kinds.push(kind);
        self
    }

    /// Only calls on this object.
    #[must_use]
    pub const fn id(mut self, id: Guid) -> Self {
        self.when.id = Some(id);
        self
    }

    /// Only calls whose subject is like this.
    #[must_use]
    pub fn subject(mut self, pattern: &str) -> Self {
        self.when.subject = Some(Glob::new(pattern));
        self
    }

    /// Only calls of actors like this.
    #[must_use]
    pub fn actor(mut self, pattern: &str) -> Self {
        self.when.actor = Some(Glob::new(pattern));
        self
    }

    /// Only calls `from..until` by index.
    #[must_use]
    pub const fn calls(mut self, from: u64, until: Option<u64>) -> Self {
        self.when.calls = Some(Window { from, until });
        self
    }

    /// Only from one time until another.
    #[must_use]
    pub const fn time(mut self, from: Duration, until: Option<Duration>) -> Self {
        self.when.time = Some(Window { from, until });
        self
    }

    /// Lets the first `n` matching calls go by.
    #[must_use]
    pub const fn skip(mut self, n: u32) -> Self {
        self.skip = n;
        self
    }

    /// Strikes at most `n` calls.
    #[must_use]
    pub const fn times(mut self, n: u32) -> Self {
        self.times = Some(n);
        self
    }

    /// Strikes a matching call with this probability.
    #[must_use]
    pub const fn probability(mut self, p: f64) -> Self {
        self.probability = p;
        self
    }

    /// Answers this code.
    #[must_use]
    pub const fn code(mut self, code: HResult) -> Self {
        self.code = Some(code);
        self
    }

    /// Fails after the call had its effect.
    #[must_use]
    pub const fn after_effect(mut self) -> Self {
        self.after_effect = true;
        self
    }

    /// Holds leaked ports this long.
    #[must_use]
    pub const fn hold(mut self, duration: Duration) -> Self {
        self.hold = Some(duration);
        self
    }

    /// Gives the rule a name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    pub(super) fn place(&self, index: usize) -> String {
        match &self.name {
            Some(name) => format!("rules[{index}] {name:?}"),
            None => format!("rules[{index}]"),
        }
    }

    pub(super) fn check(&self, place: &str) -> Result<(), PlanError> {
        let wrong = |field: &str, problem: String| Err(PlanError::field(place, field, problem));
        let (fault, spec) = (self.fault, self.fault.spec());
        if self.when.resolve(fault).is_some_and(|scope| scope.is_empty()) {
            let field = if self.when.ops.is_empty() { "when.kind" } else { "when.op" };
            return wrong(
                field,
                format!("{fault} cannot befall such a call; it can {}", scope_text(spec.scope)),
            );
        }
        if !(0.0..=1.0).contains(&self.probability) {
            return wrong("probability", format!("{} is not in 0 to 1", self.probability));
        }
        if self.times == Some(0) {
            return wrong("times", "0 strikes nothing; leave the rule out, or `times` for no end".to_owned());
        }
        if let Some(window) = self.when.calls
            && window.until.is_some_and(|until| until <= window.from)
        {
            return wrong("when.calls", "`until` (exclusive) is not after `from`; no call is in".to_owned());
        }
        if let Some(window) = self.when.time
            && window.until.is_some_and(|until| until <= window.from)
        {
            return wrong("when.time", "`until` (exclusive) is not after `from`; no call is in".to_owned());
        }
        if let Some(code) = self.code {
            if fault.code().is_none() {
                return wrong("code", format!("{fault} does not fail a call; leave `code` out"));
            }
            if !code.is_failure() {
                return wrong("code", format!("{code} is a success; give a failing HRESULT"));
            }
        }
        if self.after_effect && !fault.may_follow_effect() {
            return wrong(
                "after_effect",
                format!("{fault} has an effect of its own; leave `after_effect` out"),
            );
        }
        match (spec.manner, self.latency) {
            (Manner::Delay, None) => {
                return wrong("latency", "is missing; say {fixed: 2s} or another distribution".to_owned());
            }
            (Manner::Delay, Some(latency)) => {
                if let Err((field, problem)) = latency.check() {
                    return wrong(&format!("latency.{field}"), problem);
                }
            }
            (_, Some(_)) => {
                return wrong("latency", format!("belongs to F-SLOW, not to {fault}; write a second rule"));
            }
            (_, None) => {}
        }
        if self.hold.is_some() && !matches!(spec.manner, Manner::KeepPorts) {
            return wrong("hold", format!("belongs to F-PORTLEAK, not to {fault}; leave it out"));
        }
        Ok(())
    }
}

fn scope_text(scope: Scope) -> String {
    let rows = scope.iter().map(|(op, kinds)| {
        let kinds: Vec<&str> = kinds.iter().map(|kind| kind.export_word()).collect();
        format!("{op} {}", kinds.join("/"))
    });
    rows.collect::<Vec<_>>().join(", ")
}
