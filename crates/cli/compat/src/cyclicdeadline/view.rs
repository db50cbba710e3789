//! Output of cyclicdeadline during the run.

use std::time::Duration;

use punctual_model::Recording;
use punctual_session::{Snapshot, Watcher};

use super::settings::CyclicdeadlineSettings;
use crate::CompatError;
use crate::lines::{self, ThreadLine, Unit};
use crate::live_output::{LIVE, LiveOutput, QUIET};

/// The lines on stdout.
pub(super) struct View<'a> {
    quiet: bool,
    output: LiveOutput<'a>,
    lines: Vec<ThreadLine>,
}

/// Formats the line of a thread.
pub(super) fn line(line: &ThreadLine) -> String {
    line.with_middle(format_args!("I:{}", line.interval_us))
}

impl<'a> View<'a> {
    pub(super) fn new(settings: &CyclicdeadlineSettings, output: LiveOutput<'a>) -> Self {
        let line = |place: usize| ThreadLine {
            min: 0,
            ..ThreadLine::new(place, 0, settings.interval_of(place), Unit::Micros)
        };
        Self {
            quiet: settings.common.quiet,
            output,
            lines: (0..settings.threads as usize).map(line).collect(),
        }
    }

    /// Returns the last state of the lines.
    ///
    /// # Errors
    /// Returns an error if lines could not be written.
    pub(super) fn finish(self) -> Result<Vec<ThreadLine>, CompatError> {
        self.output.finish().map(|()| self.lines)
    }
}

impl Watcher for View<'_> {
    fn begin(&mut self, _: &Recording) {}

    fn progress(&mut self, snapshot: &Snapshot) {
        lines::update(&mut self.lines, snapshot);
        if self.quiet {
            return;
        }
        let lines = &self.lines;
        // Print the lines, and move the cursor back to the first one.
        self.output.print(|out| {
            for thread in lines {
                writeln!(out, "{}", line(thread))?;
            }
            write!(out, "\x1b[{}A", lines.len())
        });
    }

    fn end(&mut self) {
        if !self.quiet {
            let down = self.lines.len() + 2;
            self.output.print(|out| write!(out, "\x1b[{down}B"));
        }
    }

    fn every(&self) -> Duration {
        if self.quiet { QUIET } else { LIVE }
    }
}
