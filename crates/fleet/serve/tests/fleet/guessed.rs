//! Tests of deliveries with arbitrary values in arbitrary fields.

use crate::sound::{delivery, series, windows};

/// Values that a malicious program would try.
const VALUES: [&str; 20] = [
    "null",
    "true",
    "0",
    "-1",
    "1",
    "1e308",
    "-1e400",
    "0.5",
    "\"\"",
    "[]",
    "{}",
    "[[]]",
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775807",
    "-9223372036854775808",
    "4294967296",
    "\"\\u0000\"",
    "\"2262-04-11T23:47:16.9Z\"",
    "\"-009999-01-01T00:00:00Z\"",
];

/// Returns the number of cases. Automated checks have time for only a few.
fn cases() -> u16 {
    let given = std::env::var("PUNCTUAL_TEST_CASES").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(30)
}

#[test]
fn whatever_is_accepted_is_kept_and_shown() {
    let (mut kept, mut state) = (0, 7_u64);
    for _ in 0..cases() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let place = ((state >> 33) as u16).to_le_bytes();
        for value in VALUES {
            let case = [&[2][..], &place, value.as_bytes()].concat();
            // The output shows which case panicked.
            println!("{} {value}", u16::from_le_bytes(place));
            kept += u64::from(delivery(&case).is_some());
            kept += u64::from(windows(&case).is_some());
        }
    }
    assert!(kept > 0, "nothing is ever accepted");
    for header in ["", "{", "[]", "{\"name\":1}", "\0"] {
        assert!(!series(header.as_bytes()));
    }
}
