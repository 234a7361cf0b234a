//! The binary interface of `computenetwork.dll` (HCN v2) and `vmcompute.dll` (HNS v1), as facts: the names of the exports,
//! the types of the functions behind them, and how GUIDs and strings lie in memory.
//!
//! Two rooms share it: `hcn-windows` calls these functions, `hcn-dll` implements them.
//!
//! * **Calls** follow `extern "system"` (on x86-64 the one Windows convention) and return an `HRESULT`: negative is failure.
//! * **Strings in** are NUL-terminated UTF-16; a query may be NULL.
//! * **Strings out** come from the COM task allocator; the caller frees them with `CoTaskMemFree`.
//! * **Error records** are such strings too; the pointer to the place for one may be NULL. On success NULL is stored there,
//!   always: hcsshim reuses one variable for several calls and frees what it finds.
//! * **GUIDs** are passed by pointer, in Windows' layout (three little-endian fields, then eight bytes).
//!
//! Sources: Microsoft's HCN reference, win32metadata, hcsshim's declarations (docs/fidelity.md). This crate calls nothing and
//! holds no state; it must not know who calls whom.

pub mod guid;
pub mod names;
pub mod wide;

use core::ffi::c_void;

pub use windows_sys::core::{GUID, HRESULT, PCWSTR, PWSTR};

/// A handle of the API: `HCN_NETWORK`, `HCN_ENDPOINT`, `HCN_NAMESPACE`, `HCN_LOADBALANCER`, `HCN_CALLBACK` and so on.
pub type Handle = *mut c_void;

/// `HcnEnumerate…s(query, out ids, out error record)`.
pub type Enumerate = unsafe extern "system" fn(PCWSTR, *mut PWSTR, *mut PWSTR) -> HRESULT;

/// `HcnCreate…(id, settings, out handle, out error record)`, for all kinds but endpoints.
pub type Create = unsafe extern "system" fn(*const GUID, PCWSTR, *mut Handle, *mut PWSTR) -> HRESULT;

/// `HcnCreateEndpoint(network, id, settings, out handle, out error record)`.
pub type CreateEndpoint =
    unsafe extern "system" fn(Handle, *const GUID, PCWSTR, *mut Handle, *mut PWSTR) -> HRESULT;

/// `HcnOpen…(id, out handle, out error record)`.
pub type Open = unsafe extern "system" fn(*const GUID, *mut Handle, *mut PWSTR) -> HRESULT;

/// `HcnModify…(handle, settings, out error record)`.
pub type Modify = unsafe extern "system" fn(Handle, PCWSTR, *mut PWSTR) -> HRESULT;

/// `HcnQuery…Properties(handle, query, out properties, out error record)`, and the queries of statistics and addresses.
pub type Query = unsafe extern "system" fn(Handle, PCWSTR, *mut PWSTR, *mut PWSTR) -> HRESULT;

/// `HcnDelete…(id, out error record)`.
pub type Delete = unsafe extern "system" fn(*const GUID, *mut PWSTR) -> HRESULT;

/// `HcnClose…(handle)` and `HcnUnregister…Callback(handle)`.
pub type Close = unsafe extern "system" fn(Handle) -> HRESULT;

/// What is called when something happens: `(type, context, status, JSON data)`. The status is reserved.
pub type NotificationCallback = unsafe extern "system" fn(u32, *mut c_void, HRESULT, PCWSTR);

/// `HcnRegisterServiceCallback(callback, context, out callback handle)`.
pub type RegisterServiceCallback =
    unsafe extern "system" fn(Option<NotificationCallback>, *mut c_void, *mut Handle) -> HRESULT;

/// `HcnRegisterGuestNetworkServiceCallback` and, by analogy, `HcnRegisterNetworkCallback`:
/// `(object, callback, context, out callback handle)`.
pub type RegisterObjectCallback =
    unsafe extern "system" fn(Handle, Option<NotificationCallback>, *mut c_void, *mut Handle) -> HRESULT;

/// `HNSCall(method, path, request, out response)`.
pub type HnsCall = unsafe extern "system" fn(PCWSTR, PCWSTR, PCWSTR, *mut PWSTR) -> HRESULT;

/// `CoTaskMemFree(pointer)`; NULL is allowed.
pub type CoTaskMemFree = unsafe extern "system" fn(*const c_void);
