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

/// Maximum number of bytes read from one file. The largest files are descriptions of events, with a
/// few thousand bytes.
const READ_LIMIT: usize = 1 << 16;

/// Operations on the files of tracefs. [`RealFiles`] performs them on real files, and tests
/// simulate a kernel instead.
pub trait Files: Debug + Send + Sync {
    /// Reads a small text file.
    ///
    /// # Errors
    /// Returns the errors of open(2) and read(2).
    fn read(&self, path: &Path) -> io::Result<String>;

    /// Writes to an existing file with a single write(2), because tracefs treats each write as a
    /// complete value.
    ///
    /// # Errors
    /// Returns the errors of open(2) and write(2).
    fn write(&self, path: &Path, value: &str) -> io::Result<()>;

    /// Returns the names of the files in a folder.
    ///
    /// # Errors
    /// Returns the errors of opendir(3).
    fn names(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Creates a folder. In `instances`, the kernel fills it with files.
    ///
    /// # Errors
    /// Returns the errors of mkdir(2).
    fn make_folder(&self, folder: &Path) -> io::Result<()>;

    /// Removes a folder. In `instances`, the kernel removes its files too.
    ///
    /// # Errors
    /// Returns the errors of rmdir(2).
    fn remove_folder(&self, folder: &Path) -> io::Result<()>;

    /// Locks a folder while the returned descriptor is open. Processes in all PID namespaces can
    /// see the lock, and it is released when this process ends. Returns `None` if another process
    /// already holds the lock. The default implementation fails, because simulated files in tests
    /// are not locked.
    ///
    /// # Errors
    /// Returns the errors of open(2) and flock(2).
    fn hold(&self, folder: &Path) -> io::Result<Option<OwnedFd>> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            folder.display().to_string(),
        ))
    }

    /// Opens a non-blocking stream. If no data is available, a read fails with `WouldBlock` or
    /// returns 0.
    ///
    /// # Errors
    /// Returns the errors of open(2).
    fn stream(&self, path: &Path) -> io::Result<Box<dyn Read + Send>>;

    /// Opens a file that expects one item per write.
    ///
    /// # Errors
    /// Returns the errors of open(2).
    fn sink(&self, path: &Path) -> io::Result<Box<dyn Write + Send>>;

    /// Mounts a tracefs for this process only. The mount is removed when the process ends. Tests do
    /// not support this.
    ///
    /// # Errors
    /// Returns the errors of fsopen(2) and fsmount(2).
    fn mount(&self) -> io::Result<Mount> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The real files.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealFiles;

impl Files for RealFiles {
    fn read(&self, path: &Path) -> io::Result<String> {
        // Read large blocks, because some files (such as events/header_page) return at most as many
        // bytes as the first read requests.
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
        // Truncate the file, as the shell's `>` does. tracefs ignores this, but an ordinary file
        // would otherwise keep the end of a longer old value.
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
        // A user who can open the folder could also lock it, so only its owner may open it. If the
        // kernel rejects this change, the mode set by the administrator stays in place.
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
