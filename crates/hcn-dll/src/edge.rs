//! Where a call enters and leaves. Everything that an export does runs inside [`call`]: it looks at the places, stores NULL
//! there, does the work, and turns what came of it into an `HRESULT`, a result and an error record.
//!
//! A panic ends here: what is on the other side cannot take one.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use hcn::error::ErrorRecord;
use hcn::{Error, ErrorClass, HResult, Result};
use hcn_abi::{HRESULT, Handle, PWSTR, wide};

use crate::arguments::{Place, bad_pointer};
use crate::memory;

/// All went well.
pub(crate) const S_OK: HRESULT = 0;

/// What an export hands out, and where it does.
pub(crate) trait Results {
    /// What the work gives.
    type Value;

    /// Looks at the places, and stores what stands for nothing in those that can be written.
    fn prepare(&self) -> Result<()>;

    /// Stores the value.
    fn store(self, value: Self::Value) -> Result<()>;
}

/// Nothing is handed out.
pub(crate) struct Nothing;

impl Results for Nothing {
    type Value = ();

    fn prepare(&self) -> Result<()> {
        Ok(())
    }

    fn store(self, (): ()) -> Result<()> {
        Ok(())
    }
}

/// Text, which the program frees.
pub(crate) struct Text(pub(crate) *mut PWSTR);

impl Results for Text {
    type Value = String;

    fn prepare(&self) -> Result<()> {
        clear(self.0, std::ptr::null_mut())
    }

    fn store(self, value: String) -> Result<()> {
        put(self.0, copy_out(&value)?)
    }
}

/// A handle.
pub(crate) struct Opened(pub(crate) *mut Handle);

impl Results for Opened {
    type Value = Handle;

    fn prepare(&self) -> Result<()> {
        clear(self.0, std::ptr::null_mut())
    }

    fn store(self, value: Handle) -> Result<()> {
        put(self.0, value)
    }
}

/// Any other plain value; the second is what stands for nothing.
pub(crate) struct Plain<T>(pub(crate) *mut T, pub(crate) T);

impl<T: Copy> Results for Plain<T> {
    type Value = T;

    fn prepare(&self) -> Result<()> {
        clear(self.0, self.1)
    }

    fn store(self, value: T) -> Result<()> {
        put(self.0, value)
    }
}

/// Two results; both places are looked at before either matters.
impl<A: Results, B: Results> Results for (A, B) {
    type Value = (A::Value, B::Value);

    fn prepare(&self) -> Result<()> {
        let (first, second) = (self.0.prepare(), self.1.prepare());
        first.and(second)
    }

    fn store(self, (first, second): Self::Value) -> Result<()> {
        self.0.store(first)?;
        self.1.store(second)
    }
}

fn clear<T: Copy>(pointer: *mut T, nothing: T) -> Result<()> {
    put(pointer, nothing)
}

#[expect(unsafe_code, reason = "writes where the program said that results go")]
fn put<T: Copy>(pointer: *mut T, value: T) -> Result<()> {
    let place = Place::check(pointer)?.ok_or_else(bad_pointer)?;
    // SAFETY: it was found writable just now. That a program gives memory back while a call is under way that writes to it
    // is the one thing that it must not do, and the exports say so.
    unsafe { place.store(value) };
    Ok(())
}

fn copy_out(text: &str) -> Result<PWSTR> {
    // JSON holds no NUL; the program would take one for the end.
    let units = wide::encode(text).ok_or_else(|| {
        Error::detailed(HResult::E_UNEXPECTED, "the answer holds a NUL, which would end it early")
    })?;
    memory::hand_out(&units).ok_or_else(|| HResult::OUT_OF_MEMORY.into())
}

/// One call. `record` is where an error record goes; NULL is allowed there.
pub(crate) fn call<R: Results>(
    record: *mut PWSTR,
    results: R,
    work: impl FnOnce() -> Result<R::Value>,
) -> HRESULT {
    let record = Place::check(record);
    if let Ok(Some(place)) = &record {
        #[expect(unsafe_code, reason = "writes where the program said that error records go")]
        // SAFETY: as in `put`.
        unsafe {
            place.store(std::ptr::null_mut());
        }
    }
    let prepared = results.prepare();
    let (record, ready) = match record {
        Ok(record) => (record, prepared),
        Err(error) => (None, Err(error)),
    };
    // What the closure may leave half done is behind locks that do not poison, or is asked of the server anew.
    let done = ready.and_then(|()| {
        catch_unwind(AssertUnwindSafe(|| work().and_then(|value| results.store(value))))
            .unwrap_or_else(|panic| Err(unexpected(&*panic)))
    });
    match done {
        Ok(()) => S_OK,
        Err(error) => fail(record.as_ref(), &error),
    }
}

/// One call without an error record.
pub(crate) fn plain_call<R: Results>(results: R, work: impl FnOnce() -> Result<R::Value>) -> HRESULT {
    call(std::ptr::null_mut(), results, work)
}

fn unexpected(panic: &(dyn Any + Send)) -> Error {
    let said = panic.downcast_ref::<&str>().copied();
    let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Error::detailed(HResult::E_UNEXPECTED, said.unwrap_or("a panic"))
}

fn fail(record: Option<&Place<PWSTR>>, error: &Error) -> HRESULT {
    // A server may send anything; a success it is not.
    let code = if error.code.is_failure() { error.code } else { HResult::E_FAIL };
    if let Some(place) = record
        && let Ok(text) = copy_out(&record_of(code, error).to_json())
    {
        #[expect(unsafe_code, reason = "writes where the program said that error records go")]
        // SAFETY: as in `put`.
        unsafe {
            place.store(text);
        }
    }
    code.0.cast_signed()
}

/// The error record. It is HNS's own, word for word, where HNS has refused. When there is no HNS to be had a real record has
/// nothing to add either, but here it says why: nobody else would tell the person who set this up.
fn record_of(code: HResult, error: &Error) -> ErrorRecord {
    let mut record = ErrorRecord::of(code);
    let told = matches!(code.class(), ErrorClass::Unavailable) || code == HResult::E_UNEXPECTED;
    if let Some(detail) = error.detail.as_deref().filter(|_| told) {
        record.error.push_str(detail);
        record.error.push_str(if detail.ends_with(['.', '?']) { " " } else { ". " });
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_and_leaves_the_places_empty() {
        let mut text: PWSTR = std::ptr::without_provenance_mut(8);
        let mut record: PWSTR = std::ptr::null_mut();
        let code = call(&raw mut record, Text(&raw mut text), || panic!("a mistake"));
        assert_eq!(HResult(code.cast_unsigned()), HResult::E_UNEXPECTED);
        assert!(text.is_null());
        assert!(taken(record).contains("Catastrophic failure. a mistake. "));
    }

    #[test]
    fn a_success_leaves_no_record_and_a_failure_no_result() {
        let mut text: PWSTR = std::ptr::without_provenance_mut(8);
        let mut record: PWSTR = std::ptr::without_provenance_mut(8);
        assert_eq!(call(&raw mut record, Text(&raw mut text), || Ok("[]".to_owned())), S_OK);
        assert!(record.is_null());
        assert_eq!(taken(text), "[]");

        let refused = || Err(Error::detailed(HResult::NETWORK_NOT_FOUND, "which one"));
        let code = call(&raw mut record, Text(&raw mut text), refused);
        assert_eq!(code.cast_unsigned(), HResult::NETWORK_NOT_FOUND.0);
        assert!(text.is_null());
        assert_eq!(
            taken(record),
            r#"{"Success":false,"Error":"The network was not found. ","ErrorCode":2151350273}"#
        );
    }

    #[test]
    fn what_is_no_failure_does_not_become_a_success() {
        let code = plain_call(Nothing, || Err(Error::new(HResult(0))));
        assert_eq!(code.cast_unsigned(), HResult::E_FAIL.0);
    }

    #[test]
    fn places_come_before_the_work() {
        let bad: *mut PWSTR = std::ptr::without_provenance_mut(0x100);
        let mut record: PWSTR = std::ptr::null_mut();
        let pointer = HResult::E_POINTER.0.cast_signed();
        assert_eq!(call(&raw mut record, Text(bad), || unreachable!()), pointer);
        assert!(taken(record).contains("Invalid pointer"));
        let mut text: PWSTR = std::ptr::without_provenance_mut(8);
        assert_eq!(call(bad, Text(&raw mut text), || unreachable!()), pointer);
        assert!(text.is_null(), "also when the other place is the bad one");
        let mut other: PWSTR = std::ptr::without_provenance_mut(8);
        let both = (Text(std::ptr::null_mut()), Text(&raw mut other));
        assert_eq!(plain_call(both, || unreachable!()), pointer);
        assert!(other.is_null());
    }

    /// A text that was handed out, which is freed.
    #[expect(unsafe_code, reason = "reads and frees what was handed out")]
    fn taken(text: PWSTR) -> String {
        assert!(!text.is_null());
        // SAFETY: it was handed out a moment ago and is freed once.
        unsafe {
            let read = wide::decode(text, 1 << 20).unwrap();
            memory::free(text.cast());
            read
        }
    }
}
