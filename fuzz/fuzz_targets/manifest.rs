//! Kubernetes manifests: no input panics, here or in the views made of them.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    transom_fuzz::manifest(data);
});
