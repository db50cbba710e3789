//! Called by the names of older tools: their lines, files and exit status, and
//! what other people's scripts make of them.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod cyclictest;
mod cyclictest_runs;
mod deadline;
mod files;
mod hwlatdetect;
mod links;
mod pairs;
mod parsers;
mod stage;
