//! libFuzzer entry of the `archive` target; the body is `ap_fuzz::whole_archive`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ap_fuzz::whole_archive(data));
