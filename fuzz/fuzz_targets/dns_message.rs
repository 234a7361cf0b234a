//! Messages to a DNS server: no input panics, and what is answered can be read and belongs to its question.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    transom_fuzz::dns_message(data);
});
