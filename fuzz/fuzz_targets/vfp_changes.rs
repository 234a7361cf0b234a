//! Lists of changes to a switch: what is refused changes nothing.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    transom_fuzz::vfp_changes(data);
});
