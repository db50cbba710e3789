//! What a real-time thread asks of Linux.
//!
//! **For:** starting a thread with its scheduling policy, CPUs and stack in
//! order before its first instruction runs; keeping memory in RAM; reading
//! clocks; waking up periodically at absolute times; getting a blocked thread
//! to stop; and counting what a thread cost.
//!
//! **Knows:** Linux system calls, on glibc and musl alike, and the privileges
//! they need: each refusal is an [`Error`] of its own that names the
//! capability or resource limit and how to get it.
//!
//! **Must not know:** anything else of punctual: neither its histograms nor
//! its recordings. Nothing here decides what a latency is. Apart from the lists
//! of CPUs, the peak of the process's memory, and the file that the caller
//! names for [`DmaLatency`], it reads and writes no files.
//!
//! The paths that run in a loop ([`Clock::now`], [`PeriodicWait::wait_until`])
//! make no allocation and take no lock.
#![doc = "\n\n"]
#![doc = include_str!("../README.md")]
#![deny(unsafe_op_in_unsafe_fn)]

pub mod affinity;
mod clock;
mod deadline;
mod dma_latency;
mod echo;
mod error;
mod guard;
mod inherit;
pub mod interrupt;
mod ipc;
mod limits;
mod memory;
mod periodic;
mod policy;
mod policy_kind;
mod posix_clock;
mod signal;
mod spin;
mod sync;
mod tcp;
mod thread;
mod tid;
mod tsc;
mod usage;
mod wait;

pub use clock::{Clock, Instant, clock_is_synchronized};
pub use deadline::DeadlineThread;
pub use dma_latency::DmaLatency;
pub use echo::EchoProcess;
pub use error::Error;
pub use guard::{
    AllocationGuard, CountingAllocator, KEPT_VIOLATIONS, PageFaultGuard, SystemCallGuard,
    Violation, Violations,
};
pub use inherit::{inherited, spawn_with};
pub use ipc::{EventFd, MessageQueue, SystemVSemaphore};
pub use limits::{Limit, has_rights_of_its_file, may_lock_memory};
pub use memory::{
    Backing, Mapping, MappingRequest, MemoryFile, NewMappingMode, NewMappings, SharedNumbers,
    release_heap,
};
pub use memory::{
    LockMode, LockedBuffer, MemoryLock, keep_heap, lock_process_memory, prefault_stack, share_heap,
};
pub use periodic::{Job, OverrunPolicy, Periodic, PeriodicAccount};
pub use policy::{
    Policy, current_policy, max_permitted_priority, policy_of, priority_range, set_policy,
};
pub use policy_kind::PolicyKind;
pub use posix_clock::PosixClock;
pub use signal::{SignalPort, SignalWay, send_signal, send_signal_to};
pub use spin::{spin_for, spin_until};
pub use sync::{
    Barrier, Futex, Monitor, MonitorGuard, Mutex, MutexGuard, Notified, Protocol, Semaphore, Waited,
};
pub use sync::{PthreadMonitor, PthreadMonitorGuard, SharedFutex};
pub use tcp::{TcpCork, send_at_once};
pub use thread::{JoinHandle, ScopedJoinHandle, ThreadBuilder};
pub use tid::{ThreadRef, Tid, current_tid};
pub use tsc::{Tsc, TscRate};
pub use usage::{ProcessUsage, ThreadUsage, process_usage, thread_usage};
pub use wait::{Nanosleep, PeriodicWait, SignalTimer, TimerFd, Wake};
