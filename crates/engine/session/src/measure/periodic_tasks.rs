//! Tasks that run during the measurement in addition to the measuring threads, at normal priority.

use punctual_model::{Histogram, IntervalRow, Nanos, Suspension, TopSample};
use punctual_store::Batch;

use super::collector::Collector;
use super::outlier_command::{OutlierCommand, OutlierEvent};
use super::placement::Placement;
use super::suspension::SuspensionWatch;
use crate::events::InterruptionCounter;
use crate::explain::Explainer;
use crate::lifecycle::{RowLog, Snapshot, Start, StoreWriter, Watcher, largest_of_all};

/// Drains the workers and builds the time series.
pub(crate) struct PeriodicTasks {
    pub(crate) collectors: Vec<Collector>,
    pub(crate) titles: Vec<String>,
    pub(crate) start: Start,
    pub(crate) row_length: Nanos,
    pub(crate) duration: Option<Nanos>,
    pub(crate) rows: RowLog,
    /// Explains outliers, if requested.
    pub(crate) explainer: Option<Explainer>,
    /// Counts the reasons for ticks of measured CPUs in `nohz_full`, if outliers are explained.
    pub(crate) ticks: Option<InterruptionCounter>,
    /// Runs the user's command at an outlier, if requested.
    pub(crate) command: Option<OutlierCommand>,
    /// Detects when the user stopped the process.
    pub(crate) suspensions: SuspensionWatch,
    /// Detects that a thread was taken off its CPU.
    placement: Placement,
    /// Reason why the run ends early.
    pub(crate) moved: Option<String>,
}

impl PeriodicTasks {
    pub(crate) fn new(
        titles: Vec<String>,
        start: Start,
        row_length: Nanos,
        duration: Option<Nanos>,
    ) -> Self {
        Self {
            collectors: Vec::new(),
            titles,
            start,
            row_length,
            duration,
            rows: RowLog::default(),
            explainer: None,
            ticks: None,
            command: None,
            suspensions: SuspensionWatch::new(),
            placement: Placement::default(),
            moved: None,
        }
    }

    /// Reads what the workers have recorded. Must be called several times per second.
    pub(crate) fn poll(&mut self, store: &mut StoreWriter<'_>) {
        self.suspensions.turn(&self.start);
        store.open();
        for collector in &mut self.collectors {
            collector.drain(self.row_length);
            self.rows.extend(collector.take_finished());
        }
        let threads = self.collectors.iter().filter_map(Collector::bound);
        let moved = self.placement.check(threads, self.start.elapsed());
        self.moved = self.moved.take().or(moved);
        let waits = self.collectors.iter().filter_map(Collector::longest);
        self.suspensions.short_stop(&self.start, waits);
        self.explain(store);
        if let Some(ticks) = &mut self.ticks {
            ticks.poll_if_due();
        }
        self.write_samples(store);
    }

    /// Reads the last records, and closes all rows.
    pub(crate) fn finish(&mut self, store: &mut StoreWriter<'_>) {
        for collector in &mut self.collectors {
            collector.drain(self.row_length);
            collector.close_row(self.row_length);
            self.rows.extend(collector.take_finished());
        }
        self.explainer.iter_mut().for_each(Explainer::end);
        self.explain(store);
        self.write_samples(store);
    }

    /// Explains outliers from now on.
    pub(crate) fn explain_with(&mut self, explainer: Explainer) {
        for collector in &mut self.collectors {
            collector.note_above(explainer.threshold());
        }
        self.explainer = Some(explainer);
    }

    /// Runs the command at outliers from now on.
    pub(crate) fn run_at_outliers(&mut self, command: OutlierCommand) {
        if self.explainer.is_none() {
            for collector in &mut self.collectors {
                collector.note_above(command.threshold());
            }
        }
        self.command = Some(command);
    }

    /// Runs before other work, because the events are soon overwritten.
    fn explain(&mut self, store: &mut StoreWriter<'_>) {
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
        let mut occasions: Vec<OutlierEvent> = match self.command {
            Some(_) => seen.iter().map(OutlierEvent::from).collect(),
            None => Vec::new(),
        };
        if let Some(explainer) = &mut self.explainer {
            explainer.see(beyond);
            explainer.pass_over(stopped.len() as u64);
            let stored = explainer.explain(seen, &self.start, store.writer());
            store.note(stored);
            explainer.watch(collectors.iter().flat_map(Collector::tids));
            for occasion in &mut occasions {
                occasion.cause = explainer.cause(occasion.expected, occasion.latency);
            }
        }
        if let Some(command) = &mut self.command {
            command.turn(occasions);
        }
    }

    /// Returns all rows, by start and then by thread.
    pub(crate) fn take_rows(&mut self) -> Vec<IntervalRow> {
        std::mem::take(&mut self.rows).all(std::iter::empty())
    }

    /// Returns when the first worker began to measure. Before that, threads are created and measure
    /// their own overhead, which is not part of the recording.
    pub(crate) fn began(&self) -> Nanos {
        let started = self.collectors.iter().filter_map(Collector::started);
        started.min().unwrap_or(self.start.monotonic)
    }

    /// Returns whether any worker began to measure.
    pub(crate) fn has_begun(&self) -> bool {
        self.collectors.iter().any(|c| c.started().is_some())
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.collectors.iter().map(Collector::dropped).sum()
    }

    /// Reports new data to the watcher.
    pub(crate) fn report(&mut self, watcher: &mut dyn Watcher) {
        for (thread, collector) in (0..).zip(&mut self.collectors) {
            let samples = collector.take_watched();
            if !samples.is_empty() {
                watcher.samples(thread, &samples);
            }
        }
        if watcher.wants_details() {
            let mut all = Histogram::new();
            for collector in &self.collectors {
                all.merge(&collector.latencies());
            }
            watcher.latencies(&all);
            let new = self.explainer.as_mut().map(Explainer::take_new);
            watcher.outliers(&new.unwrap_or_default());
        }
        watcher.progress(&self.snapshot());
    }

    /// Returns the state of the run.
    fn snapshot(&self) -> Snapshot {
        Snapshot {
            elapsed: self.start.elapsed(),
            duration: self.duration,
            workers: (self.collectors.iter().zip(&self.titles))
                .map(|(collector, title)| collector.view(title.clone()))
                .collect(),
            max_sample: self.top_samples().into_iter().next(),
        }
    }

    fn top_samples(&self) -> Vec<TopSample> {
        let collectors = self.collectors.iter();
        let mut largest = largest_of_all(
            collectors
                .flat_map(|c| c.top_samples(&self.start))
                .collect(),
        );
        if let Some(explainer) = &self.explainer {
            explainer.blame(&mut largest);
        }
        largest
    }

    fn write_samples(&mut self, store: &mut StoreWriter<'_>) {
        for (thread, collector) in self.collectors.iter_mut().enumerate() {
            let samples = collector.take_samples();
            if !samples.is_empty()
                && let Some(writer) = store.writer()
            {
                let stored = writer.samples(thread as u32, &samples);
                store.note(stored);
            }
        }
    }

    /// Returns the data that the store does not have yet.
    pub(crate) fn batch(&self, elapsed: Nanos, warnings: &[String]) -> Batch {
        let open = (self.collectors.iter()).filter_map(|c| c.open_row(self.row_length));
        let now = self.start.monotonic + elapsed;
        let cut_off = self.collectors.iter().map(|worker| worker.cut_off(now));
        let (accounting, lateness) = cut_off.unzip();
        Batch {
            elapsed,
            rows: self.rows.uncommitted(open),
            accounting,
            lateness,
            suspensions: self.suspensions.found().to_vec(),
            top_samples: self.top_samples(),
            dropped: self.dropped(),
            warnings: warnings.to_vec(),
        }
    }
}
