//! The journal of a program that changes settings.

use std::path::{Path, PathBuf};
use std::time::Duration;

use punctual_host::Host;
use punctual_model::Setting;

use crate::accessors::access;
use crate::fs::{FileSystem, Files};
use crate::lock::Lock;
use crate::record::{Committed, JournalEntry, Owner, Pending, State};
use crate::target::Target;
use crate::undo::{UndoJournal, undo_after};
use crate::validity::{check, check_kept};
use crate::{Restored, TuneError};

/// The changes that a program has made and not yet undone.
///
/// While it is open, no other program can open it or another journal at the same path. Dropping it
/// undoes the remaining changes. Changes that cannot be undone, and the changes of a program that
/// was killed, stay on disk for [`recover`](crate::recover).
pub struct Journal {
    undo: Box<UndoJournal>,
    _lock: Lock,
}

/// A change that was made and verified.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Change {
    /// The setting.
    pub setting: &'static str,
    /// Name of the instance; empty if there is only one.
    pub instance: String,
    /// Old value.
    pub old: String,
    /// New value. If it equals the old one, nothing was written.
    pub new: String,
}

impl Journal {
    /// Opens the journal at `path` for changes to `host`, creating its folders. Overwrites an
    /// earlier journal whose changes have been undone.
    ///
    /// # Errors
    /// Returns [`TuneError::Locked`] while another program has it open, [`TuneError::Pending`] if
    /// changes of an earlier journal are still in force (call [`recover`](crate::recover) first),
    /// [`TuneError::Damaged`], [`TuneError::Unidentified`] or [`TuneError::Journal`].
    pub fn open(path: &Path, host: &Host) -> Result<Self, TuneError> {
        Self::open_on(Box::new(Files), path, host)
    }

    pub(crate) fn open_on(
        files: Box<dyn FileSystem>,
        path: &Path,
        host: &Host,
    ) -> Result<Self, TuneError> {
        let lock = Lock::take(path, Duration::ZERO)?;
        let mut book = UndoJournal::read(files, path, host)?;
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
        book.write(JournalEntry::Owner(Owner::this(host)?))?;
        Ok(Self {
            undo: Box::new(book),
            _lock: lock,
        })
    }

    /// Returns the path of the journal.
    pub fn path(&self) -> &PathBuf {
        &self.undo.path
    }

    /// Sets `setting` to `value`: reads the old value, writes both values to the journal, waits
    /// until they are on disk, makes the change, and reads it back. If a change fails, it is undone
    /// immediately if possible.
    ///
    /// # Errors
    /// Returns an error if the kernel does not offer the value, or if the journal cannot be
    /// written, in which case nothing was changed. Also returns [`TuneError::Write`] and
    /// [`TuneError::NotVerified`].
    pub fn apply(&mut self, setting: &'static Setting, value: &str) -> Result<Change, TuneError> {
        self.apply_to(setting, "", value)
    }

    /// Changes one instance of a setting, such as a CPU or an interrupt, like
    /// [`apply`](Self::apply).
    ///
    /// # Errors
    /// Returns the errors of [`apply`](Self::apply), and an error if the instance does not exist.
    pub fn apply_to(
        &mut self,
        setting: &'static Setting,
        instance: &str,
        value: &str,
    ) -> Result<Change, TuneError> {
        let book = &mut self.undo;
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
        // A change is made only if the old value can be restored.
        for value in [&old, value] {
            check_kept(setting, &book.target(), instance, value)?;
        }
        let number = book.state.made + 1;
        book.write(JournalEntry::Change(Pending {
            number,
            setting: setting.name.to_owned(),
            instance: instance.to_owned(),
            old,
            new: value.to_owned(),
        }))?;
        match book.set(setting, instance, value) {
            Ok(()) => Ok(change),
            Err(error) => {
                // If this fails, the change stays pending.
                let _ = if access.has_vanished(&error) {
                    // The file disappeared before it accepted the value, so there is nothing to
                    // undo.
                    book.write(JournalEntry::Undone { number })
                } else {
                    book.undo_last()
                };
                Err(error)
            }
        }
    }

    /// Returns the machine, for access to settings.
    pub(crate) fn target(&self) -> Target<'_> {
        self.undo.target()
    }

    /// Returns the number of changes that have not been undone.
    pub fn pending(&self) -> usize {
        self.undo.state.pending.len()
    }

    /// Keeps the changes until a revert undoes them.
    pub(crate) fn keep(mut self, kept: Committed) -> Result<(), TuneError> {
        // If this fails, dropping the journal undoes them.
        self.undo.write(JournalEntry::Kept(kept))
    }

    /// Undoes all changes, the last one first. Changes that cannot be undone stay in the journal.
    /// The next call tries them again, and so do dropping the journal and
    /// [`recover`](crate::recover).
    ///
    /// # Errors
    /// Returns [`TuneError::NotRestored`] with the settings that were restored and those that were
    /// not.
    pub fn revert_all(&mut self) -> Result<Vec<Restored>, TuneError> {
        self.revert_after(0)
    }

    /// Undoes the pending changes except the first `stay`, the last one first.
    ///
    /// # Errors
    /// Returns the errors of [`revert_all`](Self::revert_all).
    pub fn revert_after(&mut self, stay: usize) -> Result<Vec<Restored>, TuneError> {
        undo_after(&mut self.undo, stay)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Callers that need the result must call revert_all(). Changes that cannot be undone stay
        // in the journal on disk.
        if !self.undo.state.stays() {
            let _ = self.revert_all();
        }
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state: &State = &self.undo.state;
        f.debug_struct("Journal")
            .field("path", &self.undo.path)
            .field("pending", &state.pending)
            .finish_non_exhaustive()
    }
}
