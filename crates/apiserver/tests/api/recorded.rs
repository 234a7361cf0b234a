//! What a real server was seen to answer (`testdata/recorded.yaml`) is what this one answers.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::client::{Connection, How, plain, short};

#[derive(Debug, Deserialize)]
struct Row {
    get: String,
    #[serde(flatten)]
    answer: BTreeMap<String, Value>,
}

fn names(objects: &Value) -> Vec<Value> {
    objects.as_array().into_iter().flatten().map(|object| object["metadata"]["name"].clone()).collect()
}

fn failure(status: &Value) -> BTreeMap<String, Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut seen = BTreeMap::from([
        ("code".to_owned(), status["code"].clone()),
        ("reason".to_owned(), text(&status["reason"]).into()),
    ]);
    let causes: Vec<String> = status["details"]["causes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|cause| format!("{} {}", text(&cause["field"]), text(&cause["reason"])).trim().to_owned())
        .collect();
    if !causes.is_empty() {
        seen.insert("causes".to_owned(), json!(causes));
    }
    if let Some(seconds) = status["details"].get("retryAfterSeconds") {
        seen.insert("retryAfter".to_owned(), seconds.clone());
    }
    seen
}

/// What is compared of an answer.
fn seen(code: u16, body: &str) -> BTreeMap<String, Value> {
    if code != 200 {
        return failure(&serde_json::from_str(body).expect("a Status"));
    }
    if body.is_empty() || body.starts_with("{\"type\"") {
        let event = |line: &str| {
            let event: Value = serde_json::from_str(line).expect("an event");
            match event["type"].as_str() {
                Some("ERROR") => {
                    let reason = event["object"]["reason"].as_str().unwrap_or_default();
                    format!("ERROR {} {reason}", event["object"]["code"])
                }
                _ => short(&event),
            }
        };
        return BTreeMap::from([("events".to_owned(), body.lines().map(event).collect())]);
    }
    let document: Value = serde_json::from_str(body).expect("an object or a list");
    let Some(items) = document.get("items") else {
        return BTreeMap::from([("object".to_owned(), document["metadata"]["name"].clone())]);
    };
    let mut seen = BTreeMap::from([("items".to_owned(), names(items).into())]);
    let metadata = &document["metadata"];
    if metadata["continue"].as_str().is_some_and(|token| !token.is_empty()) {
        let left = metadata.get("remainingItemCount").cloned().unwrap_or_else(|| "unknown".into());
        seen.insert("remaining".to_owned(), left);
    }
    seen
}

#[tokio::test]
async fn answers_are_those_of_a_real_server() {
    let text = include_str!("../../testdata/recorded.yaml");
    let rows: Vec<Row> = serde_saphyr::from_str(text).expect("the rows are rows");
    assert!(rows.len() >= 70, "{} rows", rows.len());
    let (server, time) = plain();
    let put = |document: Value| server.store().apply_manifests(&document.to_string()).unwrap();
    put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}));
    let mut versions = vec![("{later}".to_owned(), "99999999".to_owned())];
    for number in 1..=3 {
        put(json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": format!("s{number}"), "namespace": "ns", "labels": {"n": number.to_string()}},
            "spec": {"clusterIP": format!("10.96.200.{number}"), "ports": [{"port": 80}]},
        }));
        versions.push((format!("{{s{number}}}"), server.store().revision().to_string()));
    }
    let mut wrong = Vec::new();
    for row in &rows {
        let path = versions.iter().fold(row.get.clone(), |path, (name, version)| path.replace(name, version));
        let mut client = Connection::open(&server, &How::default()).await;
        let asked = client.get(&path);
        let mut asked = std::pin::pin!(asked);
        // The time of watches goes by.
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut asked => break answer,
                () = tokio::task::yield_now() => time.advance(Duration::from_millis(100)),
            }
        };
        let body = String::from_utf8(answer.body.to_vec()).unwrap();
        let seen = seen(answer.code, &body);
        if seen != row.answer {
            wrong.push(format!("{}\n  real: {:?}\n  here: {seen:?}", row.get, row.answer));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
