//! Who is told what happens: registrations, and the thread that calls them.
//!
//! All registrations share one subscription at the server, made by the first and ended with the last. What comes is queued by the
//! connection's reader and handed out by a thread of its own, so that a callback that takes its time, or calls the API,
//! holds up no call. When the connection is lost, or the queue is too long, each registration hears of it once
//! (`ServiceDisconnect`) and is void then; a program registers again.

mod registration;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hcn::api::SubscriptionId;
use hcn::{Error, Guid, HResult, Hcn as _, Kind, Notification, NotificationKind, Query, Result};
use hcn_abi::{HRESULT, Handle, NotificationCallback};
use parking_lot::{Condvar, Mutex};

use crate::arguments::bad_pointer;
use crate::client::{self, Shared};
use crate::dll::Dll;
use crate::edge::{Nothing, Opened, plain_call};
use crate::handles::Handles;
use crate::memory;
pub(crate) use registration::Target;
use registration::{Called, Registration};

/// How many notifications may wait for slow callbacks.
const LONGEST_QUEUE: usize = 65_536;

/// The registrations of a library. Its thread ends with it.
#[derive(Default)]
pub(crate) struct Callbacks {
    handles: Handles<Arc<Registration>>,
    hub: Arc<Hub>,
}

impl Drop for Callbacks {
    fn drop(&mut self) {
        self.hub.queue.lock().is_closed = true;
        self.hub.arrived.notify_all();
    }
}

#[derive(Default)]
struct Hub {
    state: Mutex<State>,
    /// Held by who subscribes, so that there is one subscription. Nobody else waits for it.
    subscribing: Mutex<()>,
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    registrations: Vec<Arc<Registration>>,
    subscription: Option<Subscription>,
    /// The number of the last subscription that was begun, and of the last that is known to be over.
    begun: u64,
    over: u64,
}

struct Subscription {
    id: SubscriptionId,
    number: u64,
    client: Shared,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<(Source, Notification)>,
    /// The last subscription of which too much waited.
    overflown: u64,
    has_thread: bool,
    is_closed: bool,
}

/// Where a notification comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// A subscription at the server, by number.
    Server(u64),
    /// This library.
    Here,
}

#[expect(unsafe_code, reason = "takes pointers from a program")]
impl Dll {
    /// `HcnRegisterServiceCallback`.
    ///
    /// # Safety
    ///
    /// See [`Dll`]; and the callback may be called from another thread, with this context, until it is unregistered.
    pub unsafe fn register_service_callback(
        &self,
        callback: Option<NotificationCallback>,
        context: *mut std::ffi::c_void,
        handle: *mut Handle,
    ) -> HRESULT {
        plain_call(Opened(handle), || {
            let called = Called::check(callback, context)?;
            self.register(&self.client()?, Target::Service, called)
        })
    }

    /// `HcnRegisterNetworkCallback`.
    ///
    /// # Safety
    ///
    /// As for [`Dll::register_service_callback`].
    pub unsafe fn register_network_callback(
        &self,
        network: Handle,
        callback: Option<NotificationCallback>,
        context: *mut std::ffi::c_void,
        handle: *mut Handle,
    ) -> HRESULT {
        plain_call(Opened(handle), || {
            let called = Called::check(callback, context)?;
            let id = self.object(Kind::Network, network)?;
            let client = self.client()?;
            let target = Target::Network { id, client: Arc::clone(&client), members: Mutex::default() };
            self.register(&client, target, called)
        })
    }

    /// `HcnRegisterGuestNetworkServiceCallback`.
    ///
    /// # Safety
    ///
    /// As for [`Dll::register_service_callback`].
    pub unsafe fn register_guest_callback(
        &self,
        service: Handle,
        callback: Option<NotificationCallback>,
        context: *mut std::ffi::c_void,
        handle: *mut Handle,
    ) -> HRESULT {
        plain_call(Opened(handle), || {
            let called = Called::check(callback, context)?;
            let registration = Registration::new(Target::Guest(self.guests.id(service)?), called);
            let hub = &self.callbacks.hub;
            hub.start()?;
            hub.state.lock().registrations.push(Arc::clone(&registration));
            Ok(self.callbacks.handles.open(registration))
        })
    }

    /// `HcnUnregisterServiceCallback`.
    pub fn unregister_service_callback(&self, handle: Handle) -> HRESULT {
        self.unregister(handle, |target| matches!(target, Target::Service))
    }

    /// `HcnUnregisterNetworkCallback`.
    pub fn unregister_network_callback(&self, handle: Handle) -> HRESULT {
        self.unregister(handle, |target| matches!(target, Target::Network { .. }))
    }

    /// `HcnUnregisterGuestNetworkServiceCallback`.
    pub fn unregister_guest_callback(&self, handle: Handle) -> HRESULT {
        self.unregister(handle, |target| matches!(target, Target::Guest(_)))
    }

    /// Registers for what comes from the server.
    fn register(&self, client: &Shared, target: Target, called: Called) -> Result<Handle> {
        let hub = &self.callbacks.hub;
        hub.start()?;
        let registration = Registration::new(target, called);
        hub.subscribe(client, &registration)?;
        // After the subscription has begun, so that nobody who is attached in between is missed.
        if let Target::Network { id, members, .. } = &registration.target {
            let query = Query::endpoints_of(*id).to_json();
            match client.call(|remote| remote.enumerate_text(Kind::Endpoint, &query)) {
                Ok(endpoints) => members.lock().extend(endpoints),
                Err(error) => {
                    hub.remove(&registration);
                    return Err(error);
                }
            }
        }
        Ok(self.callbacks.handles.open(registration))
    }

    /// When it has returned, the callback is not called any more; unless it is the callback that has asked.
    fn unregister(&self, handle: Handle, is_right: impl FnOnce(&Target) -> bool) -> HRESULT {
        plain_call(Nothing, || {
            let closed =
                self.callbacks.handles.close(handle, |registration| is_right(&registration.target))?;
            self.callbacks.hub.remove(&closed);
            Ok(())
        })
    }

    /// Tells of something that this library itself has done.
    pub(crate) fn notify(&self, kind: NotificationKind, id: Guid) {
        let data = serde_json::json!({ "ID": id.to_string(), "Flags": 0 }).to_string();
        self.callbacks.hub.push(Source::Here, Notification { kind, id: Some(id), data });
    }
}

impl Hub {
    /// Starts the thread that calls, if there is none.
    fn start(self: &Arc<Self>) -> Result<()> {
        let mut queue = self.queue.lock();
        if queue.has_thread {
            return Ok(());
        }
        client::stay_loaded();
        let hub = Arc::clone(self);
        std::thread::Builder::new()
            .name("hcn-callbacks".to_owned())
            .spawn(move || hub.run())
            .map_err(|error| Error::detailed(HResult::OUT_OF_MEMORY, error.to_string()))?;
        queue.has_thread = true;
        Ok(())
    }

    /// Adds a registration, and a subscription for it where there is none.
    fn subscribe(self: &Arc<Self>, client: &Shared, registration: &Arc<Registration>) -> Result<()> {
        let joined = || {
            let mut state = self.state.lock();
            let Some(number) = state.subscription.as_ref().map(|subscription| subscription.number) else {
                return false;
            };
            registration.subscription.store(number, Ordering::Relaxed);
            state.registrations.push(Arc::clone(registration));
            true
        };
        if joined() {
            return Ok(());
        }
        let _one = self.subscribing.lock();
        if joined() {
            return Ok(());
        }
        let number = {
            let mut state = self.state.lock();
            state.begun += 1;
            // Known before the server is: what comes first may be that the connection is lost.
            registration.subscription.store(state.begun, Ordering::Relaxed);
            state.registrations.push(Arc::clone(registration));
            state.begun
        };
        let hub = Arc::downgrade(self);
        let sink = Arc::new(move |note: &Notification| {
            if let Some(hub) = hub.upgrade() {
                hub.push(Source::Server(number), note.clone());
            }
        });
        match client.call(|remote| remote.subscribe(sink)) {
            Ok(id) => {
                let mut state = self.state.lock();
                if state.over < number {
                    state.subscription = Some(Subscription { id, number, client: Arc::clone(client) });
                }
                Ok(())
            }
            Err(error) => {
                self.remove(registration);
                Err(error)
            }
        }
    }

    /// Takes a registration away, and the subscription with the last one.
    fn remove(&self, registration: &Arc<Registration>) {
        let unused = {
            let mut state = self.state.lock();
            state.registrations.retain(|other| !Arc::ptr_eq(other, registration));
            let of = |subscription: &Subscription| {
                let number = subscription.number;
                state.registrations.iter().any(|other| other.is_of(number))
            };
            if state.subscription.as_ref().is_some_and(|subscription| !of(subscription)) {
                state.subscription.take()
            } else {
                None
            }
        };
        if let Some(Subscription { id, client, .. }) = unused {
            client.remote().unsubscribe(id);
        }
        registration.end();
    }

    /// Queues what has happened; never waits.
    fn push(&self, source: Source, note: Notification) {
        let mut queue = self.queue.lock();
        if !queue.has_thread {
            return;
        }
        if let Source::Server(number) = source {
            if number <= queue.overflown {
                return;
            }
            if queue.items.len() >= LONGEST_QUEUE && note.kind != NotificationKind::ServiceDisconnect {
                queue.overflown = number;
                queue.items.retain(|(of, _)| *of != source);
                queue.items.push_back((source, disconnected()));
                self.arrived.notify_one();
                return;
            }
        }
        queue.items.push_back((source, note));
        self.arrived.notify_one();
    }

    /// The thread that calls.
    fn run(&self) {
        loop {
            let (source, note) = {
                let mut queue = self.queue.lock();
                self.arrived.wait_while(&mut queue, |queue| queue.items.is_empty() && !queue.is_closed);
                if queue.is_closed {
                    return;
                }
                let Some(item) = queue.items.pop_front() else { continue };
                item
            };
            // A mistake here must not leave the program without notifications.
            let _ = catch_unwind(AssertUnwindSafe(|| self.deliver(source, &note)));
        }
    }

    fn deliver(&self, source: Source, note: &Notification) {
        let is_end = note.kind == NotificationKind::ServiceDisconnect;
        let (told, unused) = {
            let mut state = self.state.lock();
            let mut unused = None;
            if let (Source::Server(number), true) = (source, is_end) {
                state.over = state.over.max(number);
                if state.subscription.as_ref().is_some_and(|subscription| subscription.number == number) {
                    unused = state.subscription.take();
                }
            }
            let concerned = |registration: &&Arc<Registration>| match source {
                Source::Server(number) => registration.is_of(number),
                Source::Here => true,
            };
            let told: Vec<_> = state.registrations.iter().filter(concerned).cloned().collect();
            (told, unused)
        };
        if let Some(Subscription { id, client, .. }) = unused {
            // One that this side has given up may still be alive at the server.
            client.remote().unsubscribe(id);
        }
        if is_end {
            for registration in &told {
                registration.subscription.store(0, Ordering::Relaxed);
            }
        }
        for registration in told {
            if registration.concerns(note) {
                registration.call(note);
            }
        }
    }
}

fn disconnected() -> Notification {
    Notification { kind: NotificationKind::ServiceDisconnect, id: None, data: String::new() }
}

impl Called {
    /// A function that may be called.
    fn check(callback: Option<NotificationCallback>, context: *mut std::ffi::c_void) -> Result<Self> {
        let callback = callback.filter(|&callback| memory::is_executable((callback as *const ()).addr()));
        Ok(Self::new(callback.ok_or_else(bad_pointer)?, context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note() -> Notification {
        Notification { kind: NotificationKind::NamespaceCreate, id: None, data: "{}".to_owned() }
    }

    #[test]
    fn too_many_that_wait_are_a_lost_subscription() {
        let hub = Hub::default();
        hub.push(Source::Server(1), note());
        assert!(hub.queue.lock().items.is_empty(), "nobody is registered");
        // Nobody takes anything: the thread is slow.
        hub.queue.lock().has_thread = true;
        hub.push(Source::Here, note());
        for _ in 0..=LONGEST_QUEUE {
            hub.push(Source::Server(1), note());
        }
        let kinds = || hub.queue.lock().items.iter().map(|(_, note)| note.kind).collect::<Vec<_>>();
        let wanted = [NotificationKind::NamespaceCreate, NotificationKind::ServiceDisconnect];
        assert_eq!(kinds(), wanted, "what is of here stays");
        hub.push(Source::Server(1), note());
        assert_eq!(kinds(), wanted, "the subscription is void");
        hub.push(Source::Server(2), note());
        assert_eq!(kinds().len(), 3, "the next one is not");
    }
}
