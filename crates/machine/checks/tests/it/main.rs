//! Tests the audit of simulated and recorded machines. All tests are in one program.

// Test helpers panic on errors, like the tests themselves.
#![allow(clippy::unwrap_used)]

mod case_list;
mod cases;
mod described;
mod explained;
mod machines;
mod settings;
mod trees;
mod whole;
