//! One object, and lists of them: resource versions, pages, continue tokens.
//!
//! This module must not know who asks.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use super::options::{Continue, ListOptions, Version, VersionMatch};
use super::reply::{Reply, bare};
use super::{Asked, Server};
use crate::kind::Kind;
use crate::status::Status;
use crate::store::state::{Compacted, Page, key};

/// How long a request for a resource version that is still to come waits for it.
const WAIT: Duration = Duration::from_secs(3);

/// Answers a GET of one object.
pub(super) async fn get(server: &Arc<Server>, kind: &'static Kind, asked: &Asked) -> Result<Reply, Status> {
    if let Version::At(revision) = Version::read(&asked.call)? {
        reached(server, revision).await?;
    }
    let key = object_key(kind, &asked.call.namespace, &asked.call.name);
    let object = server.store.read(|state| state.get(kind.storage, &key).cloned());
    object
        .map(|object| Reply::object(200, kind, &object))
        .ok_or_else(|| Status::not_found(kind, &asked.call.name))
}

/// Where an object is in the store.
pub(super) fn object_key(kind: &Kind, namespace: &str, name: &str) -> String {
    key(if kind.namespaced { namespace } else { "" }, name)
}

/// What the keys of a namespace begin with.
pub(super) fn prefix(kind: &Kind, namespace: &str) -> String {
    if kind.namespaced && !namespace.is_empty() { format!("{namespace}/") } else { String::new() }
}

/// Waits a short while for a resource version that is still to come, as a replica that lags behind does.
pub(super) async fn reached(server: &Arc<Server>, revision: u64) -> Result<(), Status> {
    let mut revisions = server.store.subscribe();
    let deadline = server.time.now() + WAIT;
    tokio::select! {
        biased;
        _ = revisions.wait_for(|now| *now >= revision) => Ok(()),
        () = server.time.until(deadline) => Err(Status::too_large(revision, server.store.revision())),
    }
}

/// Answers a list.
pub(super) async fn answer(
    server: &Arc<Server>,
    kind: &'static Kind,
    asked: &Asked,
) -> Result<Reply, Status> {
    let streaming = server.features.streaming_lists() && !asked.plan.refuse_streaming;
    let options = ListOptions::read(&asked.call, kind, false, streaming)?;
    if let Version::At(revision) = options.version {
        reached(server, revision).await?;
    }
    let (start, exact) = start_of(&options)?;
    let limit = match options.limit {
        0 => usize::MAX,
        // Upstream's cache, which answers such lists, knows no pages.
        _ if options.version == Version::Any && options.go_on.is_none() => usize::MAX,
        limit => limit,
    };
    let start = start.unwrap_or_default();
    let prefix = prefix(kind, &asked.call.namespace);
    let selection = &options.selection;
    let (page, revision) = server.store.read(|state| {
        let revision = exact.unwrap_or_else(|| state.revision());
        let wanted = |object: &crate::store::state::Object| {
            selection.labels.matches(&object.labels)
                && selection.fields.matches(&object.namespace, &object.name, &object.fields)
        };
        let page = if options.go_on.is_some() && asked.plan.expire_continue {
            Err(Compacted { oldest: revision })
        } else {
            state.page(kind.storage, &prefix, &start, revision, limit, wanted)
        };
        (page, revision)
    });
    let page = page.map_err(|compacted| expired(&options, revision, &start, compacted))?;
    let plain = selection.labels.is_empty() && selection.fields.is_empty();
    Ok(Reply::json(200, body(kind, page, revision, plain)))
}

/// Where a list begins, and the resource version that it must show exactly, if any.
fn start_of(options: &ListOptions) -> Result<(Option<String>, Option<u64>), Status> {
    if let Some(go_on) = &options.go_on {
        if matches!(options.version, Version::At(_)) {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        return Ok((Some(go_on.start.clone()), go_on.revision));
    }
    let exact = match (options.version, options.version_match) {
        (Version::At(revision), Some(VersionMatch::Exact)) => Some(revision),
        // With a limit and no match a resource version means itself, for the sake of older clients.
        (Version::At(revision), None) if options.limit > 0 => Some(revision),
        _ => None,
    };
    Ok((None, exact))
}

fn expired(options: &ListOptions, revision: u64, start: &str, compacted: Compacted) -> Status {
    if options.go_on.is_none() {
        return Status::expired(revision, compacted.oldest);
    }
    let mut status = Status::new(
        410,
        "Expired",
        "The provided continue parameter is too old to display a consistent list result. Begin the list anew, or go on \
         with the token of this answer for a list that is not consistent with what has been sent.",
    );
    status.details.continue_token = Some(Continue { revision: None, start: start.to_owned() }.token());
    status
}

fn body(kind: &Kind, page: Page, revision: u64, plain: bool) -> VecDeque<Bytes> {
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if let Some(next) = page.next {
        metadata["continue"] = Continue { revision: Some(revision), start: next }.token().into();
        if plain {
            metadata["remainingItemCount"] = page.remaining.into();
        }
    }
    let head = format!(
        "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
        kind.kind,
        kind.api_version()
    );
    let mut pieces = VecDeque::with_capacity(page.objects.len() * 2 + 2);
    pieces.push_back(Bytes::from(head));
    for (at, object) in page.objects.iter().enumerate() {
        if at > 0 {
            pieces.push_back(Bytes::from_static(b","));
        }
        pieces.push_back(bare(kind, object));
    }
    pieces.push_back(Bytes::from_static(b"]}\n"));
    pieces
}
