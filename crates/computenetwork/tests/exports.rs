//! The library as it is built: every name is there, and a call through it comes back.

#![cfg(unix)]
#![expect(unsafe_code, reason = "loads a library and calls what is in it")]

use std::path::PathBuf;

use hcn_abi::{Enumerate, HnsCall, names};
use libloading::{Library, Symbol};

/// The library beside the test's own file: cargo builds it there because the test depends on its other form.
fn library() -> Library {
    let mut path: PathBuf = std::env::current_exe().unwrap();
    path.set_file_name("libcomputenetwork.so");
    // SAFETY: loading it runs nothing of ours.
    unsafe { Library::new(&path) }.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_exports_are_the_57_of_the_real_file() {
    let mut exports: Vec<&str> = computenetwork::EXPORTS.to_vec();
    exports.sort_unstable();
    assert_eq!(exports, names::computenetwork());
}

#[test]
fn the_built_library_has_them() {
    let library = library();
    for name in names::computenetwork() {
        // SAFETY: the symbol is looked at and not called.
        let found: Result<Symbol<'_, unsafe extern "system" fn()>, _> = unsafe { library.get(&*name) };
        found.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    // SAFETY: as above.
    let other: Result<Symbol<'_, HnsCall>, _> = unsafe { library.get(names::HNS_CALL) };
    assert!(other.is_err(), "that one is of the other library");
}

#[test]
fn a_call_comes_back_and_its_memory_is_freed() {
    let library = library();
    let (mut ids, mut record) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the types are the API's; the places are locals; what comes back is read and freed once.
    unsafe {
        let enumerate: Symbol<'_, Enumerate> = library.get("HcnEnumerateNetworks").unwrap();
        let free: Symbol<'_, hcn_abi::CoTaskMemFree> = library.get("CoTaskMemFree").unwrap();
        let code = enumerate(std::ptr::null(), &raw mut ids, &raw mut record);
        assert_eq!(code.cast_unsigned(), 0x8007_0424, "nothing is set up for this test");
        assert!(ids.is_null());
        let text = hcn_abi::wide::decode(record, 4096).unwrap();
        assert!(text.contains("TRANSOM_HNS"), "{text}");
        free(record.cast());
    }
}
