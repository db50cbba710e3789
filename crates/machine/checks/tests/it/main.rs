//! Tests the audit of simulated and recorded machines. All tests are in one program.

// Test helpers panic on errors, like the tests themselves.
#![allow(clippy::unwrap_used)]

mod cases;
mod described;
mod machines;
mod settings;
mod trees;
