//! The records that `bpf/jobs.bpf.c` writes, and their conversion to events.

use std::collections::HashMap;

use punctual_model::{
    Comm, Counter, CounterReading, EventKind, KernelPriority, Nanos, Task, TaskState, Text,
    TraceEvent, Vector,
};

use crate::flight::{ListedJob, ScoutEvent};

const SWITCH: u8 = 1;
const WAKING: u8 = 2;
const SYS_ENTER: u8 = 3;
const SYS_EXIT: u8 = 4;
const IRQ_ENTRY: u8 = 5;
const IRQ_EXIT: u8 = 6;
const SOFTIRQ_ENTRY: u8 = 7;
const SOFTIRQ_EXIT: u8 = 8;
const VECTOR_ENTRY: u8 = 9;
const VECTOR_EXIT: u8 = 10;
const FAULT_USER: u8 = 11;
const FAULT_KERNEL: u8 = 12;
const MIGRATE: u8 = 13;
const PI_SETPRIO: u8 = 14;
const BLOCK_ISSUE: u8 = 15;
const BLOCK_COMPLETE: u8 = 16;
const SIGNAL_GENERATE: u8 = 17;
pub(super) const PROCESS_EXIT: u8 = 18;
pub(super) const STACK: u8 = 19;
pub(super) const FORK: u8 = 20;
pub(super) const EXEC: u8 = 21;
const FAULT_END: u8 = 22;
const SLEEP_UNTIL: u8 = 23;
const FUTEX_OWNER: u8 = 24;
const SLEEP: u8 = 25;
pub(super) const USER_STACK: u8 = 26;
pub(super) const USER_WORDS: u8 = 27;
pub(super) const WAKER_STACK: u8 = 28;
pub(super) const WAKER_USER_STACK: u8 = 29;
pub(super) const WAKER_USER_WORDS: u8 = 30;
pub(super) const COUNTER: u8 = 31;
pub(super) const INTERRUPT_STACK: u8 = 32;
const JOB: u8 = 33;
const TAKEN: u8 = 34;
const RETURNED: u8 = 35;

/// Number of words in a record.
pub(super) const WORDS: usize = 8;

/// Number of frames in one record.
const FRAMES: usize = 6;

/// The content of `struct record`, as words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct JobRecord(pub(super) [u64; WORDS]);

impl JobRecord {
    pub(super) const fn time(&self) -> Nanos {
        Nanos(self.0[0])
    }

    /// Returns whether the light stage also records this kind.
    pub(super) fn is_of_light_stage(&self) -> bool {
        let kinds = [
            SWITCH,
            WAKING,
            MIGRATE,
            PI_SETPRIO,
            SIGNAL_GENERATE,
            PROCESS_EXIT,
            SLEEP,
            INTERRUPT_STACK,
        ];
        kinds.contains(&self.kind())
    }

    /// Returns whether this record is an event by itself. The records of stacks belong to the event
    /// before them, and those of counters to the event after them.
    pub(super) fn is_event(&self) -> bool {
        self.kind() != STACK && !(USER_STACK..=INTERRUPT_STACK).contains(&self.kind())
    }

    /// Returns the value of a performance counter, if this record has one.
    pub(super) fn counter(&self) -> Option<CounterReading> {
        let [_, _, of, value, enabled, running, ..] = self.0;
        (self.kind() == COUNTER).then_some(CounterReading {
            time: self.time(),
            tid: of as u32,
            counter: Counter::from_index((of >> 32) as usize)?,
            value,
            enabled: Nanos(enabled),
            running: Nanos(running),
        })
    }

    /// Returns what this record says about the counting of a thread's jobs.
    pub(super) fn counting(&self, cpu: u32) -> Option<ScoutEvent> {
        let (at, tid, released) = (self.time(), self.pid(), Nanos(self.0[3]));
        let ran = Nanos(self.0[4]);
        Some(match self.kind() {
            JOB => ScoutEvent::Job(ListedJob {
                tid,
                comm: self.comm(40),
                prio: priority(self.number()),
                cpu,
                release: released,
                completion: at,
                ran,
            }),
            TAKEN => ScoutEvent::Taken { at, tid },
            RETURNED => ScoutEvent::Returned {
                at,
                tid,
                open: (released > Nanos::ZERO).then_some((released, ran)),
            },
            _ => return None,
        })
    }

    pub(super) fn kind(&self) -> u8 {
        self.byte(12)
    }

    fn flags(&self) -> u8 {
        self.byte(13)
    }

    fn byte(&self, at: usize) -> u8 {
        self.0[at / 8].to_ne_bytes()[at % 8]
    }

    fn u32(&self, at: usize) -> u32 {
        let bytes = self.0[at / 8].to_ne_bytes();
        let half = at % 8;
        u32::from_ne_bytes([
            bytes[half],
            bytes[half + 1],
            bytes[half + 2],
            bytes[half + 3],
        ])
    }

    fn i16(&self, at: usize) -> i16 {
        i16::from_ne_bytes([self.byte(at), self.byte(at + 1)])
    }

    fn comm(&self, at: usize) -> Comm {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.0[at / 8].to_ne_bytes());
        bytes[8..].copy_from_slice(&self.0[at / 8 + 1].to_ne_bytes());
        Comm::new(&bytes)
    }

    /// Returns the ID of the current thread. The records of a stack do not contain it, because
    /// their thread is that of the preceding record.
    pub(super) fn pid(&self) -> u32 {
        match self.kind() {
            SWITCH => self.u32(48),
            STACK | USER_STACK..=INTERRUPT_STACK => 0,
            _ => self.u32(16),
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.u32(20)
    }

    /// Returns the thread that the record is about.
    pub(super) fn task(&self) -> Task {
        Task {
            pid: self.u32(24),
            prio: priority(self.u32(28)),
            comm: self.comm(40),
        }
    }

    /// Returns the thread that woke another one, if this record has its name.
    pub(super) fn waker(&self) -> Option<(u32, Comm)> {
        (self.kind() == WAKING && self.byte(15) == 1).then(|| {
            let mut name = [0; 16];
            name[..8].copy_from_slice(&self.0[4].to_ne_bytes());
            name[8..].copy_from_slice(&self.0[7].to_ne_bytes());
            (self.pid(), Comm::new(&name))
        })
    }

    /// Returns when the timer was due that wakes a thread, if a timer does.
    fn due(&self) -> Option<Nanos> {
        let is_due = self.kind() == WAKING && self.byte(15) == 0 && self.0[4] != 0;
        is_due.then_some(Nanos(self.0[4]))
    }

    /// Returns whether this is a switch of a thread that sleeps in a system call, and holds the number
    /// of the call in place of the name of the thread.
    fn has_call(&self) -> bool {
        self.kind() == SWITCH && self.byte(15) == 1
    }

    fn switch(&self, prev: Comm) -> EventKind {
        EventKind::Switch {
            prev: Task {
                pid: self.u32(48),
                prio: KernelPriority(self.i16(56)),
                comm: prev,
            },
            next: Task {
                pid: self.u32(52),
                prio: KernelPriority(self.i16(58)),
                comm: self.comm(32),
            },
            prev_state: TaskState(self.u32(60)),
        }
    }

    /// Returns the index of this record among the records of its stack, and its frames.
    pub(super) fn frames(&self) -> (u8, &[u64]) {
        let count = usize::from(self.byte(14)).min(FRAMES);
        (self.byte(15), &self.0[2..2 + count])
    }
}

/// A kernel priority fits into 16 bits.
fn priority(word: u32) -> KernelPriority {
    KernelPriority(word as i32 as i16)
}

/// Converts records to events.
#[derive(Debug, Default)]
pub(super) struct Translator {
    names: HashMap<[u64; 3], Text>,
    /// The last names of threads that were woken.
    comms: HashMap<u32, Comm>,
}

/// Maximum number of interrupt names that are remembered.
const NAMES: usize = 4_096;

/// Maximum number of names of threads that are remembered.
const COMMS: usize = 32_768;

impl Translator {
    /// Remembers the name of a thread. Some records contain only its ID.
    pub(super) fn learn(&mut self, record: &JobRecord) {
        if matches!(record.kind(), WAKING | JOB) {
            let (pid, comm) = match record.kind() {
                JOB => (record.pid(), record.comm(40)),
                _ => (record.task().pid, record.task().comm),
            };
            if self.comms.len() < COMMS || self.comms.contains_key(&pid) {
                self.comms.insert(pid, comm);
            }
        }
    }

    /// Returns a second event that a record contains: the system call that a thread begins to sleep in, or
    /// when the timer was due that wakes it. It comes before the event of the record itself.
    pub(super) fn before(record: &JobRecord, cpu: u32) -> Option<TraceEvent> {
        let kind = if record.has_call() {
            EventKind::SleepsIn {
                id: i64::from(record.u32(24) as i32),
                args: [record.0[2], u64::from(record.u32(28))],
            }
        } else {
            let due = record.due()?;
            EventKind::TimerDue {
                pid: record.task().pid,
                due,
                latest: Nanos(record.0[7]),
            }
        };
        Some(TraceEvent {
            time: record.time(),
            cpu,
            pid: record.pid(),
            flags: if record.has_call() { 0 } else { record.flags() },
            preempt_count: 0,
            kind,
        })
    }

    /// Converts a record to an event. Returns `None` if no event corresponds to it.
    pub(super) fn event(&mut self, record: &JobRecord, cpu: u32) -> Option<TraceEvent> {
        let kind = self.kind(record)?;
        Some(TraceEvent {
            time: record.time(),
            cpu,
            pid: record.pid(),
            flags: record.flags(),
            preempt_count: 0,
            kind,
        })
    }

    fn kind(&mut self, record: &JobRecord) -> Option<EventKind> {
        let (number, one, two) = (record.number(), record.0[3], record.0[4]);
        Some(match record.kind() {
            SWITCH if record.has_call() => {
                let known = self.comms.get(&record.pid()).copied();
                record.switch(known.unwrap_or_default())
            }
            SWITCH => record.switch(record.comm(16)),
            WAKING => EventKind::Waking {
                task: record.task(),
                target_cpu: number,
            },
            SYS_ENTER => EventKind::SysEnter {
                id: i64::from(number),
                args: [one, two],
            },
            SYS_EXIT => EventKind::SysExit {
                id: i64::from(number),
                ret: one as i64,
            },
            IRQ_ENTRY => EventKind::IrqEntry {
                irq: number,
                name: self.name(record),
            },
            IRQ_EXIT => EventKind::IrqExit {
                irq: number,
                ret: one as i32,
            },
            SOFTIRQ_ENTRY => EventKind::SoftirqEntry { vec: number },
            SOFTIRQ_EXIT => EventKind::SoftirqExit { vec: number },
            VECTOR_ENTRY => EventKind::VectorEntry {
                vector: vector(number),
            },
            VECTOR_EXIT => EventKind::VectorExit {
                vector: vector(number),
            },
            FAULT_USER => EventKind::PageFaultUser {
                address: one,
                ip: 0,
                error_code: u64::from(number),
            },
            FAULT_KERNEL => EventKind::PageFaultKernel {
                address: one,
                ip: 0,
                error_code: u64::from(number),
            },
            FAULT_END => EventKind::PageFaultEnd { address: one },
            SLEEP_UNTIL => EventKind::SleepUntil { until: Nanos(one) },
            FUTEX_OWNER => EventKind::FutexOwner {
                futex: one,
                owner: number,
            },
            MIGRATE => EventKind::Migrate {
                task: record.task(),
                orig_cpu: number,
                dest_cpu: two as u32,
            },
            PI_SETPRIO => EventKind::PiSetprio {
                task: record.task(),
                newprio: priority(two as u32),
            },
            BLOCK_ISSUE => EventKind::BlockIssue {
                dev: number,
                sector: one,
            },
            BLOCK_COMPLETE => EventKind::BlockComplete {
                dev: number,
                sector: one,
            },
            SIGNAL_GENERATE => {
                let Task { pid, comm, .. } = record.task();
                EventKind::SignalGenerate {
                    sig: number,
                    pid,
                    comm,
                }
            }
            SLEEP => EventKind::SleepsIn {
                id: i64::from(number as i32),
                args: [one, two],
            },
            PROCESS_EXIT => EventKind::ProcessExit {
                task: record.task(),
            },
            _ => return None,
        })
    }

    fn name(&mut self, record: &JobRecord) -> Text {
        let words = [record.0[5], record.0[6], record.0[7]];
        if let Some(name) = self.names.get(&words) {
            return name.clone();
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let name = Text::from(crate::bpf::text(&bytes).as_str());
        if self.names.len() < NAMES {
            self.names.insert(words, name.clone());
        }
        name
    }
}

/// Returns the vector that has this number in the BPF programs.
fn vector(number: u32) -> Vector {
    match Vector::NAMED.get(number as usize) {
        Some((vector, _)) => vector.clone(),
        None => Vector::Other("ipi".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(bytes: &[u8; 64]) -> JobRecord {
        let mut record = JobRecord::default();
        for (word, bytes) in record.0.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().unwrap());
        }
        record
    }

    #[test]
    fn a_switch_names_both_threads() {
        let mut bytes = [0; 64];
        bytes[..8].copy_from_slice(&7_000_u64.to_ne_bytes());
        bytes[8..12].copy_from_slice(&3_u32.to_ne_bytes());
        bytes[12] = SWITCH;
        bytes[16..20].copy_from_slice(b"make");
        bytes[32..38].copy_from_slice(b"motion");
        bytes[48..52].copy_from_slice(&40_u32.to_ne_bytes());
        bytes[52..56].copy_from_slice(&41_u32.to_ne_bytes());
        bytes[56..58].copy_from_slice(&120_i16.to_ne_bytes());
        bytes[58..60].copy_from_slice(&(-1_i16).to_ne_bytes());
        bytes[60..].copy_from_slice(&1_u32.to_ne_bytes());
        let record = words(&bytes);
        assert_eq!(record.pid(), 40);
        let event = Translator::default().event(&record, 1).unwrap();
        assert_eq!((event.time, event.cpu, event.pid), (Nanos(7_000), 1, 40));
        let EventKind::Switch {
            prev,
            prev_state,
            next,
        } = event.kind
        else {
            panic!("{event:?}");
        };
        assert_eq!((prev.to_string(), prev.prio.0), ("make-40".into(), 120));
        assert_eq!((next.to_string(), next.prio.0), ("motion-41".into(), -1));
        assert!(!prev_state.is_runnable());
    }

    #[test]
    fn wake_ups_of_light_stage_name_the_waker() {
        let mut bytes = [0_u8; 64];
        (bytes[12], bytes[15]) = (WAKING, 1);
        bytes[16..20].copy_from_slice(&40_u32.to_ne_bytes());
        bytes[32..40].copy_from_slice(b"a-long-n");
        bytes[40..46].copy_from_slice(b"victim");
        bytes[56..63].copy_from_slice(b"ame-too");
        let record = words(&bytes);
        assert_eq!(record.waker(), Some((40, Comm::new(b"a-long-name-too"))));
        assert_eq!(record.task().comm.to_string(), "victim");
        bytes[15] = 0;
        assert_eq!(words(&bytes).waker(), None);
    }

    #[test]
    fn wake_up_by_timer_contains_when_it_was_due() {
        let mut bytes = [0_u8; 64];
        bytes[12] = WAKING;
        bytes[16..20].copy_from_slice(&9_u32.to_ne_bytes());
        bytes[24..28].copy_from_slice(&40_u32.to_ne_bytes());
        assert_eq!(Translator::before(&words(&bytes), 1), None);
        bytes[32..40].copy_from_slice(&5_000_u64.to_ne_bytes());
        bytes[56..64].copy_from_slice(&6_000_u64.to_ne_bytes());
        let timer = Translator::before(&words(&bytes), 1).unwrap();
        let due = EventKind::TimerDue {
            pid: 40,
            due: Nanos(5_000),
            latest: Nanos(6_000),
        };
        assert_eq!((timer.pid, timer.cpu, timer.kind), (9, 1, due));
        // In a record with the name of the waker, these bytes are a part of it.
        bytes[15] = 1;
        assert_eq!(Translator::before(&words(&bytes), 1), None);
    }

    #[test]
    fn switch_of_counted_thread_contains_call() {
        let mut translator = Translator::default();
        let mut bytes = [0_u8; 64];
        bytes[12] = WAKING;
        bytes[24..28].copy_from_slice(&40_u32.to_ne_bytes());
        bytes[40..46].copy_from_slice(b"server");
        translator.learn(&words(&bytes));
        let mut bytes = [0_u8; 64];
        (bytes[12], bytes[15]) = (SWITCH, 1);
        bytes[16..24].copy_from_slice(&0x7f00_u64.to_ne_bytes());
        bytes[24..28].copy_from_slice(&202_u32.to_ne_bytes());
        bytes[28..32].copy_from_slice(&128_u32.to_ne_bytes());
        bytes[48..52].copy_from_slice(&40_u32.to_ne_bytes());
        let record = words(&bytes);
        let sleep = Translator::before(&record, 1).unwrap();
        assert_eq!((sleep.pid, sleep.cpu), (40, 1));
        let call = EventKind::SleepsIn {
            id: 202,
            args: [0x7f00, 128],
        };
        assert_eq!(sleep.kind, call);
        let event = translator.event(&record, 1).unwrap();
        let EventKind::Switch { prev, .. } = event.kind else {
            panic!("{event:?}");
        };
        assert_eq!(prev.to_string(), "server-40");
        bytes[15] = 0;
        assert_eq!(Translator::before(&words(&bytes), 1), None);
    }

    #[test]
    fn any_bytes_make_an_event_or_none() {
        for kind in 0..=255_u8 {
            for fill in [0, 0x41, 0xff] {
                let mut bytes = [fill; 64];
                bytes[12] = kind;
                let record = words(&bytes);
                let event = Translator::default().event(&record, 0);
                let is_event =
                    (SWITCH..STACK).contains(&kind) || (FAULT_END..=SLEEP).contains(&kind);
                assert_eq!(event.is_some(), is_event, "{kind}");
                assert!(record.frames().1.len() <= FRAMES);
            }
        }
    }
}
