//! Turns events of workers into the time series, the live view and the interim accounts.

mod schedule;

use punctual_model::{
    Accounting, Delay, Histogram, IntervalRow, Nanos, Sample, Scheduling, SignedNanos, TopSample,
    TopSamples,
};
use punctual_probes::{Event, WORST_KEPT, WorkerReader, WorkerSpec};

use punctual_rt::Tid;
use punctual_store::Lateness;

use schedule::Schedule;

use super::suspension::Wait;
use crate::explain::RawOutlier;
use crate::lifecycle::{Start, WorkerView, top_samples_of};

/// Collects the events of one worker.
pub(crate) struct Collector {
    thread: u32,
    cpu: Option<u32>,
    scheduling: Scheduling,
    reader: WorkerReader,
    /// First expected wake-up of the worker, from which its rows are counted.
    started: Nanos,
    /// Offset of `started` from the start of the recording: the duration of the previous phases.
    after: Nanos,
    row: OpenRow,
    finished: Vec<IntervalRow>,
    accounting: Accounting,
    schedule: Schedule,
    /// Number of samples, as of the last drain, for which there was no space in the ring.
    dropped_before: u64,
    /// Longest wait of this drain and longest wait of the previous one, if the worker has periods.
    longest: [Option<Wait>; 2],
    /// Lateness of missed periods, as far as known.
    late: Option<Box<Histogram>>,
    /// Sum of the closed rows.
    closed: Histogram,
    top_samples: TopSamples<WORST_KEPT>,
    last: Option<SignedNanos>,
    /// Resolution to which samples are rounded down; `None` if samples are not stored.
    resolution: Option<Nanos>,
    samples: Vec<Sample>,
    /// Late thread, and time span of the samples, if the worker specifies them.
    spans: Option<(Option<Tid>, Delay)>,
    /// Measuring thread, once known, and thread of the other end if that is in another process.
    tid: Option<Tid>,
    partner: Option<Tid>,
    timeouts: Timeouts,
    /// Samples for a watcher that requested them.
    watched: Option<Vec<Sample>>,
    /// Threshold for outliers; `None` if nothing requires them.
    threshold: Option<Nanos>,
    outliers: Vec<RawOutlier>,
    /// Number of outliers that are not time spans of a thread.
    beyond: u64,
}

/// Open row of the time series.
struct OpenRow {
    number: Option<u64>,
    missed: u64,
    histogram: Histogram,
}

/// Number of timeouts while waiting for one exchange.
#[derive(Default)]
struct Timeouts {
    count: u64,
    /// Whether this exchange has arrived, so that the next timeout belongs to another one.
    over: bool,
}

impl Timeouts {
    fn another(&mut self) {
        if std::mem::take(&mut self.over) {
            self.count = 0;
        }
        self.count += 1;
    }
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
            thread,
            cpu: spec.cpu,
            scheduling: spec.scheduling,
            reader,
            started: Nanos::ZERO,
            after,
            row: OpenRow {
                number: None,
                missed: 0,
                histogram: Histogram::new(),
            },
            finished: Vec::new(),
            accounting: Accounting::default(),
            schedule: Schedule {
                warm_up,
                ..Schedule::default()
            },
            dropped_before: 0,
            longest: [None; 2],
            late: None,
            closed: Histogram::new(),
            top_samples: TopSamples::default(),
            last: None,
            resolution,
            samples: Vec::new(),
            spans: None,
            tid: None,
            partner: None,
            timeouts: Timeouts::default(),
            watched: None,
            threshold: None,
            outliers: Vec::new(),
            beyond: 0,
        }
    }

    /// Reports samples above this threshold as outliers from now on.
    pub(crate) fn note_above(&mut self, threshold: Nanos) {
        self.threshold = Some(threshold);
    }

    /// Returns the outliers since the last call.
    pub(crate) fn take_outliers(&mut self) -> Vec<RawOutlier> {
        std::mem::take(&mut self.outliers)
    }

    /// Returns the number of outliers since the last call that cannot be explained.
    pub(crate) fn take_beyond(&mut self) -> u64 {
        std::mem::take(&mut self.beyond)
    }

    /// Returns the ID of the measuring thread, once known, and of the late thread if that is
    /// another one.
    pub(crate) fn tids(&self) -> impl Iterator<Item = u32> + use<> {
        let late = self.spans.and_then(|(tid, _)| tid);
        [self.tid, late].into_iter().flatten().map(number)
    }

    /// Returns the measuring thread and its CPU while it measures, if it has one.
    pub(crate) fn bound(&self) -> Option<(u32, Tid)> {
        self.cpu.zip(self.tid).filter(|_| !self.reader.is_over())
    }

    /// Keeps samples for [`take_watched`](Self::take_watched) from now on.
    pub(crate) fn watch_samples(&mut self) {
        self.watched = Some(Vec::new());
    }

    /// Returns the exact samples since the last call; none unless they are watched.
    pub(crate) fn take_watched(&mut self) -> Vec<Sample> {
        self.watched
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Processes the events since the last drain.
    pub(crate) fn drain(&mut self, row_length: Nanos) {
        let dropped = self.reader.dropped();
        self.schedule.unsure = std::mem::replace(&mut self.dropped_before, dropped) != dropped;
        self.longest = [None, self.longest[0]];
        // Events that arrive in the meantime are left for the next call, so that a fast worker
        // cannot keep this loop from ending.
        for _ in 0..self.reader.waiting() {
            let Some(event) = self.reader.pop() else {
                break;
            };
            self.take(event, row_length);
        }
        let rows = [&self.closed, &self.row.histogram];
        let sum = |count: fn(&Histogram) -> u64| rows.into_iter().map(count).sum::<u64>();
        let accounting = &mut self.accounting;
        accounting.recorded = sum(Histogram::recorded);
        accounting.early = sum(Histogram::early);
        accounting.overflow = sum(Histogram::overflow);
        accounting.expected = accounting.recorded + accounting.missed + accounting.warm_up;
    }

    fn take(&mut self, event: Event, row_length: Nanos) {
        match event {
            Event::Started { at, tid, partner } => {
                (self.started, self.tid, self.partner) = (at, tid, partner);
                self.schedule.next = at;
            }
            Event::Late { tid, delay } => self.spans = Some((tid, delay)),
            Event::Grid { period, end } => self.schedule.times = Some((period, end)),
            Event::TimedOut => self.timeouts.another(),
            Event::Sample { expected, latency } => {
                self.go_to(expected, row_length);
                self.sample(expected, latency);
            }
            Event::Missed { first, count } => self.missed(first, count, row_length),
            Event::Overrun { first, count } => {
                if let Some((period, _)) = self.schedule.times {
                    let late = self.late.get_or_insert_default();
                    late.record_run(self.schedule.woke.saturating_sub(first), period, count);
                }
                self.missed(first, count, row_length);
            }
            Event::WarmedUp { periods, missed } => {
                self.accounting.warm_up = periods;
                self.accounting.warm_up_missed = missed;
            }
        }
    }

    /// Opens the row that contains `time`, unless it is earlier than the open row. An event that
    /// belongs to an earlier row is counted in the open row, because closed rows are not changed.
    fn go_to(&mut self, time: Nanos, row_length: Nanos) {
        let number = (time - self.started + self.after).0 / row_length.0;
        if self.row.number.is_none_or(|open| number > open) {
            self.close_row(row_length);
            self.row.number = Some(number);
        }
    }

    fn missed(&mut self, first: Nanos, count: u64, row_length: Nanos) {
        self.go_to(first, row_length);
        self.row.missed += count;
        self.accounting.missed += count;
        self.schedule.passed(first, count);
    }

    fn sample(&mut self, expected: Nanos, latency: SignedNanos) {
        self.schedule.passed(expected, 1);
        self.schedule.woke = Nanos(expected.0.saturating_add_signed(latency.0));
        let wait = self.schedule.times.map(|(period, _)| Wait {
            due: expected,
            woke: self.schedule.woke,
            period,
        });
        if wait.map(|wait| wait.length()) > self.longest[0].map(|wait| wait.length()) {
            self.longest[0] = wait;
        }
        self.row.histogram.record(latency);
        if let Some(late) = latency.non_negative() {
            self.top_samples.offer(late, expected);
            if self.threshold.is_some_and(|threshold| late > threshold) {
                self.outlier(expected, late);
            }
        }
        self.last = Some(latency);
        self.timeouts.over = true;
        if let Some(watched) = &mut self.watched {
            watched.push(Sample { expected, latency });
        }
        if let Some(resolution) = self.resolution {
            let latency = latency.rounded_down(resolution);
            self.samples.push(Sample { expected, latency });
        }
    }

    /// Keeps an outlier if the late thread is known.
    fn outlier(&mut self, expected: Nanos, latency: Nanos) {
        self.beyond += u64::from(matches!(self.spans, Some((None, _))));
        if let Some(tid) = self.spans.map_or(self.tid, |(tid, _)| tid) {
            self.outliers.push(RawOutlier {
                thread: self.thread,
                tid: number(tid),
                delay: self.spans.map(|(_, delay)| delay),
                cpu: self.cpu,
                scheduling: self.scheduling,
                expected,
                latency,
                story_from: expected,
            });
        }
    }

    /// Returns the longest wait of the last two drains, if the worker has periods.
    pub(crate) fn longest(&self) -> Option<Option<Wait>> {
        self.schedule.times?;
        let waits = self.longest.into_iter().flatten();
        Some(waits.max_by_key(Wait::length))
    }

    /// Returns and removes the finished rows.
    pub(crate) fn take_finished(&mut self) -> Vec<IntervalRow> {
        std::mem::take(&mut self.finished)
    }

    /// Returns the open row in its current state.
    pub(crate) fn open_row(&self, row_length: Nanos) -> Option<IntervalRow> {
        let start = Nanos(self.row.number? * row_length.0);
        let row = IntervalRow::new(self.thread, start, self.row.missed, &self.row.histogram);
        Some(row)
    }

    /// Closes the open row.
    pub(crate) fn close_row(&mut self, row_length: Nanos) {
        if let Some(row) = self.open_row(row_length) {
            self.finished.push(row);
            self.closed.merge(&self.row.histogram);
            self.row.histogram.clear();
            self.row.missed = 0;
            self.row.number = None;
        }
    }

    /// Returns the samples since the last call.
    pub(crate) fn take_samples(&mut self) -> Vec<Sample> {
        std::mem::take(&mut self.samples)
    }

    /// Returns when the measurement began; `None` before that.
    pub(crate) fn started(&self) -> Option<Nanos> {
        (self.started > Nanos::ZERO).then_some(self.started)
    }

    /// Returns the accounting at `now`, before everything is drained, and the lateness of missed
    /// periods. If the program is killed, this is where the recording of the run ends.
    pub(crate) fn cut_off(&self, now: Nanos) -> (Accounting, Lateness) {
        let started = self.started().filter(|_| !self.reader.is_over());
        let open = started.and_then(|started| self.schedule.open(started, now));
        let mut accounting = self.accounting;
        let periods = open.map_or(0, |open| open.periods);
        accounting.missed = accounting.missed.saturating_add(periods);
        accounting.expected = accounting.expected.saturating_add(periods);
        (
            accounting,
            Lateness {
                missed_histogram: self.late.clone(),
                open,
            },
        )
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.reader.dropped()
    }

    pub(crate) fn top_samples(&self, start: &Start) -> Vec<TopSample> {
        top_samples_of(self.thread, self.cpu, &self.top_samples.sorted(), start)
    }

    pub(crate) fn view(&self, title: String) -> WorkerView {
        let mut all = self.closed.clone();
        all.merge(&self.row.histogram);
        WorkerView {
            title,
            accounting: self.accounting,
            tid: self.tid,
            partner: self.partner,
            timeouts: self.timeouts.count,
            dropped: self.reader.dropped(),
            last: self.last,
            min: all.min(),
            mean: all.mean(),
            p99: all.quantile(0.99),
            max: all.max(),
        }
    }
}

fn number(tid: Tid) -> u32 {
    tid.as_raw().unsigned_abs()
}

#[cfg(test)]
mod tests;
