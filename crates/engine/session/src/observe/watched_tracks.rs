//! Statistics of each watched thread's waits.

use std::collections::BTreeMap;

use punctual_culprit::Late;
use punctual_model::{
    Accounting, Histogram, IntervalRow, Nanos, Policy, Scheduling, SignedNanos, ThreadRecord,
    TopSample, TopSamples,
};
use punctual_probes::WORST_KEPT;

use super::watched::Watched;
use crate::collect::{WorkerView, worst_of_all, worst_samples};
use crate::lifecycle::RowLog;
use crate::time::Start;

/// Title of the lane for all threads created after the start, whose number is unknown when the
/// recording begins.
const LATER: &str = "threads made later";

/// Returns the threads of a recording: those at the start, and one for all later ones.
pub(super) fn threads(watched: &Watched) -> Vec<ThreadRecord> {
    let titles = titles(watched);
    let first =
        (watched.first.keys().zip(titles)).map(|(tid, title)| thread(title, scheduling_of(*tid)));
    let later = thread(LATER.to_owned(), OTHER);
    first.chain([later]).collect()
}

/// Returns the titles of the first threads, in the order of their lanes.
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

fn scheduling_of(tid: u32) -> Scheduling {
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

/// One lane.
struct Track {
    title: String,
    scheduling: Scheduling,
    accounting: Accounting,
    all: Histogram,
    worst: TopSamples<WORST_KEPT>,
    last: Option<SignedNanos>,
    /// Open row, with its number.
    open: Option<Row>,
}

/// Content of one row of the time series.
struct Row {
    number: u64,
    histogram: Histogram,
}

/// All lanes.
pub(super) struct WatchedTracks {
    lanes: Vec<Track>,
    places: BTreeMap<u32, u32>,
    pub(super) rows: RowLog,
}

impl WatchedTracks {
    pub(super) fn new(threads: &[ThreadRecord], watched: &Watched) -> Self {
        let lane = |thread: &ThreadRecord| Track {
            title: thread.title(),
            scheduling: thread.scheduling,
            accounting: Accounting::default(),
            all: Histogram::new(),
            worst: TopSamples::default(),
            last: None,
            open: None,
        };
        Self {
            lanes: threads.iter().map(lane).collect(),
            places: watched.first.keys().copied().zip(0..).collect(),
            rows: RowLog::default(),
        }
    }

    /// Updates the titles to the current names of the threads.
    pub(super) fn rename(&mut self, watched: &Watched) {
        for (lane, title) in self.lanes.iter_mut().zip(titles(watched)) {
            lane.title = title;
        }
    }

    /// Returns the lane of a thread; later threads share the last one.
    pub(super) fn place(&self, tid: u32) -> u32 {
        let last = self.lanes.len().saturating_sub(1) as u32;
        self.places.get(&tid).copied().unwrap_or(last)
    }

    /// Returns the title of a thread.
    pub(super) fn title(&self, thread: u32) -> String {
        let known = self.lanes.get(thread as usize);
        known.map_or_else(|| format!("thread {thread}"), |lane| lane.title.clone())
    }

    /// Assigns the reused ID to the lane of later threads.
    pub(super) fn forget(&mut self, tid: u32) {
        self.places.remove(&tid);
    }

    /// Returns the policy of a late thread. It is known if the thread had its own lane from the
    /// start and still has the same priority. Otherwise, it is inferred from the priority, which
    /// does not distinguish fifo from rr.
    pub(super) fn scheduling(&self, late: &Late) -> Scheduling {
        let inferred = late.prio.scheduling();
        let known = self.places.get(&late.tid);
        let known = known.and_then(|place| self.lanes.get(*place as usize));
        known
            .map(|lane| lane.scheduling)
            .filter(|known| known.priority == inferred.priority)
            .unwrap_or(inferred)
    }

    /// Counts a wait; `since`: its beginning, relative to the start.
    pub(super) fn record(&mut self, wait: &Late, since: Nanos, row_length: Nanos) {
        let place = self.place(wait.tid);
        let Some(lane) = self.lanes.get_mut(place as usize) else {
            return;
        };
        let latency = SignedNanos(i64::try_from(wait.latency().0).unwrap_or(i64::MAX));
        let row = open_row(lane, &mut self.rows, (place, since, row_length));
        row.histogram.record(latency);
        lane.all.record(latency);
        lane.accounting.expected += 1;
        lane.accounting.recorded += 1;
        lane.worst.offer(wait.latency(), wait.expected);
        lane.last = Some(latency);
    }

    /// Returns the rows that are not yet in the store, including the open ones.
    pub(super) fn uncommitted_rows(&self, row_length: Nanos) -> Vec<IntervalRow> {
        self.rows.uncommitted(self.open_rows(row_length))
    }

    fn open_rows(&self, row_length: Nanos) -> impl Iterator<Item = IntervalRow> {
        (0..)
            .zip(&self.lanes)
            .filter_map(move |(place, lane)| Some(row(place, lane.open.as_ref()?, row_length)))
    }

    pub(super) fn accounting(&self) -> Vec<Accounting> {
        self.lanes.iter().map(|lane| lane.accounting).collect()
    }

    pub(super) fn worst(&self, start: &Start) -> Vec<TopSample> {
        let samples = (0..)
            .zip(&self.lanes)
            .flat_map(|(thread, lane)| worst_samples(thread, None, &lane.worst.sorted(), start));
        worst_of_all(samples.collect())
    }

    pub(super) fn views(&self) -> Vec<WorkerView> {
        self.lanes
            .iter()
            .map(|lane| WorkerView {
                tid: None,
                partner: None,
                timeouts: 0,
                dropped: 0,
                title: lane.title.clone(),
                accounting: lane.accounting,
                last: lane.last,
                min: lane.all.min(),
                mean: lane.all.mean(),
                p99: lane.all.quantile(0.99),
                max: lane.all.max(),
            })
            .collect()
    }

    /// Adds the results to the threads of the recording. Returns all rows.
    pub(super) fn fill(self, threads: &mut [ThreadRecord], row_length: Nanos) -> Vec<IntervalRow> {
        let open: Vec<IntervalRow> = self.open_rows(row_length).collect();
        for (thread, lane) in threads.iter_mut().zip(self.lanes) {
            thread.label = Some(lane.title);
            thread.accounting = lane.accounting;
            thread.histogram = lane.all;
        }
        self.rows.all(open.into_iter())
    }
}

/// Returns the row that contains `since`, or a later one if that is already open.
fn open_row<'a>(
    lane: &'a mut Track,
    rows: &mut RowLog,
    (place, since, row_length): (u32, Nanos, Nanos),
) -> &'a mut Row {
    let number = since.0 / row_length.0.max(1);
    if let Some(open) = lane.open.take_if(|open| number > open.number) {
        rows.extend([row(place, &open, row_length)]);
    }
    lane.open.get_or_insert_with(|| Row {
        number,
        histogram: Histogram::new(),
    })
}

fn row(thread: u32, row: &Row, row_length: Nanos) -> IntervalRow {
    let start = Nanos(row.number.saturating_mul(row_length.0));
    IntervalRow::new(thread, start, 0, &row.histogram)
}
