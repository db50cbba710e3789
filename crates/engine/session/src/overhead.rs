//! What recording costs: the probe's median without the events and with them.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use punctual_model::{CpuSet, Histogram, Nanos, Scheduling};
use punctual_probes::{Control, Plan, Resources};

use crate::Request;
use crate::explain::Explainer;

/// How long each of the four measurements is at most: without, with, with,
/// without, so that a drift of the machine goes into both.
const SLICE: Nanos = Nanos::from_millis(250);

/// Fewer samples of each kind say nothing of a median.
const FEWEST: u64 = 40;

/// No further one begins after this: where threads are slow to start and to end.
const AT_MOST: Duration = Duration::from_secs(2);

/// How often the end is looked for.
const LOOK: Duration = Duration::from_millis(10);

/// How long each is, in a run of this length.
fn slice(run: Option<Nanos>) -> Nanos {
    run.map_or(SLICE, |run| SLICE.min(Nanos(run.0 / 10)))
}

/// How long it takes before a run of this length, about.
pub(crate) fn length(run: Option<Nanos>) -> Nanos {
    Nanos(4 * slice(run).0)
}

/// By how much the events raise the median; `None`: that could not be measured,
/// or not in the time there is. Less than none is none.
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

/// Nothing that changes the machine: a probe that needs such a thing would change it
/// four times, and is not measured.
struct PartnerOnly<'a>(Option<&'a [OsString]>);

impl Resources for PartnerOnly<'_> {
    fn partner(&self) -> Option<&[OsString]> {
        self.0
    }
}

/// A short run of the probe whose samples go nowhere else.
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
    let partner = PartnerOnly(request.partner.as_deref());
    let ready = (request.probe.prepare)(&request.arguments, &plan, &partner).ok()?;
    let control = Arc::new(Control::new());
    let (recorders, _readers): (Vec<_>, Vec<_>) = ready.open_lanes(None, &control).unzip();
    let run = ready.run;
    let (done, finished) = mpsc::channel();
    let deadline = Instant::now() + Duration::from(slice);
    let measured = thread::scope(|scope| {
        let control = &control;
        scope.spawn(move || {
            // The receiver lives as long as the scope.
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
            }
        }
    })?;
    let mut all = Histogram::new();
    for lane in &measured.lanes {
        all.merge(&lane.histogram);
    }
    Some(all)
}
