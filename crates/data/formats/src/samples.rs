//! The source of a writer's samples.

use std::io;

use punctual_model::Sample;

/// The samples of a recording, wherever they are kept.
pub trait SampleSource {
    /// Hands the samples of thread `thread` (its place in
    /// [`threads`](punctual_model::Recording::threads)) to `chunk`, in the
    /// order in which they were measured, a chunk at a time, so that a run of
    /// hours need not fit the memory. A thread without samples is no error.
    ///
    /// # Errors
    /// Those of reading, and whatever `chunk` returns.
    fn for_each(
        &self,
        thread: u32,
        chunk: &mut dyn FnMut(&[Sample]) -> io::Result<()>,
    ) -> io::Result<()>;
}

/// The source of a recording without samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSamples;

impl SampleSource for NoSamples {
    fn for_each(&self, _: u32, _: &mut dyn FnMut(&[Sample]) -> io::Result<()>) -> io::Result<()> {
        Ok(())
    }
}
