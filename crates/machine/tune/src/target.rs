//! Where settings are read and written: the machine, its files, and the journal
//! on whose behalf.

use std::path::{Path, PathBuf};

use punctual_host::Host;

use crate::fs::FileSystem;

/// The machine, and how its files are reached.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) files: &'a dyn FileSystem,
    pub(crate) host: &'a Host,
    /// The journal; what a process that holds a setting writes is beside it.
    pub(crate) journal: &'a Path,
}

impl<'a> Target<'a> {
    /// Without a journal: for settings that need no process to hold them.
    pub(crate) fn plain(files: &'a dyn FileSystem, host: &'a Host) -> Self {
        Self {
            files,
            host,
            journal: Path::new(""),
        }
    }

    /// A file's place below the root path.
    pub(crate) fn below(&self, file: &str) -> PathBuf {
        self.host.root().join(file.trim_start_matches('/'))
    }

    /// The text of a file without space around it, where it can be read.
    pub(crate) fn text(&self, file: &str) -> Option<String> {
        let text = self.files.read(&self.below(file)).ok()?;
        Some(text.trim().to_owned())
    }

    /// The processes there are, by number.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let names = self.files.names(&self.below("/proc")).unwrap_or_default();
        let mut pids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        pids.sort_unstable();
        pids
    }

    /// The process of that name, where one runs.
    pub(crate) fn running(&self, name: &str) -> Option<u32> {
        self.processes()
            .into_iter()
            .find(|pid| self.text(&format!("/proc/{pid}/comm")).as_deref() == Some(name))
    }
}
