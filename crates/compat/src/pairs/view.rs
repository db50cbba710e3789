//! What these tools print while they measure.

use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use punctual_host::Host;
use punctual_model::Recording;
use punctual_session::{Snapshot, Watcher};

use super::Kind;
use super::rows::{self, Row};
use super::settings::Settings;
use crate::{CompatError, Signals};

/// How often the lines are printed again, as the originals do; else it looks as
/// often for where the threads run.
const LIVE: Duration = Duration::from_millis(50);
/// How often it looks for threads that it has not seen yet.
const FIRST_LOOK: Duration = Duration::from_millis(2);

/// The lines on stdout.
pub(super) struct View<'a> {
    kind: &'static Kind,
    quiet: bool,
    out: &'a mut dyn Write,
    host: Host,
    signals: Signals,
    rows: Vec<Row>,
    printed_cycles: u64,
    failure: Option<io::Error>,
}

impl<'a> View<'a> {
    pub(super) fn new(
        kind: &'static Kind,
        settings: &Settings,
        out: &'a mut dyn Write,
        host: Host,
        signals: Signals,
    ) -> Self {
        Self {
            kind,
            quiet: settings.quiet,
            out,
            host,
            signals,
            rows: Row::all(settings),
            printed_cycles: 0,
            failure: None,
        }
    }

    /// The rows as they were seen last.
    ///
    /// # Errors
    /// Lines that could not be written.
    pub(super) fn finish(self) -> Result<Vec<Row>, CompatError> {
        match self.failure {
            Some(error) => Err(error.into()),
            None => Ok(self.rows),
        }
    }

    /// The block of lines, and the cursor back to its begin.
    fn print(&mut self) -> io::Result<()> {
        write!(self.out, "{}", rows::text(self.kind, &self.rows))?;
        write!(self.out, "\x1b[{}A", 2 * self.rows.len())?;
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
        rows::update(&mut self.rows, snapshot, &self.host);
        let first = self.rows.first().map_or(0, |row| row.cycles);
        let cycles = self.rows.iter().map(|row| row.cycles).sum();
        if self.quiet || self.failure.is_some() || first < 2 || cycles == self.printed_cycles {
            return;
        }
        self.printed_cycles = cycles;
        let result = self.print();
        self.written(result);
    }

    fn end(&mut self) {
        if !self.quiet && self.failure.is_none() {
            let lines = 2 * self.rows.len() + 2;
            let result = write!(self.out, "\x1b[{lines}B").and_then(|()| self.out.flush());
            self.written(result);
        }
    }

    fn every(&self) -> Duration {
        // A run can be over before the threads were looked at.
        let known = |row: &Row| row.sender.tid != 0 && row.receiver.tid != 0;
        match self.rows.iter().all(known) {
            true => LIVE,
            false => FIRST_LOOK,
        }
    }
}
