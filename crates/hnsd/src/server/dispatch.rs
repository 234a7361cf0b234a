//! From a request to a call of `Hcn` or of the service, and back to an answer.

use std::sync::Arc;

use hcn::{Hcn, Query};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::connection::{Client, Out, last_words};
use super::stream::{self, Feed};
use crate::call::{Call, CallError, ErrorKind};
use crate::frame::{self, FrameError};
use crate::protocol::{
    CallV1, Create, Delete, Enumerate, Modify, QueryOne, Request, ServerMessage, Unsubscribe, WireError,
    method,
};

type Answer = Result<Box<RawValue>, WireError>;

/// A request that has left its frame.
struct Begun {
    id: u64,
    method: String,
    stream: bool,
    params: Option<Box<RawValue>>,
}

impl Begun {
    fn request(&self) -> Request<'_> {
        Request {
            id: self.id,
            method: self.method.as_str().into(),
            stream: self.stream,
            params: self.params.as_deref(),
        }
    }
}

/// Begins what a frame asks for, or says why not.
pub(super) async fn begin(client: &Arc<Client>, frame: &[u8]) {
    let request = match Request::parse(frame) {
        Ok(request) => request,
        Err(malformed) => {
            let error = CallError::invalid(&malformed);
            let out = match malformed.id {
                Some(id) => answer(client, id, Err(error.into())),
                None => last_words(error),
            };
            return send(client, out).await;
        }
    };
    if request.method == method::UNSUBSCRIBE {
        // Needs no thread, so that it works while every call hangs.
        let done = unsubscribe(client, &request).map_err(WireError::from);
        return send(client, answer(client, request.id, done)).await;
    }
    let places = Arc::clone(&client.calls)
        .try_acquire_owned()
        .map_err(|_| {
            let bound = client.shared.limits.calls_per_client;
            let why = format!("too many calls under way: this connection has {bound} already");
            CallError::new(ErrorKind::Busy, why)
        })
        .and_then(|place| Ok((place, client.share.take()?)));
    let (place, places) = match places {
        Ok(places) => places,
        Err(busy) => return send(client, answer(client, request.id, Err(busy.into()))).await,
    };
    let begun = Begun {
        id: request.id,
        method: request.method.into_owned(),
        stream: request.stream,
        params: request.params.map(ToOwned::to_owned),
    };
    let client = Arc::clone(client);
    tokio::spawn(async move {
        let id = begun.id;
        let own = Arc::clone(&client);
        let done = tokio::task::spawn_blocking(move || {
            // The thread's places are free when the thread is; if the client is still there does not matter.
            let _places = places;
            let answered = perform(&own, &begun.request());
            answer(&own, begun.id, answered)
        });
        let out = done.await.unwrap_or_else(|error| {
            // A panic: the hook has told where. The caller learns that nothing is known of its call.
            tracing::error!(actor = client.actor, %error, "a call ended in a panic");
            let error = CallError::new(ErrorKind::Failed, "the call ended in a panic of the server's");
            answer(&client, id, Err(error.into()))
        });
        let out = match out {
            Out::Frame(bytes) => Out::Answer(bytes, place),
            other => other,
        };
        send(&client, out).await;
    });
}

async fn send(client: &Client, out: Out) {
    // Nobody waits for the answer when the writer is gone.
    let _ = client.out.send(out).await;
}

/// The frame of an answer.
fn answer(client: &Client, id: u64, answered: Answer) -> Out {
    let (result, error) = match answered {
        Ok(result) => (Some(result), None),
        Err(error) => (None, Some(error)),
    };
    let message = ServerMessage { id: Some(id), result, error, ..ServerMessage::default() };
    match frame::encode(&message, client.shared.limits.answer_bytes) {
        Ok(bytes) => Out::Frame(bytes),
        Err(error) => {
            let why = match error {
                FrameError::TooLong { .. } => format!("the answer cannot be sent: {error}"),
                FrameError::Empty => "the answer is no JSON document".to_owned(),
            };
            let error = Some(CallError::new(ErrorKind::TooLong, why).into());
            let message = ServerMessage { id: Some(id), error, ..ServerMessage::default() };
            frame::encode(&message, usize::MAX).map_or(Out::End, Out::Frame)
        }
    }
}

fn raw<T: Serialize>(value: &T) -> Answer {
    to_raw_value(value)
        .map_err(|error| CallError::failed(format!("the answer is no JSON document: {error}")).into())
}

/// Does what is asked; may block for ever.
fn perform(client: &Arc<Client>, request: &Request<'_>) -> Answer {
    if method::is_hcn(&request.method) { hcn_call(client, request) } else { own_call(client, request) }
}

fn own_call(client: &Arc<Client>, request: &Request<'_>) -> Answer {
    let mut params: Value = request.arguments()?;
    if params.is_null() {
        params = Value::Object(serde_json::Map::new());
    }
    let call = Call { actor: &client.actor, method: &request.method, params: &params };
    let service = &client.shared.service;
    if !request.stream {
        return raw(&service.call(&call)?);
    }
    let (reserved, sink, feed) = reserve(client, request.id)?;
    match service.stream(&call, sink) {
        Ok(()) => {
            follow(client, request.id, reserved, feed, || ());
            raw(&())
        }
        Err(error) => {
            client.subscriptions.lock().remove(&request.id);
            Err(error.into())
        }
    }
}

fn hcn_call(client: &Arc<Client>, request: &Request<'_>) -> Answer {
    let hcn: &Arc<dyn Hcn> = client.hcn.as_ref().ok_or_else(|| {
        CallError::new(ErrorKind::NoHns, format!("there is no HNS here for actor {:?}", client.actor))
    })?;
    match &*request.method {
        method::ENUMERATE => {
            let Enumerate { kind, query } = request.arguments()?;
            raw(&hcn.enumerate(kind.0, &Query::from_text(&query)?)?)
        }
        method::QUERY => {
            let QueryOne { kind, id, query } = request.arguments()?;
            raw(&hcn.query(kind.0, id, &Query::from_text(&query)?)?)
        }
        method::CREATE => {
            let Create { kind, network, id, settings } = request.arguments()?;
            raw(&hcn.create(kind.0, network, id, &settings)?)
        }
        method::MODIFY => {
            let Modify { kind, id, settings } = request.arguments()?;
            raw(&hcn.modify(kind.0, id, &settings)?)
        }
        method::DELETE => {
            let Delete { kind, id } = request.arguments()?;
            raw(&hcn.delete(kind.0, id)?)
        }
        method::CALL_V1 => {
            let CallV1 { method, path, body } = request.arguments()?;
            raw(&hcn.call_v1(method.0, &path, &body)?)
        }
        method::VERSION => raw(&hcn.version()?),
        method::SUBSCRIBE => {
            let (reserved, sink, feed) = reserve(client, request.id)?;
            match hcn.subscribe(stream::notifications(sink)) {
                Ok(subscription) => {
                    let hcn = Arc::clone(hcn);
                    follow(client, request.id, reserved, feed, move || hcn.unsubscribe(subscription));
                    raw(&())
                }
                Err(error) => {
                    client.subscriptions.lock().remove(&request.id);
                    Err(error.into())
                }
            }
        }
        other => Err(CallError::unknown_method(other).into()),
    }
}

fn unsubscribe(client: &Client, request: &Request<'_>) -> Result<Box<RawValue>, CallError> {
    let Unsubscribe { subscription } = request.arguments()?;
    // One that is over already is no error.
    client.subscriptions.lock().remove(&subscription);
    Ok(RawValue::NULL.to_owned())
}

/// A place for a subscription, known by its request's id.
fn reserve(client: &Client, id: u64) -> Result<(oneshot::Receiver<()>, stream::StreamSink, Feed), CallError> {
    let limits = &client.shared.limits;
    let mut subscriptions = client.subscriptions.lock();
    if subscriptions.len() >= limits.subscriptions {
        let why = format!("too many subscriptions: this connection has {} already", limits.subscriptions);
        return Err(CallError::new(ErrorKind::TooMany, why));
    }
    if subscriptions.contains_key(&id) {
        return Err(CallError::invalid(format!("id {id} is that of a subscription that is not over")));
    }
    let (ends, ended) = oneshot::channel();
    subscriptions.insert(id, ends);
    let (sink, feed) = stream::queue(limits.events);
    Ok((ended, sink, feed))
}

/// Hands the subscription's events to the client until one of the two ends it.
fn follow(
    client: &Arc<Client>,
    id: u64,
    ended: oneshot::Receiver<()>,
    mut feed: Feed,
    close: impl FnOnce() + Send + 'static,
) {
    let client = Arc::clone(client);
    Handle::current().spawn(async move {
        tokio::select! {
            () = feed.forward(id, &client.out, client.shared.limits.answer_bytes) => {
                client.subscriptions.lock().remove(&id);
            }
            () = client.out.closed() => {}
            _ = ended => {}
        }
        let closed = feed.close();
        tokio::task::spawn_blocking(move || {
            closed();
            close();
        });
    });
}
