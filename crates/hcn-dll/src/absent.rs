//! Exports that exist, because programs bind them by name, and say that nobody does what they ask for: compute systems,
//! container layers, and what nobody outside has described.

use std::ffi::c_void;

use hcn_abi::{HRESULT, PCWSTR, PWSTR};

use crate::arguments::{Place, text};
use crate::edge::{Nothing, Text, plain_call};
use crate::objects::not_implemented;

/// `E_NOTIMPL`; places for results that can be written hold NULL afterwards, so that a program that looks finds nothing.
///
/// # Safety
///
/// The places are not given back while this writes to them.
#[expect(unsafe_code, reason = "writes where the program said that results go")]
pub unsafe fn not_done(places: &[*mut *mut c_void]) -> HRESULT {
    for &place in places {
        if let Ok(Some(place)) = Place::check(place) {
            // SAFETY: found writable just now; the caller's promise.
            unsafe { place.store(std::ptr::null_mut()) };
        }
    }
    plain_call(Nothing, || Err(not_implemented()))
}

/// `HcsEnumerateComputeSystems`: there are none, which is an answer and not a failure. Programs that look at start for what they
/// have left behind go on; one that wants to make a compute system is told by that call.
///
/// # Safety
///
/// The query and the places are not given back while this uses them.
#[expect(unsafe_code, reason = "takes pointers from a program")]
pub unsafe fn no_compute_systems(query: PCWSTR, systems: *mut PWSTR, result: *mut PWSTR) -> HRESULT {
    crate::edge::call(result, Text(systems), || {
        // SAFETY: the caller's promise.
        unsafe { text(query) }?;
        Ok("[]".to_owned())
    })
}
