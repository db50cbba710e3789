//! Delays of known kind and length on this machine, compared with their explanations: ground truth,
//! not visual inspection.
//!
//! Each scene delays a thread in one way and measures the delay. The share of the explanation must
//! agree within 10% or 20 µs. A thread that measures with the clock also includes interrupts and
//! time of a hypervisor. The explanation lists these separately, so the share may be smaller by
//! that time. If other programs disturbed a scene by more, it is repeated, and its result is
//! printed. Without the privilege or tracing, the test prints SKIP.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod application;
mod calls;
#[path = "../it/common/mod.rs"]
mod common;
mod foreign;
mod jobs;
mod kernel;
mod many_threads;
mod moves;
mod own;
mod recorders;
mod requested;
mod stage;
mod storms;
mod threads;
