//! Calls: many at once, some that hang, some that fail.

use std::sync::Arc;
use std::time::Duration;

use hcn::{ErrorClass, Guid, HResult, Hcn, Kind, Query};
use hns::Profile;
use hns::faults::{Fault, FaultRule};
use hns::journal::Op;
use hnsd::{ErrorKind, Limits, Options, Remote};
use serde_json::{Value, json};

use crate::world::{Raw, World};

fn world(limits: Limits) -> World {
    World::new(Profile::Ws2022, limits)
}

/// A rule under which an actor's deletes hang.
fn deletes_hang(actor: &str) -> FaultRule {
    FaultRule::new(Fault::Hang).on(Op::Delete).actor(actor)
}

#[test]
fn the_hello_tells_limits_and_what_the_server_is() {
    let world = world(Limits { calls_per_client: 7, ..Limits::default() });
    let greeting = world.remote("proxy").greeting().unwrap();
    assert_eq!((greeting.version, greeting.limits.calls), (1, 7));
    assert_eq!(greeting.about["node"], "win-1");
    assert!(greeting.server.starts_with("hnsd "), "{}", greeting.server);
}

#[test]
fn an_actors_name_reaches_the_journal() {
    let world = world(Limits::default());
    let proxy = world.remote("proxy");
    let seq = world.service.hns.journal().next_seq();
    proxy.version().unwrap();
    proxy.actor("cni").version().unwrap();
    let entries = world.service.hns.journal().entries_since(seq);
    let actors: Vec<&str> = entries.iter().map(|entry| &*entry.actor).collect();
    assert_eq!(actors, ["proxy", "cni"]);
}

#[test]
fn a_hung_call_holds_up_no_other_of_the_same_connection() {
    let world = world(Limits::default());
    let remote = world.remote("proxy");
    world.service.hns.faults().add(deletes_hang("proxy")).unwrap();
    let hung = {
        let remote = remote.clone();
        std::thread::spawn(move || remote.delete(Kind::Network, Guid::NIL))
    };
    world.service.hns.faults().wait_until_hung(1);
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let remote = remote.clone();
            std::thread::spawn(move || {
                for _ in 0..50 {
                    remote.enumerate(Kind::Network, &Query::all()).unwrap();
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(world.service.hns.faults().hung(), 1);
    world.service.hns.faults().release_hung();
    assert_eq!(hung.join().unwrap().unwrap_err().code, HResult::RPC_CALL_FAILED);
}

#[test]
fn too_many_calls_under_way_are_refused_and_others_are_served() {
    let world = world(Limits { calls_per_client: 2, calls_per_actor: 3, ..Limits::default() });
    let faults = world.service.hns.faults();
    faults.add(deletes_hang("proxy")).unwrap();
    let delete = |remote: &Remote| {
        let remote = remote.clone();
        std::thread::spawn(move || remote.delete(Kind::Network, Guid::NIL))
    };
    let remote = world.remote("proxy");
    let mut hung = vec![delete(&remote), delete(&remote)];
    faults.wait_until_hung(2);
    let error = remote.version().unwrap_err();
    assert_eq!((error.code, error.class()), (HResult::RPC_CALL_FAILED_DNE, ErrorClass::Unavailable));
    assert!(error.to_string().contains("too many calls under way: this connection has 2"), "{error}");
    // Another connection of the same actor gets what is left of the actor's share.
    let second = world.remote("proxy");
    hung.push(delete(&second));
    faults.wait_until_hung(3);
    let error = second.version().unwrap_err();
    assert!(error.to_string().contains("this actor has 3"), "{error}");
    // Others do not notice.
    world.remote("cni").version().unwrap();
    faults.release_hung();
    for call in hung {
        assert!(call.join().unwrap().is_err());
    }
    // The places of calls that have ended are free again; an answer is read before its place is.
    let mut raw = Raw::greeted(&world);
    for id in 0..10 {
        raw.send(&json!({ "id": id, "method": "hcn.version" }));
        assert_eq!(raw.receive().unwrap()["id"], id);
    }
}

#[test]
fn calls_that_hang_keep_their_places_when_their_client_is_gone() {
    let world = world(Limits { calls: 2, calls_per_actor: 1, ..Limits::default() });
    let faults = world.service.hns.faults();
    faults.add(deletes_hang("raw")).unwrap();
    let mut raw = Raw::greeted(&world);
    raw.send(&json!({ "id": 1, "method": "hcn.delete", "params": { "kind": "Network", "id": Guid::NIL } }));
    faults.wait_until_hung(1);
    drop(raw);
    let mut again = Raw::greeted(&world);
    again.send(&json!({ "id": 1, "method": "hcn.version" }));
    let refused = again.receive().unwrap();
    assert_eq!(refused["error"]["kind"], "busy", "{refused}");
    world.remote("cni").version().unwrap();
    faults.release_hung();
}

#[test]
fn a_call_that_takes_too_long_for_its_caller_times_out() {
    let world = world(Limits::default());
    world.service.hns.faults().add(deletes_hang("proxy")).unwrap();
    let options = Options { timeout: Some(Duration::from_millis(1)), ..Options::actor("proxy") };
    let remote = Remote::connect(world.unix(), options).unwrap();
    let error = remote.delete(Kind::Network, Guid::NIL).unwrap_err();
    assert_eq!(error.code, HResult::TIMEOUT);
    assert!(error.to_string().contains("hcn.delete: no answer within 0.001 s"), "{error}");
    world.service.hns.faults().wait_until_hung(1);
    world.service.hns.faults().release_hung();
}

#[test]
fn a_services_own_calls_pass_through() {
    let world = world(Limits::default());
    let remote = world.remote("operator");
    let answer = remote.call_extension("echo", &json!({ "a": [1, "b"] })).unwrap();
    assert_eq!(answer, json!({ "actor": "operator", "params": { "a": [1, "b"] } }));
    let error = remote.call_extension("fail", &Value::Null).unwrap_err();
    assert_eq!((error.kind, &*error.message), (ErrorKind::Failed, "a reason"));
    assert_eq!(error.data.as_deref(), Some(&json!({ "more": 1 })));
    let error = remote.call_extension("nothing", &Value::Null).unwrap_err();
    assert_eq!(error.kind, ErrorKind::UnknownMethod);
    let error = remote.call_extension("hcn.nothing", &Value::Null).unwrap_err();
    assert_eq!(
        (error.kind, &*error.message),
        (ErrorKind::UnknownMethod, "there is no method \"hcn.nothing\"")
    );
}

#[test]
fn a_call_that_panics_fails_alone() {
    let world = world(Limits { calls_per_client: 1, ..Limits::default() });
    let remote = world.remote("operator");
    let error = remote.call_extension("panic", &Value::Null).unwrap_err();
    assert_eq!((error.kind, error.message.contains("panic")), (ErrorKind::Failed, true), "{error}");
    let mut raw = Raw::greeted(&world);
    for id in 0..3 {
        raw.send(&json!({ "id": id, "method": "panic" }));
        assert_eq!(raw.receive().unwrap()["error"]["kind"], "failed");
    }
}

#[test]
fn an_actor_without_hns_is_told_so() {
    let world = world(Limits::default());
    let error = world.remote("nobody").version().unwrap_err();
    assert_eq!(error.code, HResult::SERVICE_DOES_NOT_EXIST);
    assert!(error.to_string().contains("no HNS here for actor \"nobody\""), "{error}");
}

#[test]
fn wrong_arguments_name_what_is_wrong_with_them() {
    let world = world(Limits::default());
    let mut raw = Raw::greeted(&world);
    let nil = Guid::NIL;
    for (method, params, part) in [
        ("hcn.query", json!({ "kind": "Thing", "id": nil }), "kinds are Network"),
        ("hcn.query", json!({ "kind": "Network" }), "missing field `id`"),
        ("hcn.query", json!({ "kind": "Network", "id": "{1}" }), "is not a GUID"),
        ("hcn.create", json!({ "kind": "Network" }), "missing field `settings`"),
        ("hcn.call_v1", json!({ "method": "PUT", "path": "/" }), "methods are GET, POST, DELETE"),
        ("hcn.unsubscribe", json!({}), "missing field `subscription`"),
        ("hcn.enumerate", json!([1, 2, 3]), "params"),
    ] {
        raw.send(&json!({ "id": 9, "method": method, "params": params }));
        let answer = raw.receive().unwrap();
        assert_eq!((&answer["id"], &answer["error"]["kind"]), (&json!(9), &json!("invalid")), "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(method) && message.contains(part), "{message}");
    }
    // Members that may be left out; unknown ones are passed over.
    raw.send(&json!({ "id": 1, "method": "hcn.enumerate", "params": { "kind": "Network", "later": 1 }, "more": 2 }));
    assert!(raw.receive().unwrap()["result"].is_array());
}

#[test]
fn a_request_without_sense_is_answered_when_it_has_an_id() {
    let world = world(Limits::default());
    let mut raw = Raw::greeted(&world);
    raw.send(&json!({ "id": 5, "method": 7 }));
    let answer = raw.receive().unwrap();
    assert_eq!((&answer["id"], &answer["error"]["kind"]), (&json!(5), &json!("invalid")), "{answer}");
    raw.send(&json!({ "method": "hcn.version" }));
    let (kind, message) = raw.last_words();
    assert_eq!(kind, "invalid");
    assert!(message.contains("not a request") && message.contains("missing field `id`"), "{message}");
}

#[test]
fn an_answer_that_is_too_long_is_an_error_of_its_call_alone() {
    let world = world(Limits { answer_bytes: 1024, ..Limits::default() });
    let remote = world.remote("operator");
    let long = "x".repeat(2000);
    let error = remote.call_extension("echo", &json!(long)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLong);
    assert!(error.message.contains("1024 bytes that are allowed"), "{error}");
    assert!(remote.call_extension("echo", &json!("short")).is_ok());
}

#[test]
fn a_request_that_is_too_long_is_not_sent() {
    let world = world(Limits { request_bytes: 1024, ..Limits::default() });
    let remote = world.remote("operator");
    let error = remote.create(Kind::Network, None, Guid::NIL, &"x".repeat(2000)).unwrap_err();
    assert_eq!(error.code, HResult::INVALID_PARAMETER);
    assert!(error.to_string().contains("hcn.create was not sent"), "{error}");
    assert!(remote.version().is_ok(), "and the connection lives");
}

#[test]
fn a_shutdown_lets_calls_end_and_takes_no_new_ones() {
    let mut world = world(Limits::default());
    let service = Arc::clone(&world.service);
    let faults = service.hns.faults();
    faults.add(deletes_hang("proxy")).unwrap();
    let remote = world.remote("proxy");
    let hung = {
        let remote = remote.clone();
        std::thread::spawn(move || remote.delete(Kind::Network, Guid::NIL))
    };
    faults.wait_until_hung(1);
    let running = world.running.take().unwrap();
    let files = running.files();
    assert_eq!(files, [world.socket(), world.token_file()]);
    let ending = std::thread::spawn(move || running.shutdown(Duration::from_mins(1)));
    // A new client finds nobody, for the files go first; then the hung call may end.
    while files.iter().any(|file| file.exists()) {
        std::thread::yield_now();
    }
    faults.release_hung_as(hns::faults::Release::Fail(HResult::E_FAIL));
    assert_eq!(hung.join().unwrap().unwrap_err().code, HResult::E_FAIL, "its own answer, not a lost one");
    assert!(ending.join().unwrap(), "everything has ended within the grace");
    assert_eq!(remote.version().unwrap_err().code, HResult::RPC_SERVER_UNAVAILABLE);
}

#[test]
fn a_shutdown_does_not_wait_for_a_call_that_hangs() {
    let mut world = world(Limits::default());
    let service = Arc::clone(&world.service);
    let faults = service.hns.faults();
    faults.add(deletes_hang("proxy")).unwrap();
    let remote = Arc::new(world.remote("proxy"));
    let hung = {
        let remote = Arc::clone(&remote);
        std::thread::spawn(move || remote.delete(Kind::Network, Guid::NIL))
    };
    faults.wait_until_hung(1);
    world.running.take().unwrap().shutdown(Duration::ZERO);
    assert_eq!(hung.join().unwrap().unwrap_err().code, HResult::RPC_CALL_FAILED);
    faults.release_hung();
}
