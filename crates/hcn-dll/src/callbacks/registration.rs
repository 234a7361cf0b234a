//! One registration: which notifications concern it, and its calls, of which there is none after its end.

use std::collections::HashSet;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ThreadId;

use hcn::{Guid, Kind, Notification, NotificationKind, Query};
use hcn_abi::{NotificationCallback, wide};
use parking_lot::{Condvar, Mutex};
use serde::Deserialize;

use crate::client::Shared;

/// What is registered for.
pub(crate) enum Target {
    /// The service: networks, namespaces and guest network services come and go.
    Service,
    /// A network: endpoints are attached and detached.
    Network {
        /// Which.
        id: Guid,
        /// Who asks the server which network an endpoint is of.
        client: Shared,
        /// Endpoints that are known to be of this network: one that is deleted is detached first, and then nobody can be asked.
        members: Mutex<HashSet<Guid>>,
    },
    /// A guest network service of this process.
    Guest(Guid),
}

/// What is called, and with what.
#[derive(Clone, Copy)]
pub(super) struct Called {
    callback: NotificationCallback,
    context: *mut c_void,
}

#[expect(unsafe_code, reason = "the program promises that its callback may be called from another thread")]
// SAFETY: the context is handed back to the program and nothing else is done with it.
unsafe impl Send for Called {}
#[expect(unsafe_code, reason = "as above")]
// SAFETY: as above.
unsafe impl Sync for Called {}

impl Called {
    pub(super) const fn new(callback: NotificationCallback, context: *mut c_void) -> Self {
        Self { callback, context }
    }
}

pub(super) struct Registration {
    pub(super) target: Target,
    called: Called,
    /// The number of the subscription whose notifications it hears; 0: of none.
    pub(super) subscription: AtomicU64,
    turn: Mutex<Turn>,
    returned: Condvar,
}

#[derive(Default)]
struct Turn {
    has_ended: bool,
    /// Who is calling.
    running: Option<ThreadId>,
}

impl Registration {
    pub(super) fn new(target: Target, called: Called) -> Arc<Self> {
        Arc::new(Self {
            target,
            called,
            subscription: AtomicU64::new(0),
            turn: Mutex::default(),
            returned: Condvar::new(),
        })
    }

    /// Whether it hears a subscription.
    pub(super) fn is_of(&self, subscription: u64) -> bool {
        self.subscription.load(Ordering::Relaxed) == subscription
    }

    /// Whether a notification is for it.
    pub(super) fn concerns(&self, note: &Notification) -> bool {
        use NotificationKind as Of;
        match (&self.target, note.kind) {
            // A guest network service is of this process, and does not go away with the server.
            (Target::Service | Target::Network { .. }, Of::ServiceDisconnect)
            | (
                Target::Service,
                Of::NetworkPreCreate
                | Of::NetworkCreate
                | Of::NetworkPreDelete
                | Of::NetworkDelete
                | Of::NamespaceCreate
                | Of::NamespaceDelete
                | Of::GuestNetworkServiceCreate
                | Of::GuestNetworkServiceDelete,
            ) => true,
            (
                Target::Guest(id),
                Of::GuestNetworkServiceStateChanged | Of::GuestNetworkServiceInterfaceStateChanged,
            ) => note.id == Some(*id),
            (Target::Network { id, client, members }, Of::NetworkEndpointAttached) => {
                let Some(endpoint) = note.id else { return false };
                let known = members.lock().contains(&endpoint);
                if !known && network_of(client, endpoint) != Some(*id) {
                    return false;
                }
                members.lock().insert(endpoint);
                true
            }
            (Target::Network { id, client, members }, Of::NetworkEndpointDetached) => {
                let Some(endpoint) = note.id else { return false };
                let known = members.lock().remove(&endpoint);
                known || network_of(client, endpoint) == Some(*id)
            }
            _ => false,
        }
    }

    /// Calls, unless it has ended.
    pub(super) fn call(&self, note: &Notification) {
        {
            let mut turn = self.turn.lock();
            if turn.has_ended {
                return;
            }
            turn.running = Some(std::thread::current().id());
        }
        let data: Vec<u16> = wide::encode(&note.data).unwrap_or_else(|| vec![0]);
        let Called { callback, context } = self.called;
        #[expect(unsafe_code, reason = "calls the program")]
        // SAFETY: the program has registered this function for such calls, and has not unregistered it. The text lives until it
        // returns.
        unsafe {
            callback(note.kind as u32, context, 0, data.as_ptr());
        }
        self.turn.lock().running = None;
        self.returned.notify_all();
    }

    /// There is no call any more when this returns, except for the one that this is called from.
    pub(super) fn end(&self) {
        let mut turn = self.turn.lock();
        turn.has_ended = true;
        let own = std::thread::current().id();
        self.returned.wait_while(&mut turn, |turn| turn.running.is_some_and(|thread| thread != own));
    }
}

/// The network of an endpoint, where it can be told.
fn network_of(client: &Shared, endpoint: Guid) -> Option<Guid> {
    #[derive(Deserialize)]
    struct Endpoint {
        #[serde(rename = "HostComputeNetwork")]
        network: Option<Guid>,
    }
    let query = Query::all().to_json();
    let document = client.call(|remote| remote.query_text(Kind::Endpoint, endpoint, &query)).ok()?;
    serde_json::from_str::<Endpoint>(&document).ok()?.network
}
