//! What a program hands in: text, ids, places for results. It may hand in anything, so each is checked before it is used.
//!
//! A check cannot be perfect: memory may be given back between the check and the use, by another thread of the program.
//! It catches NULL, small numbers, what was never mapped, and text that does not end.

use hcn::{Error, Guid, HResult, Result};
use hcn_abi::{GUID, PCWSTR, guid};

use crate::memory;

/// The longest text that is taken, in units: twice what a server takes in a request by default.
pub(crate) const LONGEST: usize = 32 * 1024 * 1024;

/// A pointer that must not be NULL, or leads nowhere.
pub(crate) fn bad_pointer() -> Error {
    Error::new(HResult::E_POINTER)
}

/// A text; `None` for NULL.
///
/// # Safety
///
/// What the pointer leads to is not given back while this reads it.
#[expect(unsafe_code, reason = "reads the program's memory")]
pub(crate) unsafe fn text(text: PCWSTR) -> Result<Option<String>> {
    if text.is_null() {
        return Ok(None);
    }
    let mut units = Vec::new();
    let mut at = text.addr();
    loop {
        // A last unit that lies half in the next pages is looked at when they are known to be there.
        let mut known = memory::readable(at);
        if known == 1 {
            known += memory::readable(at + 1);
        }
        if known < 2 {
            return Err(bad_pointer());
        }
        let start = text.with_addr(at);
        let most = (known / 2).min(LONGEST - units.len());
        for index in 0..most {
            // SAFETY: these units were found to be readable.
            let unit = unsafe { start.add(index).read_unaligned() };
            if unit == 0 {
                return Ok(Some(String::from_utf16_lossy(&units)));
            }
            units.push(unit);
        }
        if units.len() >= LONGEST {
            let why = format!("a text without an end among its first {LONGEST} units");
            return Err(Error::detailed(HResult::INVALID_PARAMETER, why));
        }
        at += most * 2;
    }
}

/// A text that must be there.
///
/// # Safety
///
/// As for [`text`].
#[expect(unsafe_code, reason = "reads the program's memory")]
pub(crate) unsafe fn needed_text(pointer: PCWSTR) -> Result<String> {
    // SAFETY: the caller's promise.
    unsafe { text(pointer) }?.ok_or_else(|| HResult::INVALID_PARAMETER.into())
}

/// An id, which must be there.
///
/// # Safety
///
/// As for [`text`].
#[expect(unsafe_code, reason = "reads the program's memory")]
pub(crate) unsafe fn id(pointer: *const GUID) -> Result<Guid> {
    let start = pointer.addr();
    let known = memory::readable(start);
    let rest = size_of::<GUID>().saturating_sub(known);
    if known == 0 || (rest > 0 && memory::readable(start + known) < rest) {
        return Err(bad_pointer());
    }
    // SAFETY: all its bytes were found to be readable.
    Ok(guid::from_raw(&unsafe { pointer.read_unaligned() }))
}

/// Where a result goes.
#[derive(Debug)]
pub(crate) struct Place<T>(*mut T);

impl<T: Copy> Place<T> {
    /// `None` for NULL.
    pub(crate) fn check(pointer: *mut T) -> Result<Option<Self>> {
        if pointer.is_null() {
            Ok(None)
        } else if memory::is_writable(pointer.addr(), size_of::<T>()) {
            Ok(Some(Self(pointer)))
        } else {
            Err(bad_pointer())
        }
    }

    /// Writes there.
    ///
    /// # Safety
    ///
    /// The memory was not given back since the check.
    #[expect(unsafe_code, reason = "writes the program's memory")]
    pub(crate) unsafe fn store(&self, value: T) {
        // SAFETY: found writable; the caller promises that it is so still. It need not be aligned.
        unsafe { self.0.write_unaligned(value) }
    }
}

#[cfg(test)]
#[expect(unsafe_code, reason = "the functions under test are unsafe")]
mod tests {
    use super::*;

    fn read(pointer: PCWSTR) -> Result<Option<String>> {
        // SAFETY: the tests' texts live while they are read; everything else is refused unread.
        unsafe { text(pointer) }
    }

    fn nowhere<T>(address: usize) -> *const T {
        std::ptr::without_provenance(address)
    }

    #[test]
    fn text_may_lie_at_odd_addresses() {
        let mut bytes = vec![0xFF_u8];
        bytes.extend("{\"ä\"}\0".encode_utf16().flat_map(u16::to_le_bytes));
        let odd = bytes[1..].as_ptr();
        assert_eq!(read(odd.cast()).unwrap().as_deref(), Some("{\"ä\"}"));
    }

    #[test]
    fn null_is_none_and_what_leads_nowhere_is_refused() {
        assert_eq!(read(std::ptr::null()).unwrap(), None);
        for address in [1, 0xFFFF] {
            assert_eq!(read(nowhere(address)).unwrap_err().code, HResult::E_POINTER);
            // SAFETY: refused unread.
            assert_eq!(unsafe { id(nowhere(address)) }.unwrap_err().code, HResult::E_POINTER);
            let refused = Place::<usize>::check(std::ptr::without_provenance_mut(address));
            assert_eq!(refused.unwrap_err().code, HResult::E_POINTER);
        }
        // SAFETY: refused unread.
        let (no_id, no_text) = unsafe { (id(std::ptr::null()), needed_text(std::ptr::null())) };
        assert_eq!(no_id.unwrap_err().code, HResult::E_POINTER);
        assert_eq!(no_text.unwrap_err().code, HResult::INVALID_PARAMETER);
    }

    #[test]
    fn text_without_an_end_is_refused() {
        let endless = vec![0x61_u16; LONGEST + 1];
        assert_eq!(read(endless.as_ptr()).unwrap_err().code, HResult::INVALID_PARAMETER);
    }

    #[test]
    #[expect(clippy::cast_ptr_alignment, reason = "a wrong alignment is what is tested")]
    fn ids_and_places_need_not_be_aligned() {
        let wanted = Guid::from_u128(0x0011_2233_4455_6677_8899_AABB_CCDD_EEFF);
        let raw = guid::to_raw(wanted);
        let mut bytes = [0_u8; 17];
        // SAFETY: 16 bytes fit behind the first; the place is written unaligned.
        unsafe { bytes[1..].as_mut_ptr().cast::<GUID>().write_unaligned(raw) };
        // SAFETY: it was just written.
        assert_eq!(unsafe { id(bytes[1..].as_ptr().cast()) }.unwrap(), wanted);
        let place = Place::check(bytes[1..].as_mut_ptr().cast::<u64>()).unwrap().unwrap();
        // SAFETY: the bytes live.
        unsafe { place.store(u64::MAX) };
        assert_eq!(bytes[1..9], [0xFF; 8]);
    }
}
