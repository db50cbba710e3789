//! Tests of plans and of the service, in one test program.

// Test helpers panic on errors, like the tests themselves.
#![allow(clippy::unwrap_used)]

mod reading;
mod serving;
