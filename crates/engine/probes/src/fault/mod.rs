//! `fault`: the time of the first touch of memory.

mod batch;
mod mechanisms;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use punctual_model::{
    Arguments, Cell, Chart, Delay, Nanos, Parameter, Scheduling, Table, Typed, parameters,
};

use crate::entry::Probe;
use crate::policy::measuring_thread;
use crate::{
    Control, LaneSpec, Measured, Plan, ProbeEntry, ProbeError, Ready, Recorder, Resources,
};
use batch::{Finding, Worker};
use mechanisms::{AFTERS, Choice, MEMORIES, Sizes, Way};

/// The entry of this probe.
pub(crate) const ENTRY: ProbeEntry = ProbeEntry {
    name: "fault",
    summary: "how long the first touch of memory takes, by allocation",
    unit: "ns",
    documentation: "\
One thread on the first of the chosen CPUs. Again and again it maps a batch of \
pages, does to them what the way says (nothing, mlock, MAP_LOCKED, MAP_POPULATE, \
mlockall), writes one byte to each page, and unmaps them. The ways take turns, \
batch by batch, so that all see the same machine; each is a lane of its own.

The latency of a sample is the time from before to after that one write: the page \
fault with all the kernel does in it (find the mapping, take and zero a page or \
look it up in the page cache, charge it, enter it in the page table), and one \
reading of the clock. Where the page is there already, only the reading of the \
clock is left, and a miss of the TLB. Mapping, locking and unmapping are not part \
of it; the table gives the mean time of mapping and locking a batch, which is where \
the cost goes when pages are made to be there beforehand.

The pages that a batch gives back are often those the next one gets, still warm in \
the cache, as in a program that allocates and frees. In a virtual machine a page \
that the host has not given yet costs a fault of the host as well.

Minor and major faults in the table are those of the thread (getrusage, \
RUSAGE_THREAD) between the first and the last touch of each batch, nothing else, \
and warm-up included; they are the counters that /proc/PID/stat shows. A way that \
keeps its promise has 0 faults per touch. Faults of mapping and locking are counted \
apart. The page faults of a lane are neither of these: they are those that the \
measurement took on top, without wanting to.

File pages are those of a memfd, a file in memory, all of it in the page cache and \
mapped shared: minor faults. A major fault waits for a disk, and to provoke one the \
page cache would have to be dropped for all; it is not measured. Of a file on a \
disk, the first write to a page costs the file system's part as well \
(page_mkwrite), also after mlock.

Huge pages are taken from the pool (MAP_HUGETLB) if it has enough; else they are \
asked for by MADV_HUGEPAGE, and the table says how many touches got a whole one. \
Advised pages cannot be had together with MAP_LOCKED, MAP_POPULATE or mlockall, as \
these make the pages be there before anything can be advised: these ways are then \
left out and their rows are empty. The other ways use pages of the usual size only \
(MADV_NOHUGEPAGE).

While measuring, punctual holds its own memory locked with MCL_ONFAULT, under which \
the kernel leaves also MAP_POPULATE and MAP_LOCKED to the first touch. So for each \
batch new mappings are set to be treated as in a process that locks nothing, or for \
the mlockall ways with MCL_FUTURE, and set back after it. MCL_FUTURE alone: it is \
the part of mlockall that concerns new memory.

The thread sleeps after each batch for the interval, and at least for as long as the \
batch took.

Sources: mmap(2), mlock(2), madvise(2), memfd_create(2), getrusage(2), mincore(2), \
Linux mm/gup.c (populate_vma_page_range).",
    privileges: "CAP_IPC_LOCK or RLIMIT_MEMLOCK for the locked ways, vm.nr_hugepages for huge \
                 pages from the pool; ways that are refused are left out and named",
    replaces: "no tool of its own; page-fault tests of lmbench (lat_pagefault)",
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
    // 64 MiB; takes well below 200 ms, the limit for reacting to a stop.
    PAGES: u64 = Typed::count(
        "pages",
        "Pages of a batch, of the usual size",
        1..=16_384,
    ).or("256");
    HUGE_PAGES: u64 = Typed::count(
        "huge-pages",
        "Pages of a batch of huge ones",
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
    scheduling: Scheduling,
    duration: Option<Nanos>,
    warm_up: Nanos,
    choice: Choice,
}

impl Fault {
    fn new(arguments: &Arguments) -> Self {
        Self {
            memory: MEMORY.of(arguments),
            after: AFTER.of(arguments),
            sizes: Sizes {
                pages: PAGES.of(arguments) as usize,
                huge_pages: HUGE_PAGES.of(arguments) as usize,
            },
            interval: INTERVAL.of(arguments),
        }
    }

    fn lane(&self, way: Way, ways: usize, cpu: u32, scheduling: Scheduling) -> LaneSpec {
        let pages = self.sizes.of(way.memory) as u64;
        let round = self.interval.0.saturating_mul(ways as u64).max(1);
        LaneSpec {
            label: Some(way.label()),
            cpu: Some(cpu),
            from_cpu: None,
            scheduling,
            // A batch comes as one burst, so it counts at least as a second's samples.
            rate_hz: (pages.saturating_mul(1_000_000_000) / round).max(pages),
        }
    }
}

impl Probe for Fault {
    fn prepare(self, plan: &Plan, _: &dyn Resources) -> Result<Ready, ProbeError> {
        let unfit = |reason: String| Err(ProbeError::Unfit(reason));
        plan.refuse_deadline(ENTRY.name)?;
        let Some(cpu) = plan.cpus.iter().next() else {
            return Err(ProbeError::NoCpu { probe: ENTRY.name });
        };
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
                "{ways} ways with a pause of {} each take longer than the run of {duration}: \
                 choose fewer with --memory and --after, or a shorter --interval",
                self.interval
            ));
        }
        let lane = |way: &Way| self.lane(*way, ways, cpu, plan.scheduling);
        let lanes: Vec<_> = choice.ways.iter().map(lane).collect();
        let run = Run {
            cpu,
            scheduling: plan.scheduling,
            duration: plan.duration,
            warm_up: plan.warm_up_of(plan.duration),
            choice,
            probe: self,
        };
        Ok(plan.ready(lanes, move |recorders, control| {
            run.measure(recorders, control)
        }))
    }
}

impl Run {
    fn measure(
        self,
        recorders: Vec<Recorder>,
        control: &Arc<Control>,
    ) -> Result<Measured, ProbeError> {
        let worker = Worker {
            ways: self.choice.ways.iter().copied().zip(recorders).collect(),
            sizes: self.probe.sizes,
            interval: self.probe.interval,
            duration: self.duration,
            warm_up: self.warm_up,
            control: Arc::clone(control),
        };
        let measured =
            measuring_thread(&format!("fault/{}", self.cpu), &[self.cpu], self.scheduling)
                .spawn(move || worker.run())?
                .join()??;
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
            lanes: measured.lanes,
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
