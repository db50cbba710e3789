//! What these tools print while they measure.

use std::time::Duration;

use punctual_host::Host;
use punctual_model::Recording;
use punctual_session::{Snapshot, Watcher};

use super::Kind;
use super::rows::{self, Row};
use super::settings::Settings;
use crate::CompatError;
use crate::paper::Paper;

/// How often the lines are printed again, as the originals do; else it looks as
/// often for where the threads run.
const LIVE: Duration = Duration::from_millis(50);
/// How often it looks for threads that it has not seen yet.
const FIRST_LOOK: Duration = Duration::from_millis(2);

/// The lines on stdout.
pub(super) struct View<'a> {
    kind: &'static Kind,
    quiet: bool,
    paper: Paper<'a>,
    host: Host,
    rows: Vec<Row>,
    printed_cycles: u64,
}

impl<'a> View<'a> {
    pub(super) fn new(
        kind: &'static Kind,
        settings: &Settings,
        paper: Paper<'a>,
        host: Host,
    ) -> Self {
        Self {
            kind,
            quiet: settings.quiet,
            paper,
            host,
            rows: Row::all(settings),
            printed_cycles: 0,
        }
    }

    /// The rows as they were seen last.
    ///
    /// # Errors
    /// Lines that could not be written.
    pub(super) fn finish(self) -> Result<Vec<Row>, CompatError> {
        self.paper.finish().map(|()| self.rows)
    }
}

impl Watcher for View<'_> {
    fn begin(&mut self, _: &Recording) {}

    fn progress(&mut self, snapshot: &Snapshot) {
        rows::update(&mut self.rows, snapshot, &self.host);
        let first = self.rows.first().map_or(0, |row| row.cycles);
        let cycles = self.rows.iter().map(|row| row.cycles).sum();
        if self.quiet || first < 2 || cycles == self.printed_cycles {
            return;
        }
        self.printed_cycles = cycles;
        let (kind, rows) = (self.kind, &self.rows);
        // The block of lines, and the cursor back to its begin.
        self.paper.put(|out| {
            write!(out, "{}", rows::text(kind, rows))?;
            write!(out, "\x1b[{}A", 2 * rows.len())
        });
    }

    fn end(&mut self) {
        if !self.quiet {
            let lines = 2 * self.rows.len() + 2;
            self.paper.put(|out| write!(out, "\x1b[{lines}B"));
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
