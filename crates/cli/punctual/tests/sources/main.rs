//! Tests of the repository itself: structure, language, handbook and generated pages.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

#[path = "../it/common/mod.rs"]
mod common;
mod generated;
mod handbook;
mod language;
mod shapes;
mod structure;
