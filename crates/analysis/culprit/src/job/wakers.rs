//! Which thread woke which one last.

use std::collections::BTreeMap;

use punctual_model::{EventKind, Nanos, TraceEvent};

use super::idle::End;

/// Maximum length of a chain of wake-ups from a request to its answer.
const CHAIN: usize = 8;

/// Maximum number of threads whose last wake-up is kept.
const THREADS: usize = 16_384;

/// The last wake-up of each thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Wakers {
    /// The waker, unless it is an interrupt, and the time.
    last: BTreeMap<u32, (Option<u32>, Nanos)>,
}

impl Wakers {
    pub(super) const fn new() -> Self {
        Self {
            last: BTreeMap::new(),
        }
    }

    /// Notes a wake-up, or the end of a thread.
    pub(super) fn take(&mut self, event: &TraceEvent) {
        match &event.kind {
            EventKind::Waking { task, .. }
                if self.last.len() < THREADS || self.last.contains_key(&task.pid) =>
            {
                let wake = (thread_that_wakes(event), event.time);
                self.last.insert(task.pid, wake);
            }
            EventKind::ProcessExit { task } => {
                self.last.remove(&task.pid);
            }
            _ => {}
        }
    }

    /// Returns what ended a wait with this event; `None` if it is unknown. `from`: beginning of the
    /// wait. `since`: release of the job with the wait. `waker`: whether the current thread, if it is
    /// watched, also waits at the same place, and its last release.
    pub(super) fn end(
        &self,
        event: &TraceEvent,
        (from, since): (Nanos, Nanos),
        waker: Option<(bool, Option<Nanos>)>,
    ) -> Option<End> {
        let EventKind::Waking { task, .. } = &event.kind else {
            return None;
        };
        let Some(by) = thread_that_wakes(event) else {
            return Some(End::Timeout);
        };
        let (is_peer, released) = waker?;
        Some(if !is_peer && self.answers(task.pid, by, since) {
            End::Answered
        } else if released.is_some_and(|at| at > from) {
            End::Passed
        } else {
            End::Held { is_peer }
        })
    }

    /// Returns whether `tid` woke `by` since this time, directly or through other threads. A
    /// wake-up of `tid` by `by` is then an answer.
    fn answers(&self, tid: u32, by: u32, since: Nanos) -> bool {
        let mut at = by;
        for _ in 0..CHAIN {
            match self.last.get(&at) {
                Some((Some(waker), time)) if *time >= since => {
                    if *waker == tid {
                        return true;
                    }
                    at = *waker;
                }
                _ => return false,
            }
        }
        false
    }
}

/// Returns the thread whose own code caused a wake-up; `None` if an interrupt did, or may have.
pub(super) fn thread_that_wakes(event: &TraceEvent) -> Option<u32> {
    let in_handler = event.has(TraceEvent::HARDIRQ) || event.has(TraceEvent::SOFTIRQ);
    (event.pid != 0 && !in_handler).then_some(event.pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{event, flagged, task, us, waking};

    const TID: u32 = 100;

    /// The thread `by` wakes the thread `pid`.
    fn wakes(us: u64, by: u32, pid: u32) -> TraceEvent {
        waking(us, by, task("t", pid, 120))
    }

    /// Returns what ended a wait from 100 to 200 µs of a job that was released at 50 µs. The thread 33
    /// ends it. `waker`: whether it waits at the same place, and its last release.
    fn end(before: &[TraceEvent], waker: Option<(bool, Option<u64>)>) -> Option<End> {
        let mut wakers = Wakers::new();
        before.iter().for_each(|event| wakers.take(event));
        let waker = waker.map(|(is_peer, released)| (is_peer, released.map(us)));
        wakers.end(&wakes(200, 33, TID), (us(100), us(50)), waker)
    }

    #[test]
    fn wait_ends_with_work_an_answer_or_a_lock() {
        let held = |is_peer| Some(End::Held { is_peer });
        assert_eq!(end(&[], None), None);
        assert_eq!(end(&[], Some((false, None))), held(false));
        assert_eq!(end(&[], Some((true, None))), held(true));
        // A thread that was released during the wait cannot have held a lock since before.
        assert_eq!(end(&[], Some((false, Some(101)))), Some(End::Passed));
        assert_eq!(end(&[], Some((true, Some(101)))), Some(End::Passed));
        assert_eq!(end(&[], Some((false, Some(100)))), held(false));
        // The thread woke it in this job: it answers.
        let asked = [wakes(50, TID, 33)];
        assert_eq!(end(&asked, Some((false, Some(150)))), Some(End::Answered));
        assert_eq!(end(&[wakes(49, TID, 33)], Some((false, None))), held(false));
        // A peer at the same lock was woken because of the lock.
        assert_eq!(end(&asked, Some((true, None))), held(true));
    }

    #[test]
    fn request_may_go_through_other_threads() {
        let answered =
            |before: &[TraceEvent]| end(before, Some((false, None))) == Some(End::Answered);
        assert!(answered(&[wakes(60, TID, 34), wakes(70, 34, 33)]));
        // A later wake-up by another thread counts.
        assert!(!answered(&[wakes(60, TID, 33), wakes(70, 35, 33)]));
        // So do interrupts.
        let interrupt = flagged(TraceEvent::HARDIRQ, wakes(70, 35, 33));
        assert!(!answered(&[wakes(60, TID, 33), interrupt]));
        let ended = event(
            80,
            33,
            EventKind::ProcessExit {
                task: task("t", 33, 120),
            },
        );
        assert!(!answered(&[wakes(60, TID, 33), ended]));
        // Up to eight wake-ups are followed: those of the threads 33 to 40.
        let chain = |length: u32| -> Vec<TraceEvent> {
            let last = wakes(60, TID, 32 + length);
            let others = (33..32 + length).map(|pid| wakes(70, pid + 1, pid));
            others.chain([last]).collect()
        };
        assert!(answered(&chain(8)) && !answered(&chain(9)));
    }

    #[test]
    fn interrupt_ends_a_wait_by_a_timeout() {
        let wakers = Wakers::new();
        let end = |event: &TraceEvent| wakers.end(event, (us(100), us(50)), Some((false, None)));
        assert_eq!(end(&wakes(200, 0, TID)), Some(End::Timeout));
        for flags in [TraceEvent::HARDIRQ, TraceEvent::SOFTIRQ] {
            let on_top = flagged(flags, wakes(200, 33, TID));
            assert_eq!(end(&on_top), Some(End::Timeout));
            assert_eq!(thread_that_wakes(&on_top), None);
        }
        let other = flagged(TraceEvent::IRQS_OFF, wakes(200, 33, TID));
        assert_eq!(thread_that_wakes(&other), Some(33));
        let no_wake_up = event(200, 33, EventKind::SoftirqRaise { vec: 1 });
        assert_eq!(end(&no_wake_up), None);
    }
}
