//! HNS v1 documents: no input panics, and the conversion to v2 and back keeps everything.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    transom_fuzz::v1_document(data);
});
