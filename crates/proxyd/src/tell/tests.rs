//! Time lines of `testdata/tell.yaml`, and what holds by a state.

use std::sync::Arc;

use hcn::time::ManualClock;
use proxy::plan::Role;
use proxy::status::{ConditionReason, FrontendState, FrontendStatus, ProxyCondition, ServiceStatus};
use serde::Deserialize;

use super::*;

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
    holds: Vec<String>,
    told: Vec<String>,
}

fn holding(text: &str) -> Holding {
    let mut words = text.splitn(4, ' ').map(str::to_owned);
    let mut word = || words.next().expect("four words");
    let subject = match word().as_str() {
        "node" => Subject::Node,
        name => Subject::Service(ServiceKey::new("shop", name)),
    };
    let (reason, port) = (word(), Some(word()).filter(|port| port != "-"));
    Holding { subject, reason, port, message: word() }
}

fn line(note: &Note) -> String {
    let subject = match &note.subject {
        Subject::Node => "node",
        Subject::Service(key) => &key.name,
    };
    format!("{:?} {subject} {} {}", note.gravity, note.reason, note.message)
}

#[test]
fn time_lines() {
    let lines: Vec<Line> =
        serde_saphyr::from_str(include_str!("../../testdata/tell.yaml")).expect("the file can be read");
    assert!(lines.len() >= 5);
    for of in lines {
        let mut teller = Teller::new(Settings { services: 3, ..Settings::default() });
        for step in of.steps {
            let holds = step.holds.iter().map(|text| holding(text)).collect();
            let told: Vec<String> =
                teller.tell(holds, Duration::from_secs(step.at)).iter().map(line).collect();
            assert_eq!(told, step.told, "{}, at {} s", of.title, step.at);
        }
    }
}

#[test]
fn what_lasts_is_told_and_what_merely_is_is_not() {
    let clock = ManualClock::default();
    let state = State::new(Arc::new(clock.clone()));
    let frontend = FrontendStatus {
        frontend: "10.0.0.1:80/TCP".to_owned(),
        role: Role::ClusterIp,
        id: None,
        state: FrontendState::Pending,
        left_out: Vec::new(),
    };
    let conditions = vec![
        ProxyCondition::new(ConditionReason::FrontendConflict, "is served for another"),
        ProxyCondition::new(ConditionReason::LoadBalancerFailed, "busy"),
    ];
    let entry = ServiceEntry {
        status: ServiceStatus { frontends: vec![frontend], conditions },
        unsupported: vec![
            ("NoUsableEndpoints".to_owned(), None, "none".to_owned()),
            ("SourceRanges".to_owned(), None, "are not enforced".to_owned()),
        ],
        left_out: 0,
    };
    state.put(vec![(ServiceKey::new("shop", "web"), Some(entry))]);
    let teller = Teller::new(Settings::default());
    let reasons = || -> Vec<String> { teller.holding(&state).into_iter().map(|it| it.reason).collect() };
    assert_eq!(reasons(), ["SourceRanges", "FrontendConflict"]);
    clock.advance(Duration::from_secs(121));
    assert_eq!(reasons(), [NOT_SERVED, "SourceRanges", "FrontendConflict"]);
}
