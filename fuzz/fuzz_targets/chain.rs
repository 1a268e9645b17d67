//! libFuzzer entry of the `chain` target; the body is `ap_fuzz::chain`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ap_fuzz::chain(data));
