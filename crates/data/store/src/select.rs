//! Finds a recording by the user's input.

use punctual_model::RecordingId;
use rusqlite::{OptionalExtension, Statement, params};
use uuid::Uuid;

use crate::filter::WITHOUT_BLOCKS;
use crate::{Store, StoreError};

/// Minimum number of digits, because shorter input would often match by accident.
const FEWEST: usize = 4;

/// Parsed input.
#[derive(Debug, PartialEq)]
pub enum Selector {
    /// `last` or `last~N`: the Nth recording before the newest.
    Last(u32),
    /// Hexadecimal digits, in lower case and without hyphens.
    Digits(String),
}

impl Selector {
    /// Parses the input; `None` if it cannot be a selector.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        if let Some(rest) = text.strip_prefix("last") {
            let back = match rest.strip_prefix('~') {
                // `u32::from_str` would also accept "+3".
                Some(number) if number.bytes().all(|b| b.is_ascii_digit()) => {
                    number.parse().ok()?
                }
                None if rest.is_empty() => 0,
                _ => return None,
            };
            return Some(Self::Last(back));
        }
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        let fits = digits.bytes().all(|b| b.is_ascii_hexdigit());
        (fits && (FEWEST..=32).contains(&digits.len())).then_some(Self::Digits(digits))
    }
}

impl Store {
    /// Finds the recording for `selector`: its ID, at least four digits from the beginning or end
    /// of the ID (with or without hyphens), `last` for the newest, or `last~N` for the Nth before
    /// that. Includes running recordings, but not blocks of experiments.
    ///
    /// # Errors
    /// [`StoreError::NotASelector`], [`StoreError::NoSuch`], [`StoreError::Ambiguous`], or any
    /// error while reading.
    pub fn find(&self, selector: &str) -> Result<RecordingId, StoreError> {
        let parsed = Selector::parse(selector).ok_or_else(|| StoreError::NotASelector {
            selector: selector.to_owned(),
        })?;
        let mut found = self.candidates(&parsed)?;
        match found.len() {
            0 => Err(StoreError::NoSuch {
                path: self.path().to_owned(),
                selector: selector.to_owned(),
            }),
            1 => Ok(found.remove(0)),
            _ => Err(StoreError::Ambiguous {
                selector: selector.to_owned(),
                candidates: found,
            }),
        }
    }

    fn candidates(&self, selector: &Selector) -> Result<Vec<RecordingId>, StoreError> {
        let link = &self.link;
        link.begin_work();
        let on = |error| link.context.on(error);
        let prepare = |sql: &str| link.connection.prepare_cached(sql).map_err(on);
        let texts: Vec<String> = match selector {
            Selector::Last(back) => {
                // Blocks of experiments are not listed, so they do not count here.
                let sql = format!(
                    "SELECT id FROM recording WHERE {WITHOUT_BLOCKS}
                    ORDER BY started_ns DESC, id DESC LIMIT 1 OFFSET ?1"
                );
                let mut statement = prepare(&sql)?;
                let row = statement.query_row([back], |row| row.get(0));
                row.optional().map_err(on)?.into_iter().collect()
            }
            Selector::Digits(digits) => {
                let sql = "SELECT id FROM recording
                    WHERE substr(id, 1, ?2) = ?1 OR substr(id, -?2) = ?1
                    ORDER BY started_ns DESC, id DESC";
                let read = |statement: &mut Statement<'_>| -> rusqlite::Result<Vec<String>> {
                    statement
                        .query_map(params![digits, digits.len() as i64], |row| row.get(0))?
                        .collect()
                };
                read(&mut *prepare(sql)?).map_err(on)?
            }
        };
        texts
            .iter()
            .map(|text| {
                Uuid::try_parse(text).map(RecordingId).map_err(|_| {
                    link.context.damaged(format!(
                        "'{text}' is stored as an ID, but is not a valid ID"
                    ))
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_type_is_understood() {
        let digits = |text: &str| Some(Selector::Digits(text.to_owned()));
        assert_eq!(Selector::parse("last"), Some(Selector::Last(0)));
        assert_eq!(Selector::parse("LAST~12"), Some(Selector::Last(12)));
        assert_eq!(Selector::parse("019A-4d1c"), digits("019a4d1c"));
        assert_eq!(Selector::parse(" 9abc\n"), digits("9abc"));
        for text in [
            "",
            "abc",
            "last~",
            "last~-1",
            "last~+1",
            "last1",
            "last~99999999999",
            "xyzw",
            "%%%%",
            "019a4d1c7b3a700080001234567890ab0",
        ] {
            assert_eq!(Selector::parse(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,20}") {
            let _ = Selector::parse(&text);
        }
    }
}
