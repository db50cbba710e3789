//! Follows a run of timerlat: counts the samples, prints the live table, and stops at the limits.

use std::sync::atomic::Ordering;
use std::time::Duration;

use punctual_model::{Nanos, Recording, Sample};
use punctual_session::{Snapshot, Watcher};

use super::actions::{continues, perform};
use super::settings::RtlaSettings;
use super::table::{Context, Table};
use crate::CompatError;
use crate::lines::Unit;
use crate::live_output::{LIVE, LiveOutput};

/// Interval of the live table.
const REFRESH: Nanos = Nanos::from_secs(1);

/// Clears the terminal.
const CLEAR: &str = "\x1bc";

pub(super) struct View<'a> {
    settings: &'a RtlaSettings,
    table: Table,
    output: LiveOutput<'a>,
    /// Whether a live table is printed.
    is_live: bool,
    /// Time of the run at which the next live table is due.
    next: Nanos,
    elapsed: Nanos,
    dropped: u64,
    /// Whether a limit was reached since the actions last ran.
    reached: bool,
    stopped: bool,
    failures: Vec<String>,
}

/// Results after the run.
pub(super) struct ViewResult {
    pub(super) table: Table,
    /// Time without warm-up.
    pub(super) length: Nanos,
    /// Number of samples that are not in the table.
    pub(super) dropped: u64,
    /// Whether a limit that is checked here ended the run.
    pub(super) stopped: bool,
    pub(super) failures: Vec<String>,
}

impl<'a> View<'a> {
    pub(super) fn new(settings: &'a RtlaSettings, histogram: bool, output: LiveOutput<'a>) -> Self {
        Self {
            settings,
            table: Table::new(settings, histogram),
            output,
            is_live: !histogram && !settings.quiet,
            next: REFRESH,
            elapsed: Nanos::ZERO,
            dropped: 0,
            reached: false,
            stopped: false,
            failures: Vec::new(),
        }
    }

    /// Ends the view.
    ///
    /// # Errors
    /// Returns the first write error.
    pub(super) fn finish(self) -> Result<ViewResult, CompatError> {
        self.output.finish()?;
        Ok(ViewResult {
            table: self.table,
            length: self.elapsed,
            dropped: self.dropped,
            stopped: self.stopped,
            failures: self.failures,
        })
    }

    /// Stops the run, or performs the actions of `--on-threshold` and continues.
    fn act(&mut self) {
        if !std::mem::take(&mut self.reached) {
            return;
        }
        if !continues(&self.settings.on_threshold) {
            self.stopped = true;
            let stop = &self.output.signals().stop;
            stop.store(true, Ordering::Relaxed);
            return;
        }
        self.output.print(|_| Ok(()));
        if let Err(error) = perform(&self.settings.on_threshold) {
            self.failures.push(error);
        }
        // Latencies during the actions start no further ones.
        self.reached = false;
    }
}

impl Watcher for View<'_> {
    fn begin(&mut self, recording: &Recording) {
        self.table.begin(recording);
    }

    fn progress(&mut self, snapshot: &Snapshot) {
        let warm_up = Nanos::from_secs(self.settings.warm_up_s);
        self.elapsed = snapshot.elapsed.saturating_sub(warm_up);
        self.dropped = snapshot.workers.iter().map(|worker| worker.dropped).sum();
        self.act();
        if self.is_live && self.elapsed >= self.next {
            self.next = self.elapsed + REFRESH;
            let clear = if self.settings.debug { "" } else { CLEAR };
            let text = self.table.top(self.elapsed);
            self.output.print(|out| write!(out, "{clear}{text}"));
        }
    }

    fn end(&mut self) {}

    fn every(&self) -> Duration {
        LIVE
    }

    fn wants_samples(&self) -> bool {
        true
    }

    fn samples(&mut self, thread: u32, samples: &[Sample]) {
        self.table.add(thread, samples);
        let Some((_, context)) = self.table.of(thread) else {
            return;
        };
        let limit_us = match context {
            Context::Irq => self.settings.stop_us,
            // Without `continue`, the probe itself stops at this limit.
            _ if continues(&self.settings.on_threshold) => self.settings.stop_total_us,
            _ => 0,
        };
        let reaches = |sample: &Sample| Unit::Micros.convert(sample.latency) >= limit_us as i64;
        self.reached |= limit_us > 0 && samples.iter().any(reaches);
    }
}
