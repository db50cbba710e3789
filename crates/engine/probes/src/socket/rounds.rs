//! The measuring thread, which sends messages with each mechanism in turn.

use std::sync::Arc;

use punctual_model::{Nanos, ThreadUsage, counted};
use punctual_rt::{Clock, Error, Instant, Nanosleep, PeriodicWait, thread_usage};

use super::channel::{Channel, Exchange, Target, Way};
use super::message::request;
use crate::monotonic::now;
use crate::run::end_of;
use crate::usage::add_usage;
use crate::{Control, Recorder, SelfCost, WorkerOutcome};

/// After working for this long, the thread rests for a tenth of this time. Otherwise a real-time
/// loop with immediate replies would monopolize the CPU, and reach the kernel's limit of 95%
/// (sched_rt_runtime_us).
const WORK: Nanos = Nanos::from_millis(20);
const REST_SHARE: u64 = 10;

/// The inputs of the measuring thread.
pub(super) struct Worker {
    pub(super) ways: Vec<(Way, Recorder)>,
    pub(super) target: Target,
    pub(super) turn: Nanos,
    pub(super) duration: Option<Nanos>,
    pub(super) warm_up: Nanos,
    pub(super) control: Arc<Control>,
}

/// The state of one mechanism during the run.
struct SocketWorker {
    way: Way,
    recorder: Recorder,
    /// The end of the warm-up of the mechanism, once this has started.
    warm_until: Option<Nanos>,
    /// Number of messages begun.
    expected: u64,
    /// Usage of the thread in its turns after the warm-up.
    usage: ThreadUsage,
    /// Reason why a connection was first lost or could not be opened.
    failure: Option<String>,
    failures: u64,
}

/// The state that the turns of all workers share.
struct Course {
    target: Target,
    control: Arc<Control>,
    sleep: Nanosleep,
    warm_up: Nanos,
    /// The number of the next message; unique, so that a late reply is not mistaken for another's.
    number: u64,
}

impl Worker {
    pub(super) fn run(self) -> Result<(Vec<WorkerOutcome>, Vec<String>), Error> {
        let control = Arc::clone(&self.control);
        let _entered = control.enter();
        let cost = SelfCost::measure(Clock::Monotonic);
        let mut course = Course {
            target: self.target,
            control: Arc::clone(&control),
            sleep: Nanosleep::new(Clock::Monotonic)?,
            warm_up: self.warm_up,
            number: 0,
        };
        let mut workers: Vec<SocketWorker> = (self.ways.into_iter())
            .map(|(way, recorder)| SocketWorker::new(way, recorder))
            .collect();
        let mut begin = now();
        let end = end_of(begin, self.duration);
        while begin < end && !control.stopping() {
            for worker in &mut workers {
                let until = (begin + self.turn).min(end);
                worker.turn(&mut course, until)?;
                // The next turn begins at its planned time, so that each mechanism gets the same
                // amount of time.
                begin = until;
            }
        }
        let mut warnings = Vec::new();
        let outcomes = (workers.into_iter())
            .map(|worker| worker.finish(cost, &mut warnings))
            .collect();
        Ok((outcomes, warnings))
    }
}

impl Course {
    /// Sleeps until this time, or until the run is stopped.
    fn rest(&mut self, until: Nanos) -> Result<(), Error> {
        while now() < until && !self.control.stopping() {
            self.sleep.wait_until(Instant::from_nanos(until.0))?;
        }
        Ok(())
    }
}

impl SocketWorker {
    fn new(way: Way, recorder: Recorder) -> Self {
        Self {
            way,
            recorder,
            warm_until: None,
            expected: 0,
            usage: ThreadUsage::default(),
            failure: None,
            failures: 0,
        }
    }

    /// Sends messages until this time. Without a connection the time passes unused: it is not given
    /// to the other mechanisms.
    fn turn(&mut self, course: &mut Course, until: Nanos) -> Result<(), Error> {
        if now() >= until || course.control.stopping() {
            return Ok(());
        }
        let warm_until = *self.warm_until.get_or_insert_with(|| {
            let start = now();
            self.recorder.start(start);
            start + course.warm_up
        });
        let mut base = None;
        while now() < until && !course.control.stopping() {
            match self.way.open(&course.target, &course.control) {
                Ok(channel) => {
                    let lost = self.talk(&channel, course, until, warm_until, &mut base)?;
                    if let Some(error) = lost {
                        self.fail(error.to_string());
                        break;
                    }
                }
                Err(_) if course.control.stopping() => {}
                Err(error) => {
                    self.fail(error.to_string());
                    break;
                }
            }
        }
        if let Some(base) = base {
            add_usage(&mut self.usage, &base, &thread_usage());
        }
        course.rest(until)
    }

    /// Sends messages over one connection, until `until` or until a message is missed. If the
    /// connection has become unusable, returns the reason.
    fn talk(
        &mut self,
        channel: &Channel,
        course: &mut Course,
        until: Nanos,
        warm_until: Nanos,
        base: &mut Option<punctual_rt::ThreadUsage>,
    ) -> Result<Option<std::io::Error>, Error> {
        let mut rested = now();
        loop {
            let message = request(course.number);
            let start = now();
            if start >= until || course.control.stopping() {
                return Ok(None);
            }
            if base.is_none() && start >= warm_until {
                *base = Some(thread_usage());
            }
            let start = now();
            let exchange = channel.exchange(&message, course.number, start, &course.control);
            course.number += 1;
            let end = match exchange {
                Exchange::Replied(end) => end,
                // A message whose exchange was stopped is not expected to be answered.
                Exchange::Stopped => return Ok(None),
                Exchange::Missed => {
                    self.miss(start);
                    return Ok(None);
                }
                Exchange::Lost(error) => {
                    self.miss(start);
                    return Ok(Some(error));
                }
            };
            self.expected += 1;
            self.recorder.sample(start, end.signed_sub(start));
            if end - rested >= WORK {
                course.rest(end + Nanos((end - rested).0 / REST_SHARE))?;
                rested = now();
            }
        }
    }

    fn miss(&mut self, start: Nanos) {
        self.expected += 1;
        self.recorder.missed(start, 1, Nanos::ZERO);
    }

    fn fail(&mut self, reason: String) {
        self.failures += 1;
        self.failure.get_or_insert(reason);
    }

    fn finish(self, cost: SelfCost, warnings: &mut Vec<String>) -> WorkerOutcome {
        if let Some(failure) = self.failure {
            warnings.push(format!(
                "{}: the connection failed {}. The first failure was: {failure}",
                self.way.word(),
                counted(self.failures, "time", "times")
            ));
        }
        let mut outcome = self.recorder.finish(self.expected, cost);
        // All mechanisms share the thread, so its usage is divided among them here.
        outcome.usage = self.usage;
        outcome
    }
}
