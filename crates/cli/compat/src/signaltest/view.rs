//! Output of signaltest during the run.

use std::time::Duration;

use punctual_host::Host;
use punctual_model::{Recording, Sample};
use punctual_session::{Snapshot, Watcher};

use super::settings::SignaltestSettings;
use crate::CompatError;
use crate::lines::{self, ThreadLine, Unit};
use crate::live_output::{LIVE, LiveOutput, QUIET};

/// The lines on stdout.
pub(super) struct View<'a> {
    settings: &'a SignaltestSettings,
    output: LiveOutput<'a>,
    host: Host,
    lines: Vec<ThreadLine>,
    /// Number of printed values.
    values: u64,
    printed: bool,
}

/// Formats the line of a thread.
pub(super) fn line(line: &ThreadLine) -> String {
    line.with_middle(format_args!("P:{:2}", line.priority))
}

impl<'a> View<'a> {
    pub(super) fn new(
        settings: &'a SignaltestSettings,
        output: LiveOutput<'a>,
        host: Host,
    ) -> Self {
        let line = |place| ThreadLine::new(place, settings.priority, 0, Unit::Micros);
        Self {
            settings,
            output,
            host,
            lines: (0..settings.threads as usize).map(line).collect(),
            values: 0,
            printed: false,
        }
    }

    /// Returns the last state of the lines.
    ///
    /// # Errors
    /// Returns an error if lines could not be written.
    pub(super) fn finish(self) -> Result<Vec<ThreadLine>, CompatError> {
        self.output.finish().map(|()| self.lines)
    }

    /// Prints the load, an empty line and the first thread. Before each repetition, the cursor is
    /// moved back.
    fn print(&mut self) {
        let again = std::mem::replace(&mut self.printed, true);
        let load = self.host.load_averages().unwrap_or_default();
        let first = self.lines.first();
        self.output.print(|out| {
            if again {
                write!(out, "\x1b[3A")?;
            }
            writeln!(out, "{load}          \n")?;
            first.map_or(Ok(()), |first| writeln!(out, "{}", line(first)))
        });
    }
}

impl Watcher for View<'_> {
    fn begin(&mut self, recording: &Recording) {
        if !self.settings.verbose || self.settings.cpus.is_none() {
            return;
        }
        for (place, thread) in recording.threads.iter().enumerate() {
            if let Some(cpu) = thread.cpu {
                self.output
                    .print(|out| writeln!(out, "Thread {place} using cpu {cpu}."));
            }
        }
    }

    fn progress(&mut self, snapshot: &Snapshot) {
        lines::update(&mut self.lines, snapshot);
        if !self.settings.common.quiet && !self.settings.verbose {
            self.print();
        }
    }

    fn end(&mut self) {}

    fn every(&self) -> Duration {
        // A run can end before its threads have been read.
        let known = self.lines.iter().all(|line| line.tid != 0);
        if self.settings.common.quiet && known {
            QUIET
        } else {
            LIVE
        }
    }

    fn wants_samples(&self) -> bool {
        self.settings.verbose
    }

    fn samples(&mut self, thread: u32, samples: &[Sample]) {
        if thread != 0 {
            return;
        }
        let first = self.values;
        self.values += samples.len() as u64;
        self.output.print(|out| {
            (first..).zip(samples).try_for_each(|(cycle, sample)| {
                let value = Unit::Micros.convert(sample.latency);
                writeln!(out, "{thread:8}:{cycle:8}:{value:8}")
            })
        });
    }
}
