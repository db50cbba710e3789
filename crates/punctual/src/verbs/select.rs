//! Recordings selected on the command line.

use anyhow::Result;
use clap::Args;
use punctual_model::Recording;
use punctual_store::Store;

// One or more recordings.
#[derive(Args)]
pub(super) struct Recordings {
    /// Recordings: an ID, its start or end, `last` or `last~N`
    #[arg(value_name = "ID", num_args = 1.., required = true)]
    pub(super) recordings: Vec<String>,
}

#[cfg(feature = "analysis")]
impl Recordings {
    pub(super) fn load(&self, store: &Store) -> Result<Vec<Recording>> {
        let load = |selector: &String| Ok(store.load(store.find(selector)?)?);
        self.recordings.iter().map(load).collect()
    }
}

// One recording.
#[derive(Args)]
pub(super) struct OneRecording {
    /// Recording: an ID, its start or end, `last` or `last~N`
    #[arg(value_name = "ID", default_value = "last")]
    recording: String,
}

impl OneRecording {
    pub(super) fn load(&self, store: &Store) -> Result<Recording> {
        Ok(store.load(store.find(&self.recording)?)?)
    }
}
