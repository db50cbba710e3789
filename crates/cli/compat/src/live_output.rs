//! Prints lines during a run, and provides the watcher for tools that do not print any.

use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use punctual_model::Recording;
use punctual_session::{Snapshot, Watcher};

use crate::{CompatError, Signals};

/// Interval at which lines are printed again, as in most of the originals.
pub(crate) const LIVE: Duration = Duration::from_millis(10);
/// Polling interval of the other tools.
pub(crate) const QUIET: Duration = Duration::from_millis(100);

/// Standard output during a run. The first write error ends the run, because there is no reader any
/// more. Nothing is printed after that.
pub(crate) struct LiveOutput<'a> {
    out: &'a mut dyn Write,
    signals: Signals,
    failure: Option<io::Error>,
}

impl<'a> LiveOutput<'a> {
    pub(crate) fn new(out: &'a mut dyn Write, signals: Signals) -> Self {
        Self {
            out,
            signals,
            failure: None,
        }
    }

    /// Calls `print` with the output, and flushes it.
    pub(crate) fn print(&mut self, print: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        if self.failure.is_some() {
            return;
        }
        let result = print(self.out).and_then(|()| self.out.flush());
        if let Err(error) = result {
            self.signals.stop.store(true, Ordering::Relaxed);
            self.failure = Some(error);
        }
    }

    /// Returns the requests made by signals.
    pub(crate) fn signals(&self) -> &Signals {
        &self.signals
    }

    /// Returns whether all writes succeeded.
    ///
    /// # Errors
    /// Returns the first write error.
    pub(crate) fn finish(self) -> Result<(), CompatError> {
        match self.failure {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}

/// The watcher for a tool that prints nothing during a run.
pub(crate) struct Silent;

impl Watcher for Silent {
    fn begin(&mut self, _: &Recording) {}
    fn progress(&mut self, _: &Snapshot) {}
    fn end(&mut self) {}
    fn every(&self) -> Duration {
        QUIET
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn first_failure_stops_run_and_is_reported() {
        let signals = Signals::default();
        let mut out = Closed;
        let mut output = LiveOutput::new(&mut out, signals.clone());
        output.print(|out| writeln!(out, "line"));
        assert!(signals.stop.load(Ordering::Relaxed));
        output.print(|_| panic!("nothing is printed after that"));
        assert!(output.finish().is_err());
    }

    #[test]
    fn what_is_written_arrives() {
        let mut out = Vec::new();
        let mut output = LiveOutput::new(&mut out, Signals::default());
        output.print(|out| write!(out, "one "));
        output.print(|out| write!(out, "two"));
        output.finish().unwrap();
        assert_eq!(out, b"one two");
    }
}
