//! The threads of the ring: one begins each round, the others pass it on.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use punctual_model::{Histogram, Nanos};
use punctual_rt::{
    Clock, Error, Instant, Nanosleep, PeriodicWait, SignalPort, SignalWay, Tid, Wake, send_signal,
};

use crate::thread_group::Member;
use crate::{Control, LaneOutcome, ProbeError, Recorder, SelfCost};

/// The clock of the sleeps and of all time stamps, also of the handler.
pub(super) const CLOCK: Clock = Clock::Monotonic;

/// A round that has not come back after this long is given up.
pub(super) const PATIENCE: Nanos = Nanos::from_secs(1);

/// What the sender of a signal leaves for its receiver. On a cache line of its
/// own: only the two shall wait for it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Hop {
    /// The rounds begun when it was sent, the signal's own included; written
    /// last.
    rounds: AtomicU64,
    /// When, just before the system call.
    sent_at: AtomicU64,
}

/// What all threads share.
#[derive(Debug)]
pub(super) struct Ring {
    pub(super) pace: Pace,
    pub(super) way: SignalWay,
    /// Who the threads are; known before they begin.
    pub(super) threads: OnceLock<Vec<Tid>>,
    /// By the receiver's place.
    hops: Vec<Hop>,
    /// When the round that is under way began; zero between rounds.
    under_way: AtomicU64,
    /// Rounds that came due and are over.
    complete: AtomicU64,
    ended: AtomicBool,
}

/// When rounds begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// From one burst to the next.
    pub(super) interval: Nanos,
    /// Rounds that follow each other at once.
    pub(super) burst: u64,
    /// How long; `None`: until stopped.
    pub(super) duration: Option<Nanos>,
    /// The first thread records whole rounds.
    pub(super) whole: bool,
    /// The run ends when it has this many.
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
    /// When this round is due: with its burst.
    fn at(&self, round: u64) -> Nanos {
        self.start + Nanos(self.interval.0.saturating_mul(round / self.burst))
    }

    /// The last round that is due by `now`; `round` is.
    fn latest(&self, round: u64, now: Nanos) -> u64 {
        let until = now.min(self.end - Nanos(1));
        round.max((until - self.start).0 / self.interval.0 * self.burst)
    }
}

/// One signal that arrived.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    rounds: u64,
    sent: Nanos,
    at: Nanos,
}

/// One thread's recording, with what it has accounted for.
struct Account {
    recorder: Recorder,
    /// Rounds that are recorded or counted as missed.
    rounds: u64,
}

impl Account {
    fn take(&mut self, arrival: Arrival, times: &Times) {
        self.missed(arrival.rounds - 1, times);
        self.recorder
            .sample(arrival.sent, arrival.at.signed_sub(arrival.sent));
        self.rounds = arrival.rounds;
    }

    /// Counts those up to here that have no sample.
    fn missed(&mut self, until: u64, times: &Times) {
        if until > self.rounds {
            let count = until - self.rounds;
            let first = times.at(self.rounds);
            let apart = Nanos(times.interval.0 / times.burst);
            self.recorder.missed(first, count, apart);
            self.rounds = until;
        }
    }

    /// A round that was cut off by the end counts where it has arrived.
    fn finish(mut self, ring: &Ring, times: &Times, cost: SelfCost) -> LaneOutcome {
        self.missed(ring.complete.load(Ordering::Relaxed), times);
        let expected = self.rounds;
        self.recorder.finish(expected, cost)
    }
}

/// What a thread brings.
#[derive(Debug)]
pub(super) struct Brought {
    pub(super) lane: LaneOutcome,
    /// Of the thread that begins the rounds: whole ones after the warm-up, from
    /// the first signal to the last.
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

    /// Called now and then from outside: gets the first thread out of its wait
    /// for a round that takes too long.
    pub(super) fn look(&self) {
        let began = self.under_way.load(Ordering::Relaxed);
        let now = CLOCK.now().as_nanos();
        if began != 0
            && now.saturating_sub(began) >= PATIENCE.0
            && let Some(first) = self.threads.get().and_then(|threads| threads.first())
        {
            // If it has just ended, so has its wait.
            let _ = punctual_rt::interrupt::interrupt(*first);
        }
    }

    /// The times of the run, once it begins; `None` if nothing is to begin.
    fn begin(&self, member: &Member) -> Option<Times> {
        let start = Nanos(member.begin()?.as_nanos());
        Some(Times {
            start,
            interval: self.pace.interval,
            burst: self.pace.burst,
            end: self
                .pace
                .duration
                .map_or(Nanos(u64::MAX), |duration| start + duration),
        })
    }

    /// Stamps and sends to the thread at `place`.
    #[inline]
    fn send(&self, place: usize, to: Tid, rounds: u64) -> Result<Nanos, Error> {
        let hop = &self.hops[place];
        let now = CLOCK.now().as_nanos();
        hop.sent_at.store(now, Ordering::Relaxed);
        hop.rounds.store(rounds, Ordering::Release);
        send_signal(to)?;
        Ok(Nanos(now))
    }

    /// Waits for one signal at `place`. `None` where another signal ended the
    /// wait, or it was one whose round was given up and has been sent again.
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
        let (hop, at) = (&self.hops[place], Nanos(at.as_nanos()));
        let rounds = hop.rounds.load(Ordering::Acquire);
        let sent = Nanos(hop.sent_at.load(Ordering::Relaxed));
        // Sent after this one arrived: its own signal is still to come.
        Ok((rounds > taken && sent <= at).then_some(Arrival { rounds, sent, at }))
    }

    /// Ends all threads but the first.
    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        for thread in self.threads.get().into_iter().flatten().skip(1) {
            // One that is gone needs no word.
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

/// However the first thread ends, the others do not wait for ever.
struct Ending<'a>(&'a Ring);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The first thread: begins each round and takes it back.
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
        lane: account.finish(ring, &times, cost),
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
    let mut whole = Histogram::new();
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
            // One of a round that was given up has come too late.
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
            // Cut off: this round was not expected; those before it were.
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

/// Any other thread: takes the signal and passes it on.
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
            // Recorded first, so that it is not part of the next hop.
            account.take(arrival, &times);
            match ring.send(next, next_tid, arrival.rounds) {
                // The end can overtake a round that is cut off.
                Err(_) if ring.ended.load(Ordering::Acquire) => break,
                sent => sent?,
            };
        }
    }
    Ok(Some(Brought {
        lane: account.finish(ring, &times, cost),
        rounds: None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    use crate::thread_group::ThreadGroup;
    use crate::{Lane, LaneSettings};
    use punctual_rt::ThreadBuilder;

    /// A second thread that never passes the signal on.
    #[test]
    fn a_round_that_does_not_come_back_is_missed() {
        punctual_rt::interrupt::install_interrupt_handler().unwrap();
        let control = Arc::new(Control::new());
        let interval = Nanos::from_millis(400);
        // Due at 0, 400, 800 and 1200 ms: the first is given up after 1 s, by
        // when two more have passed, and the last by the stop.
        let pace = Pace {
            interval,
            burst: 1,
            duration: Some(Nanos::from_millis(1_500)),
            whole: false,
            wakeups: u64::MAX,
        };
        let ring = Arc::new(Ring::new(2, SignalWay::Wait, pace));
        let settings = LaneSettings {
            warm_up: Nanos::ZERO,
            break_above: None,
            rate_hz: 10,
        };
        let (recorder, _reader) = Lane::open(settings, &control);
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
            // Well after the second round that is sent, before it is given up.
            if ring.complete.load(Ordering::Relaxed) > 0 && looks > 30 {
                control.stop();
            }
        });
        let led = group.join().unwrap().remove(0);
        let accounting = led.lane.accounting;
        assert!(accounting.balances(), "{accounting:?}");
        assert_eq!(accounting.recorded, 0);
        assert!(accounting.missed >= 1, "{accounting:?}");
        // The round that was cut off is not among them.
        assert!(accounting.expected < 4, "{accounting:?}");
        assert_eq!(led.rounds.unwrap().recorded(), 0);
    }

    #[test]
    fn rounds_that_passed_are_found_up_to_the_end() {
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
