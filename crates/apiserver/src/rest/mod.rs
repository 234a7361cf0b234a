//! From a request to its answer: who asks, what for, whether they may, and what the faults say.
//!
//! | module | job |
//! |---|---|
//! | [`call`] | what a request is about: path, query, verb |
//! | [`options`] | the options of lists and watches, and their rules |
//! | [`list`], [`watch`] | collections |
//! | [`write`], [`patch`] | changes |
//! | [`admission`], [`allocate`] | defaults and rules; cluster IPs and node ports |
//! | [`discovery`] | what the server is and has |
//! | [`reply`] | answers as HTTP |
//!
//! This module must not know sockets.

mod admission;
mod allocate;
mod call;
mod discovery;
mod list;
mod options;
mod patch;
mod reply;
mod watch;
mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, USER_AGENT};

pub(crate) use call::query_pairs;

use crate::access::{Access, Question, User};
use crate::activity::{Activity, Request};
use crate::fault::{Faults, Plan};
use crate::features::Features;
use crate::serve::body::{Body, Recipient};
use crate::serve::wire::Connection;
use crate::status::Status;
use crate::store::Store;
use crate::time::Time;
use call::{Call, Target};
use reply::Reply;

/// The longest body of a request, as upstream's.
const LONGEST_BODY: usize = 3 << 20;

/// What all requests share.
pub(crate) struct Server {
    pub(crate) store: Store,
    pub(crate) activity: Activity,
    pub(crate) faults: Faults,
    pub(crate) access: Access,
    pub(crate) features: Features,
    pub(crate) time: Arc<dyn Time>,
    pub(crate) ready: AtomicBool,
    pub(crate) bookmark_every: Duration,
    pub(crate) watch_timeout: Duration,
    pub(crate) version: crate::Version,
    pub(crate) networks: Networks,
}

pub(crate) use allocate::Networks;

/// Who is at the other end.
pub(crate) struct Peer {
    pub(crate) connection: Connection,
    pub(crate) certificate: Option<Vec<u8>>,
}

/// A request with everything that is needed to answer it.
pub(crate) struct Asked {
    pub(crate) call: Call,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) user: User,
    pub(crate) plan: Plan,
    pub(crate) to: Recipient,
}

/// Answers a request. Never fails: what goes wrong is an answer too.
pub(crate) async fn answer(
    server: Arc<Server>,
    peer: &Peer,
    request: hyper::Request<Incoming>,
) -> hyper::Response<Body> {
    let (parts, incoming) = request.into_parts();
    let call = Call::of(&parts.method, &parts.uri);
    let text = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let user = server.access.authenticate(peer.certificate.as_deref(), text(AUTHORIZATION));
    let http2 = parts.version == hyper::Version::HTTP_2;
    let record = Request {
        connection: peer.connection.number,
        http2,
        method: parts.method.to_string(),
        path: call.path.clone(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        user: user.as_ref().map(|user| user.name.clone()).unwrap_or_default(),
        user_agent: text(USER_AGENT).unwrap_or_default().to_owned(),
        verb: call.verb.clone(),
        resource: call.resource_name(),
        namespace: call.namespace.clone(),
        name: call.name.clone(),
        ..Request::default()
    };
    let plan = server.faults.decide(&record);
    let id = server.activity.begin(record);
    let to = Recipient {
        connection: peer.connection.clone(),
        activity: server.activity.clone(),
        request: id,
        http2,
    };
    // Whatever happens from here on, the request has ended when this is dropped without a body that takes over.
    let ending = Ending { to: &to, armed: true };

    if let Some(gate) = &plan.hang {
        gate.passed().await;
    }
    if plan.close_before {
        peer.connection.kill();
        return std::future::pending().await;
    }
    let (close_instead, pumped) = (plan.close_instead, plan.touches_body().then(|| plan.clone()));
    let reply = match (plan.answer.clone(), user) {
        (Some(status), _) => Err(status),
        (None, None) => Err(Status::of_code(401)),
        (None, Some(user)) => match Limited::new(incoming, LONGEST_BODY).collect().await {
            Err(_) => Err(Status::of_code(413)),
            Ok(body) => {
                let asked =
                    Asked { call, headers: parts.headers, body: body.to_bytes(), user, plan, to: to.clone() };
                dispatch(&server, asked).await
            }
        },
    };
    if close_instead {
        peer.connection.kill();
        return std::future::pending().await;
    }
    let reply = reply.unwrap_or_else(|status| Reply::failure(&status));
    server.activity.update(id, |request| request.code = Some(reply.code));
    ending.taken_over();
    reply.into_response(&server, &to, pumped)
}

struct Ending<'a> {
    to: &'a Recipient,
    armed: bool,
}

impl Ending<'_> {
    fn taken_over(mut self) {
        self.armed = false;
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.to.activity.update(self.to.request, |request| request.ended = true);
        }
    }
}

async fn dispatch(server: &Arc<Server>, asked: Asked) -> Result<Reply, Status> {
    authorise(server, &asked)?;
    let Target::Resource(kind) = asked.call.target else {
        return match asked.call.target {
            Target::Path => discovery::answer(server, &asked),
            _ => Err(Status::of_code(404)),
        };
    };
    if !server.features.serves(kind) {
        return Err(Status::of_code(404));
    }
    acceptable(&asked.headers)?;
    let subresource = asked.call.subresource.as_str();
    if !(subresource.is_empty() || subresource == "status" && kind.status) {
        return Err(Status::of_code(404));
    }
    match asked.call.verb.as_str() {
        "list" => list::answer(server, kind, &asked).await,
        "watch" => watch::answer(server, kind, asked),
        "get" => list::get(server, kind, &asked).await,
        "create" => write::create(server, kind, &asked),
        "update" => write::update(server, kind, &asked),
        "patch" => patch::answer(server, kind, &asked),
        "delete" => write::delete(server, kind, &asked),
        _ => Err(Status::of_code(405)),
    }
}

fn authorise(server: &Server, asked: &Asked) -> Result<(), Status> {
    let call = &asked.call;
    let resource = call.resource_name();
    let is_resource = !resource.is_empty();
    // As upstream's `system:public-info-viewer`, for everybody who is let in.
    if !is_resource
        && matches!(call.path.as_str(), "/livez" | "/readyz" | "/healthz" | "/version" | "/version/")
    {
        return Ok(());
    }
    let full = if call.subresource.is_empty() {
        resource.clone()
    } else {
        format!("{resource}/{}", call.subresource)
    };
    let question = Question {
        verb: &call.verb,
        resource: if is_resource { &full } else { &call.path },
        group: &call.group,
        namespace: &call.namespace,
    };
    if server.access.allows(&asked.user, &question) {
        return Ok(());
    }
    let user = &asked.user.name;
    if !is_resource {
        let message = format!("forbidden: User \"{user}\" cannot {} path \"{}\"", call.verb, call.path);
        return Err(Status::new(403, "Forbidden", message));
    }
    let place = if call.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace \"{}\"", call.namespace)
    };
    let qualified =
        if call.group.is_empty() { resource.clone() } else { format!("{resource}.{}", call.group) };
    let object = if call.name.is_empty() { qualified } else { format!("{qualified} \"{}\"", call.name) };
    let message = format!(
        "{object} is forbidden: User \"{user}\" cannot {} resource \"{full}\" in API group \"{}\" {place}",
        call.verb, call.group
    );
    let mut status = Status::new(403, "Forbidden", message);
    status.details.kind = resource;
    status.details.group.clone_from(&call.group);
    status.details.name.clone_from(&call.name);
    Err(status)
}

/// Whether JSON will do for the client. A client that asks for protobuf gets JSON too, and is told so by the content type.
fn acceptable(headers: &HeaderMap) -> Result<(), Status> {
    let mut clauses = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .peekable();
    if clauses.peek().is_none() {
        return Ok(());
    }
    let fits = |clause: &str| {
        let mut parts = clause.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        // `as=Table` and the like ask for another object.
        matches!(
            kind,
            "" | "*/*" | "application/*" | "application/json" | "application/vnd.kubernetes.protobuf"
        ) && !parts.any(|parameter| parameter.starts_with("as="))
    };
    if clauses.any(fits) { Ok(()) } else { Err(Status::of_code(406)) }
}

/// The media type of a request's body, without parameters; JSON if it says nothing.
pub(crate) fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("application/json");
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

impl Server {
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::SeqCst)
    }
}
