//! The measuring thread: one frame in each period.

use std::io;
use std::sync::Arc;

use punctual_model::{Histogram, Nanos, SignedNanos};
use punctual_rt::{Clock, Error};

use super::frame_socket::{FrameSocket, Received, Stamps};
use super::replies::Replies;
use crate::monotonic::now;
use crate::paced::{Due, Pace, Period};
use crate::{Control, Recorder, SelfCost, WorkerOutcome};

/// The inputs of the thread.
pub(super) struct Worker {
    pub(super) socket: FrameSocket,
    pub(super) recorder: Recorder,
    pub(super) interval: Nanos,
    pub(super) duration: Option<Nanos>,
    pub(super) warm_up: Nanos,
    pub(super) control: Arc<Control>,
}

/// The result of the thread, in addition to the samples.
pub(super) struct Seen {
    pub(super) replies: Replies,
    pub(super) parts: Parts,
    /// Round trips after the warm-up.
    pub(super) measured: u64,
    /// Periods without a frame, because the thread woke too late.
    pub(super) skipped: u64,
    /// Periods without a frame, because the kernel refused to send it.
    pub(super) refused: u64,
    /// Number of errors that the kernel reported.
    pub(super) failures: u64,
    /// The first of these errors.
    pub(super) failure: Option<io::Error>,
}

/// The parts of the round trips.
pub(super) struct Parts {
    pub(super) send: Histogram,
    pub(super) network: Histogram,
    pub(super) receive: Histogram,
    /// From the card's time stamp of the frame to that of the reply, if the card takes stamps.
    pub(super) wire: Histogram,
    /// The parts of the longest round trip, if they are known.
    pub(super) longest: Option<Split>,
    longest_took: Nanos,
}

/// The parts of one round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    pub(super) send: Nanos,
    pub(super) network: Nanos,
    pub(super) receive: Nanos,
    pub(super) wire: Option<Nanos>,
}

fn real_time() -> Nanos {
    Nanos(Clock::Realtime.now().as_nanos())
}

impl Worker {
    pub(super) fn run(self) -> Result<(WorkerOutcome, Seen), Error> {
        let control = self.control;
        let _entered = control.enter();
        let cost = SelfCost::measure(Clock::Monotonic);
        let (mut recorder, mut socket) = (self.recorder, self.socket);
        let mut seen = Seen::new();
        let pace = Pace {
            interval: self.interval,
            duration: self.duration,
        };
        let first = now() + self.interval;
        let warm_until = first + self.warm_up;
        let paced = pace.run(first, &mut recorder, &control, |recorder, due| {
            let is_measured = due.at >= warm_until;
            Ok(Exchange {
                socket: &mut socket,
                recorder,
                control: &control,
                seen: &mut seen,
            }
            .period(due, is_measured))
        })?;
        seen.skipped = paced.skipped;
        Ok((recorder.finish(paced.expected, cost), seen))
    }
}

/// One frame and its reply.
struct Exchange<'a> {
    socket: &'a mut FrameSocket,
    recorder: &'a mut Recorder,
    control: &'a Control,
    seen: &'a mut Seen,
}

impl Exchange<'_> {
    /// Sends a frame, and waits for its reply until the next period. The first frame has the number
    /// 0, so that this period has its own number.
    fn period(self, due: Due, is_measured: bool) -> Period {
        let Self {
            socket,
            recorder,
            control,
            seen,
        } = self;
        let (number, until) = (due.number, due.until);
        let (sent_real, start) = (real_time(), now());
        if let Err(error) = socket.send(number) {
            seen.refused += 1;
            seen.fail(error);
            // If this fails too, so will the next frame.
            if let Ok(reopened) = socket.reopened() {
                *socket = reopened;
            }
            return Period::Missed;
        }
        seen.replies.sent(number);
        loop {
            let received = socket.receive();
            let (end, end_real) = (now(), real_time());
            match received {
                Received::Reply { number: of, stamps } => {
                    if !seen.replies.answered(of, number) {
                        continue;
                    }
                    let took = end - start;
                    recorder.sample(start, SignedNanos(took.0 as i64));
                    if is_measured {
                        seen.measured += 1;
                        let sent = socket.sent_at();
                        let split = Split::new(sent_real, (sent, stamps), end_real);
                        seen.parts.add(took, split);
                    }
                    return Period::Answered;
                }
                Received::Foreign => {}
                Received::Failed(error) => seen.fail(error),
                Received::Nothing if end >= until => return Period::Missed,
                Received::Nothing if control.stopping() => {
                    seen.replies.abandon();
                    return Period::Stopped;
                }
                Received::Nothing => {
                    if let Err(error) = socket.wait(until - end) {
                        seen.fail(error);
                        return Period::Missed;
                    }
                }
            }
        }
    }
}

impl Seen {
    fn new() -> Self {
        Self {
            replies: Replies::new(),
            parts: Parts {
                send: Histogram::new(),
                network: Histogram::new(),
                receive: Histogram::new(),
                wire: Histogram::new(),
                longest: None,
                longest_took: Nanos::ZERO,
            },
            measured: 0,
            skipped: 0,
            refused: 0,
            failures: 0,
            failure: None,
        }
    }

    #[cold]
    fn fail(&mut self, error: io::Error) {
        self.failures += 1;
        self.failure.get_or_insert(error);
    }
}

impl Parts {
    fn add(&mut self, took: Nanos, split: Option<Split>) {
        if took > self.longest_took {
            (self.longest_took, self.longest) = (took, split);
        }
        let Some(split) = split else {
            return;
        };
        let parts = [
            (&mut self.send, split.send),
            (&mut self.network, split.network),
            (&mut self.receive, split.receive),
        ];
        for (histogram, part) in parts {
            histogram.record(SignedNanos(part.0 as i64));
        }
        if let Some(wire) = split.wire {
            self.wire.record(SignedNanos(wire.0 as i64));
        }
    }
}

impl Split {
    /// Returns `None` if the kernel took no stamps, or if they are not between the times of the
    /// thread, because the clock was set. The clock of the card has another zero, so only the
    /// difference of its stamps is used, and only if it is shorter than the time between those of the
    /// kernel.
    fn new(begin: Nanos, (out, back): (Stamps, Stamps), end: Nanos) -> Option<Self> {
        let (sent, received) = out.kernel.zip(back.kernel)?;
        (begin <= sent && sent <= received && received <= end).then(|| {
            let network = received - sent;
            let cards = out.card.zip(back.card);
            let wire = cards.filter(|(sent, received)| sent <= received);
            Self {
                send: sent - begin,
                network,
                receive: end - received,
                wire: (wire.map(|(sent, received)| received - sent))
                    .filter(|wire| *wire <= network),
            }
        })
    }
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn parts_add_up_or_are_unknown() {
        let split = |times: [u64; 4]| {
            let [begin, sent, received, end] = times.map(Nanos);
            let stamps = |kernel, card| Stamps {
                kernel: Some(kernel),
                card: Some(Nanos(card)),
            };
            Split::new(begin, (stamps(sent, 1_000), stamps(received, 1_025)), end)
        };
        let known = split([10, 12, 40, 45]).unwrap();
        assert_eq!(known.send + known.network + known.receive, Nanos(35));
        assert_eq!(known.wire, Some(Nanos(25)));
        // The stamps of the card belong to something else.
        assert_eq!(split([10, 12, 30, 45]).unwrap().wire, None);
        let none = Stamps::default();
        assert_eq!(Split::new(Nanos(1), (none, none), Nanos(2)), None);
        for unknown in [[10, 9, 40, 45], [10, 12, 11, 45], [10, 12, 46, 45]] {
            assert_eq!(split(unknown), None);
        }
        let mut seen = Seen::new();
        seen.parts.add(Nanos(35), Some(known));
        seen.parts.add(Nanos(20), None);
        assert_eq!(seen.parts.longest, Some(known));
        // The parts of a longer round trip are unknown.
        seen.parts.add(Nanos(50), None);
        assert_eq!(seen.parts.longest, None);
    }
}
