//! Turns events of workers into the time series, the live view and the interim accounts.

mod exchange;
mod outliers;
mod rows;
mod samples;
mod schedule;
mod worker;

use punctual_model::{
    Accounting, Histogram, IntervalRow, Nanos, Sample, SignedNanos, TopSample, TopSamples,
};
use punctual_probes::{Event, WORST_KEPT, WorkerReader, WorkerSpec};

use punctual_rt::Tid;
use punctual_store::Lateness;

use exchange::LastExchange;
use outliers::OutlierFinder;
use rows::Rows;
use samples::Samples;
use schedule::Schedule;
use worker::{Worker, number};

use super::suspension::Wait;
use crate::explain::RawOutlier;
use crate::lifecycle::{Start, WorkerView, top_samples_of};

/// Collects the events of one worker: reads them, follows the worker's periods, finds outliers, and
/// passes each sample on to the rows, the store and the watcher.
pub(crate) struct Collector {
    reader: WorkerReader,
    worker: Worker,
    schedule: Schedule,
    outliers: OutlierFinder,
    rows: Rows,
    samples: Samples,
    accounting: Accounting,
    top_samples: TopSamples<WORST_KEPT>,
    last: LastExchange,
}

impl Collector {
    pub(crate) fn new(
        thread: u32,
        spec: &WorkerSpec,
        reader: WorkerReader,
        after: Nanos,
        warm_up: Nanos,
        resolution: Option<Nanos>,
    ) -> Self {
        Self {
            reader,
            worker: Worker {
                thread,
                cpu: spec.cpu,
                scheduling: spec.scheduling,
                tid: None,
                partner: None,
            },
            schedule: Schedule::new(warm_up),
            outliers: OutlierFinder::default(),
            rows: Rows::new(thread, after),
            samples: Samples::new(resolution),
            accounting: Accounting::default(),
            top_samples: TopSamples::default(),
            last: LastExchange::default(),
        }
    }

    /// Reports samples above this threshold as outliers from now on.
    pub(crate) const fn note_above(&mut self, threshold: Nanos) {
        self.outliers.note_above(threshold);
    }

    /// Returns the outliers since the last call.
    pub(crate) fn take_outliers(&mut self) -> Vec<RawOutlier> {
        self.outliers.take()
    }

    /// Returns the number of outliers since the last call that cannot be explained.
    pub(crate) const fn take_beyond(&mut self) -> u64 {
        self.outliers.take_beyond()
    }

    /// Returns the ID of the measuring thread, once known, and of the late thread if that is
    /// another one.
    pub(crate) fn tids(&self) -> impl Iterator<Item = u32> + use<> {
        let late = self.outliers.late_thread();
        [self.worker.tid, late].into_iter().flatten().map(number)
    }

    /// Returns the measuring thread and its CPU while it measures, if it has one.
    pub(crate) fn bound(&self) -> Option<(u32, Tid)> {
        let Worker { cpu, tid, .. } = self.worker;
        cpu.zip(tid).filter(|_| !self.reader.is_over())
    }

    /// Keeps samples for [`take_watched`](Self::take_watched) from now on.
    pub(crate) fn watch_samples(&mut self) {
        self.samples.watch();
    }

    /// Returns the exact samples since the last call; none unless they are watched.
    pub(crate) fn take_watched(&mut self) -> Vec<Sample> {
        self.samples.take_watched()
    }

    /// Processes the events since the last drain.
    pub(crate) fn drain(&mut self, row_length: Nanos) {
        self.schedule.begin_drain(self.reader.dropped());
        // Events that arrive in the meantime are left for the next call, so that a fast worker
        // cannot keep this loop from ending.
        for _ in 0..self.reader.waiting() {
            let Some(event) = self.reader.pop() else {
                break;
            };
            self.take(event, row_length);
        }
        self.rows.account(&mut self.accounting);
    }

    fn take(&mut self, event: Event, row_length: Nanos) {
        match event {
            Event::Started { at, tid, partner } => {
                (self.worker.tid, self.worker.partner) = (tid, partner);
                self.rows.start(at);
                self.schedule.start(at);
            }
            Event::Late { tid, delay } => self.outliers.set_spans(tid, delay),
            Event::Grid { period, end } => {
                self.schedule.set_times(period, end);
                self.outliers.set_period(period);
            }
            Event::TimedOut => self.last.timed_out(),
            Event::Sample { expected, latency } => {
                self.rows.go_to(expected, row_length);
                self.sample(expected, latency);
            }
            Event::Missed { first, count } => self.missed(first, count, row_length),
            Event::Overrun { first, count } => {
                self.schedule.overrun(first, count);
                self.missed(first, count, row_length);
            }
            Event::WarmedUp { periods, missed } => {
                self.accounting.warm_up = periods;
                self.accounting.warm_up_missed = missed;
            }
        }
    }

    fn missed(&mut self, first: Nanos, count: u64, row_length: Nanos) {
        self.rows.go_to(first, row_length);
        self.rows.missed(count);
        self.accounting.missed += count;
        self.schedule.passed(first, count);
    }

    fn sample(&mut self, expected: Nanos, latency: SignedNanos) {
        self.schedule.woken(expected, latency);
        self.rows.record(latency);
        if let Some(late) = latency.non_negative() {
            self.top_samples.offer(late, expected);
            self.outliers.check(&self.worker, expected, late);
        }
        self.last.arrived(latency);
        self.samples.add(expected, latency);
    }

    /// Returns the longest wait of the last two drains, if the worker has periods.
    pub(crate) fn longest(&self) -> Option<Option<Wait>> {
        self.schedule.longest()
    }

    /// Returns and removes the finished rows.
    pub(crate) fn take_finished(&mut self) -> Vec<IntervalRow> {
        self.rows.take_finished()
    }

    /// Returns the open row in its current state.
    pub(crate) fn open_row(&self, row_length: Nanos) -> Option<IntervalRow> {
        self.rows.open_row(row_length)
    }

    /// Closes the open row.
    pub(crate) fn close_row(&mut self, row_length: Nanos) {
        self.rows.close(row_length);
    }

    /// Returns the samples since the last call.
    pub(crate) fn take_samples(&mut self) -> Vec<Sample> {
        self.samples.take_stored()
    }

    /// Returns when the measurement began; `None` before that.
    pub(crate) fn started(&self) -> Option<Nanos> {
        self.rows.started()
    }

    /// Returns the accounting at `now`, before everything is drained, and the lateness of missed
    /// periods. If the program is killed, this is where the recording of the run ends.
    pub(crate) fn cut_off(&self, now: Nanos) -> (Accounting, Lateness) {
        let started = self.started().filter(|_| !self.reader.is_over());
        let lateness = self.schedule.lateness(started, now);
        let mut accounting = self.accounting;
        let periods = lateness.open.as_ref().map_or(0, |open| open.periods);
        accounting.missed = accounting.missed.saturating_add(periods);
        accounting.expected = accounting.expected.saturating_add(periods);
        (accounting, lateness)
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.reader.dropped()
    }

    pub(crate) fn top_samples(&self, start: &Start) -> Vec<TopSample> {
        let Worker { thread, cpu, .. } = self.worker;
        top_samples_of(thread, cpu, &self.top_samples.sorted(), start)
    }

    /// Returns the latencies so far.
    pub(crate) fn latencies(&self) -> Histogram {
        self.rows.histogram()
    }

    pub(crate) fn view(&self, title: String) -> WorkerView {
        let all = self.rows.histogram();
        WorkerView {
            title,
            accounting: self.accounting,
            tid: self.worker.tid,
            partner: self.worker.partner,
            timeouts: self.last.timeouts,
            dropped: self.reader.dropped(),
            last: self.last.latency,
            min: all.min(),
            mean: all.mean(),
            p99: all.quantile(0.99),
            max: all.max(),
        }
    }
}

#[cfg(test)]
mod tests;
