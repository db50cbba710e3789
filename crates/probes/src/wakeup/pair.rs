//! The two threads of a pair: one posts at its times, the other waits and
//! records.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use punctual_model::Nanos;
use punctual_rt::{Clock, Error, Instant, Nanosleep, PeriodicWait, Wake};

use super::turns::Turns;
use super::ways::{Post, Wait, Way};
use crate::crew::Member;
use crate::{Control, LaneOutcome, ProbeError, Recorder, SelfCost};

/// The clock of the sleeps and of both time stamps.
pub(super) const CLOCK: Clock = Clock::Monotonic;

/// The waiting thread is on its way from one wait to the next.
const BUSY: u32 = 0;
/// It has said that it waits, and will look at nothing before it was posted.
const WAITING: u32 = 1;
/// It is gone.
const LEFT: u32 = 2;

/// The number of an exchange that is not measured.
const UNMEASURED: u64 = u64::MAX;

/// What the two threads share.
#[derive(Debug)]
pub(super) struct Pair<W> {
    way: W,
    /// Where the waiting thread is.
    state: AtomicU32,
    /// Posts so far; written last, so that who sees it sees the next two.
    posts: AtomicU64,
    /// The number of the exchange that was posted last.
    exchange: AtomicU64,
    /// When, just before the post.
    posted_at: AtomicU64,
    /// Exchanges that came due, once that is known.
    due: AtomicU64,
    ended: AtomicBool,
}

impl<W: Way> Pair<W> {
    pub(super) fn new(way: W) -> Self {
        Self {
            way,
            state: AtomicU32::new(BUSY),
            posts: AtomicU64::new(0),
            exchange: AtomicU64::new(0),
            posted_at: AtomicU64::new(0),
            due: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        }
    }
}

/// What both threads of all pairs take with them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings {
    /// The start is not known yet.
    pub(super) turns: Turns,
    /// Let an unmeasured exchange go before each.
    pub(super) warm: bool,
    /// The run ends at this many samples.
    pub(super) wakeups: u64,
    /// It begins so long after the common start.
    pub(super) offset: Nanos,
    pub(super) duration: Option<Nanos>,
    /// Which of the pairs.
    pub(super) pair: u64,
}

impl Surroundings {
    /// The turns, once they begin; `None` if nothing is to begin.
    fn begin(&self, member: &Member) -> Option<Turns> {
        let start = Nanos(member.begin()?.as_nanos());
        Some(Turns {
            start: start + self.offset,
            end: self
                .duration
                .map_or(Nanos(u64::MAX), |duration| start + duration),
            ..self.turns
        })
    }
}

/// The thread that posts.
pub(super) fn poster<W: Way>(
    pair: &Pair<W>,
    surroundings: &Surroundings,
    member: &Member,
) -> Result<(), ProbeError> {
    let mut poster = Poster {
        pair,
        end: pair.way.post_end()?,
    };
    if let Some(turns) = surroundings.begin(member) {
        poster.turn(&turns, surroundings, member.control())?;
    }
    Ok(())
}

struct Poster<'a, W: Way> {
    pair: &'a Pair<W>,
    end: W::Post<'a>,
}

impl<W: Way> Poster<'_, W> {
    /// Sleeps to each time of this pair, and posts.
    fn turn(
        &mut self,
        turns: &Turns,
        surroundings: &Surroundings,
        control: &Control,
    ) -> Result<(), Error> {
        let pair = self.pair;
        let mut sleep = Nanosleep::new(CLOCK)?;
        let mut posts = 0;
        let mut last = Nanos::ZERO;
        let mut number = 0;
        while !control.stopping() {
            let due = turns.at(surroundings.pair, number);
            if due >= turns.end {
                break;
            }
            if sleep.wait_until(Instant::from_nanos(due.0))? == Wake::Interrupted {
                continue;
            }
            if control.stopping() {
                break;
            }
            // If this thread is late, for the last one that is due; those
            // before it are missed.
            let now = Nanos(CLOCK.now().as_nanos());
            number = turns.latest(surroundings.pair, number, now);
            // It has to be blocked, not on its way to it: so it has said that
            // it waits, and has had time to.
            let rested = now - last >= Nanos(turns.interval.0 / 2);
            if rested && pair.state.load(Ordering::Acquire) == WAITING {
                if surroundings.warm {
                    posts += 1;
                    self.post(UNMEASURED, posts)?;
                }
                // The waiting thread, of higher priority on this same CPU, has
                // come and gone to wait again; where it has not, the exchange
                // is missed.
                if pair.state.load(Ordering::Acquire) == WAITING {
                    posts += 1;
                    last = self.post(number, posts)?;
                }
            }
            number += 1;
            pair.due.store(number, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Makes the post `posts`, of exchange `number`; returns when.
    #[inline]
    fn post(&mut self, number: u64, posts: u64) -> Result<Nanos, Error> {
        let pair = self.pair;
        self.end.prepare()?;
        pair.state.store(BUSY, Ordering::Relaxed);
        pair.exchange.store(number, Ordering::Relaxed);
        let posted = CLOCK.now().as_nanos();
        pair.posted_at.store(posted, Ordering::Relaxed);
        pair.posts.store(posts, Ordering::Release);
        self.end.post()?;
        Ok(Nanos(posted))
    }
}

/// However the posting thread ends, the other one does not wait for ever.
impl<W: Way> Drop for Poster<'_, W> {
    fn drop(&mut self) {
        const LOOK_AGAIN: Duration = Duration::from_micros(500);
        self.pair.ended.store(true, Ordering::Release);
        // It looks for the end before each wait, so it comes to wait or leaves;
        // a barrier must not be entered if it left.
        loop {
            match self.pair.state.load(Ordering::Acquire) {
                BUSY => std::thread::sleep(LOOK_AGAIN),
                WAITING => {
                    // An error ends the run already.
                    let _ = self.end.prepare().and_then(|()| self.end.post());
                    return;
                }
                _ => return,
            }
        }
    }
}

/// The thread that waits and records; `None` when the run was cancelled
/// before it began.
pub(super) fn waiter<W: Way>(
    pair: &Pair<W>,
    mut recorder: Recorder,
    surroundings: &Surroundings,
    member: &Member,
) -> Result<Option<LaneOutcome>, ProbeError> {
    let leaving = Leaving(&pair.state);
    let cost = SelfCost::measure(CLOCK);
    let Some(turns) = surroundings.begin(member) else {
        return Ok(None);
    };
    recorder.start(turns.at(surroundings.pair, 0));
    listen(pair, &mut recorder, &turns, surroundings, member.control())?;
    drop(leaving);
    let expected = pair.due.load(Ordering::Relaxed);
    Ok(Some(recorder.finish(expected, cost)))
}

struct Leaving<'a>(&'a AtomicU32);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.store(LEFT, Ordering::Release);
    }
}

/// The measuring loop: wait, read the clock, record.
fn listen<W: Way>(
    pair: &Pair<W>,
    recorder: &mut Recorder,
    turns: &Turns,
    surroundings: &Surroundings,
    control: &Control,
) -> Result<(), Error> {
    let place = surroundings.pair;
    let mut end = pair.way.wait_end()?;
    let mut taken = 0;
    // The first exchange that is not accounted for.
    let mut next = 0;
    while !pair.ended.load(Ordering::Acquire) {
        pair.state.store(WAITING, Ordering::Release);
        let now = loop {
            end.wait()?;
            let now = Nanos(CLOCK.now().as_nanos());
            if pair.posts.load(Ordering::Acquire) != taken {
                break Some(now);
            }
            if pair.ended.load(Ordering::Acquire) {
                break None;
            }
        };
        let Some(now) = now else { break };
        taken += 1;
        let exchange = pair.exchange.load(Ordering::Relaxed);
        let posted = Nanos(pair.posted_at.load(Ordering::Relaxed));
        end.settle();
        if exchange == UNMEASURED {
            continue;
        }
        missed(next..exchange, recorder, turns, place);
        recorder.sample(posted, now.signed_sub(posted));
        next = exchange + 1;
        if recorder.recorded() >= surroundings.wakeups {
            control.stop();
        }
    }
    let due = pair.due.load(Ordering::Relaxed);
    missed(next..due, recorder, turns, place);
    Ok(())
}

fn missed(numbers: std::ops::Range<u64>, recorder: &mut Recorder, turns: &Turns, place: u64) {
    for number in numbers {
        recorder.missed(turns.at(place, number), 1, turns.interval);
    }
}
