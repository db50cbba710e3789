//! Leases: a process locks a file while it is working, so that other processes can see whether it
//! is alive. The kernel releases the lock when the process ends (flock(2)). Unlike a pid, the lock
//! is visible across pid and time namespaces and with hidepid.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, fstat, openat, unlinkat};
use rustix::io::Errno;

use crate::walk::{LastLink, Named, Stopped, WalkTarget, walk};
use crate::{Budget, FileError, rule, text_of};

/// Maximum length of a note that is read, in bytes.
const NOTE: u64 = 1_024;

/// A lease of this process. Dropping it releases the lock and removes the file. A process that is
/// killed leaves its file behind, unlocked.
#[derive(Debug)]
pub struct Lease {
    folder: OwnedFd,
    name: std::ffi::OsString,
    _file: File,
}

/// State of the holder of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The holder is alive.
    Lives,
    /// The holder has ended or released the lease.
    Gone,
    /// The file does not exist.
    NoLease,
    /// The state is unknown. Either this user cannot open the file, or other users can open it and
    /// could therefore hold its lock, or the file system does not support locks.
    Unknown {
        /// Content of the file, if it could be read.
        note: Option<String>,
    },
}

impl Drop for Lease {
    fn drop(&mut self) {
        // If the file cannot be removed, it remains without a lock.
        let _ = unlinkat(&self.folder, &self.name, AtFlags::empty());
    }
}

impl Lease {
    /// Creates the file and locks it. The mode is 0600, because any user who can open a file can
    /// also lock it. `note` is for readers that cannot rely on the lock. If the file system does
    /// not support locks, the file is created without one, and [`holder`] returns
    /// [`Holder::Unknown`].
    ///
    /// # Errors
    /// Returns [`FileError::Write`] if the file exists or cannot be created, and
    /// [`FileError::Refused`] if its path leads through a link of another user.
    pub fn take(path: &Path, note: &str) -> Result<Self, FileError> {
        let failed = |source| FileError::Write {
            path: path.to_owned(),
            source,
        };
        let Named { folder, name, .. } = create(path, failed)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let take = || -> io::Result<File> {
            let fd = openat(&folder, &name, flags, Mode::RUSR | Mode::WUSR)?;
            // Lock the file immediately, so that no other process finds it unlocked.
            match flock(&fd, FlockOperation::NonBlockingLockExclusive) {
                // A process that is checking the lease holds the lock for a moment.
                Err(Errno::WOULDBLOCK) => flock(&fd, FlockOperation::LockExclusive)?,
                Err(errno) if has_no_locks(errno) => {}
                other => other?,
            }
            let mut file = File::from(fd);
            file.write_all(note.as_bytes())?;
            Ok(file)
        };
        let file = take().map_err(failed)?;
        Ok(Self {
            folder,
            name,
            _file: file,
        })
    }
}

/// Returns the state of the holder of a lease.
pub fn holder(path: &Path) -> Holder {
    let unknown = Holder::Unknown { note: None };
    let read = |source| FileError::Read {
        path: path.to_owned(),
        source,
    };
    let named = match create(path, read) {
        Ok(named) => named,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Holder::NoLease,
        Err(_) => return unknown,
    };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(&named.folder, &named.name, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Holder::NoLease,
        Err(_) => return unknown,
    };
    let note = || {
        let note = Budget::bytes(NOTE).read_open(&file, path);
        let note = note.and_then(|bytes| text_of(bytes, path));
        Holder::Unknown { note: note.ok() }
    };
    // An earlier version created the file. Other users can open it, so its lock proves nothing.
    if fstat(&file).is_ok_and(|stat| stat.st_mode & 0o077 != 0) {
        return note();
    }
    loop {
        // Use a shared lock, so that two processes that are checking at the same time do not
        // mistake each other for the holder.
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => return Holder::Gone,
            Err(Errno::WOULDBLOCK) => return Holder::Lives,
            Err(Errno::INTR) => {}
            Err(_) => return note(),
        }
    }
}

/// Removes the file of a lease whose holder is gone.
pub fn remove(path: &Path) {
    let read = |source| FileError::Read {
        path: path.to_owned(),
        source,
    };
    if let Ok(named) = create(path, read) {
        // If the file cannot be removed, it remains without a lock.
        let _ = unlinkat(&named.folder, &named.name, AtFlags::empty());
    }
}

fn create(path: &Path, failed: impl Fn(io::Error) -> FileError) -> Result<Named, FileError> {
    match walk(path, LastLink::Kept, &rule::follow) {
        Ok(WalkTarget::Named(named)) => Ok(named),
        Ok(WalkTarget::Unnamed { .. }) => Err(failed(io::ErrorKind::InvalidInput.into())),
        Err(Stopped::By(error)) => Err(failed(error)),
        Err(Stopped::Refused(why)) => Err(FileError::Refused {
            path: PathBuf::from(path),
            why,
        }),
    }
}

/// Errors of file systems without lock support (flock(2); 9p and old NFS).
fn has_no_locks(errno: Errno) -> bool {
    [Errno::NOLCK, Errno::NOTSUP, Errno::NOSYS, Errno::INVAL].contains(&errno)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn lease_holder_is_known_until_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lease");
        assert_eq!(holder(&path), Holder::NoLease);
        assert_eq!(holder(&folder.path().join("none/lease")), Holder::NoLease);
        let lease = Lease::take(&path, "note").unwrap();
        assert_eq!(holder(&path), Holder::Lives);
        assert!(Lease::take(&path, "second").is_err());
        let made = fs::metadata(&path).unwrap();
        assert_eq!(made.mode() & 0o7777, 0o600);
        drop(lease);
        assert_eq!(holder(&path), Holder::NoLease);
        // A killed process leaves the file in this state.
        fs::write(&path, "note").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(holder(&path), Holder::Gone);
        // Any user who can read a file can lock it, so a readable file proves nothing.
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let reader = File::open(&path).unwrap();
        reader.lock_shared().unwrap();
        let note = Some("note".to_owned());
        assert_eq!(holder(&path), Holder::Unknown { note });
        remove(&path);
        assert_eq!(holder(&path), Holder::NoLease);
        // A file that this program did not create proves nothing.
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert_eq!(holder(&path), Holder::Unknown { note: None });
    }
}
