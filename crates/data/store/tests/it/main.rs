//! The store in one process, in one program. Tests with several processes or a database server are
//! programs of their own.

// Test helpers panic on errors, like the tests themselves.
#![allow(clippy::unwrap_used)]

mod causes;
#[path = "../common/mod.rs"]
mod common;
mod contract;
mod cut_off;
mod damage;
mod experiments;
mod keeping;
mod samples;
#[path = "../sound/mod.rs"]
mod sound;
mod windows;
mod years;
