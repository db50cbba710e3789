//! Finds a profile of TuneD and the profiles that it includes, and joins them to one.

use std::path::{Component, Path, PathBuf};

use super::conf::{Entry, Kind, Section, read};
use super::words::Variables;
use crate::TuneError;

/// TuneD searches these folders for a profile, in this order.
const FOLDERS: [&str; 4] = [
    "etc/tuned/profiles",
    "etc/tuned",
    "usr/lib/tuned/profiles",
    "usr/lib/tuned",
];

/// Maximum number of files of one profile.
const MOST_FILES: usize = 64;

/// The section with the summary and the includes.
pub(super) const MAIN: &str = "main";
/// The section with the variables.
pub(super) const VARIABLES: &str = "variables";

/// The sections of a profile and of those that it includes.
pub(super) struct Loaded {
    /// The files, included ones first.
    pub(super) files: Vec<PathBuf>,
    pub(super) sections: Vec<Section>,
    pub(super) variables: Variables,
    /// Includes and definitions whose value is not known, with their section and the reason.
    pub(super) unknown: Vec<(&'static str, Entry, String)>,
}

/// Loads the profile with this name, or from this file or folder. `root` is the root folder of the
/// system that has the profiles.
///
/// # Errors
/// Returns an error with file and line if a file is missing or is not in the format, or if profiles
/// include each other.
pub(super) fn load(root: &Path, name: &str) -> Result<Loaded, TuneError> {
    let mut loader = Loader {
        root,
        beside: None,
        open: Vec::new(),
        files: Vec::new(),
        sections: Vec::new(),
        unknown: Vec::new(),
    };
    let path = if name.contains('/') || name == "tuned.conf" {
        let given = Path::new(name);
        let path = if given.is_dir() {
            given.join("tuned.conf")
        } else {
            given.to_owned()
        };
        // Each path begins with the empty folder of a relative one.
        let absolute = std::path::absolute(&path).map(|path| real(&path)).ok();
        let folder = absolute
            .as_deref()
            .and_then(Path::parent)
            .and_then(Path::parent);
        let folder = folder.filter(|folder| FOLDERS.iter().all(|own| !folder.ends_with(own)));
        loader.beside = folder.map(Path::to_owned);
        path
    } else {
        loader
            .find(name, "")?
            .ok_or_else(|| wrong(name, "it includes itself"))?
    };
    loader.add(&path, "")?;
    loader.loaded()
}

fn wrong(name: &str, why: &str) -> TuneError {
    TuneError::TunedProfile {
        name: name.to_owned(),
        why: why.to_owned(),
    }
}

/// Returns a path without links, or the path itself if it cannot be followed.
#[expect(clippy::disallowed_methods, reason = "compared, and only read")]
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

struct Loader<'a> {
    root: &'a Path,
    /// The folder that contains the folder of the profile, unless it is one of TuneD's.
    beside: Option<PathBuf>,
    /// The files that include the current one.
    open: Vec<PathBuf>,
    files: Vec<PathBuf>,
    sections: Vec<Section>,
    unknown: Vec<(&'static str, Entry, String)>,
}

impl Loader<'_> {
    /// Returns the file of a profile. As TuneD does, skips files that were already read, so that a
    /// profile in /etc can extend the one of the same name in /usr. Returns `None` if all files of
    /// this name were already read. `by` is the line that includes the profile.
    fn find(&self, name: &str, by: &str) -> Result<Option<PathBuf>, TuneError> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        let suffix = if by.is_empty() {
            String::new()
        } else {
            format!(" (included in {by})")
        };
        if name.is_empty() || !name.chars().all(is_name) || name.starts_with('.') {
            let why = format!("this is not the name of a profile{suffix}");
            return Err(wrong(name, &why));
        }
        let folders = FOLDERS.map(|folder| self.root.join(folder));
        let all = self.beside.iter().chain(&folders);
        let files = all.map(|folder| folder.join(name).join("tuned.conf"));
        let there: Vec<PathBuf> = files.filter(|file| file.is_file()).collect();
        if there.is_empty() {
            let folders = folders
                .map(|folder| folder.display().to_string())
                .join(", ");
            let why = format!(
                "no folder NAME/tuned.conf is in {folders}{suffix}; pass the path of a tuned.conf, or \
                 --root with the root folder of a system that has TuneD"
            );
            return Err(wrong(name, &why));
        }
        let is_new = |file: &&PathBuf| !self.open.contains(file) && !self.files.contains(file);
        match there.iter().find(is_new) {
            Some(file) => self.inside(file, by).map(|()| Some(file.clone())),
            None if there.iter().any(|file| self.files.contains(file)) => Ok(None),
            None => Err(wrong(name, &format!("the profile includes itself{suffix}"))),
        }
    }

    /// Refuses an included file outside of TuneD's folders, because messages about it would show
    /// its lines. Links of another system would lead out of its root folder. The folder beside a
    /// profile can be anyone's, so its links must not lead out of it.
    fn inside(&self, path: &Path, by: &str) -> Result<(), TuneError> {
        let folders = FOLDERS.map(|folder| self.root.join(folder));
        let (file, root) = (real(path), real(self.root));
        let is_plain = !path.components().any(|part| part == Component::ParentDir);
        let is_in = |folder: &PathBuf| path.starts_with(folder) && file.starts_with(real(folder));
        let of_system = |folder| path.starts_with(folder) && file.starts_with(&root);
        let is_inside = self.beside.iter().chain(&folders).any(is_in);
        if is_plain && (is_inside || folders.iter().any(of_system)) {
            return Ok(());
        }
        let folders = FOLDERS.map(|folder| format!("/{folder}")).join(", ");
        let why = format!("only files in {folders} can be included (included in {by})");
        Err(wrong(&path.display().to_string(), &why))
    }

    /// Reads a file after those that it includes.
    fn add(&mut self, path: &Path, by: &str) -> Result<(), TuneError> {
        if self.files.len() + self.open.len() >= MOST_FILES {
            let why = format!("the profile has more than {MOST_FILES} files");
            return Err(wrong(&path.display().to_string(), &why));
        }
        let mut sections = read(path, Kind::Profile, by)?;
        self.open.push(path.to_owned());
        let main = sections.iter_mut().find(|section| section.name == MAIN);
        if let Some(entry) = main.and_then(|main| main.take("include")) {
            // Variables are defined only after all profiles were read.
            let mut none = Variables::default();
            let value = none.expand(&entry.value);
            for name in value.split([',', ';']).map(str::trim) {
                let name = match none.known(name) {
                    Ok(name) => name,
                    Err(why) => {
                        let why = format!(
                            "{why}: the settings of the included profile are missing; write its \
                             name here to import them"
                        );
                        self.unknown.push((MAIN, entry.clone(), why));
                        continue;
                    }
                };
                let found = match name.strip_prefix('-') {
                    // The profile may be missing.
                    Some(name) => self.find(name, &entry.at()).unwrap_or(None),
                    None => self.find(name, &entry.at())?,
                };
                if let Some(next) = found {
                    self.add(&next, &entry.at())?;
                }
            }
        }
        self.open.pop();
        self.files.push(path.to_owned());
        for section in sections {
            self.merge(section);
        }
        Ok(())
    }

    /// Adds a section. Its options replace those of the same section of an included profile, in
    /// their place.
    fn merge(&mut self, mut section: Section) {
        let replaces = section
            .take("replace")
            .is_some_and(|entry| is_true(&entry.value));
        let drop = section.take("drop");
        let known = self
            .sections
            .iter_mut()
            .find(|known| known.name == section.name);
        let Some(known) = known else {
            self.sections.push(section);
            return;
        };
        if replaces {
            *known = section;
            return;
        }
        // These are always those of the last profile.
        known
            .entries
            .retain(|entry| !matches!(entry.name.as_str(), "type" | "enabled" | "devices"));
        for name in drop.iter().flat_map(|entry| entry.value.split([',', ';'])) {
            known.entries.retain(|entry| entry.name != name.trim());
        }
        for entry in section.entries {
            match known.entries.iter_mut().find(|old| old.name == entry.name) {
                Some(old) => *old = entry,
                None => known.entries.push(entry),
            }
        }
    }

    fn loaded(mut self) -> Result<Loaded, TuneError> {
        let mut variables = Variables::default();
        let mut unknown = std::mem::take(&mut self.unknown);
        let place = self
            .sections
            .iter()
            .position(|section| section.name == VARIABLES);
        let definitions = place.map(|place| self.sections.remove(place).entries);
        for entry in definitions.unwrap_or_default() {
            if entry.name != "include" {
                define(&mut variables, &mut unknown, entry);
                continue;
            }
            let path = self.root.join(entry.value.trim_start_matches('/'));
            self.inside(&path, &entry.at())?;
            let included = read(&path, Kind::Variables, &entry.at())?;
            for entry in included.into_iter().flat_map(|section| section.entries) {
                define(&mut variables, &mut unknown, entry);
            }
            self.files.push(path);
        }
        Ok(Loaded {
            files: self.files,
            sections: self.sections,
            variables,
            unknown,
        })
    }
}

fn define(
    variables: &mut Variables,
    unknown: &mut Vec<(&'static str, Entry, String)>,
    entry: Entry,
) {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let result = if entry.name.chars().all(is_word) {
        variables.define(&entry.name, &entry.value)
    } else {
        Err("a name of a variable has only letters, digits and '_'".to_owned())
    };
    if let Err(why) = result {
        unknown.push((VARIABLES, entry, why));
    }
}

/// Returns whether TuneD takes the value of `replace` or `enabled` as true.
pub(super) fn is_true(value: &str) -> bool {
    matches!(value, "1" | "true" | "True")
}
