//! The environment of a running tool.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use punctual_formats::Additions;
use punctual_host::Host;
use punctual_model::{Recording, sanitize_lines};
use punctual_session::{RecordingSink, SessionError};

/// The environment of a running tool.
pub struct ToolContext<'a> {
    /// The command line beginning with argv\[0\], as it is written to files.
    pub command_line: Vec<String>,
    /// The machine.
    pub host: Host,
    /// The store for the recording; `None` to discard it.
    pub store: Option<Box<dyn RecordingSink>>,
    /// The journal of changed settings.
    pub journal: Option<PathBuf>,
    /// Command that starts one half of a probe in a subprocess; `None` if that is not possible.
    pub partner: Option<Vec<OsString>>,
    /// Settings from environment variables.
    pub behaviour: Behaviour,
    /// Requests made by signals.
    pub signals: Signals,
    /// Start time of the program.
    pub started: jiff::Timestamp,
    /// The standard output.
    pub out: &'a mut dyn Write,
    /// The standard error.
    pub err: &'a mut dyn Write,
}

/// Settings from environment variables.
#[derive(Clone, Copy, Debug, Default)]
pub struct Behaviour {
    /// With `PUNCTUAL_STRICT=1`, the exit status and `return_code` are 3 after a break.
    pub strict: bool,
    /// With `PUNCTUAL_SPARSE_HISTOGRAM=1`, histograms contain only rows with samples.
    pub sparse_histogram: bool,
    /// With `PUNCTUAL_JSON_KEY=1`, the JSON has the key `punctual` if a recording is stored.
    pub extra_key: bool,
    /// With `POSIXLY_CORRECT`, no options are read after the first operand.
    pub posixly_correct: bool,
}

/// Flags set by signal handlers.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    /// SIGINT, SIGTERM, SIGALRM: end the run and report the results.
    pub stop: Arc<AtomicBool>,
    /// SIGUSR1: print the current figures on stderr.
    pub show: Arc<AtomicBool>,
    /// SIGUSR2: another program reads the current figures from a file, which is always up to date.
    /// Without a handler, the signal would kill this program.
    pub snapshot: Arc<AtomicBool>,
}

/// Exit status after a break if `PUNCTUAL_STRICT` is set. The originals do not have it.
pub(crate) const BROKE: u8 = 3;

impl ToolContext<'_> {
    /// Prints a message of the original on stderr. Ignores write errors.
    pub(crate) fn say(&mut self, text: &str) {
        let _ = writeln!(self.err, "{}", sanitize_lines(text, false));
    }

    /// Prints a warning in the format of the original's warn().
    pub(crate) fn warn(&mut self, text: &str) {
        self.say(&format!("WARN: {text}"));
    }

    /// Prints a message that the original does not have. Scripts that merge stderr and stdout skip
    /// lines with this prefix.
    pub(crate) fn note(&mut self, text: &str) {
        self.say(&format!("# punctual: {text}"));
    }

    /// Returns the command line for the tool's files.
    pub(crate) fn command_line(&self) -> String {
        self.command_line.join(" ")
    }

    /// Returns the exit status, which is also `return_code` in JSON.
    pub(crate) fn status(&self, broke: bool) -> u8 {
        if broke && self.behaviour.strict {
            BROKE
        } else {
            0
        }
    }

    /// Returns the additional keys for JSON if they are requested. `limit` is the number of rows in
    /// the histogram of the JSON file.
    pub(crate) fn additions<'r>(
        &self,
        recording: &'r Recording,
        limit: Option<usize>,
    ) -> Option<Additions<'r>> {
        (self.behaviour.extra_key).then(|| Additions::new(recording, limit))
    }

    /// Prints warnings of the recording and errors of the store. They do not change the exit
    /// status, because the original does not have them.
    pub(crate) fn report_outcome(&mut self, outcome: &punctual_session::Outcome) {
        for warning in &outcome.recording.warnings {
            self.note(warning);
        }
        if let Some(error) = &outcome.store_error {
            self.note(&format!("the recording could not be stored: {error}"));
        }
    }

    /// Returns whether an error is due to a missing privilege.
    pub(crate) fn is_privilege(error: &SessionError) -> bool {
        matches!(error, SessionError::System(error) if error.is_privilege())
    }
}
