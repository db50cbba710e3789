//! Limits on texts: a check shared by all kinds of store, and the handling of entries that fail it
//! in a merge or a copy.

use std::fmt::Display;
use std::path::PathBuf;

use punctual_model::{BoundedTexts, MOST_NOTES, Note};
use serde::Serialize;

use crate::StoreError;

/// Checks that all texts of `thing` are within their limits. `store` is its path, or the name of
/// its database.
pub fn check(
    store: impl Into<PathBuf>,
    what: impl Display,
    thing: &impl BoundedTexts,
) -> Result<(), StoreError> {
    thing.check_texts().map_err(|source| StoreError::LongText {
        path: store.into(),
        what: what.to_string(),
        source,
    })
}

/// Checks whether a note may be added to the notes in `known`.
pub fn check_note(
    store: impl Into<PathBuf>,
    known: &[Note],
    note: &Note,
) -> Result<(), StoreError> {
    let store = store.into();
    check(&store, format!("note {}", note.id), note)?;
    let others = known.iter().filter(|known| known.id != note.id);
    match others.filter(|known| known.machine == note.machine).count() {
        count if count >= MOST_NOTES => Err(StoreError::ManyNotes {
            path: store,
            most: MOST_NOTES,
        }),
        _ => Ok(()),
    }
}

/// Entries of another store that were left out, because a text is too long or a quota is full. They
/// stay in the other store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Number of these entries.
    pub left_out: u64,
    /// Reason why the first of them was left out; `None` if there are none.
    pub left_out_why: Option<String>,
}

impl LeftOut {
    /// Counts a refused entry and returns `None` for it. Returns other errors.
    pub(crate) fn pass<T>(
        &mut self,
        result: Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(why) if why.is_refusal() => {
                self.add(why);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Counts an entry that is left out.
    pub(crate) fn add(&mut self, why: impl ToString) {
        self.left_out += 1;
        self.left_out_why.get_or_insert_with(|| why.to_string());
    }
}
