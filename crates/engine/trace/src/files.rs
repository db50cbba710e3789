//! File operations that a test can replace.

use std::fmt::Debug;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::mount::Mount;

/// The most bytes read from one file; the largest ones, descriptions of events, have a few
/// thousand.
const READ_LIMIT: usize = 1 << 16;

/// Operations on the files of tracefs. [`RealFiles`] performs them; a test simulates a kernel.
pub trait Files: Debug + Send + Sync {
    /// Reads a small text file.
    ///
    /// # Errors
    /// The errors of open(2) and read(2).
    fn read(&self, path: &Path) -> io::Result<String>;

    /// Writes an existing file with one write(2), because tracefs takes each write as a whole
    /// value.
    ///
    /// # Errors
    /// The errors of open(2) and write(2).
    fn write(&self, path: &Path, value: &str) -> io::Result<()>;

    /// Returns the names in a folder.
    ///
    /// # Errors
    /// The errors of opendir(3).
    fn names(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Creates a folder; in `instances` the kernel fills it.
    ///
    /// # Errors
    /// The errors of mkdir(2).
    fn make_folder(&self, folder: &Path) -> io::Result<()>;

    /// Removes a folder; in `instances` together with the kernel's files in it.
    ///
    /// # Errors
    /// The errors of rmdir(2).
    fn remove_folder(&self, folder: &Path) -> io::Result<()>;

    /// Locks a folder for as long as the returned descriptor is open. Processes in all pid
    /// namespaces see the lock, and it ends with this process. `None`: another process holds it.
    /// The files of tests lock nothing.
    ///
    /// # Errors
    /// The errors of open(2) and flock(2).
    fn hold(&self, folder: &Path) -> io::Result<Option<OwnedFd>> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            folder.display().to_string(),
        ))
    }

    /// Opens a non-blocking stream: without data, a read fails with `WouldBlock` or returns 0.
    ///
    /// # Errors
    /// The errors of open(2).
    fn stream(&self, path: &Path) -> io::Result<Box<dyn Read + Send>>;

    /// Opens a file that takes one item per write.
    ///
    /// # Errors
    /// The errors of open(2).
    fn sink(&self, path: &Path) -> io::Result<Box<dyn Write + Send>>;

    /// Mounts a tracefs for this process only, until it ends. A test has none.
    ///
    /// # Errors
    /// The errors of fsopen(2) and fsmount(2).
    fn mount(&self) -> io::Result<Mount> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The real files.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealFiles;

impl Files for RealFiles {
    fn read(&self, path: &Path) -> io::Result<String> {
        // In large pieces: some files (events/header_page) return only as much as the first read
        // asks for.
        let mut bytes = vec![0; READ_LIMIT];
        let mut file = fs::File::open(path)?;
        let mut filled = 0;
        while filled < READ_LIMIT {
            match file.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(String::from_utf8_lossy(&bytes[..filled]).into_owned())
    }

    fn write(&self, path: &Path, value: &str) -> io::Result<()> {
        // Truncated, like the shell's `>`: tracefs ignores it, and a plain file must not keep the
        // end of a longer value.
        let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
        file.write_all(value.as_bytes())
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        Ok(fs::read_dir(folder)?
            .filter_map(Result::ok)
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect())
    }

    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir(folder)
    }

    fn remove_folder(&self, folder: &Path) -> io::Result<()> {
        fs::remove_dir(folder)
    }

    fn hold(&self, folder: &Path) -> io::Result<Option<OwnedFd>> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY)
            .open(folder)?;
        // A user who can open the folder could also lock it. If the kernel refuses, the
        // administrator's mode stays in force.
        let _ = file.set_permissions(Permissions::from_mode(0o700));
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file.into())),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn stream(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)?;
        Ok(Box::new(file))
    }

    fn sink(&self, path: &Path) -> io::Result<Box<dyn Write + Send>> {
        Ok(Box::new(OpenOptions::new().write(true).open(path)?))
    }

    fn mount(&self) -> io::Result<Mount> {
        Mount::new()
    }
}
