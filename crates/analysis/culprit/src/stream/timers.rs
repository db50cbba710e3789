//! Timers of threads that expired late.

use std::collections::HashMap;

use punctual_model::{EventKind, Nanos, TraceEvent, Vector};

use crate::scene::USUAL_SLACK;

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

impl Expired {
    /// Returns the event that states when the timer was due, for the wake-up of its thread.
    pub(super) fn event(&self, waking: &TraceEvent) -> Option<TraceEvent> {
        let EventKind::Waking { task, .. } = &waking.kind else {
            return None;
        };
        let EventKind::HrtimerStart {
            softexpires_ns,
            expires_ns,
            ..
        } = self.armed.kind
        else {
            return None;
        };
        let slack = Nanos(u64::try_from(expires_ns.saturating_sub(softexpires_ns)).ok()?);
        let latest = self.due.0.checked_add(slack.0).map(Nanos)?;
        // A longer tolerance can be that of a timeout of poll. Nobody asked for an earlier time.
        let due = if slack > USUAL_SLACK {
            latest
        } else {
            self.due
        };
        (due < waking.time).then(|| TraceEvent {
            kind: EventKind::TimerDue {
                pid: task.pid,
                due,
                latest,
            },
            ..waking.clone()
        })
    }
}

/// The timers of a trace with the events `timer:*`.
#[derive(Debug, Default)]
pub struct DueTimers(Timers);

impl DueTimers {
    /// Processes an event. If a timer wakes a thread with it, returns an event that states when the timer
    /// was due. It belongs before the wake-up.
    pub fn before(&mut self, event: &TraceEvent) -> Option<TraceEvent> {
        let (_, expired) = self.0.take(event)?;
        expired.event(event)
    }

    /// Forgets all timers, because events are missing.
    pub fn lost(&mut self) {
        self.0.lost();
    }
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

#[cfg(test)]
mod tests {
    use punctual_model::Task;

    use super::*;
    use crate::testing::{event, idle, on, switch, task};

    const OWN: u32 = 100;
    const US: i64 = 1_000;

    fn own() -> Task {
        task("own", OWN, 4)
    }

    /// The thread arms its timer at 100 µs. Times of the timer's clock are in ns.
    fn arms(expires_ns: i64, softexpires_ns: i64) -> TraceEvent {
        let kind = EventKind::HrtimerStart {
            hrtimer: 7,
            function: 0xa1,
            expires_ns,
            softexpires_ns,
        };
        event(100, OWN, kind)
    }

    fn expires(us: u64, hrtimer: u64, now_ns: i64) -> TraceEvent {
        let kind = EventKind::HrtimerExpireEntry {
            hrtimer,
            function: 0xa1,
            now_ns,
        };
        event(us, 0, kind)
    }

    fn ends(us: u64, hrtimer: u64) -> TraceEvent {
        event(us, 0, EventKind::HrtimerExpireExit { hrtimer })
    }

    fn cancels(us: u64) -> TraceEvent {
        event(us, 0, EventKind::HrtimerCancel { hrtimer: 7 })
    }

    fn tick(us: u64) -> TraceEvent {
        let vector = Vector::LocalTimer;
        event(us, 0, EventKind::VectorEntry { vector })
    }

    fn tick_ends(us: u64) -> TraceEvent {
        let vector = Vector::LocalTimer;
        event(us, 0, EventKind::VectorExit { vector })
    }

    fn wakes(us: u64, task: Task) -> TraceEvent {
        let target_cpu = 1;
        event(us, 0, EventKind::Waking { task, target_cpu })
    }

    /// Returns the due times in µs of the threads that their own timers woke.
    fn due(events: &[TraceEvent]) -> Vec<(u32, u64)> {
        let mut timers = Timers::default();
        let woken = events.iter().filter_map(|event| timers.take(event));
        woken
            .map(|(tid, timer)| (tid, timer.due.0 / 1_000))
            .collect()
    }

    /// The timer is due at 300 µs of its clock, and expires at 340 µs, which is 540 µs in the trace.
    fn late() -> [TraceEvent; 3] {
        [
            arms(330 * US, 300 * US),
            expires(540, 7, 340 * US),
            wakes(541, own()),
        ]
    }

    /// Returns the due and the latest time in µs that belong before the wake-up at 541 µs, if this is the
    /// slack of its timer.
    fn stated(slack: i64) -> Option<(u64, u64)> {
        let mut timers = DueTimers::default();
        let [_, expires, wakes] = late();
        let armed = arms((300 + slack) * US, 300 * US);
        assert_eq!(timers.before(&armed), None);
        assert_eq!(timers.before(&expires), None);
        let stated = timers.before(&wakes)?;
        assert_eq!((stated.time, stated.cpu), (wakes.time, wakes.cpu));
        let EventKind::TimerDue { pid, due, latest } = stated.kind else {
            panic!("{stated:?}");
        };
        assert_eq!(pid, OWN);
        Some((due.0 / 1_000, latest.0 / 1_000))
    }

    /// A longer tolerance than that of ordinary threads can be that of a timeout of poll.
    #[test]
    fn due_time_is_stated_unless_the_call_may_tolerate_more() {
        assert_eq!(stated(0), Some((500, 500)));
        assert_eq!(stated(50), Some((500, 550)));
        assert_eq!(stated(51), None);
        assert_eq!(stated(40), Some((500, 540)));
        let mut timers = DueTimers::default();
        let [armed, expires, wakes] = late();
        timers.before(&armed);
        timers.lost();
        timers.before(&expires);
        assert_eq!(timers.before(&wakes), None);
    }

    #[test]
    fn thread_is_due_at_the_earliest_time_that_it_asked_for() {
        assert_eq!(due(&late()), [(OWN, 500)]);
        let mut timers = Timers::default();
        let woken = late().iter().filter_map(|event| timers.take(event)).last();
        let (_, timer) = woken.unwrap();
        assert_eq!(timer.armed, late()[0]);
        // `sched_wakeup` shows the same.
        let [armed, expired, _] = late();
        let (target_cpu, new) = (1, false);
        let wakeup = EventKind::Wakeup {
            task: own(),
            target_cpu,
            new,
        };
        assert_eq!(due(&[armed, expired, event(541, 0, wakeup)]), [(OWN, 500)]);
    }

    #[test]
    fn timer_that_is_already_due_is_due_when_it_is_armed() {
        assert_eq!(
            due(&[arms(5, 1), expires(540, 7, 540 * US), wakes(541, own())]),
            [(OWN, 100)]
        );
    }

    #[test]
    fn impossible_times_are_no_due_times() {
        let of = |expires_ns, soft, now| {
            due(&[
                arms(expires_ns, soft),
                expires(540, 7, now),
                wakes(541, own()),
            ])
        };
        assert_eq!(of(300 * US, 300 * US, 300 * US), [(OWN, 540)]);
        // Timers that are due at once are armed with 0. A timer may not expire before it is due.
        assert_eq!(of(0, 0, 340 * US), []);
        assert_eq!(of(-1, -1, 340 * US), []);
        assert_eq!(of(299 * US, 300 * US, 340 * US), []);
        assert_eq!(of(300 * US, 300 * US, 300 * US - 1), []);
        assert_eq!(of(300 * US, 300 * US, 900 * US), []);
        assert_eq!(of(i64::MAX, i64::MIN, i64::MAX), []);
    }

    /// The interrupt reads its clock when it begins, and then calls one function after the other.
    #[test]
    fn clock_was_read_when_the_interrupt_began() {
        let [armed, _, woken] = late();
        let first = [
            armed.clone(),
            tick(530),
            expires(540, 7, 340 * US),
            woken.clone(),
        ];
        assert_eq!(due(&first), [(OWN, 490)]);
        // The first function took its time, and both have the same time.
        let second = |now| {
            due(&[
                armed.clone(),
                tick(520),
                expires(525, 8, 340 * US),
                ends(535, 8),
                expires(540, 7, now),
                woken.clone(),
            ])
        };
        assert_eq!(second(340 * US), [(OWN, 480)]);
        assert_eq!(second(350 * US), [(OWN, 490)]);
        // An interrupt that has ended is another one.
        for between in [tick_ends(532), switch(532, own(), 1, idle())] {
            let events = [
                armed.clone(),
                tick(530),
                between,
                expires(540, 7, 340 * US),
                woken.clone(),
            ];
            assert_eq!(due(&events), [(OWN, 500)]);
        }
        // Also on another CPU.
        let elsewhere = [armed, on(2, tick(530)), expires(540, 7, 340 * US), woken];
        assert_eq!(due(&elsewhere), [(OWN, 500)]);
    }

    #[test]
    fn only_its_own_timer_wakes_a_thread() {
        let [armed, expired, woken] = late();
        let with =
            |between: TraceEvent| due(&[armed.clone(), expired.clone(), between, woken.clone()]);
        assert_eq!(with(tick(541)), [(OWN, 500)]);
        // Another thread, another CPU, after the function, or after a switch.
        assert_eq!(
            due(&[armed.clone(), expired.clone(), wakes(541, task("x", 9, 4))]),
            []
        );
        assert_eq!(
            due(&[armed.clone(), on(2, expired.clone()), woken.clone()]),
            []
        );
        assert_eq!(with(ends(540, 7)), []);
        assert_eq!(with(ends(540, 8)), [(OWN, 500)]);
        assert_eq!(with(switch(540, own(), 1, idle())), []);
        // Another timer, or one that was not armed in the trace.
        assert_eq!(
            due(&[armed.clone(), expires(540, 8, 340 * US), woken.clone()]),
            []
        );
        assert_eq!(due(&[expired.clone(), woken.clone()]), []);
        // It expires once.
        let twice = [armed.clone(), expired.clone(), ends(540, 7), expired, woken];
        assert_eq!(due(&twice), []);
    }

    /// Older kernels write the cancelling of a timer directly before its expiry.
    #[test]
    fn cancelled_timer_expires_only_right_after() {
        let [armed, expired, woken] = late();
        let after = |between: &[TraceEvent]| {
            let mut events = vec![armed.clone(), cancels(539)];
            events.extend(between.iter().cloned());
            events.extend([expired.clone(), woken.clone()]);
            due(&events)
        };
        assert_eq!(after(&[]), [(OWN, 500)]);
        // Another timer expired in between.
        assert_eq!(after(&[expires(539, 8, 339 * US)]), []);
        // It was armed again.
        let mut again = arms(310 * US, 310 * US);
        again.time = Nanos::from_micros(200);
        assert_eq!(after(&[again]), [(OWN, 510)]);
        // Another CPU cancelled it.
        let elsewhere = [
            armed.clone(),
            on(2, cancels(539)),
            expired.clone(),
            woken.clone(),
        ];
        assert_eq!(due(&elsewhere), []);
    }

    #[test]
    fn lost_events_leave_no_timer_known() {
        let [armed, expired, woken] = late();
        let mut timers = Timers::default();
        timers.take(&armed);
        timers.lost();
        timers.take(&expired);
        assert!(timers.take(&woken).is_none());
        let mut timers = Timers::default();
        timers.take(&armed);
        timers.take(&expired);
        timers.lost();
        assert!(timers.take(&woken).is_none());
    }
}
