//! The receiver of a reader's samples.

use std::io;

use punctual_model::Sample;

/// Takes the samples of a file as they are read: the mirror of
/// [`SampleSource`](crate::SampleSource).
pub trait SampleSink {
    /// Takes samples of thread `thread` (its place in
    /// [`threads`](punctual_model::Recording::threads)), in the order in which
    /// they were measured; at most a few thousand at a time.
    ///
    /// # Errors
    /// Those of writing; the reader then stops.
    fn take(&mut self, thread: u32, samples: &[Sample]) -> io::Result<()>;
}

/// A sink that keeps nothing, for reading without the samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountSamples(
    /// Samples so far.
    pub u64,
);

impl SampleSink for CountSamples {
    fn take(&mut self, _: u32, samples: &[Sample]) -> io::Result<()> {
        self.0 += samples.len() as u64;
        Ok(())
    }
}
