//! Where output goes: stdout, or a file that appears whole or not at all.

use std::fs::Permissions;
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
        if path.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory)).with_context(cannot);
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
            Self::File { path, .. } => path.display().to_string(),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout => io::stdout().write(bytes),
            Self::File { temporary, .. } => temporary.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout => io::stdout().flush(),
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
