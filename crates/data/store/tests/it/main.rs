//! Tests of the store in a single process, combined into one program. Tests with several processes
//! or a database server are separate programs.

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
mod upgrading;
mod windows;
mod years;
