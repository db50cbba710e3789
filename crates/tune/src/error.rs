//! Why a setting could not be changed or put back.

use std::io;
use std::path::PathBuf;

use crate::Restored;

/// A change that could not be undone.
#[derive(Debug)]
pub struct Failure {
    /// The setting.
    pub knob: String,
    /// The value it had, and should have again.
    pub value: String,
    /// Why it does not have it.
    pub error: TuneError,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} to '{}': {}", self.knob, self.value, self.error)
    }
}

/// Why a setting could not be changed or put back.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// No such setting.
    #[error("there is no setting '{name}' that this version can change: one of {known}")]
    NoSuchKnob {
        /// What was asked for.
        name: String,
        /// Those there are.
        known: String,
    },
    /// A value that cannot be written as one line.
    #[error(
        "{knob}: {value:?} is not a value of a setting: one line of text, without space around it"
    )]
    Value {
        /// The setting.
        knob: &'static str,
        /// The value.
        value: String,
    },
    /// A value that the kernel does not list.
    #[error("{knob}: this machine has no '{value}', but {offered}")]
    NotOffered {
        /// The setting.
        knob: &'static str,
        /// The value.
        value: String,
        /// Those there are.
        offered: String,
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
    #[error("cannot change {}: {source}{}", path.display(), advice(source))]
    Write {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
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
    #[error("cannot {what} the journal {}: {source}; without it no setting is changed", path.display())]
    Journal {
        /// read, write, …
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A line of the journal is not what was written.
    #[error("line {line} of the journal {} is damaged, so what it says cannot be undone: look at its \
             old values, put back by hand what is not as it was, and remove the file", path.display())]
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
    #[error("the journal {} holds changes that have not been undone: they must be before others are made", path.display())]
    Pending {
        /// The file.
        path: PathBuf,
    },
    /// It is not known which boot this is, or when this process started: the
    /// journal's changes could not be told from those of another.
    #[error("cannot tell {what}: is /proc mounted? Without it no setting is changed")]
    Unidentified {
        /// What is not known.
        what: &'static str,
    },
    /// Some changes could not be undone. They stay in the journal: the next
    /// command tries again.
    #[error("could not put back {}", list(failures))]
    NotRestored {
        /// Those that were undone.
        restored: Vec<Restored>,
        /// Those that were not.
        failures: Vec<Failure>,
    },
    /// There is no place for the journal.
    #[error(
        "no place for the journal of settings: neither XDG_STATE_HOME nor HOME is an absolute path"
    )]
    NoPlace,
}

/// How to get the right that is lacking.
fn advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => "; settings of the machine belong to root: use sudo",
        io::ErrorKind::ReadOnlyFilesystem => {
            "; it is mounted read-only, as in most containers: run it on the machine itself"
        }
        io::ErrorKind::NotFound => "; this kernel does not have it",
        _ => "",
    }
}

fn list(failures: &[Failure]) -> String {
    let texts: Vec<String> = failures.iter().map(Failure::to_string).collect();
    texts.join("; ")
}
