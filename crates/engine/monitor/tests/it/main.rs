//! Plans and the service, in one program.

// Test helpers panic on errors, like the tests themselves.
#![allow(clippy::unwrap_used)]

mod reading;
mod serving;
