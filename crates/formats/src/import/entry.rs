//! The description of a source.

use std::fmt;

use punctual_model::Recording;

use super::draft::draft;
use super::{ImportError, SampleSink, Source};

/// One kind of file that can be read: an entry of
/// [`IMPORTS`](crate::IMPORTS).
#[derive(Clone, Copy)]
pub struct Import {
    /// Name on the command line: `cyclictest-hist`.
    pub name: &'static str,
    /// One-line description.
    pub summary: &'static str,
    /// What is read, what the file lacks, and what is refused: a few
    /// paragraphs for the documentation.
    pub documentation: &'static str,
    /// Whether the file holds every sample.
    pub has_samples: bool,
    /// Whether the file always gives the unit of its figures; else
    /// [`Source::with_unit`] sets it.
    pub unit_known: bool,
    /// Whether a file with this beginning has this format. Exactly one entry may
    /// match a file; a test tries each entry on all fixtures.
    pub recognise: fn(&Head<'_>) -> bool,
    /// Reads all of a file.
    ///
    /// # Errors
    /// Any violation of the format, with the place; discard what the sink has
    /// received until then.
    pub read: fn(&mut Source<'_>, &mut dyn SampleSink) -> Result<Recording, ImportError>,
}

impl Import {
    /// The provisional recording of a file while it is read: of this
    /// format, without threads. What [`read`](Self::read) hands back replaces
    /// all of it but its ID.
    pub fn begun(&self, source: &Source<'_>) -> Recording {
        draft(source, self.name, self.name, "timer")
    }
}

impl fmt::Debug for Import {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Import")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The first bytes of a file: at most [`Head::LENGTH`].
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Whether these are all bytes of the file.
    pub whole: bool,
}

impl<'a> Head<'a> {
    /// Number of bytes that are examined.
    pub const LENGTH: usize = 64 * 1024;

    /// The lines as text, the last one only where it is complete. Bytes that
    /// are no text are replaced.
    pub fn lines(&self) -> impl Iterator<Item = std::borrow::Cow<'a, str>> + use<'a> {
        let bytes = self.bytes;
        let end = match (self.whole, bytes.iter().rposition(|byte| *byte == b'\n')) {
            (true, _) => bytes.len(),
            (false, end) => end.map_or(0, |end| end + 1),
        };
        bytes[..end]
            .split_inclusive(|byte| *byte == b'\n')
            .map(|line| String::from_utf8_lossy(line.trim_ascii_end()))
    }

    /// Whether it begins, after white space, with this byte: `{` for JSON, `<`
    /// for XML.
    pub fn begins_with(&self, byte: u8) -> bool {
        self.bytes.trim_ascii_start().first() == Some(&byte)
    }

    /// Whether it is a JSON object that holds all of these keys somewhere in
    /// its first bytes.
    pub fn is_json_with(&self, keys: &[&str]) -> bool {
        self.begins_with(b'{')
            && keys.iter().all(|key| {
                let quoted = format!("\"{key}\"");
                memchr::memmem::find(self.bytes, quoted.as_bytes()).is_some()
            })
    }

    /// Whether the bytes contain `text`.
    pub fn contains(&self, text: &str) -> bool {
        memchr::memmem::find(self.bytes, text.as_bytes()).is_some()
    }

    /// Its beginning for a message, without terminal control characters.
    pub(crate) fn shown(&self) -> String {
        shown(self.bytes)
    }
}

/// The beginning of some bytes for a message: at most 40 characters, control
/// characters escaped.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const MOST: usize = 40;
    let first = &bytes[..bytes.len().min(4 * MOST)];
    let text = String::from_utf8_lossy(first);
    let mut out = String::new();
    for (place, character) in text.chars().enumerate() {
        if place == MOST {
            out.push('…');
            break;
        }
        match character.is_control() {
            true => out.extend(character.escape_default()),
            false => out.push(character),
        }
    }
    out
}
