//! The fault plan against tables: decisions, refusals, round trip; then what tables cannot say.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::Value;

use super::latency::parse_duration;
use super::*;

const DECISIONS: &str = include_str!("../../testdata/faults/decisions.yaml");
const ERRORS: &str = include_str!("../../testdata/faults/errors.yaml");
const FULL: &str = include_str!("../../testdata/faults/full.yaml");

fn table(text: &str) -> Vec<Value> {
    serde_saphyr::from_str(text).unwrap()
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field)?.as_str()
}

fn describe(effect: &Effect) -> String {
    match effect {
        Effect::Proceed => "Proceed".to_owned(),
        Effect::Fail(code) => format!("Fail {code}"),
        Effect::FailAfterEffect(code) => format!("FailAfterEffect {code}"),
        Effect::FailPartial(code) => format!("FailPartial {code}"),
        Effect::Ghost => "Ghost".to_owned(),
        Effect::KeepPorts { until: None } => "KeepPorts for ever".to_owned(),
        Effect::KeepPorts { until: Some(until) } => format!("KeepPorts until {}s", until.as_secs()),
        Effect::NilGet => "NilGet".to_owned(),
        Effect::Hang(_) => "Hang".to_owned(),
        Effect::Unattached => "Unattached".to_owned(),
        Effect::Unprogrammed => "Unprogrammed".to_owned(),
        Effect::LeaveRules => "LeaveRules".to_owned(),
        Effect::Degrade(code) => format!("Degrade {code}"),
    }
}

/// A call as the table writes it.
fn decide(faults: &Faults, row: &Value) -> Decision {
    let kind = match text(row, "kind") {
        None => Some(Kind::LoadBalancer),
        Some("none") => None,
        Some(name) => Some(Kind::ALL.into_iter().find(|kind| kind.export_word() == name).unwrap()),
    };
    let call = Call {
        actor: text(row, "actor").unwrap_or("proxy"),
        op: Op::parse(text(row, "op").unwrap()).unwrap(),
        kind,
        id: row.get("id").map(|id| Guid::from_u128(id.as_u64().unwrap().into())),
        subject: text(row, "subject").unwrap_or_default(),
    };
    let now = text(row, "at").map_or(Duration::ZERO, |at| parse_duration(at).unwrap());
    faults.decide(&call, now)
}

#[test]
fn every_fault_decides_as_its_row_says() {
    let mut seen = BTreeSet::new();
    for case in table(DECISIONS) {
        let name = text(&case, "name").unwrap();
        let plan =
            FaultPlan::from_yaml(text(&case, "plan").unwrap()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let faults = Faults::new(plan).unwrap();
        for (index, row) in case["calls"].as_array().unwrap().iter().enumerate() {
            let decision = decide(&faults, row);
            let delay = text(row, "delay").map_or(Duration::ZERO, |delay| parse_duration(delay).unwrap());
            assert_eq!(
                (describe(&decision.effect).as_str(), decision.fault, decision.delay),
                (text(row, "want").unwrap(), text(row, "fault"), delay),
                "{name}: call {index} {row}"
            );
            seen.extend(decision.fault);
        }
    }
    let all: BTreeSet<&str> = Fault::ALL.iter().map(|fault| fault.name()).collect();
    assert_eq!(seen, all, "a fault has no row in the table");
}

#[test]
fn plans_that_cannot_be_are_refused_by_entry_and_field() {
    for case in table(ERRORS) {
        let plan = text(&case, "plan").unwrap();
        let error = match FaultPlan::from_yaml(plan) {
            Ok(plan) => panic!("taken: {plan:?}"),
            Err(error) => error.to_string(),
        };
        for part in case["says"].as_array().unwrap() {
            let part = part.as_str().unwrap();
            assert!(error.contains(part), "{plan}\n  error: {error}\n  lacks: {part}");
        }
    }
}

#[test]
fn rules_made_by_code_are_checked_like_scripts() {
    let faults = Faults::default();
    for (rule, says) in [
        (FaultRule::new(Fault::NsBusy).kind(Kind::Endpoint), "when.kind"),
        (FaultRule::new(Fault::DelFail).times(0), "times"),
        (FaultRule::new(Fault::DelFail).probability(f64::NAN), "probability"),
        (FaultRule::new(Fault::Slow), "latency"),
        (FaultRule::new(Fault::DelGhost).code(HResult::E_FAIL), "code"),
    ] {
        let error = faults.add(rule).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    assert!(faults.rules().is_empty());
}

#[test]
fn a_plan_survives_being_written_and_read() {
    let plan = FaultPlan::from_yaml(FULL).unwrap();
    assert_eq!((plan.latency.len(), plan.rules.len(), plan.actions.len()), (4, 4, 8));
    let written = plan.to_yaml();
    assert_eq!(FaultPlan::from_yaml(&written).unwrap(), plan, "{written}");
    assert_eq!(FaultPlan::from_yaml("").unwrap(), FaultPlan::default());
}

#[test]
fn the_table_of_names_is_complete_and_read_back() {
    for fault in Fault::ALL {
        for name in [fault.name().to_owned(), fault.name().to_lowercase(), fault.name()[2..].to_owned()] {
            assert_eq!(Fault::parse(&name), Some(fault), "{name}");
        }
        assert!(fault.code().is_none_or(HResult::is_failure), "{fault}");
    }
    let elsewhere = BEHAVIOURS.iter().chain(&ACTIONS).map(|row| row.name);
    let names: BTreeSet<&str> = Fault::ALL.iter().map(|fault| fault.name()).chain(elsewhere).collect();
    assert_eq!(names.len(), 32, "the fault model has 32 classes");
}

fn struck(faults: &Faults, calls: usize) -> Vec<usize> {
    let call = Call { actor: "proxy", op: Op::Delete, kind: Some(Kind::LoadBalancer), id: None, subject: "" };
    (0..calls).filter(|_| faults.decide(&call, Duration::ZERO).effect != Effect::Proceed).collect()
}

#[test]
fn the_same_seed_strikes_the_same_calls() {
    let plan = |seed| FaultPlan::of(seed, [FaultRule::new(Fault::DelFail).probability(0.3)]);
    let first = struck(&Faults::new(plan(7)).unwrap(), 1_000);
    assert_eq!(first, struck(&Faults::new(plan(7)).unwrap(), 1_000));
    assert_ne!(first, struck(&Faults::new(plan(8)).unwrap(), 1_000));
    assert!((250..350).contains(&first.len()), "{} of 1000 at 0.3", first.len());
    assert!(
        struck(
            &Faults::new(FaultPlan::of(1, [FaultRule::new(Fault::DelFail).probability(0.0)])).unwrap(),
            100
        )
        .is_empty()
    );
}

#[test]
fn another_rule_does_not_change_a_rules_draws() {
    let rule = || FaultRule::new(Fault::DelFail).probability(0.3);
    let alone = Faults::new(FaultPlan::of(7, [rule()])).unwrap();
    let other = FaultRule::new(Fault::Param).on(Op::Create).probability(0.5);
    let together = Faults::new(FaultPlan::of(7, [rule(), other])).unwrap();
    let create = Call { actor: "a", op: Op::Create, kind: Some(Kind::Network), id: None, subject: "" };
    let mut mixed = Vec::new();
    for index in 0..300 {
        together.decide(&create, Duration::ZERO);
        if !struck(&together, 1).is_empty() {
            mixed.push(index);
        }
    }
    assert_eq!(struck(&alone, 300), mixed);
}

#[test]
fn rules_come_and_go_while_calls_are_made() {
    let faults = Faults::new(FaultPlan::default()).unwrap();
    assert!(struck(&faults, 1).is_empty());
    let ghost = faults.add(FaultRule::new(Fault::DelGhost).skip(1)).unwrap();
    assert_eq!(struck(&faults, 3), [1, 2]);
    assert_eq!(faults.struck(ghost), 2);
    assert!(faults.remove(ghost));
    assert!(!faults.remove(ghost));
    assert!(struck(&faults, 1).is_empty());
    faults.add(FaultRule::new(Fault::Down)).unwrap();
    faults.clear();
    assert!(struck(&faults, 1).is_empty());
    assert_eq!(faults.calls(), 6, "calls are counted whether or not there are rules");
}

#[test]
fn a_hung_call_waits_until_it_is_released() {
    let faults = Arc::new(Faults::new(FaultPlan::of(0, [FaultRule::new(Fault::Hang)])).unwrap());
    let start = |faults: &Arc<Faults>| {
        let faults = Arc::clone(faults);
        std::thread::spawn(move || {
            let call = Call { actor: "a", op: Op::Query, kind: None, id: None, subject: "" };
            match faults.decide(&call, Duration::ZERO).effect {
                Effect::Hang(token) => token.wait(),
                other => panic!("{other:?}"),
            }
        })
    };
    let calls = [start(&faults), start(&faults)];
    faults.wait_until_hung(2);
    assert_eq!(faults.hung(), 2);
    faults.release_hung();
    for call in calls {
        assert_eq!(call.join().unwrap(), Release::Fail(HResult::RPC_CALL_FAILED));
    }
    assert_eq!(faults.hung(), 0);
    // A release frees those that hang, not those to come.
    let late = start(&faults);
    faults.wait_until_hung(1);
    faults.release_hung_as(Release::Proceed);
    assert_eq!(late.join().unwrap(), Release::Proceed);
}

/// Notes what it is asked to do.
#[derive(Default)]
struct Recorder(RefCell<Vec<String>>);

impl Recorder {
    fn note(&self, text: String) -> usize {
        self.0.borrow_mut().push(text);
        1
    }
}

impl FaultActions for Recorder {
    fn restart(&self, loss: Loss, notify: bool) -> hcn::Result<usize> {
        Ok(self.note(format!("restart {loss:?} {notify}")))
    }
    fn delete(&self, actor: &str, kind: Kind, target: &Target) -> hcn::Result<usize> {
        Ok(self.note(format!("{actor} deletes {kind} {:?}", target.subject.as_ref().map(Glob::as_str))))
    }
    fn modify(&self, actor: &str, kind: Kind, target: &Target, settings: &str) -> hcn::Result<usize> {
        Ok(self.note(format!("{actor} modifies {kind} {:?} {settings}", target.id)))
    }
    fn create(
        &self,
        actor: &str,
        kind: Kind,
        network: Option<&Target>,
        settings: &str,
    ) -> hcn::Result<usize> {
        Ok(self.note(format!("{actor} creates {kind} {} {settings}", network.is_some())))
    }
    fn duplicate_endpoint(&self, _: &Target, remote: bool, first: bool) -> hcn::Result<usize> {
        Ok(self.note(format!("duplicate remote: {remote} first: {first}")))
    }
    fn listen(&self, protocol: u32, port: u16, open: bool) -> hcn::Result<usize> {
        Ok(self.note(format!("listen {protocol} {port} {open}")))
    }
}

#[test]
fn actions_are_done_once_when_they_are_due() {
    let faults = Faults::new(FaultPlan::from_yaml(FULL).unwrap()).unwrap();
    let recorder = Recorder::default();
    let call = Call { actor: "a", op: Op::Version, kind: None, id: None, subject: "" };
    let mut done = Vec::new();
    for index in 0..50_u64 {
        let now = Duration::from_secs(if index < 45 { 0 } else { 120 });
        faults.perform_due(now, &recorder);
        faults.decide(&call, now);
        done.extend(recorder.0.borrow_mut().drain(..).map(|text| format!("{index}: {text}")));
    }
    assert_eq!(
        done,
        [
            r#"1: other creates endpoint true {"Name":"stray"}"#,
            "2: duplicate remote: false first: true",
            "3: listen 17 4789 false",
            "40: restart LoadBalancers false",
            "40: restart Rules false",
            "41: restart Fraction { kind: Endpoint, share: 0.5, seed: 3 } true",
            r#"45: operator deletes load balancer Some("10.60.0.1:443/TCP")"#,
            r#"45: other modifies load balancer Some(0badcafe-0000-4000-8000-00000000000a) {"HostComputeEndpoints":[]}"#,
        ]
    );
    assert!(faults.pending().is_empty());
    assert_eq!(faults.performed().len(), 8);
    assert_eq!(faults.performed()[0].before_call, 1);
    let faults_of: BTreeSet<&str> =
        faults.performed().iter().map(|performed| performed.scheduled.action.fault()).collect();
    assert_eq!(faults_of.into_iter().collect::<Vec<_>>(), ["F-DUPIP", "F-EXT", "F-LOSE", "F-PORT"]);
}

#[test]
fn a_duplicate_gets_an_id_on_the_side_that_is_wanted() {
    let id: Guid = "0badcafe-0000-4000-8000-00000000000a".parse().unwrap();
    assert!(neighbour_id(id, true) < id && id < neighbour_id(id, false));
}

proptest::proptest! {
    /// Whatever stands in a script, it is read or refused, and what is read can be written and read again.
    #[test]
    fn no_script_is_too_odd(at in 0_usize..1_500, cut in 0_usize..12, put in "[ -~\\n\u{e9}]{0,8}") {
        let mut script: Vec<char> = FULL.chars().collect();
        let at = at.min(script.len());
        let end = (at + cut).min(script.len());
        script.splice(at..end, put.chars());
        let script: String = script.into_iter().collect();
        if let Ok(plan) = FaultPlan::from_yaml(&script) {
            let written = plan.to_yaml();
            proptest::prop_assert_eq!(FaultPlan::from_yaml(&written).ok(), Some(plan), "{}", written);
        }
    }
}
