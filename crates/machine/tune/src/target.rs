//! The target of reads and writes: a machine, its files, and a journal.

use std::path::{Path, PathBuf};

use punctual_host::Host;

use crate::fs::FileSystem;

/// A machine, and access to its files.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) files: &'a dyn FileSystem,
    pub(crate) host: &'a Host,
    /// Path of the journal. If a setting needs a process that holds it, that process writes its own
    /// file next to the journal.
    pub(crate) journal: &'a Path,
}

impl<'a> Target<'a> {
    /// Creates a target without a journal, for settings that need no process to hold them.
    pub(crate) fn plain(files: &'a dyn FileSystem, host: &'a Host) -> Self {
        Self {
            files,
            host,
            journal: Path::new(""),
        }
    }

    /// Returns a file's path below the root path.
    pub(crate) fn below(&self, file: &str) -> PathBuf {
        self.host.root().join(file.trim_start_matches('/'))
    }

    /// Returns the trimmed text of a file, if the file can be read.
    pub(crate) fn text(&self, file: &str) -> Option<String> {
        let text = self.files.read(&self.below(file)).ok()?;
        Some(text.trim().to_owned())
    }

    /// Returns the PIDs of the processes, in ascending order.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let names = self.files.names(&self.below("/proc")).unwrap_or_default();
        let mut pids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        pids.sort_unstable();
        pids
    }

    /// Returns a running process of that name, if there is one.
    pub(crate) fn running(&self, name: &str) -> Option<u32> {
        self.processes()
            .into_iter()
            .find(|pid| self.text(&format!("/proc/{pid}/comm")).as_deref() == Some(name))
    }
}
