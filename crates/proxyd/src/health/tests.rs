//! Time lines of `testdata/health.yaml`, and the documents.

use std::time::{Duration, SystemTime};

use proxy::meter::Operation;
use proxy::status::{ConditionReason, ProxyCondition};
use serde::Deserialize;
use serde_json::json;
use services::{IpFamily, ServiceKey};

use super::*;
use crate::state::{NodeState, Phase, Unserved};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    title: String,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    at: u64,
    phase: Option<String>,
    node: Option<String>,
    #[serde(default)]
    queued: Vec<String>,
    pass: Option<String>,
    call: Option<String>,
    conditions: Option<Vec<String>>,
    unserved: Option<Vec<String>>,
    programmed: Option<usize>,
    api: Option<String>,
    listeners: Option<Vec<String>>,
    expect: Option<Expect>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    healthz: u16,
    livez: u16,
    readyz: u16,
    degraded: Vec<String>,
    stale: Option<Vec<String>>,
}

fn reason(text: &str) -> ConditionReason {
    match text {
        "HnsUnavailable" => ConditionReason::HnsUnavailable,
        "NetworkMissing" => ConditionReason::NetworkMissing,
        "PortPoolLow" => ConditionReason::PortPoolLow,
        "SourceVipMissing" => ConditionReason::SourceVipMissing,
        other => panic!("{other:?} is no condition that this test knows"),
    }
}

/// What the loop would publish.
fn play(seen: &mut Seen, step: &Step) {
    let now = Duration::from_secs(step.at);
    seen.now = now;
    let facts = &mut seen.facts;
    if let Some(phase) = &step.phase {
        facts.phase = match phase.as_str() {
            "starting" => Phase::Starting,
            "waiting" => Phase::Waiting { what: "the HNS network \"net\"".to_owned() },
            "syncing" => Phase::Syncing,
            "running" => Phase::Running,
            other => panic!("{other:?} is no phase"),
        };
    }
    if let Some(node) = &step.node {
        facts.node = match node.as_str() {
            "eligible" => NodeState { seen: true, present: true, eligible: true },
            "ineligible" => NodeState { seen: true, present: true, eligible: false },
            "gone" => NodeState { seen: true, present: false, eligible: false },
            other => panic!("{other:?} is no state of a node"),
        };
    }
    for family in &step.queued {
        let family = if family == "IPv4" { IpFamily::V4 } else { IpFamily::V6 };
        facts.times.entry(family).or_default().queued.get_or_insert(now);
    }
    if let Some(pass) = &step.pass {
        match pass.as_str() {
            "begins" => facts.passes.under_way = Some(now),
            done @ ("completed" | "incomplete") => {
                facts.passes.under_way = None;
                facts.passes.ended = Some(now);
                facts.passes.next = Some(now + Duration::from_secs(30));
                facts.passes.total += 1;
                facts.passes.completed += u64::from(done == "completed");
                facts.families = vec![IpFamily::V4, IpFamily::V6];
                for family in [IpFamily::V4, IpFamily::V6] {
                    let times = facts.times.entry(family).or_default();
                    if done == "completed" {
                        times.queued = None;
                        times.completed = Some(now);
                    }
                }
            }
            other => panic!("{other:?} is nothing that a pass does"),
        }
    }
    if let Some(conditions) = &step.conditions {
        facts.conditions =
            conditions.iter().map(|text| ProxyCondition::new(reason(text), "as the test says")).collect();
        facts.conditions_since = conditions.iter().map(|text| (reason(text), now)).collect();
    }
    if let Some(unserved) = &step.unserved {
        let open = Unserved { service: ServiceKey::new("shop", "web"), since: now, error: None };
        facts.unserved = unserved.iter().map(|name| (name.clone(), open.clone())).collect();
    }
    facts.programmed = step.programmed.unwrap_or(facts.programmed);
    let hns = seen.hns.get_or_insert_default();
    match step.call.as_deref() {
        Some("begins") => {
            hns.under_way = Some((Operation::Modify, Some(hcn::Kind::LoadBalancer), now));
            hns.moved = now;
        }
        Some("returns") => *hns = HnsSeen { under_way: None, moved: now },
        Some(other) => panic!("{other:?} is nothing that a call does"),
        None => {}
    }
    match step.api.as_deref() {
        Some("down") => seen.api.outage = Some(now),
        Some("up") => seen.api.outage = None,
        Some(other) => panic!("{other:?} is no state of the API"),
        None => {}
    }
    if let Some(listeners) = &step.listeners {
        seen.listeners = listeners.iter().map(|what| (what.clone(), "taken".to_owned())).collect();
    }
}

fn times(at: &dyn Fn(Duration) -> SystemTime, now: u64) -> Times<'_> {
    Times { wall: at(Duration::from_secs(now)), started: SystemTime::UNIX_EPOCH, at }
}

fn epoch(at: Duration) -> SystemTime {
    SystemTime::UNIX_EPOCH + at
}

#[test]
fn time_lines() {
    let text = include_str!("../../testdata/health.yaml");
    let lines: Vec<Line> = serde_saphyr::from_str(text).expect("the file can be read");
    for line in &lines {
        let mut state = Seen::default();
        for step in &line.steps {
            play(&mut state, step);
            // The table writes when a call began; what is seen is for how long it has been under way.
            let mut seen = state.clone();
            let hns = seen.hns.as_mut().expect("there is an HNS");
            if let Some((_, _, since)) = &mut hns.under_way {
                *since = seen.now.saturating_sub(*since);
            }
            let verdict = judge(&seen, &Settings::default());
            let Some(expect) = &step.expect else { continue };
            let place = format!("{}, at {} s: {:?}", line.title, step.at, verdict.degraded);
            let times = times(&epoch, step.at);
            let codes =
                [verdict.healthz(&times), verdict.livez(&times), verdict.readyz(&times)].map(|it| it.status);
            assert_eq!(codes, [expect.healthz, expect.livez, expect.readyz], "{place}");
            let told: Vec<String> = verdict
                .degraded
                .iter()
                .map(|degraded| {
                    let effect = match degraded.effect {
                        Effect::Shown => "s",
                        Effect::Unhealthy => "u",
                        Effect::Dead => "d",
                    };
                    format!("{} {effect}", degraded.reason)
                })
                .collect();
            assert_eq!(told, expect.degraded, "{place}");
            if let Some(stale) = &expect.stale {
                let found: Vec<&str> = verdict
                    .families
                    .iter()
                    .filter(|(_, family)| !family.healthy)
                    .map(|(family, _)| family_name(*family))
                    .collect();
                assert_eq!(found, *stale, "{place}");
            }
        }
    }
    assert!(lines.len() >= 15, "the file lost some");
}

#[test]
fn documents_have_upstreams_members_and_name_what_is_wrong() {
    let mut seen = Seen::default();
    let step = |text: &str| -> Step { serde_saphyr::from_str(text).expect("a step") };
    play(&mut seen, &step("{at: 10, phase: running, node: eligible, pass: completed}"));
    let verdict = judge(&seen, &Settings::default());
    let healthz = verdict.healthz(&times(&epoch, 20)).document;
    let now = "1970-01-01T00:00:20Z";
    let family = json!({"lastUpdated": now, "healthy": true});
    let good = json!({
        "lastUpdated": now, "currentTime": now, "nodeEligible": true, "healthy": true,
        "status": {"IPv4": family, "IPv6": family},
    });
    assert_eq!(serde_json::to_value(&healthz).unwrap(), good);
    let livez = serde_json::to_value(verdict.livez(&times(&epoch, 20)).document).unwrap();
    assert!(livez.get("nodeEligible").is_none(), "{livez}");
    play(&mut seen, &step("{at: 30, queued: [IPv6]}"));
    play(&mut seen, &step("{at: 91, pass: incomplete}"));
    let document = judge(&seen, &Settings::default()).healthz(&times(&epoch, 91)).document;
    let bad = json!({
        "lastUpdated": "1970-01-01T00:01:31Z", "currentTime": "1970-01-01T00:01:31Z",
        "nodeEligible": true, "healthy": false,
        "status": {
            "IPv4": {"lastUpdated": "1970-01-01T00:01:31Z", "healthy": true},
            "IPv6": {"lastUpdated": "1970-01-01T00:00:10Z", "healthy": false},
        },
        "degraded": [{
            "reason": "Stale", "seconds": 61, "effect": "unhealthy",
            "message": "changes of IPv6 wait for a pass that programs all of them; 60 s are the limit",
        }],
    });
    assert_eq!(serde_json::to_value(&document).unwrap(), bad);
    // Both ways.
    assert_eq!(serde_json::from_value::<Document>(bad).unwrap(), document);
}

#[test]
fn a_restart_can_be_ruled_out() {
    let under_way = Some((Operation::Version, None, Duration::from_hours(5)));
    let mut seen = Seen { hns: Some(HnsSeen { under_way, moved: Duration::ZERO }), ..Seen::default() };
    seen.now = Duration::from_hours(5);
    assert!(!judge(&seen, &Settings::default()).is_alive());
    assert!(judge(&seen, &Settings { restart_after: None, ..Settings::default() }).is_alive());
}

#[test]
fn many_frontends_are_named_in_part() {
    let mut seen = Seen { now: Duration::from_hours(1), ..Seen::default() };
    let open = Unserved {
        service: ServiceKey::new("shop", "web"),
        since: Duration::ZERO,
        error: Some("no switch port".to_owned()),
    };
    seen.facts.programmed = 1;
    seen.facts.wanted = 9;
    seen.facts.unserved = (0..8).map(|number| (format!("10.0.0.{number}:80"), open.clone())).collect();
    let verdict = judge(&seen, &Settings::default());
    let unserved = verdict.degraded.iter().find(|it| it.reason == Reason::Unserved).expect("is named");
    assert!(unserved.message.starts_with("8 of 9 frontends"), "{}", unserved.message);
    assert!(unserved.message.contains("10.0.0.4:80 (shop/web): no switch port"), "{}", unserved.message);
    assert!(unserved.message.ends_with("; and 3 more"), "{}", unserved.message);
}
