//! Delays of known kind and length on this machine, and whether they are
//! blamed: ground truth, not eyeballing.
//!
//! Each scene makes a thread late in one way, and measures beside it how much
//! that way took. The share of the blame must agree within 10% or 20 µs; what
//! came on top meanwhile, as interrupts or a hypervisor do, a thread that looks at
//! the clock takes for its own time, and blame does not: so much it may be less. A
//! scene is played again where others disturbed it beyond that; what was seen is
//! printed. Where a right or the tracing is not there, a line says SKIP.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod application;
mod calls;
#[path = "../common/mod.rs"]
mod common;
mod foreign;
mod jobs;
mod kernel;
mod moves;
mod own;
mod requested;
mod stage;
mod storms;
mod threads;
