//! Fault plans read from YAML: by hand, so that every error names the entry and the field, says what is wrong and
//! what would be right. The one place of this crate's faults that knows the YAML library.

use std::time::Duration;

use serde_json::Value;

use super::action::{Action, Due, Loss, ScheduledAction};
use super::fault::{ACTIONS, BEHAVIOURS, Fault, elsewhere};
use super::fields::Fields;
use super::plan::{FaultPlan, FaultRule, LatencyRule, Match, PlanError};
use super::write::plan_value;

impl FaultPlan {
    /// Reads a plan; an empty text is the empty plan.
    pub fn from_yaml(text: &str) -> Result<Self, PlanError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let value: Value =
            serde_saphyr::from_str(text).map_err(|error| PlanError::Text(error.to_string()))?;
        let mut fields = Fields::of("plan", "", value)?;
        let plan = Self {
            seed: fields.optional("seed", Fields::number)?.unwrap_or(0),
            latency: fields.each("latency", |place, value| {
                let mut fields = Fields::of(place, "", value)?;
                let row =
                    LatencyRule { ops: fields.ops()?, kinds: fields.kinds()?, latency: fields.latency()? };
                fields.finish()?;
                Ok(row)
            })?,
            rules: fields.each("rules", rule)?,
            actions: fields.each("actions", action)?,
        };
        fields.finish()?;
        plan.check()?;
        Ok(plan)
    }

    /// Writes the plan; [`FaultPlan::from_yaml`] reads it back.
    pub fn to_yaml(&self) -> String {
        // A tree of strings, numbers and lists has a YAML form.
        serde_saphyr::to_string(&plan_value(self)).unwrap_or_default()
    }
}

fn rule(place: &str, value: Value) -> Result<FaultRule, PlanError> {
    let mut fields = Fields::of(place, "", value)?;
    let name = fields.optional("name", Fields::text)?;
    let fault = fields.required("fault", |fields, field, value| {
        let text = fields.text(field, value)?;
        Fault::parse(&text).ok_or_else(|| fields.error(field, no_fault(&text)))
    })?;
    let when = match fields.nested("when")? {
        None => Match::default(),
        Some(mut when) => {
            let read = Match {
                ops: when.ops()?,
                kinds: when.kinds()?,
                id: when.optional("id", Fields::guid)?,
                subject: when.optional("subject", Fields::glob)?,
                actor: when.optional("actor", Fields::glob)?,
                calls: when.window("calls", Fields::number, 0)?,
                time: when.window("time", Fields::duration, Duration::ZERO)?,
            };
            when.finish()?;
            read
        }
    };
    let rule = FaultRule {
        name,
        fault,
        when,
        skip: fields.optional("skip", Fields::number)?.unwrap_or(0),
        times: fields.optional("times", Fields::number)?,
        probability: fields.optional("probability", Fields::float)?.unwrap_or(1.0),
        code: fields.optional("code", Fields::code)?,
        after_effect: fields.optional("after_effect", Fields::flag)?.unwrap_or(false),
        latency: fields
            .nested("latency")?
            .map(|mut nested| {
                let latency = nested.latency()?;
                nested.finish().map(|()| latency)
            })
            .transpose()?,
        hold: fields.optional("hold", Fields::duration)?,
    };
    fields.finish()?;
    Ok(rule)
}

/// Why a name is no fault, for each way in which it may be none.
fn no_fault(text: &str) -> String {
    if let Some(row) = elsewhere(&BEHAVIOURS, text) {
        return format!("{} is a behaviour, not an injection; to see it, {}", row.name, row.instead);
    }
    if let Some(row) = elsewhere(&ACTIONS, text) {
        return format!(
            "{} is an act, not an answer to a call; put it under `actions`, like {}",
            row.name, row.instead
        );
    }
    let names: Vec<&str> = Fault::ALL.iter().map(|fault| fault.name()).collect();
    format!("{text:?} is no fault; known are {}", names.join(", "))
}

fn action(place: &str, value: Value) -> Result<ScheduledAction, PlanError> {
    const ACTS: [&str; 6] = ["restart", "delete", "modify", "create", "duplicate_endpoint", "listen"];
    let mut fields = Fields::of(place, "", value)?;
    let Some(mut at) = fields.nested("at")? else {
        return Err(fields.error("at", "is missing; say {call: 40} or {time: 30s}"));
    };
    let due = match (at.optional("call", Fields::number)?, at.optional("time", Fields::duration)?) {
        (Some(call), None) => Due::Call(call),
        (None, Some(time)) => Due::Time(time),
        _ => return Err(fields.error("at", "says neither or both; give `call` or `time`")),
    };
    at.finish()?;
    let mut acts: Vec<(&str, Fields)> = Vec::new();
    for name in ACTS {
        if let Some(nested) = fields.nested(name)? {
            acts.push((name, nested));
        }
    }
    let (Some((name, mut nested)), true) = (acts.pop(), acts.is_empty()) else {
        return Err(fields.error("", format!("says no act or several; give one of {}", ACTS.join(", "))));
    };
    fields.finish()?;
    let action = match name {
        "restart" => Action::Restart {
            loss: loss(&mut nested)?,
            notify: nested.optional("notify", Fields::flag)?.unwrap_or(false),
        },
        "delete" => Action::Delete { actor: nested.actor()?, kind: nested.kind()?, target: nested.target()? },
        "modify" => Action::Modify {
            actor: nested.actor()?,
            kind: nested.kind()?,
            target: nested.target()?,
            settings: nested.settings()?,
        },
        "create" => Action::Create {
            actor: nested.actor()?,
            kind: nested.kind()?,
            network: match nested.nested("network")? {
                None => None,
                Some(mut network) => {
                    let target = network.target()?;
                    network.finish()?;
                    Some(target)
                }
            },
            settings: nested.settings()?,
        },
        "duplicate_endpoint" => Action::DuplicateEndpoint {
            target: nested.target()?,
            remote: nested.optional("remote", Fields::flag)?.unwrap_or(true),
            first: nested.optional("first", Fields::flag)?.unwrap_or(false),
        },
        _ => Action::Listen {
            protocol: nested.required("protocol", |fields, field, value| {
                let text = fields.text(field, value)?;
                match text.to_ascii_uppercase().as_str() {
                    "TCP" | "6" => Ok(hcn::loadbalancer::protocol::TCP),
                    "UDP" | "17" => Ok(hcn::loadbalancer::protocol::UDP),
                    _ => Err(fields.error(field, format!("{text:?} has no ports here; give TCP or UDP"))),
                }
            })?,
            port: nested.required("port", Fields::number)?,
            open: nested.optional("open", Fields::flag)?.unwrap_or(true),
        },
    };
    nested.finish()?;
    Ok(ScheduledAction { due, action })
}

fn loss(fields: &mut Fields) -> Result<Loss, PlanError> {
    const WORDS: &str = "None, LoadBalancers, Endpoints, Everything, Rules or {kind, share, seed}";
    let Some(value) = fields.take("lose") else { return Ok(Loss::None) };
    if value.is_object() {
        let mut nested = Fields::of(&fields.place, &format!("{}lose.", fields.path), value)?;
        let loss = Loss::Fraction {
            kind: nested.kind()?,
            share: nested.required("share", Fields::float)?,
            seed: nested.optional("seed", Fields::number)?.unwrap_or(0),
        };
        nested.finish()?;
        return Ok(loss);
    }
    let text = fields.text("lose", &value)?;
    match text.to_ascii_lowercase().as_str() {
        "none" => Ok(Loss::None),
        "loadbalancers" => Ok(Loss::LoadBalancers),
        "endpoints" => Ok(Loss::Endpoints),
        "everything" => Ok(Loss::Everything),
        "rules" => Ok(Loss::Rules),
        _ => Err(fields.error("lose", format!("{text:?} is no loss; give {WORDS}"))),
    }
}
