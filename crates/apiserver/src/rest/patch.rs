//! Patches: merge patch and JSON patch, and as much of the strategic merge patch as is the same.
//!
//! This module must not know who asks.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::list::object_key;
use super::reply::{Reply, render};
use super::write::{metadata_text, normalise, write};
use super::{Asked, Server, content_type};
use crate::kind::Kind;
use crate::status::Status;

enum Patch {
    Merge(Value),
    Json(json_patch::Patch),
}

fn unreadable(error: &serde_json::Error) -> Status {
    Status::bad_request(format!("the patch cannot be read: {error}"))
}

fn read(asked: &Asked) -> Result<Patch, Status> {
    let unsupported = |why: &str| Status::new(415, "UnsupportedMediaType", why);
    match content_type(&asked.headers).as_str() {
        "application/merge-patch+json" => {
            serde_json::from_slice(&asked.body).map(Patch::Merge).map_err(|e| unreadable(&e))
        }
        "application/json-patch+json" => {
            serde_json::from_slice(&asked.body).map(Patch::Json).map_err(|e| unreadable(&e))
        }
        "application/strategic-merge-patch+json" => {
            let patch: Value = serde_json::from_slice(&asked.body).map_err(|e| unreadable(&e))?;
            if strategic(&patch) {
                return Err(unsupported(
                    "a strategic merge patch with lists or directives is not supported here; use application/merge-patch+json",
                ));
            }
            Ok(Patch::Merge(patch))
        }
        other => Err(unsupported(&format!(
            "the body of the request is in {other}, accepted are application/json-patch+json, \
             application/merge-patch+json and application/strategic-merge-patch+json without lists"
        ))),
    }
}

/// Whether a strategic merge patch says something that a merge patch would not.
fn strategic(patch: &Value) -> bool {
    match patch {
        Value::Array(_) => true,
        Value::Object(members) => {
            members.iter().any(|(name, value)| name.starts_with('$') || strategic(value))
        }
        _ => false,
    }
}

/// PATCH.
pub(super) fn answer(server: &Arc<Server>, kind: &'static Kind, asked: &Asked) -> Result<Reply, Status> {
    if asked.call.name.is_empty() {
        return Err(Status::of_code(405));
    }
    let patch = read(asked)?;
    let mut transaction = server.store.begin();
    let key = object_key(kind, &asked.call.namespace, &asked.call.name);
    let Some(old) = transaction.state().get(kind.storage, &key).cloned() else {
        return Err(Status::not_found(kind, &asked.call.name));
    };
    // What is patched is the object as the client sees it.
    let mut document: Value = serde_json::from_slice(&render(kind, &old)).unwrap_or_default();
    match patch {
        Patch::Merge(patch) => json_patch::merge(&mut document, &patch),
        Patch::Json(patch) => json_patch::patch(&mut document, &patch).map_err(|error| {
            let message = format!("the server rejected our request due to an error in our request: {error}");
            Status::new(422, "Invalid", message).about(kind, &asked.call.name)
        })?,
    }
    let members: Map<String, Value> = normalise(kind, document)?;
    for (member, wanted) in [("name", &old.name), ("namespace", &old.namespace)] {
        let is = metadata_text(&members, member);
        if is != wanted {
            return Err(Status::bad_request(format!(
                "metadata.{member}: \"{is}\": a patch cannot change it from \"{wanted}\""
            )));
        }
    }
    write(server, &mut transaction, kind, asked, &old, members)
}
