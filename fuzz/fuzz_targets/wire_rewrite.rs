//! Rewriting: no input panics, and right checksums stay right.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    transom_fuzz::wire_rewrite(data);
});
