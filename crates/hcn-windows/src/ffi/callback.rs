//! What the libraries call, and registering for it. The context that goes with a registration is a number, not a pointer: a call
//! that comes late, from whatever thread, finds nobody under it and goes back.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use hcn::{Error, HResult, Result};
use hcn_abi::names::{REGISTER_SERVICE_CALLBACK, UNREGISTER_SERVICE_CALLBACK};
use hcn_abi::{HRESULT, Handle, PCWSTR, wide};

use super::exports::Exports;
use crate::answer;
use crate::subscribe;

/// The longest notification, in units.
const MOST: usize = 1 << 24;

/// A registration with the service. It does not end by itself: see [`Exports::unregister`].
#[derive(Debug)]
pub(crate) struct Registration(Handle);

// SAFETY: the handle is a value that only the library gives a meaning to; it may be used from any thread, by the API's rules.
unsafe impl Send for Registration {}

impl Registration {
    /// The handle, to be given back.
    fn into_handle(self) -> Handle {
        self.0
    }
}

impl Exports {
    /// `HcnRegisterServiceCallback`, for the receiver with this number.
    pub(crate) fn register(&self, receiver: usize) -> Result<Registration> {
        let register = self.need(self.register, REGISTER_SERVICE_CALLBACK)?;
        // Asked for first: what cannot be ended is better not begun.
        self.need(self.unregister, UNREGISTER_SERVICE_CALLBACK)?;
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: the callback is a function of this program, which outlives every registration; the context is a number that is
        // never followed; the place lives through the call.
        let result =
            unsafe { register(Some(notified), std::ptr::without_provenance_mut(receiver), &raw mut handle) };
        answer::check(REGISTER_SERVICE_CALLBACK, HResult(result.cast_unsigned()), None)?;
        if handle.is_null() {
            let what = "the call succeeded and handed out no handle";
            return Err(Error::detailed(HResult::E_POINTER, what).in_call(REGISTER_SERVICE_CALLBACK));
        }
        Ok(Registration(handle))
    }

    /// `HcnUnregisterServiceCallback`. It may wait for callbacks that are under way.
    pub(crate) fn unregister(&self, registration: Registration) -> Result<()> {
        let unregister = self.need(self.unregister, UNREGISTER_SERVICE_CALLBACK)?;
        let handle = registration.into_handle();
        // SAFETY: the handle comes from a registration that succeeded and is given back here only, because this consumes it.
        let result = unsafe { unregister(handle) };
        answer::check(UNREGISTER_SERVICE_CALLBACK, HResult(result.cast_unsigned()), None)
    }
}

/// The function that is registered. No panic leaves it: on the other side is somebody else's code.
unsafe extern "system" fn notified(kind: u32, context: *mut c_void, _status: HRESULT, data: PCWSTR) {
    let receiver = context.addr();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: by the API's rules the data is NULL or NUL-terminated and lives through this call.
        let data = if data.is_null() { None } else { unsafe { wide::decode(data, MOST) } };
        subscribe::deliver(receiver, kind, data.unwrap_or_default());
    }));
    if outcome.is_err() {
        // The panic hook has said where. Logging once more may be what panicked.
        let _ = catch_unwind(|| tracing::error!(kind, "A receiver of HNS's notifications has panicked"));
    }
}
