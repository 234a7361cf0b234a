//! Scripted faults: each effect as a client sees it.

use std::time::Duration;

use apiserver::{Effect, Gate, Match, Rule, Running, Status};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use serde_json::Value;

use super::client::{Connection, Events, How, apply, names, plain, revision, service};

const SERVICES: &str = "/api/v1/namespaces/default/services";

async fn watch(server: &Running, http2: bool) -> Events {
    Connection::open(server, &How { http2, ..How::default() })
        .await
        .watch(&format!("{SERVICES}?watch=1&allowWatchBookmarks=1"))
        .await
}

fn abc(server: &Running) {
    for name in ["a", "b", "c"] {
        apply(server, &service(name));
    }
}

/// An answer's body as far as it comes, and whether it came to its end.
async fn broken(client: &mut Connection, path: &str) -> (Vec<u8>, bool) {
    let response = client.request(Request::get(path).body(Full::default()).unwrap()).await.unwrap();
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => bytes.extend_from_slice(&frame.into_data().unwrap_or_default()),
            Err(_) => return (bytes, false),
        }
    }
    (bytes, true)
}

#[tokio::test]
async fn which_requests_are_struck() {
    let (server, _) = plain();
    let refuse = |status: u16| Effect::Answer(Status::of_code(status));
    let faults = server.faults();
    let third = faults.add(Rule::new(Match::of("list", "services"), refuse(500)).skip(2).times(2));
    faults.add(Rule::new(Match::any().path("/version"), refuse(503)).once());
    faults.add(Rule::new(Match::of("get", "nodes").name("bad"), refuse(504)));
    faults.add(Rule::new(Match::of("list", "pods").namespace("ns"), refuse(500)));
    faults.add(Rule::new(Match::any().verb("list").parameter("limit").user("system:anonymous"), refuse(503)));
    let mut client = Connection::open(&server, &How::default()).await;
    for (path, code) in [
        ("/api/v1/services", 200),
        ("/api/v1/nodes", 200),
        ("/api/v1/services", 200),
        ("/api/v1/services", 500),
        ("/api/v1/services", 500),
        ("/api/v1/services", 200),
        ("/version", 503),
        ("/version", 200),
        ("/api/v1/nodes/good", 404),
        ("/api/v1/nodes/bad", 504),
        ("/api/v1/pods", 200),
        ("/api/v1/namespaces/ns/pods", 500),
        ("/api/v1/services?limit=1", 503),
    ] {
        let answer = client.get(path).await;
        assert_eq!(answer.code, code, "{path}");
        if code >= 400 {
            answer.reason();
        }
    }
    assert_eq!(faults.hits(third), 2);
    faults.clear();
    assert_eq!(client.get("/api/v1/services?limit=1").await.code, 200);
    let codes: Vec<_> = server.activity().requests().iter().map(|request| request.code.unwrap()).collect();
    assert_eq!(codes.len(), 14);
    assert_eq!((codes[3], codes[9]), (500, 504));
}

#[tokio::test]
async fn too_many_requests() {
    let (server, _) = plain();
    server.faults().add(
        Rule::new(Match::any(), Effect::Answer(Status::too_many_requests(7).header("x-more", "yes"))).once(),
    );
    let mut client = Connection::open(&server, &How::default()).await;
    let answer = client.get(SERVICES).await;
    assert_eq!((answer.code, answer.reason().as_str()), (429, "TooManyRequests"));
    assert_eq!((answer.header("retry-after"), answer.header("x-more")), ("7", "yes"));
    assert_eq!(answer.json()["details"]["retryAfterSeconds"], 7);
}

#[tokio::test]
async fn closed_before_or_instead_of_an_answer() {
    for http2 in [false, true] {
        for (effect, written) in [(Effect::CloseBeforeAnswer, false), (Effect::CloseInsteadOfAnswer, true)] {
            let (server, _) = plain();
            server.faults().add(Rule::new(Match::of("create", "services"), effect).once());
            let how = How { http2, ..How::default() };
            let mut client = Connection::open(&server, &how).await;
            let request = Request::post(SERVICES).body(Full::from(service("web").to_string())).unwrap();
            assert!(client.request(request).await.is_err());
            let mut client = Connection::open(&server, &how).await;
            assert_eq!(client.get(&format!("{SERVICES}/web")).await.code == 200, written);
        }
    }
}

#[tokio::test]
async fn closed_within_an_object_of_a_list() {
    for http2 in [false, true] {
        let (server, _) = plain();
        abc(&server);
        let how = How { http2, ..How::default() };
        let whole = Connection::open(&server, &how).await.get(SERVICES).await.body;
        for bytes in [0, 1, 100, 200, whole.len() - 1, whole.len()] {
            server.faults().clear();
            server
                .faults()
                .add(Rule::new(Match::of("list", "services"), Effect::CloseAfterBytes(bytes as u64)));
            let mut client = Connection::open(&server, &how).await;
            let (body, ended) = broken(&mut client, SERVICES).await;
            assert!(!ended, "{bytes}");
            if http2 {
                // There the last frame may be lost with the connection.
                assert!(body.len() <= bytes && whole.starts_with(&body), "{bytes}");
            } else {
                assert_eq!(body, whole[..bytes], "{bytes}");
            }
            let noted = server.activity().requests().pop().unwrap();
            assert_eq!((noted.code, noted.bytes), (Some(200), bytes as u64));
        }
    }
}

#[tokio::test]
async fn closed_within_an_event() {
    let (server, _) = plain();
    abc(&server);
    let mut events = watch(&server, false).await;
    let first = events.line().await.unwrap().unwrap();
    server
        .faults()
        .add(Rule::new(Match::of("watch", "services"), Effect::CloseAfterBytes(first.len() as u64 + 11)));
    let mut events = watch(&server, false).await;
    assert_eq!(events.line().await.unwrap().unwrap(), first);
    assert!(events.line().await.is_err());
    assert_eq!(events.rest(), br#"{"type":"A"#);
}

#[tokio::test]
async fn after_so_many_events() {
    let garbage = Bytes::from_static(b"\x00\xff not json\n");
    let gone = Status::expired(3, 9);
    for http2 in [false, true] {
        let (server, _) = plain();
        abc(&server);
        for (effect, wanted) in [
            (Effect::EndAfterEvents(2), "a b end"),
            (Effect::EndAfterEvents(0), "end"),
            (Effect::CloseAfterEvents(2), "a b broken"),
            (Effect::CloseAfterEvents(0), "broken"),
            (Effect::ErrorEvent { after: 1, status: gone.clone() }, "a ERROR end"),
            (Effect::Garbage { after: 1, bytes: garbage.clone() }, "a garbage b c"),
        ] {
            server.faults().clear();
            server.faults().add(Rule::new(Match::of("watch", "services"), effect.clone()));
            let mut events = watch(&server, http2).await;
            let mut seen = Vec::new();
            while seen.len() < wanted.split(' ').count() {
                seen.push(match events.line().await {
                    Err(_) => "broken".to_owned(),
                    Ok(None) => "end".to_owned(),
                    Ok(Some(line)) => match serde_json::from_slice::<Value>(&line) {
                        Err(_) => "garbage".to_owned(),
                        Ok(event) if event["type"] == "ERROR" => {
                            assert_eq!(event["object"]["code"], 410);
                            "ERROR".to_owned()
                        }
                        Ok(event) => event["object"]["metadata"]["name"].as_str().unwrap().to_owned(),
                    },
                });
                if seen.last().is_some_and(|last| last == "broken" || last == "end") {
                    break;
                }
            }
            let seen = seen.join(" ");
            if http2 && wanted.ends_with("broken") {
                // There the last frame may be lost with the connection.
                assert!(
                    seen.ends_with("broken") && wanted.starts_with(seen.trim_end_matches("broken").trim()),
                    "{seen}"
                );
            } else {
                assert_eq!(seen, wanted, "{effect:?}");
            }
        }
    }
}

#[tokio::test]
async fn an_answer_that_does_not_come() {
    let (server, _) = plain();
    let gate = Gate::new();
    server.faults().add(Rule::new(Match::of("list", "services"), Effect::Hang(gate.clone())));
    let mut client = Connection::open(&server, &How::default()).await;
    let releasing = async {
        server.activity().until(|ledger| ledger.count(|request| request.resource == "services") == 1).await;
        assert_eq!(server.activity().requests()[0].code, None);
        // Others are served meanwhile.
        assert_eq!(Connection::open(&server, &How::default()).await.get("/api/v1/nodes").await.code, 200);
        apply(&server, &service("late"));
        gate.release();
    };
    let (answer, ()) = tokio::join!(client.get(SERVICES), releasing);
    assert_eq!(names(&answer.json()), ["late"], "it goes on as if nothing had been");
}

#[tokio::test]
async fn a_watch_that_falls_silent() {
    let (server, time) = plain();
    abc(&server);
    let gate = Gate::new();
    server
        .faults()
        .add(Rule::new(Match::of("watch", "services"), Effect::Silent { after: 4, until: gate.clone() }));
    let mut events = watch(&server, false).await;
    assert_eq!(events.shorts(4).await, ["ADDED a", "ADDED b", "ADDED c", "BOOKMARK initial-events-end"]);
    apply(&server, &service("d"));
    // Neither events nor bookmarks nor its end come.
    time.advance(Duration::from_hours(2));
    let noted = server.activity().requests().pop().unwrap();
    assert_eq!((noted.events, noted.ended), (4, false));
    tokio::select! {
        biased;
        event = events.next() => panic!("{event:?}"),
        () = tokio::task::yield_now() => {}
    }
    gate.release();
    assert_eq!(events.short().await, "ADDED d");
}

#[tokio::test]
async fn a_slow_body() {
    let (server, time) = plain();
    abc(&server);
    server.faults().add(Rule::new(Match::any(), Effect::Slow { bytes: 100, every: Duration::from_secs(1) }));
    let mut client = Connection::open(&server, &How::default()).await;
    let sent = || server.activity().look(|ledger| ledger.requests().next().unwrap().bytes);
    let clock = async {
        server.activity().until(|ledger| ledger.count(|request| request.code == Some(200)) == 1).await;
        assert_eq!(sent(), 0, "nothing before the first tick");
        let mut ticks = 0;
        while server.activity().look(|ledger| !ledger.requests().next().unwrap().ended) {
            time.advance(Duration::from_secs(1));
            ticks += 1;
            tokio::task::yield_now().await;
            assert!(sent() <= 100 * ticks, "at most one piece a tick");
        }
    };
    let (answer, ()) = tokio::join!(client.get(SERVICES), clock);
    assert_eq!(names(&answer.json()), ["a", "b", "c"]);
}

#[tokio::test]
async fn no_bookmarks() {
    let (server, time) = plain();
    server.faults().add(Rule::new(Match::of("watch", "services"), Effect::NoBookmarks));
    let mut client = Connection::open(&server, &How::default()).await;
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1&timeoutSeconds=300";
    let mut events = client.watch(&format!("{SERVICES}?{query}")).await;
    server.activity().until(|ledger| ledger.watching("services") == 1 && ledger.through(5)).await;
    time.advance(Duration::from_mins(2));
    apply(&server, &service("a"));
    assert_eq!(events.short().await, "ADDED a");
}

#[tokio::test]
async fn tokens_that_expire_and_lists_that_do_not_stream() {
    let (server, _) = plain();
    abc(&server);
    server.faults().add(Rule::new(Match::of("list", "services"), Effect::ExpireContinue));
    server.faults().add(Rule::new(Match::of("watch", "services"), Effect::RefuseStreamingLists));
    let mut client = Connection::open(&server, &How::default()).await;
    let first = client.get(&format!("{SERVICES}?limit=2")).await.json();
    assert_eq!(names(&first), ["a", "b"]);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let expired = client.get(&format!("{SERVICES}?limit=2&continue={token}")).await;
    assert_eq!((expired.code, expired.reason().as_str()), (410, "Expired"));
    assert!(expired.json()["metadata"]["continue"].is_string());
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    assert_eq!(client.get(&format!("{SERVICES}?{query}")).await.code, 422);
    server.faults().clear();
    assert_eq!(revision(&client.get(&format!("{SERVICES}?limit=2&continue={token}")).await.json()), 8);
}
