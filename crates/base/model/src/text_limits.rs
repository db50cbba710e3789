//! Length limits of texts from other sources in a store, on a page and in a plot.

use crate::{Note, Recording};

/// The longest label of a recording, in characters.
pub const LONGEST_LABEL: usize = 256;
/// The longest name of a machine, in characters: the longest name in the DNS (RFC 1035, 2.3.4).
pub const LONGEST_HOST_NAME: usize = 253;
/// The longest note, in bytes.
pub const LONGEST_NOTE: usize = 4_096;
/// The largest number of notes in a store about one machine.
pub const MOST_NOTES: usize = 1_000;

/// A text that is longer than its limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {what} has {length} {unit}: at most {most} are allowed")]
pub struct TooLongText {
    what: &'static str,
    length: usize,
    unit: &'static str,
    most: usize,
}

impl Recording {
    /// Checks that its label and the name of its machine are within the limits.
    ///
    /// # Errors
    /// Returns the first text that is too long.
    pub fn check_texts(&self) -> Result<(), TooLongText> {
        check_label(self.label.as_deref().unwrap_or_default())?;
        check_host_name(self.host.hostname.get().map_or("", String::as_str))
    }
}

impl Note {
    /// Checks that its texts are within the limits.
    ///
    /// # Errors
    /// Returns the first text that is too long.
    pub fn check_texts(&self) -> Result<(), TooLongText> {
        check_host_name(self.machine.as_deref().unwrap_or_default())?;
        characters(
            "series",
            self.series.as_deref().unwrap_or_default(),
            LONGEST_LABEL,
        )?;
        characters("author", &self.author, LONGEST_LABEL)?;
        match self.text.len() {
            length if length > LONGEST_NOTE => Err(TooLongText {
                what: "note",
                length,
                unit: "bytes",
                most: LONGEST_NOTE,
            }),
            _ => Ok(()),
        }
    }
}

/// Checks that a label is within its limit.
///
/// # Errors
/// Fails if it is too long.
pub fn check_label(label: &str) -> Result<(), TooLongText> {
    characters("label", label, LONGEST_LABEL)
}

/// Checks that the name of a machine is within its limit.
///
/// # Errors
/// Fails if it is too long.
pub fn check_host_name(name: &str) -> Result<(), TooLongText> {
    characters("name of the machine", name, LONGEST_HOST_NAME)
}

fn characters(what: &'static str, text: &str, most: usize) -> Result<(), TooLongText> {
    match text.chars().count() {
        length if length > most => Err(TooLongText {
            what,
            length,
            unit: "characters",
            most,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_itself_is_allowed_and_counts_characters() {
        assert_eq!(check_label(&"µ".repeat(LONGEST_LABEL)), Ok(()));
        let error = check_label(&"x".repeat(60_000)).unwrap_err().to_string();
        assert_eq!(
            error,
            "the label has 60000 characters: at most 256 are allowed"
        );
        assert!(check_host_name(&"x".repeat(LONGEST_HOST_NAME + 1)).is_err());
    }
}
