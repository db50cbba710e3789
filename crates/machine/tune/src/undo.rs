//! Undoes the changes of a journal.

use std::io;
use std::path::{Path, PathBuf};

use punctual_host::Host;
use punctual_model::Setting;

use crate::accessors::access;
use crate::fs::FileSystem;
use crate::record::{JournalEntry, Pending, State};
use crate::restored::{How, Restored};
use crate::setting::setting;
use crate::target::Target;
use crate::validity::check_kept;
use crate::{Failure, TuneError};

/// A journal's file, the state that it describes, and the machine that it changed. The caller must
/// hold the lock.
pub(crate) struct UndoJournal {
    pub(crate) files: Box<dyn FileSystem>,
    pub(crate) path: PathBuf,
    pub(crate) host: Host,
    pub(crate) state: State,
    /// The error that prevented the journal from being written while changes were being undone.
    pub(crate) unwritten: Option<io::Error>,
}

impl UndoJournal {
    /// Reads the journal. If there is no journal, it counts as empty.
    pub(crate) fn read(
        files: Box<dyn FileSystem>,
        path: &Path,
        host: &Host,
    ) -> Result<Self, TuneError> {
        let mut book = Self {
            files,
            path: path.to_owned(),
            host: host.clone(),
            state: State::default(),
            unwritten: None,
        };
        book.reread()?;
        Ok(book)
    }

    pub(crate) fn reread(&mut self) -> Result<(), TuneError> {
        self.state = match self.files.read_own(&self.path) {
            Ok(text) => State::read(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => State::default(),
            Err(source) => return Err(self.failed("read", source)),
        };
        Ok(())
    }

    /// Returns whether the journal's changes could still be in force. A journal without a boot ID
    /// is assumed to be from this boot.
    pub(crate) fn is_of_this_boot(&self) -> Result<bool, TuneError> {
        match &self.state.owner {
            Some(owner) => owner.is_of_this_boot(&self.host),
            None => Ok(true),
        }
    }

    /// Empties the journal.
    pub(crate) fn start_anew(&mut self) -> Result<(), TuneError> {
        let cut = self.files.truncate(&self.path, 0);
        cut.map_err(|source| self.failed("empty", source))?;
        self.state = State::default();
        Ok(())
    }

    /// Adds a record, and returns once it is on disk.
    pub(crate) fn write(&mut self, record: JournalEntry) -> Result<(), TuneError> {
        self.add(record)
            .map_err(|source| self.failed("write", source))
    }

    /// Adds a record while changes are being undone. If the journal cannot be written, the changes
    /// are still undone, and [`undo_all`] returns the error at the end.
    pub(crate) fn note(&mut self, record: JournalEntry) {
        if let Err(source) = self.add(record.clone()) {
            self.unwritten.get_or_insert(source);
            self.state.take(record);
        }
    }

    fn add(&mut self, record: JournalEntry) -> io::Result<()> {
        let length = self.state.sound_bytes;
        let line = record.line();
        // Removes the remains of an earlier record that could not be written completely.
        self.files.truncate(&self.path, length)?;
        self.files.append(&self.path, line.as_bytes())?;
        self.files.sync(&self.path)?;
        self.state.sound_bytes += line.len() as u64;
        self.state.take(record);
        Ok(())
    }

    /// Returns the machine, for access to settings.
    pub(crate) fn target(&self) -> Target<'_> {
        Target {
            files: self.files.as_ref(),
            host: &self.host,
            journal: &self.path,
        }
    }

    /// Writes a setting and reads it back.
    pub(crate) fn set(
        &self,
        setting: &Setting,
        instance: &str,
        value: &str,
    ) -> Result<(), TuneError> {
        let target = self.target();
        let access = access(setting);
        access.write(&target, instance, value)?;
        let found = access.read(&target, instance)?;
        if access.same(&found, value) {
            return Ok(());
        }
        Err(TuneError::NotVerified {
            path: access
                .file(&target, instance)
                .unwrap_or_else(|| setting.path().into()),
            value: value.to_owned(),
            found,
        })
    }

    /// Undoes the last pending change.
    pub(crate) fn undo_last(&mut self) -> Result<(), TuneError> {
        let Some(change) = self.state.pending.last().cloned() else {
            return Ok(());
        };
        self.undo(&change)?;
        self.write(JournalEntry::Undone {
            number: change.number,
        })
    }

    /// Restores the old value of one change. The journal's text is checked as if it were untrusted.
    fn undo(&self, change: &Pending) -> Result<How, TuneError> {
        let setting = setting(&change.setting)?;
        let access = access(setting);
        let (target, instance) = (self.target(), change.instance.as_str());
        for value in [&change.old, &change.new] {
            check_kept(setting, &target, instance, value)?;
        }
        if access.is_gone(&target, instance) {
            return Ok(How::Gone);
        }
        let found = access.read(&target, instance)?;
        if access.same(&found, &change.old) {
            return Ok(How::WasThere);
        }
        self.set(setting, instance, &change.old)?;
        Ok(How::Written {
            ours: access.same(&found, &change.new),
            found,
        })
    }

    pub(crate) fn damaged(&self, line: usize) -> TuneError {
        TuneError::Damaged {
            path: self.path.clone(),
            line,
        }
    }

    fn failed(&self, what: &'static str, source: io::Error) -> TuneError {
        TuneError::Journal {
            what,
            path: self.path.clone(),
            source,
        }
    }
}

/// Undoes all pending changes in reverse order. If one change cannot be undone, the others are
/// still attempted. It is enough to undo the earliest change of a setting, because the kernel may
/// no longer offer a value in between. Changes that could not be undone are tried once more at the
/// end, because they may depend on settings that were restored after them.
pub(crate) fn undo_all(book: &mut UndoJournal) -> Result<Vec<Restored>, TuneError> {
    undo_after(book, 0)
}

/// Undoes all changes except the first `stay` changes.
pub(crate) fn undo_after(book: &mut UndoJournal, stay: usize) -> Result<Vec<Restored>, TuneError> {
    let mut restored = Vec::new();
    let mut failures = undo_round(book, stay, &mut restored);
    if !failures.is_empty() {
        failures = undo_round(book, stay, &mut restored);
    }
    match (failures.is_empty(), book.unwritten.take()) {
        (true, None) => Ok(restored),
        (true, Some(source)) => Err(TuneError::NotRecorded {
            restored,
            path: book.path.clone(),
            source,
            emptied: false,
        }),
        (false, _) => Err(TuneError::NotRestored { restored, failures }),
    }
}

fn undo_round(book: &mut UndoJournal, stay: usize, restored: &mut Vec<Restored>) -> Vec<Failure> {
    let mut failures: Vec<Failure> = Vec::new();
    for change in book.state.pending.clone().into_iter().skip(stay).rev() {
        match book.undo(&change) {
            Ok(how) => {
                book.note(JournalEntry::Undone {
                    number: change.number,
                });
                failures.retain(|failure| failure.setting != change.label());
                restored.push(Restored {
                    setting: change.label(),
                    value: change.old,
                    how,
                });
            }
            Err(error) => failures.push(Failure {
                setting: change.label(),
                value: change.old,
                error,
            }),
        }
    }
    failures
}
