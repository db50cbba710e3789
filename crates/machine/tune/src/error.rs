//! Errors that occur when changing or restoring settings.

use std::io;
use std::path::PathBuf;

use punctual_files::Refusal;

use crate::restored::Restored;

/// A change that could not be undone.
#[derive(Debug)]
pub struct Failure {
    /// The setting, `name` or `name@instance`.
    pub setting: String,
    /// Its old value, which should have been restored.
    pub value: String,
    /// The reason.
    pub error: TuneError,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A journal can contain arbitrary characters.
        let value = self.value.escape_debug();
        write!(f, "{} to '{value}': {}", self.setting, self.error)
    }
}

/// A reason why a setting could not be changed or restored.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// The setting is unknown.
    #[error("unknown setting '{name}': {known}")]
    NoSuchSetting {
        /// The requested name.
        name: String,
        /// The nearest name, or all names.
        known: String,
    },
    /// The value cannot be written as one line.
    #[error(
        "{setting}: the value {value:?} is not valid: it must be one line of text without leading \
         or trailing spaces"
    )]
    Value {
        /// The setting.
        setting: &'static str,
        /// The value.
        value: String,
    },
    /// The value is not in the kernel's list of values.
    #[error("{setting}: '{value}' is not available; choose one of {offered}")]
    NotOffered {
        /// The setting.
        setting: String,
        /// The value.
        value: String,
        /// Possible values.
        offered: String,
    },
    /// The setting does not accept the value.
    #[error("{setting}: '{value}' is not valid: {expected}")]
    Invalid {
        /// The setting.
        setting: String,
        /// The value.
        value: String,
        /// Values that it accepts.
        expected: String,
    },
    /// A word for CPUs was used, but it is not known which CPUs it stands for.
    #[error("{setting}: it is unknown which CPUs '{word}' means: pass --cpus, or a list of CPUs")]
    NeedsCpus {
        /// The setting.
        setting: String,
        /// The word.
        word: String,
    },
    /// This machine does not have the setting.
    #[error("this machine has no {setting}: {reason}")]
    Absent {
        /// The setting.
        setting: String,
        /// The path or feature that is missing.
        reason: String,
    },
    /// An interrupt, device or CPU does not exist.
    #[error("there is no {setting} on this machine: {there}")]
    NoInstance {
        /// The setting with its instance.
        setting: String,
        /// Existing instances.
        there: String,
    },
    /// The kernel does not allow anyone to change the setting, not even root.
    #[error("{setting} cannot be changed: {reason}")]
    Refused {
        /// The setting.
        setting: String,
        /// The reason.
        reason: String,
    },
    /// A thread's priority could not be set.
    #[error("{setting}: {source}")]
    Schedule {
        /// The setting.
        setting: String,
        /// The kernel's error.
        source: punctual_rt::Error,
    },
    /// The process that should hold a setting failed.
    #[error("{setting}: {reason}")]
    Holder {
        /// The setting.
        setting: &'static str,
        /// The problem.
        reason: String,
    },
    /// A profile could not be parsed.
    #[error("{file}:{line}:{column}: {message}\n  {text}\n  {marker}")]
    Profile {
        /// File, or name of a built-in profile.
        file: String,
        /// Line, counted from 1.
        line: usize,
        /// Column, counted from 1 in characters.
        column: usize,
        /// The problem.
        message: String,
        /// Text of the line.
        text: String,
        /// Carets below the erroneous part.
        marker: String,
    },
    /// A profile is neither built in nor a file.
    #[error("unknown profile '{name}': {why}; the built-in profiles are {known}")]
    NoProfile {
        /// The requested name.
        name: String,
        /// The reason why the file could not be read.
        why: String,
        /// Built-in profiles.
        known: String,
    },
    /// A profile of TuneD is missing or not in the format.
    #[error("profile of TuneD, {name}: {why}")]
    TunedProfile {
        /// Name of the profile, or file with the line.
        name: String,
        /// The problem.
        why: String,
    },
    /// Another user may have written the profile.
    #[error(
        "the profile {} is not used: {why}; root applies only files that root wrote: read the \
         profile, then copy it with `sudo install -m 644` to a folder that belongs to root",
        path.display()
    )]
    Untrusted {
        /// The file.
        path: PathBuf,
        /// The problem.
        why: Refusal,
    },
    /// The CPUs cannot be isolated.
    #[error("{0}")]
    Cpus(String),
    /// Permissions that a plan requires are missing. Nothing was changed.
    #[error("nothing changed: {} of {of} settings are not writable:{}", lacking.len(), first_of(lacking))]
    Lacking {
        /// Missing permissions, one sentence per permission.
        lacking: Vec<String>,
        /// Number of settings to change.
        of: usize,
    },
    /// A change failed, and the changes before it were undone.
    #[error("{cause}; {}", undone_text(*undone))]
    RolledBack {
        /// The error.
        cause: Box<TuneError>,
        /// Changes that were undone.
        undone: usize,
    },
    /// A change failed, and not all changes before it could be undone.
    #[error("{cause}; the changes made before this error could not be undone: {undoing}")]
    NotRolledBack {
        /// The error.
        cause: Box<TuneError>,
        /// [`TuneError::NotRestored`].
        undoing: Box<TuneError>,
    },
    /// Other changes are in force.
    #[error("'{label}' is already applied: run `punctual tune revert` first (journal: \
             {})", path.display())]
    InForce {
        /// Name of these changes.
        label: String,
        /// Their journal.
        path: PathBuf,
    },
    /// A setting could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A setting could not be written.
    #[error("cannot change {}: {source}{reason}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
        /// The probable cause and what to do, preceded by "; ". It can be empty.
        reason: String,
    },
    /// The value is not written, because it could not be restored later, or because no apply can
    /// have recorded it.
    #[error(
        "{setting}: the value {value:?} is not valid for this setting ({takes}), so it is not \
         written"
    )]
    Unsound {
        /// The setting with its instance.
        setting: String,
        /// The value, shortened.
        value: String,
        /// Values that the setting accepts.
        takes: String,
    },
    /// The kernel accepted the value but did something else.
    #[error("not verified: {} was set to '{value}' and the kernel reported no error, but the file \
             reads '{found}'", path.display())]
    NotVerified {
        /// The file.
        path: PathBuf,
        /// The written value.
        value: String,
        /// The value read afterwards.
        found: String,
    },
    /// The journal could not be read or written. Without the journal, nothing is changed.
    #[error("cannot {what} the journal {}: {source}{}; without the journal, no setting is changed",
             path.display(), whose(source))]
    Journal {
        /// The operation, such as read or write.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A line of the journal has been altered since it was written.
    #[error("line {line} of the journal {} is damaged, so its changes cannot be undone: compare \
             its old values with the machine, restore them by hand, and remove the \
             file", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
    /// Another program is changing settings.
    #[error("another program is changing settings: {} is locked; wait until that program has \
             ended", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// Changes of an earlier program are still in force.
    #[error("the journal {} contains changes that are not undone: run `punctual tune revert` \
             before you make other changes", path.display())]
    Pending {
        /// The file.
        path: PathBuf,
    },
    /// The current boot or the start time of this process is unknown, so the journal's changes
    /// could not be distinguished from those of another boot or process.
    #[error("{what} is unknown: is /proc mounted? Without this information, no setting is changed")]
    Unidentified {
        /// The unknown item.
        what: &'static str,
    },
    /// Some changes could not be undone. They stay in the journal, and the next command tries
    /// again.
    #[error("could not restore {}", list(failures))]
    NotRestored {
        /// Settings that were restored.
        restored: Vec<Restored>,
        /// Settings that were not restored.
        failures: Vec<Failure>,
    },
    /// All changes were undone, but the journal could not be written.
    #[error("{} restored, but the journal {} could not be written: {source}; {}",
             settings(restored.len()), path.display(), outlook(*emptied))]
    NotRecorded {
        /// Settings that were restored.
        restored: Vec<Restored>,
        /// The journal.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
        /// Whether the journal could be emptied afterwards.
        emptied: bool,
    },
    /// No directory is available for the journal.
    #[error(
        "no folder for the journal of settings: neither XDG_STATE_HOME nor HOME is an absolute path"
    )]
    NoPlace,
}

impl TuneError {
    /// Returns whether the request is at fault rather than the machine.
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
                | Self::TunedProfile { .. }
        )
    }
}

/// Returns advice for the case that the journal belongs to another user.
fn whose(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => {
            " (set XDG_STATE_HOME to a folder that you own, or unset it)"
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
    if emptied {
        "the journal could be emptied, so nothing is left to do"
    } else {
        "run `punctual tune revert` again when the journal can be written"
    }
}

fn undone_text(undone: usize) -> String {
    match undone {
        0 => "nothing else was changed".to_owned(),
        1 => "the change made before this error is undone".to_owned(),
        _ => format!("all {undone} changes made before this error are undone"),
    }
}

/// Joins the first messages, and appends the number of the remaining ones.
fn first_of(lacking: &[String]) -> String {
    // Usually all settings lack the same permission, so a few messages are enough.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn cause() -> Box<TuneError> {
        Box::new(TuneError::NoPlace)
    }

    fn failure(setting: &str, value: &str) -> Failure {
        Failure {
            setting: setting.to_owned(),
            value: value.to_owned(),
            error: TuneError::Cpus("no CPU".to_owned()),
        }
    }

    #[test]
    fn undone_changes_are_counted() {
        for (undone, text) in [
            (0, "; nothing else was changed"),
            (1, "; the change made before this error is undone"),
            (2, "; all 2 changes made before this error are undone"),
        ] {
            let error = TuneError::RolledBack {
                cause: cause(),
                undone,
            };
            let error = error.to_string();
            assert!(error.ends_with(text), "{error}");
            assert!(error.starts_with("no folder for the journal"), "{error}");
        }
    }

    #[test]
    fn first_lacking_permissions_are_shown() {
        let shown = |count: usize| {
            let lacking = (1..=count).map(|one| format!("s{one}")).collect();
            TuneError::Lacking { lacking, of: 9 }.to_string()
        };
        let begin = |count| format!("nothing changed: {count} of 9 settings are not writable:");
        assert_eq!(shown(1), begin(1) + "\n  s1");
        assert_eq!(shown(3), begin(3) + "\n  s1\n  s2\n  s3");
        assert_eq!(shown(4), begin(4) + "\n  s1\n  s2\n  s3\n  and 1 more");
        assert_eq!(shown(9), begin(9) + "\n  s1\n  s2\n  s3\n  and 6 more");
    }

    #[test]
    fn unwritable_journal_is_reported_with_what_is_left_to_do() {
        let restored = |count: usize| {
            let one = Restored {
                setting: "x".to_owned(),
                value: "1".to_owned(),
                how: crate::How::WasThere,
            };
            vec![one; count]
        };
        let error = |count, emptied| {
            let error = TuneError::NotRecorded {
                restored: restored(count),
                path: "/j".into(),
                source: io::Error::from_raw_os_error(30),
                emptied,
            };
            error.to_string()
        };
        let one = error(1, true);
        assert!(
            one.starts_with("1 setting is restored, but the journal /j"),
            "{one}"
        );
        assert!(one.ends_with("so nothing is left to do"), "{one}");
        let two = error(2, false);
        assert!(two.starts_with("2 settings are restored, but"), "{two}");
        assert!(
            two.ends_with("again when the journal can be written"),
            "{two}"
        );
        assert!(error(0, true).starts_with("0 settings are"));
    }

    #[test]
    fn folder_is_suggested_only_if_permission_is_missing() {
        let error = |errno| {
            let error = TuneError::Journal {
                what: "lock",
                path: "/j".into(),
                source: io::Error::from_raw_os_error(errno),
            };
            error.to_string()
        };
        assert!(error(13).contains("(set XDG_STATE_HOME to a folder that you own"));
        assert!(!error(28).contains("XDG_STATE_HOME"));
    }

    #[test]
    fn each_setting_that_was_not_restored_is_named() {
        let error = TuneError::NotRestored {
            restored: Vec::new(),
            failures: vec![failure("a", "1\n2"), failure("b", "é")],
        };
        // Characters of a journal do not reach the terminal.
        let text = "could not restore a to '1\\n2': no CPU; b to 'é': no CPU";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn mistakes_of_the_user_are_distinguished() {
        let usage = [
            TuneError::Cpus(String::new()),
            TuneError::NeedsCpus {
                setting: String::new(),
                word: String::new(),
            },
            TuneError::NoInstance {
                setting: String::new(),
                there: String::new(),
            },
        ];
        assert!(usage.iter().all(TuneError::is_usage));
        let others = [
            TuneError::NoPlace,
            TuneError::Locked { path: "/j".into() },
            TuneError::Absent {
                setting: String::new(),
                reason: String::new(),
            },
        ];
        assert!(!others.iter().any(TuneError::is_usage));
    }
}
