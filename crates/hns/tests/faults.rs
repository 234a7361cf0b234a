//! Every fault end to end: scenarios in `testdata/faults/end_to_end.yaml`, and what takes threads or many calls.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hcn::api::NotificationKind;
use hcn::time::{ManualClock, SeededEntropy};
use hcn::{Guid, HResult, Hcn, HcnExt, Kind, Query};
use hns::faults::{ACTIONS, BEHAVIOURS, Fault, FaultPlan, FaultRule, Latency, LatencyRule, Release};
use hns::journal::Op;
use hns::{Hns, Options, Profile, StoreKind};

#[path = "faults/scenario.rs"]
mod scenario;

use scenario::{Book, covered, play};

const BOOK: &str = include_str!("../testdata/faults/end_to_end.yaml");

#[test]
fn every_scenario_goes_as_it_says() {
    let book = Book::read(BOOK);
    for scenario in &book.scenarios {
        play(&book, scenario, StoreKind::Memory);
    }
}

#[test]
fn every_scenario_goes_the_same_way_on_a_file() {
    let book = Book::read(BOOK);
    let folder = tempfile::tempdir().unwrap();
    for (index, scenario) in book.scenarios.iter().enumerate() {
        play(&book, scenario, StoreKind::File(folder.path().join(format!("{index}.redb"))));
    }
}

#[test]
fn every_class_of_the_fault_model_has_a_scenario() {
    let book = Book::read(BOOK);
    let mut seen: BTreeSet<String> = book.scenarios.iter().flat_map(covered).collect();
    // Takes a second thread; see below.
    seen.insert("F-HANG".to_owned());
    let elsewhere = BEHAVIOURS.iter().chain(&ACTIONS).map(|row| row.name);
    let all: BTreeSet<String> =
        Fault::ALL.iter().map(|fault| fault.name()).chain(elsewhere).map(str::to_owned).collect();
    assert_eq!(seen, all);
}

fn open(plan: FaultPlan) -> (Hns, ManualClock) {
    let clock = ManualClock::jumping();
    let options = Options {
        clock: Arc::new(clock.clone()),
        entropy: Arc::new(SeededEntropy::new(1)),
        faults: plan,
        ..Options::new(Profile::Newest)
    };
    (Hns::open(options).unwrap(), clock)
}

const NETWORK: &str = r#"{"Name":"nat","Type":"NAT"}"#;

#[test]
fn a_hung_call_blocks_nobody_else_and_ends_as_it_is_released() {
    let (hns, _) = open(FaultPlan::default());
    let network = hns.create(Kind::Network, None, Guid::NIL, NETWORK).unwrap();
    for (release, wanted, left) in [
        (Release::Fail(HResult::RPC_CALL_FAILED), Err(HResult::RPC_CALL_FAILED), 1),
        (Release::Proceed, Ok(()), 0),
    ] {
        hns.faults().add(FaultRule::new(Fault::Hang).on(Op::Delete).times(1)).unwrap();
        let seq = hns.journal().next_seq();
        let caller = hns.actor("proxy");
        let hung = std::thread::spawn(move || caller.delete(Kind::Network, network));
        hns.faults().wait_until_hung(1);
        // Others go on, and the hung call is in no journal yet.
        assert_eq!(hns.enumerate(Kind::Network, &Query::all()).unwrap(), [network]);
        let entries = hns.journal().entries_since(seq);
        assert!(entries.iter().all(|entry| entry.op == Op::Enumerate), "{entries:?}");
        hns.faults().release_hung_as(release);
        let result = hung.join().unwrap().map_err(|error| error.code);
        assert_eq!(result, wanted);
        let entry = hns.journal().entries_since(seq).pop().unwrap();
        assert_eq!((entry.op, entry.result, entry.fault), (Op::Delete, wanted, Some("F-HANG")));
        assert_eq!(hns.digest().count(Kind::Network), left);
    }
}

#[test]
fn a_restart_ends_hung_calls() {
    let (hns, _) = open(FaultPlan::default());
    hns.faults().add(FaultRule::new(Fault::Hang).times(1)).unwrap();
    let caller = hns.actor("proxy");
    let hung = std::thread::spawn(move || caller.version());
    hns.faults().wait_until_hung(1);
    hns.restart(hns::Loss::None).unwrap();
    assert_eq!(hung.join().unwrap().unwrap_err().code, HResult::RPC_CALL_FAILED);
}

#[test]
fn a_loss_is_silent_unless_the_plan_says_otherwise() {
    for (notify, wanted) in [(false, 0), (true, 1)] {
        let plan =
            format!("actions: [{{at: {{call: 1}}, restart: {{lose: LoadBalancers, notify: {notify}}}}}]");
        let (hns, _) = open(FaultPlan::from_yaml(&plan).unwrap());
        let told = Arc::new(Mutex::new(0));
        let sink = Arc::clone(&told);
        hns.subscribe(Arc::new(move |note| {
            if note.kind == NotificationKind::ServiceDisconnect {
                *sink.lock().unwrap() += 1;
            }
        }))
        .unwrap();
        hns.version().unwrap();
        assert_eq!(*told.lock().unwrap(), wanted, "notify: {notify}");
        let performed = hns.faults().performed();
        assert_eq!(performed.len(), 1);
        assert!(performed[0].result.is_ok(), "{performed:?}");
    }
}

#[test]
fn an_action_that_goes_wrong_is_on_record() {
    let plan = "actions: [{at: {call: 0}, create: {kind: Endpoint, network: {subject: none}, settings: {}}}]";
    let (hns, _) = open(FaultPlan::from_yaml(plan).unwrap());
    hns.version().unwrap();
    let performed = hns.faults().performed();
    assert_eq!(performed[0].result.as_ref().unwrap_err().code, HResult::NETWORK_NOT_FOUND);
}

#[test]
fn random_faults_repeat_with_their_seed() {
    let journal = |seed: u64| {
        let rules = [
            FaultRule::new(Fault::DelFail).probability(0.4),
            FaultRule::new(Fault::Param).on(Op::Create).probability(0.2),
        ];
        let latency =
            Latency::LogNormal { median: Duration::from_millis(5), sigma: 1.0, max: Duration::from_secs(1) };
        let latency = vec![LatencyRule { ops: Vec::new(), kinds: Vec::new(), latency }];
        let (hns, _) = open(FaultPlan { latency, ..FaultPlan::of(seed, rules) });
        for _ in 0..100 {
            if let Ok(id) = hns.create(Kind::Network, None, Guid::NIL, NETWORK) {
                while hns.delete(Kind::Network, id).is_err() {}
            }
        }
        hns.journal().entries_since(0)
    };
    let first = journal(11);
    assert_eq!(first, journal(11));
    assert_ne!(first, journal(12));
    let faults: BTreeSet<_> = first.iter().filter_map(|entry| entry.fault).collect();
    assert_eq!(faults.into_iter().collect::<Vec<_>>(), ["F-DELFAIL", "F-PARAM"]);
}

#[test]
fn the_journal_tells_actors_apart() {
    let (hns, _) = open(FaultPlan::of(0, [FaultRule::new(Fault::Down).actor("cni")]));
    assert!(hns.actor("cni").version().is_err());
    let network: Guid = hns.actor("operator").create(Kind::Network, None, Guid::NIL, NETWORK).unwrap();
    hns.actor("operator").get::<hcn::Network>(network).unwrap();
    let counters = hns.journal().counters();
    assert_eq!((counters.by("cni").total(), counters.by("cni").failed()), (1, 1));
    assert_eq!((counters.by("operator").total(), counters.by("operator").writes()), (2, 1));
}
