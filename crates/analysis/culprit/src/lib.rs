//! Finds the causes of a late reaction: splits its latency into shares that add up, based on the
//! kernel's trace events.
//!
//! **For:** [`find`], which attributes each part of one late reaction to a cause; [`explain`],
//! which also stores the segments that a plot shows; [`Tally`], which sums causes over a run and
//! finds periodic ones; [`LateWakeUps`], which finds late wake-ups of threads
//! in an event stream; [`LateReactions`], which finds late reactions in a foreign trace and collects
//! the events around them.
//!
//! **Knows:** the domain model, and the meaning of the kernel's events.
//!
//! **Must not know:** Linux's files, the source of the events, the display of a blame. All functions
//! are pure: nothing here makes a system call.
//!
//! # How a latency is split
//! The events are processed in order of time. Each event updates the known state of its CPU (the
//! current thread, the handlers on top of it, whether it is idle) or of the victim (asleep,
//! stopped, runnable, running). The time between two events is charged to whatever delayed the
//! victim during that time, on the CPU that mattered: first the CPU of its timer interrupt, then
//! the CPU that it waited for.
//!
//! The segments cover the time from expected to actual without gaps or overlaps, so their lengths
//! add up to the latency for any stream of events. If the events contradict each other, a share can
//! have a wrong name, but the sum is always correct.
//!
//! # Causes are data
//! A cause is an enum with its data ([`punctual_model::cause`]), chosen in `judge`. Neighbouring
//! segments with equal causes are merged. A recording keeps the causes; only the model turns them
//! into text, when they are shown.
//!
//! # Stolen time
//! A hypervisor or the firmware may take the CPU while a thread or handler is current on it. The
//! events before and after then look as if the thread or handler had run for longer. So time that
//! is charged to running code is checked against the counters of stolen time (`theft`).
//!
//! # Unknown parts stay visible
//! If events were not recorded ([`punctual_model::Window::missing_events`]) and one of them would
//! have been decisive, the share is `unexplained` and names the missing event. The same applies to
//! a CPU without any events.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod alike;
mod blame;
mod cause_span;
mod chains;
mod context;
mod counters;
mod events;
mod finder;
mod functions;
mod gap;
mod held;
mod host;
mod idle;
mod job;
mod judge;
pub mod lint;
mod noise;
mod perf_times;
mod period;
mod policies;
mod scene;
mod scheduler;
mod stream;
mod tally;
#[cfg(test)]
mod testing;
mod theft;
mod thread_times;
mod throttle;
mod timeline;
mod victim;
mod walk;
mod without;

pub use alike::alike;
pub use blame::{Found, explain, find};
pub use chains::{ChainFinder, ChainStart};
pub use counters::JobCounters;
pub use finder::{Late, LateWakeUps, OpenLate, Wait, WithoutEnd};
pub use host::away_and_unknown;
pub use job::{
    Call, CallKind, CallNumbers, Counted, FoundRelease, Job, JobFinder, JobSeen, OpenJobSeen,
    Process, SeenWaits, add_preempted, interrupt_source, is_name_of_jvm, keep_concerned,
    preempted_meanwhile, thread_activity,
};
pub use perf_times::PerfSums;
pub use period::find_period;
pub use policies::{PolicyWatch, RefusedCalls};
pub use stream::{
    DueTimers, HostView, LateFound, LateReactions, OpenWait, Reaction, ThreadWaits, TraceFacts,
    VirtualCpus, Wanted,
};
pub use tally::{Tally, complete};
pub use thread_times::ThreadSums;
pub use without::{Without, not_examined, without};
