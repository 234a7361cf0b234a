//! HCN queries and their filters: no input panics.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    transom_fuzz::filter(data);
});
