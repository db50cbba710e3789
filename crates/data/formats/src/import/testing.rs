//! Test helpers shared by several readers.

use punctual_model::Recording;

use super::{CountSamples, Import, ImportError, Source};

/// Returns the result of a reader for a file with this content.
pub(crate) fn read_bytes(import: &Import, bytes: &[u8]) -> Result<Recording, ImportError> {
    let mut source = Source::new("file", bytes);
    (import.read)(&mut source, &mut CountSamples::default())
}

/// Returns the result of a reader for a file with this text.
pub(crate) fn read_text(import: &Import, text: &str) -> Result<Recording, ImportError> {
    read_bytes(import, text.as_bytes())
}

/// Returns the reason why a reader rejects a file with this content.
pub(crate) fn refused(import: &Import, bytes: &[u8]) -> String {
    // This does not use `unwrap_err`, which would print the whole recording.
    let error = read_bytes(import, bytes).err();
    error.map_or_else(|| "taken".to_owned(), |error| error.to_string())
}

/// Returns the result of the reader that recognises a file with this content.
pub(crate) fn read_recognised(bytes: &[u8]) -> Result<Recording, ImportError> {
    let mut source = Source::new("file", bytes);
    let import = super::recognise("file", &source.head()?)?;
    (import.read)(&mut source, &mut CountSamples::default())
}

/// Asserts that a reader rejects this text after each of these replacements, with a reason that
/// contains the last of the three texts.
pub(crate) fn assert_refuses(import: &Import, text: &str, changes: &[(&str, &str, &str)]) {
    for (from, to, reason) in changes {
        assert!(text.contains(from), "{from}");
        let said = refused(import, text.replacen(from, to, 1).as_bytes());
        assert!(said.contains(reason), "{from}: {said}");
    }
}
