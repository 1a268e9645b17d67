//! libFuzzer entry of the `json` target; the body is `ap_fuzz::json_text`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ap_fuzz::json_text(data));
