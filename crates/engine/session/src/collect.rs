//! Turns events of lanes into the time series, the live view and the interim accounts.

mod grid;

use punctual_model::{
    Accounting, Delay, Histogram, IntervalRow, Nanos, Sample, Scheduling, SignedNanos, WorstList,
    WorstSample,
};
use punctual_probes::{Event, LaneReader, LaneSpec, WORST_KEPT};

use punctual_rt::Tid;
use punctual_store::Lateness;

use grid::Grid;

use crate::outlier_command::Occasion;
use crate::suspension::Wait;
use crate::time::Start;

/// Reading side of one lane.
pub(crate) struct Collector {
    thread: u32,
    cpu: Option<u32>,
    scheduling: Scheduling,
    reader: LaneReader,
    /// First expected wake-up of the lane; its rows count from here.
    started: Nanos,
    /// Offset of this time from the start of the recording: the duration of the phases before.
    after: Nanos,
    row: OpenRow,
    finished: Vec<IntervalRow>,
    accounting: Accounting,
    grid: Grid,
    /// Number of samples without space in the ring at the last drain.
    dropped_before: u64,
    /// Longest wait of this drain and the previous one, if the lane has periods.
    longest: [Option<Wait>; 2],
    /// Lateness of missed periods, as far as known.
    late: Option<Box<Histogram>>,
    all: Histogram,
    worst: WorstList<WORST_KEPT>,
    last: Option<SignedNanos>,
    /// Samples are rounded down to a multiple of this; `None` if samples are not stored.
    resolution: Option<Nanos>,
    samples: Vec<Sample>,
    /// Thread that is late and span of the samples, if the lane specifies them.
    spans: Option<(Option<Tid>, Delay)>,
    /// Measuring thread, once known, and the other end in another process.
    tid: Option<Tid>,
    partner: Option<Tid>,
    timeouts: Timeouts,
    /// Samples for a watcher that requested them.
    watched: Option<Vec<Sample>>,
    /// Threshold for outliers; `None` if nothing requires them.
    threshold: Option<Nanos>,
    outliers: Vec<Sighting>,
    /// Number of outliers that are not a time span of a thread.
    beyond: u64,
}

/// An outlier as measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sighting {
    /// Index of the lane in `threads`.
    pub(crate) thread: u32,
    /// Thread ID.
    pub(crate) tid: u32,
    pub(crate) cpu: Option<u32>,
    pub(crate) scheduling: Scheduling,
    pub(crate) expected: Nanos,
    pub(crate) latency: Nanos,
    /// Start of the time with events for this outlier.
    pub(crate) story_from: Nanos,
    /// Time span of the sample; `None` for the usual one of the probe.
    pub(crate) delay: Option<Delay>,
}

impl Sighting {
    /// Converts the outlier for the user's command.
    pub(crate) fn occasion(&self) -> Occasion {
        Occasion {
            latency: self.latency,
            cpu: self.cpu,
            tid: self.tid,
            expected: self.expected,
            cause: None,
        }
    }
}

/// Open row of the time series.
struct OpenRow {
    number: Option<u64>,
    missed: u64,
    histogram: Histogram,
}

/// Timeouts while waiting for one exchange.
#[derive(Default)]
struct Timeouts {
    count: u64,
    /// The exchange has arrived; the next timeout belongs to another one.
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

/// State of one lane, for a live view.
#[derive(Clone, Debug)]
pub struct LaneView {
    /// Name on the screen.
    pub title: String,
    /// Account so far.
    pub accounting: Accounting,
    /// Measuring thread, once known.
    pub tid: Option<Tid>,
    /// Thread of the other end, if that is in a separate process.
    pub partner: Option<Tid>,
    /// Number of timeouts for the latest exchange that had any.
    pub timeouts: u64,
    /// Number of samples that are only in the lane's own histogram.
    pub dropped: u64,
    /// Latest latency.
    pub last: Option<SignedNanos>,
    /// Minimum so far.
    pub min: Option<Nanos>,
    /// Mean so far.
    pub mean: Option<Nanos>,
    /// 99th percentile so far.
    pub p99: Option<Nanos>,
    /// Maximum so far.
    pub max: Option<Nanos>,
}

/// State of a run.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Time since the start, including warm-up.
    pub elapsed: Nanos,
    /// Planned duration; `None` if the run lasts until stopped.
    pub duration: Option<Nanos>,
    /// State of each lane.
    pub lanes: Vec<LaneView>,
    /// Largest sample so far.
    pub worst: Option<WorstSample>,
}

impl Collector {
    pub(crate) fn new(
        thread: u32,
        spec: &LaneSpec,
        reader: LaneReader,
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
            grid: Grid {
                warm_up,
                ..Grid::default()
            },
            dropped_before: 0,
            longest: [None; 2],
            late: None,
            all: Histogram::new(),
            worst: WorstList::default(),
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
    pub(crate) fn take_outliers(&mut self) -> Vec<Sighting> {
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
        self.grid.unsure = std::mem::replace(&mut self.dropped_before, dropped) != dropped;
        self.longest = [None, self.longest[0]];
        let Self {
            reader,
            started,
            after,
            row,
            finished,
            accounting,
            all,
            worst,
            last,
            samples,
            resolution,
            thread,
            grid,
            longest,
            late,
            spans,
            tid,
            partner,
            timeouts,
            threshold,
            outliers,
            beyond,
            cpu,
            scheduling,
            watched,
            ..
        } = self;
        let mut at = |row: &mut OpenRow, since_start: Nanos| {
            let number = (since_start + *after).0 / row_length.0;
            // Late events of an earlier row are counted in the open row: rows follow the order of
            // events, which is by time.
            if row.number.is_none_or(|open| number > open) {
                finished.extend(row.close(*thread, row_length));
                row.number = Some(number);
            }
        };
        reader.drain(|event| match event {
            Event::Started {
                at,
                tid: of,
                partner: other,
            } => {
                (*started, *tid, *partner) = (at, of, other);
                grid.next = at;
            }
            Event::Late { tid, delay } => *spans = Some((tid, delay)),
            Event::Grid { period, end } => grid.times = Some((period, end)),
            Event::TimedOut => timeouts.another(),
            Event::Sample { expected, latency } => {
                at(row, expected - *started);
                grid.passed(expected, 1);
                grid.woke = Nanos(expected.0.saturating_add_signed(latency.0));
                let wait = grid.times.map(|(period, _)| Wait {
                    due: expected,
                    woke: grid.woke,
                    period,
                });
                if wait.map(|wait| wait.length()) > longest[0].map(|wait| wait.length()) {
                    longest[0] = wait;
                }
                row.histogram.record(latency);
                all.record(latency);
                if let Some(latency) = latency.non_negative() {
                    worst.offer(latency, expected);
                    let of = spans.map_or(*tid, |(tid, _)| tid);
                    let above = threshold.is_some_and(|threshold| latency > threshold);
                    *beyond += u64::from(above && matches!(spans, Some((None, _))));
                    if let (Some(threshold), Some(tid)) = (*threshold, of)
                        && latency > threshold
                    {
                        outliers.push(Sighting {
                            thread: *thread,
                            tid: number(tid),
                            delay: spans.map(|(_, delay)| delay),
                            cpu: *cpu,
                            scheduling: *scheduling,
                            expected,
                            latency,
                            story_from: expected,
                        });
                    }
                }
                *last = Some(latency);
                timeouts.over = true;
                if let Some(watched) = watched {
                    watched.push(Sample { expected, latency });
                }
                if let Some(resolution) = resolution {
                    let latency = latency.rounded_down(*resolution);
                    samples.push(Sample { expected, latency });
                }
            }
            Event::Missed { first, count } => {
                at(row, first - *started);
                row.missed += count;
                accounting.missed += count;
                grid.passed(first, count);
            }
            Event::Overrun { first, count } => {
                at(row, first - *started);
                row.missed += count;
                accounting.missed += count;
                if let Some((period, _)) = grid.times {
                    let late = late.get_or_insert_default();
                    late.record_run(grid.woke.saturating_sub(first), period, count);
                }
                grid.passed(first, count);
            }
            Event::WarmedUp { periods, missed } => {
                accounting.warm_up = periods;
                accounting.warm_up_missed = missed;
            }
        });
        accounting.recorded = all.recorded();
        accounting.early = all.early();
        accounting.overflow = all.overflow();
        accounting.expected = accounting.recorded + accounting.missed + accounting.warm_up;
    }

    /// Returns the longest wait of the last two drains, if the lane has periods.
    pub(crate) fn longest(&self) -> Option<Option<Wait>> {
        self.grid.times?;
        let waits = self.longest.into_iter().flatten();
        Some(waits.max_by_key(Wait::length))
    }

    /// Returns and removes the finished rows.
    pub(crate) fn take_finished(&mut self) -> Vec<IntervalRow> {
        std::mem::take(&mut self.finished)
    }

    /// Returns the open row in its current state.
    pub(crate) fn open_row(&self, row_length: Nanos) -> Option<IntervalRow> {
        self.row.as_row(self.thread, row_length)
    }

    /// Closes the open row.
    pub(crate) fn close_row(&mut self, row_length: Nanos) {
        self.finished
            .extend(self.row.close(self.thread, row_length));
    }

    /// Returns the samples since the last call.
    pub(crate) fn take_samples(&mut self) -> Vec<Sample> {
        std::mem::take(&mut self.samples)
    }

    /// Returns when the measurement began; `None` before that.
    pub(crate) fn started(&self) -> Option<Nanos> {
        (self.started > Nanos::ZERO).then_some(self.started)
    }

    /// Returns the account at `now`, before everything is drained, and the lateness of missed
    /// periods. If the program is killed, the run ends there.
    pub(crate) fn cut_off(&self, now: Nanos) -> (Accounting, Lateness) {
        let started = self.started().filter(|_| !self.reader.is_over());
        let open = started.and_then(|started| self.grid.open(started, now));
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

    pub(crate) fn worst(&self, start: &Start) -> Vec<WorstSample> {
        worst_samples(self.thread, self.cpu, &self.worst.sorted(), start)
    }

    pub(crate) fn view(&self, title: String) -> LaneView {
        LaneView {
            title,
            accounting: self.accounting,
            tid: self.tid,
            partner: self.partner,
            timeouts: self.timeouts.count,
            dropped: self.reader.dropped(),
            last: self.last,
            min: self.all.min(),
            mean: self.all.mean(),
            p99: self.all.quantile(0.99),
            max: self.all.max(),
        }
    }
}

fn number(tid: Tid) -> u32 {
    tid.as_raw().unsigned_abs()
}

impl OpenRow {
    fn as_row(&self, thread: u32, length: Nanos) -> Option<IntervalRow> {
        let number = self.number?;
        let start = Nanos(number * length.0);
        let row = IntervalRow::of(thread, start, self.missed, &self.histogram);
        Some(row)
    }

    fn close(&mut self, thread: u32, length: Nanos) -> Option<IntervalRow> {
        let row = self.as_row(thread, length)?;
        self.histogram.clear();
        self.missed = 0;
        self.number = None;
        Some(row)
    }
}

/// Returns the largest samples of one lane, with their position and wall time.
pub(crate) fn worst_samples(
    thread: u32,
    cpu: Option<u32>,
    worst: &[(Nanos, Nanos)],
    start: &Start,
) -> Vec<WorstSample> {
    worst
        .iter()
        .map(|(latency, expected)| WorstSample {
            time: start.wall_at(*expected),
            monotonic_ns: *expected,
            cpu,
            thread,
            latency_ns: *latency,
            blame: None,
        })
        .collect()
}

/// Returns the largest samples of all lanes, in descending order.
pub(crate) fn worst_of_all(mut samples: Vec<WorstSample>) -> Vec<WorstSample> {
    samples.sort_by(|a, b| {
        (b.latency_ns.cmp(&a.latency_ns)).then(a.monotonic_ns.cmp(&b.monotonic_ns))
    });
    samples.truncate(WORST_KEPT);
    samples
}

#[cfg(test)]
mod tests;
