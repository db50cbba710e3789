//! The file that shows where late jobs spend more time than others.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use punctual_formats::ProfileFormat;
use punctual_session::Outcome;

use crate::exit::UsageError;
use crate::options::extension;
use crate::output::{Output, note};

/// A file that is open, so that a wrong path is refused before the run.
pub(super) struct ProfileFile {
    path: PathBuf,
    format: ProfileFormat,
    output: Output,
}

impl ProfileFile {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let name = path.to_string_lossy();
        let known = || ProfileFormat::ALL.map(|(_, extension)| extension);
        let format = ProfileFormat::of(&name)
            .ok_or_else(|| -> UsageError { extension::unknown(path, &known()) })?;
        Ok(Self {
            path: path.to_owned(),
            format,
            output: Output::open(path)?,
        })
    }

    /// Writes the profile of a run.
    pub(super) fn write(self, outcome: &Outcome) -> Result<()> {
        let path = self.path.display();
        let Some(profile) = &outcome.profile else {
            note(&format!("no job was late, so {path} was not written"));
            return Ok(());
        };
        if profile.stacks.is_empty() {
            note(&format!(
                "late jobs spend no more time than others in any sampled stack, so {path} was not written"
            ));
            return Ok(());
        }
        let mut bytes = Vec::new();
        self.format
            .write(profile, &outcome.recording, &mut bytes)
            .with_context(|| format!("cannot write {path}"))?;
        self.output.put(&bytes)?;
        note(&format!("profile written to {path}"));
        Ok(())
    }
}
