//! The journal of a program that changes settings.

use std::path::{Path, PathBuf};
use std::time::Duration;

use punctual_host::Host;
use punctual_model::Setting;

use crate::accessors::access;
use crate::fs::{FileSystem, Files};
use crate::lock::Lock;
use crate::record::{Kept, Owner, Pending, Record, State};
use crate::target::Target;
use crate::undo::{Book, undo_after};
use crate::validity::{check, check_kept};
use crate::{Restored, TuneError};

/// A program's changes, from the first to their undoing.
///
/// While it is open no other program can open it, nor any journal at the same
/// place. Dropped, it undoes what has not been undone; what that cannot do, and
/// what a killed program leaves, stays on disk for [`recover`](crate::recover).
pub struct Journal {
    book: Box<Book>,
    _lock: Lock,
}

/// A change that was made and verified.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, crate::JsonSchema)]
pub struct Change {
    /// The setting.
    #[serde(rename = "knob")]
    pub setting: &'static str,
    /// Which of several; empty where there is one only.
    pub instance: String,
    /// What it was.
    pub old: String,
    /// What it is; where it was so before, nothing was written.
    pub new: String,
}

impl Journal {
    /// Opens the journal at `path` for changes of `host`; folders are made where
    /// there are none. An earlier journal whose changes are undone is written
    /// over.
    ///
    /// # Errors
    /// [`TuneError::Locked`] while another program has it open,
    /// [`TuneError::Pending`] where an earlier one's changes are still in force
    /// ([`recover`](crate::recover) first), [`TuneError::Damaged`],
    /// [`TuneError::Unidentified`], [`TuneError::Journal`].
    pub fn open(path: &Path, host: &Host) -> Result<Self, TuneError> {
        Self::open_on(Box::new(Files), path, host)
    }

    pub(crate) fn open_on(
        files: Box<dyn FileSystem>,
        path: &Path,
        host: &Host,
    ) -> Result<Self, TuneError> {
        let lock = Lock::take(path, Duration::ZERO)?;
        let mut book = Book::read(files, path, host)?;
        if book.is_of_this_boot()? {
            if let Some(line) = book.state.damaged_line {
                return Err(book.damaged(line));
            }
            if !book.state.pending.is_empty() {
                return Err(TuneError::Pending {
                    path: path.to_owned(),
                });
            }
        }
        book.start_anew()?;
        book.write(Record::Owner(Owner::this(host)?))?;
        Ok(Self {
            book: Box::new(book),
            _lock: lock,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &PathBuf {
        &self.book.path
    }

    /// Sets `setting` to `value`: reads the old one, writes both to the journal and
    /// waits until they are on disk, makes the change, and reads it back. A
    /// change that fails is undone at once, as far as it can be.
    ///
    /// # Errors
    /// A value that the kernel does not offer; a journal that cannot be written
    /// (then nothing was changed); [`TuneError::Write`];
    /// [`TuneError::NotVerified`].
    pub fn apply(&mut self, setting: &'static Setting, value: &str) -> Result<Change, TuneError> {
        self.apply_to(setting, "", value)
    }

    /// [`apply`](Self::apply) for one of several: a CPU, an interrupt.
    ///
    /// # Errors
    /// As [`apply`](Self::apply); an instance that is not there.
    pub fn apply_to(
        &mut self,
        setting: &'static Setting,
        instance: &str,
        value: &str,
    ) -> Result<Change, TuneError> {
        let book = &mut self.book;
        check(setting, &book.target(), instance, value)?;
        let access = access(setting);
        let old = access.read(&book.target(), instance)?;
        let change = Change {
            setting: setting.name,
            instance: instance.to_owned(),
            old: old.clone(),
            new: value.to_owned(),
        };
        if access.same(&old, value) {
            return Ok(change);
        }
        // Only what can be put back is changed.
        for value in [&old, value] {
            check_kept(setting, &book.target(), instance, value)?;
        }
        let number = book.state.made + 1;
        book.write(Record::Change(Pending {
            number,
            setting: setting.name.to_owned(),
            instance: instance.to_owned(),
            old,
            new: value.to_owned(),
        }))?;
        match book.set(setting, instance, value) {
            Ok(()) => Ok(change),
            Err(error) => {
                // What these cannot do stays pending.
                let _ = match access.has_vanished(&error) {
                    // It went before it took the value: there is nothing to
                    // undo, and nothing to undo it on.
                    true => book.write(Record::Undone { number }),
                    false => book.undo_last(),
                };
                Err(error)
            }
        }
    }

    /// The machine, as the settings see it.
    pub(crate) fn target(&self) -> Target<'_> {
        self.book.target()
    }

    /// How many changes are not undone.
    pub fn pending(&self) -> usize {
        self.book.state.pending.len()
    }

    /// Lets the changes stay: nothing but a revert undoes them.
    pub(crate) fn keep(mut self, kept: Kept) -> Result<(), TuneError> {
        // Where this fails, being dropped undoes them.
        self.book.write(Record::Kept(kept))
    }

    /// Undoes all changes, the last first. What could not be undone stays in the
    /// journal, and is tried again by the next call, by dropping it, or by
    /// [`recover`](crate::recover).
    ///
    /// # Errors
    /// [`TuneError::NotRestored`], with what was undone and what was not.
    pub fn revert_all(&mut self) -> Result<Vec<Restored>, TuneError> {
        self.revert_after(0)
    }

    /// Undoes all changes but the first `stay` of those that are not undone, the last
    /// first.
    ///
    /// # Errors
    /// As [`revert_all`](Self::revert_all).
    pub fn revert_after(&mut self, stay: usize) -> Result<Vec<Restored>, TuneError> {
        undo_after(&mut self.book, stay)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Who wants to know calls revert_all(); what fails here stays on disk.
        if !self.book.state.stays() {
            let _ = self.revert_all();
        }
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state: &State = &self.book.state;
        f.debug_struct("Journal")
            .field("path", &self.book.path)
            .field("pending", &state.pending)
            .finish_non_exhaustive()
    }
}
