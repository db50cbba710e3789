//! `switch`: the cost of a context switch, and of sched_yield.

mod batch;
mod partner;

use std::sync::Arc;
use std::time::Duration;

use punctual_model::{Arguments, Chart, Delay, Nanos, Parameter, Policy, Typed, parameters};
use punctual_rt::{Clock, EchoProcess};

use crate::entry::Measure;
use crate::entry::Probe;
use crate::run::{Terms, end_of};
use crate::thread_group::ThreadGroup;
use crate::{
    Control, Measured, Plan, ProbeEntry, ProbeError, Ready, Recorder, Resources, SelfCost,
    WorkerOutcome, WorkerSpec,
};
use batch::{Batches, Others, SwitchWorker, measure};

/// The entry of this probe.
pub(crate) const ENTRY: ProbeEntry = ProbeEntry {
    name: "switch",
    summary: "cost of a context switch on one CPU, and of sched_yield",
    unit: "ns",
    documentation: include_str!("switch.md").trim_ascii_end(),
    privileges: "CAP_SYS_NICE or RLIMIT_RTPRIO for a real-time policy; without it, sched_yield \
        may not switch",
    replaces: "lat_ctx (lmbench), perf bench sched pipe",
    chart: Chart::Bars,
    explained: Ok(Delay::Call),
    parameters: PARAMETERS,
    prepare: |arguments, plan, resources| Switch::new(arguments).prepare(plan, resources),
};

parameters! {
    WAY: &'static str = Typed::choice(
        "way",
        "Cause of the switch",
        &[
            ("all", "all of these, one batch after the other"),
            ("alone", "sched_yield with no other runnable thread of the same priority"),
            ("yield", "sched_yield to a thread of the same priority"),
            ("pipe", "a message to a thread that waits for it"),
            ("process", "a message to a process that waits for it"),
        ],
    ).or("all");
    // For half of this interval, nothing else may be able to run on the CPUs.
    INTERVAL: Nanos = Typed::duration(
        Parameter::INTERVAL,
        "Time from the start of one batch to the next; at most half is used",
        Nanos::from_millis(1)..=Nanos::from_millis(200),
    ).short('i').or("10ms");
    BATCH: u64 = Typed::count(
        "batch",
        "Switches in one batch",
        1..=100_000,
    ).or("100");
}

/// The clock of the batches and of the samples.
const CLOCK: Clock = Clock::Monotonic;

/// The mechanism of the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Alone,
    Yield,
    Pipe,
    Process,
}

impl Way {
    const ALL: [Self; 4] = [Self::Alone, Self::Yield, Self::Pipe, Self::Process];

    const fn word(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Yield => "yield",
            Self::Pipe => "pipe",
            Self::Process => "process",
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Alone => "yield alone",
            Self::Yield => "yield to thread",
            Self::Pipe => "pipe to thread",
            Self::Process => "pipe to process",
        }
    }
}

#[derive(Debug)]
struct Switch {
    ways: Vec<Way>,
    interval: Nanos,
    batch: u64,
}

/// A probe that is ready to start.
struct Run {
    probe: Switch,
    terms: Terms,
    /// One for each CPU, if the mechanisms need it.
    processes: Vec<EchoProcess>,
}

impl Switch {
    fn new(arguments: &Arguments) -> Self {
        let word = WAY.value_in(arguments);
        Self {
            ways: Way::ALL
                .into_iter()
                .filter(|way| word == "all" || way.word() == word)
                .collect(),
            interval: INTERVAL.value_in(arguments),
            batch: BATCH.value_in(arguments),
        }
    }

    fn worker(&self, way: Way, cpu: u32, plan: &Plan) -> WorkerSpec {
        let batches = self.interval.0.saturating_mul(self.ways.len() as u64);
        let rate_hz = (1_000_000_000_u64.saturating_mul(self.batch)).div_ceil(batches.max(1));
        plan.worker(Some(format!("{}, CPU {cpu}", way.label())), cpu, rate_hz)
    }
}

impl Probe for Switch {
    fn prepare(self, plan: &Plan, _: &dyn Resources) -> Result<Ready, ProbeError> {
        if plan.scheduling.policy == Policy::Deadline {
            return Err(ProbeError::Unfit(
                "switches are measured between threads of equal priority, and deadline threads \
                 have no priority: use fifo, rr or other"
                    .to_owned(),
            ));
        }
        let round = Nanos(self.interval.0 * self.ways.len() as u64);
        if let Some(duration) = plan.duration
            && duration < round
        {
            return Err(ProbeError::Unfit(format!(
                "one batch for each --way takes {round}, which is longer than the run of \
                 {duration}: change --interval, --way or --duration"
            )));
        }
        let workers = plan.cpus.iter().flat_map(|cpu| {
            let worker = |way: &Way| self.worker(*way, cpu, plan);
            self.ways.iter().map(worker).collect::<Vec<_>>()
        });
        let workers: Vec<_> = workers.collect();
        let needs_processes = self.ways.contains(&Way::Process);
        let terms = Terms::from_plan(plan);
        // Start the processes before the workers are opened, because a later fork would cost a
        // fault for each page of the workers.
        let processes = terms.cpus.iter().filter(|_| needs_processes);
        let processes = processes.map(|_| EchoProcess::start());
        let run = Run {
            processes: processes.collect::<Result<_, _>>()?,
            terms,
            probe: self,
        };
        Ok(plan.ready(workers, run))
    }
}

impl Measure for Run {
    fn measure(
        mut self,
        recorders: Vec<Recorder>,
        control: &Arc<Control>,
    ) -> Result<Measured, ProbeError> {
        let Terms {
            scheduling,
            duration,
            ..
        } = self.terms;
        let mut recorders = recorders.into_iter();
        let mut group = ThreadGroup::new(control);
        let Switch {
            ways,
            interval,
            batch,
        } = self.probe;
        let spread = self.terms.spread(interval);
        for (place, &cpu) in self.terms.cpus.iter().enumerate() {
            let ways = ways.clone();
            let workers: Vec<Recorder> = recorders.by_ref().take(ways.len()).collect();
            let offset = Duration::from_nanos(spread * place as u64);
            let process = self.processes.pop();
            group.spawn(
                self.terms.thread("switch", cpu),
                move |_| {
                    let others = Others::start(&ways, cpu, scheduling, process)?;
                    Ok((ways, others, SelfCost::measure(CLOCK)))
                },
                move |(ways, others, cost), control, start| {
                    let first = Nanos((start + offset).as_nanos());
                    let batches = Batches {
                        first,
                        end: end_of(first, duration),
                        interval,
                        size: batch,
                    };
                    let workers = ways
                        .into_iter()
                        .zip(workers)
                        .map(SwitchWorker::new)
                        .collect();
                    measure(workers, others, batches, cost, control)
                },
            )?;
        }
        group.go();
        let workers: Vec<WorkerOutcome> = group.join()?.into_iter().flatten().collect();
        let ways = ways.iter().cycle();
        let stayed: u64 = workers
            .iter()
            .zip(ways)
            .filter(|(_, way)| **way == Way::Yield)
            .map(|(worker, _)| worker.accounting.missed)
            .sum();
        let mut warnings = Vec::new();
        if stayed > 0 && !scheduling.policy.is_real_time() {
            warnings.push(format!(
                "{stayed} yields did not switch to the other thread: with policy {}, sched_yield \
                 is not required to switch (see sched_yield(2))",
                scheduling.policy
            ));
        }
        Ok(Measured {
            workers,
            tables: Vec::new(),
            warnings,
        })
    }
}

#[cfg(test)]
mod tests;
