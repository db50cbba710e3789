//! Counts acts of real-time threads using trace events, for use if the kernel does not accept BPF
//! programs. Events contain neither stacks nor the arguments of system calls, so some acts are not
//! seen.

use std::collections::BTreeMap;

use punctual_model::{Act, ActKind, Acts, EventKind, InCall, Nanos, TraceEvent};

use super::calls::act;
use crate::clock::monotonic;
use crate::flight::{Owner, Plan, Stream, Streamed};
use crate::{Level, TraceError, Tracefs};

const CALLS: &str = "sys_enter";

/// An event, the field that contains the watched thread, and the act that the event shows.
const EVENTS: [(&str, &str, Option<ActKind>); 7] = [
    ("sched_switch", "prev_pid", None),
    ("sched_migrate_task", "pid", Some(ActKind::Migrate)),
    ("sched_pi_setprio", "common_pid", Some(ActKind::Inherit)),
    ("page_fault_user", "common_pid", Some(ActKind::Fault)),
    ("page_fault_kernel", "common_pid", Some(ActKind::Fault)),
    ("signal_deliver", "common_pid", Some(ActKind::Signal)),
    (CALLS, "common_pid", Some(ActKind::Memory)),
];

/// Acts that are not shown by any event.
const NEVER: [ActKind; 6] = [
    ActKind::Sleep,
    ActKind::WokenByThread,
    ActKind::WokenBySoftirq,
    ActKind::KernelLock,
    // Events show the calls, but not the files that they use.
    ActKind::File,
    // Events show one thread at a time, but not how long it had been runnable.
    ActKind::Queue,
];

/// Size of the ring buffer of each CPU: enough for a tenth of a second, even with many page faults.
const KIB_PER_CPU: usize = 512;

/// Maximum length of a filter, in characters. The kernel's limit is one page.
const LONGEST_FILTER: usize = 3_500;

/// A trace instance with the events of the watched threads.
#[derive(Debug)]
pub(super) struct EventLint {
    stream: Stream,
    first: Nanos,
    /// The watched threads, each with its name and the time from which it has been watched.
    threads: BTreeMap<u32, (String, Nanos)>,
    acts: BTreeMap<(ActKind, u32, InCall, u32, u64), Act>,
    unseen: Vec<(ActKind, String)>,
    /// Events that this kernel has.
    events: Vec<&'static str>,
    switches: u64,
    lost: u64,
    calls: bool,
}

impl EventLint {
    /// Starts without any watched threads. `why` is the reason why BPF programs are not used.
    pub(super) fn start(
        tracefs: &Tracefs,
        owner: Owner,
        first: Nanos,
        why: &str,
    ) -> Result<Self, TraceError> {
        // Measure the offset between the trace clock and CLOCK_MONOTONIC.
        let small = Plan {
            level: Level::Default,
            bytes_per_cpu: 64 << 10,
        };
        let recorder = tracefs.arm(small, owner, None)?;
        let clock = recorder.clock();
        recorder.stop()?;
        let mut unseen: Vec<_> = NEVER
            .map(|act| (act, format!("trace events do not show this action; {why}")))
            .to_vec();
        let mut events = Vec::new();
        for (event, _, act) in EVENTS {
            if Stream::has(tracefs, event) {
                events.push(event)
            } else {
                unseen.extend(
                    act.map(|act| (act, format!("this kernel has no event {event}; {why}"))),
                )
            }
        }
        let stream = Stream::open(tracefs, owner, clock, KIB_PER_CPU, &events)?;
        Ok(Self {
            stream,
            first,
            threads: BTreeMap::new(),
            acts: BTreeMap::new(),
            unseen,
            events,
            switches: 0,
            lost: 0,
            calls: false,
        })
    }

    /// Replaces the watched threads.
    pub(super) fn threads(&mut self, threads: &[(u32, String)]) -> Result<(), TraceError> {
        let now = monotonic();
        let is_new = |(tid, _): &&(u32, String)| !self.threads.contains_key(tid);
        if threads.iter().find(is_new).is_none() {
            return Ok(());
        }
        for (tid, comm) in threads {
            self.threads.entry(*tid).or_insert((comm.clone(), now));
        }
        for (event, field, _) in EVENTS {
            if self.events.contains(&event) && (event != CALLS || self.calls) {
                self.stream.on(event, Some(&self.filter(field)))?;
            }
        }
        Ok(())
    }

    /// Formats a filter such as `pid == 1 || pid == 2`. If that would be too long, the filter
    /// selects the range of these thread IDs instead.
    fn filter(&self, field: &str) -> String {
        let each = self.threads.keys().map(|tid| format!("{field} == {tid}"));
        let all = each.collect::<Vec<_>>().join(" || ");
        let ends = self.threads.keys().min().zip(self.threads.keys().max());
        match ends {
            Some((first, last)) if all.len() > LONGEST_FILTER => {
                format!("{field} >= {first} && {field} <= {last}")
            }
            _ => all,
        }
    }

    /// Starts or stops tracing system calls.
    pub(super) fn trace_calls(&mut self, on: bool) {
        if !self.events.contains(&CALLS) || self.threads.is_empty() {
            return;
        }
        let switched = if on {
            self.stream.on(CALLS, Some(&self.filter("common_pid")))
        } else {
            self.stream.off(CALLS)
        };
        self.calls = on;
        if let (Err(error), true) = (switched, on) {
            let kinds = [ActKind::Memory, ActKind::File];
            let unseen = kinds.map(|kind| (kind, error.to_string()));
            self.unseen.extend(unseen);
        }
    }

    pub(super) fn unseen(&self) -> Vec<(ActKind, String)> {
        self.unseen.clone()
    }

    /// Returns the acts that have been counted so far.
    pub(super) fn read(&mut self) -> Result<Acts, TraceError> {
        for item in self.stream.read()? {
            match item {
                Streamed::Event(event) => self.take(&event),
                Streamed::Gap { lost, .. } => self.lost += lost,
            }
        }
        Ok(Acts {
            acts: self.acts.values().cloned().collect(),
            switches: self.switches,
            lost: self.lost,
            execs: 0,
        })
    }

    fn take(&mut self, event: &TraceEvent) {
        let none = InCall::None;
        // The thread, act, system call, other thread, code address and data address.
        let (tid, kind, call, other, at, address) = match &event.kind {
            EventKind::Switch { prev, .. } => {
                self.switches += u64::from(self.threads.contains_key(&prev.pid));
                return;
            }
            EventKind::Migrate { task, .. } => (task.pid, ActKind::Migrate, none, None, 0, 0),
            EventKind::PiSetprio { task, newprio } if newprio.0 < task.prio.0 => {
                let other = Some((task.pid, task.comm.to_string(), i32::from(task.prio.0)));
                (event.pid, ActKind::Inherit, InCall::Unknown, other, 0, 0)
            }
            EventKind::PageFaultUser { address, ip, .. } => {
                (event.pid, ActKind::Fault, none, None, *ip, *address)
            }
            EventKind::PageFaultKernel { address, .. } => (
                event.pid,
                ActKind::Fault,
                InCall::Unknown,
                None,
                0,
                *address,
            ),
            EventKind::SignalDeliver { sig } => {
                let signal = Some((*sig, String::new(), 0));
                (event.pid, ActKind::Signal, InCall::Unknown, signal, 0, 0)
            }
            EventKind::SysEnter { id, .. } => match act(*id) {
                Some(kind) => (event.pid, kind, InCall::Number(*id), None, 0, 0),
                None => return,
            },
            _ => return,
        };
        let Some((comm, since)) = self.threads.get(&tid) else {
            return;
        };
        if event.time < *since + self.first {
            return;
        }
        let (other, other_comm, other_priority) = other.unwrap_or_default();
        let act = self.acts.entry((kind, tid, call, other, at));
        let act = act.or_insert_with(|| Act {
            kind,
            tid,
            comm: comm.clone(),
            call,
            arguments: [0; 2],
            other,
            other_comm,
            name: String::new(),
            priorities: (0, other_priority),
            stack: (at > 0).then_some(at).into_iter().collect(),
            words: Vec::new(),
            count: 0,
            max: None,
            address,
        });
        act.count += 1;
        act.address = address;
    }

    pub(super) fn stop(self) -> Result<(), TraceError> {
        self.stream.stop()
    }
}
