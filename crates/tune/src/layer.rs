//! The file system, as far as this room needs it: behind a trait, so that a
//! test can end the program at each of its steps.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The most that is read of a file: a journal is a few hundred bytes a change.
const READ_LIMIT: u64 = 1 << 20;

/// What is done to files.
pub(crate) trait FileLayer: Send {
    /// The file's text; what is not UTF-8 is replaced.
    fn read(&self, path: &Path) -> io::Result<String>;
    /// Sets a file that is there: one write(2), as /proc and /sys want it.
    fn set(&self, path: &Path, text: &str) -> io::Result<()>;
    /// Adds to the end of a file, which is made where there is none.
    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Cuts a file to its first `length` bytes.
    fn cut(&self, path: &Path, length: u64) -> io::Result<()>;
    /// Returns when the file and its name are on disk.
    fn sync(&self, path: &Path) -> io::Result<()>;
}

/// The real ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Files;

impl FileLayer for Files {
    fn read(&self, path: &Path) -> io::Result<String> {
        let mut bytes = Vec::new();
        File::open(path)?.take(READ_LIMIT).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn set(&self, path: &Path, text: &str) -> io::Result<()> {
        // sysfs takes no notice of the truncation, files of a test do.
        let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
        file.write_all(format!("{text}\n").as_bytes())
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        journal_options()
            .append(true)
            .create(true)
            .open(path)?
            .write_all(bytes)
    }

    fn cut(&self, path: &Path, length: u64) -> io::Result<()> {
        match journal_options().write(true).open(path) {
            Ok(file) => file.set_len(length),
            Err(error) if error.kind() == io::ErrorKind::NotFound && length == 0 => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()?;
        match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
            _ => fs::File::open(".")?.sync_all(),
        }
    }
}

/// A journal is its owner's alone, and a link in its place is not followed:
/// root may be the one who writes.
fn journal_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    options
}
