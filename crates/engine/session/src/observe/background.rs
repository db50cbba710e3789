//! The observing thread in the background: it preempts nobody, and everybody preempts it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use punctual_rt::{JoinHandle, Policy, ThreadBuilder, Tid, current_tid, policy_of, set_policy};

/// Others that are woken take the CPU at once, but it is served all the same.
const LEAST: Policy = Policy::Batch { nice: 19 };

/// The calling thread at SCHED_IDLE, until this is dropped. As this is not served for
/// seconds on a busy machine, and events would be lost, a second thread puts it to
/// SCHED_BATCH where no turn ends, with the least weight at first. Without the right to come
/// back from SCHED_IDLE it has SCHED_BATCH.
pub(crate) struct Background {
    before: Option<Policy>,
    promoter: Option<Promoter>,
}

impl Background {
    /// `turn`: from the end of a turn to that of the next; so often the second thread looks.
    /// The rings hold what a busy CPU records in four turns. Nothing changes where the thread
    /// has another policy than the normal one.
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

    /// A turn has ended. Called by the thread that made this.
    pub(crate) fn turn(&self) {
        if let Some(promoter) = &self.promoter {
            promoter.turn();
        }
    }

    /// Sleeps for so long: no turn is missing meanwhile. Called by the thread that made this.
    pub(crate) fn pause(&self, pause: Duration) {
        if let Some(Promoter {
            thread: Some((pauses, _)),
            ..
        }) = &self.promoter
        {
            // Its thread ends no sooner than this.
            let _ = pauses.send(pause);
        }
        std::thread::sleep(pause);
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // First, so that nothing changes the policy after this.
        self.promoter = None;
        if let Some(before) = self.before.take() {
            // The right to it was tried, or with the same nice value none is needed.
            let _ = set_policy(current_tid(), &before);
        }
    }
}

#[derive(Default)]
struct Shared {
    turns: AtomicU64,
    /// The observing thread is at SCHED_BATCH.
    promoted: AtomicBool,
}

/// The thread that looks whether the observing one is served, until this is dropped.
struct Promoter {
    shared: Arc<Shared>,
    /// Its thread, which learns of pauses and ends without the sender.
    thread: Option<(Sender<Duration>, JoinHandle<()>)>,
}

impl Promoter {
    /// `None`: no right to leave SCHED_IDLE, or no thread to be had.
    fn begin(of: Tid, to: Policy, patience: Duration) -> Option<Self> {
        let shared = Arc::new(Shared::default());
        let (tell, told) = channel();
        let (pauses, paused) = channel();
        let theirs = Arc::clone(&shared);
        let thread = ThreadBuilder::new("promoter").spawn(move || {
            // Tried here, where to stay at SCHED_IDLE harms nobody.
            let may = set_policy(current_tid(), &Policy::Idle).is_ok()
                && set_policy(current_tid(), &to).is_ok();
            let _ = tell.send(may);
            if may {
                theirs.look_after(of, to, patience, &paused);
            }
        });
        let promoter = Self {
            shared,
            thread: Some((pauses, thread.ok()?)),
        };
        told.recv().unwrap_or(false).then_some(promoter)
    }

    fn turn(&self) {
        self.shared.turns.fetch_add(1, Ordering::Relaxed);
        if self.shared.promoted.swap(false, Ordering::Relaxed) {
            // Refused: it takes more than it should, and is served.
            let _ = set_policy(current_tid(), &Policy::Idle);
        }
    }
}

impl Drop for Promoter {
    fn drop(&mut self) {
        if let Some((pauses, thread)) = self.thread.take() {
            drop(pauses);
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn look_after(&self, thread: Tid, to: Policy, patience: Duration, paused: &Receiver<Duration>) {
        let mut before = self.turns.load(Ordering::Relaxed);
        let mut steps = [LEAST, to].into_iter();
        let mut wait = patience;
        loop {
            wait = match paused.recv_timeout(wait) {
                Ok(pause) => {
                    wait = pause + patience;
                    continue;
                }
                Err(RecvTimeoutError::Timeout) => patience,
                Err(RecvTimeoutError::Disconnected) => return,
            };
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
    fn the_policy_is_as_before_in_the_end() {
        let before = policy_of(current_tid()).unwrap();
        // Nobody is promoted, however busy the machine is.
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
    fn a_thread_that_has_no_turn_is_promoted_until_it_has_one() {
        let begun = Instant::now();
        let background = Background::begin(TURN);
        if background.promoter.is_none() {
            punctual_testing::skip!(Right, "SCHED_IDLE: no right to leave it");
            return;
        }
        while policy_of(current_tid()).unwrap() == Policy::Idle {
            assert!(begun.elapsed() < Duration::from_secs(20), "not promoted");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(begun.elapsed() >= TURN);
        // `promoted` follows the change.
        while policy_of(current_tid()).unwrap() != Policy::Idle {
            assert!(begun.elapsed() < Duration::from_secs(20), "not put back");
            background.turn();
        }
    }

    #[test]
    fn a_thread_that_pauses_is_not_promoted() {
        let pause = 40 * TURN;
        let background = Background::begin(TURN);
        if background.promoter.is_none() {
            punctual_testing::skip!(Right, "SCHED_IDLE: no right to leave it");
            return;
        }
        let paused = Instant::now();
        // Where it was promoted before the pause, it is put back.
        background.turn();
        background.pause(pause);
        // The pause may have taken longer than was said.
        let policy = policy_of(current_tid()).unwrap();
        if paused.elapsed() < pause + TURN {
            assert_eq!(policy, Policy::Idle);
        }
        while policy_of(current_tid()).unwrap() == Policy::Idle {
            assert!(paused.elapsed() < Duration::from_secs(20), "not promoted");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
