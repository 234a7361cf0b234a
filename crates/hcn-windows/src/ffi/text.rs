//! Strings that the libraries hand out. It must not know what stands in them.

use hcn::{Error, HResult, Result};
use hcn_abi::{CoTaskMemFree, PWSTR, wide};

/// The longest string that is read, in units: HNS's longest answers are some tens of megabytes.
const MOST: usize = 1 << 28;

/// The place for a string that a call may hand out; what is there when this goes is freed, on every path and once.
pub(super) struct Out {
    pointer: PWSTR,
    free: CoTaskMemFree,
}

impl Out {
    pub(super) fn new(free: CoTaskMemFree) -> Self {
        Self { pointer: std::ptr::null_mut(), free }
    }

    /// The place, for one call.
    pub(super) fn place(&mut self) -> *mut PWSTR {
        &raw mut self.pointer
    }

    /// The string, if there is one. Units that are no UTF-16 read as U+FFFD: one object with a broken name must not hide
    /// all the others.
    pub(super) fn read(&self) -> Result<Option<String>> {
        if self.pointer.is_null() {
            return Ok(None);
        }
        // SAFETY: by the API's rules what is handed out is NUL-terminated; it is this value's own and not freed yet.
        let text = unsafe { wide::decode(self.pointer, MOST) };
        let endless = || {
            Error::detailed(HResult::E_UNEXPECTED, format!("a string that does not end within {MOST} units"))
        };
        text.map(Some).ok_or_else(endless)
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        if !self.pointer.is_null() {
            // SAFETY: the callee allocated the string with the allocator that this function belongs to and handed it over; it
            // is freed here only.
            unsafe { (self.free)(self.pointer.cast()) };
        }
    }
}
