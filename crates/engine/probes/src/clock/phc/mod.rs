//! Measures the offset of a PTP hardware clock against the system clock.

mod series;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use punctual_model::{Delay, Histogram, Nanos, Scheduling, SignedNanos, Table};
use punctual_rt::{Clock, Nanosleep, PtpClock, PtpMethod, PtpReading};

use super::rounds::{rest, sleep};
use crate::monotonic::now;
use crate::policy::measuring_thread;
use crate::run::end_of;
use crate::{Control, Measured, Plan, ProbeError, Ready, Recorder, SelfCost, WorkerOutcome};
use series::{Point, Series};

/// Labels of the two channels.
const LABELS: [&str; 2] = ["offset", "read delay"];

/// The largest number of readings in a round.
pub(super) const MOST_READS: u64 = PtpClock::MOST as u64;

/// A clock that can be read together with the system clock.
pub(super) trait Source: Send {
    /// Returns the system call that reads it.
    fn method(&self) -> PtpMethod;
    /// See [`PtpClock::read`].
    fn read(
        &mut self,
        count: usize,
        into: &mut [PtpReading; PtpClock::MOST],
    ) -> Result<usize, punctual_rt::Error>;
}

impl Source for PtpClock {
    fn method(&self) -> PtpMethod {
        PtpClock::method(self)
    }

    fn read(
        &mut self,
        count: usize,
        into: &mut [PtpReading; PtpClock::MOST],
    ) -> Result<usize, punctual_rt::Error> {
        PtpClock::read(self, count, into)
    }
}

/// A measurement of one clock.
pub(super) struct Phc {
    pub(super) device: String,
    pub(super) source: Box<dyn Source>,
    /// Time from one round to the next.
    pub(super) interval: Nanos,
    /// Number of readings in a round.
    pub(super) reads: usize,
}

impl Phc {
    /// Opens the clock.
    ///
    /// # Errors
    /// Returns an error if there is no such device, if this process may not read it, or if it is
    /// not a PTP clock.
    pub(super) fn open(device: String, interval: Nanos, reads: usize) -> Result<Self, ProbeError> {
        let clock = PtpClock::open(Path::new(&device))
            .map_err(|error| ProbeError::Unfit(format!("--phc: {error}")))?;
        Ok(Self {
            device,
            source: Box::new(clock),
            interval,
            reads,
        })
    }

    pub(super) fn prepare(self, plan: &Plan) -> Result<Ready, ProbeError> {
        let cpu = plan.first_cpu("clock")?;
        let rate_hz = 1_000_000_000 / self.interval.0.max(1);
        let workers = LABELS.map(|label| plan.worker(Some(label.to_owned()), cpu, rate_hz));
        let (scheduling, duration) = (plan.scheduling, plan.duration);
        Ok(Ready {
            // One channel has offsets, the other has read delays.
            alike: false,
            ..plan.ready(workers, move |recorders, control: &Arc<Control>| {
                self.measure(recorders, control, cpu, scheduling, duration)
            })
        })
    }

    fn measure(
        self,
        recorders: Vec<Recorder>,
        control: &Arc<Control>,
        cpu: u32,
        scheduling: Scheduling,
        duration: Option<Nanos>,
    ) -> Result<Measured, ProbeError> {
        let (device, method) = (self.device.clone(), self.source.method());
        let series = Series::for_run(duration, self.interval);
        let control = Arc::clone(control);
        let thread = measuring_thread(&format!("phc/{cpu}"), &[cpu], scheduling)
            .spawn(move || Rounds::new(self, recorders, series).run(duration, &control))?;
        let found = thread.join()??;
        Ok(Measured {
            tables: vec![table(&device, method, &found)],
            warnings: warnings(&device, method, &found),
            workers: found.workers,
        })
    }
}

/// The results of a run.
struct Found {
    workers: Vec<WorkerOutcome>,
    series: Series,
    /// Time between the two readings of the system clock.
    windows: Histogram,
    /// Whole seconds of the offset, which the samples leave out.
    whole_seconds: i64,
    /// Number of rounds in which the system clock was set back during each reading.
    set_back: u64,
}

/// The measuring thread.
struct Rounds {
    phc: Phc,
    recorders: Vec<Recorder>,
    series: Series,
    windows: Histogram,
    whole_seconds: Option<i64>,
    set_back: u64,
    attempted: u64,
}

impl Rounds {
    fn new(phc: Phc, recorders: Vec<Recorder>, series: Series) -> Self {
        Self {
            phc,
            recorders,
            series,
            windows: Histogram::preallocated(),
            whole_seconds: None,
            set_back: 0,
            attempted: 0,
        }
    }

    fn run(
        mut self,
        duration: Option<Nanos>,
        control: &Control,
    ) -> Result<Found, punctual_rt::Error> {
        let _entered = control.enter();
        let cost = SelfCost::measure(Clock::Monotonic);
        let mut wait = Nanosleep::new(Clock::Monotonic)?;
        let begun = now();
        let end = end_of(begun, duration);
        for recorder in &mut self.recorders {
            recorder.start(begun);
            // An offset is no time span of a thread.
            recorder.late_is(None, Delay::Step);
        }
        let mut readings = [PtpReading::default(); PtpClock::MOST];
        let mut due = begun;
        loop {
            let awake = now();
            if awake >= end || control.stopping() {
                break;
            }
            let count = self.phc.source.read(self.phc.reads, &mut readings)?;
            self.round(awake, readings.get(..count).unwrap_or_default());
            // Some clocks take milliseconds to read. The thread sleeps for at least half of the
            // time.
            due = (due + self.phc.interval).max(rest(awake, now()));
            sleep(&mut wait, due.min(end), control)?;
        }
        let attempted = self.attempted;
        let finish = |recorder: Recorder| recorder.finish(attempted, cost);
        Ok(Found {
            workers: self.recorders.into_iter().map(finish).collect(),
            series: self.series,
            windows: self.windows,
            whole_seconds: self.whole_seconds.unwrap_or_default(),
            set_back: self.set_back,
        })
    }

    /// Records the reading with the shortest window, because its offset is the most certain.
    fn round(&mut self, at: Nanos, readings: &[PtpReading]) {
        self.attempted += 1;
        let windows = readings.iter().filter_map(|one| Some((one.window()?, one)));
        let Some((window, best)) = windows.min_by_key(|(window, _)| *window) else {
            self.set_back += 1;
            for recorder in &mut self.recorders {
                recorder.missed(at, 1, self.phc.interval);
            }
            return;
        };
        let offset = best.offset();
        let whole = *self
            .whole_seconds
            .get_or_insert_with(|| series::whole_seconds(offset));
        let rest = offset.saturating_sub(whole.saturating_mul(series::SECOND));
        // The true offset is within half of the window of the measured one.
        let bound = rest.unsigned_abs().saturating_add(window.div_ceil(2));
        let [offsets, delays] = self.recorders.as_mut_slice() else {
            return;
        };
        let before = offsets.recorded();
        offsets.sample(at, sample(bound));
        delays.sample(at, sample(window));
        if offsets.recorded() > before {
            self.windows.record(sample(window));
            self.series.push(Point { at, offset: rest });
        }
    }
}

fn sample(nanos: u64) -> SignedNanos {
    SignedNanos(i64::try_from(nanos).unwrap_or(i64::MAX))
}

/// Creates the table with the figures that have a sign, and those of the whole run.
fn table(device: &str, method: PtpMethod, found: &Found) -> Table {
    let mut table = Table::new(
        "phc",
        "PTP hardware clock minus CLOCK_REALTIME",
        &[
            ("device", "clock"),
            ("call", "read by"),
            ("whole_seconds", "whole seconds"),
            ("offset_mean_ns", "mean, ns"),
            ("offset_min_ns", "min, ns"),
            ("offset_max_ns", "max, ns"),
            ("drift_ppb", "drift, ppb"),
            ("jitter_ns", "jitter, ns"),
            ("read_delay_ns", "read delay"),
            ("uncertainty_ns", "uncertainty"),
        ],
    );
    let figures = found.series.figures();
    let of = |value: Option<f64>| value.map_or(punctual_model::Cell::Unknown, Into::into);
    let window = found.windows.quantile(0.5);
    table.push([
        device.into(),
        method.name().into(),
        found.whole_seconds.to_string().as_str().into(),
        of(figures.mean),
        of(figures.least),
        of(figures.most),
        of(figures.drift_ppb),
        of(figures.jitter),
        window.into(),
        window.map(|window| Nanos(window.0.div_ceil(2))).into(),
    ]);
    table
}

fn warnings(device: &str, method: PtpMethod, found: &Found) -> Vec<String> {
    let mut warnings = Vec::new();
    if method == PtpMethod::Basic {
        warnings.push(format!(
            "the driver of {device} supports only {}: the read delay also includes the work of \
             the kernel around the read, so the offset is less certain",
            method.name()
        ));
    }
    if found.whole_seconds != 0 {
        warnings.push(format!(
            "{device} and CLOCK_REALTIME differ by {} s, and the samples show the rest: a clock \
             that PTP sets counts TAI, which is 37 s ahead of UTC since 2017",
            found.whole_seconds
        ));
    }
    if found.set_back > 0 {
        warnings.push(format!(
            "CLOCK_REALTIME was set back during a reading in {} rounds, which have no sample",
            found.set_back
        ));
    }
    if found.series.is_cut() {
        warnings.push(format!(
            "the mean, drift and jitter are those of the first {} readings",
            found.series.len()
        ));
    }
    warnings
}
