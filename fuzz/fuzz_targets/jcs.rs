//! libFuzzer entry of the `jcs` target; the body is `ap_fuzz::canonical`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ap_fuzz::canonical(data));
