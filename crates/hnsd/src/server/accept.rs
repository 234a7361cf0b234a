//! Who is let in: a place among the newcomers first, a client's place once the hello is good. Who gets neither is told
//! why.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::listen::Socket;
use super::{Shared, connection};
use crate::call::{CallError, ErrorKind};
use crate::frame;
use crate::protocol::{ServerMessage, WireError};
use crate::token::Token;

/// A pause after an accept that failed: most often there are no descriptors left, and that does not change at once.
const PAUSE: Duration = Duration::from_millis(100);

/// How long a client that is sent away has to read why.
const FAREWELL: Duration = Duration::from_secs(1);

pub(super) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// A connection of either kind.
pub(super) trait Link: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Link for T {}

impl Listener {
    pub(super) fn new(socket: Socket) -> io::Result<Self> {
        Ok(match socket {
            Socket::Unix(listener) => {
                listener.set_nonblocking(true)?;
                Self::Unix(UnixListener::from_std(listener)?)
            }
            Socket::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                Self::Tcp(TcpListener::from_std(listener)?)
            }
        })
    }

    async fn accept(&self) -> io::Result<Box<dyn Link>> {
        Ok(match self {
            Self::Unix(listener) => Box::new(listener.accept().await?.0),
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Small requests wait for their answers: nothing is won by collecting bytes.
                let _ = stream.set_nodelay(true);
                Box::new(stream)
            }
        })
    }
}

/// Serves one socket until the server ends, and returns when its connections have ended.
pub(super) async fn accept(listener: Listener, token: Option<Token>, shared: Arc<Shared>) {
    let newcomers = Arc::new(Semaphore::new(shared.limits.newcomers));
    let farewells = Arc::new(Semaphore::new(shared.limits.newcomers));
    let token = token.map(Arc::new);
    let mut phase = shared.phase.clone();
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            _ = connection::ends(&mut phase) => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let link = match accepted {
            Ok(link) => link,
            Err(error) => {
                tracing::warn!(%error, "a client could not be let in");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        if let Ok(place) = Arc::clone(&newcomers).try_acquire_owned() {
            connections.spawn(connection::serve(link, token.clone(), Arc::clone(&shared), place));
        } else if let Ok(place) = Arc::clone(&farewells).try_acquire_owned() {
            let bound = shared.limits.newcomers;
            connections.spawn(async move {
                let why = format!("{bound} clients that have not said hello are connected already");
                turn_away(link, CallError::new(ErrorKind::TooMany, why)).await;
                drop(place);
            });
        }
        // Nobody is left to tell it to otherwise: the connection is closed.
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Says why and closes. What the client has sent is read first, or the close would overtake the answer.
pub(super) async fn turn_away(mut link: impl Link, why: CallError) {
    tracing::debug!(%why, "a client was turned away");
    let message = ServerMessage { error: Some(WireError::from(why)), ..ServerMessage::default() };
    let Ok(bytes) = frame::encode(&message, usize::MAX) else { return };
    // A client that does not listen is closed all the same.
    let _ = tokio::time::timeout(FAREWELL, async {
        link.write_all(&bytes).await?;
        link.shutdown().await?;
        let mut rest = [0; 4096];
        while link.read(&mut rest).await? > 0 {}
        io::Result::Ok(())
    })
    .await;
}
