//! Watches: where they begin, what they show, how they end.

use std::time::Duration;

use apiserver::{Running, StoreFate};
use k8s_openapi::api::core::v1::Service;
use serde_json::json;

use super::client::{Connection, Events, How, apply, plain, revision, service, short};

const SERVICES: &str = "/api/v1/namespaces/default/services";

async fn watch(server: &Running, query: &str) -> Events {
    Connection::open(server, &How::default()).await.watch(&format!("{SERVICES}?watch=true&{query}")).await
}

fn labelled(name: &str, value: &str) -> serde_json::Value {
    let mut object = service(name);
    object["metadata"]["labels"] = json!({"app": value});
    object
}

#[tokio::test]
async fn where_a_watch_begins() {
    let (server, _) = plain();
    apply(&server, &service("a")); // 6
    apply(&server, &service("b")); // 7
    server.store().delete::<Service>("default", "a").unwrap(); // 8
    for (query, wanted) in [
        ("", &["ADDED b", "ADDED new"][..]),
        ("resourceVersion=0", &["ADDED b", "ADDED new"]),
        ("resourceVersion=5", &["ADDED a", "ADDED b", "DELETED a", "ADDED new"]),
        ("resourceVersion=6", &["ADDED b", "DELETED a", "ADDED new"]),
        ("resourceVersion=8", &["ADDED new"]),
        ("resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", &["ADDED new"]),
        (
            "resourceVersion=7&sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
            &["DELETED a", "ADDED new"],
        ),
        ("sendInitialEvents=true&resourceVersionMatch=NotOlderThan", &["ADDED b", "ADDED new"]),
        (
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
            &["ADDED b", "BOOKMARK initial-events-end", "ADDED new"],
        ),
        (
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion=7",
            &["ADDED b", "BOOKMARK initial-events-end", "ADDED new"],
        ),
    ] {
        let mut events = watch(&server, query).await;
        let expected = wanted.len() - 1;
        let mut seen = events.shorts(expected).await;
        // Whatever was to come before has come, so this is the next.
        apply(&server, &service("new"));
        seen.push(events.short().await);
        assert_eq!(seen, wanted, "{query}");
        drop(events);
        // The next case begins as this one did.
        server.store().lose();
        apply(&server, &service("a"));
        apply(&server, &service("b"));
        server.store().delete::<Service>("default", "a").unwrap();
    }
}

#[tokio::test]
async fn what_an_event_looks_like() {
    let (server, _) = plain();
    apply(&server, &service("a"));
    let mut events = watch(&server, "resourceVersion=5").await;
    let added = events.next().await.unwrap();
    let object = &added["object"];
    assert_eq!(
        (&object["kind"], &object["apiVersion"], revision(object)),
        (&json!("Service"), &json!("v1"), 6)
    );
    apply(&server, &labelled("a", "x"));
    let modified = events.next().await.unwrap();
    assert_eq!((short(&modified).as_str(), revision(&modified["object"])), ("MODIFIED a", 7));
    assert_eq!(modified["object"]["metadata"]["uid"], object["metadata"]["uid"]);
    server.store().delete::<Service>("default", "a").unwrap();
    let deleted = events.next().await.unwrap();
    // The last version, with the deletion's resource version.
    assert_eq!((short(&deleted).as_str(), revision(&deleted["object"])), ("DELETED a", 8));
    assert_eq!(deleted["object"]["metadata"]["labels"], json!({"app": "x"}));
}

#[tokio::test]
async fn a_write_that_changes_nothing_is_no_event() {
    let (server, _) = plain();
    apply(&server, &service("a"));
    let mut events = watch(&server, "resourceVersion=6").await;
    apply(&server, &service("a"));
    assert_eq!(server.store().revision(), 6);
    apply(&server, &service("b"));
    assert_eq!(events.short().await, "ADDED b");
}

#[tokio::test]
async fn objects_that_come_to_match_and_cease_to() {
    let (server, _) = plain();
    apply(&server, &labelled("a", "x")); // 6
    let mut events = watch(&server, "labelSelector=app%3Dx").await;
    assert_eq!(events.short().await, "ADDED a");
    apply(&server, &labelled("b", "y"));
    apply(&server, &labelled("b", "x"));
    assert_eq!(events.short().await, "ADDED b");
    apply(&server, &labelled("a", "y"));
    let left = events.next().await.unwrap();
    assert_eq!(short(&left), "DELETED a");
    assert_eq!(
        (left["object"]["metadata"]["labels"]["app"].as_str(), revision(&left["object"])),
        (Some("x"), 9)
    );
    server.store().delete::<Service>("default", "a").unwrap();
    server.store().delete::<Service>("default", "b").unwrap();
    assert_eq!(events.short().await, "DELETED b");
    let mut other = service("c");
    other["metadata"]["namespace"] = "other".into();
    other["metadata"]["labels"] = json!({"app": "x"});
    apply(&server, &other);
    apply(&server, &labelled("d", "x"));
    assert_eq!(events.short().await, "ADDED d");
}

#[tokio::test]
async fn a_watch_from_what_was_compacted() {
    let (server, _) = plain();
    for name in ["a", "b", "c"] {
        apply(&server, &service(name)); // 6, 7, 8
    }
    let mut keeping_up = watch(&server, "resourceVersion=8").await;
    server.activity().until(|ledger| ledger.watching("services") == 1 && ledger.through(8)).await;
    server.store().compact(7);
    for (from, gone) in [(5, true), (6, true), (7, false), (8, false)] {
        let mut events = watch(&server, &format!("resourceVersion={from}")).await;
        if gone {
            let event = events.next().await.unwrap();
            assert_eq!(event["type"], "ERROR");
            let status = &event["object"];
            assert_eq!(
                (&status["kind"], &status["code"], &status["reason"]),
                (&json!("Status"), &json!(410), &json!("Expired"))
            );
            assert_eq!(status["message"], format!("too old resource version: {from} (7)"));
            assert_eq!(events.short().await, "END");
        } else if from == 7 {
            assert_eq!(events.short().await, "ADDED c");
        }
    }
    server.store().compact_all();
    apply(&server, &service("d"));
    assert_eq!(keeping_up.short().await, "ADDED d", "who keeps up outlives a compaction");
}

#[tokio::test]
async fn history_is_bounded() {
    let options = apiserver::Options { history: 2, ..apiserver::Options::plain() };
    let server = apiserver::ApiServer::start(options).unwrap();
    for name in ["a", "b", "c"] {
        apply(&server, &service(name)); // 6, 7, 8
    }
    assert_eq!(watch(&server, "resourceVersion=5").await.short().await, "ERROR 410");
    assert_eq!(watch(&server, "resourceVersion=6").await.short().await, "ADDED b");
}

#[tokio::test]
async fn bookmarks_and_the_end() {
    let (server, time) = plain();
    let mut events = watch(&server, "resourceVersion=5&allowWatchBookmarks=true&timeoutSeconds=90").await;
    let mut silent = watch(&server, "resourceVersion=5&timeoutSeconds=90").await;
    server.activity().until(|ledger| ledger.watching("services") == 2 && ledger.through(5)).await;
    apply(&server, &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}));
    server.activity().until(|ledger| ledger.through(6)).await;
    time.advance(Duration::from_mins(1));
    let bookmark = events.next().await.unwrap();
    assert_eq!(short(&bookmark), "BOOKMARK");
    // As far as the store is, though no Service has changed.
    assert_eq!(
        bookmark["object"],
        json!({
            "kind": "Service", "apiVersion": "v1", "metadata": {"resourceVersion": "6"},
            "spec": {}, "status": {"loadBalancer": {}},
        })
    );
    apply(&server, &service("a"));
    assert_eq!(events.short().await, "ADDED a");
    // Two seconds before the end comes another one, if there is anything to say, and then the end.
    apply(&server, &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "o"}}));
    server.activity().until(|ledger| ledger.through(8)).await;
    time.advance(Duration::from_secs(28));
    let bookmark = events.next().await.unwrap();
    assert_eq!((short(&bookmark).as_str(), revision(&bookmark["object"])), ("BOOKMARK", 8));
    time.advance(Duration::from_secs(2));
    assert_eq!(events.short().await, "END");
    assert_eq!(silent.shorts(2).await, ["ADDED a", "END"]);
    server.activity().until(|ledger| ledger.watches().count() == 0).await;
}

#[tokio::test]
async fn a_watch_that_does_not_say_lasts_for_half_an_hour_at_least() {
    let (server, time) = plain();
    let mut events = watch(&server, "resourceVersion=5").await;
    server.activity().until(|ledger| ledger.watching("services") == 1 && ledger.through(5)).await;
    time.advance(Duration::from_mins(30) - Duration::from_millis(1));
    apply(&server, &service("a"));
    assert_eq!(events.short().await, "ADDED a");
    time.advance(Duration::from_mins(30) + Duration::from_millis(1));
    assert_eq!(events.short().await, "END");
}

#[tokio::test]
async fn a_busy_watch_ends_in_time() {
    let (server, time) = plain();
    let mut events = watch(&server, "resourceVersion=5&timeoutSeconds=5").await;
    server.activity().until(|ledger| ledger.watching("services") == 1 && ledger.through(5)).await;
    time.advance(Duration::from_secs(5));
    let store = server.store().clone();
    for number in 0..200 {
        store.apply_manifests(&service(&format!("s{number}")).to_string()).unwrap();
    }
    while events.next().await.is_some() {}
}

#[tokio::test]
async fn every_kind_has_a_bookmark_of_its_form() {
    let (server, _) = plain();
    let mut client = Connection::open(&server, &How { http2: true, ..How::default() }).await;
    for (path, kind) in [
        ("/api/v1/configmaps", "ConfigMap"),
        ("/api/v1/events", "Event"),
        ("/api/v1/namespaces", "Namespace"),
        ("/api/v1/nodes", "Node"),
        ("/api/v1/pods", "Pod"),
        ("/api/v1/services", "Service"),
        ("/apis/discovery.k8s.io/v1/endpointslices", "EndpointSlice"),
        ("/apis/events.k8s.io/v1/events", "Event"),
        ("/apis/networking.k8s.io/v1/servicecidrs", "ServiceCIDR"),
    ] {
        let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1";
        let mut events = client.watch(&format!("{path}?{query}")).await;
        let event = loop {
            let event = events.next().await.unwrap();
            if event["type"] == "BOOKMARK" {
                break event;
            }
        };
        assert_eq!(event["object"]["kind"], kind);
        assert_eq!(short(&event), "BOOKMARK initial-events-end");
        assert_eq!(revision(&event["object"]), 5);
    }
    assert_eq!(
        server.activity().look(|ledger| ledger.connections.accepted),
        1,
        "nine watches on one connection"
    );
}

#[tokio::test]
async fn a_streaming_list_of_a_version_that_does_not_come() {
    let (server, time) = plain();
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=99";
    let mut events = watch(&server, query).await;
    server.activity().until(|ledger| ledger.watching("services") == 1).await;
    let passing = async {
        while server.activity().look(|ledger| ledger.watching("services") == 1) {
            time.advance(Duration::from_secs(3));
            tokio::task::yield_now().await;
        }
    };
    let (event, ()) = tokio::join!(events.next(), passing);
    assert_eq!(short(&event.unwrap()), "ERROR 504");
    assert_eq!(events.short().await, "END");
}

#[tokio::test]
async fn a_server_without_streaming_lists_refuses_them() {
    let (server, _) = plain();
    server.features().set_streaming_lists(false);
    let mut client = Connection::open(&server, &How::default()).await;
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1";
    let answer = client.get(&format!("{SERVICES}?{query}")).await;
    assert_eq!((answer.code, answer.reason().as_str()), (422, "Invalid"));
    assert_eq!(answer.json()["details"]["causes"][0]["field"], "resourceVersionMatch");
}

#[tokio::test]
async fn a_version_from_the_future_is_waited_for_in_silence() {
    let (server, _) = plain();
    // As after a store was lost: the client knows a version that is still to come, and what happens before it is not
    // told.
    let mut events = watch(&server, "resourceVersion=7").await;
    server.activity().until(|ledger| ledger.watching("services") == 1 && ledger.through(7)).await;
    for name in ["a", "b", "c"] {
        apply(&server, &service(name)); // 6, 7, 8
    }
    assert_eq!(events.short().await, "ADDED c");
}

#[tokio::test]
async fn a_restart_breaks_watches_and_the_address_stays() {
    let (mut server, _) = plain();
    apply(&server, &service("a"));
    let address = server.address();
    for (fate, from_six, count) in
        [(StoreFate::Kept, "ADDED b", 2), (StoreFate::Compacted, "ERROR 410", 2), (StoreFate::Lost, "", 0)]
    {
        let mut events = watch(&server, "resourceVersion=7").await;
        server.stop();
        assert!(!server.is_running());
        assert!(events.line().await.is_err(), "it breaks off, it does not end");
        if count == 2 && server.store().count::<Service>() == 1 {
            apply(&server, &service("b"));
        }
        server.start_again(fate).unwrap();
        assert_eq!(server.address(), address);
        assert_eq!(server.store().count::<Service>(), count, "{fate:?}");
        if !from_six.is_empty() {
            assert_eq!(watch(&server, "resourceVersion=6").await.short().await, from_six, "{fate:?}");
        }
    }
    assert_eq!(server.store().revision(), 5, "a lost store counts anew");
}

#[tokio::test]
async fn the_deprecated_path_of_watches() {
    let (server, _) = plain();
    apply(&server, &service("a"));
    let mut client = Connection::open(&server, &How::default()).await;
    assert_eq!(client.watch("/api/v1/watch/services").await.short().await, "ADDED a");
}

#[tokio::test]
async fn a_client_that_goes_is_noticed() {
    let (server, _) = plain();
    let events = watch(&server, "").await;
    server.activity().until(|ledger| ledger.watching("services") == 1).await;
    drop(events);
    server.activity().until(|ledger| ledger.watches().count() == 0 && ledger.connections.open == 0).await;
}
