//! The record of an edit, and a copy of each file. Both are stored on disk before the first file is
//! edited.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use jiff::Timestamp;
use punctual_files::{Output, folder, trusted};
use punctual_host::Host;
use punctual_model::{FromJson, ToJson, from_json, is_parameter, obeyed_words, to_json};
use serde::{Deserialize, Serialize};

use super::{
    CmdlineEdit, CmdlineError, CmdlineWritten, LIMIT, Runner, below, loaders, read, run, write,
};

/// Name of the record in its folder.
const NAME: &str = "record.json";

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CmdlineEntry {
    root: String,
    boot_id: Option<String>,
    written: Timestamp,
    add: Vec<String>,
    remove: Vec<String>,
    command: Vec<String>,
    files: Vec<Committed>,
}

to_json!(CmdlineEntry);
from_json!(CmdlineEntry);

#[derive(Debug, Serialize, Deserialize)]
struct Committed {
    path: String,
    before: String,
    after: String,
}

/// The result of `revert`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CmdlineRevert {
    /// Files that were restored.
    pub restored: Vec<String>,
    /// Files that no longer exist.
    pub gone: Vec<String>,
    /// Files that were left as they are, because they were edited after `write`.
    pub left: Vec<String>,
    /// Newer files that also contain the parameters, such as the entries of a new kernel.
    pub still_there: Vec<String>,
    /// Command that the user must run; `null` if none is needed.
    pub to_run: Option<String>,
}

punctual_model::to_json!(CmdlineRevert);

impl CmdlineEntry {
    pub(super) fn new(edit: &CmdlineEdit, host: &Host) -> Self {
        let files = edit.files.iter().map(|file| Committed {
            path: file.path.clone(),
            before: file.before.clone(),
            after: file.after.clone(),
        });
        Self {
            root: host.root().display().to_string(),
            boot_id: host.boot_id(),
            written: Timestamp::now(),
            add: edit.add.clone(),
            remove: edit.remove.clone(),
            command: edit.command.clone(),
            files: files.collect(),
        }
    }

    /// Reads the record, if there is one. Refuses a file that another user may have written.
    pub(super) fn load(state: &Path) -> Result<Option<Self>, CmdlineError> {
        let path = state.join(NAME);
        let text = match trusted::text(&path, LIMIT * 16) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let record = Self::from_json(text.as_bytes()).map_err(|error| CmdlineError::Damaged {
            path,
            why: error.to_string(),
        })?;
        Ok(Some(record))
    }

    pub(super) fn save(&self, state: &Path) -> Result<(), CmdlineError> {
        folder::make(state, 0o700)?;
        for (number, file) in self.files.iter().enumerate() {
            let name = file.path.rsplit('/').next().unwrap_or("file");
            let copy = state.join(format!("{number}-{name}"));
            Output::private(&copy)?.put(file.before.as_bytes())?;
        }
        Ok(Output::private(&state.join(NAME))?.put(self.to_pretty_json().as_bytes())?)
    }

    /// Removes the record and the copies.
    pub(super) fn remove(state: &Path) -> Result<(), CmdlineError> {
        match fs::remove_file(state.join(NAME)) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(source) => {
                return Err(CmdlineError::File(punctual_files::FileError::Write {
                    path: state.join(NAME),
                    source,
                }));
            }
        }
        // A copy that cannot be removed does no harm if there is no record.
        for entry in fs::read_dir(state).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name
                .to_string_lossy()
                .starts_with(|c: char| c.is_ascii_digit())
            {
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }

    /// Regenerates the loader's configuration if this is the running system.
    pub(super) fn update(&self, host: &Host, run: Runner<'_>) -> Result<(), CmdlineError> {
        if host.root() == Path::new("/") {
            run(&self.command)
        } else {
            Ok(())
        }
    }

    pub(super) fn seen_from(self, host: &Host, current: Option<&str>) -> CmdlineWritten {
        let now = || {
            current
                .unwrap_or_default()
                .split_whitespace()
                .take_while(|word| *word != "--")
        };
        let in_force = |word: &String| obeyed_words(now(), word).contains(&word.as_str());
        let missing = self.add.iter().filter(|word| !in_force(word));
        let missing: Vec<String> = missing.cloned().collect();
        let instead = (missing.iter()).flat_map(|word| obeyed_words(now(), word));
        let removed = |word: &&str| self.remove.iter().any(|name| is_parameter(word, name));
        let instead: Vec<String> = instead
            .chain(now().filter(removed))
            .map(str::to_owned)
            .collect();
        CmdlineWritten {
            missing_now: match current {
                Some(_) => missing,
                None => Vec::new(),
            },
            instead_now: instead,
            booted_since: match (self.boot_id, host.boot_id()) {
                (Some(then), Some(now)) => Some(then != now),
                _ => None,
            },
            add: self.add,
            remove: self.remove,
        }
    }
}

/// Restores the files of the last edit byte for byte. Returns `None` if there was none. With
/// `forget`, files that were edited after `write` are left as they are.
///
/// # Errors
/// Returns [`CmdlineError::Edited`] before anything is restored. Returns other errors if a file
/// cannot be written, or if a program of the boot loader fails after the files were restored.
pub fn revert(
    host: &Host,
    state: &Path,
    forget: bool,
) -> Result<Option<CmdlineRevert>, CmdlineError> {
    revert_with(host, state, forget, &run)
}

pub(super) fn revert_with(
    host: &Host,
    state: &Path,
    forget: bool,
    run: Runner<'_>,
) -> Result<Option<CmdlineRevert>, CmdlineError> {
    let Some(record) = CmdlineEntry::load(state)? else {
        return Ok(None);
    };
    let root = host.root();
    if Path::new(&record.root) != root {
        let root = record.root.into();
        return Err(CmdlineError::OtherRoot { root });
    }
    let mut done = CmdlineRevert::default();
    let mut to_write = Vec::new();
    for file in &record.files {
        match read(root, &file.path)? {
            None => done.gone.push(file.path.clone()),
            Some(text) if text == file.after => to_write.push(file),
            Some(text) if text == file.before => done.restored.push(file.path.clone()),
            Some(_) => done.left.push(file.path.clone()),
        }
    }
    if !done.left.is_empty() && !forget {
        return Err(CmdlineError::Edited {
            paths: done.left,
            folder: state.to_owned(),
        });
    }
    for file in to_write {
        write(root, &file.path, &file.before)?;
        done.restored.push(file.path.clone());
    }
    record.update(host, run)?;
    if root != Path::new("/") && !record.command.is_empty() {
        done.to_run = Some(record.command.join(" "));
    }
    done.still_there = record.others_with_it(root);
    CmdlineEntry::remove(state)?;
    Ok(Some(done))
}

impl CmdlineEntry {
    /// Returns other files of the loader that contain the parameters of this edit.
    fn others_with_it(&self, root: &Path) -> Vec<String> {
        let Ok((_, found, _)) = loaders::find(root, None) else {
            return Vec::new();
        };
        let known = |path: &str| self.files.iter().any(|file| file.path == path);
        let has = |source: &super::tree::Source| {
            let text = read(root, &source.path).ok().flatten().unwrap_or_default();
            let words = source.form.read(&text).unwrap_or_default();
            words.iter().any(|word| self.add.contains(word))
        };
        found
            .sources
            .iter()
            .filter(|source| below(root, &source.path).exists())
            .filter(|source| !known(&source.path) && has(source))
            .map(|source| source.path.clone())
            .collect()
    }
}
