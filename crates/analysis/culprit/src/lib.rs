//! The causes of a late reaction: its time, split by the kernel's trace events into
//! shares that add up.
//!
//! **For:** [`find`], which says of one late reaction who took which part of
//! it; [`segments`], the same as stretches of time, for a picture;
//! [`Tally`], which sums causes up over a run and finds those that come in
//! equal intervals; [`LateWakeUps`], which finds late wake-ups of threads in a
//! stream of events.
//!
//! **Knows:** the domain model, and what the kernel's events mean.
//!
//! **Must not know:** Linux's files, where events come from, how a blame is
//! shown. Pure functions all: nothing here makes a system call.
//!
//! # How a latency is split
//! The events are walked through by time. Each changes what is known of its CPU
//! (what runs there, which handlers are on top of it, whether it is idle) or of
//! the victim (asleep, stopped, ready to run, running). The time between two
//! events is given to what stood in the victim's way then, on the CPU that
//! mattered for it: the one where its timer came, then the one it waited on.
//!
//! Since the stretches lie one after the other from the expected time to the
//! actual one, their lengths add up to the latency whatever the events say; a
//! stream that contradicts itself leads to a wrong name, never to a wrong sum.
//!
//! # Causes are data
//! A cause is an enum with its data (`cause`), chosen in `judge`; stretches of one
//! cause are one by comparing that. It becomes text in `describe` alone.
//!
//! # What no event shows
//! A hypervisor or the firmware may take the CPU while something is current there; the
//! events before and after look as if that had run for longer. So what is charged to
//! something that runs is held against the counters of stolen time (`theft`).
//!
//! # What is not known is said
//! Events that were not recorded ([`punctual_model::Window::missing_events`])
//! make a share `unexplained`, with the name of what is missing, where one of
//! them would have decided; so does a CPU of which no event was seen.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod blame;
mod cause;
mod context;
mod describe;
mod events;
mod finder;
mod gap;
mod job;
mod judge;
mod lane;
mod noise;
mod period;
mod scene;
mod sentence;
mod stretch;
mod tally;
mod theft;
mod throttle;
mod victim;
mod walk;

pub use blame::{Found, find, segments};
pub use finder::{Late, LateWakeUps, Wait, WithoutEnd};
pub use job::{
    Call, CallKind, CallNumbers, FoundRelease, Job, JobFinder, JobSeen, SeenWaits, keep_concerned,
    lanes,
};
pub use period::find_period;
pub use tally::Tally;
