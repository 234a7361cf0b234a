//! The client's end of a service's stream: a bounded queue between the reader's thread, which must not wait, and
//! whoever takes the events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Remote;
use super::link::Link;
use crate::call::CallError;

/// An event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamItem {
    /// What happened.
    pub value: Value,
    /// How many events were lost before this one, because this client or its connection was slow.
    pub dropped: u64,
}

#[derive(Default)]
struct Common {
    dropped: AtomicU64,
    error: Mutex<Option<CallError>>,
}

/// The reader's end.
pub(super) struct EventSender {
    queue: Mutex<Option<SyncSender<StreamItem>>>,
    common: Arc<Common>,
}

/// The taker's end.
pub(super) struct EventReceiver {
    queue: Receiver<StreamItem>,
    common: Arc<Common>,
}

pub(super) fn queue(events: usize) -> (EventSender, EventReceiver) {
    let (sender, queue) = sync_channel(events.max(1));
    let common = Arc::<Common>::default();
    (
        EventSender { queue: Mutex::new(Some(sender)), common: Arc::clone(&common) },
        EventReceiver { queue, common },
    )
}

impl EventSender {
    pub(super) fn send(&self, event: &RawValue, dropped: u64) {
        let queue = self.queue.lock();
        let Some(queue) = &*queue else { return };
        let Ok(value) = serde_json::from_str(event.get()) else {
            return self.lose(dropped.saturating_add(1));
        };
        let dropped = dropped.saturating_add(self.common.dropped.swap(0, Ordering::Relaxed));
        if let Err(TrySendError::Full(item)) = queue.try_send(StreamItem { value, dropped }) {
            self.lose(item.dropped.saturating_add(1));
        }
    }

    pub(super) fn lose(&self, events: u64) {
        self.common.dropped.fetch_add(events, Ordering::Relaxed);
    }

    /// The stream is over; events that wait can still be taken.
    pub(super) fn end(&self, error: Option<CallError>) {
        *self.common.error.lock() = error;
        *self.queue.lock() = None;
    }
}

/// A stream of the service's own, an iterator that waits. It ends with `None`, or with an error first when the server
/// gives one or the connection is lost. Dropping it ends the stream.
pub struct RemoteStream {
    receiver: EventReceiver,
    remote: Remote,
    link: Arc<Link>,
    id: u64,
}

impl std::fmt::Debug for RemoteStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteStream").field("of", &self.remote).field("id", &self.id).finish_non_exhaustive()
    }
}

impl RemoteStream {
    pub(super) fn new(receiver: EventReceiver, remote: Remote, link: Arc<Link>, id: u64) -> Self {
        Self { receiver, remote, link, id }
    }

    /// The next event within this time; `Ok(None)` when there was none. At the end it is an error that says so.
    pub fn next_within(&mut self, time: Duration) -> Result<Option<StreamItem>, CallError> {
        match self.receiver.queue.recv_timeout(time) {
            Ok(item) => Ok(Some(item)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                let error = self.receiver.common.error.lock().take();
                Err(error.unwrap_or_else(|| CallError::failed("the stream is over")))
            }
        }
    }

    /// How many events were lost since the last that was taken; at the end, the last ones.
    pub fn dropped(&self) -> u64 {
        self.receiver.common.dropped.load(Ordering::Relaxed)
    }
}

impl Iterator for RemoteStream {
    type Item = Result<StreamItem, CallError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.receiver.queue.recv() {
            Ok(item) => Some(Ok(item)),
            Err(_) => self.receiver.common.error.lock().take().map(Err),
        }
    }
}

impl Drop for RemoteStream {
    fn drop(&mut self) {
        self.remote.end(&self.link, self.id);
    }
}
