//! libFuzzer entry of the `schema` target; the body is `ap_fuzz::schema`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ap_fuzz::schema(data));
