//! The batches of one measuring thread.

use std::io;

use punctual_model::{Delay, Nanos, Scheduling, SignedNanos};
use punctual_rt::{EchoProcess, Instant, Nanosleep, PeriodicWait, Tid, Wake};

use super::partner::Partner;
use super::{CLOCK, Way};
use crate::{Control, ProbeError, Recorder, SelfCost, WorkerOutcome, rt_policy};

/// The threads and processes that a CPU's measuring thread switches to, as required by the
/// mechanisms. They belong to the thread that started them.
pub(super) struct Others {
    partner: Option<Partner>,
    process: Option<EchoProcess>,
}

impl Others {
    pub(super) fn start(
        ways: &[Way],
        cpu: u32,
        scheduling: Scheduling,
        process: Option<EchoProcess>,
    ) -> Result<Self, ProbeError> {
        let wants_partner = ways.iter().any(|way| matches!(way, Way::Yield | Way::Pipe));
        if let Some(process) = &process {
            process.place(&[cpu], &rt_policy(scheduling))?;
        }
        Ok(Self {
            partner: if wants_partner {
                Some(Partner::start(cpu, scheduling)?)
            } else {
                None
            },
            process,
        })
    }

    /// Returns the thread that a mechanism switches to.
    fn switched_to(&self, way: Way) -> Option<Tid> {
        match way {
            Way::Alone => None,
            Way::Yield | Way::Pipe => self.partner.as_ref()?.tid(),
            Way::Process => Tid::from_raw(self.process.as_ref()?.pid()),
        }
    }
}

/// The timing of one thread's batches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batches {
    pub(super) first: Nanos,
    pub(super) end: Nanos,
    pub(super) interval: Nanos,
    pub(super) size: u64,
}

/// One mechanism with its recorder.
pub(super) struct SwitchWorker {
    way: Way,
    recorder: Recorder,
    /// Number of switches that came due.
    expected: u64,
}

impl SwitchWorker {
    pub(super) fn new((way, recorder): (Way, Recorder)) -> Self {
        Self {
            way,
            recorder,
            expected: 0,
        }
    }

    /// Counts switches of a batch that was due at `due` as missed.
    fn missed(&mut self, due: Nanos, count: u64) {
        if count > 0 {
            self.recorder.missed(due, count, Nanos(1));
        }
    }
}

/// Runs one measuring thread, in which each batch uses the next mechanism.
pub(super) fn measure(
    mut workers: Vec<SwitchWorker>,
    mut others: Others,
    batches: Batches,
    cost: SelfCost,
    control: &Control,
) -> Result<Vec<WorkerOutcome>, ProbeError> {
    let Batches {
        first,
        end,
        interval,
        size,
    } = batches;
    let mut sleep = Nanosleep::new(CLOCK)?;
    for worker in &mut workers {
        worker.recorder.start(first);
        match worker.way {
            Way::Alone => worker
                .recorder
                .late_is(Some(punctual_rt::current_tid()), Delay::Step),
            way => worker
                .recorder
                .late_is(others.switched_to(way), Delay::Call),
        }
    }
    let half = Nanos(interval.0 / 2);
    let mut due = first;
    let mut turn = 0;
    while due < end && !control.stopping() {
        if sleep.wait_until(Instant::from_nanos(due.0))? == Wake::Interrupted {
            continue;
        }
        let worker = &mut workers[turn];
        // A batch is too late if its half of the interval has already passed.
        let late = CLOCK.now().as_nanos() >= (due + half).0;
        let tried = if late {
            0
        } else {
            batch(worker, &mut others, size, due + half, control).map_err(|source| {
                punctual_rt::Error::Os {
                    call: "read or write",
                    what: format!("'{}', whose other end is closed", worker.way.label()),
                    source,
                }
            })?
        };
        if control.stopping() {
            // Only those switches that were begun count as expected.
            worker.expected += tried;
            break;
        }
        worker.expected += size;
        worker.missed(due, size - tried);
        due += interval;
        turn = (turn + 1) % workers.len();
    }
    drop(others);
    Ok(workers
        .into_iter()
        .map(|worker| worker.recorder.finish(worker.expected, cost))
        .collect())
}

/// Runs one batch, at most until `until`. Returns how many switches were completed. Each of them
/// has been recorded or counted as missed.
fn batch(
    worker: &mut SwitchWorker,
    others: &mut Others,
    size: u64,
    until: Nanos,
    control: &Control,
) -> io::Result<u64> {
    let go_on = |tried: u64, now: u64| tried < size && now < until.0 && !control.stopping();
    let gone = || io::Error::from(io::ErrorKind::NotConnected);
    let mut tried = 0;
    let mut now = CLOCK.now().as_nanos();
    match worker.way {
        Way::Alone => {
            while go_on(tried, now) {
                let before = CLOCK.now().as_nanos();
                std::thread::yield_now();
                now = CLOCK.now().as_nanos();
                sample(worker, before, now);
                tried += 1;
            }
        }
        Way::Yield => {
            let partner = others.partner.as_mut().ok_or_else(gone)?;
            if partner.begin(until.0, || control.stopping())? {
                while go_on(tried, now) {
                    match partner.hand_over() {
                        (before, Some(after)) => sample(worker, before, after),
                        (before, None) => worker.missed(Nanos(before), 1),
                    }
                    tried += 1;
                    now = CLOCK.now().as_nanos();
                }
            }
            partner.end();
        }
        Way::Pipe => {
            let partner = others.partner.as_mut().ok_or_else(gone)?;
            while go_on(tried, now) {
                let before = CLOCK.now().as_nanos();
                partner.send()?;
                let Some(after) = answer(|| partner.receive(), control)? else {
                    break;
                };
                sample(worker, before, after);
                tried += 1;
                now = after;
            }
        }
        Way::Process => {
            let process = others.process.as_mut().ok_or_else(gone)?;
            while go_on(tried, now) {
                let before = CLOCK.now().as_nanos();
                process.send()?;
                let receive = || Ok(process.receive()?.map(Instant::as_nanos));
                let Some(after) = answer(receive, control)? else {
                    break;
                };
                sample(worker, before, after);
                tried += 1;
                now = after;
            }
        }
    }
    Ok(tried)
}

/// Waits for an answer. Returns `None` if the run is stopped in the meantime.
fn answer(
    mut receive: impl FnMut() -> io::Result<Option<u64>>,
    control: &Control,
) -> io::Result<Option<u64>> {
    loop {
        match receive()? {
            Some(time) => return Ok(Some(time)),
            None if control.stopping() => return Ok(None),
            None => {}
        }
    }
}

#[inline]
fn sample(worker: &mut SwitchWorker, before: u64, after: u64) {
    let latency: SignedNanos = Nanos(after).signed_sub(Nanos(before));
    worker.recorder.sample(Nanos(before), latency);
}
