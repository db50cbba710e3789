//! Keeps the observing thread in the background: it preempts no other thread, and every other
//! thread preempts it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use punctual_rt::{JoinHandle, Policy, ThreadBuilder, Tid, current_tid, policy_of, set_policy};

/// With this policy, threads that wake up preempt the observing thread immediately, but it still
/// gets CPU time.
const LEAST: Policy = Policy::Batch { nice: 19 };

/// Keeps the calling thread at SCHED_IDLE until dropped. On a busy machine, such a thread may not
/// run for seconds, and events would be lost. So a second thread raises it to SCHED_BATCH when a
/// poll does not finish in time, with the lowest weight at first. Without the right to return from
/// SCHED_IDLE, it uses SCHED_BATCH from the start.
pub(crate) struct Background {
    before: Option<Policy>,
    promoter: Option<Promoter>,
}

impl Background {
    /// `turn`: the time from the end of one poll to the end of the next, which is also the interval
    /// at which the second thread checks. The rings hold the events of a busy CPU for four polls.
    /// Changes nothing if the thread has a policy other than the normal one.
    pub(crate) fn begin(turn: Duration) -> Self {
        let own = current_tid();
        let Some(before @ Policy::Other { nice }) = policy_of(own).ok() else {
            return Self {
                before: None,
                promoter: None,
            };
        };
        let batch = Policy::Batch { nice };
        let promoter = Promoter::begin(own, batch, turn);
        let promoter = promoter.filter(|_| set_policy(own, &Policy::Idle).is_ok());
        let changed = promoter.is_some() || set_policy(own, &batch).is_ok();
        Self {
            before: changed.then_some(before),
            promoter,
        }
    }

    /// Marks the end of a poll. Must be called by the thread that created this.
    pub(crate) fn turn(&self) {
        if let Some(promoter) = &self.promoter {
            promoter.turn();
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // End the second thread first, so that the policy does not change after this.
        self.promoter = None;
        if let Some(before) = self.before.take() {
            // The right to do this has been tested, or is not needed because the nice value is the
            // same.
            let _ = set_policy(current_tid(), &before);
        }
    }
}

#[derive(Default)]
struct Shared {
    turns: AtomicU64,
    /// Whether the observing thread is at SCHED_BATCH.
    promoted: AtomicBool,
}

/// Thread that checks whether the observing thread runs, until dropped.
struct Promoter {
    shared: Arc<Shared>,
    /// The thread that checks. It ends when the sender is dropped.
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Promoter {
    /// Returns `None` without the right to leave SCHED_IDLE, or if no thread can be created.
    fn begin(of: Tid, to: Policy, patience: Duration) -> Option<Self> {
        let shared = Arc::new(Shared::default());
        let (tell, told) = channel();
        let (lives, ends) = channel();
        let theirs = Arc::clone(&shared);
        let thread = ThreadBuilder::new("promoter").spawn(move || {
            // Tested on this thread, where remaining at SCHED_IDLE does no harm.
            let may = set_policy(current_tid(), &Policy::Idle).is_ok()
                && set_policy(current_tid(), &to).is_ok();
            let _ = tell.send(may);
            if may {
                theirs.look_after(of, to, patience, &ends);
            }
        });
        let promoter = Self {
            shared,
            thread: Some((lives, thread.ok()?)),
        };
        told.recv().unwrap_or(false).then_some(promoter)
    }

    fn turn(&self) {
        self.shared.turns.fetch_add(1, Ordering::Relaxed);
        if self.shared.promoted.swap(false, Ordering::Relaxed) {
            // If the change is refused, the thread uses more CPU time than intended, but still
            // runs.
            let _ = set_policy(current_tid(), &Policy::Idle);
        }
    }
}

impl Drop for Promoter {
    fn drop(&mut self) {
        if let Some((lives, thread)) = self.thread.take() {
            drop(lives);
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn look_after(&self, thread: Tid, to: Policy, patience: Duration, ends: &Receiver<()>) {
        let mut before = self.turns.load(Ordering::Relaxed);
        let mut steps = [LEAST, to].into_iter();
        while ends.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            let turns = self.turns.load(Ordering::Relaxed);
            if turns != before {
                steps = [LEAST, to].into_iter();
            } else if let Some(policy) = steps.next()
                && set_policy(thread, &policy).is_ok()
            {
                self.promoted.store(true, Ordering::Relaxed);
            }
            before = turns;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const TURN: Duration = Duration::from_millis(5);

    #[test]
    fn policy_is_restored_at_end() {
        let before = policy_of(current_tid()).unwrap();
        // The thread is not promoted, however busy the machine is.
        let background = Background::begin(1_000 * TURN);
        let meanwhile = policy_of(current_tid()).unwrap();
        match before {
            Policy::Other { .. } if background.promoter.is_some() => {
                assert_eq!(meanwhile, Policy::Idle);
            }
            Policy::Other { nice } => assert_eq!(meanwhile, Policy::Batch { nice }),
            _ => assert_eq!(meanwhile, before),
        }
        drop(background);
        assert_eq!(policy_of(current_tid()).unwrap(), before);
    }

    #[test]
    fn starved_thread_is_promoted_until_running() {
        let begun = Instant::now();
        let background = Background::begin(TURN);
        if background.promoter.is_none() {
            punctual_testing::skip!(Right, "not permitted to leave SCHED_IDLE");
            return;
        }
        while policy_of(current_tid()).unwrap() == Policy::Idle {
            assert!(begun.elapsed() < Duration::from_secs(20), "not promoted");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(begun.elapsed() >= TURN);
        // `promoted` is set after the change.
        while policy_of(current_tid()).unwrap() != Policy::Idle {
            assert!(begun.elapsed() < Duration::from_secs(20), "not put back");
            background.turn();
        }
    }
}
