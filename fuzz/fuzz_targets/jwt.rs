//! libFuzzer entry of the `jwt` target; the body is `ap_fuzz::token`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ap_fuzz::token(data));
