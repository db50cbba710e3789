//! What signaltest prints while it measures.

use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use punctual_host::Host;
use punctual_model::{Recording, Sample};
use punctual_session::{Snapshot, Watcher};

use super::settings::Settings;
use crate::lines::{self, ThreadLine, Unit};
use crate::{CompatError, Signals};

/// How often the line is printed again, as the original does.
const LIVE: Duration = Duration::from_millis(10);
/// How often else it looks.
const QUIET: Duration = Duration::from_millis(100);

/// The lines on stdout.
pub(super) struct View<'a> {
    settings: &'a Settings,
    out: &'a mut dyn Write,
    host: Host,
    signals: Signals,
    lines: Vec<ThreadLine>,
    /// Values that were printed.
    values: u64,
    printed: bool,
    failure: Option<io::Error>,
}

/// A thread's line.
pub(super) fn line(line: &ThreadLine) -> String {
    line.with(format_args!("P:{:2}", line.priority))
}

impl<'a> View<'a> {
    pub(super) fn new(
        settings: &'a Settings,
        out: &'a mut dyn Write,
        host: Host,
        signals: Signals,
    ) -> Self {
        let line = |place| ThreadLine::new(place, settings.priority, 0, Unit::Micros);
        Self {
            settings,
            out,
            host,
            signals,
            lines: (0..settings.threads as usize).map(line).collect(),
            values: 0,
            printed: false,
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

    /// The load, an empty line and the first thread; a cursor that goes up comes
    /// before all but the first.
    fn print(&mut self) -> io::Result<()> {
        if self.printed {
            write!(self.out, "\x1b[3A")?;
        }
        self.printed = true;
        let load = self.host.load_averages().unwrap_or_default();
        writeln!(self.out, "{load}          \n")?;
        if let Some(first) = self.lines.first() {
            writeln!(self.out, "{}", line(first))?;
        }
        self.out.flush()
    }

    fn print_values(&mut self, samples: &[Sample]) -> io::Result<()> {
        for (cycle, sample) in (self.values..).zip(samples) {
            writeln!(
                self.out,
                "{:8}:{cycle:8}:{:8}",
                0,
                Unit::Micros.of(sample.latency)
            )?;
        }
        self.values += samples.len() as u64;
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
    fn begin(&mut self, recording: &Recording) {
        if !self.settings.verbose || self.settings.cpus.is_none() {
            return;
        }
        for (place, thread) in recording.threads.iter().enumerate() {
            if let Some(cpu) = thread.cpu {
                let result = writeln!(self.out, "Thread {place} using cpu {cpu}.");
                self.written(result);
            }
        }
    }

    fn progress(&mut self, snapshot: &Snapshot) {
        lines::update(&mut self.lines, snapshot);
        if !self.settings.quiet && !self.settings.verbose && self.failure.is_none() {
            let result = self.print();
            self.written(result);
        }
    }

    fn end(&mut self) {}

    fn every(&self) -> Duration {
        // A run can be over before its threads were looked at.
        let known = self.lines.iter().all(|line| line.tid != 0);
        match self.settings.quiet && known {
            true => QUIET,
            false => LIVE,
        }
    }

    fn wants_samples(&self) -> bool {
        self.settings.verbose
    }

    fn samples(&mut self, thread: u32, samples: &[Sample]) {
        if thread == 0 && self.failure.is_none() {
            let result = self.print_values(samples);
            self.written(result);
        }
    }
}
