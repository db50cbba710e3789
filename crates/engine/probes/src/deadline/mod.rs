//! `deadline`: cycles of SCHED_DEADLINE threads.

mod due_times;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use punctual_host::Host;
use punctual_model::{
    Arguments, Cell, Chart, CpuSet, Delay, Nanos, Policy, Scheduling, Table, Typed, parameters,
};
use punctual_rt::{Clock, ThreadBuilder};

use crate::entry::Probe;
use crate::policy::STACK_PREFAULT;
use crate::thread_group::ThreadGroup;
use crate::{
    Control, Measured, Plan, ProbeEntry, ProbeError, Ready, Recorder, Resources, SelfCost,
    WorkerSpec,
};
use worker::{Found, Worker};

/// The entry of this probe.
pub(crate) const ENTRY: ProbeEntry = ProbeEntry {
    name: "deadline",
    summary: "how late a SCHED_DEADLINE thread's period begins, and runtime overruns",
    unit: "ns",
    documentation: include_str!("deadline.md").trim_ascii_end(),
    privileges: "CAP_SYS_NICE (a resource limit is not sufficient)",
    replaces: "cyclicdeadline",
    chart: Chart::Latency,
    explained: Ok(Delay::Timer),
    parameters: PARAMETERS,
    prepare: |arguments, plan, resources| Deadline::new(arguments).prepare(plan, resources),
};

/// The kernel's maximum period, sched_dl_period_max_us: 2^22 us.
const LONGEST: Nanos = Nanos::from_micros(1 << 22);

parameters! {
    // The kernel's minimum, sched_dl_period_min_us.
    PERIOD: Nanos = Typed::duration(
        "period",
        "Length of a period",
        Nanos::from_micros(100)..=LONGEST,
    ).or("1ms");
    RUNTIME: Nanos = Typed::duration(
        "runtime",
        "CPU time reserved in each period",
        Nanos::from_micros(10)..=LONGEST,
    ).or("100us");
    DEADLINE: Option<Nanos> = Typed::duration(
        "deadline",
        "Deadline, from the start of the period [default: the period]",
        Nanos::from_micros(10)..=LONGEST,
    );
    WORK: Nanos = Typed::duration(
        "work",
        "CPU time to use in each period; if it exceeds the runtime, the kernel throttles the \
         thread",
        Nanos::ZERO..=LONGEST,
    ).or("0s");
    THREADS: u64 = Typed::count(
        "threads",
        "Number of threads, all with the same times",
        1..=256,
    ).or("1");
    DISTANCE: Nanos = Typed::duration(
        "distance",
        "Increase of the period for each further thread; runtime and deadline grow proportionally",
        Nanos::ZERO..=LONGEST,
    ).or("0s").of_older_tools();
    WAIT: &'static str = Typed::choice(
        "wait",
        "How the thread waits for its next period",
        &[
            ("yield", "sched_yield, which ends the period"),
            ("nanosleep", "clock_nanosleep to an absolute time"),
        ],
    ).or("yield");
}

/// The clock for start and end times.
const CLOCK: Clock = Clock::Monotonic;

#[derive(Clone, Copy, Debug)]
struct Times {
    runtime: Nanos,
    deadline: Nanos,
    period: Nanos,
    work: Nanos,
}

#[derive(Debug)]
struct Deadline {
    times: Times,
    threads: u64,
    distance: Nanos,
    yields: bool,
}

/// The length of a run.
#[derive(Clone, Copy, Debug)]
struct Length {
    duration: Option<Nanos>,
    warm_up: Nanos,
}

impl Deadline {
    fn new(arguments: &Arguments) -> Self {
        let period = PERIOD.value_in(arguments);
        Self {
            times: Times {
                runtime: RUNTIME.value_in(arguments),
                deadline: DEADLINE.value_in(arguments).unwrap_or(period),
                period,
                work: WORK.value_in(arguments),
            },
            threads: THREADS.value_in(arguments),
            distance: DISTANCE.value_in(arguments),
            yields: WAIT.value_in(arguments) == "yield",
        }
    }

    /// Returns the deadline parameters of a thread by its number, counted from one.
    fn times_of(&self, number: u64) -> Times {
        let more = self.distance.0.saturating_mul(number - 1);
        let period = Nanos(self.times.period.0.saturating_add(more));
        let in_proportion = |time: Nanos| {
            let whole = u128::from(time.0) * u128::from(period.0);
            let whole = whole / u128::from(self.times.period.0.max(1));
            Nanos(u64::try_from(whole).unwrap_or(u64::MAX))
        };
        Times {
            runtime: in_proportion(self.times.runtime),
            deadline: in_proportion(self.times.deadline),
            period,
            work: self.times.work,
        }
    }

    fn policy(&self, number: u64) -> punctual_rt::Policy {
        let Times {
            runtime,
            deadline,
            period,
            ..
        } = self.times_of(number);
        let time = |nanos: Nanos| Duration::from_nanos(nanos.0);
        punctual_rt::Policy::Deadline {
            runtime: time(runtime),
            deadline: time(deadline),
            period: time(period),
        }
    }

    fn builder(&self, number: u64) -> ThreadBuilder {
        ThreadBuilder::new(&format!("deadline/{number}"))
            .policy(self.policy(number))
            .prefault_stack(STACK_PREFAULT)
    }

    /// Checks that the kernel admits all threads at once. Only an actual attempt shows whether
    /// bandwidth, privileges and affinity are sufficient.
    fn try_out(&self) -> Result<(), ProbeError> {
        let mut group = ThreadGroup::new(&Arc::new(Control::new()));
        for number in 1..=self.threads {
            group
                .spawn(self.builder(number), |_| Ok(()), |(), _, _| Ok(()))
                .map_err(|error| refused(error, number, self.threads))?;
        }
        group.go();
        group.join().map(drop)
    }
}

/// Adds the number of the rejected thread to the kernel's error, if there are several.
fn refused(error: ProbeError, number: u64, threads: u64) -> ProbeError {
    match error {
        ProbeError::System(error) if number > 1 => ProbeError::Unfit(format!(
            "thread {number} of {threads} was not admitted, but the threads before it were: {error}"
        )),
        error => error,
    }
}

/// Checks the CPUs, because the kernel admits a deadline thread only if it may run on all CPUs of
/// its root domain.
fn check_cpus(asked: &CpuSet, allowed: &CpuSet) -> Result<(), ProbeError> {
    let left_out = allowed.difference(asked);
    if left_out.is_empty() {
        return Ok(());
    }
    Err(ProbeError::Unfit(format!(
        "a deadline thread cannot be bound to CPU {asked} alone: the kernel admits it only if it \
         may run on all CPUs of its root domain, including {left_out}. Measure on all CPUs (omit \
         --cpus), or create an exclusive cpuset (a cgroup with cpuset.cpus = {asked} and \
         cpuset.cpus.partition = root) and run punctual in it"
    )))
}

impl Probe for Deadline {
    fn prepare(self, plan: &Plan, _: &dyn Resources) -> Result<Ready, ProbeError> {
        let host = Host::live();
        // If the CPUs cannot be read, rely on the kernel's answer.
        if let (Ok(allowed), Ok(online)) = (host.allowed(), host.online()) {
            check_cpus(&plan.cpus, &allowed.intersection(&online))?;
        }
        if self.times.work > self.times.period {
            return Err(ProbeError::Unfit(format!(
                "--work {} is longer than the period of {}",
                self.times.work, self.times.period
            )));
        }
        let longest = self.times_of(self.threads).period;
        if let Some(duration) = plan.duration
            && duration < longest
            && !plan.may_be_empty
        {
            return Err(ProbeError::IntervalTooLong {
                interval: longest,
                duration,
            });
        }
        self.try_out()?;
        let workers: Vec<WorkerSpec> = (1..=self.threads)
            .map(|number| WorkerSpec {
                label: Some(format!("thread {number}")),
                cpu: None,
                from_cpu: None,
                scheduling: Scheduling {
                    policy: Policy::Deadline,
                    priority: 0,
                },
                rate_hz: 1_000_000_000_u64.div_ceil(self.times_of(number).period.0),
            })
            .collect();
        let length = Length {
            duration: plan.duration,
            warm_up: plan.warm_up_of(plan.duration),
        };
        let run = move |recorders, control: &Arc<Control>| self.measure(length, recorders, control);
        Ok(plan.ready(workers, run))
    }
}

impl Deadline {
    fn measure(
        &self,
        length: Length,
        recorders: Vec<Recorder>,
        control: &Arc<Control>,
    ) -> Result<Measured, ProbeError> {
        let mut group = ThreadGroup::new(control);
        let (yields, threads) = (self.yields, self.threads);
        for (number, recorder) in (1..).zip(recorders) {
            let times = self.times_of(number);
            group
                .spawn(
                    self.builder(number),
                    move |_| {
                        let worker = Worker::new(recorder, times, length);
                        Ok((worker, SelfCost::measure(CLOCK)))
                    },
                    move |(worker, cost), control, start| worker.run(yields, start, cost, control),
                )
                .map_err(|error| refused(error, number, threads))?;
        }
        group.go();
        Ok(measured(group.join()?))
    }
}

/// Returns the results of the workers, and the table of the threads.
fn measured(found: Vec<Found>) -> Measured {
    let mut table = Table::new(
        "periods",
        "Periods of the deadline threads, after the warm-up",
        &[
            ("thread", "thread"),
            ("periods", "periods worked"),
            ("overruns", "runtime overruns"),
            ("most_cpu_ns", "most CPU time"),
            ("deadlines_missed", "deadlines missed"),
            ("longest_ns", "longest to the end"),
            ("begun_anew", "periods begun anew"),
        ],
    );
    let mut workers = Vec::with_capacity(found.len());
    for (number, Found { worker, tally }) in (1_u64..).zip(found) {
        table.push([
            Cell::from(number),
            tally.periods.into(),
            tally.overruns.into(),
            tally.most_cpu.into(),
            tally.deadlines_missed.into(),
            tally.longest.into(),
            tally.begun_anew.into(),
        ]);
        workers.push(worker);
    }
    Measured {
        workers,
        tables: vec![table],
        warnings: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
