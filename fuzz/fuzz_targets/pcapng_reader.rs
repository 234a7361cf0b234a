//! Captures: no input panics, and what is read can be written.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    transom_fuzz::pcapng_reader(data);
});
