//! Output of the tools that measure pairs, during the run.

use std::time::Duration;

use punctual_host::Host;
use punctual_model::Recording;
use punctual_session::{Snapshot, Watcher};

use super::Kind;
use super::rows::{self, Row};
use super::settings::PairSettings;
use crate::CompatError;
use crate::live_output::LiveOutput;

/// Interval at which lines are printed again, as in the originals, and at which the CPUs of the
/// threads are read.
const LIVE: Duration = Duration::from_millis(50);
/// Interval at which the program checks for threads that have not started yet.
const FIRST_LOOK: Duration = Duration::from_millis(2);

/// The lines on stdout.
pub(super) struct View<'a> {
    kind: &'static Kind,
    quiet: bool,
    output: LiveOutput<'a>,
    host: Host,
    rows: Vec<Row>,
    printed_cycles: u64,
}

impl<'a> View<'a> {
    pub(super) fn new(
        kind: &'static Kind,
        settings: &PairSettings,
        output: LiveOutput<'a>,
        host: Host,
    ) -> Self {
        Self {
            kind,
            quiet: settings.common.quiet,
            output,
            host,
            rows: Row::all(settings),
            printed_cycles: 0,
        }
    }

    /// Returns the last state of the rows.
    ///
    /// # Errors
    /// Returns an error if lines could not be written.
    pub(super) fn finish(self) -> Result<Vec<Row>, CompatError> {
        self.output.finish().map(|()| self.rows)
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
        // Print the block of lines, and move the cursor back to its start.
        self.output.print(|out| {
            write!(out, "{}", rows::text(kind, rows))?;
            write!(out, "\x1b[{}A", 2 * rows.len())
        });
    }

    fn end(&mut self) {
        if !self.quiet {
            let lines = 2 * self.rows.len() + 2;
            self.output.print(|out| write!(out, "\x1b[{lines}B"));
        }
    }

    fn every(&self) -> Duration {
        // A run can end before its threads have been read.
        let known = |row: &Row| row.sender.tid != 0 && row.receiver.tid != 0;
        if self.rows.iter().all(known) {
            LIVE
        } else {
            FIRST_LOOK
        }
    }
}
