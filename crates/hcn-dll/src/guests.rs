//! Guest network services and the host's ports that are reserved through them.
//!
//! A real node has a service that keeps these for all processes. The server here knows none, so this process keeps its own:
//! documents are kept as they were given, reservations conflict with each other, and both end with the process. Nothing
//! of it reaches the packets of an emulated node.

mod ports;

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use hcn::{Error, Guid, HResult, NotificationKind, Query, Result};
use hcn_abi::{GUID, HRESULT, Handle, PCWSTR, PWSTR};
use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::arguments::{id, needed_text, text};
use crate::dll::Dll;
use crate::edge::{Nothing, Opened, Text, call, plain_call};
use crate::handles::Handles;
use ports::Reservations;
pub use ports::{PortRange, PortRangeEntry};

/// What this process keeps.
#[derive(Default)]
pub(crate) struct Guests {
    services: Mutex<BTreeMap<Guid, Map<String, Value>>>,
    handles: Handles<Guid>,
    ports: Reservations,
}

impl Guests {
    /// The service that a handle stands for; it may be gone.
    pub(crate) fn id(&self, handle: Handle) -> Result<Guid> {
        self.handles.get(handle)
    }

    /// The same, and it is there still.
    fn existing(&self, handle: Handle) -> Result<Guid> {
        let id = self.id(handle)?;
        if self.services.lock().contains_key(&id) { Ok(id) } else { Err(gone()) }
    }
}

fn gone() -> Error {
    HResult::ELEMENT_NOT_FOUND.into()
}

fn object(text: &str) -> Result<Map<String, Value>> {
    let invalid = |why: String| Error::detailed(HResult::INVALID_JSON, why);
    serde_json::from_str(text).map_err(|error| invalid(error.to_string()))
}

/// A member in any case.
fn member<'a>(document: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    document.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// An id of this process's choosing. It need not be secret, only be nobody else's.
fn chosen() -> Guid {
    let word = || u128::from(RandomState::new().build_hasher().finish());
    Guid::from_u128(word() << 64 | word())
}

/// Whether a document has what a filter asks for.
fn matches(document: &Map<String, Value>, wanted: &hcn::json::Extra) -> bool {
    wanted.0.iter().all(|(name, wanted)| {
        let Ok(wanted) = wanted.read::<Value>() else { return false };
        match (member(document, name), wanted) {
            (Some(Value::String(value)), Value::String(wanted)) => value.eq_ignore_ascii_case(&wanted),
            (Some(value), wanted) => *value == wanted,
            (None, _) => false,
        }
    })
}

#[expect(unsafe_code, reason = "takes pointers from a program")]
impl Dll {
    /// `HcnCreateGuestNetworkService`.
    ///
    /// # Safety
    ///
    /// See [`Dll`].
    pub unsafe fn create_guest(
        &self,
        wished: *const GUID,
        settings: PCWSTR,
        handle: *mut Handle,
        record: *mut PWSTR,
    ) -> HRESULT {
        call(record, Opened(handle), || {
            // SAFETY: the caller's promise.
            let (wished, settings) = unsafe { (id(wished)?, needed_text(settings)?) };
            let mut document = object(&settings)?;
            let own = member(&document, "ID").and_then(Value::as_str).and_then(|text| text.parse().ok());
            let id = Some(wished).filter(|id| !id.is_nil()).or(own).unwrap_or_else(chosen);
            document.retain(|key, _| !key.eq_ignore_ascii_case("ID"));
            document.insert("ID".to_owned(), id.to_string().into());
            {
                let mut services = self.guests.services.lock();
                if services.contains_key(&id) {
                    return Err(HResult::OBJECT_ALREADY_EXISTS.into());
                }
                services.insert(id, document);
            }
            self.notify(NotificationKind::GuestNetworkServiceCreate, id);
            Ok(self.guests.handles.open(id))
        })
    }

    /// `HcnOpenGuestNetworkService`.
    ///
    /// # Safety
    ///
    /// See [`Dll`].
    pub unsafe fn open_guest(&self, wanted: *const GUID, handle: *mut Handle, record: *mut PWSTR) -> HRESULT {
        call(record, Opened(handle), || {
            // SAFETY: the caller's promise.
            let id = unsafe { id(wanted) }?;
            if !self.guests.services.lock().contains_key(&id) {
                return Err(gone());
            }
            Ok(self.guests.handles.open(id))
        })
    }

    /// `HcnEnumerateGuestNetworkServices`.
    ///
    /// # Safety
    ///
    /// See [`Dll`].
    pub unsafe fn enumerate_guests(&self, query: PCWSTR, ids: *mut PWSTR, record: *mut PWSTR) -> HRESULT {
        call(record, Text(ids), || {
            // SAFETY: the caller's promise.
            let query = unsafe { text(query) }?.unwrap_or_default();
            let wanted = Query::from_text(&query)?.filter_properties()?;
            let services = self.guests.services.lock();
            let found = services.iter().filter(|(_, document)| matches(document, &wanted));
            Ok(serde_json::to_string(&found.map(|(id, _)| id).collect::<Vec<_>>())?)
        })
    }

    /// `HcnModifyGuestNetworkService`: the state is changed, and nothing else can be.
    ///
    /// # Safety
    ///
    /// See [`Dll`].
    pub unsafe fn modify_guest(&self, handle: Handle, settings: PCWSTR, record: *mut PWSTR) -> HRESULT {
        call(record, Nothing, || {
            // SAFETY: the caller's promise.
            let settings = unsafe { needed_text(settings) }?;
            let id = self.guests.id(handle)?;
            let request = object(&settings)?;
            let word = |name: &str, wanted: &str, number: u64| match member(&request, name) {
                Some(Value::String(word)) => word.eq_ignore_ascii_case(wanted),
                Some(value) => value.as_u64() == Some(number),
                None => number == 0,
            };
            if !word("ResourceType", "State", 0) || !word("RequestType", "Update", 2) {
                return Err(HResult::REQUEST_UNSUPPORTED.into());
            }
            let state = member(&request, "Settings")
                .and_then(Value::as_object)
                .and_then(|settings| member(settings, "State"))
                .ok_or_else(|| Error::detailed(HResult::INVALID_PARAMETER, "Settings.State is missing"))?;
            self.guests
                .services
                .lock()
                .get_mut(&id)
                .ok_or_else(gone)?
                .insert("State".to_owned(), state.clone());
            self.notify(NotificationKind::GuestNetworkServiceStateChanged, id);
            Ok(())
        })
    }

    /// `HcnQueryGuestNetworkServiceProperties`. The query is read and has no effect.
    ///
    /// # Safety
    ///
    /// See [`Dll`].
    pub unsafe fn query_guest(
        &self,
        handle: Handle,
        query: PCWSTR,
        properties: *mut PWSTR,
        record: *mut PWSTR,
    ) -> HRESULT {
        call(record, Text(properties), || {
            // SAFETY: the caller's promise.
            let query = unsafe { text(query) }?.unwrap_or_default();
            let id = self.guests.id(handle)?;
            Query::from_text(&query)?;
            let services = self.guests.services.lock();
            Ok(serde_json::to_string(services.get(&id).ok_or_else(gone)?)?)
        })
    }

    /// `HcnDeleteGuestNetworkService`. The ports that were reserved through it are free then.
    ///
    /// # Safety
    ///
    /// See [`Dll`].
    pub unsafe fn delete_guest(&self, unwanted: *const GUID, record: *mut PWSTR) -> HRESULT {
        call(record, Nothing, || {
            // SAFETY: the caller's promise.
            let id = unsafe { id(unwanted) }?;
            if self.guests.services.lock().remove(&id).is_none() {
                return Err(gone());
            }
            self.guests.ports.release_all(id);
            self.notify(NotificationKind::GuestNetworkServiceDelete, id);
            Ok(())
        })
    }

    /// `HcnCloseGuestNetworkService`.
    pub fn close_guest(&self, handle: Handle) -> HRESULT {
        plain_call(Nothing, || self.guests.handles.close(handle, |_| true).map(|_| ()))
    }
}
