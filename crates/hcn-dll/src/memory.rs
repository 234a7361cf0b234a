//! Memory that crosses the edge: text that the program frees with `CoTaskMemFree`, and what of the program's own may be
//! read and written. It must not know what is in it.
//!
//! On Windows the COM task allocator is used and the system is asked about pages. Elsewhere the library is for tests: blocks
//! come from the C library's allocator and are counted, and only the first 64 KiB count as unusable.

use std::ffi::c_void;

/// Addresses below are never anyone's: Windows keeps the first 64 KiB of every process free.
pub(crate) const LOWEST: usize = 0x1_0000;

/// Copies values into a block that the program frees. `None`: there is no memory.
#[expect(unsafe_code, reason = "writes the block that was just allocated")]
pub(crate) fn hand_out<T: Copy>(values: &[T]) -> Option<*mut T> {
    let block = system::allocate(size_of_val(values)).cast::<T>();
    if block.is_null() {
        return None;
    }
    // SAFETY: the block is that long, aligned for any plain value (16 bytes), and nobody else's.
    unsafe { block.copy_from_nonoverlapping(values.as_ptr(), values.len()) };
    Some(block)
}

/// Frees what an export has handed out.
///
/// # Safety
///
/// The block is one that was handed out and is not freed yet, or NULL.
#[expect(unsafe_code, reason = "frees")]
pub unsafe fn free(block: *const c_void) {
    // SAFETY: the caller's promise.
    unsafe { system::free_block(block) }
}

/// How many bytes from here on may be read, as far as that can be told at once; 0: none.
pub(crate) fn readable(start: usize) -> usize {
    if start < LOWEST { 0 } else { system::readable(start) }
}

/// Whether so many bytes from here on may be written.
pub(crate) fn is_writable(start: usize, bytes: usize) -> bool {
    start >= LOWEST
        && start
            .checked_add(bytes)
            .is_some_and(|end| system::is_writable(start) && system::is_writable(end - 1))
}

/// Whether a function may be there.
pub(crate) fn is_executable(start: usize) -> bool {
    start >= LOWEST && system::is_executable(start)
}

#[cfg(not(windows))]
pub use system::in_use;

#[cfg(not(windows))]
#[expect(unsafe_code, reason = "calls of the C library")]
mod system {
    use std::collections::HashSet;
    use std::ffi::c_void;

    use parking_lot::Mutex;

    unsafe extern "C" {
        fn malloc(bytes: usize) -> *mut c_void;
        fn free(block: *mut c_void);
    }

    static BLOCKS: Mutex<Option<HashSet<usize>>> = Mutex::new(None);

    pub(super) fn allocate(bytes: usize) -> *mut c_void {
        // SAFETY: any size may be asked for.
        let block = unsafe { malloc(bytes.max(1)) };
        if !block.is_null() {
            BLOCKS.lock().get_or_insert_default().insert(block.addr());
        }
        block
    }

    pub(super) unsafe fn free_block(block: *const c_void) {
        // One that is not known is of the other library: a program frees all with one function.
        if let Some(blocks) = BLOCKS.lock().as_mut() {
            blocks.remove(&block.addr());
        }
        // SAFETY: the caller's promise; the C library's allocator is one for the whole process, and takes NULL.
        unsafe { free(block.cast_mut()) };
    }

    /// How many blocks the program has not freed.
    pub fn in_use() -> usize {
        BLOCKS.lock().as_ref().map_or(0, HashSet::len)
    }

    pub(super) const fn readable(start: usize) -> usize {
        usize::MAX - start
    }

    pub(super) const fn is_writable(_: usize) -> bool {
        true
    }

    pub(super) const fn is_executable(_: usize) -> bool {
        true
    }
}

#[cfg(windows)]
#[expect(unsafe_code, reason = "calls of the system")]
mod system {
    use std::ffi::c_void;

    use windows_sys::Win32::System::Com::{CoTaskMemAlloc, CoTaskMemFree};
    use windows_sys::Win32::System::Memory::{
        MEM_COMMIT, MEMORY_BASIC_INFORMATION, PAGE_EXECUTE, PAGE_EXECUTE_READ, PAGE_EXECUTE_READWRITE,
        PAGE_EXECUTE_WRITECOPY, PAGE_GUARD, PAGE_READONLY, PAGE_READWRITE, PAGE_WRITECOPY, VirtualQuery,
    };

    const WRITABLE: u32 = PAGE_READWRITE | PAGE_WRITECOPY | PAGE_EXECUTE_READWRITE | PAGE_EXECUTE_WRITECOPY;
    const EXECUTABLE: u32 =
        PAGE_EXECUTE | PAGE_EXECUTE_READ | PAGE_EXECUTE_READWRITE | PAGE_EXECUTE_WRITECOPY;
    const READABLE: u32 = PAGE_READONLY | PAGE_EXECUTE_READ | WRITABLE;

    pub(super) fn allocate(bytes: usize) -> *mut c_void {
        // SAFETY: any size may be asked for.
        unsafe { CoTaskMemAlloc(bytes) }
    }

    pub(super) unsafe fn free_block(block: *const c_void) {
        // SAFETY: the caller's promise.
        unsafe { CoTaskMemFree(block) }
    }

    /// How many bytes from here on lie in pages of one kind, if that kind is one of these.
    fn pages(start: usize, kinds: u32) -> usize {
        let mut found = MEMORY_BASIC_INFORMATION::default();
        // SAFETY: the place is as long as is said; no address is wrong to ask about.
        let known = unsafe { VirtualQuery(start as *const c_void, &raw mut found, size_of_val(&found)) };
        if known == 0
            || found.State != MEM_COMMIT
            || found.Protect & PAGE_GUARD != 0
            || found.Protect & kinds == 0
        {
            return 0;
        }
        (found.BaseAddress.addr() + found.RegionSize).saturating_sub(start)
    }

    pub(super) fn readable(start: usize) -> usize {
        pages(start, READABLE)
    }

    pub(super) fn is_writable(at: usize) -> bool {
        pages(at, WRITABLE) > 0
    }

    pub(super) fn is_executable(at: usize) -> bool {
        pages(at, EXECUTABLE) > 0
    }
}

#[cfg(test)]
#[expect(unsafe_code, reason = "reads and frees what is handed out")]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_out_holds_the_text_and_is_freed_once() {
        let block = hand_out(&[0x61_u16, 0x62, 0]).unwrap();
        // SAFETY: three units were written.
        assert_eq!(unsafe { std::slice::from_raw_parts(block, 3) }, [0x61, 0x62, 0]);
        // SAFETY: it is freed here and not again; NULL is allowed.
        unsafe {
            free(block.cast());
            free(std::ptr::null());
        }
    }

    #[test]
    fn the_first_pages_and_the_end_are_nobodys() {
        for bad in [0, 1, LOWEST - 1] {
            assert_eq!(readable(bad), 0);
            assert!(!is_writable(bad, 1) && !is_executable(bad));
        }
        assert!(!is_writable(usize::MAX - 3, 8), "it would go over the end");
        let mut here = 0_u64;
        assert!(is_writable((&raw mut here).addr(), 8));
        assert!(readable((&raw const here).addr()) >= 8);
    }
}
