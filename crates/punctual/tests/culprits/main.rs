//! Delays of known kind and length on this machine, and whether they are
//! blamed: ground truth, not eyeballing.
//!
//! Each scene makes a thread late in one way, and measures beside it how much
//! that way took. The share of the blame must agree within 10% or 20 µs. Other
//! programs and a hypervisor may take time meanwhile, so a scene is played a
//! few times, and one of them must come out; what was seen is printed. Where a
//! right or the tracing is not there, a line says SKIP.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod application;
mod calls;
mod moves;
mod own;
mod stage;
mod storms;
mod threads;
