//! Timers of threads that expired late.

use std::collections::HashMap;

use punctual_model::{EventKind, Nanos, TraceEvent, Vector};

/// Maximum number of armed timers that are followed.
const MOST: usize = 100_000;

/// A timer that woke its thread.
#[derive(Clone, Debug)]
pub(super) struct Expired {
    /// Due time: the earliest time that the thread requested.
    pub(super) due: Nanos,
    /// The event that armed it. It shows the slack.
    pub(super) armed: TraceEvent,
}

/// A timer function that runs on a CPU.
#[derive(Debug)]
struct Running {
    hrtimer: u64,
    expired: Option<Expired>,
}

/// Links the arming of each timer to its expiry and to the thread that it wakes.
#[derive(Debug, Default)]
pub(super) struct Timers {
    armed: HashMap<u64, TraceEvent>,
    /// The timer that was last cancelled on each CPU, and the event that had armed it. Kernels before
    /// the change of 2026 also write `hrtimer_cancel` directly before a timer expires.
    cancelled: HashMap<u32, (u64, TraceEvent)>,
    running: HashMap<u32, Running>,
    /// Beginning of each CPU's interrupt, until its first timer expires.
    interrupts: HashMap<u32, Nanos>,
    /// The last expiry on each CPU: the time on the timer's clock, and on that of the trace. Timers
    /// that expire in one interrupt have the same time.
    last: HashMap<u32, (i64, Nanos)>,
}

impl Timers {
    /// Applies an event. If it is the wake-up of a thread by its own timer, returns the thread and
    /// the timer.
    pub(super) fn take(&mut self, event: &TraceEvent) -> Option<(u32, Expired)> {
        match &event.kind {
            EventKind::HrtimerStart { hrtimer, .. }
                if self.armed.len() < MOST || self.armed.contains_key(hrtimer) =>
            {
                self.cancelled
                    .retain(|_, (cancelled, _)| cancelled != hrtimer);
                self.armed.insert(*hrtimer, event.clone());
            }
            EventKind::HrtimerCancel { hrtimer } => {
                if let Some(armed) = self.armed.remove(hrtimer) {
                    self.cancelled.insert(event.cpu, (*hrtimer, armed));
                }
            }
            EventKind::HrtimerExpireEntry {
                hrtimer, now_ns, ..
            } => {
                let last = self.last.get(&event.cpu).filter(|(now, _)| now == now_ns);
                // The interrupt reads its clock before it calls the first timer function.
                let began = self.interrupts.remove(&event.cpu).unwrap_or(event.time);
                let read = last.map_or(began, |(_, time)| *time);
                self.last.insert(event.cpu, (*now_ns, read));
                let cancelled = self.cancelled.remove(&event.cpu);
                let cancelled = cancelled.filter(|(cancelled, _)| cancelled == hrtimer);
                let armed = (self.armed.remove(hrtimer)).or(cancelled.map(|(_, armed)| armed));
                let running = Running {
                    hrtimer: *hrtimer,
                    expired: armed.and_then(|armed| expired(armed, *now_ns, read)),
                };
                self.running.insert(event.cpu, running);
            }
            EventKind::HrtimerExpireExit { hrtimer } => {
                let on = self.running.get(&event.cpu);
                if on.is_some_and(|running| running.hrtimer == *hrtimer) {
                    self.running.remove(&event.cpu);
                }
            }
            EventKind::VectorEntry {
                vector: Vector::LocalTimer,
            }
            | EventKind::IrqEntry { .. } => {
                self.interrupts.insert(event.cpu, event.time);
            }
            EventKind::VectorExit { .. } | EventKind::IrqExit { .. } => {
                self.interrupts.remove(&event.cpu);
            }
            EventKind::Switch { .. } => {
                self.interrupts.remove(&event.cpu);
                self.running.remove(&event.cpu);
            }
            EventKind::Waking { task, .. } | EventKind::Wakeup { task, .. } => {
                let expired = self.running.get(&event.cpu)?.expired.as_ref()?;
                // Only the thread that armed the timer waits for it. Other wake-ups while the timer
                // function runs are a coincidence.
                let own = expired.armed.pid == task.pid;
                return own.then(|| (task.pid, expired.clone()));
            }
            _ => {}
        }
        None
    }

    /// Events of a CPU were lost, so its armed and running timers are unknown.
    pub(super) fn lost(&mut self) {
        self.armed.clear();
        self.cancelled.clear();
        self.interrupts.clear();
        self.running.clear();
    }
}

fn expired(armed: TraceEvent, now_ns: i64, read: Nanos) -> Option<Expired> {
    let EventKind::HrtimerStart {
        softexpires_ns,
        expires_ns,
        ..
    } = armed.kind
    else {
        return None;
    };
    // A value of zero or less is not a real time: timers that were already due are armed with 0.
    let sound = softexpires_ns > 0 && expires_ns >= softexpires_ns;
    let late = u64::try_from(now_ns.checked_sub(softexpires_ns)?).ok()?;
    let due = Nanos(read.0.checked_sub(late)?);
    // A timer whose time has already passed is due as soon as it is armed.
    let due = due.max(armed.time);
    sound.then_some(Expired { due, armed })
}
