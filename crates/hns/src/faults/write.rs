//! Fault plans written as a tree that [`super::FaultPlan::from_yaml`] reads back.

use std::time::Duration;

use hcn::Kind;
use serde_json::{Map, Value, json};

use super::action::{Action, Due, Loss, ScheduledAction, Target};
use super::latency::{Latency, duration_text};
use super::plan::{FaultPlan, FaultRule};
use crate::journal::Op;

/// The whole plan.
pub(super) fn plan_value(fault_plan: &FaultPlan) -> Value {
    let mut plan = Map::new();
    plan.insert("seed".to_owned(), fault_plan.seed.into());
    let mut put = |name: &str, rows: Vec<Value>| {
        if !rows.is_empty() {
            plan.insert(name.to_owned(), rows.into());
        }
    };
    put(
        "latency",
        fault_plan
            .latency
            .iter()
            .map(|row| {
                let mut map = latency_map(&row.latency);
                scope_into(&mut map, &row.ops, &row.kinds);
                Value::Object(map)
            })
            .collect(),
    );
    put("rules", fault_plan.rules.iter().map(rule_value).collect());
    put("actions", fault_plan.actions.iter().map(action_value).collect());
    Value::Object(plan)
}

fn latency_map(latency: &Latency) -> Map<String, Value> {
    let value = match *latency {
        Latency::Fixed(duration) => json!({ "fixed": duration_text(duration) }),
        Latency::Uniform { from, to } => {
            json!({ "uniform": { "from": duration_text(from), "to": duration_text(to) } })
        }
        Latency::Exponential { mean, max } => {
            json!({ "exponential": { "mean": duration_text(mean), "max": duration_text(max) } })
        }
        Latency::LogNormal { median, sigma, max } => json!({ "lognormal": {
            "median": duration_text(median), "sigma": sigma, "max": duration_text(max)
        } }),
    };
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn scope_into(map: &mut Map<String, Value>, ops: &[Op], kinds: &[Kind]) {
    if !ops.is_empty() {
        map.insert("op".to_owned(), ops.iter().map(|op| op.name()).collect());
    }
    if !kinds.is_empty() {
        map.insert("kind".to_owned(), kinds.iter().map(|kind| kind.export_word()).collect());
    }
}

/// Builds a mapping of the fields that are there.
fn present<const N: usize>(fields: [(&str, Option<Value>); N]) -> Map<String, Value> {
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn rule_value(rule: &FaultRule) -> Value {
    let window =
        |from: Value, until: Option<Value>| Value::Object(present([("from", Some(from)), ("until", until)]));
    let text = |duration: Duration| Value::from(duration_text(duration));
    let mut when = Map::new();
    scope_into(&mut when, &rule.when.ops, &rule.when.kinds);
    when.extend(present([
        ("id", rule.when.id.map(|id| id.to_string().into())),
        ("subject", rule.when.subject.as_ref().map(|glob| glob.as_str().into())),
        ("actor", rule.when.actor.as_ref().map(|glob| glob.as_str().into())),
        ("calls", rule.when.calls.map(|calls| window(calls.from.into(), calls.until.map(Value::from)))),
        ("time", rule.when.time.map(|time| window(text(time.from), time.until.map(text)))),
    ]));
    Value::Object(present([
        ("name", rule.name.clone().map(Value::from)),
        ("fault", Some(rule.fault.name().into())),
        ("when", (!when.is_empty()).then_some(Value::Object(when))),
        ("skip", (rule.skip > 0).then(|| rule.skip.into())),
        ("times", rule.times.map(Value::from)),
        ("probability", (rule.probability < 1.0).then(|| rule.probability.into())),
        ("code", rule.code.map(|code| code.to_string().into())),
        ("after_effect", rule.after_effect.then(|| true.into())),
        ("latency", rule.latency.map(|latency| Value::Object(latency_map(&latency)))),
        ("hold", rule.hold.map(text)),
    ]))
}

fn target_fields(target: &Target) -> Map<String, Value> {
    present([
        ("id", target.id.map(|id| id.to_string().into())),
        ("subject", target.subject.as_ref().map(|glob| glob.as_str().into())),
    ])
}

fn action_value(scheduled: &ScheduledAction) -> Value {
    let at = match scheduled.due {
        Due::Call(call) => json!({ "call": call }),
        Due::Time(time) => json!({ "time": duration_text(time) }),
    };
    let acting = |actor: &str, kind: Kind| {
        present([("actor", Some(actor.into())), ("kind", Some(kind.export_word().into()))])
    };
    let (name, act) = match &scheduled.action {
        Action::Restart { loss, notify } => {
            let lose = match loss {
                Loss::None => json!("None"),
                Loss::LoadBalancers => json!("LoadBalancers"),
                Loss::Endpoints => json!("Endpoints"),
                Loss::Everything => json!("Everything"),
                Loss::Rules => json!("Rules"),
                Loss::Fraction { kind, share, seed } => {
                    json!({ "kind": kind.export_word(), "share": share, "seed": seed })
                }
            };
            ("restart", present([("lose", Some(lose)), ("notify", Some((*notify).into()))]))
        }
        Action::Delete { actor, kind, target } => {
            let mut map = acting(actor, *kind);
            map.extend(target_fields(target));
            ("delete", map)
        }
        Action::Modify { actor, kind, target, settings } => {
            let mut map = acting(actor, *kind);
            map.extend(target_fields(target));
            map.insert("settings".to_owned(), settings.as_str().into());
            ("modify", map)
        }
        Action::Create { actor, kind, network, settings } => {
            let mut map = acting(actor, *kind);
            map.extend(present([(
                "network",
                network.as_ref().map(|network| Value::Object(target_fields(network))),
            )]));
            map.insert("settings".to_owned(), settings.as_str().into());
            ("create", map)
        }
        Action::DuplicateEndpoint { target, remote, first } => {
            let mut map = target_fields(target);
            map.extend(present([("remote", Some((*remote).into())), ("first", Some((*first).into()))]));
            ("duplicate_endpoint", map)
        }
        Action::Listen { protocol, port, open } => {
            let map = present([
                ("protocol", Some((*protocol).into())),
                ("port", Some((*port).into())),
                ("open", Some((*open).into())),
            ]);
            ("listen", map)
        }
    };
    Value::Object(present([("at", Some(at)), (name, Some(Value::Object(act)))]))
}
