//! Keeps the observing thread in the background: it preempts no other thread, and every other
//! thread preempts it.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use punctual_rt::{JoinHandle, Policy, ThreadBuilder, Tid, current_tid, policy_of, set_policy};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::pace::LONGEST;

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
    /// `news`: is readable while a thread that [rests](Self::rest) should poll. Changes nothing if
    /// the thread has a policy other than the normal one.
    pub(crate) fn begin(turn: Duration, news: Option<OwnedFd>) -> Self {
        let own = current_tid();
        let Some(before @ Policy::Other { nice }) = policy_of(own).ok() else {
            return Self {
                before: None,
                promoter: None,
            };
        };
        let batch = Policy::Batch { nice };
        let promoter = Promoter::begin(own, batch, turn, news);
        let promoter = promoter.filter(|_| set_policy(own, &Policy::Idle).is_ok());
        let changed = promoter.is_some() || set_policy(own, &batch).is_ok();
        Self {
            before: changed.then_some(before),
            promoter,
        }
    }

    /// Performs a longer wait. Only news make the second thread check during this time.
    pub(crate) fn rest(&self, wait: impl FnOnce()) {
        let Some(promoter) = &self.promoter else {
            return wait();
        };
        promoter.shared.rests(true);
        wait();
        promoter.shared.rests(false);
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

struct Shared {
    /// Changes when the observing thread runs.
    turns: AtomicU64,
    /// Whether the observing thread is in a longer wait.
    rests: AtomicBool,
    /// Whether the observing thread is at SCHED_BATCH.
    promoted: AtomicBool,
    /// Is written at the end.
    end: OwnedFd,
    news: Option<OwnedFd>,
}

/// Thread that checks whether the observing thread runs, until dropped.
struct Promoter {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Promoter {
    /// Returns `None` without the right to leave SCHED_IDLE, or if no thread can be created.
    fn begin(of: Tid, to: Policy, patience: Duration, news: Option<OwnedFd>) -> Option<Self> {
        let shared = Arc::new(Shared {
            turns: AtomicU64::new(0),
            rests: AtomicBool::new(false),
            promoted: AtomicBool::new(false),
            end: eventfd(0, EventfdFlags::CLOEXEC).ok()?,
            news,
        });
        let (tell, told) = channel();
        let theirs = Arc::clone(&shared);
        let thread = ThreadBuilder::new("promoter").spawn(move || {
            // Tested on this thread, where remaining at SCHED_IDLE does no harm.
            let may = set_policy(current_tid(), &Policy::Idle).is_ok()
                && set_policy(current_tid(), &to).is_ok();
            let _ = tell.send(may);
            if may {
                theirs.look_after(of, to, patience);
            }
        });
        let promoter = Self {
            shared,
            thread: Some(thread.ok()?),
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "the thread says at once whether it can run"
        )]
        told.recv().unwrap_or(false).then_some(promoter)
    }

    fn turn(&self) {
        self.shared.runs();
        if self.shared.promoted.swap(false, Ordering::Relaxed) {
            // If the change is refused, the thread uses more CPU time than intended, but still
            // runs.
            let _ = set_policy(current_tid(), &Policy::Idle);
        }
    }
}

impl Drop for Promoter {
    fn drop(&mut self) {
        let ended = rustix::io::write(&self.shared.end, &1_u64.to_ne_bytes());
        if let (Some(thread), Ok(_)) = (self.thread.take(), ended) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn runs(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    fn rests(&self, rests: bool) {
        self.rests.store(rests, Ordering::Relaxed);
        self.runs();
    }

    fn look_after(&self, thread: Tid, to: Policy, patience: Duration) {
        let mut steps = [LEAST, to].into_iter();
        loop {
            let before = self.turns.load(Ordering::Relaxed);
            if self.rests.load(Ordering::Relaxed) {
                match self.wait(self.news.as_ref(), 2 * Duration::from(LONGEST)) {
                    Woken::End => return,
                    // After its longest wait, the thread should have run without news.
                    Woken::News | Woken::Timeout => {}
                }
            }
            if self.wait(None, patience) == Woken::End {
                return;
            }
            if self.turns.load(Ordering::Relaxed) != before {
                steps = [LEAST, to].into_iter();
            } else if let Some(policy) = steps.next()
                && set_policy(thread, &policy).is_ok()
            {
                self.promoted.store(true, Ordering::Relaxed);
            }
        }
    }

    fn wait(&self, news: Option<&OwnedFd>, timeout: Duration) -> Woken {
        let files = [Some(&self.end), news].into_iter().flatten();
        let mut files: Vec<PollFd<'_>> =
            files.map(|file| PollFd::new(file, PollFlags::IN)).collect();
        let timeout = timeout.try_into().ok();
        match poll(&mut files, timeout.as_ref()) {
            Ok(0) | Err(_) => Woken::Timeout,
            Ok(_) if files[0].revents().is_empty() => Woken::News,
            Ok(_) => Woken::End,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    End,
    News,
    Timeout,
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
        let background = Background::begin(1_000 * TURN, None);
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
        let background = Background::begin(TURN, None);
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

    #[test]
    fn resting_thread_is_promoted_by_news_only() {
        let news = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let background = Background::begin(TURN, news.try_clone().ok());
        if background.promoter.is_none() {
            punctual_testing::skip!(Right, "not permitted to leave SCHED_IDLE");
            return;
        }
        background.rest(|| {
            // A check may have begun before the rest, and sees that the thread has run.
            std::thread::sleep(20 * TURN);
            assert_eq!(policy_of(current_tid()).unwrap(), Policy::Idle);
            rustix::io::write(&news, &1_u64.to_ne_bytes()).unwrap();
            let begun = Instant::now();
            while policy_of(current_tid()).unwrap() == Policy::Idle {
                assert!(begun.elapsed() < Duration::from_secs(20), "not promoted");
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }
}
