#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fabricmark_fuzz::ntp(bytes));
