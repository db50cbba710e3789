//! Recordings selected on the command line.

use anyhow::Result;
use clap::Args;
use punctual_model::{Recording, TooLongText, check_host_name, check_label};
use punctual_store::Store;

// One or more recordings; without any, the last one.
#[derive(Args)]
pub(crate) struct Recordings {
    /// Recordings: an ID, the start or end of an ID, a label, `last` or `last~N` [default: last]
    #[arg(value_name = "ID", num_args = 1..)]
    pub(crate) recordings: Vec<String>,
}

impl Recordings {
    /// The recordings, at least one.
    pub(crate) fn load(&self, store: &Store) -> Result<Vec<Recording>> {
        let load = |selector: &str| Ok(store.load(store.find(selector)?)?);
        match self.recordings.as_slice() {
            [] => Ok(vec![load("last")?]),
            given => given.iter().map(|selector| load(selector)).collect(),
        }
    }
}

// One recording.
#[derive(Args)]
pub(crate) struct OneRecording {
    /// Recording: an ID, the start or end of an ID, a label, `last` or `last~N`
    #[arg(value_name = "ID", default_value = "last")]
    recording: String,
}

impl OneRecording {
    pub(crate) fn load(&self, store: &Store) -> Result<Recording> {
        Ok(store.load(store.find(&self.recording)?)?)
    }
}

/// Parses a label, which must not be too long.
pub(crate) fn label(text: &str) -> Result<String, TooLongText> {
    check_label(text).map(|()| text.to_owned())
}

/// Parses the name of a machine, which must not be too long.
pub(crate) fn host_name(text: &str) -> Result<String, TooLongText> {
    check_host_name(text).map(|()| text.to_owned())
}
