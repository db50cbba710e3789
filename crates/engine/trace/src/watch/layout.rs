//! The structures that this module shares with `bpf/watch.bpf.c`.

#![allow(unsafe_code)]

use aya::Pod;
use punctual_model::{Nanos, ThreadSeen, WAIT_BUCKETS, WaitHistogram};

use crate::bpf::text;

/// Number of rows by class. Each class has one.
pub(super) const CLASSES: u32 = 4;

/// `struct row`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) count: u64,
    sum: u64,
    max: u64,
    pub(super) held: u64,
    buckets: [u64; WAIT_BUCKETS],
}

/// `struct name`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Name {
    pub(super) comm: [u8; 16],
    pub(super) class: u32,
    padding: u32,
    pub(super) group: u64,
}

/// `struct who`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Who {
    pid: u32,
    priority: i32,
    policy: u32,
    comm: [u8; 16],
}

/// `struct late`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Late {
    pub(super) woken: u64,
    pub(super) latency: u64,
    pub(super) culprit_ran: u64,
    pub(super) waker: u32,
    pub(super) victim: Who,
    pub(super) culprit: Who,
    padding: u32,
}

/// `struct note`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) woken: u64,
    pub(super) pid: u32,
    pub(super) waker: u32,
}

/// `struct cpu`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Cpu {
    switched_at: u64,
    pub(super) replaced: u64,
    pub(super) unnamed: u64,
    floor: u64,
    pub(super) writes: u64,
    pub(super) running: u32,
    padding: u32,
    pub(super) longest: [Late; 16],
}

// SAFETY: the members are integers and arrays of integers, and all padding is an explicit member,
// so any bytes are a valid value.
unsafe impl Pod for Row {}
// SAFETY: as above.
unsafe impl Pod for Name {}
// SAFETY: as above.
unsafe impl Pod for Cpu {}

impl Row {
    /// Returns the waits that have been counted in this row.
    pub(super) fn histogram(&self) -> WaitHistogram {
        let buckets = (0..).zip(self.buckets);
        WaitHistogram {
            count: self.count,
            sum_ns: self.sum,
            max_ns: Nanos(self.max),
            buckets: buckets.filter(|(_, count)| *count > 0).collect(),
        }
    }
}

impl Who {
    pub(super) fn seen(&self) -> ThreadSeen {
        ThreadSeen {
            tid: self.pid,
            comm: text(&self.comm),
            kernel_priority: self.priority,
            policy: Some(self.policy),
        }
    }
}
