//! From the lanes' events to the time series, the live view and the interim
//! account.

use punctual_model::{
    Accounting, Histogram, IntervalRow, Nanos, Sample, Scheduling, SignedNanos, WorstList,
    WorstSample,
};
use punctual_probes::{Event, LaneReader, LaneSpec, WORST_KEPT};

use punctual_rt::Tid;

use crate::time::Start;

/// The reading side of one lane.
pub(crate) struct Collector {
    thread: u32,
    cpu: Option<u32>,
    scheduling: Scheduling,
    reader: LaneReader,
    /// The lane's first expected wake-up: its rows count from here.
    started: Nanos,
    /// How long after the start of the recording that is: the phases before.
    after: Nanos,
    row: OpenRow,
    finished: Vec<IntervalRow>,
    accounting: Accounting,
    all: Histogram,
    worst: WorstList<WORST_KEPT>,
    last: Option<SignedNanos>,
    /// To what samples are rounded down; `None`: none are kept.
    resolution: Option<Nanos>,
    samples: Vec<Sample>,
    /// Who measures, once it does, and the other end in another process.
    tid: Option<Tid>,
    partner: Option<Tid>,
    timeouts: Timeouts,
    /// Samples for a watcher that wants them.
    watched: Option<Vec<Sample>>,
    /// Later than this is an outlier; `None`: nobody asks.
    threshold: Option<Nanos>,
    outliers: Vec<Sighting>,
}

/// An outlier, as it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sighting {
    /// The lane, as its place in `threads`.
    pub(crate) thread: u32,
    /// The thread's number.
    pub(crate) tid: u32,
    pub(crate) cpu: Option<u32>,
    pub(crate) scheduling: Scheduling,
    pub(crate) expected: Nanos,
    pub(crate) latency: Nanos,
    /// From when on events tell its story.
    pub(crate) story_from: Nanos,
}

/// The row of the time series that is being filled.
struct OpenRow {
    number: Option<u64>,
    missed: u64,
    histogram: Histogram,
}

/// Waits given up for one exchange.
#[derive(Default)]
struct Timeouts {
    count: u64,
    /// It has come; the next one given up is for another.
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

/// How one lane stands, for a live view.
#[derive(Clone, Debug)]
pub struct LaneView {
    /// Its name on screen.
    pub title: String,
    /// Its account so far.
    pub accounting: Accounting,
    /// The thread that measures, once it does.
    pub tid: Option<Tid>,
    /// The other end's, where that is in a process of its own.
    pub partner: Option<Tid>,
    /// How often the thread gave up waiting for the latest exchange that had it
    /// do so.
    pub timeouts: u64,
    /// Samples that are in the lane's own histogram only.
    pub dropped: u64,
    /// The latest latency.
    pub last: Option<SignedNanos>,
    /// The smallest so far.
    pub min: Option<Nanos>,
    /// The mean so far.
    pub mean: Option<Nanos>,
    /// The 99th percentile so far.
    pub p99: Option<Nanos>,
    /// The largest so far.
    pub max: Option<Nanos>,
}

/// How a run stands.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Since the start, warm-up included.
    pub elapsed: Nanos,
    /// How long it will last; `None`: until stopped.
    pub duration: Option<Nanos>,
    /// Each lane.
    pub lanes: Vec<LaneView>,
    /// The worst sample so far.
    pub worst: Option<WorstSample>,
}

impl Collector {
    pub(crate) fn new(
        thread: u32,
        spec: &LaneSpec,
        reader: LaneReader,
        after: Nanos,
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
            all: Histogram::new(),
            worst: WorstList::default(),
            last: None,
            resolution,
            samples: Vec::new(),
            tid: None,
            partner: None,
            timeouts: Timeouts::default(),
            watched: None,
            threshold: None,
            outliers: Vec::new(),
        }
    }

    /// Has outliers noted from now on: what is later than this.
    pub(crate) fn note_above(&mut self, threshold: Nanos) {
        self.threshold = Some(threshold);
    }

    /// The outliers that came since the last time.
    pub(crate) fn take_outliers(&mut self) -> Vec<Sighting> {
        std::mem::take(&mut self.outliers)
    }

    /// The number of the thread that records, once it does.
    pub(crate) fn tid(&self) -> Option<u32> {
        self.tid.map(|tid| tid.as_raw().unsigned_abs())
    }

    /// Keeps samples for [`take_watched`](Self::take_watched) from now on.
    pub(crate) fn watch_samples(&mut self) {
        self.watched = Some(Vec::new());
    }

    /// The samples since the last time, as they were measured; none unless they
    /// are watched.
    pub(crate) fn take_watched(&mut self) -> Vec<Sample> {
        self.watched
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Takes in what has come since the last time.
    pub(crate) fn drain(&mut self, row_length: Nanos) {
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
            tid,
            partner,
            timeouts,
            threshold,
            outliers,
            cpu,
            scheduling,
            watched,
            ..
        } = self;
        let mut at = |row: &mut OpenRow, since_start: Nanos| {
            let number = (since_start + *after).0 / row_length.0;
            // Late events of an earlier row stay in the open one: rows follow
            // the order of events, which is that of time.
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
            } => (*started, *tid, *partner) = (at, of, other),
            Event::TimedOut => timeouts.another(),
            Event::Sample { expected, latency } => {
                at(row, expected - *started);
                row.histogram.record(latency);
                all.record(latency);
                if let Some(latency) = latency.non_negative() {
                    worst.offer(latency, expected);
                    if let (Some(threshold), Some(tid)) = (*threshold, *tid)
                        && latency > threshold
                    {
                        outliers.push(Sighting {
                            thread: *thread,
                            tid: tid.as_raw().unsigned_abs(),
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

    /// The rows that are finished, for good.
    pub(crate) fn take_finished(&mut self) -> Vec<IntervalRow> {
        std::mem::take(&mut self.finished)
    }

    /// The row that is being filled, as it stands.
    pub(crate) fn open_row(&self, row_length: Nanos) -> Option<IntervalRow> {
        self.row.as_row(self.thread, row_length)
    }

    /// Ends the row that is being filled.
    pub(crate) fn close_row(&mut self, row_length: Nanos) {
        self.finished
            .extend(self.row.close(self.thread, row_length));
    }

    /// The samples that came since the last time.
    pub(crate) fn take_samples(&mut self) -> Vec<Sample> {
        std::mem::take(&mut self.samples)
    }

    /// When its measurement began; `None` before it did.
    pub(crate) fn started(&self) -> Option<Nanos> {
        (self.started > Nanos::ZERO).then_some(self.started)
    }

    pub(crate) fn accounting(&self) -> Accounting {
        self.accounting
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

/// One lane's worst, with their place and wall time.
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

/// The worst of all lanes, the worst first.
pub(crate) fn worst_of_all(mut samples: Vec<WorstSample>) -> Vec<WorstSample> {
    samples.sort_by(|a, b| {
        (b.latency_ns.cmp(&a.latency_ns)).then(a.monotonic_ns.cmp(&b.monotonic_ns))
    });
    samples.truncate(WORST_KEPT);
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::{Policy, Scheduling};
    use punctual_probes::{Control, Lane, LaneSettings, Recorder, SelfCost};
    use std::sync::Arc;

    const SECOND: Nanos = Nanos::from_secs(1);

    fn lane() -> (Recorder, Collector, Start) {
        let settings = LaneSettings {
            warm_up: Nanos::ZERO,
            break_above: None,
            rate_hz: 10,
        };
        let (mut recorder, reader) = Lane::open(settings, &Arc::new(Control::new()));
        let spec = LaneSpec {
            label: None,
            cpu: Some(3),
            from_cpu: None,
            scheduling: Scheduling {
                policy: Policy::Other,
                priority: 0,
            },
            rate_hz: 10,
        };
        let start = Start::now();
        recorder.start(start.monotonic);
        (
            recorder,
            Collector::new(0, &spec, reader, Nanos::ZERO, Some(Nanos(1))),
            start,
        )
    }

    #[test]
    fn rows_hold_what_happened_in_them() {
        let (mut recorder, mut collector, start) = lane();
        let at = |tenths: u64| start.monotonic + Nanos(tenths * 100_000_000);
        for tenth in 0..25 {
            if tenth == 12 {
                recorder.missed(at(12), 2, Nanos(100_000_000));
            }
            if !(12..14).contains(&tenth) {
                recorder.sample(at(tenth), SignedNanos(1_000 + tenth as i64));
            }
        }
        collector.drain(SECOND);
        let rows = collector.take_finished();
        assert_eq!(rows.len(), 2);
        assert_eq!(
            (rows[0].start_ns, rows[0].count, rows[0].missed),
            (Nanos(0), 10, 0)
        );
        assert_eq!(
            (rows[1].start_ns, rows[1].count, rows[1].missed),
            (SECOND, 8, 2)
        );
        assert_eq!(rows[1].max_ns, Some(Nanos(1_019)));
        let open = collector.open_row(SECOND).unwrap();
        assert_eq!((open.start_ns, open.count), (Nanos::from_secs(2), 5));
        collector.close_row(SECOND);
        assert_eq!(collector.take_finished(), [open]);
        assert_eq!(collector.open_row(SECOND), None);

        let outcome = recorder.finish(25, SelfCost::default());
        assert_eq!(collector.accounting(), outcome.accounting);
        assert_eq!(collector.take_samples().len(), 23);
    }

    #[test]
    fn the_worst_have_their_wall_time() {
        let (mut recorder, mut collector, start) = lane();
        recorder.sample(start.monotonic + SECOND, SignedNanos(70_000));
        recorder.sample(start.monotonic + SECOND + SECOND, SignedNanos(90_000));
        collector.drain(SECOND);
        let worst = worst_of_all(collector.worst(&start));
        assert_eq!(worst[0].latency_ns, Nanos(90_000));
        assert_eq!(worst[0].cpu, Some(3));
        assert_eq!(worst[0].time, start.wall + SignedDuration::from_secs(2));
        use jiff::SignedDuration;
    }
}
