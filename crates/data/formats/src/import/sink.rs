//! The receiver of a reader's samples.

use std::io;

use punctual_model::Sample;

/// Receives the samples of a file as they are read. This is the counterpart of
/// [`SampleSource`](crate::SampleSource).
pub trait SampleSink {
    /// Receives samples of thread `thread` (an index into
    /// [`threads`](punctual_model::Recording::threads)) in the order of measurement, at most a few
    /// thousand at a time.
    ///
    /// # Errors
    /// Returns an error if the samples cannot be written. The reader then stops.
    fn take(&mut self, thread: u32, samples: &[Sample]) -> io::Result<()>;
}

/// A sink that discards the samples, for reading without them.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountSamples(
    /// Number of samples so far.
    pub u64,
);

impl SampleSink for CountSamples {
    fn take(&mut self, _: u32, samples: &[Sample]) -> io::Result<()> {
        self.0 += samples.len() as u64;
        Ok(())
    }
}
