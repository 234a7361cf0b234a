//! Many writers and many watchers at once: nobody misses a change, sees one twice, or sees two in another order.
//!
//! `TRANSOM_WALK_SEED` takes one walk again.

use std::collections::BTreeMap;

use apiserver::Running;
use hcn::time::{Entropy, SeededEntropy};
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use super::client::{Connection, How, apply, plain, revision, service, short};

const WRITERS: u64 = 4;
const WATCHERS: u64 = 24;
const STEPS: u64 = 150;

/// One watcher's view: what it believes to exist.
struct View {
    objects: BTreeMap<String, Value>,
    seen: u64,
}

fn key(object: &Value) -> String {
    format!(
        "{}/{}",
        object["metadata"]["namespace"].as_str().unwrap(),
        object["metadata"]["name"].as_str().unwrap()
    )
}

fn matches(object: &Value, label: Option<u64>) -> bool {
    label.is_none_or(|label| object["metadata"]["labels"]["colour"] == *label.to_string())
}

impl View {
    fn take(&mut self, event: &Value, label: Option<u64>) {
        let object = &event["object"];
        if event["type"] == "BOOKMARK" {
            assert!(revision(object) >= self.seen, "a bookmark behind what was seen");
            self.seen = revision(object);
            return;
        }
        assert!(revision(object) > self.seen, "{} after {}", short(event), self.seen);
        self.seen = revision(object);
        match event["type"].as_str().unwrap() {
            "ADDED" => {
                assert!(matches(object, label));
                assert!(
                    self.objects.insert(key(object), object.clone()).is_none(),
                    "{} was there",
                    key(object)
                );
            }
            "MODIFIED" => {
                assert!(matches(object, label));
                assert!(
                    self.objects.insert(key(object), object.clone()).is_some(),
                    "{} was not there",
                    key(object)
                );
            }
            "DELETED" => {
                assert!(self.objects.remove(&key(object)).is_some(), "{} was not there", key(object));
            }
            other => panic!("{other}: {event}"),
        }
    }
}

async fn writer(server: &Running, number: u64, seed: u64) {
    let entropy = SeededEntropy::new(seed ^ number.wrapping_mul(0x9E37_79B9));
    let mut client =
        Connection::open(server, &How { http2: number.is_multiple_of(2), ..How::default() }).await;
    for step in 0..STEPS {
        let name = format!("s{}", entropy.below(12));
        let path = "/api/v1/namespaces/default/services";
        let colour = entropy.below(3);
        let body = json!({
            "metadata": {"name": name, "labels": {"colour": colour.to_string()}, "annotations": {"step": format!("{number}/{step}")}},
            "spec": {"ports": [{"port": 80}]},
        });
        let answer = match entropy.below(4) {
            0 => client.send("DELETE", &format!("{path}/{name}"), "application/json", "").await,
            1 => {
                client
                    .send(
                        "PATCH",
                        &format!("{path}/{name}"),
                        "application/merge-patch+json",
                        &body.to_string(),
                    )
                    .await
            }
            2 => client.send("PUT", &format!("{path}/{name}"), "application/json", &body.to_string()).await,
            _ => client.send("POST", path, "application/json", &body.to_string()).await,
        };
        assert!(matches!(answer.code, 200 | 201 | 404 | 409), "{}: {:?}", answer.code, answer.body);
    }
}

/// The last change that a watcher sees: one for each colour, made when all writers are done.
fn end_of(label: Option<u64>) -> String {
    format!("default/end-{}", label.unwrap_or(3))
}

/// Watches until the end, now and then hanging up and going on where it was, and returns what it believes.
async fn watcher(server: &Running, number: u64, seed: u64) -> BTreeMap<String, Value> {
    let entropy = SeededEntropy::new(seed.wrapping_add(number * 7919));
    let label = label_of(number);
    let selector = label.map(|label| format!("&labelSelector=colour%3D{label}")).unwrap_or_default();
    let path = "/api/v1/services";
    let how = How { http2: number % 2 == 1, ..How::default() };
    let mut client = Connection::open(server, &how).await;
    let list = client.get(&format!("{path}?{}", selector.trim_start_matches('&'))).await.json();
    let mut view = View { objects: BTreeMap::new(), seen: revision(&list) };
    for item in list["items"].as_array().unwrap() {
        view.objects.insert(key(item), item.clone());
    }
    let end = end_of(label);
    while !view.objects.contains_key(&end) {
        let mut client = Connection::open(server, &how).await;
        let mut events =
            client.watch(&format!("{path}?watch=1&resourceVersion={}{selector}", view.seen)).await;
        let patience = 5 + entropy.below(60);
        for _ in 0..patience {
            view.take(&events.next().await.unwrap(), label);
            if view.objects.contains_key(&end) {
                break;
            }
        }
    }
    view.objects
}

fn label_of(number: u64) -> Option<u64> {
    (!number.is_multiple_of(3)).then_some(number % 4)
}

#[expect(clippy::print_stdout, reason = "a walk that fails is taken again with its seed")]
fn say_seed(seed: u64) {
    println!("TRANSOM_WALK_SEED={seed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_misses_or_reorders_a_change() {
    let seed = std::env::var("TRANSOM_WALK_SEED").map_or(20_260, |seed| seed.parse().expect("a number"));
    say_seed(seed);
    let (server, _) = plain();
    let server = std::sync::Arc::new(server);
    let start = |number| {
        let server = std::sync::Arc::clone(&server);
        tokio::spawn(async move { watcher(&server, number, seed).await })
    };
    let watchers: Vec<_> = (0..WATCHERS).map(start).collect();
    let start = |number| {
        let server = std::sync::Arc::clone(&server);
        tokio::spawn(async move { writer(&server, number, seed).await })
    };
    let writers: Vec<_> = (0..WRITERS).map(start).collect();
    for writer in writers {
        writer.await.unwrap();
    }
    for colour in 0..4 {
        let mut end = service(&format!("end-{colour}"));
        end["metadata"]["labels"] = json!({"colour": colour.to_string()});
        apply(&server, &end);
    }
    let mut client = Connection::open(&server, &How::default()).await;
    let now = client.get("/api/v1/services").await.json();
    let last: BTreeMap<String, Value> =
        now["items"].as_array().unwrap().iter().map(|item| (key(item), item.clone())).collect();
    assert_eq!(last.len(), server.store().count::<Service>());
    for (number, watcher) in (0..).zip(watchers) {
        let mut believed = watcher.await.unwrap();
        let mut wanted = last.clone();
        wanted.retain(|_, object| matches(object, label_of(number)));
        for object in believed.values_mut() {
            let object = object.as_object_mut().unwrap();
            object.remove("kind");
            object.remove("apiVersion");
        }
        assert_eq!(believed, wanted, "watcher {number}");
    }
}
