//! File operations, which a test can replace.

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

use crate::tracefs::PLACES;

/// Size limit of one file: the largest, descriptions of events, have some
/// thousands of bytes.
const READ_LIMIT: usize = 1 << 16;

/// Operations on the files of tracefs. [`RealFiles`] does them; a test simulates
/// a kernel.
pub trait Files: Debug + Send + Sync {
    /// The text of a small file.
    ///
    /// # Errors
    /// Those of open(2) and read(2).
    fn read(&self, path: &Path) -> io::Result<String>;

    /// Writes an existing file, in one write(2): tracefs takes each write
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

    /// Creates a folder; in `instances` the kernel fills it.
    ///
    /// # Errors
    /// Those of mkdir(2).
    fn make_folder(&self, folder: &Path) -> io::Result<()>;

    /// Removes a folder; in `instances` with the files of the kernel.
    ///
    /// # Errors
    /// Those of rmdir(2).
    fn remove_folder(&self, folder: &Path) -> io::Result<()>;

    /// Holds a folder for as long as the returned descriptor is open, by a lock that
    /// processes of all pid namespaces see and that ends with this process. `None`:
    /// another process holds it. The files of tests hold nothing.
    ///
    /// # Errors
    /// Those of open(2) and flock(2).
    fn hold(&self, folder: &Path) -> io::Result<Option<OwnedFd>> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            folder.display().to_string(),
        ))
    }

    /// Opens a non-blocking stream: without data a read fails with `WouldBlock`
    /// or returns 0.
    ///
    /// # Errors
    /// Those of open(2).
    fn stream(&self, path: &Path) -> io::Result<Box<dyn Read + Send>>;

    /// Opens a file for writes of one item each.
    ///
    /// # Errors
    /// Those of open(2).
    fn sink(&self, path: &Path) -> io::Result<Box<dyn Write + Send>>;

    /// Mounts a tracefs for this process only, until it ends. A test has
    /// none.
    ///
    /// # Errors
    /// Those of fsopen(2) and fsmount(2).
    fn mount(&self) -> io::Result<Mount> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Open files of this process, by number.
const OWN_FILES: &str = "/proc/self/fd/";

/// A mount of this process alone.
#[derive(Debug)]
pub struct Mount(OwnedFd);

impl Mount {
    /// A path of its root for this process.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("{OWN_FILES}{}", self.0.as_raw_fd()))
    }
}

/// A path as a reader finds it: in place of a mount of this process alone, which others
/// cannot open, that of the usual mount point.
pub(crate) fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    let within = text.strip_prefix(OWN_FILES).and_then(|rest| {
        let (number, name) = rest.split_once('/')?;
        number.parse::<u32>().ok().map(|_| name)
    });
    match within {
        Some(name) => format!("/{}/{name}", PLACES[0]),
        None => text,
    }
}

/// The files themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealFiles;

impl Files for RealFiles {
    fn read(&self, path: &Path) -> io::Result<String> {
        // In large pieces: some files (events/header_page) return only the
        // size of the first read.
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
        // Truncated, as the shell's `>` does: tracefs ignores it, and a
        // plain file must not keep the end of a longer value.
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
    /// other program sees it, and it ends when its last file is closed.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_the_own_mount_is_shown_as_others_find_it() {
        let shown = |path: &str| shown(Path::new(path));
        assert_eq!(
            shown("/proc/self/fd/4/available_tracers"),
            "/sys/kernel/tracing/available_tracers"
        );
        for other in [
            "/sys/kernel/debug/tracing/x",
            "/proc/self/fd/4",
            "/proc/self/fd/x/y",
        ] {
            assert_eq!(shown(other), other);
        }
    }
}
