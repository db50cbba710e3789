//! Finds the mount point of tracefs and accesses its files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::mount::{Mount, PLACES};
use crate::{Files, RealFiles, TraceError};

const TRACERS: &str = "available_tracers";

/// Files that show the lockdown state, each with the word to search for. The second file is used if
/// securityfs is not mounted.
const LOCKDOWN: [(&str, &str); 2] = [
    ("sys/kernel/security/lockdown", "[confidentiality]"),
    ("proc/cmdline", "lockdown=confidentiality"),
];

/// A mounted tracefs.
#[derive(Clone, Debug)]
pub struct Tracefs {
    path: PathBuf,
    files: Arc<dyn Files>,
    /// The mount, if tracefs is mounted for this process only.
    _mount: Option<Arc<Mount>>,
}

impl Tracefs {
    /// Finds the tracefs of the machine whose /sys is below `root`. If `root` is this machine (`/`)
    /// and no tracefs is mounted, one is mounted for this process only.
    ///
    /// # Errors
    /// Returns an error if tracefs is not mounted and cannot be mounted, or is not readable, or if
    /// the kernel is locked down.
    pub fn find(root: &Path) -> Result<Self, TraceError> {
        Self::find_with(root, Arc::new(RealFiles))
    }

    /// Like [`find`](Self::find), but with the given file operations.
    ///
    /// # Errors
    /// Returns the errors of [`find`](Self::find).
    pub fn find_with(root: &Path, files: Arc<dyn Files>) -> Result<Self, TraceError> {
        // Check this first, because a locked-down kernel has an empty tracefs, and Linux 6.12
        // crashes when the last mount of an empty tracefs is removed.
        for (file, word) in LOCKDOWN {
            let path = root.join(file);
            let text = files.read(&path).unwrap_or_default();
            if text.split_whitespace().any(|found| found == word) {
                return Err(TraceError::LockedDown { path });
            }
        }
        for place in PLACES {
            let path = root.join(place);
            match files.read(&path.join(TRACERS)) {
                Ok(_) => {
                    return Ok(Self {
                        path,
                        files,
                        _mount: None,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => {
                    let path = path.join(TRACERS);
                    return Err(TraceError::Read { path, source });
                }
            }
        }
        let looked = PLACES.map(|place| root.join(place).display().to_string());
        let looked = looked.join(" and ");
        let mount = if root == Path::new("/") {
            match files.mount() {
                Ok(mount) => {
                    return Ok(Self {
                        path: mount.path(),
                        files,
                        _mount: Some(Arc::new(mount)),
                    });
                }
                Err(error) => {
                    format!(", and a private mount of tracefs failed ({error})")
                }
            }
        } else {
            String::new()
        };
        Err(TraceError::NotMounted { looked, mount })
    }

    /// Returns the mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the tracers that this kernel was built with.
    ///
    /// # Errors
    /// Returns an error if the list cannot be read.
    pub fn available_tracers(&self) -> Result<Vec<String>, TraceError> {
        let text = self.text(&self.file(TRACERS))?;
        Ok(text.split_whitespace().map(str::to_owned).collect())
    }

    /// Checks that the kernel has this tracer.
    ///
    /// # Errors
    /// Returns an error if the kernel does not have the tracer, or if the list cannot be read.
    pub fn require(&self, tracer: &'static str) -> Result<(), TraceError> {
        let available = self.available_tracers()?;
        if available.iter().any(|name| name == tracer) {
            return Ok(());
        }
        Err(TraceError::NoTracer {
            tracer,
            path: self.file(TRACERS),
            available: available.join(", "),
        })
    }

    pub(crate) fn files(&self) -> &dyn Files {
        &*self.files
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn instances(&self) -> PathBuf {
        self.path.join("instances")
    }

    /// Returns a file's text without surrounding white space.
    pub(crate) fn text(&self, path: &Path) -> Result<String, TraceError> {
        match self.files.read(path) {
            Ok(text) => Ok(text.trim().to_owned()),
            Err(source) => Err(TraceError::Read {
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// Returns a file's text, or `None` if this kernel does not have the file.
    pub(crate) fn text_if_there(&self, path: &Path) -> Result<Option<String>, TraceError> {
        match self.text(path) {
            Ok(text) => Ok(Some(text)),
            Err(TraceError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn number(&self, path: &Path) -> Result<u64, TraceError> {
        let found = self.text(path)?;
        found.parse().map_err(|_| TraceError::NotANumber {
            path: path.to_owned(),
            found,
        })
    }

    pub(crate) fn write(&self, path: &Path, value: &str) -> Result<(), TraceError> {
        self.files
            .write(path, value)
            .map_err(|source| TraceError::Write {
                path: path.to_owned(),
                value: value.to_owned(),
                source,
            })
    }

    /// Writes this number to a file and reads it back, unless the file already contains it.
    pub(crate) fn put_number(&self, path: &Path, value: u64) -> Result<(), TraceError> {
        if self.number(path)? == value {
            return Ok(());
        }
        self.write(path, &value.to_string())?;
        let found = self.text(path)?;
        if found.parse() == Ok(value) {
            return Ok(());
        }
        Err(TraceError::NotVerified {
            path: path.to_owned(),
            value: value.to_string(),
            found,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn locked_down_kernel_is_not_traced() {
        let tracers = ("sys/kernel/tracing/available_tracers", "nop\n");
        let locked = [
            (LOCKDOWN[0].0, "none integrity [confidentiality]\n"),
            (LOCKDOWN[1].0, "quiet lockdown=confidentiality\n"),
        ];
        for (file, text) in locked {
            let folder = tree(&[tracers, (file, text)]);
            let error = Tracefs::find(folder.path()).unwrap_err();
            assert!(error.to_string().contains(file), "{error}");
        }
        let open = [
            (LOCKDOWN[0].0, "none [integrity] confidentiality\n"),
            (LOCKDOWN[1].0, "quiet lockdown=integrity\n"),
        ];
        for one in open {
            assert!(Tracefs::find(tree(&[tracers, one]).path()).is_ok());
        }
    }
}
