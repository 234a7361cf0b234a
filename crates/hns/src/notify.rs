//! Subscribers and how they are told.
//!
//! Notifications are queued while the state is locked, so their order is that of the changes, and delivered when it
//! is not. One thread delivers at a time; another's are taken along, so a subscriber may even call HNS.

use std::collections::VecDeque;

use hcn::Notification;
use hcn::api::{NotificationKind, NotificationSink, SubscriptionId};
use parking_lot::Mutex;

#[derive(Default)]
pub(crate) struct Subscribers {
    sinks: Mutex<Sinks>,
    queue: Mutex<VecDeque<Notification>>,
    delivering: Mutex<()>,
}

#[derive(Default)]
struct Sinks {
    last: u64,
    sinks: Vec<(u64, NotificationSink)>,
}

impl Subscribers {
    pub(crate) fn add(&self, sink: NotificationSink) -> SubscriptionId {
        let mut sinks = self.sinks.lock();
        sinks.last += 1;
        let id = sinks.last;
        sinks.sinks.push((id, sink));
        SubscriptionId(id)
    }

    pub(crate) fn remove(&self, id: SubscriptionId) {
        self.sinks.lock().sinks.retain(|(own, _)| *own != id.0);
    }

    /// Queues notifications; called with the state locked.
    pub(crate) fn queue(&self, notes: Vec<Notification>) {
        if !notes.is_empty() {
            self.queue.lock().extend(notes);
        }
    }

    /// Delivers what is queued; called with nothing locked.
    pub(crate) fn deliver(&self) {
        while !self.queue.lock().is_empty() {
            let Some(turn) = self.delivering.try_lock() else {
                // Whoever delivers looks at the queue again after letting go.
                return;
            };
            loop {
                let Some(note) = self.queue.lock().pop_front() else { break };
                let sinks: Vec<NotificationSink> =
                    self.sinks.lock().sinks.iter().map(|(_, sink)| NotificationSink::clone(sink)).collect();
                for sink in sinks {
                    sink(&note);
                }
                if note.kind == NotificationKind::ServiceDisconnect {
                    // Every subscription is void now.
                    self.sinks.lock().sinks.clear();
                }
            }
            drop(turn);
        }
    }
}
