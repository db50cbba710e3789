//! Measures the overhead of recording: the probe's median without and with the events.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use punctual_model::{CpuSet, Histogram, Nanos, Scheduling};
use punctual_probes::{Control, Iterations, Plan, Resources};

use super::rescue::Rescue;
use crate::Request;
use crate::explain::Explainer;

/// Maximum length of each of the four measurements. Their order is without, with, with and without
/// events, so that drift affects both kinds.
const SLICE: Nanos = Nanos::from_millis(250);

/// Minimum number of samples of each kind for a median.
const FEWEST: u64 = 40;

/// No further measurement begins after this time. The limit is needed because threads may be slow
/// to start and end.
const AT_MOST: Duration = Duration::from_secs(2);

/// Interval of checks for the end.
const LOOK: Duration = Duration::from_millis(10);

/// Returns the length of each measurement for a run of this length.
fn slice(run: Option<Nanos>) -> Nanos {
    run.map_or(SLICE, |run| SLICE.min(Nanos(run.0 / 10)))
}

/// Returns the approximate total time before a run of this length.
pub(crate) fn length(run: Option<Nanos>) -> Nanos {
    Nanos(4 * slice(run).0)
}

/// Returns how much the events raise the median; `None` if that could not be measured in the
/// available time. A negative difference counts as zero.
pub(crate) fn measure(
    request: &Request,
    cpus: &CpuSet,
    scheduling: Scheduling,
    run: Option<Nanos>,
    explainer: &mut Explainer,
    stop: &AtomicBool,
) -> Option<Nanos> {
    let slice = slice(run);
    let began = Instant::now();
    let mut latencies = [Histogram::new(), Histogram::new()];
    for on in [false, true, true, false] {
        if stop.load(Ordering::Relaxed) || began.elapsed() > AT_MOST {
            return None;
        }
        explainer.switch(on).ok()?;
        let measured = slice_of(request, cpus, scheduling, slice, stop)?;
        latencies[usize::from(on)].merge(&measured);
    }
    if latencies.iter().any(|all| all.recorded() < FEWEST) {
        return None;
    }
    let [without, with] = latencies.map(|all| all.quantile(0.5));
    Some(with?.saturating_sub(without?))
}

/// Resources that do not change the machine. A probe that needs changes would make them four times,
/// so it is not measured.
struct Harmless<'a>(&'a Request);

impl Resources for Harmless<'_> {
    fn partner(&self) -> Option<&[OsString]> {
        self.0.partner.as_deref()
    }
    fn iterations(&self) -> Iterations {
        Iterations::clone(&self.0.iterations)
    }
}

/// Runs the probe briefly, and returns its samples.
fn slice_of(
    request: &Request,
    cpus: &CpuSet,
    scheduling: Scheduling,
    slice: Nanos,
    stop: &AtomicBool,
) -> Option<Histogram> {
    let plan = Plan {
        cpus: cpus.clone(),
        scheduling,
        duration: Some(slice),
        duration_asked: false,
        warm_up: Some(Nanos(slice.0 / 5)),
        may_be_empty: false,
    };
    let ready = (request.probe.prepare)(&request.arguments, &plan, &Harmless(request)).ok()?;
    let control = Arc::new(Control::new());
    let (recorders, _readers): (Vec<_>, Vec<_>) = ready.open_workers(None, &control).unzip();
    let run = ready.run;
    let (done, finished) = mpsc::channel();
    let deadline = Instant::now() + Duration::from(slice);
    let mut rescue = Rescue::default();
    let measured = thread::scope(|scope| {
        let control = &control;
        scope.spawn(move || {
            // The receiver exists as long as the scope.
            let _ = done.send(run(recorders, control));
        });
        loop {
            match finished.recv_timeout(LOOK) {
                Ok(measured) => break measured.ok(),
                Err(RecvTimeoutError::Disconnected) => break None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if Instant::now() >= deadline || stop.load(Ordering::Relaxed) {
                control.stop();
                rescue.look();
            }
        }
    })?;
    let mut all = Histogram::new();
    for worker in &measured.workers {
        all.merge(&worker.histogram);
    }
    Some(all)
}
