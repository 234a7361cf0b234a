//! Fault plans: no input panics, and what is read is written without loss.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    transom_fuzz::fault_plan(data);
});
