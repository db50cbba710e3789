//! The syntax of `tuned.conf`, as Python's `configparser` reads it for TuneD: sections with lines
//! `name = value`, comments, and values that continue on indented lines.

use std::path::{Path, PathBuf};

use punctual_files::Budget;

use crate::TuneError;
use crate::profile::Spot;

/// Maximum size of a file. TuneD's own profiles have a few kilobytes.
const LARGEST: u64 = 1 << 18;

/// Maximum number of lines of a file. TuneD's own profiles have at most a few hundred.
const MOST_LINES: usize = 10_000;

/// A line `name = value`.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) file: PathBuf,
    /// Line, counted from 1.
    pub(super) line: usize,
}

impl Entry {
    /// Returns the file and line, for messages.
    pub(super) fn at(&self) -> String {
        format!("{}:{}", self.file.display(), self.line)
    }
}

/// A section. The lines of a file of variables form one section without a name.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) entries: Vec<Entry>,
    /// The file and line of its header.
    pub(super) at: String,
}

impl Section {
    /// Returns an option.
    pub(super) fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// Removes an option and returns it.
    pub(super) fn take(&mut self, name: &str) -> Option<Entry> {
        let place = self.entries.iter().position(|entry| entry.name == name)?;
        Some(self.entries.remove(place))
    }
}

/// The kind of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A profile: each line belongs to a section.
    Profile,
    /// A file of variables: lines before the first section are allowed.
    Variables,
}

/// Reads and parses a file. `by` is the line that names the file; empty if the user did.
///
/// # Errors
/// Returns an error if the file cannot be read, is larger than 256 KiB or is not UTF-8, and an error
/// with line and column if it is not in the format.
pub(super) fn read(path: &Path, kind: Kind, by: &str) -> Result<Vec<Section>, TuneError> {
    let failed = |why: String| TuneError::TunedProfile {
        name: path.display().to_string(),
        why: if by.is_empty() {
            why
        } else {
            format!("{why} (named in {by})")
        },
    };
    // Opening a named pipe would wait for its writer.
    if path.metadata().is_ok_and(|about| !about.is_file()) {
        return Err(failed("this is not a regular file".to_owned()));
    }
    let bytes = Budget::bytes(LARGEST)
        .read(path)
        .map_err(|error| failed(error.reason()))?;
    match std::str::from_utf8(&bytes) {
        Ok(text) => parse(path, text, kind),
        Err(error) => {
            let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            Err(TuneError::TunedProfile {
                name: format!("{}:{line}", path.display()),
                why: "the line is not UTF-8 text".to_owned(),
            })
        }
    }
}

/// Returns a line without its comment. A `#` begins a comment at the start, or after a space.
fn without_comment(line: &str) -> &str {
    let mut end = line.len();
    for (place, _) in line.match_indices('#') {
        if line[..place]
            .chars()
            .next_back()
            .is_none_or(char::is_whitespace)
        {
            end = place;
            break;
        }
    }
    line[..end].trim_end()
}

/// Parses the text of a file.
///
/// # Errors
/// Returns an error with file, line and column.
pub(super) fn parse(path: &Path, text: &str, kind: Kind) -> Result<Vec<Section>, TuneError> {
    let file = path.display().to_string();
    let mut sections: Vec<Section> = Vec::new();
    if kind == Kind::Variables {
        sections.push(Section {
            name: String::new(),
            entries: Vec::new(),
            at: format!("{file}:1"),
        });
    }
    // The indentation of the option that the next lines can continue.
    let mut indent_of_option = None;
    let mut start = 0;
    for (number, whole) in (1..).zip(text.split('\n')) {
        let span = start..start + whole.len();
        start += whole.len() + 1;
        let error = |message: &str| Spot::new(&file, text, span.clone()).error(message);
        if number > MOST_LINES {
            return Err(error(&format!("the file has more than {MOST_LINES} lines")));
        }
        if whole.trim_start().starts_with(';') {
            continue;
        }
        let line = without_comment(whole);
        if line.is_empty() {
            continue;
        }
        if line.chars().any(|c| c.is_control() && c != '\t') {
            return Err(error("the line contains a control character"));
        }
        let indent = line.len() - line.trim_start().len();
        let line = line.trim_start();
        let last = sections.last_mut();
        if let (Some(above), Some(section)) = (indent_of_option, last)
            && indent > above
            && let Some(option) = section.entries.last_mut()
        {
            option.value.push(' ');
            option.value.push_str(line);
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let name = rest
                .strip_suffix(']')
                .filter(|name| !name.trim().is_empty());
            let name = name.ok_or_else(|| {
                error("write a section as a name in brackets on a separate line, such as [sysctl]")
            })?;
            if let Some(first) = sections.iter().find(|section| section.name == name) {
                let first = &first.at;
                return Err(error(&format!(
                    "the section [{name}] is already at {first}: join the two"
                )));
            }
            indent_of_option = None;
            sections.push(Section {
                name: name.to_owned(),
                entries: Vec::new(),
                at: format!("{file}:{number}"),
            });
            continue;
        }
        let (name, value) = line
            .split_once('=')
            .ok_or_else(|| error("this is neither a section [NAME] nor an option NAME = VALUE"))?;
        let name = name.trim();
        if name.is_empty() {
            return Err(error("the name before '=' is missing"));
        }
        let section = sections
            .last_mut()
            .ok_or_else(|| error("this line is above the first section"))?;
        if let Some(first) = section.get(name) {
            let first = first.line;
            return Err(error(&format!(
                "'{name}' is already in line {first} of this section: remove one of the two"
            )));
        }
        indent_of_option = Some(indent);
        section.entries.push(Entry {
            name: name.to_owned(),
            value: value.trim().to_owned(),
            file: path.to_owned(),
            line: number,
        });
    }
    Ok(sections)
}
