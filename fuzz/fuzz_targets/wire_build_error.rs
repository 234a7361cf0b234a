//! Answers to frames: no input panics, and answers are whole.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    transom_fuzz::wire_build_error(data);
});
