//! Files that a tool writes.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// A file that is written at the end. It is looked at before anything is
/// measured, and appears whole or not at all; a device or a pipe is written as it
/// is.
#[derive(Debug)]
pub(crate) enum Later {
    /// A plain file: written beside its place, then moved there.
    Beside {
        /// What is written to.
        temporary: NamedTempFile,
        /// Where it goes.
        path: PathBuf,
    },
    /// `/dev/stderr`, a named pipe and the like.
    AsItIs(PathBuf),
}

impl Later {
    /// Looks at the place.
    ///
    /// # Errors
    /// A folder that is not there or not writable; a path that is a folder.
    pub(crate) fn open(path: &str) -> io::Result<Self> {
        // Through links: the file is replaced, not the link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path));
        match fs::metadata(&path) {
            Ok(there) if there.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(there) if !there.is_file() => return Ok(Self::AsItIs(path)),
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
            .tempfile_in(folder)?;
        Ok(Self::Beside { temporary, path })
    }

    /// Writes all of it and puts it in its place.
    ///
    /// # Errors
    /// Those of the file.
    pub(crate) fn put(self, content: &[u8]) -> io::Result<()> {
        match self {
            Self::Beside {
                mut temporary,
                path,
            } => {
                temporary.write_all(content)?;
                temporary.persist(&path)?;
                Ok(())
            }
            Self::AsItIs(path) => OpenOptions::new()
                .write(true)
                .open(path)?
                .write_all(content),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_whole_also_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        let open = |name: &str| Later::open(place(name).to_str().unwrap());
        fs::write(place("old"), "old").unwrap();
        std::os::unix::fs::symlink(place("old"), place("link")).unwrap();
        let later = open("link").unwrap();
        assert_eq!(fs::read_to_string(place("old")).unwrap(), "old");
        later.put(b"new").unwrap();
        assert_eq!(fs::read_to_string(place("old")).unwrap(), "new");
        assert!(place("link").is_symlink());
        drop(open("never").unwrap());
        assert!(!place("never").exists());
        assert!(open("").is_err());
        assert!(open("nowhere/file").is_err());
        Later::open("/dev/null").unwrap().put(b"gone").unwrap();
        assert!(!Path::new("/dev/null").is_file());
    }
}
