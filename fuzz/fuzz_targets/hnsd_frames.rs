//! Frames and messages of the protocol that serves HNS to other processes: none panics, none is cut wrongly or lost.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    transom_fuzz::hnsd_frames(data);
});
