//! Events: a bounded queue for each subscription, between a source that must not wait and a client that may be slow.
//!
//! A service's stream loses events when the queue is full, and says how many. A subscription to HNS ends instead: who
//! follows notifications must hear all of them or read everything anew.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hcn::NotificationKind;
use hcn::api::NotificationSink;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::mpsc;

use super::connection::Out;
use crate::call::{CallError, ErrorKind};
use crate::frame;
use crate::protocol::{ServerMessage, WireError, WireNotification};
use crate::service::Gone;

type Watcher = Box<dyn FnOnce() + Send>;

/// What a source and the subscription's task both hold.
struct Common {
    /// Lost since the last event that went out.
    dropped: AtomicU64,
    /// Lost in all.
    lost: AtomicU64,
    /// Why the stream ends.
    error: Mutex<Option<CallError>>,
    /// Whether the stream ends when an event is lost.
    is_whole: AtomicBool,
    /// What to do when the stream is over; `None`: it is over.
    watchers: Mutex<Option<Vec<Watcher>>>,
}

/// The service's end of a stream. The stream is over when the sink and all its clones are dropped.
#[derive(Clone)]
pub struct StreamSink {
    queue: mpsc::Sender<Box<RawValue>>,
    common: Arc<Common>,
}

impl fmt::Debug for StreamSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamSink")
            .field("closed", &self.is_closed())
            .field("lost", &self.lost())
            .finish_non_exhaustive()
    }
}

impl StreamSink {
    /// Sends an event, never waiting: while the client is slow and the queue full, the event is lost and counted.
    pub fn send(&self, event: &Value) -> Result<(), Gone> {
        self.send_as(event)
    }

    /// Sends anything that is written as JSON.
    pub fn send_as<T: Serialize + ?Sized>(&self, event: &T) -> Result<(), Gone> {
        if self.queue.is_closed() {
            return Err(Gone);
        }
        if self.queue.capacity() == 0 {
            // Spares the writing of what is lost anyway.
            self.lose();
            return Ok(());
        }
        let Ok(event) = to_raw_value(event) else {
            self.lose();
            return Ok(());
        };
        match self.queue.try_send(event) {
            Ok(()) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.lose();
                Ok(())
            }
            Err(mpsc::error::TrySendError::Closed(_)) => Err(Gone),
        }
    }

    fn lose(&self) {
        self.common.dropped.fetch_add(1, Ordering::Relaxed);
        self.common.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// How many events were lost so far.
    pub fn lost(&self) -> u64 {
        self.common.lost.load(Ordering::Relaxed)
    }

    /// Whether the client is gone or has ended the stream.
    pub fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// Has something done when the client is gone or has ended the stream, or the stream is over; at once when it is
    /// already. For sources that are seldom heard and must be turned off.
    pub fn on_close(&self, then: impl FnOnce() + Send + 'static) {
        let mut watchers = self.common.watchers.lock();
        if let Some(all) = &mut *watchers {
            all.push(Box::new(then));
        } else {
            drop(watchers);
            then();
        }
    }

    /// Says why the stream ends; it ends when the sink and its clones are dropped.
    pub fn fail(&self, error: CallError) {
        *self.common.error.lock() = Some(error);
    }
}

/// The server's end of a subscription.
pub(super) struct Feed {
    queue: mpsc::Receiver<Box<RawValue>>,
    common: Arc<Common>,
}

/// A queue of so many events.
pub(super) fn queue(events: usize) -> (StreamSink, Feed) {
    let (sender, queue) = mpsc::channel(events.max(1));
    let common = Arc::new(Common {
        dropped: AtomicU64::new(0),
        lost: AtomicU64::new(0),
        error: Mutex::new(None),
        is_whole: AtomicBool::new(false),
        watchers: Mutex::new(Some(Vec::new())),
    });
    (StreamSink { queue: sender, common: Arc::clone(&common) }, Feed { queue, common })
}

/// A sink for HNS that feeds a subscription: it never waits, and ends the subscription when an event would be lost.
pub(super) fn notifications(sink: StreamSink) -> NotificationSink {
    sink.common.is_whole.store(true, Ordering::Relaxed);
    let sink = Mutex::new(Some(sink));
    Arc::new(move |notification| {
        let mut place = sink.lock();
        let Some(sink) = &*place else { return };
        let gone = sink.send_as(&WireNotification::from(notification)).is_err();
        if sink.lost() > 0 {
            sink.fail(lagged());
        }
        // After a disconnect every subscription is void.
        if gone || sink.lost() > 0 || notification.kind == NotificationKind::ServiceDisconnect {
            *place = None;
        }
    })
}

fn lagged() -> CallError {
    let why = "a notification was lost, because the client was slow to read or it was too long; subscribe again and \
               read everything";
    CallError::new(ErrorKind::Lagged, why)
}

impl Feed {
    /// Hands events to the connection's writer until the stream is over or the writer is gone.
    pub(super) async fn forward(&mut self, subscription: u64, out: &mpsc::Sender<Out>, limit: usize) {
        let base = ServerMessage { subscription: Some(subscription), ..ServerMessage::default() };
        while let Some(event) = self.queue.recv().await {
            let dropped = self.common.dropped.swap(0, Ordering::Relaxed);
            let message = ServerMessage { event: Some(event), dropped, ..base.clone() };
            match frame::encode(&message, limit) {
                Ok(bytes) => {
                    if out.send(Out::Frame(bytes)).await.is_err() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(subscription, %error, "an event was lost");
                    self.common.dropped.fetch_add(dropped + 1, Ordering::Relaxed);
                    self.common.lost.fetch_add(1, Ordering::Relaxed);
                    if self.common.is_whole.load(Ordering::Relaxed) {
                        *self.common.error.lock() = Some(lagged());
                        break;
                    }
                }
            }
        }
        let dropped = self.common.dropped.swap(0, Ordering::Relaxed);
        let error = self.common.error.lock().take().map(WireError::from);
        let message = ServerMessage { end: true, dropped, error, ..base };
        if let Ok(bytes) = frame::encode(&message, limit) {
            // The writer may be gone, and its client with it.
            let _ = out.send(Out::Frame(bytes)).await;
        }
    }

    /// Closes the stream; what its source wants to be done then is handed back, because it may block.
    pub(super) fn close(self) -> impl FnOnce() + Send {
        let Self { queue, common } = self;
        drop(queue);
        let watchers = common.watchers.lock().take();
        move || watchers.into_iter().flatten().for_each(|then| then())
    }
}
