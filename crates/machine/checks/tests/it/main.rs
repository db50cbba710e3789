//! The audit of simulated and recorded machines, in one program.

// Test helpers panic on errors, like the tests themselves.
#![allow(clippy::unwrap_used)]

mod cases;
mod machines;
mod settings;
mod trees;
