//! The library as it is built: every name is there, and a call through it comes back.

#![cfg(unix)]
#![expect(unsafe_code, reason = "loads a library and calls what is in it")]

use std::path::PathBuf;

use hcn_abi::{Enumerate, HnsCall, PWSTR, names};
use libloading::{Library, Symbol};

const VMCOMPUTE: &str = "libvmcompute.so";

/// A library beside the test's own file: cargo builds it there because the test depends on its other form.
fn library(name: &str) -> Library {
    assert!(computenetwork::EXPORTS.len() > vmcompute::EXPORTS.len());
    let path: PathBuf = std::env::current_exe().unwrap().with_file_name(name);
    // SAFETY: loading it runs nothing of ours.
    unsafe { Library::new(&path) }.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_built_library_has_every_name() {
    let library = library(VMCOMPUTE);
    for name in vmcompute::EXPORTS {
        // SAFETY: the symbol is looked at and not called.
        let found: Result<Symbol<'_, unsafe extern "system" fn()>, _> = unsafe { library.get(*name) };
        found.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    assert!(vmcompute::EXPORTS.contains(&names::HNS_CALL));
}

#[test]
fn hns_is_asked_and_compute_systems_are_not() {
    let (library, memory) = (library(VMCOMPUTE), library("libcomputenetwork.so"));
    let (mut out, mut result): (PWSTR, PWSTR) = (std::ptr::without_provenance_mut(8), std::ptr::null_mut());
    let get: Vec<u16> = hcn_abi::wide::encode("GET").unwrap();
    // SAFETY: the types are the API's; the places are locals; what comes back is read and freed once.
    unsafe {
        let call: Symbol<'_, HnsCall> = library.get(names::HNS_CALL).unwrap();
        let code = call(get.as_ptr(), get.as_ptr(), std::ptr::null(), &raw mut out);
        assert_eq!(code.cast_unsigned(), 0x8007_0424, "nothing is set up for this test");
        assert!(out.is_null());
        let free: Symbol<'_, hcn_abi::CoTaskMemFree> = memory.get("CoTaskMemFree").unwrap();
        let systems: Symbol<'_, Enumerate> = library.get("HcsEnumerateComputeSystems").unwrap();
        assert_eq!(systems(std::ptr::null(), &raw mut out, &raw mut result), 0);
        assert_eq!(hcn_abi::wide::decode(out, 16).as_deref(), Some("[]"));
        assert!(result.is_null());
        free(out.cast());
        let (mut system, mut result): (PWSTR, PWSTR) =
            (std::ptr::without_provenance_mut(8), std::ptr::without_provenance_mut(8));
        let open: Symbol<'_, Enumerate> = library.get("HcsOpenComputeSystem").unwrap();
        assert_eq!(open(get.as_ptr(), &raw mut system, &raw mut result).cast_unsigned(), 0x8000_4001);
        assert!(system.is_null() && result.is_null());
    }
}
