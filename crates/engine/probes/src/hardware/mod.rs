//! `hardware`: time taken from a spinning thread.

mod cause;
mod duty;
mod iterations;
mod kernel;
mod osnoise;
mod parameters;
mod results;
mod spin;

use std::sync::Arc;
use std::time::Duration;

use punctual_host::{CpuWatch, Host};
use punctual_model::{Arguments, Chart, Histogram, Nanos, Policy, Scheduling, SignedNanos};
use punctual_rt::{Clock, Instant, Nanosleep, PeriodicWait, Tsc, Wake};

use crate::entry::Probe;
use crate::policy::measuring_thread;
use crate::run::end_of;
use crate::thread_group::ThreadGroup;
use crate::{
    Control, Measured, Plan, ProbeEntry, ProbeError, Ready, Recorder, Resources, Run, SelfCost,
    TracerError, WorkerOutcome,
};
use cause::{Cause, Counts, Tally};
use duty::{Duty, LONGEST_WIDTH, Throttle};
use iterations::Iterations;
use parameters::{HWLAT, OSNOISE, PARAMETERS, SPIN};
use results::measured;
use spin::{Counter, Gaps, Limits, RawClock, Shut, Spin, Ticks, limits, spin, usual_turn};

/// The entry of this probe.
pub(crate) const ENTRY: ProbeEntry = ProbeEntry {
    name: "hardware",
    summary: "gaps of a spinning thread, caused by firmware, hypervisor or interrupts",
    unit: "ns",
    documentation: include_str!("hardware.md").trim_ascii_end(),
    privileges: "CAP_SYS_NICE or RLIMIT_RTPRIO for a real-time policy; without it, other threads \
                 interfere. Root and the msr module to count SMIs; root for the kernel's tracer",
    replaces: "hwlatdetect, oslat, rtla osnoise",
    chart: Chart::Latency,
    explained: Err(
        "The probe finds the cause of each gap itself, from the CPU's counters before and after \
         the gap; recording events would lengthen the gaps that it measures.",
    ),
    parameters: PARAMETERS,
    prepare: |arguments, plan, resources| Hardware::new(arguments).prepare(plan, resources),
};

/// The clock that times the windows.
const CLOCK: Clock = Clock::Monotonic;

/// Duration of the calibration of the counter. It is long enough to determine the rate to a few
/// millionths.
const CALIBRATION: Duration = Duration::from_millis(20);

/// At most a quarter of a spin may be used for reading counters, so that a constantly disturbed CPU
/// is still measured and not only examined. At most half of this time may be used for gaps below
/// the threshold.
const PART_TO_EXAMINE: u64 = 4;

struct Hardware {
    threshold: Nanos,
    window: Nanos,
    width: Option<Nanos>,
    source: &'static str,
    turns: bool,
    copy: usize,
    noise_threshold: Nanos,
    no_interrupts: bool,
}

/// The parameters of spinning.
#[derive(Clone, Debug)]
struct HardwarePlan {
    /// Gaps above this are examined individually.
    threshold: Nanos,
    cpus: Vec<u32>,
    scheduling: Scheduling,
    duration: Option<Nanos>,
    warm_up: Nanos,
    duty: Duty,
    /// The number of bytes copied in each iteration; `None` if iterations are not counted.
    turns: Option<usize>,
    /// The shortest gap that the kernel's tracer counts as noise.
    noise_threshold: Nanos,
    /// Whether the kernel's threads spin with interrupts disabled.
    no_interrupts: bool,
}

impl Hardware {
    fn new(arguments: &Arguments) -> Self {
        Self {
            threshold: parameters::THRESHOLD.value_in(arguments),
            window: parameters::WINDOW.value_in(arguments),
            width: parameters::WIDTH.value_in(arguments),
            source: parameters::SOURCE.value_in(arguments),
            turns: parameters::TURNS.value_in(arguments),
            copy: parameters::COPY.value_in(arguments).unwrap_or(0) as usize,
            noise_threshold: parameters::NOISE_THRESHOLD.value_in(arguments),
            no_interrupts: parameters::NO_INTERRUPTS.value_in(arguments),
        }
    }

    /// Returns whether the kernel's threads leave CPU time to others even if they always spin.
    fn yields(&self, plan: &Plan) -> bool {
        let real_time = plan.scheduling.policy.is_real_time();
        self.source == OSNOISE && !real_time && !self.no_interrupts
    }

    /// Rejects parameters that contradict each other, or do not fit the run.
    fn check(&self, plan: &Plan, duty: Duty) -> Result<(), ProbeError> {
        let may_be_long = self.source == HWLAT || self.yields(plan);
        if !may_be_long && duty.width > LONGEST_WIDTH {
            return Err(ProbeError::Unfit(format!(
                "a width of {}, during which all CPUs spin, is longer than {LONGEST_WIDTH}: use a \
                 shorter --width and a shorter --window to cover the same share of the time",
                duty.width
            )));
        }
        let real_time = matches!(plan.scheduling.policy, Policy::Fifo | Policy::RoundRobin);
        if real_time && self.source != HWLAT {
            duty.check(Throttle::from_kernel(&Host::live().facts().kernel))?;
        }
        if let Some(duration) = plan.duration
            && duration < duty.window
            && !plan.may_be_empty
        {
            return Err(ProbeError::Unfit(format!(
                "a window of {} is longer than the run of {duration}: change --window or \
                 --duration",
                duty.window
            )));
        }
        let usual = Nanos::from_micros(1);
        if self.source != OSNOISE && (self.no_interrupts || self.noise_threshold != usual) {
            return Err(ProbeError::Unfit(
                "--no-interrupts and --noise-threshold are settings of the kernel's threads: add \
                 --source osnoise"
                    .to_owned(),
            ));
        }
        if self.turns && self.source != SPIN || self.copy > 0 && !self.turns {
            return Err(ProbeError::Unfit(
                "--turns counts the iterations of the probe's threads and needs --source spin; \
                 --copy adds work to these iterations and needs --turns"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// Selects the source: user-space threads, the kernel, or both.
    ///
    /// # Errors
    /// Returns an error if one of the kernel's tracers is needed but not available.
    fn source(&self, plan: HardwarePlan, resources: &dyn Resources) -> Result<Run, ProbeError> {
        let name = self.source;
        let refused = |why| ProbeError::Source { name, why };
        let none = || refused(TracerError::NotOffered);
        if self.source == SPIN {
            return Ok(Box::new(move |recorders, control| {
                spin_on(plan, recorders, control)
            }));
        }
        if self.source == OSNOISE {
            let tracer = resources.noise_tracer().ok_or_else(none)?;
            let osnoise = osnoise::Osnoise { tracer, plan };
            let osnoise_plan = osnoise.ask();
            osnoise.tracer.may_start(&osnoise_plan).map_err(refused)?;
            return Ok(Box::new(|recorders, control| {
                osnoise.run(recorders, control)
            }));
        }
        let tracer = resources.hardware_tracer().ok_or_else(none)?;
        tracer.may_start().map_err(refused)?;
        let alone = self.source == HWLAT;
        Ok(Box::new(move |recorders, control| {
            let detector = kernel::Detector::start(tracer, plan.clone())?;
            if alone {
                detector.alone(recorders, control)
            } else {
                detector.run_alongside(|| spin_on(plan, recorders, control))
            }
        }))
    }
}

/// Spins on all CPUs.
fn spin_on(
    plan: HardwarePlan,
    recorders: Vec<Recorder>,
    control: &Arc<Control>,
) -> Result<Measured, ProbeError> {
    match Tsc::available() {
        Some(tsc) => {
            let rate = tsc.calibrate(CALIBRATION);
            let clock = Counter { tsc, rate };
            measure(clock, Tsc::NAME, plan, recorders, control)
        }
        None => {
            let name = Clock::MonotonicRaw.name();
            measure(RawClock, name, plan, recorders, control)
        }
    }
}

impl Probe for Hardware {
    fn prepare(self, plan: &Plan, resources: &dyn Resources) -> Result<Ready, ProbeError> {
        if plan.scheduling.policy == Policy::Deadline {
            return Err(ProbeError::Unfit(
                "a spinning thread cannot have the deadline policy, because the kernel stops it \
                 at the end of its runtime: use fifo, rr or other"
                    .to_owned(),
            ));
        }
        let kernel_only = self.source == HWLAT || self.yields(plan);
        let duty = Duty::new(self.window, self.width, kernel_only)?;
        self.check(plan, duty)?;
        let rate_hz = 1_000_000_000_u64.div_ceil(duty.window.0);
        let worker = |cpu| plan.worker(None, cpu, rate_hz);
        let workers = match self.source {
            HWLAT => vec![kernel::worker(&plan.cpus, rate_hz)],
            _ => plan.cpus.iter().map(worker).collect(),
        };
        let spun = HardwarePlan {
            threshold: self.threshold,
            cpus: plan.cpus.iter().collect(),
            scheduling: plan.scheduling,
            duration: plan.duration,
            warm_up: plan.warm_up_of(plan.duration),
            duty,
            turns: self.turns.then_some(self.copy),
            noise_threshold: self.noise_threshold,
            no_interrupts: self.no_interrupts,
        };
        let run = self.source(spun, resources)?;
        Ok(plan.ready(workers, run))
    }
}

/// Runs all threads on this clock.
fn measure<T: Ticks + Send + 'static>(
    clock: T,
    name: &str,
    plan: HardwarePlan,
    recorders: Vec<Recorder>,
    control: &Arc<Control>,
) -> Result<Measured, ProbeError> {
    let host = Host::live();
    let mut group = ThreadGroup::new(control);
    let spread = plan.duty.window.0 / recorders.len().max(1) as u64;
    for (place, (recorder, &cpu)) in recorders.into_iter().zip(&plan.cpus).enumerate() {
        let watch = host.watch(cpu);
        let HardwarePlan {
            threshold,
            duration,
            warm_up,
            duty,
            turns,
            ..
        } = plan;
        let offset = Duration::from_nanos(spread * place as u64);
        group.spawn(
            measuring_thread(&format!("hardware/{cpu}"), &[cpu], plan.scheduling),
            move |control| {
                let mut worker = Worker::new(clock, threshold, watch, control);
                worker.turns = turns.map(|copy| Iterations::new(clock, copy));
                // Read the counters once before the measurement, to warm up the buffers and the
                // caches of the files.
                Counts::read(&mut worker.watch);
                Ok((worker, SelfCost::measure(CLOCK)))
            },
            move |(worker, cost), control, start| {
                let first = Nanos((start + offset).as_nanos());
                let schedule = Schedule {
                    first,
                    counted_from: first + warm_up,
                    end: end_of(first, duration),
                    duty,
                };
                worker.run(recorder, schedule, cost, control)
            },
        )?;
    }
    group.go();
    Ok(measured(clock, name, &plan.cpus, group.join()?))
}

/// The schedule of one thread's windows.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    first: Nanos,
    /// Windows before this time are warm-up.
    counted_from: Nanos,
    end: Nanos,
    duty: Duty,
}

impl Schedule {
    /// Returns the number of windows, starting at `due`, in which it is too late to spin at `now`.
    /// Windows that would end after the run are not part of the run.
    fn passed(&self, due: Nanos, now: Nanos) -> u64 {
        let Duty { window, width } = self.duty;
        let Some(late) = now.0.checked_sub(due.0 + width.0) else {
            return 0;
        };
        let room = self.end.saturating_sub(due + width).0 / window.0 + 1;
        (late / window.0 + 1).min(room)
    }
}

/// One measuring thread.
struct Worker<T> {
    clock: T,
    turn: u64,
    limits: Limits,
    watch: CpuWatch,
    tally: Tally,
    turns: Option<Iterations<T>>,
}

/// The result of a thread; `turn` and `floor` are in ticks.
struct Found {
    worker: WorkerOutcome,
    tally: Tally,
    turn: u64,
    floor: u64,
    turns: Option<Histogram>,
}

impl<T: Ticks> Worker<T> {
    fn new(clock: T, threshold: Nanos, watch: CpuWatch, control: &Control) -> Self {
        let turn = usual_turn(clock, control);
        Self {
            clock,
            turn,
            limits: limits(clock, threshold, turn),
            watch,
            tally: Tally::default(),
            turns: None,
        }
    }

    fn run(
        mut self,
        mut recorder: Recorder,
        schedule: Schedule,
        cost: SelfCost,
        control: &Control,
    ) -> Result<Found, ProbeError> {
        let Duty { window, width } = schedule.duty;
        let mut sleep = Nanosleep::new(CLOCK)?;
        recorder.start(schedule.first);
        let mut due = schedule.first;
        let mut warm = false;
        while due + width <= schedule.end && !control.stopping() {
            if sleep.wait_until(Instant::from_nanos(due.0))? == Wake::Interrupted {
                continue;
            }
            if !warm && due >= schedule.counted_from {
                warm = true;
                self.tally = Tally::default();
                if let Some(turns) = &mut self.turns {
                    turns.clear();
                }
            }
            let passed = schedule.passed(due, Nanos(CLOCK.now().as_nanos()));
            if passed > 0 {
                recorder.missed(due, passed, window);
                due += Nanos(passed * window.0);
                continue;
            }
            let before = self.tally.noise();
            let largest = self.spin_until(due + width, control);
            self.tally.end_window(before);
            if control.stopping() {
                // A window that was interrupted by the stop does not count as expected.
                break;
            }
            match largest {
                // The time of the gap is more precise than that of the window, but the time of the
                // window decides whether the sample belongs to the warm-up.
                Some((at, gap)) => recorder.sample(if warm { at } else { due }, gap),
                None => recorder.missed(due, 1, window),
            }
            due += window;
        }
        let expected = (due - schedule.first).0 / window.0;
        Ok(Found {
            worker: recorder.finish(expected, cost),
            tally: self.tally,
            turn: self.turn,
            floor: self.limits.floor,
            turns: self.turns.map(|turns| turns.histogram),
        })
    }

    /// Spins until this time, with pauses in which causes are determined. Returns when the largest
    /// gap began, and its length; `None` if there was no time to spin.
    fn spin_until(&mut self, until: Nanos, control: &Control) -> Option<(Nanos, SignedNanos)> {
        let clock = self.clock;
        let Limits { threshold, floor } = self.limits;
        let mut now = Nanos(CLOCK.now().as_nanos());
        let time_limit = (until.saturating_sub(now).0) / PART_TO_EXAMINE;
        let mut examiner = Examiner::new(Counts::read(&mut self.watch), time_limit);
        let mut largest: Option<(Nanos, u64)> = None;
        loop {
            now = Nanos(CLOCK.now().as_nanos());
            if now >= until || control.stopping() {
                let nanos = |ticks| i64::try_from(clock.to_nanos(ticks)).unwrap_or(i64::MAX);
                return largest.map(|(at, gap)| (at, SignedNanos(nanos(gap))));
            }
            let ticks = clock.to_ticks((until - now).0);
            let stop = if examiner.has_time_for_short_ones() {
                floor
            } else {
                threshold
            };
            let spin = match &mut self.turns {
                Some(turns) => spin(clock, ticks, (floor, stop), turns, control),
                None => spin(clock, ticks, (floor, stop), &mut Shut, control),
            };
            if largest.is_none_or(|(_, gap)| spin.largest > gap) {
                largest = Some((now + Nanos(clock.to_nanos(spin.largest_at)), spin.largest));
            }
            self.tally.spun += spin.ticks;
            self.tally.add(Cause::Short, spin.short);
            if spin.ended_by > 0 {
                let cause = examiner.examine(&spin, &mut self.watch);
                let mut gap = Gaps::default();
                gap.add(spin.ended_by);
                let long = spin.ended_by > threshold;
                self.tally.add(if long { cause } else { Cause::Short }, gap);
            }
        }
    }
}

/// Finds the causes of the gaps of one window. This is not part of the hot path, because it runs
/// outside the spin.
struct Examiner {
    /// The last reading of the counters, and the number of gaps since then that have not been
    /// examined.
    before: Counts,
    others: u64,
    /// Time in nanoseconds that reading the counters may take, and that it has taken so far.
    time_limit: u64,
    spent: u64,
}

impl Examiner {
    fn new(before: Counts, time_limit: u64) -> Self {
        Self {
            before,
            others: 0,
            time_limit,
            spent: 0,
        }
    }

    fn has_time_for_short_ones(&self) -> bool {
        self.spent < self.time_limit / 2
    }

    /// Returns the cause of the gap that ended a spin.
    #[cold]
    fn examine(&mut self, spin: &Spin, watch: &mut CpuWatch) -> Cause {
        self.others += spin.short.count;
        if self.spent >= self.time_limit {
            self.others += 1;
            return Cause::Unknown;
        }
        let begun = CLOCK.now();
        let after = Counts::read(watch);
        let cause = cause::cause(&self.before, &after, self.others);
        self.before = after;
        self.others = 0;
        let spent = CLOCK.now().saturating_duration_since(begun);
        self.spent += Nanos::from(spent).0;
        cause
    }
}

#[cfg(test)]
mod tests;
