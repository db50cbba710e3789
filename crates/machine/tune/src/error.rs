//! Why a setting could not be changed or put back.

use std::io;
use std::path::PathBuf;

use punctual_files::Refusal;

use crate::restored::Restored;

/// A change that could not be undone.
#[derive(Debug)]
pub struct Failure {
    /// The setting, `name` or `name@instance`.
    pub setting: String,
    /// The value it had, and should have again.
    pub value: String,
    /// Why it does not have it.
    pub error: TuneError,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A journal can hold anything.
        let value = self.value.escape_debug();
        write!(f, "{} to '{value}': {}", self.setting, self.error)
    }
}

/// Why a setting could not be changed or put back.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// No such setting.
    #[error("there is no setting '{name}' that this version can change: {known}")]
    NoSuchSetting {
        /// What was asked for.
        name: String,
        /// The nearest, or those there are.
        known: String,
    },
    /// A value that cannot be written as one line.
    #[error(
        "{setting}: {value:?} is not a value of a setting: one line of text, without space around it"
    )]
    Value {
        /// The setting.
        setting: &'static str,
        /// The value.
        value: String,
    },
    /// A value that the kernel does not list.
    #[error("{setting}: '{value}' is not available; choose one of {offered}")]
    NotOffered {
        /// The setting.
        setting: String,
        /// The value.
        value: String,
        /// Those there are.
        offered: String,
    },
    /// A value that the setting does not take.
    #[error("{setting}: '{value}' is not valid: {expected}")]
    Invalid {
        /// The setting.
        setting: String,
        /// The value.
        value: String,
        /// What it takes.
        expected: String,
    },
    /// A word that stands for CPUs which are not known.
    #[error("{setting}: which CPUs are '{word}' is not known: give --cpus, or a list")]
    NeedsCpus {
        /// The setting.
        setting: String,
        /// The word.
        word: String,
    },
    /// A setting that this machine does not have.
    #[error("this machine has no {setting}: {reason}")]
    Absent {
        /// The setting.
        setting: String,
        /// What was looked for.
        reason: String,
    },
    /// An interrupt, a device, a CPU that is not there.
    #[error("there is no {setting} here: {there}")]
    NoInstance {
        /// The setting with its instance.
        setting: String,
        /// Those there are.
        there: String,
    },
    /// A setting that the kernel lets nobody change.
    #[error("{setting} cannot be changed: {reason}")]
    Refused {
        /// The setting.
        setting: String,
        /// Why.
        reason: String,
    },
    /// A thread's priority could not be set.
    #[error("{setting}: {source}")]
    Schedule {
        /// The setting.
        setting: String,
        /// What the kernel said.
        source: punctual_rt::Error,
    },
    /// The process that holds a setting did not do so.
    #[error("{setting}: {reason}")]
    Holder {
        /// The setting.
        setting: &'static str,
        /// What went wrong.
        reason: String,
    },
    /// A profile that cannot be read.
    #[error("{file}:{line}:{column}: {message}\n  {text}\n  {marker}")]
    Profile {
        /// The file, or the name of a built-in one.
        file: String,
        /// From 1.
        line: usize,
        /// From 1, in characters.
        column: usize,
        /// What is wrong.
        message: String,
        /// The line.
        text: String,
        /// Carets below what is wrong.
        marker: String,
    },
    /// A profile that is neither built in nor a file.
    #[error("there is no profile '{name}': {why}; the built-in ones are {known}")]
    NoProfile {
        /// What was asked for.
        name: String,
        /// Why the file could not be read.
        why: String,
        /// Those there are.
        known: String,
    },
    /// A profile that somebody else may have written.
    #[error(
        "the profile {} is not used: {why}; root applies only what root wrote: read it, then \
         `sudo install -m 644` a copy into a folder of root",
        path.display()
    )]
    Untrusted {
        /// The file.
        path: PathBuf,
        /// What was found.
        why: Refusal,
    },
    /// CPUs that cannot be set apart.
    #[error("{0}")]
    Cpus(String),
    /// Rights that are lacking for a plan; nothing was changed.
    #[error("nothing changed: {} of {of} settings are not writable:{}", lacking.len(), first_of(lacking))]
    Lacking {
        /// A sentence for each.
        lacking: Vec<String>,
        /// Settings that were to be changed.
        of: usize,
    },
    /// A change failed; what had been changed before it is as it was.
    #[error("{cause}; {}", undone_text(*undone))]
    RolledBack {
        /// What failed.
        cause: Box<TuneError>,
        /// Changes that were undone.
        undone: usize,
    },
    /// A change failed, and what had been changed before it could not all be
    /// undone.
    #[error("{cause}; and undoing what was changed before it failed: {undoing}")]
    NotRolledBack {
        /// What failed.
        cause: Box<TuneError>,
        /// [`TuneError::NotRestored`].
        undoing: Box<TuneError>,
    },
    /// A tune is in force.
    #[error("'{label}' is applied already: `punctual tune revert` first (journal: {})", path.display())]
    InForce {
        /// What was applied.
        label: String,
        /// Its journal.
        path: PathBuf,
    },
    /// A setting that could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A setting that could not be written.
    #[error("cannot change {}: {source}{reason}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
        /// What lies behind it and what to do, after "; ". Can be empty.
        reason: String,
    },
    /// A value that could not be restored, or that no apply could have written:
    /// it is not written.
    #[error("{setting}: {value:?} is not a value of this setting ({takes}); it is not written")]
    Unsound {
        /// The setting with its instance.
        setting: String,
        /// The value, shortened.
        value: String,
        /// What the setting takes.
        takes: String,
    },
    /// The kernel took the value and did something else.
    #[error("not verified: {} was set to '{value}', the kernel raised no objection, and it reads '{found}'", path.display())]
    NotVerified {
        /// The file.
        path: PathBuf,
        /// What was written.
        value: String,
        /// What it holds after that.
        found: String,
    },
    /// The journal could not be read or written: nothing is changed without
    /// it.
    #[error("cannot {what} the journal {}: {source}{}; without it no setting is changed",
             path.display(), whose(source))]
    Journal {
        /// read, write, …
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A line of the journal is not what was written.
    #[error("line {line} of the journal {} is damaged, so it cannot be undone: compare its \
             old values with the machine, restore them by hand, and remove the file", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// Another program changes settings.
    #[error("another program is changing settings: {} is locked; wait until it has ended", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// An earlier program's changes are still in force.
    #[error("the journal {} holds changes that are not undone yet: undo them before making others", path.display())]
    Pending {
        /// The file.
        path: PathBuf,
    },
    /// It is not known which boot this is, or when this process started: the
    /// journal's changes could not be distinguished from those of another.
    #[error("{what} is not known: is /proc mounted? Without it no setting is changed")]
    Unidentified {
        /// What is not known.
        what: &'static str,
    },
    /// Some changes could not be undone. They stay in the journal: the next
    /// command tries again.
    #[error("could not restore {}", list(failures))]
    NotRestored {
        /// Those that were undone.
        restored: Vec<Restored>,
        /// Those that were not.
        failures: Vec<Failure>,
    },
    /// All changes are undone, but that could not be written to the journal.
    #[error("{} restored, but the journal {} could not be written: {source}; {}",
             settings(restored.len()), path.display(), outlook(*emptied))]
    NotRecorded {
        /// What was undone.
        restored: Vec<Restored>,
        /// The journal.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
        /// Whether it could be emptied after all.
        emptied: bool,
    },
    /// There is no place for the journal.
    #[error(
        "no place for the journal of settings: neither XDG_STATE_HOME nor HOME is an absolute path"
    )]
    NoPlace,
}

impl TuneError {
    /// Whether what was asked for is at fault, and not the machine.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::NoSuchSetting { .. }
                | Self::Value { .. }
                | Self::NotOffered { .. }
                | Self::Invalid { .. }
                | Self::NoInstance { .. }
                | Self::NeedsCpus { .. }
                | Self::Cpus(_)
                | Self::Profile { .. }
                | Self::NoProfile { .. }
        )
    }
}

/// What to do where the journal is another user's.
fn whose(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => {
            " (set XDG_STATE_HOME to a folder of your own, or unset it)"
        }
        _ => "",
    }
}

fn settings(count: usize) -> String {
    match count {
        1 => "1 setting is".to_owned(),
        _ => format!("{count} settings are"),
    }
}

fn outlook(emptied: bool) -> &'static str {
    match emptied {
        true => "it could be emptied, so nothing is left to do",
        false => "run `punctual tune revert` once more when it can be",
    }
}

fn undone_text(undone: usize) -> String {
    match undone {
        0 => "nothing else was changed".to_owned(),
        1 => "the change made before it is undone".to_owned(),
        _ => format!("all {undone} changes made before it are undone"),
    }
}

/// The first of several, and how many there are beside.
fn first_of(lacking: &[String]) -> String {
    // Most often all lack the same.
    const SHOWN: usize = 3;
    let mut text = lacking
        .iter()
        .take(SHOWN)
        .map(|one| format!("\n  {one}"))
        .collect::<String>();
    if lacking.len() > SHOWN {
        text.push_str(&format!("\n  and {} more", lacking.len() - SHOWN));
    }
    text
}

fn list(failures: &[Failure]) -> String {
    let texts: Vec<String> = failures.iter().map(Failure::to_string).collect();
    texts.join("; ")
}
