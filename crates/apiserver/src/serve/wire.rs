//! Bytes of a connection, and its violent end.
//!
//! A fault that closes a connection in the middle of an answer must not lose what was to be sent before, and must be
//! able to stop within a chunk of HTTP/1.1. So the body only says how much of what it has handed over is to be held
//! back; this stream holds it back, and when the rest is flushed the connection is dropped.
//! This module must not know HTTP or TLS.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;

/// A connection as its requests see it. Clones are the same connection.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    pub(crate) number: u64,
    end: Arc<End>,
}

#[derive(Debug)]
struct End {
    cutting: AtomicBool,
    held_back: AtomicUsize,
    killed: watch::Sender<bool>,
    /// Whoever drives the connection: with HTTP/2 that is another task than the one that writes a body.
    driver: Mutex<Option<Waker>>,
}

impl Connection {
    pub(crate) fn new(number: u64) -> Self {
        let end = End {
            cutting: AtomicBool::new(false),
            held_back: AtomicUsize::new(0),
            killed: watch::Sender::new(false),
            driver: Mutex::new(None),
        };
        Self { number, end: Arc::new(end) }
    }

    /// Ends the connection at once.
    pub(crate) fn kill(&self) {
        self.end.killed.send_replace(true);
    }

    /// Ends the connection as soon as all that is to be written is written but for the last `held_back` bytes.
    pub(crate) fn cut(&self, held_back: usize) {
        self.end.held_back.store(held_back, Ordering::SeqCst);
        self.end.cutting.store(true, Ordering::SeqCst);
        // There may be nothing to write any more; the driver flushes all the same when it is woken.
        if let Some(driver) = self.end.driver.lock().take() {
            driver.wake();
        }
    }

    /// Is done when the connection is to end.
    pub(crate) async fn killed(&self) {
        let _ = self.end.killed.subscribe().wait_for(|killed| *killed).await;
    }
}

/// A stream that can be cut.
#[derive(Debug)]
pub(crate) struct Wire<S> {
    stream: S,
    connection: Connection,
}

impl<S> Wire<S> {
    pub(crate) fn new(stream: S, connection: Connection) -> Self {
        Self { stream, connection }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        *self.connection.end.driver.lock() = Some(cx.waker().clone());
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let end = Arc::clone(&self.connection.end);
        if !end.cutting.load(Ordering::SeqCst) {
            return Pin::new(&mut self.stream).poll_write(cx, bytes);
        }
        let allowed = bytes.len().saturating_sub(end.held_back.load(Ordering::SeqCst));
        if allowed == 0 {
            // All that may go has gone; what is left is swallowed, and the flush that follows ends the connection.
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.stream).poll_write(cx, &bytes[..allowed])
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if flushed.is_ready() && self.connection.end.cutting.load(Ordering::SeqCst) {
            self.connection.kill();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
