//! Causes delays of known kind and length on this machine, and compares them with their
//! explanations. The explanations are therefore checked against measured values, not by inspection.
//!
//! Each scene delays a thread in one way and measures the delay. The share in the explanation must
//! agree within 10% or 20 µs. A thread that measures with the clock also counts interrupts and the
//! time of a hypervisor. The explanation lists these separately, so its share may be smaller by
//! that time. If other programs disturbed a scene more than that, the scene is repeated, and its
//! result is printed. Without the privilege or tracing, the test prints SKIP.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod application;
mod at_once;
mod calls;
mod chains;
#[path = "../it/common/mod.rs"]
mod common;
mod foreign;
mod forms;
mod jobs;
mod kernel;
mod light;
mod many_threads;
mod moves;
mod own;
mod pools;
mod profiles;
mod recorders;
mod releases;
mod requested;
mod runtimes;
mod siblings;
mod spins;
mod stage;
mod storms;
mod threads;
mod timers;
mod wait_stacks;
