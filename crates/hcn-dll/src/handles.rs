//! Handles: numbers that stand for objects. Nothing is ever read through one, and none is used twice, so that a wrong,
//! closed or made-up one is an error and nothing else. It must not know what the objects are.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use hcn::{HResult, Result};
use hcn_abi::Handle;
use parking_lot::RwLock;

/// How far apart two handles are: their lowest bits are free, as a program expects of a handle.
const STEP: usize = 16;

/// The number of a process's first handle. It looks like a pointer of a program on 64 bits, as HNS's own handles do, and begins
/// elsewhere in each process. So what a program may hold by mistake is not a handle by chance, whatever number of them it has
/// opened: NULL, −1, an `int`, a socket, a handle of Windows, a handle that another process has printed.
fn first(random: u64) -> usize {
    const LOWEST: u64 = 1 << 44;
    const SPREAD: u64 = LOWEST - 1;
    let first = LOWEST | (random & SPREAD);
    // Only 64-bit Windows has the HCN API.
    usize::try_from(first).unwrap_or(0x1000_0000) & !(STEP - 1)
}

/// The handles of one kind of thing. One that is never closed costs some tens of bytes.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    things: RwLock<HashMap<usize, T>>,
    counter: &'static AtomicUsize,
}

/// Tables share one counter, so that a handle of another table is unknown in this one.
static COUNTER: LazyLock<AtomicUsize> = LazyLock::new(|| {
    // The keys of `RandomState` come from the system.
    AtomicUsize::new(first(RandomState::new().hash_one(0)))
});

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self { things: RwLock::default(), counter: LazyLock::force(&COUNTER) }
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
    fn what_a_program_holds_by_mistake_is_no_handle_however_many_are_open() {
        for random in [0, 1, 0x1234_5678_9ABC_DEF0, u64::MAX] {
            let first = first(random);
            let last = first + (STEP << 40);
            assert_eq!(first % STEP, 0);
            // Beyond each 32-bit number, of either sign, and below where a program's addresses end.
            assert!(first > 1 << 40 && last < 1 << 47, "{random:#x}: {first:#x} to {last:#x}");
        }
        assert_ne!(first(1 << 20), first(1 << 30), "they begin elsewhere in another process");
        let handles = Handles::default();
        let opened: Vec<Handle> = (0..10_000).map(|_| handles.open(())).collect();
        assert!(opened.iter().all(|handle| handle.addr() > 1 << 40), "{:?}", opened[0]);
        for number in (0..0x20_0000).step_by(STEP) {
            assert!(handles.get(std::ptr::without_provenance_mut(number)).is_err(), "{number:#x}");
        }
    }

    #[test]
    fn a_handle_of_one_table_is_unknown_in_another() {
        let (one, other) = (Handles::default(), Handles::default());
        let handle = one.open(1);
        other.open(2);
        assert!(other.get(handle).is_err());
    }
}
