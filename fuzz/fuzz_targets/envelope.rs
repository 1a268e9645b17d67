//! libFuzzer entry of the `envelope` target; the body is `ap_fuzz::envelope`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ap_fuzz::envelope(data));
