//! Where the lines of a run go while it lasts, and who looks on where there are
//! none.

use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use punctual_model::Recording;
use punctual_session::{Snapshot, Watcher};

use crate::{CompatError, Signals};

/// How often lines are printed again, as most of the originals do.
pub(crate) const LIVE: Duration = Duration::from_millis(10);
/// How often else a tool looks.
pub(crate) const QUIET: Duration = Duration::from_millis(100);

/// The standard output while a run lasts. The first failure ends the run, for
/// there is nobody to print for; after it nothing is printed.
pub(crate) struct Paper<'a> {
    out: &'a mut dyn Write,
    signals: Signals,
    failure: Option<io::Error>,
}

impl<'a> Paper<'a> {
    pub(crate) fn new(out: &'a mut dyn Write, signals: Signals) -> Self {
        Self {
            out,
            signals,
            failure: None,
        }
    }

    /// Has `print` write to it, and hands on what was written.
    pub(crate) fn put(&mut self, print: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        if self.failure.is_some() {
            return;
        }
        let result = print(self.out).and_then(|()| self.out.flush());
        if let Err(error) = result {
            self.signals.stop.store(true, Ordering::Relaxed);
            self.failure = Some(error);
        }
    }

    /// What signals have asked for.
    pub(crate) fn signals(&self) -> &Signals {
        &self.signals
    }

    /// Says whether all could be written.
    ///
    /// # Errors
    /// The first failure.
    pub(crate) fn finish(self) -> Result<(), CompatError> {
        match self.failure {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}

/// Looks on for a tool that prints nothing while it measures.
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
    fn the_first_failure_stops_the_run_and_is_told_at_the_end() {
        let signals = Signals::default();
        let mut out = Closed;
        let mut paper = Paper::new(&mut out, signals.clone());
        paper.put(|out| writeln!(out, "line"));
        assert!(signals.stop.load(Ordering::Relaxed));
        paper.put(|_| panic!("nothing is printed after that"));
        assert!(paper.finish().is_err());
    }

    #[test]
    fn what_is_written_arrives() {
        let mut out = Vec::new();
        let mut paper = Paper::new(&mut out, Signals::default());
        paper.put(|out| write!(out, "one "));
        paper.put(|out| write!(out, "two"));
        paper.finish().unwrap();
        assert_eq!(out, b"one two");
    }
}
