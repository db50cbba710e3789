//! Access to the system's files, including those that belong to a boot loader.

use std::collections::BTreeSet;
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
    /// The command lines that consist of the sources.
    pub(super) lines: Vec<Line>,
    /// Program that generates the loader's configuration from the files.
    pub(super) command: Vec<String>,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
    /// The file because of which the location of the parameters is unclear, and the reason. `None`
    /// if the location is clear.
    pub(super) unclear: Option<(String, Unclear)>,
}

impl Found {
    /// A boot loader whose only command line is in one source.
    pub(super) fn single(source: Source) -> Self {
        let mut found = Self::default();
        found.add_line(source);
        found
    }

    /// Adds a source, and a command line that consists of it.
    pub(super) fn add_line(&mut self, source: Source) {
        let entry = source.path.clone();
        let part = self.add(source);
        self.lines.push(Line {
            entry,
            parts: vec![part],
            add_to: part,
        });
    }

    /// Returns the positions of the sources of which the command lines consist.
    pub(super) fn used(&self) -> BTreeSet<usize> {
        let mut used = BTreeSet::new();
        let mut waiting: Vec<usize> = self
            .lines
            .iter()
            .flat_map(|line| &line.parts)
            .copied()
            .collect();
        while let Some(place) = waiting.pop() {
            if used.insert(place) {
                let variables = self.sources[place].variables.iter();
                waiting.extend(variables.flat_map(|variable| &variable.sources));
            }
        }
        used
    }

    /// Adds a source, and returns its position.
    pub(super) fn add(&mut self, source: Source) -> usize {
        self.sources.push(source);
        self.sources.len() - 1
    }
}

/// A command line, or the template of the command lines of new kernels.
#[derive(Debug)]
pub(super) struct Line {
    /// The file of its entry.
    pub(super) entry: String,
    /// The positions of its sources, in the order in which the kernel gets the words.
    pub(super) parts: Vec<usize>,
    /// The source to which a new parameter is added.
    pub(super) add_to: usize,
}

/// A file with parameters.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// Its path on the system.
    pub(super) path: String,
    pub(super) form: Form,
    /// The program that overwrites this part of the file. The part is then not edited.
    pub(super) owner: Option<&'static str>,
    /// Variables in its text.
    pub(super) variables: Vec<Variable>,
}

/// A variable in the text of a source.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    pub(super) name: &'static str,
    /// The positions of the sources that contain its value.
    pub(super) sources: Vec<usize>,
}

impl Source {
    pub(super) fn new(path: impl Into<String>, form: Form) -> Self {
        Self {
            path: path.into(),
            form,
            owner: None,
            variables: Vec::new(),
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
        let text = punctual_files::Budget::bytes(LIMIT).read_text(&self.path(file));
        text.unwrap_or_default()
    }
}
