//! Who is told of what happens in HNS, and how telling ends.
//!
//! Receivers are found by numbers that are never used twice, in one table for the process, because the libraries keep what was given to
//! them for as long as they like. The table is locked only to look, so a receiver may subscribe and unsubscribe. Ending a registration
//! may wait for callbacks that are under way: from within one it is done by a thread of its own.
//!
//! It must not know how a registration is made.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hcn::api::{NotificationSink, SubscriptionId};
use hcn::{Guid, Notification, NotificationKind, Result};
use parking_lot::Mutex;

use crate::answer;
use crate::ffi::{Exports, Registration};

/// Bits of a notification's number that are flags.
const FLAGS: u32 = 0xF000_0000;

static RECEIVERS: Mutex<BTreeMap<usize, Arc<Receiver>>> = Mutex::new(BTreeMap::new());
static LAST: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether this thread is inside a receiver.
    static TELLING: Cell<bool> = const { Cell::new(false) };
}

struct Receiver {
    sink: NotificationSink,
    exports: Arc<Exports>,
    registration: Mutex<Stage>,
}

/// How far a registration is.
enum Stage {
    /// It is being made; notifications may come already.
    Beginning,
    /// It stands.
    Stands(Registration),
    /// It is over, or will be as soon as it is made.
    Over,
}

/// Begins telling a sink.
pub(crate) fn begin(exports: &Arc<Exports>, sink: NotificationSink) -> Result<SubscriptionId> {
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    let receiver =
        Arc::new(Receiver { sink, exports: Arc::clone(exports), registration: Mutex::new(Stage::Beginning) });
    RECEIVERS.lock().insert(number, Arc::clone(&receiver));
    match exports.register(number) {
        Ok(registration) => receiver.stands(registration),
        Err(error) => {
            RECEIVERS.lock().remove(&number);
            return Err(error);
        }
    }
    Ok(SubscriptionId(number as u64))
}

/// Ends one subscription of these exports; one that is unknown or over is none.
pub(crate) fn end(exports: &Arc<Exports>, subscription: SubscriptionId) {
    let Ok(number) = usize::try_from(subscription.0) else { return };
    let receiver = {
        let mut receivers = RECEIVERS.lock();
        let is_own = |receiver: &Arc<Receiver>| Arc::ptr_eq(&receiver.exports, exports);
        if receivers.get(&number).is_some_and(is_own) { receivers.remove(&number) } else { None }
    };
    if let Some(receiver) = receiver {
        receiver.over();
    }
}

/// Ends all subscriptions of these exports.
pub(crate) fn end_all(exports: &Arc<Exports>) {
    let own: Vec<Arc<Receiver>> = RECEIVERS
        .lock()
        .extract_if(.., |_, receiver| Arc::ptr_eq(&receiver.exports, exports))
        .map(|(_, receiver)| receiver)
        .collect();
    for receiver in own {
        receiver.over();
    }
}

/// Tells the receiver with this number, if there still is one.
pub(crate) fn deliver(number: usize, kind: u32, data: String) {
    let Some(receiver) = RECEIVERS.lock().get(&number).map(Arc::clone) else { return };
    let Some(kind) = NotificationKind::from_number(kind & !FLAGS) else {
        tracing::debug!(kind = format_args!("{kind:#010x}"), data, "Notification of an unknown kind");
        return;
    };
    let notification = Notification { kind, id: id_in(&data), data };
    let _telling = Telling::begin();
    // Void before its receiver hears of it, so that the receiver may subscribe anew; and void also when the receiver panics.
    let is_void = kind == NotificationKind::ServiceDisconnect;
    if is_void && RECEIVERS.lock().remove(&number).is_some() {
        receiver.over();
    }
    (receiver.sink)(&notification);
}

/// The object that a notification is about.
fn id_in(data: &str) -> Option<Guid> {
    answer::id_of("", data).ok()
}

impl Receiver {
    /// The registration is made.
    fn stands(&self, registration: Registration) {
        {
            let mut stage = self.registration.lock();
            if matches!(*stage, Stage::Beginning) {
                *stage = Stage::Stands(registration);
                return;
            }
        }
        self.unregister(registration);
    }

    /// The registration is to end.
    fn over(&self) {
        let before = std::mem::replace(&mut *self.registration.lock(), Stage::Over);
        if let Stage::Stands(registration) = before {
            self.unregister(registration);
        }
    }

    fn unregister(&self, registration: Registration) {
        let exports = Arc::clone(&self.exports);
        let act = move || {
            if let Err(error) = exports.unregister(registration) {
                // After a disconnect there is nobody left to take it.
                tracing::debug!(%error, "A registration for HNS's notifications did not end as it should");
            }
        };
        if !TELLING.get() {
            act();
        } else if let Err(error) = std::thread::Builder::new().name("hcn-unregister".to_owned()).spawn(act) {
            // Notifications still come and find nobody.
            tracing::warn!(%error, "No thread to end a registration for HNS's notifications with");
        }
    }
}

/// Marks this thread as inside a receiver, also when that panics.
struct Telling {
    before: bool,
}

impl Telling {
    fn begin() -> Self {
        Self { before: TELLING.replace(true) }
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        TELLING.set(self.before);
    }
}
