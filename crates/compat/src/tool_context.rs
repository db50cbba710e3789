//! What a tool has around it while it runs.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use punctual_formats::Additions;
use punctual_host::Host;
use punctual_model::{Recording, sanitize_lines};
use punctual_session::{Keep, SessionError};

/// What a tool has around it while it runs.
pub struct Stage<'a> {
    /// The command line from argv\[0\] on, as it is written into files.
    pub command_line: Vec<String>,
    /// The machine.
    pub host: Host,
    /// Where the recording goes; `None`: nowhere.
    pub store: Option<Box<dyn Keep>>,
    /// Where changes of settings are journalled.
    pub journal: Option<PathBuf>,
    /// How the program is started for one half of a probe in a process of its
    /// own; `None`: it cannot be.
    pub partner: Option<Vec<OsString>>,
    /// What the environment asks for.
    pub behaviour: Behaviour,
    /// What signals have asked for.
    pub signals: Signals,
    /// When the program began.
    pub started: jiff::Timestamp,
    /// The standard output.
    pub out: &'a mut dyn Write,
    /// The standard error.
    pub err: &'a mut dyn Write,
}

/// What the environment asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Behaviour {
    /// `PUNCTUAL_STRICT=1`: a break is exit status 3, and `return_code` 3.
    pub strict: bool,
    /// `PUNCTUAL_SPARSE_HISTOGRAM=1`: histograms have filled rows only.
    pub sparse_histogram: bool,
    /// `PUNCTUAL_JSON_KEY=1`, and a recording is kept: JSON has the key `punctual`.
    pub extra_key: bool,
    /// `POSIXLY_CORRECT`: the first operand ends the options.
    pub posixly_correct: bool,
}

/// Flags that handlers of signals set.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    /// SIGINT, SIGTERM, SIGALRM: the run ends with what was measured.
    pub stop: Arc<AtomicBool>,
    /// SIGUSR1: show how the run stands on stderr.
    pub show: Arc<AtomicBool>,
    /// SIGUSR2: somebody reads how the run stands from a file, where it is
    /// already; without a handler the signal would end the program.
    pub snapshot: Arc<AtomicBool>,
}

/// The exit status of a break where `PUNCTUAL_STRICT` is set; punctual's own.
pub(crate) const BROKE: u8 = 3;

impl Stage<'_> {
    /// Says something on stderr, in the words of the tool. Nobody is left to
    /// tell where stderr is closed.
    pub(crate) fn say(&mut self, text: &str) {
        let _ = writeln!(self.err, "{}", sanitize_lines(text, false));
    }

    /// What the original's warn() prints.
    pub(crate) fn warn(&mut self, text: &str) {
        self.say(&format!("WARN: {text}"));
    }

    /// Says what the original would not. Scripts that put stderr and stdout into
    /// one file leave out lines that begin so.
    pub(crate) fn note(&mut self, text: &str) {
        self.say(&format!("# punctual: {text}"));
    }

    /// The command line as the tools write it into their files.
    pub(crate) fn command_line(&self) -> String {
        self.command_line.join(" ")
    }

    /// The exit status, and `return_code` in JSON.
    pub(crate) fn status(&self, broke: bool) -> u8 {
        match broke && self.behaviour.strict {
            true => BROKE,
            false => 0,
        }
    }

    /// What JSON has beside the original's keys, where that is wanted; `limit`:
    /// the rows of its histogram.
    pub(crate) fn additions<'r>(
        &self,
        recording: &'r Recording,
        limit: Option<usize>,
    ) -> Option<Additions<'r>> {
        (self.behaviour.extra_key).then(|| Additions::of(recording, limit))
    }

    /// What must be known of a run beside its lines: warnings of the recording
    /// and a store that failed. Neither changes the exit status: the original
    /// would not know of them.
    pub(crate) fn tell_of(&mut self, outcome: &punctual_session::Outcome) {
        for warning in &outcome.recording.warnings {
            self.note(warning);
        }
        if let Some(error) = &outcome.store_error {
            self.note(&format!("the recording could not be kept: {error}"));
        }
    }

    /// Whether an error is a lack of rights.
    pub(crate) fn is_privilege(error: &SessionError) -> bool {
        matches!(error, SessionError::System(error) if error.is_privilege())
    }
}
