//! The two threads of a pair. One posts at the scheduled times, and the other waits and records.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use punctual_model::{Nanos, ThreadUsage};
use punctual_rt::{Clock, Error, Instant, Nanosleep, PeriodicWait, SharedNumbers, Wake};
use serde::{Deserialize, Serialize};

use super::mechanisms::{Post, Wait, Way};
use super::schedule::Schedule;
use super::shared_state::{BUSY, LEFT, Numbers, SharedState, WAITING};
use crate::recorder::{usage_now, used_since};
use crate::run::end_of;
use crate::thread_group::Member;
use crate::{Control, ProbeError, Recorder, SelfCost, WorkerOutcome};

/// The clock used for the sleeps and for both time stamps.
pub(super) const CLOCK: Clock = Clock::Monotonic;

/// The purpose of a post. Each exchange has two message numbers, one for each purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// It precedes the measured post of its exchange.
    WarmUp,
    Measured,
}

/// Returns the number of the message of a post, which is not 0.
const fn message_number(exchange: u64, purpose: Purpose) -> u64 {
    2 * exchange + 1 + purpose as u64
}

/// The inverse of [`message_number`].
const fn exchange_of(number: u64) -> (u64, Purpose) {
    match number % 2 {
        1 => (number / 2, Purpose::WarmUp),
        _ => (number / 2 - 1, Purpose::Measured),
    }
}

/// The state that the two threads share.
#[derive(Debug)]
pub(super) struct Pair<W> {
    way: W,
    numbers: Numbers,
}

impl<W: Way> Pair<W> {
    pub(super) fn new(way: W, numbers: Numbers) -> Self {
        Self { way, numbers }
    }

    pub(super) fn way(&self) -> &W {
        &self.way
    }

    pub(super) fn state(&self) -> SharedState<'_> {
        self.numbers.state()
    }

    /// Returns the numbers, if another process can map them.
    pub(super) fn shared(&self) -> Option<&Arc<SharedNumbers>> {
        match &self.numbers {
            Numbers::Shared(numbers) => Some(numbers),
            Numbers::Own(_) => None,
        }
    }
}

/// The parameters for both threads of a pair.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct PairSettings {
    /// The schedule, whose start is not known yet.
    pub(super) turns: Schedule,
    /// Whether to precede each exchange with an unmeasured one.
    pub(super) warm: bool,
    /// The number of samples at which the pair ends.
    pub(super) wakeups: u64,
    /// The number of pairs.
    pub(super) pairs: u64,
    /// Delay of this pair's start after the common start.
    pub(super) offset: Nanos,
    pub(super) duration: Option<Nanos>,
    /// The index of the pair.
    pub(super) pair: u64,
}

impl PairSettings {
    /// Returns the schedule, once it begins; `None` if the run is cancelled.
    fn begin(&self, member: &Member) -> Option<Schedule> {
        let start = Nanos(member.begin()?.as_nanos());
        Some(Schedule {
            start: start + self.offset,
            end: end_of(start, self.duration),
            ..self.turns
        })
    }
}

/// Runs the posting thread. Returns its usage during the time when it posted.
pub(super) fn poster<P: Post>(
    state: SharedState<'_>,
    end: P,
    surroundings: &PairSettings,
    member: &Member,
) -> Result<ThreadUsage, ProbeError> {
    let mut poster = Poster { state, end };
    let Some(turns) = surroundings.begin(member) else {
        return Ok(ThreadUsage::default());
    };
    let before = usage_now();
    poster.turn(&turns, surroundings, member.control())?;
    Ok(used_since(before))
}

struct Poster<'a, P: Post> {
    state: SharedState<'a>,
    end: P,
}

impl<P: Post> Poster<'_, P> {
    /// Sleeps until each due time of this pair, and posts.
    fn turn(
        &mut self,
        turns: &Schedule,
        surroundings: &PairSettings,
        control: &Control,
    ) -> Result<(), Error> {
        let state = self.state;
        let stopping = || control.stopping() || state.is_stopped();
        let mut sleep = Nanosleep::new(CLOCK)?;
        let mut last = Nanos::ZERO;
        let mut number = 0;
        while !stopping() {
            // At the end, nothing is posted. The wait until then only ensures that the run has its
            // full requested length.
            let due = turns.at(surroundings.pair, number).min(turns.end);
            if sleep.wait_until(Instant::from_nanos(due.0))? == Wake::Interrupted {
                continue;
            }
            if stopping() || due == turns.end {
                break;
            }
            // If this thread is late, it makes only the last exchange that is due, and earlier ones
            // are missed.
            let now = Nanos(CLOCK.now().as_nanos());
            number = turns.latest(surroundings.pair, number, now);
            // The waiting thread must already be blocked, not just about to block. So it must have
            // announced its wait, and must have had time to block.
            let rested = now - last >= Nanos(turns.interval.0 / 2);
            if rested && state.waiter_state().load(Ordering::Acquire) == WAITING {
                if surroundings.warm {
                    self.post(number, Purpose::WarmUp)?;
                }
                // The waiting thread has higher priority on the same CPU, so by now it has returned
                // and is waiting again. If it is not, the exchange is missed.
                if state.waiter_state().load(Ordering::Acquire) == WAITING {
                    last = self.post(number, Purpose::Measured)?;
                }
            }
            number += 1;
            state.due().store(number, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Makes a post of an exchange. Returns its time.
    #[inline]
    fn post(&mut self, exchange: u64, purpose: Purpose) -> Result<Nanos, Error> {
        let state = self.state;
        self.end.prepare()?;
        state.waiter_state().store(BUSY, Ordering::Relaxed);
        let now = || Nanos(CLOCK.now().as_nanos());
        let posted = state.posts().send(message_number(exchange, purpose), now);
        self.end.post()?;
        Ok(posted)
    }
}

/// Releases the waiting thread, no matter how the posting thread ends.
impl<P: Post> Drop for Poster<'_, P> {
    fn drop(&mut self) {
        const LOOK_AGAIN: Duration = Duration::from_micros(500);
        self.state.end();
        // The other thread checks for the end before each wait, so it either waits or leaves. After
        // it has left, a barrier must not be entered any more.
        loop {
            match self.state.waiter_state().load(Ordering::Acquire) {
                BUSY => std::thread::sleep(LOOK_AGAIN),
                WAITING => {
                    // If this fails, the run is already ending because of an error.
                    let _ = self.end.prepare().and_then(|()| self.end.post());
                    return;
                }
                _ => return,
            }
        }
    }
}

/// The thread that waits and records. Returns `None` if the run was cancelled before it began.
pub(super) fn waiter<W: Way>(
    pair: &Pair<W>,
    mut recorder: Recorder,
    surroundings: &PairSettings,
    member: &Member,
) -> Result<Option<WorkerOutcome>, ProbeError> {
    let state = pair.state();
    let leaving = Leaving(state);
    state.set_waiter(punctual_rt::current_tid());
    let cost = SelfCost::measure(CLOCK);
    let Some(turns) = surroundings.begin(member) else {
        return Ok(None);
    };
    recorder.start_with(turns.at(surroundings.pair, 0), state.partner());
    listen(pair, &mut recorder, &turns, surroundings, member.control())?;
    drop(leaving);
    let expected = state.due().load(Ordering::Relaxed);
    let is_complete = recorder.recorded() >= surroundings.wakeups;
    let outcome = recorder.finish(expected, cost);
    if is_complete {
        (member.control()).complete(surroundings.pairs, surroundings.turns.interval);
    }
    Ok(Some(outcome))
}

struct Leaving<'a>(SharedState<'a>);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.waiter_state().store(LEFT, Ordering::Release);
    }
}

/// The measuring loop, which waits, reads the clock and records.
fn listen<W: Way>(
    pair: &Pair<W>,
    recorder: &mut Recorder,
    turns: &Schedule,
    surroundings: &PairSettings,
    control: &Control,
) -> Result<(), Error> {
    let place = surroundings.pair;
    let state = pair.state();
    let mut end = pair.way.wait_end()?;
    let mut taken = 0;
    // The first exchange that is not yet accounted for.
    let mut next = 0;
    while !state.has_ended() {
        state.waiter_state().store(WAITING, Ordering::Release);
        let arrived = loop {
            end.wait()?;
            let now = Nanos(CLOCK.now().as_nanos());
            let message = state.posts().receive(taken);
            // If the post came after a timeout or a signal, its own wake-up is still to come. Otherwise,
            // the post has woken this thread, even if the clocks of the CPUs disagree.
            let ended_otherwise = end.gave_up() || control.stopping();
            if let Some(message) = message
                && (message.sent <= now || !ended_otherwise)
            {
                break Some((message, now));
            }
            if state.has_ended() {
                break None;
            }
            if control.stopping() {
                state.stop();
            }
            if end.gave_up() {
                recorder.timed_out();
            }
        };
        let Some((message, now)) = arrived else { break };
        taken = message.number;
        end.settle();
        let (exchange, purpose) = exchange_of(message.number);
        if purpose == Purpose::WarmUp {
            continue;
        }
        missed(next..exchange, recorder, turns, place);
        recorder.sample(message.sent, now.signed_sub(message.sent));
        next = exchange + 1;
        if control.stopping() || recorder.recorded() >= surroundings.wakeups {
            state.stop();
        }
    }
    let due = state.due().load(Ordering::Relaxed);
    missed(next..due, recorder, turns, place);
    Ok(())
}

fn missed(numbers: std::ops::Range<u64>, recorder: &mut Recorder, turns: &Schedule, place: u64) {
    for number in numbers {
        recorder.missed(turns.at(place, number), 1, turns.interval);
    }
}
