//! Annotations that users add to results: notes, and decisions on change points.

use jiff::Timestamp;
use punctual_model::{ChangeAnnotation, FromJson, Note, RecordingId, ToJson};
use rusqlite::{Connection, params};

use crate::bits::Crc;
use crate::entry::id_text;
use crate::error::Context;
use crate::texts::{self, check_note};
use crate::{Store, StoreError};

/// A table that stores JSON by ID.
#[derive(Clone, Copy)]
struct Kind {
    table: &'static str,
    word: &'static str,
}

const NOTE: Kind = Kind {
    table: "note",
    word: "note",
};
const CHANGE: Kind = Kind {
    table: "change_mark",
    word: "decision on a change",
};

impl Kind {
    fn crc(self, id: &str, json: &str) -> u32 {
        Crc::new(self.table, 0).text(id).text(json).end()
    }

    fn insert(self, store: &Store, id: RecordingId, what: &dyn ToJson) -> Result<(), StoreError> {
        let write = |connection: &Connection, context: &Context| {
            let put = self.put(connection, id, what);
            put.map_err(|error| context.on(error))
        };
        store.link.write(write)
    }

    fn put(
        self,
        connection: &Connection,
        id: RecordingId,
        what: &dyn ToJson,
    ) -> rusqlite::Result<()> {
        let json = what.to_json();
        let id = id_text(id);
        let crc = self.crc(&id, &json);
        let sql = format!(
            "INSERT INTO {} (id, json, crc) VALUES (?1, ?2, ?3)
             ON CONFLICT (id) DO UPDATE SET json = ?2, crc = ?3",
            self.table
        );
        connection
            .prepare_cached(&sql)?
            .execute(params![id, json, crc])
            .map(drop)
    }

    fn all<T: FromJson>(self, store: &Store) -> Result<Vec<T>, StoreError> {
        store.read(|connection, context| self.all_in(connection, context))
    }

    fn all_in<T: FromJson>(
        self,
        connection: &Connection,
        context: &Context,
    ) -> Result<Vec<T>, StoreError> {
        let on = |error| context.on(error);
        let sql = format!("SELECT id, json, crc FROM {}", self.table);
        let mut statement = connection.prepare_cached(&sql).map_err(on)?;
        let rows = statement
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .and_then(Iterator::collect::<rusqlite::Result<Vec<(String, String, u32)>>>)
            .map_err(on)?;
        let read = rows
            .iter()
            .map(|(id, json, crc)| self.read(context, id, json, *crc));
        read.collect()
    }

    fn read<T: FromJson>(
        self,
        context: &Context,
        id: &str,
        json: &str,
        crc: u32,
    ) -> Result<T, StoreError> {
        let shown = id.escape_debug();
        if self.crc(id, json) != crc {
            return Err(context.damaged(format!("{} {shown} was changed", self.word)));
        }
        T::from_json(json.as_bytes()).map_err(|error| {
            context.damaged(format!("{} {shown} cannot be read: {error}", self.word))
        })
    }
}

/// Gives the notes about a machine that delivers its new name. A damaged note is an error.
pub(crate) fn rename_machine(
    connection: &Connection,
    context: &Context,
    old: &str,
    new: &str,
) -> Result<(), StoreError> {
    let notes: Vec<Note> = NOTE.all_in(connection, context)?;
    let of_machine = |note: &Note| note.machine.as_deref() == Some(old);
    for note in notes.into_iter().filter(of_machine) {
        let note = Note {
            machine: Some(new.to_owned()),
            ..note
        };
        let put = NOTE.put(connection, note.id, &note);
        put.map_err(|error| context.on(error))?;
    }
    Ok(())
}

impl Store {
    /// Stores a note. Replaces a note with the same ID.
    ///
    /// # Errors
    /// [`StoreError::LongText`], [`StoreError::ManyNotes`], or any error while writing.
    pub fn put_note(&self, note: &Note) -> Result<(), StoreError> {
        check_note(self.path(), &self.notes()?, note)?;
        NOTE.insert(self, note.id, note)
    }

    /// Returns all notes, ordered by the time that they refer to.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], or any error while reading.
    pub fn notes(&self) -> Result<Vec<Note>, StoreError> {
        let mut all: Vec<Note> = NOTE.all(self)?;
        all.sort_by_key(|note| (note.at, note.id));
        Ok(all)
    }

    /// Removes a note. Returns whether it existed.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    pub fn delete_note(&self, id: RecordingId) -> Result<bool, StoreError> {
        self.link.write(|connection, context| {
            connection
                .prepare_cached("DELETE FROM note WHERE id = ?1")
                .and_then(|mut statement| statement.execute([id_text(id)]))
                .map(|count| count > 0)
                .map_err(|error| context.on(error))
        })
    }

    /// Stores a decision on a change point. Earlier decisions are kept.
    ///
    /// # Errors
    /// [`StoreError::LongText`], or any error while writing.
    pub fn put_change_mark(&self, mark: &ChangeAnnotation) -> Result<(), StoreError> {
        texts::check(self.path(), format!("decision {}", mark.id), mark)?;
        CHANGE.insert(self, mark.id, mark)
    }

    /// Returns all decisions on change points of one series or of all series, oldest first. If a
    /// change point has several decisions, the last one counts.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], or any error while reading.
    pub fn change_marks(&self, series: Option<&str>) -> Result<Vec<ChangeAnnotation>, StoreError> {
        let mut all: Vec<ChangeAnnotation> = CHANGE.all(self)?;
        all.retain(|mark| series.is_none_or(|series| mark.series == series));
        all.sort_by_key(|mark: &ChangeAnnotation| -> (Timestamp, RecordingId) {
            (mark.at, mark.id)
        });
        Ok(all)
    }
}
