//! Locks that several programs share through a file. One program holds the lock, and the others can
//! read in the file which one. The kernel releases the lock when its process ends (flock(2)); the
//! file remains.

use std::fs::File;
use std::io::{self, ErrorKind, Seek, Write};
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, fchmod, flock, fstat};
use rustix::io::Errno;

use crate::trusted::{self, Access};
use crate::{Budget, FileError, rule, text_of};

/// Maximum length of a note that is read, in bytes.
const NOTE: u64 = 1_024;

/// A lock that this process holds until it is dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

/// Result of a request for a lock.
#[derive(Debug)]
pub enum LockRequest {
    /// This process holds the lock now.
    Held(Lock),
    /// Another process, or another part of this one, holds the lock.
    Busy {
        /// Note written by the holder; `None` if it has not written one yet.
        note: Option<String>,
    },
    /// This user can neither open nor create the file, or its file system does not support locks.
    Impossible,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Clear the note, because other programs would otherwise take it for the note of the next
        // holder.
        let _ = self.file.set_len(0);
    }
}

/// Tries to lock a file without waiting, and creates the file if it is missing. The file gets mode
/// 0600, because any user who can open a file can also lock it. Its path and owner must satisfy the
/// rules of [`trusted`]. `note` is for programs that find the lock already taken.
///
/// # Errors
/// Returns [`FileError::Refused`] if another user may have planted the file, and the errors of
/// flock(2).
pub fn ask(path: &Path, note: &str) -> Result<LockRequest, FileError> {
    let failed = |source| FileError::Write {
        path: path.to_owned(),
        source,
    };
    let mut file = match trusted::open_or_create(path, Access::ReadWrite) {
        Ok(file) => file,
        Err(error @ FileError::Refused { .. }) => return Err(error),
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                return Ok(LockRequest::Impossible);
            }
            _ => return Err(error),
        },
    };
    close(&file).map_err(failed)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let note = Budget::bytes(NOTE)
                .read_open(&file, path)
                .and_then(|bytes| text_of(bytes, path));
            let note = note.ok().filter(|note| !note.trim().is_empty());
            return Ok(LockRequest::Busy { note });
        }
        Err(Errno::NOLCK | Errno::NOTSUP | Errno::NOSYS | Errno::INVAL) => {
            return Ok(LockRequest::Impossible);
        }
        Err(errno) => return Err(failed(errno.into())),
    }
    let write = |file: &mut File| -> io::Result<()> {
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(note.as_bytes())
    };
    // The lock is valid even if the note cannot be written.
    let _ = write(&mut file);
    Ok(LockRequest::Held(Lock { file }))
}

/// Removes the permissions of the group and of others, because earlier versions created the file
/// with them.
fn close(file: &File) -> io::Result<()> {
    let stat = fstat(file)?;
    if stat.st_uid == rule::user() && stat.st_mode & 0o077 != 0 {
        Ok(fchmod(file, Mode::RUSR | Mode::WUSR)?)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn lock_file_opens_for_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cpu-3");
        assert!(matches!(ask(&path, "").unwrap(), LockRequest::Held(_)));
        assert_eq!(mode(&path), 0o600);
        // Mode of the files that an earlier version created.
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(ask(&path, "").unwrap(), LockRequest::Held(_)));
        assert_eq!(mode(&path), 0o600);
        // Other users could swap files in such a folder.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(ask(&path, ""), Err(FileError::Refused { .. })));
    }

    #[test]
    fn lock_has_single_visible_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cpu-3");
        let LockRequest::Held(held) = ask(&path, "process 1").unwrap() else {
            panic!("not held")
        };
        let LockRequest::Busy { note } = ask(&path, "process 2").unwrap() else {
            panic!("held twice")
        };
        assert_eq!(note.as_deref(), Some("process 1"));
        drop(held);
        assert!(matches!(
            ask(&path, "process 2").unwrap(),
            LockRequest::Held(_)
        ));
        let none = ask(&folder.path().join("none/cpu-3"), "");
        assert!(matches!(none.unwrap(), LockRequest::Impossible));
    }
}
