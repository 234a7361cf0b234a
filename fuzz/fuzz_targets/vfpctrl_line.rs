//! Command lines: no input panics, and an error says something.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    transom_fuzz::vfpctrl_line(data);
});
