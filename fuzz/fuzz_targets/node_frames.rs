//! Frames: no input panics in a programmed node, and what comes out is well formed with right checksums.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    transom_fuzz::node_frames(data);
});
