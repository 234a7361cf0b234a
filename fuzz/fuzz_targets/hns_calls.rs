//! Scripts of calls on an emulated HNS: no document panics, and nothing is left over when all is deleted.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    transom_fuzz::hns_calls(data);
});
