//! Statistics of each watched thread's waits.

use std::collections::BTreeMap;

use punctual_culprit::{Late, PolicyWatch};
use punctual_model::{
    Accounting, Histogram, IntervalRow, Nanos, Policy, Scheduling, SignedNanos, ThreadRecord,
    TopSample, TopSamples,
};
use punctual_probes::WORST_KEPT;
use punctual_trace::CountedJobs;

use super::policies;
use super::watched::Watched;
use crate::lifecycle::{RowLog, Snapshot, Start, WorkerView, largest_of_all, top_samples_of};

/// Returns the threads of a recording: those at the start, and one for all later ones, whose number
/// is unknown when the recording begins.
pub(super) fn threads(watched: &Watched) -> Vec<ThreadRecord> {
    let titles = titles(watched);
    let first =
        (watched.first.keys().zip(titles)).map(|(tid, title)| thread(title, scheduling_of(*tid)));
    let later = thread(ThreadRecord::LATER.to_owned(), OTHER);
    first.chain([later]).collect()
}

/// Returns the titles of the first threads, in the order of their tracks.
fn titles(watched: &Watched) -> impl Iterator<Item = String> {
    let first = watched.first.iter();
    first.map(|(tid, comm)| format!("{comm}-{tid}"))
}

const OTHER: Scheduling = Scheduling {
    policy: Policy::Other,
    priority: 0,
};

fn thread(label: String, scheduling: Scheduling) -> ThreadRecord {
    ThreadRecord {
        label: Some(label),
        ..ThreadRecord::new(None, scheduling)
    }
}

/// Returns the policy of a thread now; that of ordinary threads if it cannot be read.
pub(super) fn scheduling_of(tid: u32) -> Scheduling {
    let tid = i32::try_from(tid).ok().and_then(punctual_rt::Tid::from_raw);
    let policy = tid.and_then(|tid| punctual_rt::policy_of(tid).ok());
    let (policy, priority) = match policy {
        Some(punctual_rt::Policy::Fifo { priority }) => (Policy::Fifo, priority),
        Some(punctual_rt::Policy::RoundRobin { priority }) => (Policy::RoundRobin, priority),
        Some(punctual_rt::Policy::Deadline { .. }) => (Policy::Deadline, 0),
        Some(punctual_rt::Policy::Batch { .. }) => (Policy::Batch, 0),
        Some(punctual_rt::Policy::Idle) => (Policy::Idle, 0),
        _ => (Policy::Other, 0),
    };
    Scheduling { policy, priority }
}

/// One track.
struct Track {
    title: String,
    scheduling: Scheduling,
    accounting: Accounting,
    all: Histogram,
    top_samples: TopSamples<WORST_KEPT>,
    last: Option<SignedNanos>,
    /// Open row, with its number.
    open: Option<Row>,
}

/// Content of one row of the time series.
struct Row {
    number: u64,
    histogram: Histogram,
}

/// All tracks.
pub(super) struct WatchedTracks {
    tracks: Vec<Track>,
    tracks_by_tid: BTreeMap<u32, u32>,
    pub(super) rows: RowLog,
    pub(super) policies: PolicyWatch,
}

impl WatchedTracks {
    pub(super) fn new(threads: &[ThreadRecord], watched: &Watched) -> Self {
        let track = |thread: &ThreadRecord| Track {
            title: thread.title(),
            scheduling: thread.scheduling,
            accounting: Accounting::default(),
            all: Histogram::new(),
            top_samples: TopSamples::default(),
            last: None,
            open: None,
        };
        Self {
            tracks: threads.iter().map(track).collect(),
            tracks_by_tid: watched.first.keys().copied().zip(0..).collect(),
            rows: RowLog::default(),
            policies: policies::watch(threads, watched),
        }
    }

    /// Updates the titles to the current names of the threads.
    pub(super) fn rename(&mut self, watched: &Watched) {
        for (track, title) in self.tracks.iter_mut().zip(titles(watched)) {
            track.title = title;
        }
    }

    /// Returns the track of a thread; later threads share the last one.
    pub(super) fn track_index(&self, tid: u32) -> u32 {
        let last = self.tracks.len().saturating_sub(1) as u32;
        self.tracks_by_tid.get(&tid).copied().unwrap_or(last)
    }

    /// Returns the title of a thread.
    pub(super) fn title(&self, thread: u32) -> String {
        let known = self.tracks.get(thread as usize);
        known.map_or_else(|| format!("thread {thread}"), |track| track.title.clone())
    }

    /// Assigns the reused ID to the track of later threads, whose policy is unknown.
    pub(super) fn forget(&mut self, tid: u32) {
        self.tracks_by_tid.remove(&tid);
        self.policies.forget(tid);
    }

    /// Returns the policy of a late thread. It is known if the thread had its own track from the
    /// start and still has the same priority. Otherwise, it is inferred from the priority, which
    /// does not distinguish fifo from rr.
    pub(super) fn scheduling(&self, late: &Late) -> Scheduling {
        let inferred = late.prio.scheduling();
        let known = self.tracks_by_tid.get(&late.tid);
        let known = known.and_then(|place| self.tracks.get(*place as usize));
        known
            .map(|track| track.scheduling)
            .filter(|known| known.priority == inferred.priority)
            .unwrap_or(inferred)
    }

    /// Counts a wait; `since`: its beginning, relative to the start.
    pub(super) fn record(&mut self, wait: &Late, since: Nanos, row_length: Nanos) {
        let place = self.track_index(wait.tid);
        let Some(track) = self.tracks.get_mut(place as usize) else {
            return;
        };
        let latency = SignedNanos(i64::try_from(wait.latency().0).unwrap_or(i64::MAX));
        let row = open_row(track, &mut self.rows, (place, since, row_length));
        row.histogram.record(latency);
        track.all.record(latency);
        track.accounting.expected += 1;
        track.accounting.recorded += 1;
        track.top_samples.offer(wait.latency(), wait.expected);
        track.last = Some(latency);
    }

    /// Returns the length above which a wait of a thread may be among the longest of its track.
    pub(super) fn floor(&self, tid: u32) -> Nanos {
        let track = self.tracks.get(self.track_index(tid) as usize);
        let floor = track.and_then(|track| track.top_samples.floor());
        floor.unwrap_or(Nanos::ZERO)
    }

    /// Adds jobs that the kernel has counted, which are not among the longest.
    pub(super) fn add_counted(&mut self, counted: &CountedJobs, row_length: Nanos) {
        let place = self.track_index(counted.tid);
        let Some(track) = self.tracks.get_mut(place as usize) else {
            return;
        };
        let mut rows: Vec<_> = counted.rows.iter().collect();
        rows.sort_by_key(|(number, _)| *number);
        for (number, histogram) in rows {
            let since = Nanos(number.saturating_mul(row_length.0));
            let row = open_row(track, &mut self.rows, (place, since, row_length));
            row.histogram.merge(histogram);
            track.all.merge(histogram);
            track.accounting.expected += histogram.count();
            track.accounting.recorded += histogram.count();
            track.last = Some(SignedNanos(
                i64::try_from(counted.last.0).unwrap_or(i64::MAX),
            ));
        }
    }

    /// Returns the rows that are not yet in the store, including the open ones.
    pub(super) fn uncommitted_rows(&self, row_length: Nanos) -> Vec<IntervalRow> {
        self.rows.uncommitted(self.open_rows(row_length))
    }

    /// Returns a copy of all rows so far.
    pub(super) fn rows_so_far(&self, row_length: Nanos) -> Vec<IntervalRow> {
        self.rows.so_far(self.open_rows(row_length))
    }

    fn open_rows(&self, row_length: Nanos) -> impl Iterator<Item = IntervalRow> {
        (0..)
            .zip(&self.tracks)
            .filter_map(move |(place, track)| Some(row(place, track.open.as_ref()?, row_length)))
    }

    pub(super) fn accounting(&self) -> Vec<Accounting> {
        self.tracks.iter().map(|track| track.accounting).collect()
    }

    pub(super) fn top_samples(&self, start: &Start) -> Vec<TopSample> {
        let samples = (0..).zip(&self.tracks).flat_map(|(thread, track)| {
            top_samples_of(thread, None, &track.top_samples.sorted(), start)
        });
        largest_of_all(samples.collect())
    }

    /// Returns the latencies of all tracks so far.
    pub(super) fn latencies(&self) -> Histogram {
        let mut all = Histogram::new();
        for track in &self.tracks {
            all.merge(&track.all);
        }
        all
    }

    /// Returns the state of the run.
    pub(super) fn snapshot(
        &self,
        elapsed: Nanos,
        duration: Option<Nanos>,
        start: &Start,
    ) -> Snapshot {
        Snapshot {
            elapsed,
            duration,
            workers: self.views(),
            max_sample: self.top_samples(start).into_iter().next(),
        }
    }

    fn views(&self) -> Vec<WorkerView> {
        self.tracks
            .iter()
            .map(|track| WorkerView {
                tid: None,
                partner: None,
                timeouts: 0,
                dropped: 0,
                title: track.title.clone(),
                accounting: track.accounting,
                last: track.last,
                min: track.all.min(),
                mean: track.all.mean(),
                p99: track.all.quantile(0.99),
                max: track.all.max(),
            })
            .collect()
    }

    /// Adds the results to the threads of the recording. Returns all rows.
    pub(super) fn fill(self, threads: &mut [ThreadRecord], row_length: Nanos) -> Vec<IntervalRow> {
        let open: Vec<IntervalRow> = self.open_rows(row_length).collect();
        for (thread, track) in threads.iter_mut().zip(self.tracks) {
            thread.label = Some(track.title);
            thread.accounting = track.accounting;
            thread.histogram = track.all;
        }
        self.rows.all(open.into_iter())
    }
}

/// Returns the row that contains `since`, or a later one if that is already open.
fn open_row<'a>(
    track: &'a mut Track,
    rows: &mut RowLog,
    (place, since, row_length): (u32, Nanos, Nanos),
) -> &'a mut Row {
    let number = since.0 / row_length.0.max(1);
    if let Some(open) = track.open.take_if(|open| number > open.number) {
        rows.extend([row(place, &open, row_length)]);
    }
    track.open.get_or_insert_with(|| Row {
        number,
        histogram: Histogram::new(),
    })
}

fn row(thread: u32, row: &Row, row_length: Nanos) -> IntervalRow {
    let start = Nanos(row.number.saturating_mul(row_length.0));
    IntervalRow::new(thread, start, 0, &row.histogram)
}
