//! Counts of each channel of an application during a recording.

use punctual_app::find::Found;
use punctual_app::{ChannelHead, Counts, Kind, Snapshot, TopEntry, Unfit};
use punctual_model::{
    AboveLimit, Accounting, Cell, CountedBeside, Histogram, IntervalRow, MissLimit, Nanos, Table,
    TaskRecord, ThreadRecord, TopSample, TopSamples, grouped,
};
use punctual_probes::WORST_KEPT;

use super::explained::OverBudget;
use super::windows::ChannelWindows;
use crate::lifecycle::{RowLog, Start, WorkerView, largest_of_all, top_samples_of};

/// One channel.
struct ChannelTrack {
    /// Number of the channel in the memory of the application.
    number: usize,
    head: ChannelHead,
    /// Late jobs in windows of consecutive periods, if the requirement limits them.
    windows: Option<ChannelWindows>,
    /// State at the start, and at the last reading.
    first: Snapshot,
    last: Snapshot,
    /// Number of the open row, and the state when it began.
    row: u64,
    row_from: Snapshot,
    /// Largest sample of the open row, according to the ring.
    row_largest: Option<u64>,
    largest: Option<u64>,
    ring_next: u64,
    ring_dropped: u64,
    top_samples: TopSamples<WORST_KEPT>,
    /// Samples above the budget since the last call.
    over_budget: Vec<TopEntry>,
    /// Whether the channel was read while it changed, and whether its counters decreased.
    torn: bool,
    went_back: bool,
}

/// All channels.
pub(super) struct ChannelTracks {
    channels: Vec<ChannelTrack>,
    row_length: Nanos,
    started: Nanos,
    pub(super) rows: RowLog,
}

impl ChannelTracks {
    pub(super) fn begin(
        found: &Found,
        heads: Vec<(usize, ChannelHead)>,
        start: &Start,
        row_length: Nanos,
        misses: Option<MissLimit>,
    ) -> Result<Self, Unfit> {
        let channels = heads.into_iter().map(|(number, head)| {
            // Largest samples from before the start do not belong to this recording.
            let ring_next = found.reader.ring(number, 0)?.next;
            let first = found.reader.snapshot(number)?;
            Ok(ChannelTrack {
                number,
                windows: misses.and_then(|limit| ChannelWindows::new(limit, &head)),
                head,
                last: first.clone(),
                row: 0,
                row_from: first.clone(),
                torn: !first.whole,
                first,
                row_largest: None,
                largest: None,
                ring_next,
                ring_dropped: 0,
                top_samples: TopSamples::default(),
                over_budget: Vec::new(),
                went_back: false,
            })
        });
        Ok(Self {
            channels: channels.collect::<Result<_, Unfit>>()?,
            row_length: Nanos(row_length.0.max(1)),
            started: start.monotonic,
            rows: RowLog::default(),
        })
    }

    /// Reads all channels; `elapsed` since the start.
    pub(super) fn read(&mut self, found: &Found, elapsed: Nanos) -> Result<(), Unfit> {
        for (place, channel) in self.channels.iter_mut().enumerate() {
            let row = elapsed.0 / self.row_length.0;
            if row > channel.row {
                self.rows
                    .extend(channel.close_row(place as u32, self.row_length));
                channel.row = row;
                channel.row_from = channel.last.clone();
                channel.row_largest = None;
            }
            let snapshot = found.reader.snapshot(channel.number)?;
            channel.torn |= !snapshot.whole;
            channel.went_back |= snapshot.counts.run < channel.last.counts.run;
            let missed = snapshot
                .counts
                .missed
                .saturating_sub(channel.last.counts.missed);
            channel.last = snapshot;
            let ring = found.reader.ring(channel.number, channel.ring_next)?;
            channel.ring_next = ring.next;
            channel.ring_dropped = channel.ring_dropped.saturating_add(ring.dropped);
            for TopEntry { at_ns, ns } in ring.entries {
                channel.row_largest = channel.row_largest.max(Some(ns));
                channel.largest = channel.largest.max(Some(ns));
                // Skips jobs that were released before the start and completed after it.
                if at_ns >= self.started.0 {
                    channel.top_samples.offer(Nanos(ns), Nanos(at_ns));
                    if let Some(windows) = &mut channel.windows {
                        windows.sample(Nanos(ns), Nanos(at_ns - self.started.0));
                    }
                    if channel.head.budget_ns.is_some_and(|budget| ns > budget) {
                        channel.over_budget.push(TopEntry { at_ns, ns });
                    }
                }
            }
            if let Some(windows) = &mut channel.windows {
                windows.missed(missed, elapsed);
            }
        }
        Ok(())
    }

    /// Returns the samples above the budget since the last call.
    pub(super) fn over_budget(&mut self) -> Vec<OverBudget> {
        let channels = self.channels.iter_mut().enumerate();
        channels
            .flat_map(|(number, channel)| {
                let taken = std::mem::take(&mut channel.over_budget).into_iter();
                taken.map(move |TopEntry { at_ns, ns }| OverBudget {
                    channel: number,
                    at: Nanos(at_ns),
                    took: Nanos(ns),
                })
            })
            .collect()
    }

    /// Returns the rows that are not yet in the store, including the open ones.
    pub(super) fn uncommitted_rows(&self) -> Vec<IntervalRow> {
        self.rows.uncommitted(self.open_rows())
    }

    fn open_rows(&self) -> impl Iterator<Item = IntervalRow> {
        let channels = (0..).zip(&self.channels);
        channels.filter_map(|(number, channel)| channel.close_row(number, self.row_length))
    }

    pub(super) fn accounting(&self) -> Vec<Accounting> {
        self.channels
            .iter()
            .map(|channel| channel.accounting().0)
            .collect()
    }

    pub(super) fn top_samples(&self, start: &Start) -> Vec<TopSample> {
        let samples = (0..).zip(&self.channels).flat_map(|(thread, channel)| {
            top_samples_of(thread, None, &channel.top_samples.sorted(), start)
        });
        largest_of_all(samples.collect())
    }

    pub(super) fn views(&self) -> Vec<WorkerView> {
        let view = |channel: &ChannelTrack| {
            let all = channel.since(&channel.first, channel.largest);
            WorkerView {
                tid: None,
                partner: None,
                timeouts: 0,
                dropped: 0,
                title: channel.title(),
                accounting: channel.accounting().0,
                last: None,
                min: all.min(),
                mean: all.mean(),
                p99: all.quantile(0.99),
                max: all.max(),
            }
        };
        self.channels.iter().map(view).collect()
    }

    /// Adds the counts to the threads of the recording. Returns all rows.
    pub(super) fn fill(self, threads: &mut [ThreadRecord]) -> Vec<IntervalRow> {
        let open: Vec<IntervalRow> = self.open_rows().collect();
        for (thread, channel) in threads.iter_mut().zip(self.channels) {
            thread.accounting = channel.accounting().0;
            thread.histogram = channel.since(&channel.first, channel.largest);
            let (first, last) = (&channel.first.counts, &channel.last.counts);
            thread
                .above
                .extend(channel.head.budget_ns.map(|budget| AboveLimit {
                    limit_ns: Nanos(budget),
                    periods: last.over_budget.saturating_sub(first.over_budget),
                }));
            let is_whole = channel.ring_dropped == 0 && !channel.went_back;
            let windows = channel.windows.filter(|_| is_whole);
            thread
                .windows
                .extend(windows.and_then(ChannelWindows::finish));
        }
        self.rows.all(open.into_iter())
    }

    /// Returns the channels' data other than latencies, and the resource usage of their threads.
    pub(super) fn table(&self, before: &[TaskRecord], after: &[TaskRecord]) -> Table {
        let columns = [
            ("channel", "channel"),
            ("period_ns", "period"),
            ("budget_ns", "budget"),
            ("over_budget", "over budget"),
            ("late", "late starts"),
            ("page_faults", "page faults"),
            ("switches_involuntary", "involuntary switches"),
        ];
        let mut table = Table::new("application", "Channels of the application", &columns);
        for channel in &self.channels {
            let (first, last) = (&channel.first.counts, &channel.last.counts);
            let since = |of: fn(&Counts) -> u64| of(last).saturating_sub(of(first));
            let budget = channel
                .head
                .budget_ns
                .map(|_| since(|counts| counts.over_budget));
            let late = (last.due > 0).then(|| since(|counts| counts.late));
            let used = used(before, after, channel.head.tid);
            table.push([
                channel.title().into(),
                channel.head.period_ns.map(Nanos).into(),
                channel.head.budget_ns.map(Nanos).into(),
                Cell::from(budget),
                late.into(),
                used.map(|used| used.0).into(),
                used.and_then(|used| used.1).into(),
            ]);
        }
        table
    }

    /// Returns the name of a channel whose missed periods are unknown.
    pub(super) fn not_counted(&self) -> Option<String> {
        let mut channels = self.channels.iter();
        let found = channels.find(|channel| channel.is_not_counted());
        found.map(ChannelTrack::title)
    }

    /// Returns warnings for the reader.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for channel in &self.channels {
            let title = channel.title();
            if channel.went_back {
                warnings.push(format!(
                    "{title}: a counter decreased, so its figures are unreliable"
                ));
            }
            if channel.torn {
                warnings.push(format!(
                    "{title} counted faster than punctual could read it: its counts may differ by \
                     the number of samples in one reading"
                ));
            }
            if channel.ring_dropped > 0 {
                warnings.push(format!(
                    "{title}: {} of the largest samples were overwritten before they were read; \
                     only the histogram contains them",
                    grouped(channel.ring_dropped)
                ));
            }
            if channel
                .windows
                .as_ref()
                .is_some_and(ChannelWindows::is_open)
            {
                warnings.push(format!(
                    "{title}: the exact times of missed periods are unknown, so windows may have \
                     more late periods than shown"
                ));
            }
            if channel.is_not_counted() {
                warnings.push(format!(
                    "{title}: the application does not account for its periods \
                     (Channel::account), so its missed periods are unknown and not counted"
                ));
            }
            if let (_, Some(due)) = channel.accounting() {
                warnings.push(format!(
                    "{title}: the application's period counts are inconsistent: {} periods were \
                     due, but {} were run or missed",
                    grouped(due),
                    grouped(channel.accounting().0.expected)
                ));
            }
        }
        warnings
    }
}

impl ChannelTrack {
    /// Returns whether the application does not account for the periods of this channel.
    fn is_not_counted(&self) -> bool {
        let has_periods = self.head.kind == Kind::Latency && self.head.period_ns.is_some();
        has_periods && self.last.counts.due == 0
    }

    fn title(&self) -> String {
        format!("{}, {}", self.head.name, self.head.kind.name())
    }

    /// Returns the account, and the number of due jobs if the application reports a different one.
    /// The job in progress at the start or the end may be in only one of the channel's counters.
    fn accounting(&self) -> (Accounting, Option<u64>) {
        let (first, last) = (&self.first.counts, &self.last.counts);
        let since = |of: fn(&Counts) -> u64| of(last).saturating_sub(of(first));
        let recorded = self.since(&self.first, self.largest).recorded();
        let missed = since(|counts| counts.missed);
        let due = since(|counts| counts.due);
        let expected = recorded.saturating_add(missed);
        let accounting = Accounting {
            expected,
            recorded,
            missed,
            early: since(|counts| counts.early),
            overflow: since(|counts| counts.overflow),
            ..Accounting::default()
        };
        let wrong = last.due > 0 && due.abs_diff(expected) > 1;
        (accounting, wrong.then_some(due))
    }

    /// Returns the counts since `from`. `largest` is the largest sample in the ring, if any.
    fn since(&self, from: &Snapshot, largest: Option<u64>) -> Histogram {
        let (first, last) = (&from.counts, &self.last.counts);
        let buckets = self.last.buckets.iter().zip(&from.buckets);
        let buckets: Vec<u64> = buckets
            .map(|(now, then)| now.saturating_sub(*then))
            .collect();
        let beside = CountedBeside {
            sum: Nanos(last.sum_ns.wrapping_sub(first.sum_ns)),
            // The ring contains the maximum, unless the maximum belongs to a second that began
            // earlier.
            max: Nanos(last.max_ns),
            seen_max: largest.map(Nanos),
            min: Nanos(last.min_ns.unwrap_or(0)),
            early: last.early.saturating_sub(first.early),
            overflow: last.overflow.saturating_sub(first.overflow),
        };
        Histogram::of_counts(&buckets, beside)
    }

    fn close_row(&self, number: u32, row_length: Nanos) -> Option<IntervalRow> {
        let histogram = self.since(&self.row_from, self.row_largest);
        let missed = (self.last.counts.missed).saturating_sub(self.row_from.counts.missed);
        let start = Nanos(self.row.saturating_mul(row_length.0));
        let empty = histogram.recorded() == 0 && missed == 0;
        (!empty).then(|| IntervalRow::new(number, start, missed, &histogram))
    }
}

/// Returns page faults and involuntary switches of a thread between two readings; `None` if the
/// thread does not exist in both.
fn used(before: &[TaskRecord], after: &[TaskRecord], tid: u32) -> Option<(u64, Option<u64>)> {
    let find = |tasks: &[TaskRecord]| tasks.iter().find(|task| task.tid == tid).cloned();
    let (before, after) = (find(before)?, find(after)?);
    if before.started_ticks != after.started_ticks {
        return None;
    }
    let faults = |task: &TaskRecord| {
        task.used
            .faults_minor
            .saturating_add(task.used.faults_major)
    };
    let switches = |task: &TaskRecord| task.used.switches_involuntary;
    let switches = switches(&after).zip(switches(&before));
    Some((
        faults(&after).saturating_sub(faults(&before)),
        switches.map(|(after, before)| after.saturating_sub(before)),
    ))
}

#[cfg(test)]
mod tests {
    use punctual_app::buckets::{BUCKETS, index_of};
    use punctual_model::SignedNanos;

    use super::*;

    #[test]
    fn application_uses_the_histogram_buckets_of_recordings() {
        let mut edges: Vec<u64> = (0..1_000).collect();
        for decade in 1..=9 {
            let width = 10u64.pow(decade);
            edges.extend((100..1_000).flat_map(|step| [step * width, (step + 1) * width - 1]));
        }
        let (mut recorded, mut counts) = (Histogram::new(), vec![0; BUCKETS]);
        for (times, ns) in (1..).zip(&edges) {
            // The count differs for each edge, so that the test detects swapped buckets.
            for _ in 0..times % 7 {
                recorded.record(SignedNanos(*ns as i64));
                counts[index_of(*ns).unwrap()] += 1;
            }
        }
        let counted = Histogram::of_counts(&counts, CountedBeside::default());
        assert_eq!(counted.buckets(), recorded.buckets());
        let beyond = edges.iter().max().unwrap() + 1;
        recorded.record(SignedNanos(beyond as i64));
        assert_eq!((index_of(beyond), recorded.overflow()), (None, 1));
    }
}
