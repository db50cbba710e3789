//! The measuring thread: one frame in each period.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use punctual_model::{Histogram, Nanos, SignedNanos};
use punctual_rt::{Clock, Error, Instant, Nanosleep, PeriodicWait, Wake};

use super::clocks::{Pair, RealOffset, real_time};
use super::departures::Departures;
use super::flights::{DropReason, Flight, LaunchTime, Stamps};
use super::frame_socket::{CardStamps, FrameSocket, Received};
use super::launch::Launch;
use super::replies::{REMEMBERED, Replies};
use crate::monotonic::now;
use crate::run::end_of;
use crate::{Control, Recorder, SelfCost, WorkerOutcome};

/// The inputs of the thread.
pub(super) struct Worker {
    pub(super) socket: FrameSocket,
    pub(super) recorder: Recorder,
    pub(super) interval: Nanos,
    pub(super) duration: Option<Nanos>,
    pub(super) warm_up: Nanos,
    /// Launch times of the frames, if they have any.
    pub(super) launch: Option<Launch>,
    pub(super) control: Arc<Control>,
}

/// The result of the thread, in addition to the samples.
pub(super) struct WorkerResult {
    pub(super) replies: Replies,
    pub(super) parts: Parts,
    /// Round trips after the warm-up.
    pub(super) measured: u64,
    /// Periods without a frame, because the thread woke too late.
    pub(super) skipped: u64,
    /// Periods without a frame, because the kernel refused to send it.
    pub(super) refused: u64,
    /// Frames that the queueing discipline dropped, because their launch time had passed when they
    /// reached the queue.
    pub(super) passed_on_the_way: u64,
    /// Frames that the queueing discipline dropped, because their launch time passed in the queue.
    pub(super) missed_in_queue: u64,
    /// Frames after the warm-up that the queueing discipline did not drop.
    pub(super) launched: u64,
    /// Number of errors that the kernel reported.
    pub(super) failures: u64,
    /// The first of these errors.
    pub(super) failure: Option<io::Error>,
    /// Departures of the frames, if they have launch times.
    pub(super) departures: Departures,
    pub(super) card_stamps: CardStamps,
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
    longest_took: SignedNanos,
}

/// The parts of one round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    pub(super) send: Nanos,
    pub(super) network: Nanos,
    pub(super) receive: Nanos,
    pub(super) wire: Option<Nanos>,
}

/// A frame whose reply is awaited.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    number: u64,
    /// The start of its period: when it may leave at the earliest.
    due: Nanos,
    /// When its round trip began: then, or at the send call if that is later.
    start: Nanos,
    is_measured: bool,
}

/// The state of a run.
struct Run {
    worker: Worker,
    seen: WorkerResult,
    /// Frames whose period has not ended. Without launch times, there is at most one.
    awaited: VecDeque<Awaited>,
    /// Frames whose period ended without a reply, the latest last, and whether they count as
    /// unanswered. Their replies may still come.
    overdue: VecDeque<(Awaited, bool)>,
    /// The number of the last frame. The first frame of the run is 1, because the one that checked
    /// the connection was 0.
    number: u64,
    /// Number of measured frames without a reply, and the shortest time that one of them was awaited.
    unanswered: Option<(u64, Nanos)>,
    warm_until: Nanos,
    /// Used to compute and compare launch times.
    offset: RealOffset,
}

/// A reading of both clocks differs from their offset by less than this, unless the clock was set or
/// the thread was interrupted.
const NEAR: Nanos = Nanos::from_micros(100);

impl Worker {
    pub(super) fn run(self) -> Result<(WorkerOutcome, WorkerResult), Error> {
        let control = Arc::clone(&self.control);
        let _entered = control.enter();
        let cost = SelfCost::measure(Clock::Monotonic);
        let mut sleep = Nanosleep::new(Clock::Monotonic)?;
        let (interval, hold) = (self.interval, self.hold());
        let first = now() + interval;
        let end = end_of(first, self.duration);
        let mut run = Run {
            seen: WorkerResult::new(),
            awaited: VecDeque::with_capacity(Launch::MOST_WAITING as usize + 2),
            overdue: VecDeque::with_capacity(REMEMBERED as usize),
            number: 0,
            unanswered: None,
            warm_until: first + hold + self.warm_up,
            offset: RealOffset::measure(),
            worker: self,
        };
        run.worker.recorder.count_overruns();
        run.worker.recorder.start(first + hold);
        let mut due = first;
        while !control.stopping() && (due < end || !run.awaited.is_empty()) {
            if due >= end {
                run.receive_until(due + hold + interval);
                continue;
            }
            run.receive_until(due);
            if control.stopping() {
                break;
            }
            if sleep.wait_until(Instant::from_nanos(due.0))? == Wake::Interrupted {
                continue;
            }
            let passed = now().saturating_sub(due).0 / interval.0;
            if passed > 0 {
                let left = (end - due).0.div_ceil(interval.0);
                let passed = passed.min(left);
                run.worker.recorder.missed(due + hold, passed, interval);
                run.seen.skipped += passed;
                due += Nanos(interval.0 * passed);
                continue;
            }
            run.send(due);
            due += interval;
        }
        let expected = (due - first).0 / interval.0;
        Ok(run.finish(expected, cost))
    }

    /// Returns the time from the scheduled send call of a frame until it may leave.
    fn hold(&self) -> Nanos {
        self.launch.as_ref().map_or(Nanos::ZERO, Launch::hold)
    }
}

impl Run {
    /// Sends the frame that is due.
    fn send(&mut self, due: Nanos) {
        self.number += 1;
        let real = real_time();
        let sent = Pair {
            real,
            monotonic: now(),
        };
        let launch = (self.worker.launch.is_some()).then(|| self.launch_time(due, sent));
        let launch = launch.flatten();
        let due = due + self.worker.hold();
        let start = due.max(sent.monotonic);
        let flight = Flight {
            number: self.number,
            sent,
            launch,
            is_measured: start >= self.warm_until,
        };
        if let Err(error) = self.worker.socket.send(flight) {
            self.seen.refused += 1;
            self.seen.fail(error);
            self.miss(due);
            // If this fails too, so will the next frame.
            let _ = self.worker.socket.reopen();
            return;
        }
        self.seen.replies.sent(self.number);
        self.seen.launched += u64::from(flight.is_measured);
        self.awaited.push_back(Awaited {
            number: self.number,
            due,
            start,
            is_measured: flight.is_measured,
        });
        self.note_dropped();
    }

    fn launch_time(&mut self, due: Nanos, sent: Pair) -> Option<LaunchTime> {
        if !self.offset.is_near(sent, NEAR) {
            self.offset = RealOffset::measure();
        }
        let launch = self.worker.launch.as_ref()?;
        Some(launch.time(due, self.offset))
    }

    /// Counts the frames that the queueing discipline dropped.
    fn note_dropped(&mut self) {
        while let Some((number, why)) = self.worker.socket.next_dropped() {
            match why {
                DropReason::OnTheWay => self.seen.passed_on_the_way += 1,
                DropReason::InQueue => self.seen.missed_in_queue += 1,
            }
            self.seen.replies.forget();
            let place = self.awaited.iter().position(|one| one.number == number);
            if let Some(frame) = place.and_then(|place| self.awaited.remove(place)) {
                self.seen.launched -= u64::from(frame.is_measured);
                self.miss(frame.due);
            }
        }
    }

    /// Counts a frame that had no reply until `now`. Its round trip takes at least this long. All
    /// counted frames share the shortest of these times, so frames that were sent late are left out:
    /// their round trips stay unknown.
    fn lose(&mut self, frame: Awaited, now: Nanos) {
        self.miss(frame.due);
        let waited = now.saturating_sub(frame.start);
        let interval = self.worker.interval.0;
        let counts = frame.is_measured && waited.0 >= interval - interval / 20;
        if self.overdue.len() == REMEMBERED as usize {
            self.overdue.pop_front();
        }
        self.overdue.push_back((frame, counts));
        if counts {
            let least = self
                .unanswered
                .map_or(waited, |(_, least)| least.min(waited));
            let count = self.unanswered.map_or(0, |(count, _)| count);
            self.unanswered = Some((count + 1, least));
        }
    }

    fn miss(&mut self, due: Nanos) {
        self.worker.recorder.missed(due, 1, self.worker.interval);
    }

    /// Reads replies until this time, or until none is awaited.
    fn receive_until(&mut self, until: Nanos) {
        while !self.awaited.is_empty() && !self.worker.control.stopping() {
            let received = self.worker.socket.receive();
            let monotonic = now();
            let real = real_time();
            match received {
                Received::Reply { number, stamps } => {
                    self.reply(number, stamps, Pair { real, monotonic });
                }
                Received::Foreign => {}
                Received::Failed(error) => self.seen.fail(error),
                Received::Nothing => {
                    self.note_dropped();
                    let interval = self.worker.interval;
                    while let Some(late) = (self.awaited.front().copied())
                        .filter(|frame| frame.due + interval <= monotonic)
                    {
                        self.awaited.pop_front();
                        self.lose(late, monotonic);
                    }
                    let Some(next) = self.awaited.front().filter(|_| monotonic < until) else {
                        return;
                    };
                    let wake = until.min(next.due + interval);
                    if let Err(error) = self.worker.socket.wait(wake - monotonic) {
                        self.seen.fail(error);
                        return;
                    }
                }
            }
        }
    }

    /// Notes the reply to a frame, which was read at this time.
    fn reply(&mut self, number: u64, stamps: Stamps, end: Pair) {
        let sent = self.worker.socket.sent_at(number);
        if sent.is_some_and(|(sent, _)| is_early(sent, stamps, end)) {
            self.seen.replies.early();
            return;
        }
        let place = self.awaited.iter().position(|one| one.number == number);
        let replies = &mut self.seen.replies;
        if !replies.answered(number, self.number, place.is_some()) {
            self.reply_late(number, end.monotonic);
            return;
        }
        let Some(frame) = place.and_then(|place| self.awaited.remove(place)) else {
            return;
        };
        let took = end.monotonic.signed_sub(frame.start);
        self.worker.recorder.sample(frame.start, took);
        if frame.is_measured {
            self.seen.measured += 1;
            let split = sent.and_then(|(sent, out)| Split::new(sent.real, (out, stamps), end.real));
            self.seen.parts.add(took, split);
        }
    }

    /// Notes the first reply to a frame whose period has ended. Its round trip is known after all.
    fn reply_late(&mut self, number: u64, now: Nanos) {
        let mut overdue = self.overdue.iter();
        let place = overdue.rposition(|(frame, _)| frame.number == number);
        let Some((frame, counts)) = place.and_then(|place| self.overdue.remove(place)) else {
            return;
        };
        let took = now.saturating_sub(frame.start);
        self.worker.recorder.answered_late(frame.due, took);
        if counts && let Some((count, _)) = &mut self.unanswered {
            *count -= 1;
        }
    }

    /// Ends the run. Frames whose reply is still awaited are not expected to be answered.
    fn finish(mut self, expected: u64, cost: SelfCost) -> (WorkerOutcome, WorkerResult) {
        self.worker.socket.take_reports();
        self.note_dropped();
        let abandoned = self.awaited.len() as u64;
        for frame in &self.awaited {
            self.seen.replies.forget();
            self.seen.launched -= u64::from(frame.is_measured);
        }
        if let Some((count, least)) = self.unanswered {
            self.worker.recorder.unanswered(count, least);
        }
        let outcome = self.worker.recorder.finish(expected - abandoned, cost);
        self.seen.card_stamps = self.worker.socket.card_stamps;
        self.seen.departures = self.worker.socket.departures;
        (outcome, self.seen)
    }
}

impl WorkerResult {
    fn new() -> Self {
        Self {
            replies: Replies::new(),
            parts: Parts {
                send: Histogram::preallocated(),
                network: Histogram::preallocated(),
                receive: Histogram::preallocated(),
                wire: Histogram::preallocated(),
                longest: None,
                longest_took: SignedNanos(i64::MIN),
            },
            measured: 0,
            skipped: 0,
            refused: 0,
            passed_on_the_way: 0,
            missed_in_queue: 0,
            launched: 0,
            failures: 0,
            failure: None,
            departures: Departures::new(None),
            card_stamps: CardStamps::default(),
        }
    }

    #[cold]
    fn fail(&mut self, error: io::Error) {
        self.failures += 1;
        self.failure.get_or_insert(error);
    }
}

impl Parts {
    fn add(&mut self, took: SignedNanos, split: Option<Split>) {
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

/// Returns whether the kernel received a reply before its frame was sent. This is unknown if
/// CLOCK_REALTIME was set in the meantime.
fn is_early(sent: Pair, reply: Stamps, read: Pair) -> bool {
    let is_same_clock = (read.real.signed_sub(sent.real).0)
        .abs_diff(read.monotonic.signed_sub(sent.monotonic).0)
        <= NEAR.0;
    is_same_clock && reply.kernel.is_some_and(|received| received < sent.real)
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn reply_before_its_frame_is_early() {
        let at = |real: u64, monotonic: u64| Pair {
            real: Nanos(real),
            monotonic: Nanos(monotonic),
        };
        let received = |kernel: u64| Stamps {
            kernel: Some(Nanos(kernel)),
            card: None,
        };
        let sent = at(1_000_000_000, 5_000_000_000);
        let read = at(1_000_050_000, 5_000_050_010);
        assert!(is_early(sent, received(999_999_999), read));
        assert!(!is_early(sent, received(1_000_000_000), read));
        assert!(!is_early(sent, Stamps::default(), read));
        // The clock was set back by a second, so the stamp says nothing.
        let read = at(50_000, 5_000_050_010);
        assert!(!is_early(sent, received(40_000), read));
    }

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
        let mut seen = WorkerResult::new();
        seen.parts.add(SignedNanos(35), Some(known));
        seen.parts.add(SignedNanos(20), None);
        assert_eq!(seen.parts.longest, Some(known));
        // The parts of a longer round trip are unknown.
        seen.parts.add(SignedNanos(50), None);
        assert_eq!(seen.parts.longest, None);
    }
}
