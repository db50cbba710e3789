//! Linux real-time facilities for threads.
//!
//! **For:** starting a thread whose scheduling policy, CPUs and stack are set before its first
//! instruction; locking memory; reading clocks; periodic wake-ups at absolute times; interrupting a
//! blocked thread; and measuring the resource usage of a thread.
//!
//! **Knows:** Linux system calls, on both glibc and musl, and the privileges they need. Each
//! refusal has a separate [`Error`] that names the missing capability or resource limit and
//! explains how to get it.
//!
//! **Must not know:** other parts of punctual, such as its histograms and recordings, or the
//! definition of a latency. It reads and writes no files except those with the CPU lists, the
//! threads and the peak memory of a process, and the file that the caller names for
//! [`DmaLatency`], [`GpioChip`] or [`PtpClock`].
//!
//! The functions for use in a loop ([`Clock::now`], [`PeriodicWait::wait_until`]) do not allocate
//! or lock.
#![doc = "\n\n"]
#![doc = include_str!("../README.md")]
#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod affinity;
mod clock;
mod deadline;
mod dma_latency;
mod echo;
mod error;
mod gpio;
mod gpio_error;
mod guard;
mod inherit;
pub mod interrupt;
mod ipc;
mod limits;
mod memory;
mod packet;
mod perf;
mod periodic;
mod policy;
mod policy_kind;
mod posix_clock;
mod ptp;
mod real_time;
mod sched_attr;
mod signal;
mod spin;
mod starvation;
mod starved;
mod stop_signal;
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
pub use gpio::{GpioChip, GpioChipInfo, GpioEdge, GpioEdges, GpioInput, GpioLineInfo, GpioOutput};
pub use gpio_error::GpioError;
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
pub use packet::packet_socket;
pub use perf::{CounterValues, PerfEvent, ThreadCounters, missing_counters, open_cpu_counter};
pub use periodic::{Job, OverrunPolicy, Periodic, PeriodicAccount};
pub use policy::{
    Policy, current_policy, max_permitted_priority, policy_of, priority_range, set_policy,
    set_policy_for_exec, time_slice,
};
pub use policy_kind::PolicyKind;
pub use posix_clock::PosixClock;
pub use ptp::{PtpClock, PtpMethod, PtpReading};
pub use real_time::{
    demote, demote_group, demote_own_threads, demote_threads_of, keep_inherited_policy,
};
pub use signal::{SignalPort, SignalWay, send_signal, send_signal_to};
pub use spin::{spin_for, spin_until};
pub use starvation::StarvationWatch;
pub use starved::{Occupant, Starved};
pub use stop_signal::{demote_at_signals, stop_at_signals};
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
