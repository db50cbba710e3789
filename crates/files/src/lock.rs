//! Locks that several programs know by a file: one holds it, the others see who. The
//! kernel drops a lock with its process (flock(2)); the file stays.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::Errno;

use crate::walk::{LastLink, Named, Place, Stopped, walk};
use crate::{FileError, bounded, rule};

/// The most that is read of a note, in bytes.
const NOTE: u64 = 1_024;

/// A lock that this process holds until it is dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
    noted: bool,
}

/// What came of asking for a lock.
#[derive(Debug)]
pub enum Asked {
    /// It is held now.
    Held(Lock),
    /// Another process, or another part of this one, holds it.
    Busy {
        /// What its holder wrote; `None` where it may not write to the file.
        note: Option<String>,
    },
    /// The file is not there and cannot be made, or its file system knows no locks.
    Impossible,
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.noted {
            // A note of one who is gone would be read as of the next holder.
            let _ = self.file.set_len(0);
        }
    }
}

/// Asks for the lock of a file, which is made where it is missing; it does not wait. One
/// who may only read the file can hold it, too. `note` is for those who find it busy.
///
/// # Errors
/// [`FileError::Refused`] where the path leads through another user's link, and what
/// flock(2) refuses.
pub fn ask(path: &Path, note: &str) -> Result<Asked, FileError> {
    let failed = |source| FileError::Write {
        path: path.to_owned(),
        source,
    };
    let Named { folder, name, .. } = match walk(path, LastLink::Kept, &rule::follow) {
        Ok(Place::Named(named)) => named,
        Ok(Place::Unnamed { .. }) => return Err(failed(io::ErrorKind::InvalidInput.into())),
        Err(Stopped::By(error)) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Asked::Impossible);
        }
        Err(Stopped::By(error)) => return Err(failed(error)),
        Err(Stopped::Refused(why)) => {
            return Err(FileError::Refused {
                path: path.to_owned(),
                why,
            });
        }
    };
    let common = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let make = openat(
        &folder,
        &name,
        OFlags::RDWR | OFlags::CREATE | common,
        Mode::from_raw_mode(0o644),
    );
    let (opened, writable) = match make {
        Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => (
            openat(&folder, &name, OFlags::RDONLY | common, Mode::empty()),
            false,
        ),
        other => (other, true),
    };
    let mut file = match opened {
        Ok(fd) => File::from(fd),
        Err(Errno::NOENT | Errno::ACCESS) => return Ok(Asked::Impossible),
        Err(errno) => return Err(failed(errno.into())),
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let note = bounded::bytes_of(&file, path, NOTE)
                .and_then(|bytes| bounded::text_of(bytes, path));
            let note = note.ok().filter(|note| !note.trim().is_empty());
            return Ok(Asked::Busy { note });
        }
        Err(Errno::NOLCK | Errno::NOTSUP | Errno::NOSYS | Errno::INVAL) => {
            return Ok(Asked::Impossible);
        }
        Err(errno) => return Err(failed(errno.into())),
    }
    if writable {
        let write = |file: &mut File| -> io::Result<()> {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(note.as_bytes())
        };
        // The lock counts without its note.
        let _ = write(&mut file);
    }
    Ok(Asked::Held(Lock {
        file,
        noted: writable,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_a_lock_and_the_others_see_who() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cpu-3");
        let Asked::Held(held) = ask(&path, "process 1").unwrap() else {
            panic!("not held")
        };
        let Asked::Busy { note } = ask(&path, "process 2").unwrap() else {
            panic!("held twice")
        };
        assert_eq!(note.as_deref(), Some("process 1"));
        drop(held);
        assert!(matches!(ask(&path, "process 2").unwrap(), Asked::Held(_)));
        let none = ask(&folder.path().join("none/cpu-3"), "");
        assert!(matches!(none.unwrap(), Asked::Impossible));
    }
}
