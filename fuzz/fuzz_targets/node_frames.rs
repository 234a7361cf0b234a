//! Frames: no input panics, and what is read keeps its bounds and checksums.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    transom_fuzz::node_frames(data);
});
