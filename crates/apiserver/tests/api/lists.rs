//! Lists: their form, resource versions, pages, continue tokens.

use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};

use super::client::{Connection, How, apply, names, plain, revision, service};

const SERVICES: &str = "/api/v1/namespaces/default/services";

#[tokio::test]
async fn items_of_a_list_have_no_kind_and_the_list_has_one() {
    let (server, _) = plain();
    apply(&server, &service("web"));
    let mut client = Connection::open(&server, &How::default()).await;
    let list = client.get("/api/v1/services").await.json();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ServiceList"), &json!("v1")));
    assert_eq!(revision(&list), server.store().revision());
    let item = &list["items"][0];
    assert!(item.get("kind").is_none() && item.get("apiVersion").is_none(), "{item}");
    assert_eq!(item["metadata"]["creationTimestamp"], "1970-01-01T00:00:00Z");
    let one = client.get("/api/v1/namespaces/default/services/web").await.json();
    assert_eq!((&one["kind"], &one["apiVersion"]), (&json!("Service"), &json!("v1")));
    assert_eq!(one["metadata"], item["metadata"]);
}

#[tokio::test]
async fn a_namespace_is_a_part_and_the_order_is_that_of_keys() {
    let (server, _) = plain();
    for (namespace, name) in [("b", "x"), ("a-b", "x"), ("a", "y"), ("a", "x")] {
        let mut object = service(name);
        object["metadata"]["namespace"] = namespace.into();
        apply(&server, &object);
    }
    let mut client = Connection::open(&server, &How::default()).await;
    let all = client.get("/api/v1/services").await.json();
    let keys: Vec<String> = all["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| {
            format!(
                "{}/{}",
                item["metadata"]["namespace"].as_str().unwrap(),
                item["metadata"]["name"].as_str().unwrap()
            )
        })
        .collect();
    // `-` is before `/`.
    assert_eq!(keys, ["a-b/x", "a/x", "a/y", "b/x"]);
    assert_eq!(names(&client.get("/api/v1/namespaces/a/services").await.json()), ["x", "y"]);
    assert_eq!(names(&client.get("/api/v1/namespaces/none/services").await.json()), Vec::<String>::new());
}

/// Objects s0 … s4 at revisions 6 … 10, then s0 changed at 11, s1 deleted at 12.
async fn versions() -> (apiserver::Running, apiserver::TestTime, Connection) {
    let (server, time) = plain();
    let first = server.store().revision();
    assert_eq!(first, 5, "the four namespaces");
    for number in 0..5 {
        apply(&server, &service(&format!("s{number}")));
    }
    let mut changed = service("s0");
    changed["metadata"]["labels"] = json!({"changed": "yes"});
    apply(&server, &changed);
    server.store().delete::<k8s_openapi::api::core::v1::Service>("default", "s1").unwrap();
    let client = Connection::open(&server, &How::default()).await;
    (server, time, client)
}

#[tokio::test]
async fn resource_versions() {
    let (_server, _time, mut client) = versions().await;
    let now = ["s0", "s2", "s3", "s4"];
    for (query, names_wanted, revision_wanted) in [
        ("", &now[..], 12),
        ("resourceVersion=", &now, 12),
        ("resourceVersion=0", &now, 12),
        ("resourceVersion=7", &now, 12),
        ("resourceVersion=12", &now, 12),
        ("resourceVersion=0&resourceVersionMatch=NotOlderThan", &now, 12),
        ("resourceVersion=7&resourceVersionMatch=NotOlderThan", &now, 12),
        ("resourceVersion=7&resourceVersionMatch=Exact", &["s0", "s1"], 7),
        ("resourceVersion=11&resourceVersionMatch=Exact", &["s0", "s1", "s2", "s3", "s4"], 11),
        ("resourceVersion=5&resourceVersionMatch=Exact", &[], 5),
        // With a limit and without a match, a resource version means itself.
        ("resourceVersion=7&limit=10", &["s0", "s1"], 7),
        ("resourceVersion=7&limit=10&resourceVersionMatch=NotOlderThan", &now, 12),
        // Upstream's cache has no pages.
        ("resourceVersion=0&limit=1", &now, 12),
        ("limit=2", &["s0", "s2"], 12),
        ("limit=0", &now, 12),
        ("resourceVersion=8&resourceVersionMatch=Exact&limit=2", &["s0", "s1"], 8),
    ] {
        let answer = client.get(&format!("{SERVICES}?{query}")).await;
        assert_eq!(answer.code, 200, "{query}: {}", answer.json());
        assert_eq!(
            (names(&answer.json()), revision(&answer.json())),
            (names_wanted.iter().map(|n| (*n).to_owned()).collect(), revision_wanted),
            "{query}"
        );
    }
}

#[tokio::test]
async fn options_that_are_refused() {
    let (_server, _time, mut client) = versions().await;
    let token = client.get(&format!("{SERVICES}?limit=1")).await.json()["metadata"]["continue"]
        .as_str()
        .unwrap()
        .to_owned();
    for (query, code, reason) in [
        ("resourceVersion=abc", 400, "BadRequest"),
        ("limit=many", 400, "BadRequest"),
        ("continue=nonsense", 400, "BadRequest"),
        ("labelSelector=a,,b", 400, "BadRequest"),
        ("fieldSelector=spec.ports=x", 400, "BadRequest"),
        (&format!("continue={token}&resourceVersion=7"), 400, "BadRequest"),
        (&format!("continue={token}&resourceVersion=7&resourceVersionMatch=Exact"), 422, "Invalid"),
        ("resourceVersionMatch=Exact", 422, "Invalid"),
        ("resourceVersionMatch=NotOlderThan", 422, "Invalid"),
        ("resourceVersion=0&resourceVersionMatch=Exact", 422, "Invalid"),
        ("resourceVersion=7&resourceVersionMatch=Sometimes", 422, "Invalid"),
        ("sendInitialEvents=true", 422, "Invalid"),
        ("watch=1&resourceVersionMatch=NotOlderThan", 422, "Invalid"),
        ("watch=1&sendInitialEvents=true", 422, "Invalid"),
        ("watch=1&sendInitialEvents=true&resourceVersion=7&resourceVersionMatch=Exact", 422, "Invalid"),
    ] {
        let answer = client.get(&format!("{SERVICES}?{query}")).await;
        assert_eq!((answer.code, answer.reason().as_str()), (code, reason), "{query}: {}", answer.json());
    }
}

#[tokio::test]
async fn a_resource_version_that_is_still_to_come() {
    let (server, time, mut client) = versions().await;
    // It comes while the server waits for it.
    let path = format!("{SERVICES}?resourceVersion=13");
    let waiting = client.get(&path);
    let arrival = async {
        server
            .activity()
            .until(|ledger| ledger.count(|request| request.query == "resourceVersion=13") == 1)
            .await;
        apply(&server, &service("late"));
    };
    let (answer, ()) = tokio::join!(waiting, arrival);
    assert_eq!(revision(&answer.json()), 13);
    // It does not.
    for path in [format!("{SERVICES}?resourceVersion=99"), format!("{SERVICES}/s0?resourceVersion=99")] {
        let before = server.activity().requests().len();
        let waiting = client.get(&path);
        let passing = async {
            server.activity().until(|ledger| ledger.requests().count() > before).await;
            // The request may not yet wait; time goes on until it has its answer.
            while server.activity().look(|ledger| ledger.requests().any(|request| request.code.is_none())) {
                time.advance(Duration::from_secs(3));
                tokio::task::yield_now().await;
            }
        };
        let (answer, ()) = tokio::join!(waiting, passing);
        assert_eq!((answer.code, answer.reason().as_str()), (504, "Timeout"), "{path}");
        assert_eq!(answer.header("retry-after"), "1");
        assert_eq!(answer.json()["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
        assert!(
            answer.json()["message"]
                .as_str()
                .unwrap()
                .contains("Too large resource version: 99, current: 13")
        );
    }
}

#[tokio::test]
async fn pages_show_one_version_whatever_happens_meanwhile() {
    let (server, _, mut client) = versions().await;
    let mut seen = Vec::new();
    let mut path = format!("{SERVICES}?limit=1");
    let mut remaining = Vec::new();
    for round in 0.. {
        let page = client.get(&path).await.json();
        assert_eq!(revision(&page), 12);
        seen.extend(names(&page));
        remaining.push(page["metadata"]["remainingItemCount"].as_u64());
        let Some(token) = page["metadata"]["continue"].as_str() else { break };
        path = format!("{SERVICES}?limit=1&continue={token}");
        // s1 comes back, s3 changes, s4 goes, s9 comes: none of it shows.
        match round {
            0 => apply(&server, &service("s1")),
            1 => {
                let mut changed = service("s3");
                changed["metadata"]["labels"] = json!({"late": "yes"});
                apply(&server, &changed);
                server.store().delete::<k8s_openapi::api::core::v1::Service>("default", "s4").unwrap();
                apply(&server, &service("s9"));
            }
            _ => {}
        }
    }
    assert_eq!(seen, ["s0", "s2", "s3", "s4"]);
    assert_eq!(remaining, [Some(3), Some(2), Some(1), None]);
}

#[tokio::test]
async fn with_a_selector_nobody_knows_how_many_remain() {
    let (_server, _, mut client) = versions().await;
    let page = client.get(&format!("{SERVICES}?limit=1&labelSelector=!changed")).await.json();
    assert_eq!(names(&page), ["s2"]);
    assert!(page["metadata"]["continue"].is_string());
    assert!(page["metadata"].get("remainingItemCount").is_none());
}

#[tokio::test]
async fn what_was_compacted_is_gone() {
    let (server, _, mut client) = versions().await;
    let token = client.get(&format!("{SERVICES}?limit=1")).await.json()["metadata"]["continue"]
        .as_str()
        .unwrap()
        .to_owned();
    apply(&server, &service("s9"));
    server.store().compact(13);
    let exact = client.get(&format!("{SERVICES}?resourceVersion=12&resourceVersionMatch=Exact")).await;
    assert_eq!((exact.code, exact.reason().as_str()), (410, "Expired"));
    let exact = client.get(&format!("{SERVICES}?resourceVersion=13&resourceVersionMatch=Exact")).await;
    assert_eq!(exact.code, 200, "the compacted version itself can be read");
    // A continued list ends with 410 and a way to go on with what is so now.
    let expired = client.get(&format!("{SERVICES}?limit=2&continue={token}")).await;
    assert_eq!((expired.code, expired.reason().as_str()), (410, "Expired"));
    let token = expired.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let rest = client.get(&format!("{SERVICES}?limit=10&continue={token}")).await.json();
    assert_eq!(names(&rest), ["s2", "s3", "s4", "s9"]);
    assert_eq!(revision(&rest), 13);
}

#[tokio::test]
async fn twenty_five_thousand_slices_in_pages() {
    let (server, _) = plain();
    let slices: Vec<EndpointSlice> = (0..25_000)
        .map(|number| {
            serde_json::from_value(json!({
                "metadata": {"name": format!("slice-{number:05}"), "namespace": format!("ns-{}", number % 7)},
                "addressType": "IPv4",
                "endpoints": [{"addresses": [format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255)]}],
            }))
            .unwrap()
        })
        .collect();
    server.store().load(&slices).unwrap();
    for http2 in [false, true] {
        let mut client = Connection::open(&server, &How { http2, ..How::default() }).await;
        let (mut seen, mut pages, mut token) = (Vec::new(), 0, String::new());
        loop {
            let page: Value = client
                .get(&format!("/apis/discovery.k8s.io/v1/endpointslices?limit=500&continue={token}"))
                .await
                .json();
            seen.extend(names(&page));
            pages += 1;
            assert_eq!(
                page["metadata"]["remainingItemCount"].as_u64().unwrap_or(0),
                25_000 - seen.len() as u64
            );
            match page["metadata"]["continue"].as_str() {
                Some(next) => next.clone_into(&mut token),
                None => break,
            }
        }
        assert_eq!((pages, seen.len()), (50, 25_000));
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 25_000, "each once");
    }
}
