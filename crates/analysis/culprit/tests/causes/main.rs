//! Each cause, by a stream of events made by hand: what is blamed, and how it
//! is said.

#![allow(clippy::unwrap_used)]

mod any_stream;
mod blocking;
mod calls;
mod finding;
mod idle;
mod interrupts;
mod jobs;
mod locks;
mod missing;
mod moved;
mod page_faults;
mod silence;
mod softirqs;
mod steps;
mod stopped;
mod stream;
mod taken;
mod theft;
mod threads;
mod throttled;
