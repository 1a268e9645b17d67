//! libFuzzer entry of the `ids` target; the body is `ap_fuzz::ids`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ap_fuzz::ids(data));
