//! The structures that this module shares with `bpf/lint.bpf.c`.

#![allow(unsafe_code)]

use aya::Pod;
use punctual_model::{Act, ActKind, InCall, Nanos};

use crate::bpf::text;

const FRAMES: usize = 12;
const WORDS: usize = 64;
const NAME: usize = 64;

/// `struct site`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Site {
    kind: u32,
    tid: u32,
    call: i32,
    other: u32,
    arguments: [u64; 2],
    stack: [u64; FRAMES],
}

/// `struct tally`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Tally {
    count: u64,
    longest: u64,
    address: u64,
    priority: i32,
    other_priority: i32,
    comm: [u8; 16],
    other_comm: [u8; 16],
    name: [u8; NAME],
    words: [u64; WORDS],
}

/// `struct cpu`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Cpu {
    pub(super) lost: u64,
    pub(super) switches: u64,
    pub(super) execs: u64,
    interrupts: u32,
    timer: u32,
    softirq_task: u32,
    softirq: u32,
}

// SAFETY: the members are integers and arrays of integers, without padding, so any bytes are a
// valid value.
unsafe impl Pod for Site {}
// SAFETY: as above.
unsafe impl Pod for Tally {}
// SAFETY: as above.
unsafe impl Pod for Cpu {}

impl Site {
    /// Converts the site to an act; `None` if its kind is unknown.
    pub(super) fn act(&self, tally: &Tally) -> Option<Act> {
        Some(Act {
            kind: *ActKind::ALL.get(self.kind as usize)?,
            tid: self.tid,
            comm: text(&tally.comm),
            call: match self.call {
                -1 => InCall::None,
                number @ 0.. => InCall::Number(number.into()),
                _ => InCall::Unknown,
            },
            arguments: self.arguments,
            other: self.other,
            other_comm: text(&tally.other_comm),
            name: text(&tally.name),
            priorities: (tally.priority, tally.other_priority),
            stack: self.stack.into_iter().take_while(|at| *at > 0).collect(),
            words: tally.words.to_vec(),
            count: tally.count,
            max: (tally.longest > 0).then_some(Nanos(tally.longest)),
            address: tally.address,
        })
    }
}
