//! Where output goes: stdout, or a file that appears whole or not at all.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tempfile::NamedTempFile;

/// An output that has been opened. A file is written beside its place and
/// moved there by [`finish`](Output::finish); without that it leaves no trace.
pub(crate) enum Output {
    /// The standard output (`-`).
    Stdout,
    /// A file.
    File {
        /// What is written to.
        temporary: NamedTempFile,
        /// Where it goes.
        path: PathBuf,
    },
    /// `/dev/null`, a named pipe and the like: written as it is, for a file in its
    /// place would be the end of the device.
    Special {
        /// What is written to.
        file: File,
        /// Where it is.
        path: PathBuf,
    },
}

impl Output {
    /// Opens it, so that what cannot be written is known before anything is
    /// measured or drawn.
    ///
    /// # Errors
    /// A folder that is not there or not writable; a path that is a folder.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        let cannot = || format!("cannot write {}", path.display());
        // Through links: the file is replaced, not the link.
        let found = fs::canonicalize(path);
        let path = found.as_deref().unwrap_or(path);
        match fs::metadata(path) {
            Ok(there) if there.is_dir() => {
                return Err(io::Error::from(io::ErrorKind::IsADirectory)).with_context(cannot);
            }
            Ok(there) if !there.is_file() => {
                let file = OpenOptions::new().write(true).open(path);
                return Ok(Self::Special {
                    file: file.with_context(cannot)?,
                    path: path.to_owned(),
                });
            }
            _ => {}
        }
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let temporary = tempfile::Builder::new()
            .prefix(".punctual-")
            // As any new file: the umask takes away from this.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)
            .with_context(cannot)?;
        Ok(Self::File {
            temporary,
            path: path.to_owned(),
        })
    }

    /// Puts the output in its place.
    pub(crate) fn finish(self) -> Result<()> {
        match self {
            Self::Stdout => io::stdout().flush().context("cannot write to stdout"),
            Self::Special { mut file, path } => file
                .flush()
                .with_context(|| format!("cannot write {}", path.display())),
            Self::File { temporary, path } => {
                let cannot = || format!("cannot write {}", path.display());
                temporary.as_file().sync_all().with_context(cannot)?;
                temporary.persist(&path).with_context(cannot)?;
                Ok(())
            }
        }
    }

    /// Writes all of it and puts it in its place.
    pub(crate) fn put(mut self, content: &[u8]) -> Result<()> {
        let place = self.place();
        self.write_all(content)
            .with_context(|| format!("cannot write {place}"))?;
        self.finish()
    }

    /// Its name, for messages.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Stdout => "to stdout".to_owned(),
            Self::File { path, .. } | Self::Special { path, .. } => path.display().to_string(),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout => io::stdout().write(bytes),
            Self::Special { file, .. } => file.write(bytes),
            Self::File { temporary, .. } => temporary.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout => io::stdout().flush(),
            Self::Special { file, .. } => file.flush(),
            Self::File { temporary, .. } => temporary.flush(),
        }
    }
}

/// Writes a text to stdout.
pub(crate) fn print(text: &str) -> Result<()> {
    Output::Stdout.put(text.as_bytes())
}

/// Says something beside the result, on stderr.
pub(crate) fn note(text: &str) {
    // Nobody to tell if stderr is closed.
    let _ = writeln!(io::stderr(), "punctual: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_written_and_stays_what_it_is() {
        use std::os::unix::fs::FileTypeExt;
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        // Not /dev itself: were this to fail, a device would be gone.
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        Output::open(&link).unwrap().put(b"text").unwrap();
        assert!(link.is_symlink());
        assert!(fs::metadata(&link).unwrap().file_type().is_char_device());
        std::os::unix::fs::symlink("/dev/full", folder.path().join("full")).unwrap();
        let full = Output::open(&folder.path().join("full")).unwrap();
        assert!(full.put(b"text").is_err());
    }

    #[test]
    fn a_file_appears_whole_also_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        fs::write(place("old"), "old").unwrap();
        std::os::unix::fs::symlink(place("old"), place("link")).unwrap();
        let output = Output::open(&place("link")).unwrap();
        assert_eq!(fs::read_to_string(place("old")).unwrap(), "old");
        output.put(b"new").unwrap();
        assert_eq!(fs::read_to_string(place("old")).unwrap(), "new");
        assert!(place("link").is_symlink());
        drop(Output::open(&place("never")).unwrap());
        assert!(!place("never").exists());
    }
}
