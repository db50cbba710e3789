//! Undoing what a program left that was killed.

use std::path::Path;
use std::time::Duration;

use punctual_host::Host;

use crate::fs::{FileSystem, Files};
use crate::lock::Lock;
use crate::undo::{Book, undo_all};
use crate::{How, Restored, TuneError, setting};

/// How long another program that does the same is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Undoes the changes of a program that is gone, the last first, and says what
/// was undone. To be called before anything else is done with settings; cheap
/// where there is nothing to undo, and then it needs no right and makes no file.
///
/// Nothing is done while the journal's owner lives: its process number, the
/// time it was started and the boot are those of a running process. Changes made
/// before the last boot are reported as undone by it.
///
/// # Errors
/// [`TuneError::NotRestored`], [`TuneError::Damaged`], [`TuneError::Locked`]
/// where another program holds the lock for seconds, [`TuneError::Journal`].
pub fn recover(path: &Path, host: &Host) -> Result<Vec<Restored>, TuneError> {
    recover_on(Box::new(Files), path, host)
}

pub(crate) fn recover_on(
    files: Box<dyn FileSystem>,
    path: &Path,
    host: &Host,
) -> Result<Vec<Restored>, TuneError> {
    let mut book = Book::read(files, path, host)?;
    if nothing_to_do(&book)? {
        return Ok(Vec::new());
    }
    let _lock = Lock::take(path, PATIENCE)?;
    // Another program may have been quicker.
    book.read_again()?;
    if nothing_to_do(&book)? {
        return Ok(Vec::new());
    }
    undo_since_boot(&mut book)
}

/// Undoes all that is pending. What was changed before the last boot is undone
/// by it, but for what stands in files on disk.
pub(crate) fn undo_since_boot(book: &mut Book) -> Result<Vec<Restored>, TuneError> {
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
    // Damage of an earlier boot is no matter for what the boot has undone; what
    // is known of the rest is put back.
    book.state.damaged_line = None;
    book.state.pending = on_disk;
    restored.extend(undo_all(book)?);
    book.start_anew()?;
    Ok(restored)
}

fn nothing_to_do(book: &Book) -> Result<bool, TuneError> {
    if book.state.is_settled() || book.state.stays() {
        return Ok(true);
    }
    match &book.state.owner {
        // What stays is undone by another process than its owner: the lock shows it.
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
