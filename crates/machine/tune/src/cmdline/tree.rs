//! Access to the system's files, including those that belong to a boot loader.

use std::fs;
use std::path::{Path, PathBuf};

use super::LIMIT;
use super::form::Form;
use super::unclear::Unclear;

/// The files found for a boot loader.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Files with the parameters.
    pub(super) sources: Vec<Source>,
    /// Program that generates the loader's configuration from the files.
    pub(super) command: Vec<String>,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
    /// The file because of which the location of the parameters is unclear, and the reason. `None`
    /// if the location is clear.
    pub(super) unclear: Option<(String, Unclear)>,
}

/// A file with parameters.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// Its path on the system.
    pub(super) path: String,
    pub(super) form: Form,
}

impl Source {
    pub(super) fn new(path: impl Into<String>, form: Form) -> Self {
        Self {
            path: path.into(),
            form,
        }
    }
}

/// The root folder of a system, for access to its files.
pub(super) struct Tree(PathBuf);

impl Tree {
    pub(super) fn at(root: &Path) -> Self {
        Self(root.to_owned())
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.join(file.trim_start_matches('/'))
    }

    pub(super) fn has(&self, file: &str) -> bool {
        self.path(file).symlink_metadata().is_ok()
    }

    /// Returns the first of these files that exists.
    pub(super) fn first(&self, files: &[&'static str]) -> Option<&'static str> {
        files.iter().copied().find(|file| self.has(file))
    }

    /// Returns the files in a folder that have this suffix, as sorted paths on the system.
    pub(super) fn with_ending(&self, folder: &str, ending: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder))
            .into_iter()
            .flatten()
            .flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut all: Vec<String> = names
            .filter(|name| name.ends_with(ending))
            .map(|name| format!("{folder}/{name}"))
            .collect();
        all.sort();
        all
    }

    /// Returns the text of a file, or an empty text if the file cannot be read.
    pub(super) fn text(&self, file: &str) -> String {
        let text = punctual_files::bounded::text(&self.path(file), LIMIT);
        text.unwrap_or_default()
    }

    /// Returns whether a file assigns a shell variable.
    pub(super) fn assigns(&self, file: &str, variable: &str) -> bool {
        let text = self.text(file);
        let starts = format!("{variable}=");
        text.lines().any(|line| {
            let line = line.trim_start();
            line.strip_prefix("export ")
                .unwrap_or(line)
                .starts_with(&starts)
        })
    }
}
