//! libFuzzer entry of the `replay` target; the body is `ap_fuzz::replay`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ap_fuzz::replay(data));
