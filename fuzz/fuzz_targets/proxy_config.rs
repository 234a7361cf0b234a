//! kube-proxy's configuration: no input panics, and what is read is written without loss.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    transom_fuzz::proxy_config(data);
});
