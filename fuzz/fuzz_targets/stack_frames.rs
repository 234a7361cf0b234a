//! Frames: no input panics in an IP stack, and what it sends is well formed.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    transom_fuzz::stack_frames(data);
});
