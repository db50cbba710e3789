//! What is done beside the measuring threads while they measure, at normal
//! priority.

use punctual_model::{IntervalRow, Nanos, Suspension, WorstSample};
use punctual_store::{Batch, StoreError, Writer, commit_interval};

use crate::collect::{Collector, Sighting, Snapshot, worst_of_all};
use crate::explain::Explainer;
use crate::outlier_command::{Occasion, OutlierCommand};
use crate::suspension::SuspensionWatch;
use crate::time::Start;
use crate::watcher::Watcher;

/// Begins the recording in the store.
pub(crate) type Begin<'a> = Box<dyn FnOnce() -> Result<Writer, StoreError> + 'a>;

/// Drains the lanes, cuts the time series, writes to the store.
pub(crate) struct Housekeeping<'a> {
    pub(crate) collectors: Vec<Collector>,
    pub(crate) titles: Vec<String>,
    pub(crate) start: Start,
    pub(crate) row_length: Nanos,
    pub(crate) duration: Option<Nanos>,
    pub(crate) writer: Option<Writer>,
    /// What makes the writer, where it comes at the first turn.
    pub(crate) begin: Option<Begin<'a>>,
    /// All finished rows, for the recording.
    rows: Vec<IntervalRow>,
    /// Of these, those that are in the store.
    rows_committed: usize,
    committed_at: Nanos,
    /// Explains outliers, where that was asked for.
    pub(crate) explainer: Option<Explainer>,
    /// Runs the user's command at an outlier, where that was asked for.
    pub(crate) command: Option<OutlierCommand>,
    /// Finds the times in which the user stopped the process.
    pub(crate) suspensions: SuspensionWatch,
    /// The first failure of the store. Measuring goes on; what is measured is
    /// kept in memory, and writing it is tried again at the end.
    pub(crate) store_error: Option<StoreError>,
}

impl Housekeeping<'_> {
    pub(crate) fn new(
        titles: Vec<String>,
        start: Start,
        row_length: Nanos,
        duration: Option<Nanos>,
        writer: Option<Writer>,
    ) -> Self {
        Self {
            collectors: Vec::new(),
            titles,
            start,
            row_length,
            duration,
            writer,
            begin: None,
            rows: Vec::new(),
            rows_committed: 0,
            committed_at: Nanos::ZERO,
            explainer: None,
            command: None,
            suspensions: SuspensionWatch::new(),
            store_error: None,
        }
    }

    /// One turn: to be called several times a second.
    pub(crate) fn turn(&mut self, warnings: &[String]) {
        self.suspensions.turn(&self.start);
        self.begin_writing();
        // All that came due before is drained.
        let elapsed = self.start.elapsed();
        for collector in &mut self.collectors {
            collector.drain(self.row_length);
            self.rows.append(&mut collector.take_finished());
        }
        let waits = self.collectors.iter().filter_map(Collector::longest);
        self.suspensions.short_stop(&self.start, waits);
        self.explain();
        self.write_samples();
        if elapsed >= self.committed_at + commit_interval(self.row_length) {
            self.commit(elapsed, warnings);
        }
    }

    fn begin_writing(&mut self) {
        match self.begin.take().map(|begin| begin()) {
            Some(Ok(writer)) => self.writer = Some(writer),
            Some(Err(error)) => _ = self.store_error.get_or_insert(error),
            None => {}
        }
    }

    /// The last turn: all rows are closed and written.
    pub(crate) fn finish(&mut self, warnings: &[String]) {
        let elapsed = self.start.elapsed();
        for collector in &mut self.collectors {
            collector.drain(self.row_length);
            collector.close_row(self.row_length);
            self.rows.append(&mut collector.take_finished());
        }
        self.explain();
        self.write_samples();
        self.commit(elapsed, warnings);
    }

    /// Has outliers explained from now on.
    pub(crate) fn explain_with(&mut self, explainer: Explainer) {
        for collector in &mut self.collectors {
            collector.note_above(explainer.threshold());
        }
        self.explainer = Some(explainer);
    }

    /// Has the command run at outliers from now on.
    pub(crate) fn run_at_outliers(&mut self, command: OutlierCommand) {
        if self.explainer.is_none() {
            for collector in &mut self.collectors {
                collector.note_above(command.threshold());
            }
        }
        self.command = Some(command);
    }

    /// Before all else that waits: the events are soon overwritten.
    fn explain(&mut self) {
        if self.explainer.is_none() && self.command.is_none() {
            return;
        }
        let collectors = &mut self.collectors;
        let beyond: u64 = collectors.iter_mut().map(Collector::take_beyond).sum();
        let seen = collectors.iter_mut().flat_map(Collector::take_outliers);
        let found = self.suspensions.found();
        let (stopped, seen) = seen.partition::<Vec<_>, _>(|one| {
            let covers = |stop: &Suspension| stop.covers(one.expected, one.latency);
            found.iter().any(covers)
        });
        let mut occasions: Vec<Occasion> = match self.command {
            Some(_) => seen.iter().map(Sighting::occasion).collect(),
            None => Vec::new(),
        };
        if let Some(explainer) = &mut self.explainer {
            explainer.see(beyond);
            explainer.pass_over(stopped.len() as u64);
            if let Err(error) = explainer.explain(seen, &self.start, self.writer.as_mut()) {
                self.store_error.get_or_insert(error);
            }
            explainer.watch(collectors.iter().flat_map(Collector::tids));
            for occasion in &mut occasions {
                occasion.cause = explainer.cause(occasion.expected, occasion.latency);
            }
        }
        if let Some(command) = &mut self.command {
            command.turn(occasions);
        }
    }

    /// The finished rows, by start and then by thread.
    pub(crate) fn take_rows(&mut self) -> Vec<IntervalRow> {
        let mut rows = std::mem::take(&mut self.rows);
        rows.sort_by_key(|row| (row.start_ns, row.thread));
        rows
    }

    /// When the first lane began to measure: threads are made and measure
    /// their own cost before. Nothing of that is part of the recording.
    pub(crate) fn began(&self) -> Nanos {
        let started = self.collectors.iter().filter_map(Collector::started);
        started.min().unwrap_or(self.start.monotonic)
    }

    /// Whether any lane began to measure.
    pub(crate) fn has_begun(&self) -> bool {
        self.collectors.iter().any(|c| c.started().is_some())
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.collectors.iter().map(Collector::dropped).sum()
    }

    /// Tells the watcher what has come since the last time.
    pub(crate) fn report(&mut self, watcher: &mut dyn Watcher) {
        for (thread, collector) in (0..).zip(&mut self.collectors) {
            let samples = collector.take_watched();
            if !samples.is_empty() {
                watcher.samples(thread, &samples);
            }
        }
        watcher.progress(&self.snapshot());
    }

    /// How the run stands.
    fn snapshot(&self) -> Snapshot {
        Snapshot {
            elapsed: self.start.elapsed(),
            duration: self.duration,
            lanes: (self.collectors.iter().zip(&self.titles))
                .map(|(collector, title)| collector.view(title.clone()))
                .collect(),
            worst: self.worst().into_iter().next(),
        }
    }

    fn worst(&self) -> Vec<WorstSample> {
        let collectors = self.collectors.iter();
        let mut worst = worst_of_all(collectors.flat_map(|c| c.worst(&self.start)).collect());
        if let Some(explainer) = &self.explainer {
            explainer.blame(&mut worst);
        }
        worst
    }

    fn write_samples(&mut self) {
        for (thread, collector) in self.collectors.iter_mut().enumerate() {
            let samples = collector.take_samples();
            if let (Some(writer), false) = (&mut self.writer, samples.is_empty())
                && let Err(error) = writer.samples(thread as u32, &samples)
            {
                self.store_error.get_or_insert(error);
            }
        }
    }

    fn commit(&mut self, elapsed: Nanos, warnings: &[String]) {
        let open = (self.collectors.iter()).filter_map(|c| c.open_row(self.row_length));
        let now = self.start.monotonic + elapsed;
        let cut_off = self.collectors.iter().map(|lane| lane.cut_off(now));
        let (accounting, lateness) = cut_off.unzip();
        let batch = Batch {
            elapsed,
            rows: self.rows[self.rows_committed..]
                .iter()
                .cloned()
                .chain(open)
                .collect(),
            accounting,
            lateness,
            suspensions: self.suspensions.found().to_vec(),
            worst: self.worst(),
            dropped: self.dropped(),
            warnings: warnings.to_vec(),
        };
        let Some(writer) = &mut self.writer else {
            return;
        };
        match writer.commit(&batch) {
            Ok(()) => self.rows_committed = self.rows.len(),
            Err(error) => {
                self.store_error.get_or_insert(error);
            }
        }
        self.committed_at = elapsed;
    }
}
