//! The document is the same after it was written and read.

use std::sync::Arc;

use hcn::time::ManualClock;
use proxy::plan::Role;
use proxy::status::{FrontendStatus, ServiceStatus};

use super::*;
use crate::api::ApiFigures;
use crate::health::{Settings, judge};

#[test]
fn a_failed_frontend_says_when_it_is_tried_again_and_the_document_can_be_read_back() {
    let clock = ManualClock::default();
    let state = State::new(Arc::new(clock.clone()));
    let retry_at = Duration::from_secs(90);
    let failed = FrontendState::Failed { error: "no switch port".to_owned(), attempts: 3, retry_at };
    let frontend = FrontendStatus {
        frontend: "10.0.0.1:80/TCP".to_owned(),
        role: Role::ClusterIp,
        id: None,
        state: failed,
        left_out: vec!["10.50.1.5: is not in HNS".to_owned()],
    };
    let status = ServiceStatus { frontends: vec![frontend], conditions: Vec::new() };
    let entry = ServiceEntry { status, unsupported: Vec::new(), left_out: 1 };
    state.put(vec![(ServiceKey::new("shop", "web"), Some(entry))]);
    clock.advance(Duration::from_mins(1));
    let seen = Seen::of(&state, ApiFigures::default(), Vec::new());
    let verdict = judge(&seen, &Settings::default());
    let document = document(&state, &seen, &verdict, &Filter::default());
    let frontend = &document.services[0].frontends[0];
    assert_eq!((frontend.state.as_str(), frontend.attempts), ("failed", Some(3)));
    assert_eq!(frontend.retry_at.as_deref(), Some("1970-01-01T00:01:30Z"));
    assert_eq!(frontend.unserved_since.as_deref(), Some("1970-01-01T00:00:00Z"));
    let text = serde_json::to_string(&document).unwrap();
    assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), document);
}

#[test]
fn a_filter_that_means_nothing_is_refused() {
    let parse = |name: &'static str, value: &'static str| {
        Filter::parse(move |asked| (asked == name).then(|| value.to_owned()))
    };
    assert_eq!(parse("limit", "7").unwrap().limit, 7);
    for (name, value) in [("limit", "0"), ("limit", "x"), ("limit", "5001"), ("troubled", "perhaps")] {
        let error = parse(name, value).unwrap_err();
        assert!(error.contains(name) && error.contains(value), "{error}");
    }
}
