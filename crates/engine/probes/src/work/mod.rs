//! `work`: the execution time of a fixed piece of work in a periodic loop.

mod calibration;
mod counting;
mod piece;
#[cfg(test)]
mod tests;
mod worker;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use punctual_model::{
    Arguments, Cell, Chart, Delay, Nanos, Parameter, ProbeRun, Table, Typed, parameters,
};

use crate::entry::Measure;
use crate::entry::Probe;
use crate::policy::measuring_thread;
use crate::resources::Iterations;
use crate::run::Terms;
use crate::thread_group::ThreadGroup;
use crate::{Control, Measured, Plan, ProbeEntry, ProbeError, Ready, Recorder, Resources};
use calibration::LONGEST;
use piece::{Kind, Piece};
use worker::{Counters, Worked, Worker};

/// The entry of this probe.
pub(crate) const ENTRY: ProbeEntry = ProbeEntry {
    name: ProbeRun::WORK,
    summary: "how long a fixed piece of work takes in each period",
    unit: "ns",
    documentation: include_str!("work.md").trim_ascii_end(),
    privileges: "CAP_SYS_NICE or RLIMIT_RTPRIO for a real-time policy; without it, the policy is \
                 other. CAP_PERFMON for all hardware counters",
    replaces: "no dedicated tool; lat_mem_rd (lmbench) reports a mean",
    chart: Chart::Latency,
    explained: Ok(Delay::Work),
    parameters: PARAMETERS,
    prepare: |arguments, plan, resources| Work::new(arguments).prepare(plan, resources),
};

/// Maximum memory of all threads, in kB. All of it is locked.
const MOST_MEMORY: u64 = 1 << 20;

const INTEGER: &str = "integer";
const FLOAT: &str = "float";
const MEMORY: &str = "memory";

/// The default of --work-time.
const USUAL_TIME: Nanos = Nanos::from_micros(100);

/// The default of --size.
const USUAL_SIZE: u64 = 256;

parameters! {
    KIND: &'static str = Typed::choice(
        "kind",
        "Kind of work",
        &[
            (INTEGER, "a chain of integer operations"),
            (FLOAT, "a chain of floating-point operations"),
            (MEMORY, "a walk through memory in random order, in which each address depends on \
                the access before"),
        ],
    ).short('k').or(INTEGER);
    SIZE: u64 = Typed::count(
        "size",
        "With --kind memory: memory of each thread in kB",
        1..=262_144,
    ).or("256");
    WORK_TIME: Nanos = Typed::duration(
        "work-time",
        "Execution time of the work, calibrated before the run",
        Nanos::from_micros(1)..=LONGEST,
    ).or("100us");
    ITERATIONS: Option<u64> = Typed::count(
        ProbeRun::ITERATIONS,
        "Iterations of the work, as in another run (instead of --work-time)",
        1..=calibration::MOST,
    );
    INTERVAL: Nanos = Typed::duration(
        Parameter::INTERVAL,
        "Time from the start of one piece of work to the next",
        Nanos::from_micros(20)..=Nanos::from_secs(10),
    ).short('i').or("1ms");
    ALIGNED: bool = Typed::flag(
        "aligned",
        "Work on all CPUs simultaneously instead of spread over the interval",
    );
    NO_COUNTERS: bool = Typed::flag(
        "no-counters",
        "Do not read hardware counters before and after the work",
    );
}

#[derive(Debug)]
struct Work {
    kind: &'static str,
    size: u64,
    work_time: Nanos,
    iterations: Option<u64>,
    interval: Nanos,
    aligned: bool,
    counters: bool,
}

/// A probe that is ready to start.
struct Run {
    probe: Work,
    terms: Terms,
    /// The calibrated work, which all phases of a run share.
    shared: Iterations,
}

impl Work {
    fn new(arguments: &Arguments) -> Self {
        Self {
            kind: KIND.value_in(arguments),
            size: SIZE.value_in(arguments),
            work_time: WORK_TIME.value_in(arguments),
            iterations: ITERATIONS.value_in(arguments),
            interval: INTERVAL.value_in(arguments),
            aligned: ALIGNED.value_in(arguments),
            counters: !NO_COUNTERS.value_in(arguments),
        }
    }

    fn kind(&self) -> Kind {
        match self.kind {
            MEMORY => Kind::Memory(self.size),
            FLOAT => Kind::Float,
            _ => Kind::Integer,
        }
    }

    /// Rejects parameters that contradict each other, or do not fit the run.
    fn check(&self, plan: &Plan) -> Result<(), ProbeError> {
        let unfit = |text: String| Err(ProbeError::Unfit(text));
        plan.refuse_deadline(ENTRY.name)?;
        let threads = plan.cpus.len() as u64;
        if threads == 0 {
            return Err(ProbeError::NoCpu { probe: ENTRY.name });
        }
        if let Some(duration) = plan.duration
            && self.interval > duration
        {
            return Err(ProbeError::IntervalTooLong {
                interval: self.interval,
                duration,
            });
        }
        if self.iterations.is_some() && self.work_time != USUAL_TIME {
            return unfit(
                "--iterations and --work-time both set the size of the work: give only one of \
                 them"
                    .to_owned(),
            );
        }
        if self.kind != MEMORY && self.size != USUAL_SIZE {
            return unfit(format!(
                "--size applies only to --kind memory, but the kind is {}",
                self.kind
            ));
        }
        if self.iterations.is_none() && self.work_time.0 > self.interval.0 / 2 {
            return unfit(format!(
                "work of {} takes more than half of the interval of {}, so that other threads \
                 could not run: give a shorter --work-time or a longer --interval",
                self.work_time, self.interval
            ));
        }
        let memory = self.size.saturating_mul(threads);
        if self.kind == MEMORY && memory > MOST_MEMORY {
            return unfit(format!(
                "--size {} on {threads} CPUs needs {memory} kB of locked memory, more than \
                 {MOST_MEMORY} kB: give a smaller --size or fewer --cpus",
                self.size
            ));
        }
        Ok(())
    }
}

impl Probe for Work {
    fn prepare(self, plan: &Plan, resources: &dyn Resources) -> Result<Ready, ProbeError> {
        self.check(plan)?;
        let terms = Terms::from_plan(plan);
        let worker = |cpu: &u32| plan.worker(None, *cpu, 1_000_000_000 / self.interval.0);
        let workers: Vec<_> = terms.cpus.iter().map(worker).collect();
        let run = Run {
            terms,
            shared: resources.iterations(),
            probe: self,
        };
        Ok(plan.ready(workers, run))
    }
}

impl Measure for Run {
    fn measure(
        self,
        recorders: Vec<Recorder>,
        control: &Arc<Control>,
    ) -> Result<Measured, ProbeError> {
        let known = self.probe.iterations.or(self.shared.get().copied());
        let iterations = match known {
            None => self.calibrate(control)?,
            known => known,
        };
        let Work { interval, .. } = self.probe;
        let spread = if self.probe.aligned {
            0
        } else {
            self.terms.spread(interval)
        };
        let mut group = ThreadGroup::new(control);
        for (place, (recorder, &cpu)) in (0..).zip(recorders.into_iter().zip(&self.terms.cpus)) {
            let worker = Worker {
                recorder,
                cpu,
                kind: self.probe.kind(),
                // A stopped run does no work.
                iterations: iterations.unwrap_or(1),
                interval,
                offset: Duration::from_nanos(spread * place),
                duration: self.terms.duration,
                warm_up: self.terms.warm_up,
                events: self.probe.counters.then_some(counting::HARDWARE),
            };
            group.spawn(
                self.terms.thread("work", cpu),
                move |control| worker.ready(control),
                worker::Loop::run,
            )?;
        }
        group.go();
        Ok(self.measured(iterations, group.join()?))
    }
}

impl Run {
    /// Finds the iterations on the first CPU, for all CPUs, so that they do the same work. Returns
    /// `None` if the run was stopped.
    fn calibrate(&self, control: &Arc<Control>) -> Result<Option<u64>, ProbeError> {
        let Some(&cpu) = self.terms.cpus.first() else {
            return Err(ProbeError::NoCpu { probe: ENTRY.name });
        };
        let (kind, target) = (self.probe.kind(), self.probe.work_time);
        let stopped = Arc::clone(control);
        let iterations = measuring_thread("work/size", &[cpu], self.terms.scheduling)
            .spawn(move || {
                let mut piece = Piece::new(kind)?;
                let time = |iterations| {
                    if stopped.stopping() {
                        // Longer than any target, so that the calibration ends.
                        return Nanos(u64::MAX);
                    }
                    piece.time(iterations)
                };
                Ok::<_, ProbeError>(calibration::iterations_for(target, time))
            })?
            .join()??;
        let shared = || *self.shared.get_or_init(|| iterations);
        Ok((!control.stopping()).then(shared))
    }

    fn measured(&self, iterations: Option<u64>, worked: Vec<Worked>) -> Measured {
        let mut table = table();
        let mut counters = counting::table();
        let mut warnings = BTreeSet::new();
        for (cpu, one) in self.terms.cpus.iter().zip(&worked) {
            let title = format!("CPU {cpu}");
            let size = (self.probe.kind == MEMORY).then_some(self.probe.size);
            table.push([
                Cell::from(title.as_str()),
                self.probe.kind.into(),
                size.into(),
                iterations.into(),
                one.alone.into(),
            ]);
            match &one.counting {
                Counters::Off => {}
                Counters::Unknown(why) => {
                    warnings.insert(format!("hardware counters unknown: {why}"));
                }
                Counters::Open(counting) => {
                    counting.add_to(&mut counters, &title);
                    warnings.extend(counting.warning());
                }
            }
        }
        let mut tables = vec![table];
        tables.extend((!counters.rows.is_empty()).then_some(counters));
        Measured {
            workers: worked.into_iter().map(|one| one.outcome).collect(),
            tables,
            warnings: warnings.into_iter().collect(),
        }
    }
}

fn table() -> Table {
    Table::new(
        "work",
        "Work of each period",
        &[
            ("where", "where"),
            ("kind", "kind"),
            ("size_kb", "kB"),
            ("iterations", "iterations"),
            ("before_ns", "time before the run"),
        ],
    )
}
