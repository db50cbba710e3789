//! The kernel's command line in the boot loader's files. This module shows it, edits it, and
//! restores the files byte for byte.
//!
//! An edit starts as a plan ([`CmdlineEdit::plan`]). [`CmdlineEdit::write`] copies each file and
//! then writes the edit, and [`revert`] undoes it. Later edits by other programs or users are never
//! overwritten.

mod assembled;
mod error;
mod form;
#[cfg(test)]
mod form_tests;
mod grub;
mod loaders;
#[cfg(test)]
mod loaders_tests;
mod places;
#[cfg(test)]
mod places_tests;
mod raspberry_pi;
mod record;
mod spans;
#[cfg(test)]
mod test_systems;
#[cfg(test)]
mod tests;
mod tree;
mod unclear;
mod words;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use punctual_files::Budget;
use punctual_host::Host;
use serde::Serialize;

pub use error::CmdlineError;
pub use record::{CmdlineRevert, revert};
pub use unclear::Unclear;
pub use words::Changes;

use record::CmdlineEntry;
use tree::Source;

/// Maximum number of bytes to read from a boot loader's file.
const LIMIT: u64 = 1 << 20;

/// A boot loader's file, before and after an edit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileEdit {
    /// Its path on the system.
    pub path: String,
    /// The whole text at present.
    pub before: String,
    /// The whole text after the edit.
    pub after: String,
}

/// The changes that an edit makes to the kernel's command line.
#[derive(Clone, Debug, Serialize)]
pub struct CmdlineEdit {
    /// The boot loader.
    pub loader: &'static str,
    /// Parameters that are added or replaced.
    pub add: Vec<String>,
    /// Names of parameters that are removed.
    pub remove: Vec<String>,
    /// Files that change; empty if all files already have the requested parameters.
    pub files: Vec<FileEdit>,
    /// Program that generates the loader's configuration from the files, with its arguments; empty
    /// if the loader needs no such program.
    pub command: Vec<String>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

punctual_model::to_json!(CmdlineEdit);

/// A boot loader's file, or a part of it, and the parameters in it.
#[derive(Clone, Debug, Serialize)]
pub struct CmdlineFile {
    /// Its path on the system.
    pub path: String,
    /// The variable with the parameters, if the file has several parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<&'static str>,
    /// Parameters; `null` if the file could not be parsed.
    pub parameters: Option<Vec<String>>,
    /// The reason why the file could not be parsed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A command line of the next boot, assembled from all its sources.
#[derive(Clone, Debug, Serialize)]
pub struct CmdlineNext {
    /// The file of its entry, or the template of the entries of new kernels.
    pub entry: String,
    /// The parameters in the order in which the kernel gets them.
    pub parameters: Vec<String>,
    /// Parameters without effect, each with the reason.
    pub ineffective: Vec<String>,
}

/// An edit that was written and has not been reverted. The machine may or may not have booted with
/// this edit yet.
#[derive(Clone, Debug, Serialize)]
pub struct CmdlineWritten {
    /// Parameters that were added or replaced.
    pub add: Vec<String>,
    /// Names of parameters that were removed.
    pub remove: Vec<String>,
    /// Whether the machine was booted after the edit; `null` if this is not known.
    pub booted_since: Option<bool>,
    /// Parameters of `add` that the current boot does not have, or that have no effect in it because
    /// another occurrence of the same parameter wins.
    pub missing_now: Vec<String>,
    /// Parameters of the current boot that `remove` names, or that win over one of `add`.
    pub instead_now: Vec<String>,
}

/// The kernel's command line in the current boot, and the files that determine it for the next
/// boot.
#[derive(Clone, Debug, Serialize)]
pub struct CmdlineState {
    /// Command line of the current boot; `null` for a system that is not running.
    pub current: Option<String>,
    /// Boot loader; `null` if it is not known.
    pub loader: Option<&'static str>,
    /// Files of the boot loader, with the parts that contribute parameters.
    pub files: Vec<CmdlineFile>,
    /// The command lines that consist of the files.
    pub next: Vec<CmdlineNext>,
    /// The reason why no file can be edited; `null` if they can be edited.
    pub problem: Option<String>,
    /// Changes that `write` made and `revert` would restore.
    pub written: Option<CmdlineWritten>,
}

punctual_model::to_json!(CmdlineState);

/// Reads the command line of the current boot, and the files that determine that of the next one.
/// `state` is the folder with the copies that `write` makes.
///
/// # Errors
/// Returns an error if the record of an edit cannot be read.
pub fn cmdline_state(host: &Host, state: &Path) -> Result<CmdlineState, CmdlineError> {
    let current = read(host.root(), "/proc/cmdline").ok().flatten();
    let current = current.map(|text| text.trim().to_owned());
    let record = CmdlineEntry::load(state)?;
    let written = record.map(|record| record.seen_from(host, current.as_deref()));
    let mut shown = CmdlineState {
        current,
        loader: None,
        files: Vec::new(),
        next: Vec::new(),
        problem: loaders::of_image(host.root(), &[], &[])
            .map(|how| format!("this system is built from an image: {how}")),
        written,
    };
    if shown.problem.is_some() {
        return Ok(shown);
    }
    let (loader, found, _) = match loaders::find(host.root(), None) {
        Ok(found) => found,
        Err(error) => {
            shown.problem = Some(error.to_string());
            return Ok(shown);
        }
    };
    shown.loader = Some(loader.name);
    if let Some((path, why)) = found.unclear.clone() {
        shown.problem = Some(CmdlineError::Unclear { path, why }.to_string());
    }
    let texts: Vec<_> = (found.sources.iter())
        .map(|source| words_of(host.root(), source))
        .collect();
    let words: assembled::Words = texts
        .iter()
        .map(|words| words.as_ref().cloned().unwrap_or_default())
        .collect();
    for line in &found.lines {
        let all = assembled::assembled(&found, line, &words);
        let parameters: Vec<&str> = all.iter().map(|one| one.word).collect();
        shown.next.push(CmdlineNext {
            entry: line.entry.clone(),
            ineffective: assembled::ineffective(&parameters),
            parameters: parameters.into_iter().map(str::to_owned).collect(),
        });
    }
    let used = found.used();
    for (place, (source, words)) in found.sources.iter().zip(texts).enumerate() {
        if used.contains(&place) {
            shown.files.push(CmdlineFile {
                path: source.path.clone(),
                part: source.form.part(),
                problem: words.as_ref().err().map(|error| match error {
                    CmdlineError::Unclear { why, .. } => why.to_string(),
                    other => other.to_string(),
                }),
                parameters: words.ok(),
            });
        }
    }
    Ok(shown)
}

/// Returns the parameters in a source.
fn words_of(root: &Path, source: &Source) -> Result<Vec<String>, CmdlineError> {
    let text = read(root, &source.path)?.unwrap_or_default();
    (source.form.read(&text)).map_err(|why| CmdlineError::Unclear {
        path: source.path.clone(),
        why,
    })
}

impl CmdlineEdit {
    /// Plans these changes for the system whose root folder is that of `host`.
    ///
    /// # Errors
    /// Returns an error if there is no boot loader or the requested one is not present, if a file
    /// cannot be parsed, or if the system is built from an image.
    pub fn plan(
        host: &Host,
        changes: &Changes,
        loader: Option<&str>,
    ) -> Result<Self, CmdlineError> {
        let root = host.root();
        if let Some(how) = loaders::of_image(root, changes.added(), changes.removed()) {
            return Err(CmdlineError::Image { how });
        }
        let (loader, found, others) = loaders::find(root, loader)?;
        if let Some((path, why)) = found.unclear.clone() {
            return Err(CmdlineError::Unclear { path, why });
        }
        let used = found.used();
        let words: assembled::Words = (found.sources.iter().enumerate())
            .map(|(place, source)| {
                if used.contains(&place) {
                    words_of(root, source)
                } else {
                    Ok(Vec::new())
                }
            })
            .collect::<Result<_, _>>()?;
        let lines = found.lines.iter().map(|line| {
            let all = assembled::assembled(&found, line, &words);
            all.into_iter().map(|one| one.word).collect()
        });
        let mut notes = found.notes.clone();
        notes.extend(assembled::remarks(&lines.collect::<Vec<_>>(), changes));
        let mut files: Vec<FileEdit> = Vec::new();
        let edits = assembled::edits(&found, &words, changes)?;
        for (source, edits) in found.sources.iter().zip(edits) {
            if edits.is_empty() {
                continue;
            }
            // A file can contain several sources.
            let earlier = files.iter().position(|file| file.path == source.path);
            let before = match earlier {
                Some(place) => files[place].after.clone(),
                None => read(root, &source.path)?.unwrap_or_default(),
            };
            let edited = source.form.edit(&before, &edits);
            let after = edited.map_err(|why| CmdlineError::Unclear {
                path: source.path.clone(),
                why,
            })?;
            match earlier {
                Some(place) => files[place].after = after,
                None => files.push(FileEdit {
                    path: source.path.clone(),
                    before,
                    after,
                }),
            }
        }
        files.retain(|file| file.after != file.before);
        if !others.is_empty() {
            let others = others.join(", ");
            notes.push(format!(
                "files of other boot loaders were also found: {others}; select one with --loader"
            ));
        }
        Ok(Self {
            loader: loader.name,
            add: changes.added().to_vec(),
            remove: changes.removed().to_vec(),
            files,
            command: found.command,
            notes,
        })
    }

    /// Copies each file to the folder `state` and writes the files. Then runs the loader's program
    /// if this is the running system. If anything fails, all files are restored.
    ///
    /// # Errors
    /// Returns an error if an earlier edit has not been reverted yet, if a file changed after the
    /// plan was made or cannot be written, or if the loader's program fails.
    pub fn write(&self, host: &Host, state: &Path) -> Result<(), CmdlineError> {
        self.write_with(host, state, &run)
    }

    fn write_with(&self, host: &Host, state: &Path, run: Runner<'_>) -> Result<(), CmdlineError> {
        if CmdlineEntry::load(state)?.is_some() {
            return Err(CmdlineError::Pending {
                folder: state.to_owned(),
            });
        }
        if self.files.is_empty() {
            return Ok(());
        }
        let root = host.root();
        for file in &self.files {
            if read(root, &file.path)?.unwrap_or_default() != file.before {
                return Err(CmdlineError::Moved {
                    path: file.path.clone(),
                });
            }
        }
        let record = CmdlineEntry::new(self, host);
        record.save(state)?;
        let mut reached = 0;
        let done = (self.files.iter())
            .try_for_each(|file| {
                write(root, &file.path, &file.after)?;
                reached += 1;
                Ok(())
            })
            .and_then(|()| record.update(host, run));
        if let Err(cause) = done {
            let restored = self.files[..reached]
                .iter()
                .try_for_each(|file| write(root, &file.path, &file.before));
            return Err(match restored.and_then(|()| CmdlineEntry::remove(state)) {
                Ok(()) => CmdlineError::Undone {
                    cause: Box::new(cause),
                },
                Err(error) => CmdlineError::NotUndone {
                    cause: Box::new(cause),
                    error: Box::new(error),
                    folder: state.to_owned(),
                },
            });
        }
        Ok(())
    }
}

impl FileEdit {
    /// Returns pairs of the old and the new line for lines that differ. An edit only changes or
    /// appends lines.
    pub fn changed_lines(&self) -> Vec<(Option<&str>, Option<&str>)> {
        let (mut old, mut new) = (self.before.lines(), self.after.lines());
        let mut changed = Vec::new();
        loop {
            match (old.next(), new.next()) {
                (None, None) => return changed,
                (old, new) if old != new => changed.push((old, new)),
                _ => {}
            }
        }
    }
}

/// A function that runs a program of the boot loader.
type Runner<'a> = &'a dyn Fn(&[String]) -> Result<(), CmdlineError>;

/// Limits of a program of the boot loader. grub-mkconfig searches each disk for systems.
const PROGRAM: Budget = Budget::bytes(1 << 20).within(Duration::from_secs(600));

/// Runs a program without input. The program's messages are shown only if it fails.
pub(crate) fn run(words: &[String]) -> Result<(), CmdlineError> {
    let Some((program, arguments)) = words.split_first() else {
        return Ok(());
    };
    let failed = |why: String| CmdlineError::Command {
        command: words.join(" "),
        why,
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::null());
    let output = PROGRAM.output(&mut command);
    let output = output.map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    Err(failed(format!(
        "{}: {}",
        output.status,
        last.unwrap_or("no message")
    )))
}

fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// Reads a text file. Returns `None` if it does not exist.
fn read(root: &Path, path: &str) -> Result<Option<String>, CmdlineError> {
    let place = below(root, path);
    match punctual_files::Budget::bytes(LIMIT).read_text(&place) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Replaces the text of a file atomically.
fn write(root: &Path, path: &str, text: &str) -> Result<(), CmdlineError> {
    Ok(punctual_files::Output::file(&below(root, path))?.put(text.as_bytes())?)
}
