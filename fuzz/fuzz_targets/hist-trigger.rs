#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| punctual_fuzz::read("hist-trigger", bytes));
