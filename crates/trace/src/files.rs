//! What is done to files, so that a test can stand in the kernel's place.

use std::fmt::Debug;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The most that is read of one file: the largest of those read here holds the
/// names of some ten tracers.
const READ_LIMIT: u64 = 1 << 16;

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

    /// Opens a stream that is read without waiting: where nothing is there, it
    /// says so (`WouldBlock`) or ends for now.
    ///
    /// # Errors
    /// Those of open(2).
    fn stream(&self, path: &Path) -> io::Result<Box<dyn Read + Send>>;
}

/// The files themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealFiles;

impl Files for RealFiles {
    fn read(&self, path: &Path) -> io::Result<String> {
        let mut bytes = Vec::new();
        fs::File::open(path)?
            .take(READ_LIMIT)
            .read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
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

    fn stream(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)?;
        Ok(Box::new(file))
    }
}
