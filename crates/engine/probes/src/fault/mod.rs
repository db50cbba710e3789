//! `fault`: the time of the first touch of memory.

mod batch;
mod mechanisms;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use punctual_model::{Arguments, Cell, Chart, Delay, Nanos, Parameter, Table, Typed, parameters};

use crate::entry::Measure;
use crate::entry::Probe;
use crate::run::Terms;
use crate::{
    Control, Measured, Plan, ProbeEntry, ProbeError, Ready, Recorder, Resources, WorkerSpec,
};
use batch::{Finding, Worker};
use mechanisms::{AFTERS, Choice, MEMORIES, Sizes, Way};

/// The entry of this probe.
pub(crate) const ENTRY: ProbeEntry = ProbeEntry {
    name: "fault",
    summary: "how long the first touch of memory takes, by allocation",
    unit: "ns",
    documentation: include_str!("fault.md").trim_ascii_end(),
    privileges: "CAP_IPC_LOCK or RLIMIT_MEMLOCK for the methods that lock memory, vm.nr_hugepages \
                 for huge pages from the pool; refused methods are skipped and listed",
    replaces: "no dedicated tool; page-fault tests of lmbench (lat_pagefault)",
    chart: Chart::Bars,
    explained: Ok(Delay::Step),
    parameters: PARAMETERS,
    prepare: |arguments, plan, resources| Fault::new(arguments).prepare(plan, resources),
};

parameters! {
    MEMORY: &'static str = Typed::choice(
        "memory",
        "What is behind the pages",
        MEMORIES,
    ).or("all");
    AFTER: &'static str = Typed::choice(
        "after",
        "What is done before the first touch",
        AFTERS,
    ).or("all");
    // The maximum is 64 MiB. Touching this much takes well below 200 ms, the limit for reacting to
    // a stop.
    PAGES: u64 = Typed::count(
        "pages",
        "Pages of a batch, of the regular size",
        1..=16_384,
    ).or("256");
    HUGE_PAGES: u64 = Typed::count(
        "huge-pages",
        "Number of pages in a batch of huge pages",
        1..=32,
    ).or("4");
    INTERVAL: Nanos = Typed::duration(
        Parameter::INTERVAL,
        "Pause after a batch",
        Nanos::from_millis(1)..=Nanos::from_secs(10),
    ).short('i').or("10ms");
}

#[derive(Debug)]
struct Fault {
    memory: &'static str,
    after: &'static str,
    sizes: Sizes,
    interval: Nanos,
}

/// A probe that is ready to start.
struct Run {
    probe: Fault,
    cpu: u32,
    terms: Terms,
    choice: Choice,
}

impl Fault {
    fn new(arguments: &Arguments) -> Self {
        Self {
            memory: MEMORY.value_in(arguments),
            after: AFTER.value_in(arguments),
            sizes: Sizes {
                pages: PAGES.value_in(arguments) as usize,
                huge_pages: HUGE_PAGES.value_in(arguments) as usize,
            },
            interval: INTERVAL.value_in(arguments),
        }
    }

    fn worker(&self, way: Way, ways: usize, cpu: u32, plan: &Plan) -> WorkerSpec {
        let pages = self.sizes.bytes_for(way.memory) as u64;
        let round = self.interval.0.saturating_mul(ways as u64).max(1);
        // The samples of a batch arrive in one burst, so the ring must have room for at least one
        // batch per second.
        let rate_hz = (pages.saturating_mul(1_000_000_000) / round).max(pages);
        plan.worker(Some(way.label()), cpu, rate_hz)
    }
}

impl Probe for Fault {
    fn prepare(self, plan: &Plan, _: &dyn Resources) -> Result<Ready, ProbeError> {
        let unfit = |reason: String| Err(ProbeError::Unfit(reason));
        plan.refuse_deadline(ENTRY.name)?;
        let cpu = plan.first_cpu(ENTRY.name)?;
        let choice = Choice::make(self.memory, self.after, self.sizes);
        let ways = choice.ways.len();
        if ways == 0 {
            return unfit(format!(
                "nothing is left to measure: {}",
                choice.warnings.join("; ")
            ));
        }
        let round = Nanos(self.interval.0.saturating_mul(ways as u64));
        if let Some(duration) = plan.duration
            && round > duration
        {
            return unfit(format!(
                "{ways} methods with a pause of {} after each take longer than the run of \
                 {duration}: choose fewer with --memory and --after, or a shorter --interval",
                self.interval
            ));
        }
        let worker = |way: &Way| self.worker(*way, ways, cpu, plan);
        let workers: Vec<_> = choice.ways.iter().map(worker).collect();
        let run = Run {
            cpu,
            terms: Terms::from_plan(plan),
            choice,
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
        let worker = Worker {
            ways: self.choice.ways.iter().copied().zip(recorders).collect(),
            sizes: self.probe.sizes,
            interval: self.probe.interval,
            duration: self.terms.duration,
            warm_up: self.terms.warm_up,
            control: Arc::clone(control),
        };
        let thread = self.terms.thread("fault", self.cpu);
        let measured = thread.spawn(move || worker.run())?.join()??;
        let mut table = table();
        for (way, finding) in self.choice.ways.iter().zip(&measured.findings) {
            table.push(row(*way, finding));
        }
        for (way, _) in &self.choice.left_out {
            table.push([way.label().into(), Cell::from(way.memory.pages())]);
        }
        let mut warnings = self.choice.warnings;
        warnings.extend(measured.warnings);
        Ok(Measured {
            workers: measured.workers,
            tables: vec![table],
            warnings,
        })
    }
}

fn table() -> Table {
    Table::new(
        "faults",
        "Page faults of the first touch",
        &[
            ("way", "way"),
            ("pages", "pages"),
            ("touches", "touches"),
            ("faults_minor", "minor faults"),
            ("faults_major", "major faults"),
            ("faults_per_touch", "per touch"),
            ("whole_huge_pages", "whole huge pages"),
            ("batches", "batches"),
            ("ahead_mean_ns", "mapping a batch"),
            ("ahead_faults_per_batch", "faults of mapping"),
        ],
    )
}

fn row(way: Way, finding: &Finding) -> [Cell; 10] {
    let mean = |sum: u64, count: u64| (count > 0).then(|| sum as f64 / count as f64);
    let ahead = (finding.batches > 0).then(|| finding.ahead.0 / finding.batches.max(1));
    [
        way.label().into(),
        way.memory.pages().into(),
        finding.touches.into(),
        finding.minor.into(),
        finding.major.into(),
        mean(finding.minor + finding.major, finding.touches).into(),
        finding.whole.into(),
        finding.batches.into(),
        ahead.into(),
        mean(finding.ahead_minor + finding.ahead_major, finding.batches).into(),
    ]
}
