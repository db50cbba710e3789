//! The recorder of jobs: BPF programs (`bpf/jobs.bpf.c`) that write what explains the
//! jobs of watched threads into rings of memory, which overwrite their oldest records.
//!
//! It takes the place of a scout and a flight recorder, and costs less: a system call of
//! another thread is no event, and of the watched threads only what begins and ends jobs is
//! read; the rest is copied and decoded where a job took too long.

mod bpf;
mod cost;
mod record;
mod rings;
mod tail;

use std::collections::BTreeMap;

use punctual_model::{EventKind, Nanos, Task, TraceEvent, event_names};

use crate::WatchError;
use crate::clock::monotonic;
use crate::flight::{Cut, Followed, Ordered, ScoutEvent};
#[cfg(test)]
pub(crate) use bpf::OBJECT;
use bpf::Programs;
pub use cost::CallCost;
use record::{EXEC, FORK, Record, Translator};
use rings::Rings;
use tail::Tail;

/// What a recorder of jobs needs to know.
#[derive(Clone, Copy, Debug)]
pub struct JobAsk {
    /// The largest number that a thread can have (kernel.pid_max).
    pub pid_max: u32,
}

/// A process that a watched thread made, or the program that one changed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Descent {
    /// `child` was forked by `parent`; it is not watched.
    Fork {
        /// The forking thread.
        parent: u32,
        /// The new process, under the name that it began with.
        child: Task,
    },
    /// A watched thread changed to another program: its new name.
    Exec(Task),
}

/// So many are kept.
const DESCENTS: usize = 64;

/// Running programs and their rings, until this is dropped.
#[derive(Debug)]
pub struct JobRecorder {
    programs: Programs,
    rings: Rings,
    cpus: Vec<Tail>,
    translator: Translator,
    followed: Followed,
    ordered: Ordered<ScoutEvent>,
    /// What is older was recorded in part.
    opened: Nanos,
    lost: u64,
    descents: Vec<Descent>,
}

impl JobRecorder {
    /// Loads and starts the programs; nothing is watched yet.
    ///
    /// # Errors
    /// A kernel without BTF, or one that refuses: rights, lockdown, age.
    pub fn start(ask: JobAsk) -> Result<Self, WatchError> {
        let (programs, rings, cpus) = Programs::start(ask)?;
        Ok(Self {
            programs,
            cpus: (0..cpus).map(Tail::of).collect(),
            rings,
            translator: Translator::default(),
            followed: Followed::default(),
            ordered: Ordered::default(),
            opened: Nanos::ZERO,
            lost: 0,
            descents: Vec::new(),
        })
    }

    /// Replaces what is followed.
    ///
    /// # Errors
    /// The kernel refuses to change a map.
    pub fn follow(&mut self, followed: &Followed) -> Result<(), WatchError> {
        self.programs.follow(&self.followed, followed)?;
        self.followed.clone_from(followed);
        Ok(())
    }

    /// Whether system calls are seen from now on, and what watched threads do is read. Forks
    /// and ends are, in any case.
    ///
    /// # Errors
    /// The kernel refuses to start a program again, or to change a map.
    pub fn open(&mut self, open: bool) -> Result<(), WatchError> {
        // A job of which only the calls or only the switches are listed would be a wrong one.
        if open {
            self.programs.see_calls(true)?;
            self.opened = monotonic();
        }
        self.programs.shut(!open)?;
        if !open {
            self.programs.see_calls(false)?;
        }
        Ok(())
    }

    /// Measures what it takes to record a system call, with some thousand calls of the
    /// calling thread. Nothing is watched after it.
    ///
    /// # Errors
    /// The kernel refuses to start a program again, or to change a map.
    pub fn measure_cost(&mut self) -> Result<CallCost, WatchError> {
        self.open(false)?;
        let alone = cost::of_a_call();
        self.open(true)?;
        let other = cost::of_a_call();
        self.follow(&Followed {
            tids: vec![punctual_rt::current_tid().as_raw().unsigned_abs()],
            ..Followed::default()
        })?;
        let watched = cost::of_a_call();
        self.follow(&Followed::default())?;
        // What was recorded is of no job.
        self.read();
        Ok(CallCost {
            other: other.saturating_sub(alone),
            watched: watched.saturating_sub(alone),
        })
    }

    /// What it took so far to record system calls, on all CPUs.
    pub fn taken(&self, cost: CallCost) -> Nanos {
        let calls = self.cpus.iter().map(|tail| self.rings.calls(tail.cpu));
        calls.fold(Nanos::ZERO, |sum, calls| sum + cost.of(calls))
    }

    /// The scheduler's events and system calls of the watched threads, by increasing time;
    /// what is newer than [`HELD_BACK`](crate::HELD_BACK) comes with a later call.
    pub fn read(&mut self) -> Vec<ScoutEvent> {
        let now = monotonic();
        let mut all = Vec::new();
        for tail in &mut self.cpus {
            let cpu = tail.cpu;
            let (translator, descents) = (&mut self.translator, &mut self.descents);
            let gap = tail.follow(&self.rings, |record| {
                note_descent(descents, record);
                let event = translator.event(record, cpu);
                all.extend(event.map(ScoutEvent::Event));
            });
            if let Some(gap) = gap {
                self.lost += gap.lost;
                // What has been read is older than now.
                let until = gap.until.unwrap_or(now);
                let from = gap.from;
                all.push(ScoutEvent::Gap { from, until });
            }
        }
        // A gap is after the last event before it.
        let key = |one: &ScoutEvent| (one.time(), matches!(one, ScoutEvent::Gap { .. }));
        self.ordered.add(all, now, key)
    }

    /// All events of all CPUs in an interval, and the last of each before it.
    pub fn cut(&mut self, from: Nanos, to: Nanos) -> Cut {
        let mut cut = Cut::default();
        for tail in &self.cpus {
            let (records, whole) = tail.between(&self.rings, from, to);
            cut.lost += u64::from(!whole);
            let mut last_pid = 0;
            // Of what was before it is not known how long it lasted.
            for record in records.iter().filter(|one| one.time() >= self.opened) {
                if let Some(event) = self.translator.event(record, tail.cpu) {
                    last_pid = event.pid;
                    cut.events.push(event);
                } else if record.kind() == record::STACK {
                    add_frames(&mut cut.events, record, tail.cpu, last_pid);
                }
            }
        }
        // Stable: events of one CPU at one time stay in their order.
        cut.events.sort_by_key(|event| event.time);
        cut
    }

    /// Lower bound of the records that were overwritten before they were read.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Processes that watched threads made, and programs that they changed to.
    pub fn descents(&self) -> &[Descent] {
        &self.descents
    }

    /// The events that are recorded, by the model's names ([`event_names`]).
    pub fn recorded(&self) -> Vec<String> {
        let named = event_names().filter(|name| self.programs.records(name));
        named.map(str::to_owned).collect()
    }

    /// The other events, whose information is missing.
    pub fn missing(&self) -> Vec<String> {
        let missing = event_names().filter(|name| !self.programs.records(name));
        missing.map(str::to_owned).collect()
    }

    /// What this kernel does not let the programs see: the event, and why.
    pub const fn unseen(&self) -> &BTreeMap<String, String> {
        self.programs.unseen()
    }
}

fn note_descent(descents: &mut Vec<Descent>, record: &Record) {
    const THREAD: u32 = 1;
    if descents.len() >= DESCENTS {
        return;
    }
    match record.kind() {
        // Threads of the same process are found in /proc.
        FORK if record.number() != THREAD => descents.push(Descent::Fork {
            parent: record.pid(),
            child: record.task(),
        }),
        EXEC => descents.push(Descent::Exec(record.task())),
        _ => {}
    }
}

/// Frames of a stack: its first record makes an event, the others go on with it.
fn add_frames(events: &mut Vec<TraceEvent>, record: &Record, cpu: u32, pid: u32) {
    let (part, frames) = record.frames();
    if part == 0 {
        events.push(TraceEvent {
            time: record.time(),
            cpu,
            pid,
            flags: 0,
            preempt_count: 0,
            kind: EventKind::KernelStack {
                frames: frames.to_vec(),
            },
        });
        return;
    }
    if let Some(TraceEvent {
        kind: EventKind::KernelStack { frames: known },
        cpu: of,
        ..
    }) = events.last_mut()
        && *of == cpu
    {
        known.extend_from_slice(frames);
    }
}
