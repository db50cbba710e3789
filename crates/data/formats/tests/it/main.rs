//! Tests that read and write files of other tools, combined into one program.

// Test helpers panic on errors, like the tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod agreement;
mod both_ways;
mod common;
mod hostile;
mod import;
mod round_trip;
mod rt_tests;
#[path = "../sound/mod.rs"]
mod sound;
