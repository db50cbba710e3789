//! The first bytes of a file, used to recognise its format.

/// The first bytes of a file: at most [`Head::LENGTH`].
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Whether these are all the bytes of the file.
    pub whole: bool,
}

impl<'a> Head<'a> {
    /// Number of bytes that are examined.
    pub const LENGTH: usize = 64 * 1024;

    /// Returns the lines as text, omitting an incomplete last line. Invalid UTF-8 is replaced.
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

    /// Returns whether the first byte after white space is `byte`: `{` for JSON, `<` for XML.
    pub fn begins_with(&self, byte: u8) -> bool {
        self.bytes.trim_ascii_start().first() == Some(&byte)
    }

    /// Returns whether the file is a JSON object with all of these keys somewhere in its first
    /// bytes.
    pub fn is_json_with(&self, keys: &[&str]) -> bool {
        self.begins_with(b'{')
            && keys.iter().all(|key| {
                let quoted = format!("\"{key}\"");
                memchr::memmem::find(self.bytes, quoted.as_bytes()).is_some()
            })
    }

    /// Returns whether the bytes contain `text`.
    pub fn contains(&self, text: &str) -> bool {
        memchr::memmem::find(self.bytes, text.as_bytes()).is_some()
    }

    /// Returns the beginning for a message, without terminal control characters.
    pub(crate) fn shown(&self) -> String {
        shown(self.bytes)
    }
}

/// Returns the beginning of some bytes for a message: at most 40 characters, control characters
/// escaped.
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
        if character.is_control() {
            out.extend(character.escape_default())
        } else {
            out.push(character)
        }
    }
    out
}
