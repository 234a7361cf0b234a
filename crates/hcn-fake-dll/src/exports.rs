//! The exported functions: arguments in, [`MACHINE`] asked, answers out. It must not know what documents say.

#![expect(unsafe_code, reason = "the binary interface")]

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use hcn::api::V1Method;
use hcn::{Error, Guid, HResult, Hcn, Kind, Query, Result};
use hcn_abi::{GUID, HRESULT, Handle, NotificationCallback, PCWSTR, PWSTR, guid, wide};

use crate::control::{Answer, Request, Words};
use crate::machine::MACHINE;

/// The longest argument, in units.
const MOST: usize = 1 << 24;

/// Where a call's answer goes; NULL for what it has not.
#[derive(Clone, Copy)]
struct Places {
    payload: *mut PWSTR,
    record: *mut PWSTR,
    handle: *mut Handle,
}

const NOWHERE: Places =
    Places { payload: std::ptr::null_mut(), record: std::ptr::null_mut(), handle: std::ptr::null_mut() };

/// What a call that succeeded has.
#[derive(Default)]
struct Given {
    payload: Option<String>,
    object: Option<(Kind, Guid)>,
}

/// A call: its rule, its effect, its answer.
///
/// # Safety
///
/// Each place is NULL or may be written.
unsafe fn run(export: &str, places: Places, act: impl FnOnce() -> Result<Given>) -> HRESULT {
    let rule = MACHINE.called(export);
    let acts = rule.as_ref().is_none_or(|rule| rule.acts);
    let outcome = if acts { act() } else { Ok(Given::default()) };
    let (mut result, mut record, mut payload, mut object) = match outcome {
        Ok(Given { payload, object }) => (0, Words::Null, payload.map_or(Words::Null, Words::Text), object),
        Err(error) => (error.code.0, Words::Text(error.record().to_json()), Words::Null, None),
    };
    if let Some(rule) = rule {
        result = rule.result.unwrap_or(result);
        record = rule.record.unwrap_or(record);
        payload = rule.payload.unwrap_or(payload);
        object = object.filter(|_| !rule.null_handle);
    }
    let mut lent = MACHINE.lent.lock();
    // SAFETY: as the caller promises.
    unsafe {
        if !places.record.is_null() {
            places.record.write(lent.string(&record));
        }
        if !places.payload.is_null() {
            places.payload.write(lent.string(&payload));
        }
        if !places.handle.is_null() {
            let handle = object.map_or(0, |(kind, id)| lent.handle(kind, id));
            places.handle.write(std::ptr::without_provenance_mut(handle));
        }
    }
    HResult(result).0.cast_signed()
}

/// Text that comes in; NULL is empty.
///
/// # Safety
///
/// NULL, or NUL-terminated.
unsafe fn text(pointer: PCWSTR) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: as the caller promises.
    unsafe { wide::decode(pointer, MOST) }.unwrap_or_default()
}

fn behind(kind: Kind, handle: Handle) -> Result<Guid> {
    let id = MACHINE.lent.lock().object(kind, handle.addr());
    id.ok_or_else(|| Error::new(HResult::INVALID_HANDLE))
}

fn create(kind: Kind, network: Option<Handle>, id: Guid, settings: &str) -> Result<Given> {
    let network = network.map(|handle| behind(Kind::Network, handle)).transpose()?;
    let id = MACHINE.hns().create(kind, network, id, settings)?;
    Ok(Given { object: Some((kind, id)), ..Given::default() })
}

macro_rules! family {
    ($kind:ident: $enumerate:ident $open:ident $modify:ident $query:ident $delete:ident $close:ident) => {
        /// Enumerates.
        ///
        /// # Safety
        ///
        /// As `hcn_abi::Enumerate` has it.
        #[unsafe(no_mangle)]
        unsafe extern "system" fn $enumerate(query: PCWSTR, ids: *mut PWSTR, record: *mut PWSTR) -> HRESULT {
            // SAFETY: as the caller promises.
            let query = unsafe { text(query) };
            let places = Places { payload: ids, record, ..NOWHERE };
            let act = || {
                let ids = MACHINE.hns().enumerate(Kind::$kind, &Query::from_text(&query)?)?;
                Ok(Given { payload: Some(serde_json::to_string(&ids)?), ..Given::default() })
            };
            // SAFETY: as the caller promises.
            unsafe { run(stringify!($enumerate), places, act) }
        }

        /// Opens.
        ///
        /// # Safety
        ///
        /// As `hcn_abi::Open` has it.
        #[unsafe(no_mangle)]
        unsafe extern "system" fn $open(id: *const GUID, handle: *mut Handle, record: *mut PWSTR) -> HRESULT {
            // SAFETY: as the caller promises.
            let id = unsafe { guid::from_raw(&*id) };
            let act = || {
                // There is no other way to ask whether an object exists.
                MACHINE.hns().query(Kind::$kind, id, &Query::all())?;
                Ok(Given { object: Some((Kind::$kind, id)), ..Given::default() })
            };
            // SAFETY: as the caller promises.
            unsafe { run(stringify!($open), Places { record, handle, ..NOWHERE }, act) }
        }

        /// Modifies.
        ///
        /// # Safety
        ///
        /// As `hcn_abi::Modify` has it.
        #[unsafe(no_mangle)]
        unsafe extern "system" fn $modify(handle: Handle, settings: PCWSTR, record: *mut PWSTR) -> HRESULT {
            // SAFETY: as the caller promises.
            let settings = unsafe { text(settings) };
            let act = || {
                MACHINE.hns().modify(Kind::$kind, behind(Kind::$kind, handle)?, &settings)?;
                Ok(Given::default())
            };
            // SAFETY: as the caller promises.
            unsafe { run(stringify!($modify), Places { record, ..NOWHERE }, act) }
        }

        /// Queries.
        ///
        /// # Safety
        ///
        /// As `hcn_abi::Query` has it.
        #[unsafe(no_mangle)]
        unsafe extern "system" fn $query(
            handle: Handle,
            query: PCWSTR,
            properties: *mut PWSTR,
            record: *mut PWSTR,
        ) -> HRESULT {
            // SAFETY: as the caller promises.
            let query = unsafe { text(query) };
            let act = || {
                let query = Query::from_text(&query)?;
                let text = MACHINE.hns().query(Kind::$kind, behind(Kind::$kind, handle)?, &query)?;
                Ok(Given { payload: Some(text), ..Given::default() })
            };
            // SAFETY: as the caller promises.
            unsafe { run(stringify!($query), Places { payload: properties, record, ..NOWHERE }, act) }
        }

        /// Deletes.
        ///
        /// # Safety
        ///
        /// As `hcn_abi::Delete` has it.
        #[unsafe(no_mangle)]
        unsafe extern "system" fn $delete(id: *const GUID, record: *mut PWSTR) -> HRESULT {
            // SAFETY: as the caller promises.
            let id = unsafe { guid::from_raw(&*id) };
            let act = || MACHINE.hns().delete(Kind::$kind, id).map(|()| Given::default());
            // SAFETY: as the caller promises.
            unsafe { run(stringify!($delete), Places { record, ..NOWHERE }, act) }
        }

        /// Closes.
        ///
        /// # Safety
        ///
        /// None is needed: handles are looked up.
        #[unsafe(no_mangle)]
        unsafe extern "system" fn $close(handle: Handle) -> HRESULT {
            let act = || {
                let is_known = MACHINE.lent.lock().close(Kind::$kind, handle.addr());
                if is_known { Ok(Given::default()) } else { Err(Error::new(HResult::INVALID_HANDLE)) }
            };
            // SAFETY: nothing is written.
            unsafe { run(stringify!($close), NOWHERE, act) }
        }
    };
}

family!(Network: HcnEnumerateNetworks HcnOpenNetwork HcnModifyNetwork HcnQueryNetworkProperties HcnDeleteNetwork HcnCloseNetwork);
family!(Endpoint: HcnEnumerateEndpoints HcnOpenEndpoint HcnModifyEndpoint HcnQueryEndpointProperties HcnDeleteEndpoint HcnCloseEndpoint);
family!(Namespace: HcnEnumerateNamespaces HcnOpenNamespace HcnModifyNamespace HcnQueryNamespaceProperties HcnDeleteNamespace HcnCloseNamespace);
family!(LoadBalancer: HcnEnumerateLoadBalancers HcnOpenLoadBalancer HcnModifyLoadBalancer HcnQueryLoadBalancerProperties HcnDeleteLoadBalancer HcnCloseLoadBalancer);
family!(SdnRoute: HcnEnumerateSdnRoutes HcnOpenSdnRoute HcnModifySdnRoute HcnQuerySdnRouteProperties HcnDeleteSdnRoute HcnCloseSdnRoute);

macro_rules! creates {
    ($($kind:ident: $create:ident),*) => { $(
        /// Creates.
        ///
        /// # Safety
        ///
        /// As `hcn_abi::Create` has it.
        #[unsafe(no_mangle)]
        unsafe extern "system" fn $create(
            id: *const GUID,
            settings: PCWSTR,
            handle: *mut Handle,
            record: *mut PWSTR,
        ) -> HRESULT {
            // SAFETY: as the caller promises.
            let (id, settings) = unsafe { (guid::from_raw(&*id), text(settings)) };
            // SAFETY: as the caller promises.
            unsafe {
                run(stringify!($create), Places { record, handle, ..NOWHERE }, || {
                    create(Kind::$kind, None, id, &settings)
                })
            }
        }
    )* };
}

creates!(Network: HcnCreateNetwork, Namespace: HcnCreateNamespace, LoadBalancer: HcnCreateLoadBalancer, SdnRoute: HcnCreateSdnRoute);

/// Creates an endpoint.
///
/// # Safety
///
/// As `hcn_abi::CreateEndpoint` has it.
#[unsafe(no_mangle)]
unsafe extern "system" fn HcnCreateEndpoint(
    network: Handle,
    id: *const GUID,
    settings: PCWSTR,
    handle: *mut Handle,
    record: *mut PWSTR,
) -> HRESULT {
    // SAFETY: as the caller promises.
    let (id, settings) = unsafe { (guid::from_raw(&*id), text(settings)) };
    // SAFETY: as the caller promises.
    unsafe {
        run("HcnCreateEndpoint", Places { record, handle, ..NOWHERE }, || {
            create(Kind::Endpoint, Some(network), id, &settings)
        })
    }
}

/// The v1 call.
///
/// # Safety
///
/// As `hcn_abi::HnsCall` has it.
#[unsafe(no_mangle)]
unsafe extern "system" fn HNSCall(
    method: PCWSTR,
    path: PCWSTR,
    request: PCWSTR,
    response: *mut PWSTR,
) -> HRESULT {
    // SAFETY: as the caller promises.
    let (method, path, request) = unsafe { (text(method), text(path), text(request)) };
    let act = || {
        let method = V1Method::parse(&method).ok_or(HResult::INVALID_PARAMETER)?;
        Ok(Given { payload: Some(MACHINE.hns().call_v1(method, &path, &request)?), ..Given::default() })
    };
    // SAFETY: as the caller promises.
    unsafe { run("HNSCall", Places { payload: response, ..NOWHERE }, act) }
}

/// Takes a string back.
///
/// # Safety
///
/// None is needed: strings are looked up by their addresses.
#[unsafe(no_mangle)]
unsafe extern "system" fn CoTaskMemFree(pointer: *const c_void) {
    MACHINE.lent.lock().free(pointer.addr());
}

/// What a registration calls.
struct Registrant {
    callback: NotificationCallback,
    context: *mut c_void,
}

// SAFETY: by the API's rules the callback may be called from any thread, with the context as it was given.
unsafe impl Send for Registrant {}
// SAFETY: likewise.
unsafe impl Sync for Registrant {}

impl Registrant {
    fn call(&self, kind: u32, data: &Words) {
        let units: Option<Vec<u16>> = match data {
            Words::Null => None,
            Words::Text(text) => Some(text.encode_utf16().chain([0]).collect()),
            Words::Units(units) => Some(units.iter().copied().chain([0]).collect()),
        };
        let pointer = units.as_ref().map_or(std::ptr::null(), Vec::as_ptr);
        // SAFETY: the callback and its context came together; the data is NULL or NUL-terminated and lives through the call.
        unsafe { (self.callback)(kind, self.context, 0, pointer) };
    }
}

/// Registers.
///
/// # Safety
///
/// As `hcn_abi::RegisterServiceCallback` has it; the callback may be called until the registration has ended.
#[unsafe(no_mangle)]
unsafe extern "system" fn HcnRegisterServiceCallback(
    callback: Option<NotificationCallback>,
    context: *mut c_void,
    handle: *mut Handle,
) -> HRESULT {
    let mut registration = 0;
    let act = || {
        let callback = callback.ok_or(HResult::E_POINTER)?;
        let registrant = Registrant { callback, context };
        registration = MACHINE.register(Arc::new(move |kind, data| registrant.call(kind, data)));
        Ok(Given::default())
    };
    // SAFETY: nothing is written there.
    let result = unsafe { run("HcnRegisterServiceCallback", NOWHERE, act) };
    // SAFETY: as the caller promises.
    unsafe { handle.write(std::ptr::without_provenance_mut(registration)) };
    result
}

/// Ends a registration.
///
/// # Safety
///
/// None is needed: registrations are looked up.
#[unsafe(no_mangle)]
unsafe extern "system" fn HcnUnregisterServiceCallback(handle: Handle) -> HRESULT {
    let act = || {
        let is_known = MACHINE.unregister(handle.addr());
        if is_known { Ok(Given::default()) } else { Err(Error::new(HResult::INVALID_HANDLE)) }
    };
    // SAFETY: nothing is written.
    unsafe { run("HcnUnregisterServiceCallback", NOWHERE, act) }
}

macro_rules! absent {
    ($($export:ident)*) => { $(
        /// Not implemented, whatever its arguments are: they are the caller's on x86-64.
        ///
        /// # Safety
        ///
        /// None is needed.
        #[unsafe(no_mangle)]
        unsafe extern "system" fn $export() -> HRESULT {
            // SAFETY: nothing is written.
            unsafe { run(stringify!($export), NOWHERE, || Err(HResult::E_NOTIMPL.into())) }
        }
    )* };
}

absent!(
    HcnCloseGuestNetworkService HcnCreateGuestNetworkService HcnDeleteGuestNetworkService
    HcnEnumerateGuestNetworkPortReservations HcnEnumerateGuestNetworkServices HcnFreeGuestNetworkPortReservations
    HcnModifyGuestNetworkService HcnOpenGuestNetworkService HcnQueryEndpointAddresses HcnQueryEndpointStats HcnQueryFeatures
    HcnQueryGuestNetworkServiceProperties HcnQueryMetrics HcnRegisterGuestNetworkServiceCallback HcnRegisterNetworkCallback
    HcnReleaseGuestNetworkServicePortReservationHandle HcnReserveGuestNetworkServicePort
    HcnReserveGuestNetworkServicePortRange HcnUnregisterGuestNetworkServiceCallback HcnUnregisterNetworkCallback
);

/// Steers the shared object.
///
/// # Safety
///
/// The request is as long as is said; `answer` takes the context and what it is given.
#[unsafe(no_mangle)]
unsafe extern "C" fn hcn_fake_control(
    request: *const u8,
    length: usize,
    answer: Answer,
    context: *mut c_void,
) {
    // SAFETY: as the caller promises.
    let request = unsafe { std::slice::from_raw_parts(request, length) };
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let request: Request = serde_json::from_slice(request).map_err(|error| error.to_string())?;
        MACHINE.control(request)
    }));
    let outcome = outcome.unwrap_or_else(|_| Err("a panic; standard error says where".to_owned()));
    let text = serde_json::to_string(&outcome).unwrap_or_default();
    // SAFETY: as the caller promises.
    unsafe { answer(context, text.as_ptr(), text.len()) };
}
