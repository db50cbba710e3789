//! The recorder of jobs: BPF programs (`bpf/jobs.bpf.c`) that write what explains the
//! jobs of watched threads into rings of memory, which overwrite their oldest records.
//!
//! It takes the place of a scout and a flight recorder, and costs less: a system call of
//! another thread is no event, and of the watched threads only what begins and ends jobs is
//! read; the rest is copied and decoded where a job took too long.

mod bpf;
mod record;
mod rings;
mod tail;

use std::collections::{BTreeMap, BTreeSet};

use punctual_model::{EventKind, Nanos, Task, TraceEvent, event_names};

use crate::flight::{Cut, ScoutEvent, monotonic};
use crate::watch::WatchError;
#[cfg(test)]
pub(crate) use bpf::OBJECT;
use bpf::Programs;
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
    watched: BTreeSet<u32>,
    calls: Vec<u32>,
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
            watched: BTreeSet::new(),
            calls: Vec::new(),
            lost: 0,
            descents: Vec::new(),
        })
    }

    /// Replaces the watched threads. `calls`: the system calls that
    /// [`read`](Self::read) returns, the release waits of all of them; empty: all.
    ///
    /// # Errors
    /// The kernel refuses to change a map.
    pub fn watch(&mut self, tids: &[u32], calls: &[i64]) -> Result<(), WatchError> {
        let wanted = calls.iter().filter_map(|call| u32::try_from(*call).ok());
        let wanted: Vec<u32> = wanted.collect();
        self.programs.release_calls(&self.calls, &wanted)?;
        self.calls = wanted;
        self.programs.watch(&self.watched, tids)?;
        self.watched = tids.iter().copied().collect();
        Ok(())
    }

    /// The scheduler's events and system calls of the watched threads since the last
    /// call, by increasing time.
    pub fn read(&mut self) -> Vec<ScoutEvent> {
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
                let until = gap.until.unwrap_or_else(monotonic);
                all.push(ScoutEvent::Gap { until });
            }
        }
        // A gap of a CPU is before what came after it.
        all.sort_by_key(|one| (one.time(), matches!(one, ScoutEvent::Event(_))));
        all
    }

    /// All events of all CPUs in an interval, and the last of each before it.
    pub fn cut(&mut self, from: Nanos, to: Nanos) -> Cut {
        let mut cut = Cut::default();
        for tail in &self.cpus {
            let (records, whole) = tail.between(&self.rings, from, to);
            cut.lost += u64::from(!whole);
            let mut last_pid = 0;
            for record in &records {
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

impl ScoutEvent {
    const fn time(&self) -> Nanos {
        match self {
            Self::Event(event) => event.time,
            Self::Gap { until } => *until,
        }
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
