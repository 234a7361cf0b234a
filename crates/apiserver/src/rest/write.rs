//! Changes of one object: create, update, delete, and what they have in common.
//!
//! Everything is decided under the store's lock, so that two writers never both succeed with one resource version.
//! This module must not know who asks.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::list::object_key;
use super::reply::Reply;
use super::{Asked, Server, admission, allocate, content_type};
use crate::kind::{Kind, Storage};
use crate::names;
use crate::status::{self, Cause, Status};
use crate::store::state::Object;
use crate::store::{Transaction, metadata_of, next_version};
use crate::yaml;

/// What an object's metadata says.
pub(super) fn metadata_text<'a>(members: &'a Map<String, Value>, member: &str) -> &'a str {
    members
        .get("metadata")
        .and_then(|metadata| metadata.get(member))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn set_metadata(members: &mut Map<String, Value>, member: &str, value: &str) {
    metadata_of(members).insert(member.to_owned(), value.into());
}

/// The document in a request's body.
pub(super) fn read_body(asked: &Asked) -> Result<Value, Status> {
    let unreadable =
        |error: String| Status::bad_request(format!("the body of the request cannot be read: {error}"));
    match content_type(&asked.headers).as_str() {
        "application/json" => {
            serde_json::from_slice(&asked.body).map_err(|error| unreadable(error.to_string()))
        }
        "application/yaml" => {
            let text = std::str::from_utf8(&asked.body).map_err(|error| unreadable(error.to_string()))?;
            let mut documents = yaml::documents(text).map_err(unreadable)?;
            Ok(if documents.is_empty() { Value::Null } else { documents.swap_remove(0) })
        }
        other => {
            let message = format!(
                "the body of the request is in {other}, accepted are application/json and application/yaml"
            );
            Err(Status::new(415, "UnsupportedMediaType", message))
        }
    }
}

/// Checks that a document is an object of a kind, and brings it into the form in which it is stored.
pub(super) fn normalise(kind: &Kind, document: Value) -> Result<Map<String, Value>, Status> {
    if !document.is_object() {
        return Err(Status::bad_request(format!("a {} must be a JSON object", kind.kind)));
    }
    for (member, wanted) in [("apiVersion", kind.api_version()), ("kind", kind.kind.to_owned())] {
        let given = document.get(member).and_then(Value::as_str).unwrap_or_default();
        if !given.is_empty() && given != wanted {
            let message =
                format!("the {member} in the data ({given}) does not match the expected {member} ({wanted})");
            return Err(Status::bad_request(message));
        }
    }
    kind.normalise(document).map_err(|error| {
        let message = format!(
            "{} in version \"{}\" cannot be handled as a {}: {error}",
            kind.kind, kind.version, kind.kind
        );
        Status::bad_request(message)
    })
}

/// The object's namespace is the path's.
fn settle_namespace(kind: &Kind, members: &mut Map<String, Value>, asked: &Asked) -> Result<(), Status> {
    if !kind.namespaced {
        metadata_of(members).shift_remove("namespace");
        return Ok(());
    }
    let given = metadata_text(members, "namespace");
    if !given.is_empty() && given != asked.call.namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    set_metadata(members, "namespace", &asked.call.namespace);
    Ok(())
}

/// Whether nothing is to be kept of what the request does.
fn dry_run(asked: &Asked) -> Result<bool, Status> {
    match asked.call.parameter("dryRun") {
        None | Some("") => Ok(false),
        Some("All") => Ok(true),
        Some(other) => {
            Err(Status::bad_request(format!("dryRun: \"{other}\" is not supported, only \"All\" is")))
        }
    }
}

/// A version that is not kept, as it would be answered.
fn unkept(code: u16, kind: &Kind, members: Map<String, Value>) -> Reply {
    let stored = Value::Object(members).to_string();
    let members =
        kind.shown(stored.as_bytes()).or_else(|| serde_json::from_str(&stored).ok()).unwrap_or_default();
    let mut object = Map::new();
    object.insert("kind".to_owned(), kind.kind.into());
    object.insert("apiVersion".to_owned(), kind.api_version().into());
    object.extend(members);
    Reply::value(code, &Value::Object(object))
}

/// POST.
pub(super) fn create(server: &Arc<Server>, kind: &'static Kind, asked: &Asked) -> Result<Reply, Status> {
    if !asked.call.name.is_empty() || (kind.namespaced && asked.call.namespace.is_empty()) {
        return Err(Status::of_code(405));
    }
    let mut members = normalise(kind, read_body(asked)?)?;
    settle_namespace(kind, &mut members, asked)?;
    let mut transaction = server.store.begin();
    create_in(server, &mut transaction, kind, asked, members)
}

fn create_in(
    server: &Server,
    transaction: &mut Transaction<'_>,
    kind: &'static Kind,
    asked: &Asked,
    mut members: Map<String, Value>,
) -> Result<Reply, Status> {
    if !matches!(metadata_text(&members, "resourceVersion"), "" | "0") {
        return Err(Status::new(500, "", "resourceVersion should not be set on objects to be created"));
    }
    let base = metadata_text(&members, "generateName").to_owned();
    if metadata_text(&members, "name").is_empty() && !base.is_empty() {
        let name = names::generated(&base, transaction.entropy());
        set_metadata(&mut members, "name", &name);
    }
    let name = metadata_text(&members, "name").to_owned();
    if kind.namespaced && transaction.state().get(Storage::Namespaces, &asked.call.namespace).is_none() {
        return Err(Status::not_found(Storage::Namespaces.kind(), &asked.call.namespace));
    }
    let key = object_key(kind, &asked.call.namespace, &name);
    for member in ["deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"] {
        metadata_of(&mut members).shift_remove(member);
    }
    admission::on_create(kind, &mut members);
    let causes = admission::faults_of(kind, &members, None);
    if !causes.is_empty() {
        return Err(Status::invalid(kind, &name, causes));
    }
    if transaction.state().get(kind.storage, &key).is_some() {
        return Err(Status::already_exists(kind, &name));
    }
    allocate::allocate(kind, &server.networks, transaction, &mut members, None)
        .map_err(|cause| Status::invalid(kind, &name, vec![cause]))?;
    if dry_run(asked)? {
        transaction.stamp_new(kind, &mut members);
        return Ok(unkept(201, kind, members));
    }
    Ok(Reply::object(201, kind, &transaction.create(kind, members)))
}

/// PUT.
pub(super) fn update(server: &Arc<Server>, kind: &'static Kind, asked: &Asked) -> Result<Reply, Status> {
    if asked.call.name.is_empty() {
        return Err(Status::of_code(405));
    }
    let mut members = normalise(kind, read_body(asked)?)?;
    settle_namespace(kind, &mut members, asked)?;
    let name = metadata_text(&members, "name");
    if name != asked.call.name {
        let url = &asked.call.name;
        let message = format!("the name of the object ({name}) does not match the name on the URL ({url})");
        return Err(Status::bad_request(message));
    }
    let mut transaction = server.store.begin();
    let key = object_key(kind, &asked.call.namespace, &asked.call.name);
    match transaction.state().get(kind.storage, &key).cloned() {
        Some(old) => write(server, &mut transaction, kind, asked, &old, members),
        None if kind.create_on_update
            && asked.call.subresource.is_empty()
            && metadata_text(&members, "uid").is_empty() =>
        {
            create_in(server, &mut transaction, kind, asked, members)
        }
        None => Err(Status::not_found(kind, &asked.call.name)),
    }
}

/// Writes the next version of an object, if it may be.
pub(super) fn write(
    server: &Server,
    transaction: &mut Transaction<'_>,
    kind: &'static Kind,
    asked: &Asked,
    old: &Arc<Object>,
    mut members: Map<String, Value>,
) -> Result<Reply, Status> {
    match metadata_text(&members, "resourceVersion") {
        "" | "0" if kind.unconditional_update => {}
        "" | "0" => {
            let cause = Cause {
                reason: "FieldValueInvalid",
                message: "Invalid value: 0: must be specified for an update".to_owned(),
                field: "metadata.resourceVersion".to_owned(),
            };
            return Err(Status::invalid(kind, &old.name, vec![cause]));
        }
        given if given == old.revision.to_string() => {}
        _ => {
            let why =
                "the object has been modified; please apply your changes to the latest version and try again";
            return Err(Status::conflict(kind, &old.name, why));
        }
    }
    let uid = metadata_text(&members, "uid");
    if !uid.is_empty() && uid != old.uid {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", old.uid);
        return Err(Status::conflict(kind, &old.name, &why));
    }
    let before = old.members();
    if asked.call.subresource == "status" {
        let status = members.shift_remove("status");
        members.clone_from(&before);
        match status {
            Some(status) => members.insert("status".to_owned(), status),
            None => members.shift_remove("status"),
        };
    } else if kind.status {
        match before.get("status") {
            Some(status) => members.insert("status".to_owned(), status.clone()),
            None => members.shift_remove("status"),
        };
    }
    admission::on_update(kind, &before, &mut members);
    let causes = admission::faults_of(kind, &members, Some(&before));
    if !causes.is_empty() {
        return Err(Status::invalid(kind, &old.name, causes));
    }
    allocate::allocate(kind, &server.networks, transaction, &mut members, Some(old))
        .map_err(|cause| Status::invalid(kind, &old.name, vec![cause]))?;
    if dry_run(asked)? {
        return Ok(unkept(200, kind, next_version(kind, old, members)));
    }
    let new = transaction.replace(kind, old, members);
    // The last finalizer of an object that is being deleted is gone, and so is the object.
    let metadata = new.members();
    let grace = metadata
        .get("metadata")
        .and_then(|metadata| metadata.get("deletionGracePeriodSeconds"))
        .and_then(Value::as_i64);
    if !metadata_text(&metadata, "deletionTimestamp").is_empty()
        && finalizers(&metadata) == 0
        && grace == Some(0)
    {
        transaction.remove(kind.storage, &new.key());
    }
    Ok(Reply::object(200, kind, &new))
}

fn finalizers(members: &Map<String, Value>) -> usize {
    let list = members.get("metadata").and_then(|metadata| metadata.get("finalizers"));
    list.and_then(Value::as_array).map_or(0, Vec::len)
}

/// DELETE of one object.
pub(super) fn delete(server: &Arc<Server>, kind: &'static Kind, asked: &Asked) -> Result<Reply, Status> {
    if !asked.call.subresource.is_empty() {
        return Err(Status::of_code(405));
    }
    let options = if asked.body.is_empty() { Value::Null } else { read_body(asked)? };
    let key = object_key(kind, &asked.call.namespace, &asked.call.name);
    let mut transaction = server.store.begin();
    let Some(old) = transaction.state().get(kind.storage, &key).cloned() else {
        return Err(Status::not_found(kind, &asked.call.name));
    };
    for (member, is) in [("uid", old.uid.clone()), ("resourceVersion", old.revision.to_string())] {
        let wanted = options.pointer(&format!("/preconditions/{member}")).and_then(Value::as_str);
        if let Some(wanted) = wanted.filter(|wanted| *wanted != is) {
            let why = format!(
                "the {member} in the precondition ({wanted}) does not match the {member} in record ({is})"
            );
            return Err(Status::conflict(kind, &old.name, &why));
        }
    }
    let mut members = old.members();
    let grace = match options.get("gracePeriodSeconds").and_then(Value::as_i64) {
        Some(seconds) => Some(seconds),
        None => asked.call.parameter("gracePeriodSeconds").and_then(|seconds| seconds.parse().ok()),
    };
    let seconds = if kind.storage == Storage::Pods { admission::pod_grace(&members, grace) } else { 0 };
    let lingers = finalizers(&members) > 0 || seconds > 0;
    if dry_run(asked)? {
        return Ok(unkept(200, kind, members));
    }
    if lingers {
        if metadata_text(&members, "deletionTimestamp").is_empty() {
            let now = transaction.now();
            let metadata = metadata_of(&mut members);
            metadata.insert("deletionTimestamp".to_owned(), now.into());
            metadata.insert("deletionGracePeriodSeconds".to_owned(), seconds.into());
            let marked = transaction.put(kind.storage, members);
            return Ok(Reply::object(200, kind, &marked));
        }
        return Ok(Reply::object(200, kind, &old));
    }
    if kind.storage == Storage::Namespaces {
        transaction.empty_namespace(&old.name);
    }
    let last = transaction.remove(kind.storage, &key).unwrap_or_else(|| Arc::clone(&old));
    if kind.returns_deleted {
        return Ok(Reply::object(200, kind, &last));
    }
    Ok(Reply::value(200, &status::deleted(kind, &old.name, &old.uid)))
}
