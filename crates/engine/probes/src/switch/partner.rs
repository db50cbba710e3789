//! The thread on the other side. It has the same CPU, policy and priority as the measuring thread.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_model::Scheduling;
use punctual_rt::{Clock, JoinHandle, Tid};

use crate::policy::measuring_thread;

const CLOCK: Clock = Clock::Monotonic;

/// Requests that are sent to the partner over its pipe.
const ANSWER: u8 = b'a';
const YIELD: u8 = b'y';

/// The state that both threads share.
#[derive(Debug, Default)]
struct Shared {
    /// Incremented at the start and at the end of each round of yields, so it is odd during a
    /// round.
    round: AtomicU64,
    /// The round that the partner takes part in.
    joined: AtomicU64,
    /// Time at which the round ends in any case. This limit is needed because two threads that
    /// yield to each other leave no time for lower priorities.
    until: AtomicU64,
    /// When the partner returned from its yield; 0 if it has not returned since the last check.
    arrived: AtomicU64,
}

/// The partner, as seen from the measuring thread.
#[derive(Debug)]
pub(super) struct Partner {
    shared: Arc<Shared>,
    to: Option<PipeWriter>,
    from: PipeReader,
    thread: Option<JoinHandle<()>>,
}

impl Partner {
    /// Starts the partner on the CPU.
    pub(super) fn start(cpu: u32, scheduling: Scheduling) -> Result<Self, crate::ProbeError> {
        let no_pipe = |source| punctual_rt::Error::Os {
            call: "pipe2",
            what: "the switch probe".to_owned(),
            source,
        };
        let (theirs_in, to) = io::pipe().map_err(no_pipe)?;
        let (from, theirs_out) = io::pipe().map_err(no_pipe)?;
        let shared = Arc::new(Shared::default());
        let thread = measuring_thread(&format!("switch-to/{cpu}"), &[cpu], scheduling).spawn({
            let shared = Arc::clone(&shared);
            move || serve(&shared, theirs_in, theirs_out)
        })?;
        Ok(Self {
            shared,
            to: Some(to),
            from,
            thread: Some(thread),
        })
    }

    /// Returns the thread ID of the partner.
    pub(super) fn tid(&self) -> Option<Tid> {
        self.thread.as_ref().map(JoinHandle::tid)
    }

    fn ask(&mut self, what: u8) -> io::Result<()> {
        match &mut self.to {
            Some(to) => to.write_all(&[what]),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Sends a message that requires an answer.
    pub(super) fn send(&mut self) -> io::Result<()> {
        self.ask(ANSWER)
    }

    /// Waits for the answer, and returns the time in ns when the partner received the message;
    /// `None` if a signal interrupted the wait.
    pub(super) fn receive(&mut self) -> io::Result<Option<u64>> {
        let mut time = [0; size_of::<u64>()];
        match self.from.read(&mut time) {
            Ok(read) if read == time.len() => Ok(Some(u64::from_ne_bytes(time))),
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Begins a round of yields. Until the end of the round, the partner does nothing else. This
    /// function yields until the partner takes part, and returns false if the partner did not take
    /// part in time.
    pub(super) fn begin(&mut self, until: u64, give_up: impl Fn() -> bool) -> io::Result<bool> {
        self.shared.until.store(until, Ordering::Relaxed);
        let round = self.shared.round.fetch_add(1, Ordering::Release) + 1;
        self.ask(YIELD)?;
        while self.shared.joined.load(Ordering::Acquire) != round {
            if give_up() || CLOCK.now().as_nanos() >= until {
                return Ok(false);
            }
            std::thread::yield_now();
        }
        Ok(true)
    }

    /// Yields once. Returns the time before the yield, and the time when the partner returned from
    /// its own yield; `None` if the partner did not run.
    #[inline]
    pub(super) fn hand_over(&self) -> (u64, Option<u64>) {
        let arrived = &self.shared.arrived;
        arrived.store(0, Ordering::Relaxed);
        let before = CLOCK.now().as_nanos();
        std::thread::yield_now();
        let after = arrived.load(Ordering::Relaxed);
        (before, (after >= before).then_some(after))
    }

    /// Ends the round; the partner notices it when it next runs.
    pub(super) fn end(&self) {
        self.shared.round.fetch_add(1, Ordering::Release);
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        // Ends a round in progress, and then closes its pipe.
        self.shared.until.store(0, Ordering::Relaxed);
        self.to = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The main loop of the partner, which ends when its pipe is closed.
fn serve(shared: &Shared, mut from: PipeReader, mut to: PipeWriter) {
    let mut what = [0];
    loop {
        match from.read(&mut what) {
            Ok(1) if what[0] == YIELD => take_turns(shared),
            Ok(1) => {
                let now = CLOCK.now().as_nanos();
                if to.write_all(&now.to_ne_bytes()).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

/// Takes part in one round of yields.
fn take_turns(shared: &Shared) {
    let round = shared.round.load(Ordering::Acquire);
    // In this case, the round is already over, because this thread came too late.
    if round.is_multiple_of(2) {
        return;
    }
    shared.joined.store(round, Ordering::Release);
    loop {
        std::thread::yield_now();
        let now = CLOCK.now().as_nanos();
        // Only the first return counts: under a normal policy a yield can return without any other
        // thread having run.
        if shared.arrived.load(Ordering::Relaxed) == 0 {
            shared.arrived.store(now, Ordering::Relaxed);
        }
        let over = shared.round.load(Ordering::Acquire) != round;
        if over || now >= shared.until.load(Ordering::Relaxed) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partner() -> Partner {
        let cpu = punctual_rt::affinity::current().unwrap()[0];
        Partner::start(cpu, crate::testing::OTHER).unwrap()
    }

    #[test]
    fn it_answers_with_the_time_between() {
        let mut partner = partner();
        for _ in 0..100 {
            let before = CLOCK.now().as_nanos();
            partner.send().unwrap();
            let time = loop {
                if let Some(time) = partner.receive().unwrap() {
                    break time;
                }
            };
            assert!(before <= time && time <= CLOCK.now().as_nanos());
        }
    }

    #[test]
    fn rounds_end_by_themselves_and_come_again() {
        let mut partner = partner();
        for _ in 0..3 {
            let until = CLOCK.now().as_nanos() + 50_000_000;
            if partner.begin(until, || false).unwrap() {
                let (before, after) = partner.hand_over();
                assert!(after.is_none_or(|after| after >= before));
            }
            partner.end();
        }
        // The partner is dropped during a round. The drop must still end the round.
        let until = CLOCK.now().as_nanos() + 3_600_000_000_000;
        partner.begin(until, || false).unwrap();
    }

    #[test]
    fn who_gives_up_does_not_wait() {
        let mut partner = partner();
        let _ = partner.begin(u64::MAX, || true).unwrap();
        partner.end();
    }
}
