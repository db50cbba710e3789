//! Prints facts that several files share only once, and how many files were imported.

use std::collections::BTreeSet;

use punctual_model::{Recording, counted};

/// Unknown facts and warnings of earlier files, so that files of one kind do not repeat them.
#[derive(Default)]
pub(super) struct Repeated {
    unknown: String,
    warnings: BTreeSet<String>,
    /// Number of warnings that were not printed again.
    pub(super) hidden: u64,
    imported: u64,
    /// The names of the machines.
    machines: BTreeSet<String>,
}

impl Repeated {
    /// Returns the missing data as the end of a sentence.
    pub(super) fn unknown(&mut self, recording: &Recording) -> String {
        let unknown: Vec<&str> = (recording.origin.iter())
            .flat_map(|origin| origin.unknown.iter().map(|what| what.words()))
            .collect();
        let unknown = unknown.join(", ");
        if unknown.is_empty() {
            return unknown;
        }
        if unknown == self.unknown {
            return "; unknown: as above".to_owned();
        }
        self.unknown = unknown;
        format!("; unknown: {}", self.unknown)
    }

    pub(super) fn count(&mut self, recording: &Recording) {
        self.imported += 1;
        self.machines.extend(recording.host.hostname.get().cloned());
    }

    /// Returns a sentence about the end of the import of `files` files; `None` for one file.
    pub(super) fn sum(&self, files: usize) -> Option<String> {
        (files > 1).then(|| {
            let files = counted(files as u64, "file", "files");
            let (imported, machines) = (self.imported, self.machines.len() as u64);
            let machines = match machines {
                0 => String::new(),
                _ => format!(", {}", counted(machines, "machine", "machines")),
            };
            let recordings = counted(imported, "recording", "recordings");
            format!("{files}: {recordings}{machines}")
        })
    }

    pub(super) fn new_warnings<'r>(&mut self, recording: &'r Recording) -> Vec<&'r str> {
        let all = recording.warnings.iter();
        let new = all.filter(|warning| self.warnings.insert((*warning).clone()));
        let new: Vec<&str> = new.map(String::as_str).collect();
        self.hidden += (recording.warnings.len() - new.len()) as u64;
        new
    }
}
