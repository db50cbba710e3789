//! What cyclicdeadline prints while it measures.

use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use punctual_model::Recording;
use punctual_session::{Snapshot, Watcher};

use super::settings::Settings;
use crate::lines::{self, ThreadLine, Unit};
use crate::{CompatError, Signals};

/// How often the lines are printed again, as the original does.
const LIVE: Duration = Duration::from_millis(10);
/// How often else it looks.
const QUIET: Duration = Duration::from_millis(100);

/// The lines on stdout.
pub(super) struct View<'a> {
    quiet: bool,
    out: &'a mut dyn Write,
    signals: Signals,
    lines: Vec<ThreadLine>,
    failure: Option<io::Error>,
}

/// A thread's line.
pub(super) fn line(line: &ThreadLine) -> String {
    line.with(format_args!("I:{}", line.interval_us))
}

impl<'a> View<'a> {
    pub(super) fn new(settings: &Settings, out: &'a mut dyn Write, signals: Signals) -> Self {
        let line = |place: usize| ThreadLine {
            min: 0,
            ..ThreadLine::new(place, 0, settings.interval_of(place), Unit::Micros)
        };
        Self {
            quiet: settings.quiet,
            out,
            signals,
            lines: (0..settings.threads as usize).map(line).collect(),
            failure: None,
        }
    }

    /// The lines as they were seen last.
    ///
    /// # Errors
    /// Lines that could not be written.
    pub(super) fn finish(self) -> Result<Vec<ThreadLine>, CompatError> {
        match self.failure {
            Some(error) => Err(error.into()),
            None => Ok(self.lines),
        }
    }

    /// The lines, and the cursor back to the first.
    fn print(&mut self) -> io::Result<()> {
        for thread in &self.lines {
            writeln!(self.out, "{}", line(thread))?;
        }
        write!(self.out, "\x1b[{}A", self.lines.len())?;
        self.out.flush()
    }

    fn written(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            // There is nobody to print for.
            self.signals.stop.store(true, Ordering::Relaxed);
            self.failure.get_or_insert(error);
        }
    }
}

impl Watcher for View<'_> {
    fn begin(&mut self, _: &Recording) {}

    fn progress(&mut self, snapshot: &Snapshot) {
        lines::update(&mut self.lines, snapshot);
        if !self.quiet && self.failure.is_none() {
            let result = self.print();
            self.written(result);
        }
    }

    fn end(&mut self) {
        if !self.quiet && self.failure.is_none() {
            let result = write!(self.out, "\x1b[{}B", self.lines.len() + 2);
            self.written(result);
        }
    }

    fn every(&self) -> Duration {
        match self.quiet {
            true => QUIET,
            false => LIVE,
        }
    }
}
