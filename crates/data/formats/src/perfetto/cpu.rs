//! The events of one CPU, kept in such a way that Perfetto does not show any thread or handler as
//! running while it is unknown what was running.

use punctual_model::{Comm, EventKind, KernelPriority, Nanos, Task, TraceEvent};

use super::event::{self, Handler};
use super::message::{Event, FtraceEvent};

/// ID of the thread that is shown while events are missing. There is one such ID for each CPU. They
/// count down from this number, which the kernel never assigns.
const NOT_RECORDED: u32 = i32::MAX as u32;

/// A bit of `prev_state` that no kernel sets. It makes Perfetto show the state as unknown.
const UNKNOWN_STATE: u32 = 0x8000;

/// `EXIT_DEAD`: the state given to the thread `(not recorded)` when events are being recorded
/// again.
const ENDED: u32 = 0x10;

/// Maximum number of open handlers. There can be more only in a damaged trace.
const HANDLERS: usize = 64;

/// The events of one CPU, and what is running on it.
#[derive(Debug)]
pub(super) struct Cpu {
    number: u32,
    /// The current thread; `None` before the first event, and while events are missing.
    current: Option<Task>,
    /// Whether events are missing before the next one.
    is_interrupted: bool,
    /// Time of the last event.
    last: Nanos,
    handlers: Vec<Handler>,
    /// Events that have not been written yet.
    pub(super) events: Vec<FtraceEvent>,
    /// Whether events were lost before these.
    pub(super) lost: bool,
}

impl Cpu {
    pub(super) fn new(number: u32) -> Self {
        Self {
            number,
            current: None,
            is_interrupted: false,
            last: Nanos::ZERO,
            handlers: Vec::new(),
            events: Vec::new(),
            lost: false,
        }
    }

    /// Adds an event. All earlier events of the CPU must have been added; if the event contradicts
    /// them, some must be missing. `name` is the name of the thread that wrote the event.
    pub(super) fn add(&mut self, event: &TraceEvent, name: Comm) {
        // Events added by the recorder may name any thread.
        if !event.is_accounting() {
            if self.current.is_some_and(|task| task.pid != event.pid) {
                self.interrupt();
            }
            self.resume(event, name);
            self.follow(&event.kind);
            self.last = event.time;
        }
        self.push(event);
    }

    /// Adds an event of a CPU whose other events are unknown. Omits events that would show a thread
    /// or a handler as running.
    pub(super) fn add_alone(&mut self, event: &TraceEvent) {
        let shows_more = matches!(event.kind, EventKind::Switch { .. })
            || event::begun(&event.kind).is_some()
            || event::ended(&event.kind).is_some();
        if !shows_more {
            self.push(event);
        }
    }

    fn push(&mut self, event: &TraceEvent) {
        if let Some(converted) = event::ftrace(&event.kind) {
            self.write(event.time, event.pid, converted);
        }
    }

    fn write(&mut self, time: Nanos, pid: u32, event: Event) {
        self.events.push(event::at(time.0, pid, event));
    }

    /// Ends the thread and the handlers at the last event, because later events are missing.
    pub(super) fn interrupt(&mut self) {
        let Some(task) = self.current.take() else {
            return;
        };
        for handler in std::mem::take(&mut self.handlers).iter().rev() {
            self.write(self.last, task.pid, handler.end());
        }
        let switch = event::switch(&task, UNKNOWN_STATE, &self.not_recorded());
        self.write(self.last, task.pid, switch);
        self.is_interrupted = true;
    }

    /// Begins the thread that writes the first event after missing ones.
    fn resume(&mut self, event: &TraceEvent, name: Comm) {
        if !std::mem::take(&mut self.is_interrupted) {
            return;
        }
        let task = match &event.kind {
            EventKind::Switch { prev, .. } => *prev,
            _ => Task {
                pid: event.pid,
                comm: name,
                prio: KernelPriority::default(),
            },
        };
        let none = self.not_recorded();
        let switch = event::switch(&none, ENDED, &task);
        self.write(event.time, none.pid, switch);
        self.current = Some(task);
    }

    /// Updates the current thread and the open handlers.
    fn follow(&mut self, kind: &EventKind) {
        if let EventKind::Switch { next, .. } = kind {
            self.current = Some(*next);
        }
        if let Some(handler) = event::begun(kind).filter(|_| self.handlers.len() < HANDLERS) {
            self.handlers.push(handler);
        } else if let Some(handler) = event::ended(kind) {
            let place = self.handlers.iter().rposition(|open| *open == handler);
            place.map(|place| self.handlers.remove(place));
        }
    }

    fn not_recorded(&self) -> Task {
        Task {
            pid: NOT_RECORDED - self.number,
            comm: Comm::new(b"(not recorded)"),
            prio: KernelPriority::default(),
        }
    }
}
