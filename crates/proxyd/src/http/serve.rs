//! Connections of one socket, with limits against clients that are slow or many. Knows neither paths nor the proxy.

use std::convert::Infallible;
use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};

use super::exchange::{Reply, Request};
use crate::listen::plain;

/// Answers requests of one socket.
pub(crate) type Handler = Arc<dyn Fn(&Request) -> Reply + Send + Sync>;

/// Limits for clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How long the head of a request may take, and a connection without one.
    pub(crate) head: Duration,
    /// How long a connection may last.
    pub(crate) connection: Duration,
    /// How many there may be at once.
    pub(crate) connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { head: Duration::from_secs(5), connection: Duration::from_mins(2), connections: 128 }
    }
}

/// The most of a request's head that is read, in bytes.
const HEAD: usize = 16 * 1024;

/// The pause after a failure to take a connection, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves until `stop` says so; then connections end with the answer that is under way.
pub(crate) async fn serve(
    listener: TcpListener,
    handler: Handler,
    limits: Limits,
    mut stop: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(limits.connections));
    loop {
        let place = tokio::select! {
            place = Arc::clone(&places).acquire_owned() => place,
            () = told(&mut stop) => return Ok(()),
        };
        let taken = tokio::select! {
            taken = listener.accept() => taken,
            () = told(&mut stop) => return Ok(()),
        };
        match taken {
            Ok((stream, peer)) => {
                let connection = connection(stream, peer, Arc::clone(&handler), limits, stop.clone());
                tokio::spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::debug!(%error, "A connection cannot be taken");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Waits until it is time to end. A sender that is gone means the same.
pub(crate) async fn told(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    handler: Handler,
    limits: Limits,
    mut stop: watch::Receiver<bool>,
) {
    let service = service_fn(move |request| {
        let reply = answer(&request, peer, &handler);
        async move { Ok::<_, Infallible>(reply) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(HEAD)
        .half_close(false)
        .serve_connection(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => Some(ended),
        () = told(&mut stop) => None,
        () = tokio::time::sleep(limits.connection) => None,
    };
    let ended = if let Some(ended) = ended {
        ended
    } else {
        serving.as_mut().graceful_shutdown();
        let Ok(ended) = tokio::time::timeout(limits.head, serving).await else { return };
        ended
    };
    if let Err(error) = ended {
        tracing::trace!(%error, %peer, "A connection ended early");
    }
}

fn answer(request: &hyper::Request<Incoming>, peer: SocketAddr, handler: &Handler) -> Response<Full<Bytes>> {
    let method = request.method();
    if method != Method::GET && method != Method::HEAD {
        let mut reply = response(Reply::text(405, "only GET and HEAD are answered\n"));
        reply.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return reply;
    }
    let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
    let request = Request {
        path: request.uri().path().to_owned(),
        query: request.uri().query().unwrap_or_default().to_owned(),
        accept: accept.map(str::to_owned),
        peer: plain(peer.ip()),
    };
    response(handler(&request))
}

fn response(reply: Reply) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(reply.body)));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(reply.content_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some((name, value)) = reply.header
        && let Ok(value) = HeaderValue::from_str(&value)
    {
        headers.insert(name, value);
    }
    response
}

/// Runs until it is done or it is time to end; whether it was done.
pub(crate) async fn until<F: Future<Output = ()>>(work: F, stop: &mut watch::Receiver<bool>) -> bool {
    tokio::select! {
        () = work => true,
        () = told(stop) => false,
    }
}

#[cfg(test)]
mod tests;
