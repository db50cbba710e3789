//! The kernel's own spinning threads, those of the tracer osnoise, as a source.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use punctual_host::Host;
use punctual_model::{
    Cell, Histogram, Nanos, NoiseGap, NoiseReports, OsnoiseSample, SignedNanos, Table, TaskKind,
    TaskUsage,
};
use punctual_rt::Tid;

use super::parameters::OSNOISE;
use super::{CLOCK, HardwarePlan};
use crate::kernel_thread::{settle, since, usage_of};
use crate::monotonic::now;
use crate::{
    Control, Measured, NoisePlan, NoiseTracer, ProbeError, Recorder, SelfCost, TracerError,
};

/// Interval at which the reports are fetched.
const FETCH: Duration = Duration::from_millis(50);

/// A run that is ready to start.
pub(super) struct Osnoise {
    pub(super) tracer: Arc<dyn NoiseTracer>,
    pub(super) plan: HardwarePlan,
}

/// Rounds to whole microseconds, the kernel's unit.
const fn whole(time: Nanos) -> Nanos {
    Nanos::from_micros(time.whole_micros())
}

fn failed(why: TracerError) -> ProbeError {
    ProbeError::Noise {
        tracer: OSNOISE,
        why,
    }
}

impl Osnoise {
    /// Returns the settings of the tracer.
    pub(super) fn ask(&self) -> NoisePlan {
        NoisePlan::Osnoise {
            cpus: self.plan.cpus.iter().copied().collect(),
            period: whole(self.plan.duty.window),
            runtime: whole(self.plan.duty.width),
            threshold: whole(self.plan.noise_threshold),
            report_above: self.plan.threshold,
            interrupts: !self.plan.no_interrupts,
        }
    }

    pub(super) fn run(
        self,
        recorders: Vec<Recorder>,
        control: &Control,
    ) -> Result<Measured, ProbeError> {
        let cost = SelfCost::measure(CLOCK);
        self.tracer.start(&self.ask()).map_err(failed)?;
        // Take the time only now, because starting the tracer may take a while.
        let start = now();
        let mut warnings = Vec::new();
        let threads = self.threads(&mut warnings);
        let times = (whole(self.plan.duty.window), self.plan.warm_up);
        let rows = self.plan.cpus.iter().zip(recorders);
        let mut rows: Vec<Row> = rows
            .map(|(&cpu, recorder)| Row::new(cpu, times, threads.get(&cpu), recorder))
            .collect();
        let end = self.plan.duration.map(|duration| start + duration);
        let host = Host::live();
        loop {
            // Check this before the fetch, so that no report is lost.
            let (stop, over) = (control.stopping(), end.is_some_and(|end| now() >= end));
            let reports = self.tracer.take().map_err(failed)?;
            for row in &mut rows {
                row.take(&reports, end, self.plan.threshold);
                row.count_from_here(&host);
            }
            if stop || over {
                let whole = end.filter(|_| over && !stop);
                return Ok(measured(rows, (start, whole), cost, &host, warnings));
            }
            thread::sleep(FETCH);
        }
    }

    /// Sets the requested policy of the kernel's threads, and returns each thread with the policy
    /// that it then has.
    fn threads(&self, warnings: &mut Vec<String>) -> BTreeMap<u32, Thread> {
        let tasks = Host::live().tasks().into_iter();
        let of_cpu = |comm: &str| {
            let number = comm.strip_prefix("osnoise/")?;
            number.parse::<u32>().ok()
        };
        let mut threads = BTreeMap::new();
        for task in tasks.filter(|task| task.kind == TaskKind::Kernel) {
            let Some(cpu) = of_cpu(&task.comm) else {
                continue;
            };
            let found = settle(task.tid, self.plan.scheduling);
            if let Err(error) = &found {
                warnings.push(format!(
                    "the kernel's thread {} does not have the requested policy: {error}",
                    task.comm
                ));
            }
            let tid = task.tid;
            let scheduling = found.ok();
            threads.insert(cpu, Thread { tid, scheduling });
        }
        threads
    }
}

#[derive(Clone, Debug)]
struct Thread {
    tid: u32,
    scheduling: Option<String>,
}

/// Gaps of one kind, above the threshold.
#[derive(Clone, Copy, Debug, Default)]
struct Above {
    count: u64,
    total: Nanos,
    longest: Nanos,
}

impl Above {
    fn add(&mut self, gap: &NoiseGap) {
        self.count += 1;
        self.total = Nanos(self.total.0.saturating_add(gap.duration.0));
        self.longest = self.longest.max(gap.duration);
    }
}

/// The windows of one CPU.
struct Row {
    cpu: u32,
    window: Nanos,
    warm_up: Nanos,
    /// The end of the warm-up, once the CPU's windows have started.
    counted_from: Option<Nanos>,
    thread: Option<Thread>,
    recorder: Recorder,
    /// The start of the last reported window.
    last: Option<Nanos>,
    windows: u64,
    used: Option<TaskUsage>,
    /// Sums of the counts that the kernel reports.
    sums: OsnoiseSample,
    counted: u64,
    /// The most noise of one window.
    most: Nanos,
    /// Lengths of the gaps above the threshold.
    lengths: Histogram,
    /// Gaps in which there was no event, and gaps in which there were events.
    above: [Above; 2],
    lost: u64,
}

impl Row {
    fn new(
        cpu: u32,
        (window, warm_up): (Nanos, Nanos),
        thread: Option<&Thread>,
        recorder: Recorder,
    ) -> Self {
        Self {
            cpu,
            window: window.max(Nanos(1)),
            warm_up,
            counted_from: None,
            thread: thread.cloned(),
            recorder,
            last: None,
            windows: 0,
            used: None,
            sums: OsnoiseSample::default(),
            counted: 0,
            most: Nanos::ZERO,
            lengths: Histogram::new(),
            above: [Above::default(); 2],
            lost: 0,
        }
    }

    fn start(&mut self, at: Nanos) {
        let tid = self.thread.as_ref();
        let tid = tid.and_then(|thread| Tid::from_raw(i32::try_from(thread.tid).ok()?));
        self.recorder.start_for(at, tid);
        self.counted_from = Some(at + self.warm_up);
    }

    /// Reads the usage of the thread once, as the baseline.
    fn count_from_here(&mut self, host: &Host) {
        if let (None, Some(thread), true) = (&self.used, &self.thread, self.counts(now())) {
            self.used = usage_of(host, thread.tid, thread.tid);
        }
    }

    fn take(&mut self, reports: &NoiseReports, end: Option<Nanos>, threshold: Nanos) {
        self.lost += reports.lost.get(&self.cpu).copied().unwrap_or(0);
        let own = reports
            .osnoise
            .iter()
            .filter(|sample| sample.cpu == self.cpu);
        for sample in own.copied().collect::<Vec<_>>() {
            if end.is_none_or(|end| sample.time <= end) {
                self.window(&sample);
            }
        }
        // Gaps are timed with a different clock than windows, so all gaps of a fetch count if the
        // last window of the fetch counts.
        let counts = self.last.is_some_and(|last| self.counts(last));
        let gaps = reports.gaps.iter().filter(|gap| gap.cpu == self.cpu);
        for gap in gaps.filter(|gap| counts && gap.duration > threshold) {
            self.above[usize::from(gap.interruptions > 0)].add(gap);
            let length = i64::try_from(gap.duration.0).unwrap_or(i64::MAX);
            self.lengths.record(SignedNanos(length));
        }
    }

    /// Returns whether this time is after the warm-up.
    fn counts(&self, at: Nanos) -> bool {
        self.counted_from.is_some_and(|from| at >= from)
    }

    fn window(&mut self, sample: &OsnoiseSample) {
        let begun = sample.time.saturating_sub(sample.runtime);
        match self.last {
            None => self.start(begun),
            Some(last) => {
                // Round to the nearest number, because a pause lies between the end of each window
                // and the start of the next.
                let apart = begun
                    .saturating_sub(last)
                    .0
                    .saturating_add(self.window.0 / 2);
                self.skip(last, (apart / self.window.0).saturating_sub(1));
            }
        }
        let longest = i64::try_from(sample.longest.0).unwrap_or(i64::MAX);
        self.recorder.sample(begun, SignedNanos(longest));
        self.windows += 1;
        self.last = Some(begun.max(self.last.unwrap_or_default()));
        if self.counts(begun) {
            self.add(sample);
        }
    }

    /// Skips windows without a report after the one at `last`.
    fn skip(&mut self, last: Nanos, count: u64) {
        if count > 0 {
            let first = Nanos(last.0.saturating_add(self.window.0));
            self.recorder.missed(first, count, self.window);
            self.windows += count;
        }
    }

    fn add(&mut self, sample: &OsnoiseSample) {
        let sums = &mut self.sums;
        let time = |sum: &mut Nanos, more: Nanos| *sum = Nanos(sum.0.saturating_add(more.0));
        time(&mut sums.runtime, sample.runtime);
        time(&mut sums.noise, sample.noise);
        sums.longest = sums.longest.max(sample.longest);
        self.most = self.most.max(sample.noise);
        for (sum, more) in [
            (&mut sums.hardware, sample.hardware),
            (&mut sums.nmis, sample.nmis),
            (&mut sums.irqs, sample.irqs),
            (&mut sums.softirqs, sample.softirqs),
            (&mut sums.threads, sample.threads),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.counted += 1;
    }

    /// Counts the windows that should have been reported by the end.
    fn end(&mut self, start: Nanos, end: Option<Nanos>) {
        if self.last.is_none() {
            self.start(start);
        }
        let Some(end) = end else { return };
        match self.last {
            // One more window may still be in progress.
            Some(last) => {
                let after = end.saturating_sub(last).0 / self.window.0;
                self.skip(last, after.saturating_sub(2));
            }
            None => {
                let all = end.saturating_sub(start).0 / self.window.0;
                self.skip(start.saturating_sub(self.window), all);
            }
        }
    }

    fn push_to(&self, [table, gaps, lengths]: &mut [Table; 3]) {
        let OsnoiseSample {
            runtime,
            noise,
            longest,
            hardware,
            nmis,
            irqs,
            softirqs,
            threads,
            ..
        } = self.sums;
        let thread = self.thread.as_ref();
        let percent = (runtime.0 > 0).then(|| noise.0 as f64 * 100.0 / runtime.0 as f64);
        table.push([
            Cell::from(u64::from(self.cpu)),
            thread.map(|thread| u64::from(thread.tid)).into(),
            thread
                .and_then(|thread| thread.scheduling.clone())
                .map_or(Cell::Unknown, Cell::from),
            self.counted.into(),
            runtime.into(),
            noise.into(),
            percent.map_or(Cell::Unknown, Cell::from),
            longest.into(),
            hardware.into(),
            nmis.into(),
            irqs.into(),
            softirqs.into(),
            threads.into(),
            self.lost.into(),
            self.most.into(),
        ]);
        for (lower, _, count) in self.lengths.buckets().iter() {
            lengths.push([
                Cell::from(u64::from(self.cpu)),
                Nanos(lower).into(),
                count.into(),
            ]);
        }
        for (came, above) in ["nothing", "something"].into_iter().zip(self.above) {
            gaps.push([
                Cell::from(u64::from(self.cpu)),
                came.into(),
                above.count.into(),
                above.total.into(),
                above.longest.into(),
            ]);
        }
    }
}

/// Returns the results of the threads. `end` is set if the run reached its planned end.
fn measured(
    rows: Vec<Row>,
    (start, end): (Nanos, Option<Nanos>),
    cost: SelfCost,
    host: &Host,
    mut warnings: Vec<String>,
) -> Measured {
    let mut tables = tables();
    let mut workers = Vec::with_capacity(rows.len());
    for mut row in rows {
        if row.last.is_none() {
            warnings.push(format!(
                "the kernel's tracer reported nothing for CPU {}",
                row.cpu
            ));
        }
        row.end(start, end);
        row.push_to(&mut tables);
        let now = row.thread.as_ref();
        let now = now.and_then(|thread| usage_of(host, thread.tid, thread.tid));
        let usage = row.used.zip(now).map(|(before, now)| since(&before, &now));
        let mut outcome = row.recorder.finish(row.windows, cost);
        outcome.usage = usage.unwrap_or_default();
        workers.push(outcome);
    }
    Measured {
        workers,
        tables: tables.into(),
        warnings,
    }
}

fn tables() -> [Table; 3] {
    [
        Table::new(
            "osnoise",
            "Kernel counts in the windows after the warm-up",
            &[
                ("cpu", "CPU"),
                ("tid", "thread"),
                ("scheduling", "policy"),
                ("windows", "windows"),
                ("spun_ns", "spun"),
                ("noise_ns", "noise"),
                ("noise_percent", "noise, %"),
                ("longest_ns", "longest"),
                ("hardware", "hardware"),
                ("nmis", "NMIs"),
                ("interrupts", "interrupts"),
                ("softirqs", "softirqs"),
                ("threads", "threads"),
                ("lost", "records lost"),
                ("most_ns", "worst window"),
            ],
        ),
        Table::new(
            "osnoise_gaps",
            "Gaps above the threshold, by kernel event",
            &[
                ("cpu", "CPU"),
                ("came", "came"),
                ("gaps", "gaps"),
                ("total_ns", "total"),
                ("longest_ns", "longest"),
            ],
        ),
        Table::new(
            "osnoise_gap_lengths",
            "Gaps above the threshold, by length",
            &[("cpu", "CPU"), ("from_ns", "from"), ("gaps", "gaps")],
        ),
    ]
}

#[cfg(test)]
mod tests;
