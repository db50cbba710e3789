//! Finds a recording by the user's input.

use punctual_model::RecordingId;
use rusqlite::{OptionalExtension, Statement, params};
use uuid::Uuid;

use crate::filter::WITHOUT_BLOCKS;
use crate::{Store, StoreError};

/// Minimum number of digits, because shorter input would often match by accident.
const FEWEST: usize = 4;

/// A way to read the user's input.
#[derive(Debug, PartialEq)]
pub enum Selector {
    /// `last` or `last~N`: the Nth recording before the newest.
    Last(u32),
    /// Hexadecimal digits, in lower case and without hyphens.
    Digits(String),
    /// `LABEL` or `LABEL~N`: the Nth recording before the newest of those with this label.
    Label(String, u32),
}

impl Selector {
    /// Returns all ways to read the input. The first that finds a recording is meant.
    pub fn readings(text: &str) -> Vec<Self> {
        let text = text.trim();
        let (name, back) = match text.rsplit_once('~') {
            // `u32::from_str` would also accept "+3".
            Some((name, back)) if back.bytes().all(|b| b.is_ascii_digit()) => {
                (name, back.parse().ok())
            }
            _ => (text, Some(0)),
        };
        let mut all = Vec::new();
        if let Some(back) = back.filter(|_| name.eq_ignore_ascii_case("last")) {
            all.push(Self::Last(back));
        }
        let digits = text.replace('-', "").to_ascii_lowercase();
        if digits.bytes().all(|b| b.is_ascii_hexdigit()) && (FEWEST..=32).contains(&digits.len()) {
            all.push(Self::Digits(digits));
        }
        all.push(Self::Label(text.to_owned(), 0));
        all.extend(back.map(|back| Self::Label(name.to_owned(), back)));
        all.dedup();
        all
    }

    /// Returns what the first of all readings finds.
    ///
    /// # Errors
    /// Returns the first error of `find`.
    pub fn first<T>(
        text: &str,
        mut find: impl FnMut(&Self) -> Result<Vec<T>, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        for reading in Self::readings(text) {
            let found = find(&reading)?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
        Ok(Vec::new())
    }
}

impl Store {
    /// Finds the recording for `selector`: its ID, at least four digits from the beginning or end
    /// of the ID (with or without hyphens), `last` for the newest, or `last~N` for the Nth before
    /// that; or its label, for the newest with this label, or `LABEL~N`. Includes running
    /// recordings, but blocks of experiments only by their ID.
    ///
    /// # Errors
    /// [`StoreError::NoSuch`], [`StoreError::Ambiguous`], or any error while reading.
    pub fn find(&self, selector: &str) -> Result<RecordingId, StoreError> {
        let mut found = Selector::first(selector, |reading| self.candidates(reading))?;
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
        // Blocks of experiments are not listed, so they do not count here.
        let newest = |condition: &str, label: Option<&str>, back: u32| {
            let sql = format!(
                "SELECT id FROM recording WHERE {WITHOUT_BLOCKS} AND {condition}
                ORDER BY started_ns DESC, id DESC LIMIT 1 OFFSET ?2"
            );
            let mut statement = prepare(&sql)?;
            let row = statement.query_row(params![label, back], |row| row.get(0));
            Ok(row.optional().map_err(on)?.into_iter().collect())
        };
        let texts: Vec<String> = match selector {
            Selector::Last(back) => newest("?1 IS NULL", None, *back)?,
            Selector::Label(label, back) => newest("label = ?1", Some(label), *back)?,
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
        let digits = |text: &str| Selector::Digits(text.to_owned());
        let label = |text: &str, back| Selector::Label(text.to_owned(), back);
        for (text, readings) in [
            ("last", vec![Selector::Last(0), label("last", 0)]),
            (
                "LAST~12",
                vec![Selector::Last(12), label("LAST~12", 0), label("LAST", 12)],
            ),
            ("019A-4d1c", vec![digits("019a4d1c"), label("019A-4d1c", 0)]),
            (" 9abc\n", vec![digits("9abc"), label("9abc", 0)]),
            (
                "kernel-6.12~2",
                vec![label("kernel-6.12~2", 0), label("kernel-6.12", 2)],
            ),
            ("abc", vec![label("abc", 0)]),
            ("last~-1", vec![label("last~-1", 0)]),
            ("last~+1", vec![label("last~+1", 0)]),
            ("last~99999999999", vec![label("last~99999999999", 0)]),
            ("last~", vec![label("last~", 0)]),
            ("%%%%", vec![label("%%%%", 0)]),
        ] {
            assert_eq!(Selector::readings(text), readings, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,20}") {
            let _ = Selector::readings(&text);
        }
    }
}
