//! Handles: numbers that stand for objects. Nothing is ever read through one, and none is used twice, so that a wrong,
//! closed or made-up one is an error and nothing else. It must not know what the objects are.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use hcn::{HResult, Result};
use hcn_abi::Handle;
use parking_lot::RwLock;

/// The number of the first handle, and how far apart two are: as a program expects of a handle they are never NULL nor −1, and
/// their lowest bits are free.
const FIRST: usize = 0x1000;
const STEP: usize = 16;

/// The handles of one kind of thing. One that is never closed costs some tens of bytes.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    things: RwLock<HashMap<usize, T>>,
    counter: &'static AtomicUsize,
}

/// Tables share one counter, so that a handle of another table is unknown in this one.
static COUNTER: AtomicUsize = AtomicUsize::new(FIRST);

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self { things: RwLock::default(), counter: &COUNTER }
    }
}

/// The error of a handle that stands for nothing, or for something else.
fn unknown() -> hcn::Error {
    HResult::INVALID_HANDLE.into()
}

impl<T: Clone> Handles<T> {
    /// A handle for a thing.
    pub(crate) fn open(&self, thing: T) -> Handle {
        // On 64 bits the counter does not come around.
        let number = self.counter.fetch_add(STEP, Ordering::Relaxed);
        self.things.write().insert(number, thing);
        std::ptr::without_provenance_mut(number)
    }

    /// What a handle stands for.
    pub(crate) fn get(&self, handle: Handle) -> Result<T> {
        self.things.read().get(&handle.addr()).cloned().ok_or_else(unknown)
    }

    /// Closes a handle, if it stands for the right kind of thing.
    pub(crate) fn close(&self, handle: Handle, is_right: impl FnOnce(&T) -> bool) -> Result<T> {
        let mut things = self.things.write();
        if !things.get(&handle.addr()).is_some_and(is_right) {
            return Err(unknown());
        }
        things.remove(&handle.addr()).ok_or_else(unknown)
    }

    /// How many are open.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.things.read().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_ends_with_its_closing_and_is_not_used_again() {
        let handles = Handles::default();
        let first = handles.open("a");
        assert!(handles.close(first, |&thing| thing == "b").is_err(), "of the wrong kind");
        assert_eq!(handles.get(first).unwrap(), "a", "which leaves it open");
        assert_eq!(handles.close(first, |_| true).unwrap(), "a");
        for closed in [first, std::ptr::null_mut(), std::ptr::without_provenance_mut(usize::MAX)] {
            assert_eq!(handles.get(closed).unwrap_err().code, HResult::INVALID_HANDLE);
            assert_eq!(handles.close(closed, |_| true).unwrap_err().code, HResult::INVALID_HANDLE);
        }
        let later: Vec<Handle> = (0..100).map(|_| handles.open("c")).collect();
        assert!(!later.contains(&first));
        assert_eq!(handles.count(), 100);
    }

    #[test]
    fn a_handle_of_one_table_is_unknown_in_another() {
        let (one, other) = (Handles::default(), Handles::default());
        let handle = one.open(1);
        other.open(2);
        assert!(other.get(handle).is_err());
    }
}
