//! Access to files that exist once per device, group or other name.

use punctual_model::{Reading, path_matches};

use super::{FactReader, Missing};

/// The files of a pattern.
pub(crate) struct Found<'a> {
    /// Path and text of each file that could be read.
    pub(crate) texts: Vec<(&'a str, &'a str)>,
    /// The reason why a file could not be read, if there is such a file.
    pub(crate) refused: Option<String>,
}

impl<'a> FactReader<'a> {
    /// Returns the files of a pattern, or the reason why there are none. Does not record them as
    /// evidence: the check itself records the relevant ones with [`saw`](Self::saw). If some files
    /// could be read, the others are left out.
    pub(crate) fn files(&self, pattern: &str) -> Result<Vec<(&'a str, &'a str)>, Missing> {
        let found = self.find(pattern)?;
        match (found.texts.is_empty(), found.refused) {
            (true, Some(why)) => {
                self.could_not(pattern, &why);
                Err(Missing::Unknown(why))
            }
            _ => Ok(found.texts),
        }
    }

    /// Returns the files of a pattern like [`files`](Self::files), but also reports a file that
    /// could not be read.
    pub(crate) fn find(&self, pattern: &str) -> Result<Found<'a>, Missing> {
        let start = pattern.find(['*', '#']).unwrap_or(pattern.len());
        let prefix = &pattern[..start];
        let mut found = Found {
            texts: Vec::new(),
            refused: None,
        };
        for (file, reading) in self.facts.files.range(prefix.to_owned()..) {
            if !file.starts_with(prefix) {
                break;
            }
            if file == pattern || !path_matches(pattern, file) {
                continue;
            }
            match reading {
                Reading::Text(text) => found.texts.push((file.as_str(), text.as_str())),
                Reading::Unreadable(why) => found.refused = Some(format!("{file}: {why}")),
                Reading::Absent => {}
            }
        }
        if found.texts.is_empty() && found.refused.is_none() {
            // If nothing matched, the reason is in the entry for the pattern itself.
            return Err(match self.text(pattern) {
                Ok(_) => Missing::unknown(format!("{pattern} is not a file")),
                Err(missing) => missing,
            });
        }
        Ok(found)
    }
}
