//! Tests of documents in each output format, combined into one program.

// Test helpers panic on errors, like the tests themselves.
#![allow(clippy::unwrap_used)]

mod certificate;
mod claims;
mod common;
mod compared;
mod hostile;
mod looks;
mod odd;
mod outlier;
mod pdf;
