//! What the tests of several readers share.

use punctual_model::Recording;

use super::{CountSamples, Import, ImportError, Source};

/// What a reader makes of a file with this content.
pub(crate) fn read_bytes(import: &Import, bytes: &[u8]) -> Result<Recording, ImportError> {
    let mut source = Source::new("file", bytes);
    (import.read)(&mut source, &mut CountSamples::default())
}

/// What a reader makes of a file with this text.
pub(crate) fn read_text(import: &Import, text: &str) -> Result<Recording, ImportError> {
    read_bytes(import, text.as_bytes())
}

/// Why a reader does not take a file with this content.
pub(crate) fn refused(import: &Import, bytes: &[u8]) -> String {
    // Not `unwrap_err`, which would print all of the recording.
    let error = read_bytes(import, bytes).err();
    error.map_or_else(|| "taken".to_owned(), |error| error.to_string())
}

/// What is made of a file with this content by the reader that is recognised.
pub(crate) fn read_recognised(bytes: &[u8]) -> Result<Recording, ImportError> {
    let mut source = Source::new("file", bytes);
    let import = super::recognise("file", &source.head()?)?;
    (import.read)(&mut source, &mut CountSamples::default())
}
