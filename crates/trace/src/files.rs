//! What is done to files, so that a test can stand in the kernel's place.

use std::fmt::Debug;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use rustix::mount::{fsconfig_create, fsmount, fsopen};

/// The most that is read of one file: the largest of those read here describe
/// an event, in some thousands of bytes.
const READ_LIMIT: usize = 1 << 16;

/// What is done to the files of tracefs. [`RealFiles`] does it; a test may do
/// what a kernel would.
pub trait Files: Debug + Send + Sync {
    /// The text of a small file.
    ///
    /// # Errors
    /// Those of open(2) and read(2).
    fn read(&self, path: &Path) -> io::Result<String>;

    /// Writes a file that is there, in one write(2): tracefs takes each write
    /// as a whole value.
    ///
    /// # Errors
    /// Those of open(2) and write(2).
    fn write(&self, path: &Path, value: &str) -> io::Result<()>;

    /// The names in a folder.
    ///
    /// # Errors
    /// Those of opendir(3).
    fn names(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Makes a folder; in `instances` the kernel fills it.
    ///
    /// # Errors
    /// Those of mkdir(2).
    fn make_folder(&self, folder: &Path) -> io::Result<()>;

    /// Removes a folder; in `instances` with all that the kernel put there.
    ///
    /// # Errors
    /// Those of rmdir(2).
    fn remove_folder(&self, folder: &Path) -> io::Result<()>;

    /// Holds a folder for as long as what this returns is open: a lock that other
    /// processes see in whichever pid namespace they are, and that goes with this
    /// process. `None`: another one holds it. A test has none.
    ///
    /// # Errors
    /// Those of open(2) and flock(2).
    fn hold(&self, folder: &Path) -> io::Result<Option<OwnedFd>> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            folder.display().to_string(),
        ))
    }

    /// Opens a stream that is read without waiting: where nothing is there, it
    /// says so (`WouldBlock`) or ends for now.
    ///
    /// # Errors
    /// Those of open(2).
    fn stream(&self, path: &Path) -> io::Result<Box<dyn Read + Send>>;

    /// Opens a file into which each write puts one thing.
    ///
    /// # Errors
    /// Those of open(2).
    fn sink(&self, path: &Path) -> io::Result<Box<dyn Write + Send>>;

    /// Mounts a tracefs that only this process sees, and that goes with it. A
    /// test has none.
    ///
    /// # Errors
    /// Those of fsopen(2) and fsmount(2).
    fn mount(&self) -> io::Result<Mount> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A mount of this process alone.
#[derive(Debug)]
pub struct Mount(OwnedFd);

impl Mount {
    /// A way to its root for this process.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

/// The files themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealFiles;

impl Files for RealFiles {
    fn read(&self, path: &Path) -> io::Result<String> {
        // In large pieces: of some (events/header_page) the kernel gives only
        // what the first read asks for.
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
        // Truncated, as the shell's `>` does: tracefs takes no notice, and a
        // plain file shall not keep the end of a longer value.
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

    /// Since Linux 5.2; with CAP_SYS_ADMIN. A mount that is attached nowhere: no
    /// other program sees it, and it is gone when the last file of it is closed.
    fn mount(&self) -> io::Result<Mount> {
        let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(context.as_fd())?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let mount = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        Ok(Mount(mount))
    }
}
