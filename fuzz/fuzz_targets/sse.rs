//! libFuzzer entry of the `sse` target; the body is `ap_fuzz::server_sent`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ap_fuzz::server_sent(data));
