//! Faults of HNS as they are seen over HTTP while they last.

use std::time::Duration;

use hns::faults::{Fault, FaultRule};
use proxyd::Input;

use crate::rig::{Rig, free_port, make_network, objects};

fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{series} is not in {text}"))
}

#[test]
fn a_call_that_hangs_holds_up_nobody_who_asks() {
    let rig = Rig::start();
    make_network(&rig.hns);
    rig.apply(&objects(free_port()));
    rig.send(Input::Synced);
    rig.pass();
    rig.hns.faults().add(FaultRule::new(Fault::Hang).actor("proxy").times(1)).expect("the rule can be");
    rig.clock.advance(Duration::from_secs(31));
    rig.send(Input::Heard);
    rig.hns.faults().wait_until_hung(1);
    assert_eq!(rig.healthz("/healthz").status, 200);
    rig.clock.advance(Duration::from_secs(31));
    let hung = rig.healthz("/healthz");
    assert_eq!((hung.status, hung.json()["degraded"][0]["reason"].as_str()), (503, Some("HnsHangs")));
    assert_eq!(rig.healthz("/livez").status, 200);
    let metrics = rig.metrics("/metrics").body;
    assert!(value(&metrics, "transom_hns_call_under_way_seconds") > 30.0);
    assert!((value(&metrics, "transom_degraded{reason=\"HnsHangs\"}") - 1.0).abs() < 0.1);
    let status = rig.metrics(proxyd::status::PATH).json();
    assert!(status["hns"]["underWay"]["seconds"].as_f64() > Some(30.0), "{status}");
    rig.clock.advance(Duration::from_mins(10));
    assert_eq!(rig.healthz("/livez").status, 503);
    rig.hns.faults().release_hung_as(hns::faults::Release::Proceed);
    rig.pass();
    assert_eq!(rig.healthz("/healthz").status, 200);
    rig.end();
}

#[test]
fn an_outage_of_hns_is_counted_and_named() {
    let rig = Rig::start();
    make_network(&rig.hns);
    rig.apply(&objects(free_port()));
    rig.send(Input::Synced);
    rig.pass();
    rig.hns.faults().add(FaultRule::new(Fault::Down).actor("proxy")).expect("the rule can be");
    rig.clock.advance(Duration::from_secs(31));
    rig.pass();
    let metrics = rig.metrics("/metrics").body;
    assert!((value(&metrics, "transom_degraded{reason=\"HnsUnusable\"}") - 1.0).abs() < 0.1, "{metrics}");
    assert!(
        (value(&metrics, "transom_conditions{reason=\"HnsUnavailable\",scope=\"node\"}") - 1.0).abs() < 0.1
    );
    assert!(metrics.lines().any(|line| {
        line.starts_with("transom_hns_call_errors_total{") && line.contains("class=\"Unavailable\"")
    }));
    assert_eq!(rig.healthz("/healthz").status, 200, "HNS may be restarting");
    rig.clock.advance(Duration::from_secs(61));
    assert_eq!(rig.healthz("/healthz").status, 503);
    assert_eq!(rig.healthz("/livez").status, 200);
    rig.end();
}

#[test]
fn a_network_that_is_not_there_is_named() {
    let rig = Rig::start();
    rig.apply(&objects(free_port()));
    rig.send(Input::Synced);
    rig.pass();
    let health = rig.healthz("/readyz");
    assert_eq!(health.status, 503);
    assert!(health.body.contains("NetworkMissing"), "{health:?}");
    make_network(&rig.hns);
    rig.clock.advance(Duration::from_mins(5));
    rig.pass();
    assert_eq!(rig.healthz("/readyz").status, 200);
    rig.end();
}
