//! Test helpers shared by several formats.

use std::io;

use punctual_model::{Recording, Sample};

use crate::{Export, ExportOptions, FormatError, NoSamples, SampleSource, format};

/// Samples in memory, passed two at a time.
pub(crate) struct CollectedSamples(pub(crate) Vec<Vec<Sample>>);

impl SampleSource for CollectedSamples {
    fn for_each(
        &self,
        thread: u32,
        chunk: &mut dyn FnMut(&[Sample]) -> io::Result<()>,
    ) -> io::Result<()> {
        let samples = self.0.get(thread as usize).map_or(&[][..], Vec::as_slice);
        samples.chunks(2).try_for_each(chunk)
    }
}

/// Writes a recording in the format `name`.
pub(crate) fn try_written(
    name: &str,
    recording: &Recording,
    samples: &dyn SampleSource,
    options: ExportOptions,
) -> Result<String, FormatError> {
    let mut bytes = Vec::new();
    let export = Export {
        recording,
        samples,
        options,
    };
    (format(name)?.write)(&export, &mut bytes)?;
    Ok(String::from_utf8(bytes).unwrap())
}

/// Writes a recording without samples in the format `name`.
pub(crate) fn written(name: &str, recording: &Recording) -> String {
    try_written(name, recording, &NoSamples, ExportOptions::default()).unwrap()
}
