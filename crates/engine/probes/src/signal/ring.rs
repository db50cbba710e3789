//! The threads of the ring: one begins each round, the others pass it on.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use punctual_model::{Histogram, Nanos};
use punctual_rt::{
    Clock, Error, Instant, Nanosleep, PeriodicWait, SignalPort, SignalWay, Tid, Wake, send_signal,
};

use crate::handover::{Handover, Message};
use crate::run::end_of;
use crate::thread_group::Member;
use crate::{Control, ProbeError, Recorder, SelfCost, WorkerOutcome};

/// The clock used for the sleeps and for all time stamps, including those of the handler.
pub(super) const CLOCK: Clock = Clock::Monotonic;

/// A round that has not returned after this time is given up.
pub(super) const PATIENCE: Nanos = Nanos::from_secs(1);

/// The data from the sender of a signal to its receiver. It is on a separate cache line, so that
/// only these two threads contend for it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Hop {
    /// The number of rounds that had begun when the signal was sent, including its own round.
    rounds: AtomicU64,
    sent_at: AtomicU64,
}

impl Hop {
    const fn handover(&self) -> Handover<'_> {
        Handover {
            number: &self.rounds,
            sent_at: &self.sent_at,
        }
    }
}

/// The state that all threads share.
#[derive(Debug)]
pub(super) struct Ring {
    pub(super) pace: Pace,
    pub(super) way: SignalWay,
    /// The thread IDs, which are set before the threads begin.
    pub(super) threads: OnceLock<Vec<Tid>>,
    /// Indexed by the receiver.
    hops: Vec<Hop>,
    /// The start time of the current round; zero between rounds.
    under_way: AtomicU64,
    /// Number of rounds that came due and are over.
    complete: AtomicU64,
    ended: AtomicBool,
}

/// The timing of rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Time from one burst to the next.
    pub(super) interval: Nanos,
    /// Number of rounds in a burst, between which there is no pause.
    pub(super) burst: u64,
    /// Length of the run; `None` to run until stopped.
    pub(super) duration: Option<Nanos>,
    /// Whether the first thread records whole rounds.
    pub(super) whole: bool,
    /// The number of samples at which the run ends.
    pub(super) wakeups: u64,
}

/// The times of one run.
#[derive(Clone, Copy, Debug)]
struct Times {
    start: Nanos,
    end: Nanos,
    interval: Nanos,
    burst: u64,
}

impl Times {
    /// Returns when this round is due, which is the time when its burst is due.
    fn at(&self, round: u64) -> Nanos {
        self.start + Nanos(self.interval.0.saturating_mul(round / self.burst))
    }

    /// Returns the last round that is due by `now`. `round` must already be due.
    fn latest(&self, round: u64, now: Nanos) -> u64 {
        let until = now.min(self.end - Nanos(1));
        round.max((until - self.start).0 / self.interval.0 * self.burst)
    }
}

/// A signal that arrived.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    rounds: u64,
    sent: Nanos,
    at: Nanos,
}

/// The recording of one thread, with its accounting.
struct Account {
    recorder: Recorder,
    /// Number of rounds that have been recorded or counted as missed.
    rounds: u64,
}

impl Account {
    fn take(&mut self, arrival: Arrival, times: &Times) {
        self.missed(arrival.rounds - 1, times);
        self.recorder
            .sample(arrival.sent, arrival.at.signed_sub(arrival.sent));
        self.rounds = arrival.rounds;
    }

    /// Counts the rounds up to `until` that have no sample as missed.
    fn missed(&mut self, until: u64, times: &Times) {
        if until > self.rounds {
            let count = until - self.rounds;
            let first = times.at(self.rounds);
            let apart = Nanos(times.interval.0 / times.burst);
            self.recorder.missed(first, count, apart);
            self.rounds = until;
        }
    }

    /// Ends the recording. A round that was cut off by the end counts for those threads that it had
    /// reached.
    fn finish(mut self, ring: &Ring, times: &Times, cost: SelfCost) -> WorkerOutcome {
        self.missed(ring.complete.load(Ordering::Relaxed), times);
        let expected = self.rounds;
        self.recorder.finish(expected, cost)
    }
}

/// The result of a thread.
#[derive(Debug)]
pub(super) struct Brought {
    pub(super) worker: WorkerOutcome,
    /// Durations of whole rounds after the warm-up, from the first signal to the last. Only the
    /// thread that begins the rounds has them.
    pub(super) rounds: Option<Histogram>,
}

impl Ring {
    pub(super) fn new(threads: usize, way: SignalWay, pace: Pace) -> Self {
        Self {
            pace,
            way,
            threads: OnceLock::new(),
            hops: (0..threads).map(|_| Hop::default()).collect(),
            under_way: AtomicU64::new(0),
            complete: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        }
    }

    /// Interrupts the first thread's wait for a round that is taking too long. Called periodically
    /// by another thread.
    pub(super) fn look(&self) {
        let began = self.under_way.load(Ordering::Relaxed);
        let now = CLOCK.now().as_nanos();
        if began != 0
            && now.saturating_sub(began) >= PATIENCE.0
            && let Some(first) = self.threads.get().and_then(|threads| threads.first())
        {
            // If the thread has just ended, its wait has ended as well.
            let _ = punctual_rt::interrupt::interrupt(*first);
        }
    }

    /// Returns the times of the run, once it begins; `None` if it is cancelled.
    fn begin(&self, member: &Member) -> Option<Times> {
        let start = Nanos(member.begin()?.as_nanos());
        Some(Times {
            start,
            interval: self.pace.interval,
            burst: self.pace.burst,
            end: end_of(start, self.pace.duration),
        })
    }

    /// Records the time, and signals the thread at `place`.
    #[inline]
    fn send(&self, place: usize, to: Tid, rounds: u64) -> Result<Nanos, Error> {
        let now = || Nanos(CLOCK.now().as_nanos());
        let sent = self.hops[place].handover().send(rounds, now);
        send_signal(to)?;
        Ok(sent)
    }

    /// Waits for one signal at `place`. Returns `None` if a different signal ended the wait, or if
    /// the signal belongs to an earlier round that was given up.
    #[inline]
    fn receive(
        &self,
        place: usize,
        port: &SignalPort,
        taken: u64,
    ) -> Result<Option<Arrival>, Error> {
        let Some(at) = port.wait()? else {
            return Ok(None);
        };
        let at = Nanos(at.as_nanos());
        let message = self.hops[place].handover().receive(taken);
        // If the message was sent after this signal had arrived, its own signal is still to come.
        let message = message.filter(|message| message.sent <= at);
        Ok(message.map(|Message { number, sent }| Arrival {
            rounds: number,
            sent,
            at,
        }))
    }

    /// Ends all threads except the first.
    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        for thread in self.threads.get().into_iter().flatten().skip(1) {
            // A thread that has ended needs no signal.
            let _ = send_signal(*thread);
        }
    }

    fn tid(&self, place: usize) -> Result<Tid, Error> {
        self.threads
            .get()
            .and_then(|threads| threads.get(place))
            .copied()
            .ok_or(Error::NoSuchThread {
                thread: punctual_rt::ThreadRef::Current,
            })
    }
}

/// Releases the other threads, no matter how the first one ends.
struct Ending<'a>(&'a Ring);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The first thread, which begins each round and receives the signal at its end.
pub(super) fn lead(
    ring: &Ring,
    recorder: Recorder,
    member: &Member,
) -> Result<Option<Brought>, ProbeError> {
    let cost = SelfCost::measure(CLOCK);
    let port = SignalPort::new(ring.way)?;
    let Some(times) = ring.begin(member) else {
        return Ok(None);
    };
    let ending = Ending(ring);
    let mut account = Account {
        recorder,
        rounds: 0,
    };
    account.recorder.start(times.start);
    let rounds = rounds(ring, &port, &mut account, &times, member.control())?;
    drop(ending);
    Ok(Some(Brought {
        worker: account.finish(ring, &times, cost),
        rounds: Some(rounds),
    }))
}

/// The measuring loop of the first thread.
fn rounds(
    ring: &Ring,
    port: &SignalPort,
    account: &mut Account,
    times: &Times,
    control: &Control,
) -> Result<Histogram, Error> {
    let second = ring.tid(1)?;
    let mut whole = Histogram::preallocated();
    let mut sleep = Nanosleep::new(CLOCK)?;
    let mut round = 0;
    while !control.stopping() && times.at(round) < times.end {
        if round.is_multiple_of(times.burst) {
            let due = Instant::from_nanos(times.at(round).0);
            if sleep.wait_until(due)? == Wake::Interrupted || control.stopping() {
                continue;
            }
        }
        let now = Nanos(CLOCK.now().as_nanos());
        round = times.latest(round, now) + 1;
        ring.under_way.store(now.0, Ordering::Relaxed);
        let began = ring.send(1, second, round)?;
        let arrival = loop {
            let arrival = ring.receive(0, port, account.rounds)?;
            // A late signal that belongs to a round that was given up is ignored.
            if let Some(arrival) = arrival.filter(|arrival| arrival.rounds == round) {
                break Some(arrival);
            }
            let waited = Nanos(CLOCK.now().as_nanos()) - began;
            if control.stopping() || waited >= PATIENCE {
                break None;
            }
        };
        ring.under_way.store(0, Ordering::Relaxed);
        match arrival {
            Some(arrival) => {
                let before = account.recorder.recorded();
                let sent = if ring.pace.whole { began } else { arrival.sent };
                account.take(Arrival { sent, ..arrival }, times);
                if account.recorder.recorded() > before {
                    whole.record(arrival.at.signed_sub(began));
                }
            }
            // The stop cut off this round, so this round was not expected, but those before it
            // were.
            None if control.stopping() => {
                ring.complete.store(round - 1, Ordering::Relaxed);
                break;
            }
            None => {}
        }
        ring.complete.store(round, Ordering::Relaxed);
        if account.recorder.recorded() >= ring.pace.wakeups {
            control.stop();
        }
    }
    Ok(whole)
}

/// Any other thread, which receives the signal and passes it on.
pub(super) fn follow(
    ring: &Ring,
    place: usize,
    recorder: Recorder,
    member: &Member,
) -> Result<Option<Brought>, ProbeError> {
    let cost = SelfCost::measure(CLOCK);
    let port = SignalPort::new(ring.way)?;
    let Some(times) = ring.begin(member) else {
        return Ok(None);
    };
    let next = (place + 1) % ring.hops.len();
    let next_tid = ring.tid(next)?;
    let mut account = Account {
        recorder,
        rounds: 0,
    };
    account.recorder.start(times.start);
    while !ring.ended.load(Ordering::Acquire) {
        if let Some(arrival) = ring.receive(place, &port, account.rounds)? {
            // The sample is recorded before the signal is sent, so that the recording is not part
            // of the next hop.
            account.take(arrival, &times);
            match ring.send(next, next_tid, arrival.rounds) {
                // If a round is cut off, the end of the run can overtake its signal.
                Err(_) if ring.ended.load(Ordering::Acquire) => break,
                sent => sent?,
            };
        }
    }
    Ok(Some(Brought {
        worker: account.finish(ring, &times, cost),
        rounds: None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    use crate::thread_group::ThreadGroup;
    use crate::{RecorderSlot, WorkerSettings};
    use punctual_rt::ThreadBuilder;

    /// The second thread never passes the signal on.
    #[test]
    fn unreturned_round_is_missed() {
        punctual_rt::interrupt::install_interrupt_handler().unwrap();
        let control = Arc::new(Control::new());
        let interval = Nanos::from_millis(400);
        // The rounds are due at 0, 400, 800 and 1200 ms. The first is given up after 1 s, when two
        // more have passed, and the last is ended by the stop.
        let pace = Pace {
            interval,
            burst: 1,
            duration: Some(Nanos::from_millis(1_500)),
            whole: false,
            wakeups: u64::MAX,
        };
        let ring = Arc::new(Ring::new(2, SignalWay::Wait, pace));
        let settings = WorkerSettings {
            warm_up: Nanos::ZERO,
            break_above: None,
            rate_hz: 10,
        };
        let (recorder, _reader) = RecorderSlot::open(settings, &control);
        let mut group = ThreadGroup::new(&control);
        group
            .spawn_member(ThreadBuilder::new("first"), {
                let ring = Arc::clone(&ring);
                move |member| lead(&ring, recorder, member)
            })
            .unwrap();
        group
            .spawn_member(ThreadBuilder::new("silent"), {
                let ring = Arc::clone(&ring);
                move |member| {
                    let _port = SignalPort::new(SignalWay::Wait)?;
                    ring.begin(member);
                    while !ring.ended.load(Ordering::Acquire) {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    Ok(None)
                }
            })
            .unwrap();
        ring.threads.set(group.tids()).unwrap();
        group.go();
        let mut looks = 0;
        group.attend(Duration::from_millis(50), || {
            ring.look();
            looks += 1;
            // This is well after the second round was sent, but before it is given up.
            if ring.complete.load(Ordering::Relaxed) > 0 && looks > 30 {
                control.stop();
            }
        });
        let led = group.join().unwrap().remove(0);
        let accounting = led.worker.accounting;
        assert!(accounting.balances(), "{accounting:?}");
        assert_eq!(accounting.recorded, 0);
        assert!(accounting.missed >= 1, "{accounting:?}");
        // The round that was cut off is not among them.
        assert!(accounting.expected < 4, "{accounting:?}");
        assert_eq!(led.rounds.unwrap().recorded(), 0);
    }

    #[test]
    fn passed_rounds_are_found_until_end() {
        let times = Times {
            start: Nanos(1_000),
            end: Nanos(1_100),
            interval: Nanos(10),
            burst: 1,
        };
        assert_eq!(times.at(3), Nanos(1_030));
        assert_eq!(times.latest(3, Nanos(1_039)), 3);
        assert_eq!(times.latest(3, Nanos(1_040)), 4);
        assert_eq!(times.latest(3, Nanos(1_095)), 9);
        // A round at the end is not part of the run.
        assert_eq!(times.latest(3, Nanos(5_000)), 9);
        let bursts = Times { burst: 4, ..times };
        assert_eq!(bursts.at(3), Nanos(1_000));
        assert_eq!(bursts.at(4), Nanos(1_010));
        assert_eq!(bursts.latest(6, Nanos(1_019)), 6);
        assert_eq!(bursts.latest(6, Nanos(1_020)), 8);
    }
}
