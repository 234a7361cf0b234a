//! Frames into a programmed switch: no input panics, and what comes out is whole.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    transom_fuzz::vfp_frames(data);
});
