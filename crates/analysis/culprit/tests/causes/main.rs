//! Tests of the shares and the wording of each cause, with hand-made event streams.

#![allow(clippy::unwrap_used)]

mod any_stream;
mod blocking;
mod calls;
mod clocks;
mod concerned;
mod cut_off;
mod details;
mod ended_waits;
mod facts;
mod finding;
mod foreign;
mod functions;
mod go_stops;
mod held;
mod host;
mod idle;
mod interrupts;
mod job_faults;
mod job_limits;
mod job_locks;
mod jobs;
mod jvm;
mod kept;
mod light;
mod limits;
mod locks;
mod made;
mod missing;
mod moved;
mod page_faults;
mod preempters;
mod silence;
mod softirqs;
mod spins;
mod steps;
mod stopped;
mod stream;
mod taken;
#[path = "../../src/testing.rs"]
#[allow(dead_code, reason = "the unit tests use the rest")]
mod testing;
mod theft;
mod threads;
mod throttled;
mod timerlat;
mod timers;
mod tracers;
mod unfinished;
mod unrelated;
mod work;
