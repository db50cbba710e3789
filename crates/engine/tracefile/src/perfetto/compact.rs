//! Decodes `FtraceEventBundle.compact_sched`: the switches and wake-ups of a CPU, column by column,
//! without the thread that left the CPU, because it is the one that the previous switch named.

use punctual_model::{Comm, EventKind, KernelPriority, Nanos, Task, TaskState, TraceEvent};

use super::wire::{Message, Value, numbers};

/// Numbers of the columns.
mod column {
    pub(super) const SWITCH_TIME: u64 = 1;
    pub(super) const PREV_STATE: u64 = 2;
    pub(super) const NEXT_PID: u64 = 3;
    pub(super) const NEXT_PRIO: u64 = 4;
    pub(super) const NAMES: u64 = 5;
    pub(super) const NEXT_COMM: u64 = 6;
    pub(super) const WAKING_TIME: u64 = 7;
    pub(super) const WAKING_PID: u64 = 8;
    pub(super) const TARGET_CPU: u64 = 9;
    pub(super) const WAKING_PRIO: u64 = 10;
    pub(super) const WAKING_COMM: u64 = 11;
    pub(super) const WAKING_FLAGS: u64 = 12;
}

/// The two columns of times. Each value is the difference to the one before.
pub(super) const TIMES: [u64; 2] = [column::SWITCH_TIME, column::WAKING_TIME];

/// A switch or a wake-up.
enum Row {
    Switch {
        state: u32,
        next: Task,
    },
    Waking {
        flags: u8,
        task: Task,
        target_cpu: u32,
    },
}

/// The columns of one kind of events. The rows end with the shortest column.
struct Columns {
    times: Vec<u64>,
    others: Vec<Vec<u64>>,
}

impl Columns {
    fn new(message: Message<'_>, time: u64, others: &[u64]) -> Self {
        let mut now = 0_u64;
        let deltas = numbers(message, time).into_iter();
        let times = deltas.map(|delta| {
            now = now.wrapping_add(delta);
            now
        });
        Self {
            times: times.collect(),
            others: others
                .iter()
                .map(|column| numbers(message, *column))
                .collect(),
        }
    }

    fn rows(&self) -> impl Iterator<Item = (Nanos, impl Fn(usize) -> u64)> {
        let complete = self.others.iter().map(Vec::len).min().unwrap_or(0);
        let times = self.times.iter().take(complete).enumerate();
        times.map(move |(row, time)| {
            let value = move |column: usize| {
                let column = self.others.get(column);
                column
                    .and_then(|column| column.get(row))
                    .copied()
                    .unwrap_or(0)
            };
            (Nanos(*time), value)
        })
    }
}

/// Decodes the events of a CPU in ascending order of time. `current` is the thread that runs before
/// the first event and, afterwards, after the last one. Returns the time up to which it was not
/// known, if events could therefore not be decoded.
pub(super) fn decode(
    message: Message<'_>,
    cpu: u32,
    current: &mut Option<Task>,
    mut push: impl FnMut(TraceEvent),
) -> Option<Nanos> {
    let names: Vec<Comm> = message
        .filter(|(of, _)| *of == column::NAMES)
        .map(|(_, value): (u64, Value<'_>)| Comm::new(value.bytes()))
        .collect();
    let name = |index: u64| names.get(index as usize).copied().unwrap_or_default();
    let task = |pid: u64, prio: u64, comm: u64| Task {
        comm: name(comm),
        pid: pid as u32,
        prio: KernelPriority(prio as i16),
    };
    let switches = Columns::new(
        message,
        column::SWITCH_TIME,
        &[
            column::PREV_STATE,
            column::NEXT_PID,
            column::NEXT_PRIO,
            column::NEXT_COMM,
        ],
    );
    let wakings = Columns::new(
        message,
        column::WAKING_TIME,
        &[
            column::WAKING_PID,
            column::TARGET_CPU,
            column::WAKING_PRIO,
            column::WAKING_COMM,
        ],
    );
    let flags = numbers(message, column::WAKING_FLAGS);
    let mut rows: Vec<(Nanos, Row)> = Vec::new();
    rows.extend(
        wakings
            .rows()
            .zip(0..)
            .map(|((time, of), row): (_, usize)| {
                let flags = flags.get(row).copied().unwrap_or(0) as u8;
                let (task, target_cpu) = (task(of(0), of(2), of(3)), of(1) as u32);
                (
                    time,
                    Row::Waking {
                        flags,
                        task,
                        target_cpu,
                    },
                )
            }),
    );
    rows.extend(switches.rows().map(|(time, of)| {
        let next = task(of(1), of(2), of(3));
        (
            time,
            Row::Switch {
                state: of(0) as u32,
                next,
            },
        )
    }));
    rows.sort_by_key(|(time, _)| *time);
    let mut unknown = None;
    for (time, row) in rows {
        let prev = *current;
        if let Row::Switch { next, .. } = row {
            *current = Some(next);
        }
        let Some(prev) = prev else {
            unknown = Some(time);
            continue;
        };
        let (flags, kind) = match row {
            Row::Switch { state, next } => {
                let prev_state = TaskState(state);
                (
                    0,
                    EventKind::Switch {
                        prev,
                        prev_state,
                        next,
                    },
                )
            }
            Row::Waking {
                flags,
                task,
                target_cpu,
            } => (flags, EventKind::Waking { task, target_cpu }),
        };
        push(TraceEvent {
            time,
            cpu,
            pid: prev.pid,
            flags,
            preempt_count: 0,
            kind,
        });
    }
    unknown
}
