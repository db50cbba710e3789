//! Jobs that the kernel counts.

use std::collections::{BTreeMap, BTreeSet};

use punctual_model::Nanos;
use punctual_trace::{CountAsk, Stage};

use super::Observation;
use super::windows::Windows;
use crate::SessionError;
use crate::lifecycle::{REFRESH, monotonic};

/// The jobs in progress of counted threads, and what the kernel could not count.
#[derive(Debug, Default)]
pub(super) struct CountedWatch {
    /// Release of the job in progress of each counted thread.
    open: BTreeMap<u32, Nanos>,
    /// Jobs in progress for which there was a window of the full stage.
    shown: BTreeSet<(u32, Nanos)>,
    /// Maximum number of threads that were not counted.
    pub(super) uncounted: usize,
    /// Number of waits whose place is unknown.
    pub(super) unplaced: u64,
}

impl CountedWatch {
    pub(super) fn set_open(&mut self, open: BTreeMap<u32, Nanos>) {
        self.open = open;
    }

    /// Forgets the job of a thread that is no longer counted.
    pub(super) fn returned(&mut self, tid: u32) {
        self.open.remove(&tid);
    }

    pub(super) fn enter(&mut self, stage: Stage) {
        if stage == Stage::Full {
            self.shown = self.open.iter().map(|(tid, at)| (*tid, *at)).collect();
        }
    }

    pub(super) fn open(&self, tid: u32) -> Option<Nanos> {
        self.open.get(&tid).copied()
    }

    pub(super) fn oldest_open(&self) -> Option<Nanos> {
        self.open.values().min().copied()
    }

    /// Returns whether a job in progress began before this time.
    pub(super) fn is_open_since(&self, tid: u32, before: Nanos) -> bool {
        self.open(tid).is_some_and(|release| release < before)
    }

    /// Returns whether a job began before this time, and was not in the full stage since then.
    pub(super) fn needs_full_stage(&self, before: Nanos) -> bool {
        let mut open = self.open.iter();
        open.any(|(tid, at)| *at < before && !self.shown.contains(&(*tid, *at)))
    }
}

impl Observation<'_> {
    /// Adds the jobs that the kernel has counted. Returns whether there were any. Reading the counts is
    /// expensive, so they are read rarely unless they belong before events in the time series.
    pub(super) fn read_counts(&mut self, before_events: bool) -> bool {
        let (Some(jobs), Some(programs)) = (self.finder.jobs(), self.explainer.programs()) else {
            return false;
        };
        jobs.counted.set_open(programs.open_jobs());
        let interval = REFRESH.min(self.row_length);
        if !self.pace.must_count(monotonic(), interval) && !before_events {
            return false;
        }
        let mut any = false;
        for counted in programs.counted() {
            any |= !counted.rows.is_empty();
            self.tracks.add_counted(&counted, self.row_length);
            jobs.add_counted(&counted);
        }
        self.pace.measured |= any;
        any
    }

    /// Adds the last counts, and the places of the waits.
    pub(super) fn finish_counts(&mut self) {
        self.read_counts(true);
        if let (Some(jobs), Some(programs)) = (self.finder.jobs(), self.explainer.programs()) {
            jobs.add_counted_waits(&programs.waits_elsewhere());
        }
    }

    /// Chooses the threads whose jobs the kernel counts. Jobs that are explained, or that may be
    /// among the longest, are listed.
    pub(super) fn choose_counted(&mut self) -> Result<(), SessionError> {
        let budget = self.request.threshold();
        let reads = self.windows.as_ref().is_some_and(Windows::reads);
        let (Some(jobs), Some(programs)) = (self.finder.jobs(), self.explainer.programs()) else {
            return Ok(());
        };
        let tids = jobs.countable(monotonic()).into_iter();
        let watched = tids.filter(|tid| !reads && self.watched.has(*tid));
        programs.count(&CountAsk {
            threads: watched
                .map(|tid| (tid, self.tracks.floor(tid).min(budget)))
                .collect(),
            origin: self.start.monotonic,
            row_length: self.row_length,
        })?;
        jobs.counted.uncounted = jobs.counted.uncounted.max(programs.uncounted());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_job_is_shown_in_one_window() {
        let mut watch = CountedWatch::default();
        watch.set_open([(7, Nanos(50))].into());
        assert_eq!(watch.oldest_open(), Some(Nanos(50)));
        assert!(watch.needs_full_stage(Nanos(51)) && !watch.needs_full_stage(Nanos(50)));
        assert!(watch.is_open_since(7, Nanos(51)) && !watch.is_open_since(8, Nanos(51)));
        watch.enter(Stage::Full);
        watch.enter(Stage::Light);
        assert!(!watch.needs_full_stage(Nanos(51)));
        // The next job.
        watch.set_open([(7, Nanos(90))].into());
        assert!(watch.needs_full_stage(Nanos(91)));
        watch.set_open(BTreeMap::new());
        assert_eq!(watch.open(7), None);
    }
}
