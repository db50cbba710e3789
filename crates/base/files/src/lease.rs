//! Leases: a file that a process holds a lock on for as long as it works, so that
//! others can see whether it lives. The kernel drops the lock with the process
//! (flock(2)), and shows it across pid and time namespaces and with hidepid, where
//! the number of a process says nothing.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, fstat, openat, unlinkat};
use rustix::io::Errno;

use crate::walk::{LastLink, Named, Place, Stopped, walk};
use crate::{FileError, bounded, rule};

/// The most that is read of a note, in bytes.
const NOTE: u64 = 1_024;

/// A lease of this process. Dropped, it is given up and its file removed; a process
/// that is killed leaves a file that nobody holds.
#[derive(Debug)]
pub struct Lease {
    folder: OwnedFd,
    name: std::ffi::OsString,
    _file: File,
}

/// What is known of the holder of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// It lives.
    Lives,
    /// It has ended, or has given the lease up.
    Gone,
    /// There is no such file.
    NoLease,
    /// This user cannot open the file, others can, who then could hold its lock just as
    /// well, or its file system knows no locks.
    Unknown {
        /// What stands in the file, where that could be read.
        note: Option<String>,
    },
}

impl Drop for Lease {
    fn drop(&mut self) {
        // What stays is a file that nobody holds.
        let _ = unlinkat(&self.folder, &self.name, AtFlags::empty());
    }
}

impl Lease {
    /// Makes the file and holds it. Whoever can open a file can hold its lock, so only its
    /// owner can: it has mode 0600. `note` is for where the lock says nothing. Where the file system knows no locks the file is
    /// there without one, and [`holder`] says [`Holder::Unknown`].
    ///
    /// # Errors
    /// [`FileError::Write`] where the file is there already or cannot be made,
    /// [`FileError::Refused`] where its path leads through another user's link.
    pub fn take(path: &Path, note: &str) -> Result<Self, FileError> {
        let failed = |source| FileError::Write {
            path: path.to_owned(),
            source,
        };
        let Named { folder, name, .. } = place(path, failed)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let take = || -> io::Result<File> {
            let fd = openat(&folder, &name, flags, Mode::RUSR | Mode::WUSR)?;
            // First, so that nobody sees the file without it.
            match flock(&fd, FlockOperation::NonBlockingLockExclusive) {
                // Somebody who looks at it holds it for that moment.
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

/// Asks for the holder of a lease.
pub fn holder(path: &Path) -> Holder {
    let unknown = Holder::Unknown { note: None };
    let read = |source| FileError::Read {
        path: path.to_owned(),
        source,
    };
    let named = match place(path, read) {
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
        let note = bounded::bytes_of(&file, path, NOTE);
        let note = note.and_then(|bytes| bounded::text_of(bytes, path));
        Holder::Unknown { note: note.ok() }
    };
    // Of an earlier version.
    if fstat(&file).is_ok_and(|stat| stat.st_mode & 0o077 != 0) {
        return note();
    }
    loop {
        // Shared: two who look at once do not take each other for the holder.
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
    if let Ok(named) = place(path, read) {
        // What stays is a file that nobody holds.
        let _ = unlinkat(&named.folder, &named.name, AtFlags::empty());
    }
}

fn place(path: &Path, failed: impl Fn(io::Error) -> FileError) -> Result<Named, FileError> {
    match walk(path, LastLink::Kept, &rule::follow) {
        Ok(Place::Named(named)) => Ok(named),
        Ok(Place::Unnamed { .. }) => Err(failed(io::ErrorKind::InvalidInput.into())),
        Err(Stopped::By(error)) => Err(failed(error)),
        Err(Stopped::Refused(why)) => Err(FileError::Refused {
            path: PathBuf::from(path),
            why,
        }),
    }
}

/// What file systems say that cannot lock (flock(2); 9p and old NFS).
fn has_no_locks(errno: Errno) -> bool {
    [Errno::NOLCK, Errno::NOTSUP, Errno::NOSYS, Errno::INVAL].contains(&errno)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn the_holder_of_a_lease_is_known_until_it_ends() {
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
        // What a killed process leaves.
        fs::write(&path, "note").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(holder(&path), Holder::Gone);
        // Whoever can read a file can hold its lock: then it says nothing.
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let reader = File::open(&path).unwrap();
        reader.lock_shared().unwrap();
        let note = Some("note".to_owned());
        assert_eq!(holder(&path), Holder::Unknown { note });
        remove(&path);
        assert_eq!(holder(&path), Holder::NoLease);
        // What is no file of ours says nothing.
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert_eq!(holder(&path), Holder::Unknown { note: None });
    }
}
