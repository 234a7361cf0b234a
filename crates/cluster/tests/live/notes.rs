//! Events that are told back to the cluster.

use cluster::events::{Gravity, Note, Subject};
use k8s_openapi::api::events::v1::Event;

use apiserver::{Allow, Connecting, Credential, Effect, Match, Options, Rule, Status, User};

use crate::rig::{NODE, Rig, Source, service, settings};

fn note(subject: Subject, reason: &str) -> Note {
    Note {
        subject,
        gravity: Gravity::Warning,
        reason: reason.to_owned(),
        action: "Program".to_owned(),
        message: format!("{reason} has happened"),
    }
}

fn web() -> Subject {
    Subject::Service { namespace: "shop".to_owned(), name: "web".to_owned() }
}

#[test]
fn events_are_written_and_repeated_ones_are_counted() {
    let rig = Rig::plain();
    rig.apply("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}");
    rig.apply("{apiVersion: v1, kind: Namespace, metadata: {name: default}}");
    rig.apply(&service("web", "10.96.0.10"));
    let source = rig.source();
    source.synced();
    let recorder = source.running.recorder().expect("it runs");
    assert!(recorder.tell(note(web(), "SourceVipMissing")));
    assert!(recorder.tell(note(Subject::Node, "NetworkMissing")));
    for _ in 0..3 {
        assert!(recorder.tell(note(web(), "SourceVipMissing")));
    }
    let events = |rig: &Rig| rig.server.store().list::<Event>();
    rig.server.activity().wait(|ledger| {
        ledger.count(|request| {
            request.resource == "events" && request.ended && request.code.is_some_and(|code| code < 300)
        }) >= 5
    });
    let found = events(&rig);
    assert_eq!(found.len(), 2, "{found:?}");
    for event in &found {
        let regarding = event.regarding.clone().unwrap_or_default();
        let (namespace, name, reason) = match event.reason.as_deref() {
            Some("SourceVipMissing") => ("shop", "web", "SourceVipMissing"),
            _ => ("default", NODE, "NetworkMissing"),
        };
        assert_eq!(event.metadata.namespace.as_deref(), Some(namespace), "{event:?}");
        assert_eq!(regarding.name.as_deref(), Some(name), "{event:?}");
        assert_eq!(event.reason.as_deref(), Some(reason));
        assert_eq!(event.note.as_deref(), Some(&*format!("{reason} has happened")));
        assert_eq!(event.reporting_controller.as_deref(), Some("transom-proxy"));
        assert_eq!(event.reporting_instance.as_deref(), Some(NODE));
        let counted = event.series.as_ref().map(|series| series.count);
        assert_eq!(counted, (reason == "SourceVipMissing").then_some(4), "{event:?}");
    }
}

#[test]
fn an_object_with_much_to_say_is_limited_and_others_are_not() {
    let rig = Rig::plain();
    rig.apply("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}");
    rig.apply("{apiVersion: v1, kind: Namespace, metadata: {name: default}}");
    let source = rig.source();
    let recorder = source.running.recorder().expect("it runs");
    for number in 0..40 {
        assert!(recorder.tell(note(web(), &format!("Reason{number}"))));
    }
    assert!(recorder.tell(note(Subject::Node, "Last")));
    rig.server.activity().wait(|_| {
        rig.server.store().list::<Event>().iter().any(|event| event.reason.as_deref() == Some("Last"))
    });
    let about_web = rig
        .server
        .store()
        .list::<Event>()
        .iter()
        .filter(|event| event.reason.as_deref() != Some("Last"))
        .count();
    assert_eq!(about_web, 10);
}

#[test]
fn without_the_right_to_tell_everything_else_goes_on() {
    let rig = Rig::with(Options { anonymous: false, ..Options::default() });
    rig.apply("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}");
    let token = Credential::Token(rig.server.access().issue_token(User::new("proxy")));
    rig.server.access().allow_only(vec![Allow::new(
        "proxy",
        &["list", "watch"],
        &["services", "endpointslices", "nodes", "servicecidrs"],
    )]);
    let source = Source::start(&settings(rig.kubeconfig(&token, &Connecting::default())));
    source.synced();
    let recorder = source.running.recorder().expect("it runs");
    assert!(recorder.tell(note(web(), "Something")));
    rig.server.activity().wait(|ledger| {
        ledger.count(|request| request.resource == "events" && request.code == Some(403)) == 1
    });
    rig.apply(&service("web", "10.96.0.10"));
    source.until("changes are followed", |told| !told.names(services::ObjectKind::Service).is_empty());
}

#[test]
fn an_event_that_the_server_cannot_take_just_now_is_written_later() {
    for effect in [
        Effect::Answer(Status::too_many_requests(0)),
        Effect::Answer(Status::of_code(503)),
        Effect::CloseBeforeAnswer,
    ] {
        let rig = Rig::plain();
        rig.apply("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}");
        let source = rig.source();
        rig.server.faults().add(Rule::new(Match::of("create", "events"), effect).once());
        assert!(source.running.recorder().expect("it runs").tell(note(web(), "Something")));
        rig.server.activity().wait(|_| !rig.server.store().list::<Event>().is_empty());
    }
}
