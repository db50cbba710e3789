//! The source of a writer's samples.

use std::io;

use punctual_model::Sample;

/// The samples of a recording, from any storage.
pub trait SampleSource {
    /// Passes the samples of thread `thread` (an index into
    /// [`threads`](punctual_model::Recording::threads)) to `chunk`, in the order of measurement.
    /// Passes one chunk at a time, so that a run of several hours does not have to fit into memory.
    /// A thread without samples is not an error.
    ///
    /// # Errors
    /// Returns any error that occurs while reading, and any error of `chunk`.
    fn for_each(
        &self,
        thread: u32,
        chunk: &mut dyn FnMut(&[Sample]) -> io::Result<()>,
    ) -> io::Result<()>;
}

/// The source for a recording without samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSamples;

impl SampleSource for NoSamples {
    fn for_each(&self, _: u32, _: &mut dyn FnMut(&[Sample]) -> io::Result<()>) -> io::Result<()> {
        Ok(())
    }
}
