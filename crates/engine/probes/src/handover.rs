//! A message that goes with a wake-up: the number of the wake-up, and the time when it was sent. It is in
//! memory that the two threads share without a lock.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use punctual_model::Nanos;

/// The numbers of a hand-over, all zero at first. Only one thread writes, and only one reads. `N` is
/// another kind of number in the tests that try each order of the accesses.
#[derive(Debug)]
pub(crate) struct Handover<'a, N = AtomicU64> {
    /// The number of the latest message; 0 while it is written.
    pub(crate) number: &'a N,
    /// The time just before the wake-up that this message announces, in nanoseconds.
    pub(crate) sent_at: &'a N,
}

/// A message that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// Its number.
    pub(crate) number: u64,
    /// When it was sent.
    pub(crate) sent: Nanos,
}

/// An atomic number, and the fence that belongs to its kind.
pub(crate) trait Number {
    /// Returns the number.
    fn load(&self, order: Ordering) -> u64;
    /// Changes the number.
    fn store(&self, number: u64, order: Ordering);
    /// Orders the accesses before it and after it.
    fn fence(order: Ordering);
}

impl Number for AtomicU64 {
    #[inline(always)]
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    #[inline(always)]
    fn store(&self, number: u64, order: Ordering) {
        self.store(number, order);
    }

    #[inline(always)]
    fn fence(order: Ordering) {
        fence(order);
    }
}

impl<N: Number> Handover<'_, N> {
    /// Writes a message. `number` is higher than that of all earlier ones. `now` reads the clock; the
    /// caller then wakes the receiver at once. Returns the time.
    #[inline]
    pub(crate) fn send(&self, number: u64, now: impl FnOnce() -> Nanos) -> Nanos {
        // The receiver may still be reading the previous message, if that was given up. It must not
        // take the new time for that of the previous message.
        self.number.store(0, Ordering::Relaxed);
        N::fence(Ordering::Release);
        let sent = now();
        self.sent_at.store(sent.0, Ordering::Relaxed);
        self.number.store(number, Ordering::Release);
        sent
    }

    /// Returns the latest message, if it is later than number `taken`. If something else woke the
    /// receiver, the wake-up of this message may still be to come.
    #[inline]
    pub(crate) fn receive(&self, taken: u64) -> Option<Message> {
        let number = self.number.load(Ordering::Acquire);
        let sent = Nanos(self.sent_at.load(Ordering::Relaxed));
        N::fence(Ordering::Acquire);
        let unchanged = self.number.load(Ordering::Relaxed) == number;
        (unchanged && number > taken).then_some(Message { number, sent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_received_once() {
        let (number, sent_at) = (AtomicU64::new(0), AtomicU64::new(0));
        let handover = Handover {
            number: &number,
            sent_at: &sent_at,
        };
        assert_eq!(handover.receive(0), None);
        assert_eq!(handover.send(3, || Nanos(10)), Nanos(10));
        let message = Message {
            number: 3,
            sent: Nanos(10),
        };
        assert_eq!(handover.receive(0), Some(message));
        assert_eq!(handover.receive(3), None);
    }
}

/// Tries each order of the accesses that the memory model allows.
#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64 as Modelled;

    use super::*;

    impl Number for Modelled {
        fn load(&self, order: Ordering) -> u64 {
            self.load(order)
        }

        fn store(&self, number: u64, order: Ordering) {
            self.store(number, order);
        }

        fn fence(order: Ordering) {
            loom::sync::atomic::fence(order);
        }
    }

    #[derive(Default)]
    struct Shared {
        number: Modelled,
        sent_at: Modelled,
    }

    impl Shared {
        fn handover(&self) -> Handover<'_, Modelled> {
            Handover {
                number: &self.number,
                sent_at: &self.sent_at,
            }
        }
    }

    /// The sender gives up a message while the receiver reads.
    #[test]
    fn no_order_gives_a_message_the_time_of_another() {
        loom::model(|| {
            let shared = Arc::new(Shared::default());
            let sender = loom::thread::spawn({
                let shared = Arc::clone(&shared);
                move || {
                    for number in 1..=2 {
                        shared.handover().send(number, || Nanos(10 * number));
                    }
                }
            });
            let mut taken = 0;
            for _ in 0..2 {
                if let Some(message) = shared.handover().receive(taken) {
                    assert_eq!(message.sent.0, 10 * message.number);
                    assert!(taken < message.number);
                    taken = message.number;
                }
            }
            sender.join().unwrap();
            let last = shared.handover().receive(taken);
            assert_eq!(last.map_or(taken, |message| message.number), 2);
        });
    }
}
