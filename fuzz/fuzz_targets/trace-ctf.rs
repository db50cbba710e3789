#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| drop(punctual_fuzz::ctf(bytes)));
