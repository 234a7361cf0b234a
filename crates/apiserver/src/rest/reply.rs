//! Answers as HTTP.
//!
//! This module must not know objects.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use hyper::Response;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use serde_json::Value;
use tokio::sync::mpsc;

use super::Server;
use crate::fault::Plan;
use crate::kind::Kind;
use crate::names;
use crate::serve::body::{Body, Piece, Recipient};
use crate::status::Status;
use crate::store::state::Object;

/// How many pieces wait for a client that is slow to read.
pub(super) const AHEAD: usize = 16;

enum Content {
    Ready(VecDeque<Bytes>),
    Stream(mpsc::Receiver<Piece>),
}

/// An answer.
pub(super) struct Reply {
    pub(super) code: u16,
    content_type: &'static str,
    headers: Vec<(HeaderName, String)>,
    content: Content,
}

impl Reply {
    pub(super) fn json(code: u16, pieces: impl Into<VecDeque<Bytes>>) -> Self {
        Self {
            code,
            content_type: "application/json",
            headers: Vec::new(),
            content: Content::Ready(pieces.into()),
        }
    }

    pub(super) fn value(code: u16, value: &Value) -> Self {
        Self::json(code, [Bytes::from(format!("{value}\n"))])
    }

    pub(super) fn object(code: u16, kind: &Kind, object: &Object) -> Self {
        Self::json(code, [render(kind, object), Bytes::from_static(b"\n")])
    }

    pub(super) fn text(code: u16, text: impl Into<Bytes>) -> Self {
        Self { content_type: "text/plain; charset=utf-8", ..Self::json(code, [text.into()]) }
    }

    pub(super) fn stream(pieces: mpsc::Receiver<Piece>) -> Self {
        Self { content: Content::Stream(pieces), ..Self::json(200, []) }
    }

    pub(super) fn failure(status: &Status) -> Self {
        let mut reply = Self::json(status.code, [status.to_bytes()]);
        if let Some(seconds) = status.details.retry_after {
            reply.headers.push((RETRY_AFTER, seconds.to_string()));
        }
        for (name, value) in &status.details.headers {
            if let Ok(name) = HeaderName::try_from(name.as_str()) {
                reply.headers.push((name, value.clone()));
            }
        }
        reply
    }

    pub(super) fn into_response(
        self,
        server: &Arc<Server>,
        to: &Recipient,
        pumped: Option<Plan>,
    ) -> Response<Body> {
        let body = match (self.content, pumped) {
            (Content::Ready(pieces), None) => Body::ready(pieces, to),
            (Content::Stream(pieces), None) => Body::channel(pieces, to),
            (content, Some(plan)) => {
                let (sender, receiver) = mpsc::channel(1);
                tokio::spawn(pump(content, plan, Arc::clone(server), sender));
                Body::channel(receiver, to)
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() =
            hyper::StatusCode::from_u16(self.code).unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        let audit = names::uid(server.store.entropy());
        let more = self.headers.into_iter().chain([(HeaderName::from_static("audit-id"), audit)]);
        for (name, value) in more {
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.append(name, value);
            }
        }
        response
    }
}

/// Hands a body on as the faults say: slowly, or only so many bytes of it.
async fn pump(content: Content, plan: Plan, server: Arc<Server>, to: mpsc::Sender<Piece>) {
    let mut left = plan.close_after_bytes;
    let mut source = content;
    loop {
        let next = match &mut source {
            Content::Ready(pieces) => pieces.pop_front().map(|bytes| Piece::Data(bytes, 0)),
            Content::Stream(pieces) => tokio::select! {
                next = pieces.recv() => next,
                () = to.closed() => return,
            },
        };
        let Some(piece) = next else { return };
        let Piece::Data(mut bytes, events) = piece else {
            let _ = to.send(piece).await;
            continue;
        };
        while !bytes.is_empty() {
            let mut part = bytes.clone();
            if let Some((most, every)) = plan.slow {
                let at = server.time.now() + every;
                tokio::select! {
                    () = server.time.until(at) => {}
                    () = to.closed() => return,
                }
                part.truncate(most);
            }
            bytes = bytes.slice(part.len()..);
            let length = part.len() as u64;
            let piece = match left {
                Some(left) if left <= length => {
                    Piece::Cut(part, usize::try_from(length - left).unwrap_or(usize::MAX))
                }
                _ => Piece::Data(part, if bytes.is_empty() { events } else { 0 }),
            };
            let cut = matches!(piece, Piece::Cut(..));
            if to.send(piece).await.is_err() || cut {
                // After a cut the body waits for its end; the channel must not say that there is nothing more.
                return to.closed().await;
            }
            left = left.map(|left| left - length);
        }
    }
}

/// An object with `kind` and `apiVersion`, which lists leave out.
pub(super) fn render(kind: &Kind, object: &Object) -> Bytes {
    let bare = bare(kind, object);
    let mut text =
        format!("{{\"kind\":\"{}\",\"apiVersion\":\"{}\",", kind.kind, kind.api_version()).into_bytes();
    text.extend_from_slice(bare.get(1..).unwrap_or_default());
    text.into()
}

/// An object in a kind's form, without `kind` and `apiVersion`.
pub(super) fn bare(kind: &Kind, object: &Object) -> Bytes {
    match kind.shown(&object.json) {
        None => object.json.clone(),
        Some(members) => serde_json::to_vec(&members).unwrap_or_default().into(),
    }
}
