//! The kernel's own timers, those of the tracer timerlat, as a source.

mod rows;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use punctual_host::Host;
use punctual_model::{CpuSet, Nanos, Scheduling, TaskUsage, ThreadUsage, TimerlatContext};

use super::CLOCK;
use crate::kernel_thread::{settle, since, usage_of};
use crate::monotonic::now;
use crate::policy::measuring_thread;
use crate::thread_group::ThreadGroup;
use crate::{
    Control, Measured, NoisePlan, NoiseTracer, ProbeError, Recorder, SelfCost, TracerError,
    WorkerOutcome, WorkerSpec,
};
use rows::{CpuRows, Row, table};

/// The tracer, and its name among the sources.
pub(super) const TIMERLAT: &str = "timerlat";

/// Interval at which the samples are fetched. It is short, because an outlier must be explained
/// within 50 ms.
const FETCH: Duration = Duration::from_millis(10);

/// How long after the end of the run the last samples may still arrive.
const GRACE: Nanos = Nanos::from_millis(500);

/// The contexts measured on each CPU, with the names of their rows.
const CONTEXTS: [(TimerlatContext, &str); 3] = [
    (TimerlatContext::Irq, "interrupt"),
    (TimerlatContext::Thread, "thread"),
    (TimerlatContext::User, "user space"),
];

/// Returns the contexts of a run. The last is the context of the thread that is explained.
fn contexts(user: bool) -> &'static [(TimerlatContext, &'static str)] {
    if user { &CONTEXTS } else { &CONTEXTS[..2] }
}

/// Returns the rows of each CPU, in the order of the CPUs.
pub(super) fn workers(
    cpus: &CpuSet,
    user: bool,
    scheduling: Scheduling,
    rate_hz: u64,
) -> Vec<WorkerSpec> {
    let worker = |cpu: u32, name: &str| WorkerSpec {
        label: Some(format!("CPU {cpu}, {name}")),
        cpu: Some(cpu),
        from_cpu: None,
        scheduling,
        rate_hz,
    };
    cpus.iter()
        .flat_map(|cpu| {
            contexts(user)
                .iter()
                .map(move |(_, name)| worker(cpu, name))
        })
        .collect()
}

/// A run that is ready to start.
pub(super) struct Timerlat {
    pub(super) tracer: Arc<dyn NoiseTracer>,
    pub(super) cpus: Vec<u32>,
    pub(super) period: Nanos,
    pub(super) duration: Option<Nanos>,
    pub(super) warm_up: Nanos,
    pub(super) user: bool,
    pub(super) scheduling: Scheduling,
    /// Whether the rows of user space are missing even though the user did not decline them.
    pub(super) missing_user: bool,
}

fn failed(why: TracerError) -> ProbeError {
    ProbeError::Noise {
        tracer: TIMERLAT,
        why,
    }
}

impl Timerlat {
    /// Returns the settings of the tracer.
    pub(super) fn plan(&self) -> NoisePlan {
        NoisePlan::Timerlat {
            cpus: self.cpus.iter().copied().collect(),
            period: self.period,
            user: self.user,
        }
    }

    pub(super) fn run(
        self,
        recorders: Vec<Recorder>,
        control: &Arc<Control>,
    ) -> Result<Measured, ProbeError> {
        let cost = SelfCost::measure(CLOCK);
        self.tracer.start(&self.plan()).map_err(failed)?;
        // Take the time only now, because starting the tracer may take a while.
        let start = now();
        // The user-space threads must always end before the tracer, even at the end of the run.
        // Their separate control does not stop the whole run.
        let own = Arc::new(Control::new());
        let mut group = ThreadGroup::new(&own);
        if self.user {
            self.spawn_member(&mut group)?;
            group.go();
        }
        let mut follower = Follower::new(&self, recorders);
        let followed = follower.follow(&self, start, || control.stopping() || own.stopping());
        // Read the usage of the threads while they still exist.
        follower.count_used(&self);
        own.stop();
        group.join()?;
        let whole = followed?;
        // Also fetch the samples that arrived while the threads were ending.
        if !whole {
            follower.fetch(&self)?;
        }
        let mut measured = follower.measured(whole && !control.stopping(), start, cost);
        if self.missing_user {
            measured.warnings.push(
                "timerlat of this kernel cannot wake user-space threads (since Linux 6.5), so \
                 there is no row for user space"
                    .to_owned(),
            );
        }
        Ok(measured)
    }

    /// Starts a user-space thread on each CPU. The thread waits for its timer in a loop.
    fn spawn_member(&self, group: &mut ThreadGroup<()>) -> Result<(), ProbeError> {
        for &cpu in &self.cpus {
            let tracer = Arc::clone(&self.tracer);
            let builder = measuring_thread(&format!("timerlatu/{cpu}"), &[cpu], self.scheduling);
            group.spawn(
                builder,
                move |_| tracer.user_wait(cpu).map_err(failed),
                |mut timer, control, _| {
                    while !control.stopping() {
                        timer.wait().map_err(failed)?;
                    }
                    Ok(())
                },
            )?;
        }
        Ok(())
    }
}

/// Fetches the samples and adds each to its row.
struct Follower {
    host: Host,
    cpus: Vec<CpuRows>,
    /// The usage of each thread at the end of its warm-up, by CPU.
    used: BTreeMap<u32, TaskUsage>,
    /// The usage of each thread from then to the end.
    usage: BTreeMap<u32, ThreadUsage>,
    settled: BTreeMap<u32, Option<String>>,
    /// Number of records that were overwritten before they were read, by CPU.
    lost: BTreeMap<u32, u64>,
    /// All records written before this time have been read.
    read_until: Nanos,
    warnings: Vec<String>,
}

impl Follower {
    fn new(run: &Timerlat, recorders: Vec<Recorder>) -> Self {
        let contexts = contexts(run.user);
        let last = contexts.len() - 1;
        let mut recorders = recorders.into_iter();
        let rows = |cpu: &u32| {
            let own = (0..).zip(contexts).zip(recorders.by_ref());
            let rows = own.map(|((place, (context, _)), recorder)| {
                Row::new(*context, place == last, recorder)
            });
            CpuRows::new(*cpu, run.period, run.duration, rows.collect())
        };
        Self {
            host: Host::live(),
            cpus: run.cpus.iter().map(rows).collect(),
            used: BTreeMap::new(),
            usage: BTreeMap::new(),
            settled: BTreeMap::new(),
            lost: BTreeMap::new(),
            read_until: Nanos::ZERO,
            warnings: Vec::new(),
        }
    }

    /// Fetches samples until the end, or until `stopped`; returns whether it reached the end.
    fn follow(
        &mut self,
        run: &Timerlat,
        start: Nanos,
        stopped: impl Fn() -> bool,
    ) -> Result<bool, ProbeError> {
        let latest = run.duration.map(|duration| start + duration + GRACE);
        loop {
            // Check this before the fetch, so that no sample is lost.
            let (stop, over) = (stopped(), latest.is_some_and(|latest| now() >= latest));
            self.fetch(run)?;
            if stop {
                return Ok(false);
            }
            if over || self.cpus.iter().all(CpuRows::over) {
                return Ok(true);
            }
            self.look_after(run);
            thread::sleep(FETCH);
        }
    }

    fn fetch(&mut self, run: &Timerlat) -> Result<(), ProbeError> {
        self.read_until = now();
        let reports = run.tracer.take().map_err(failed)?;
        for sample in &reports.timerlat {
            if let Some(rows) = self.cpus.iter_mut().find(|rows| rows.cpu == sample.cpu) {
                rows.take(sample);
            }
        }
        for (cpu, lost) in reports.lost {
            *self.lost.entry(cpu).or_default() += lost;
        }
        Ok(())
    }

    /// Sets each thread's policy, once the thread is known, and reads its usage at the end of its
    /// warm-up.
    fn look_after(&mut self, run: &Timerlat) {
        let now = now();
        let Self {
            host,
            cpus,
            used,
            settled,
            warnings,
            ..
        } = self;
        for rows in cpus {
            let (cpu, Some(tid)) = (rows.cpu, rows.tid) else {
                continue;
            };
            settled.entry(cpu).or_insert_with(|| {
                let found = settle(tid, run.scheduling);
                if let Err(error) = &found {
                    warnings.push(format!(
                        "the thread {tid}, which the kernel's timer on CPU {cpu} wakes, does not \
                         have the requested policy: {error}"
                    ));
                }
                found.ok()
            });
            let warm = rows.began().is_some_and(|began| now >= began + run.warm_up);
            if warm && let std::collections::btree_map::Entry::Vacant(free) = used.entry(cpu) {
                free.insert(usage_of(host, process(run, tid), tid).unwrap_or_default());
            }
        }
    }

    /// Computes the usage of each thread since its warm-up.
    fn count_used(&mut self, run: &Timerlat) {
        for rows in &self.cpus {
            let usage = rows.tid.and_then(|tid| {
                let now = usage_of(&self.host, process(run, tid), tid)?;
                Some(since(self.used.get(&rows.cpu)?, &now))
            });
            self.usage.extend(usage.map(|usage| (rows.cpu, usage)));
        }
    }

    fn measured(mut self, whole: bool, start: Nanos, cost: SelfCost) -> Measured {
        let mut table = table();
        let mut workers = Vec::new();
        for rows in std::mem::take(&mut self.cpus) {
            let (cpu, tid) = (rows.cpu, rows.tid);
            rows.push_to(&mut table, self.settled.get(&cpu).cloned().flatten());
            if tid.is_none() {
                self.warnings.push(format!(
                    "the kernel's tracer recorded no sample for CPU {cpu}"
                ));
            }
            let usage = self.usage.get(&cpu).copied();
            let until = (!self.lost.contains_key(&cpu)).then_some(self.read_until);
            let mut outcomes: Vec<WorkerOutcome> = rows.finish(whole, start, until, cost);
            // Only the last worker gets the usage. The other workers belong to no thread or to the
            // same thread.
            if let (Some(usage), Some(own)) = (usage, outcomes.last_mut()) {
                own.usage = usage;
            }
            workers.extend(outcomes);
        }
        let lost: u64 = self.lost.values().sum();
        if lost > 0 {
            self.warnings.push(format!(
                "{lost} records of the kernel's tracer were overwritten before they were read; the \
                 periods without a sample are counted as missed"
            ));
        }
        Measured {
            workers,
            tables: vec![table],
            warnings: self.warnings,
        }
    }
}

/// Returns the process of the thread that a timer wakes.
fn process(run: &Timerlat, tid: u32) -> u32 {
    if run.user { std::process::id() } else { tid }
}

#[cfg(test)]
mod tests;
