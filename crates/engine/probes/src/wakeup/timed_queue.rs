//! A message queue with a timeout for its reader, as in pmqtest (`--timeout`, `--forcetimeout`). It
//! is separate from the plain queue because checking an option would be on the measured path.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual_model::Nanos;
use punctual_rt::{Error, MessageQueue};

use super::mechanisms::{Reach, Token, Wait, Way, system};

/// How long the reader waits for a message, and whether it then tries again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// The timeout of the first try, which includes the time until the message is due.
    first: Duration,
    /// The timeout of each further try; `None` makes the first timeout an error.
    retry_timeout: Option<Duration>,
}

impl Patience {
    /// Gives up when `limit` has passed since the message was due. The message is due at most
    /// `before` after the start of the wait.
    pub(super) fn once(before: Nanos, limit: Nanos) -> Self {
        Self {
            first: Duration::from_nanos(before.0.saturating_add(limit.0)),
            retry_timeout: None,
        }
    }

    /// Waits like [`once`](Self::once), and then again and again for `limit`, until there is a
    /// message.
    pub(super) fn retrying(before: Nanos, limit: Nanos) -> Self {
        Self {
            retry_timeout: Some(Duration::from_nanos(limit.0)),
            ..Self::once(before, limit)
        }
    }
}

/// The queue.
#[derive(Debug)]
pub(super) struct TimedQueue {
    queue: MessageQueue,
    patience: Patience,
    /// Number of waits that the waiting thread has given up.
    given_up: AtomicU64,
}

impl TimedQueue {
    pub(super) fn new(messages: u32, patience: Patience) -> Result<Self, Error> {
        Ok(Self {
            queue: MessageQueue::new(messages)?,
            patience,
            given_up: AtomicU64::new(0),
        })
    }

    /// Returns the number of waits given up so far.
    fn count(&self) -> u64 {
        self.given_up.load(Ordering::Relaxed)
    }
}

impl Way for TimedQueue {
    type Post<'a> = &'a MessageQueue;
    type Wait<'a> = TimedWait<'a>;

    fn post_end(&self) -> Result<&MessageQueue, Error> {
        Ok(&self.queue)
    }

    fn wait_end(&self) -> Result<TimedWait<'_>, Error> {
        Ok(TimedWait {
            queue: self,
            next: self.patience.first,
            gave_up: false,
        })
    }

    fn reach(&self) -> Option<Reach<'_>> {
        Token::reach(&self.queue)
    }

    fn given_up(&self) -> Option<u64> {
        self.patience.retry_timeout.map(|_| self.count())
    }
}

/// The reader.
pub(super) struct TimedWait<'a> {
    queue: &'a TimedQueue,
    /// The length of the next wait.
    next: Duration,
    gave_up: bool,
}

impl Wait for TimedWait<'_> {
    #[inline]
    fn wait(&mut self) -> Result<(), Error> {
        let TimedQueue {
            queue,
            patience,
            given_up,
        } = self.queue;
        let mut message = [0; MessageQueue::MESSAGE];
        self.gave_up = false;
        if queue.receive_within(&mut message, self.next)?.is_some() {
            // This is also reached after a signal, which means the end of the run.
            self.next = patience.first;
            return Ok(());
        }
        let Some(again) = patience.retry_timeout else {
            return Err(system("mq_timedreceive", io::ErrorKind::TimedOut.into()));
        };
        self.next = again;
        self.gave_up = true;
        given_up.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn gave_up(&self) -> bool {
        self.gave_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(patience: Patience) -> TimedQueue {
        TimedQueue::new(1, patience).unwrap()
    }

    #[test]
    fn absent_message_is_an_error() {
        let queue = queue(Patience::once(Nanos::ZERO, Nanos::from_millis(2)));
        let mut end = queue.wait_end().unwrap();
        queue.post_end().unwrap().post().unwrap();
        end.wait().unwrap();
        let error = end.wait().unwrap_err().to_string();
        assert!(error.contains("mq_timedreceive"), "{error}");
        assert_eq!(Way::given_up(&queue), None);
    }

    #[test]
    fn who_has_patience_waits_again() {
        let millis = Nanos::from_millis;
        let queue = queue(Patience::retrying(millis(1), millis(1)));
        let mut end = queue.wait_end().unwrap();
        for _ in 0..3 {
            end.wait().unwrap();
            assert!(end.gave_up());
        }
        queue.post_end().unwrap().post().unwrap();
        end.wait().unwrap();
        assert!(!end.gave_up());
        assert_eq!(Way::given_up(&queue), Some(3));
    }
}
