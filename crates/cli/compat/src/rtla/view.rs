//! Follows a run of timerlat: counts the samples, prints the live table, and stops at the limits.

use std::time::Duration;

use punctual_model::{Nanos, Recording, Sample};
use punctual_session::{Snapshot, Watcher};

use super::settings::RtlaSettings;
use super::table::{Context, Table};
use super::threshold::{Threshold, ThresholdResult};
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
    threshold: Threshold<'a>,
    /// Whether the thread latency has its limit here, and not in the probe.
    limits_threads: bool,
    /// Whether samples may be from the time of the last actions.
    is_backlog: bool,
    /// The time at which the sample that ends the run was expected. Later ones do not count.
    last: Option<Nanos>,
}

/// Results after the run.
pub(super) struct ViewResult {
    pub(super) table: Table,
    /// Time without warm-up.
    pub(super) length: Nanos,
    /// Number of samples that are not in the table.
    pub(super) dropped: u64,
    pub(super) threshold: ThresholdResult,
}

impl<'a> View<'a> {
    /// `limits_threads`: whether the probe itself does not stop at the thread latency.
    pub(super) fn new(
        settings: &'a RtlaSettings,
        histogram: bool,
        limits_threads: bool,
        threshold: Threshold<'a>,
        output: LiveOutput<'a>,
    ) -> Self {
        Self {
            settings,
            table: Table::new(settings, histogram),
            output,
            is_live: !histogram && !settings.quiet && !settings.only_analysis,
            next: REFRESH,
            elapsed: Nanos::ZERO,
            dropped: 0,
            threshold,
            limits_threads,
            is_backlog: false,
            last: None,
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
            threshold: self.threshold.finish(),
        })
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
        self.is_backlog = self.threshold.turn(&mut self.output);
        if self.is_live && self.elapsed >= self.next {
            self.next = self.elapsed + REFRESH;
            let clear = if self.settings.debug { "" } else { CLEAR };
            let text = self.table.top(self.elapsed);
            self.output.print(|out| write!(out, "{clear}{text}"));
        }
    }

    fn end(&mut self) {}

    fn ends(&self) -> bool {
        self.threshold.has_stopped()
    }

    fn every(&self) -> Duration {
        LIVE
    }

    fn wants_samples(&self) -> bool {
        true
    }

    fn samples(&mut self, thread: u32, samples: &[Sample]) {
        let Some((cpu, context)) = self.table.of(thread) else {
            return;
        };
        let (name, limit_us) = match context {
            Context::Irq => ("interrupt", self.settings.stop_us),
            _ if self.limits_threads => ("thread", self.settings.stop_total_us),
            _ => ("thread", 0),
        };
        let late_us = |sample: &Sample| Unit::Micros.convert(sample.latency);
        let reaches = |sample: &&Sample| limit_us > 0 && late_us(sample) >= limit_us as i64;
        let first = samples.iter().find(reaches);
        if let Some(first) = first.filter(|_| !self.is_backlog) {
            self.threshold.reach(&format!(
                "stop tracing hit on cpu {cpu}: {name} latency of {} us",
                late_us(first)
            ));
            if !self.threshold.continues() {
                self.last.get_or_insert(first.expected);
            }
        }
        match self.last {
            None => self.table.add(thread, samples),
            Some(last) => {
                let until = |sample: &&Sample| sample.expected <= last;
                let counted: Vec<Sample> = samples.iter().filter(until).copied().collect();
                self.table.add(thread, &counted);
            }
        }
    }
}
