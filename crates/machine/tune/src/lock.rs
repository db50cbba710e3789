//! A lock that admits one program at a time.

use std::ffi::OsString;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use punctual_files::trusted::{self, Access};
use rustix::fs::{FlockOperation, flock};

use crate::TuneError;

/// A lock that is held while settings are changed or restored. The kernel releases it when the
/// process ends for any reason (flock(2)).
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// Interval between attempts.
const TURN: Duration = Duration::from_millis(20);

impl Lock {
    /// Takes the lock of this journal, waiting for at most `patience`. Creates the folder if
    /// necessary.
    pub(crate) fn take(journal: &Path, patience: Duration) -> Result<Self, TuneError> {
        let path = path_of(journal);
        let failed = |source| TuneError::Journal {
            what: "lock",
            path: journal.to_owned(),
            source,
        };
        if let Some(folder) = journal.parent() {
            // For root, this is also the folder of the store.
            let made = punctual_files::folder::make(folder, 0o700);
            made.map_err(|error| failed(error.into()))?;
        }
        // The file is next to the journal and is never removed, because a lock on a removed file
        // excludes no other program. It is never written, so the lock also works on a disk that has
        // become read-only.
        let file = match trusted::open_or_create(&path, Access::ReadWrite) {
            Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => {
                trusted::open(&path, Access::Read)
            }
            other => other,
        };
        let file = file.map_err(|error| failed(error.into()))?;
        let until = Instant::now() + patience;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { _file: file }),
                Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() >= until => {
                    return Err(TuneError::Locked { path });
                }
                Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(TURN),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(failed(errno.into())),
            }
        }
    }
}

fn path_of(journal: &Path) -> PathBuf {
    let mut name = OsString::from(journal);
    name.push(".lock");
    name.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_second_program_waits_for_the_first_one() {
        let top = tempfile::tempdir().unwrap();
        let journal = top.path().join("tune.journal");
        let first = Lock::take(&journal, Duration::ZERO).unwrap();
        let error = Lock::take(&journal, Duration::ZERO).unwrap_err();
        let TuneError::Locked { path } = error else {
            panic!("{error}");
        };
        assert_eq!(path, top.path().join("tune.journal.lock"));
        std::thread::scope(|scope| {
            let second = scope.spawn(|| Lock::take(&journal, Duration::from_secs(3_600)));
            // Gives the second program the time for some attempts, which all fail.
            std::thread::sleep(TURN * 10);
            drop(first);
            assert!(second.join().unwrap().is_ok());
        });
        // A lock that was released can be taken again, and other journals have their own lock.
        let again = Lock::take(&journal, Duration::ZERO).unwrap();
        assert!(Lock::take(&top.path().join("other.journal"), Duration::ZERO).is_ok());
        drop(again);
    }

    #[test]
    fn journal_folder_is_private_to_owner() {
        let top = tempfile::tempdir().unwrap();
        let journal = top.path().join("data/punctual/tune.journal");
        let _lock = Lock::take(&journal, Duration::ZERO).unwrap();
        let folder = std::fs::metadata(journal.parent().unwrap()).unwrap();
        assert_eq!(folder.permissions().mode() & 0o7777, 0o700);
    }
}
