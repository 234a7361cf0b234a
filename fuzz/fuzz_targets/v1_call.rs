//! HNS v1 calls: no method, path or body panics, and every answer is an envelope.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    transom_fuzz::v1_call(data);
});
