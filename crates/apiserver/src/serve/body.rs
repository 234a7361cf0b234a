//! The body of an answer: pieces that are there, or that come through a channel.
//!
//! This module must not know what the bytes mean.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::mpsc;

use super::wire::Connection;
use crate::activity::Activity;

/// What comes through a channel.
#[derive(Debug)]
pub(crate) enum Piece {
    /// Bytes, and how many watch events end with them.
    Data(Bytes, u64),
    /// Bytes of which the last so many are held back, and then the end of the connection.
    Cut(Bytes, usize),
}

#[derive(Debug)]
enum Source {
    Ready(VecDeque<Bytes>),
    Channel(mpsc::Receiver<Piece>),
    /// The connection is about to be cut: after the bytes there is nothing, not even an end.
    Cutting(usize),
    Cut,
}

/// Whom a body is for.
#[derive(Debug, Clone)]
pub(crate) struct Recipient {
    pub(crate) connection: Connection,
    pub(crate) activity: Activity,
    pub(crate) request: u64,
    pub(crate) http2: bool,
}

/// A body that notes what is taken from it.
#[derive(Debug)]
pub(crate) struct Body {
    source: Source,
    connection: Connection,
    activity: Activity,
    request: u64,
    http2: bool,
}

impl Body {
    pub(crate) fn ready(pieces: VecDeque<Bytes>, to: &Recipient) -> Self {
        Self::new(Source::Ready(pieces), to)
    }

    pub(crate) fn channel(pieces: mpsc::Receiver<Piece>, to: &Recipient) -> Self {
        Self::new(Source::Channel(pieces), to)
    }

    fn new(source: Source, to: &Recipient) -> Self {
        Self {
            source,
            connection: to.connection.clone(),
            activity: to.activity.clone(),
            request: to.request,
            http2: to.http2,
        }
    }

    fn took(&self, bytes: usize, events: u64) {
        self.activity.update(self.request, |request| {
            request.bytes += bytes as u64;
            request.events += events;
        });
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.activity.update(self.request, |request| request.ended = true);
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let (bytes, events, held_back) = match &mut self.source {
            Source::Ready(pieces) => match pieces.pop_front() {
                Some(bytes) => (bytes, 0, None),
                None => return Poll::Ready(None),
            },
            Source::Channel(pieces) => match pieces.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Piece::Data(bytes, events))) => (bytes, events, None),
                Poll::Ready(Some(Piece::Cut(bytes, held_back))) => (bytes, 0, Some(held_back)),
            },
            Source::Cutting(held_back) => {
                let held_back = *held_back;
                self.source = Source::Cut;
                // A chunk ends with two bytes more.
                self.connection.cut(if held_back == 0 { 0 } else { held_back + 2 });
                // Never woken: the flush that follows a body that has nothing ends the connection.
                return Poll::Pending;
            }
            Source::Cut => return Poll::Pending,
        };
        let mut bytes = bytes;
        let mut sent = bytes.len();
        if let Some(held_back) = held_back {
            sent -= held_back.min(sent);
            // Frames of HTTP/2 may end anywhere; a chunk of HTTP/1.1 says its length, and is to be broken off within.
            let on_the_wire = if self.http2 { 0 } else { held_back };
            bytes.truncate(if self.http2 { sent } else { bytes.len() });
            self.source = Source::Cutting(on_the_wire);
        }
        self.took(sent, events);
        if bytes.is_empty() {
            // A frame without bytes would be the last chunk; there is none to send, so on to what follows.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Ready(pieces) => {
                SizeHint::with_exact(pieces.iter().map(|piece| piece.len() as u64).sum())
            }
            _ => SizeHint::default(),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.source, Source::Ready(pieces) if pieces.is_empty())
    }
}
