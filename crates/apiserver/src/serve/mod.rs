//! Listens, speaks TLS and HTTP, and hands each request to [`crate::rest`].
//!
//! | module | job |
//! |---|---|
//! | [`wire`] | a connection's bytes, which can be cut |
//! | [`body`] | an answer's body, which is noted |
//!
//! This module must not know resources.

pub(crate) mod body;
pub(crate) mod wire;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::rest::{self, Peer, Server};
use wire::{Connection, Wire};

/// Listens on an address; connections wait until somebody serves.
pub(crate) fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves until `stop`; then every connection is dropped, wherever it is.
pub(crate) async fn run(
    listener: std::net::TcpListener,
    tls: Option<TlsAcceptor>,
    server: Arc<Server>,
    mut stop: watch::Receiver<bool>,
) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "nobody can connect"),
    };
    let mut connections = JoinSet::new();
    let mut number = 0;
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    number += 1;
                    connections.spawn(connection(stream, tls.clone(), Arc::clone(&server), number));
                }
                Err(error) => tracing::warn!(%error, "a connection could not be accepted"),
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    connections.shutdown().await;
}

/// Notes that a connection is open for as long as it lives.
struct Open(Arc<Server>);

impl Open {
    fn new(server: Arc<Server>) -> Self {
        server.activity.change(|ledger| {
            ledger.connections.accepted += 1;
            ledger.connections.open += 1;
        });
        Self(server)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.activity.change(|ledger| ledger.connections.open -= 1);
    }
}

async fn connection(stream: TcpStream, tls: Option<TlsAcceptor>, server: Arc<Server>, number: u64) {
    let _open = Open::new(Arc::clone(&server));
    // Watch events are small and must not wait for more of them.
    let _ = stream.set_nodelay(true);
    let connection = Connection::new(number);
    let Some(tls) = tls else {
        return http(stream, Peer { connection, certificate: None }, server).await;
    };
    match tls.accept(stream).await {
        Ok(stream) => {
            let certificate = stream
                .get_ref()
                .1
                .peer_certificates()
                .and_then(|chain| chain.first())
                .map(|der| der.to_vec());
            http(stream, Peer { connection, certificate }, server).await;
        }
        Err(error) => {
            tracing::debug!(%error, number, "a TLS handshake failed");
            server.activity.change(|ledger| ledger.connections.refused += 1);
        }
    }
}

async fn http(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: Peer, server: Arc<Server>) {
    let peer = Arc::new(peer);
    let wire = TokioIo::new(Wire::new(stream, peer.connection.clone()));
    let service = {
        let peer = Arc::clone(&peer);
        service_fn(move |request: hyper::Request<Incoming>| {
            let (server, peer) = (Arc::clone(&server), Arc::clone(&peer));
            async move { Ok::<_, Infallible>(rest::answer(server, &peer, request).await) }
        })
    };
    let builder = auto::Builder::new(TokioExecutor::new());
    let serving = builder.serve_connection(wire, service);
    tokio::select! {
        result = serving => {
            if let Err(error) = result {
                tracing::debug!(%error, number = peer.connection.number, "a connection ended");
            }
        }
        () = peer.connection.killed() => {}
    }
}
