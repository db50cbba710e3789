//! Undoes the changes of a program that was killed.

use std::path::Path;
use std::time::Duration;

use punctual_host::Host;

use crate::fs::{FileSystem, Files};
use crate::lock::Lock;
use crate::undo::{UndoJournal, undo_all};
use crate::{How, Restored, TuneError, setting};

/// Time to wait for another program that is also recovering changes.
const PATIENCE: Duration = Duration::from_secs(2);

/// Undoes the changes of a program that ended, in reverse order, and returns them. Call this before
/// any other access to settings. If there is nothing to undo, this call is cheap, requires no
/// permissions and creates no file.
///
/// Does nothing while the journal's owner is alive, that is, while a process with the owner's PID
/// and start time is running in the owner's boot. Changes from before the last boot are reported as
/// undone by that boot.
///
/// # Errors
/// Returns [`TuneError::NotRestored`], [`TuneError::Damaged`], [`TuneError::Locked`] if another
/// program holds the lock for several seconds, or [`TuneError::Journal`].
pub fn recover(path: &Path, host: &Host) -> Result<Vec<Restored>, TuneError> {
    recover_on(Box::new(Files), path, host)
}

pub(crate) fn recover_on(
    files: Box<dyn FileSystem>,
    path: &Path,
    host: &Host,
) -> Result<Vec<Restored>, TuneError> {
    let mut book = UndoJournal::read(files, path, host)?;
    if nothing_to_do(&book)? {
        return Ok(Vec::new());
    }
    let _lock = Lock::take(path, PATIENCE)?;
    // Another program may have undone the changes in the meantime.
    book.reread()?;
    if nothing_to_do(&book)? {
        return Ok(Vec::new());
    }
    undo_since_boot(&mut book)
}

/// Undoes all pending changes. A reboot has already undone all changes that were made before it,
/// except those of files on disk.
pub(crate) fn undo_since_boot(book: &mut UndoJournal) -> Result<Vec<Restored>, TuneError> {
    if book.is_of_this_boot()? {
        return match book.state.damaged_line {
            Some(line) => Err(book.damaged(line)),
            None => undo_all(book),
        };
    }
    let (on_disk, volatile): (Vec<_>, Vec<_>) = std::mem::take(&mut book.state.pending)
        .into_iter()
        .partition(|change| setting(&change.setting).is_ok_and(|setting| setting.outlives_reboot));
    let mut restored: Vec<Restored> = volatile.into_iter().rev().map(by_reboot).collect();
    // If a journal from before the last boot is damaged, this does not matter for changes that the
    // boot undid. The other changes are restored as far as the journal can be read.
    book.state.damaged_line = None;
    book.state.pending = on_disk;
    restored.extend(undo_all(book)?);
    book.start_anew()?;
    Ok(restored)
}

fn nothing_to_do(book: &UndoJournal) -> Result<bool, TuneError> {
    if book.state.is_settled() || book.state.stays() {
        return Ok(true);
    }
    match &book.state.owner {
        // Applied changes are undone by a process other than the owner. The lock shows whether that
        // process is still running.
        Some(_) if book.state.reverting => Ok(false),
        Some(owner) => owner.lives(&book.host),
        None => Ok(false),
    }
}

fn by_reboot(change: crate::record::Pending) -> Restored {
    Restored {
        setting: change.label(),
        value: change.old,
        how: How::Reboot,
    }
}
