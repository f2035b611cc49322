#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| clientmcp_fuzz::check("upstream", data));
