//! HTTP/1.1: who answers whom, for people and for programs.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Who;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Who was asked by whom for what.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Account<'a> {
    server: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
    local: SocketAddr,
    client: SocketAddr,
    method: &'a str,
    path: &'a str,
    /// By name; a header may come several times.
    headers: BTreeMap<&'a str, Vec<String>>,
}

/// Answers requests until the client ends the connection.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    who: Who,
    local: SocketAddr,
    client: SocketAddr,
) -> io::Result<()> {
    let service = service_fn(|request| {
        let response = respond(request, &who, local, client);
        async { Ok::<_, Infallible>(response) }
    });
    hyper::server::conn::http1::Builder::new()
        // A client may shut its half down behind a request and still wait for the answer.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service)
        .await
        .map_err(io::Error::other)
}

fn respond(
    request: Request<Incoming>,
    who: &Who,
    local: SocketAddr,
    client: SocketAddr,
) -> Response<BoxBody<Bytes, hyper::Error>> {
    if matches!(*request.method(), Method::POST | Method::PUT) {
        let kind = request.headers().get(CONTENT_TYPE).cloned();
        let kind = kind.unwrap_or(HeaderValue::from_static("application/octet-stream"));
        return response(kind, request.into_body().boxed());
    }
    if request.uri().path() == "/healthz" {
        return response(TEXT, whole("ok\n".to_owned()));
    }
    let mut headers: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, value) in request.headers() {
        headers
            .entry(name.as_str())
            .or_default()
            .push(String::from_utf8_lossy(value.as_bytes()).into_owned());
    }
    let account = Account {
        server: &who.name,
        node: who.node.as_deref(),
        local,
        client,
        method: request.method().as_str(),
        path: request.uri().path_and_query().map_or("", |path| path.as_str()),
        headers,
    };
    if wants_json(&request)
        && let Ok(mut text) = serde_json::to_string_pretty(&account)
    {
        text.push('\n');
        return response(JSON, whole(text));
    }
    response(TEXT, whole(account.text()))
}

fn wants_json(request: &Request<Incoming>) -> bool {
    let asked = request.uri().query().is_some_and(|query| query.split('&').any(|part| part == "format=json"));
    let accepts = request.headers().get_all(ACCEPT).iter();
    asked || accepts.filter_map(|value| value.to_str().ok()).any(|value| value.contains("application/json"))
}

impl Account<'_> {
    fn text(&self) -> String {
        let mut text = format!("server: {}\n", self.server);
        if let Some(node) = self.node {
            let _ = writeln!(text, "node: {node}");
        }
        let Self { local, client, method, path, .. } = self;
        let _ = write!(text, "local: {local}\nclient: {client}\nrequest: {method} {path}\n");
        for (name, values) in &self.headers {
            for value in values {
                let _ = writeln!(text, "header: {name}: {value}");
            }
        }
        text
    }
}

fn whole(text: String) -> BoxBody<Bytes, hyper::Error> {
    Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed()
}

fn response(kind: HeaderValue, body: BoxBody<Bytes, hyper::Error>) -> Response<BoxBody<Bytes, hyper::Error>> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
