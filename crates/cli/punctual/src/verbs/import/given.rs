//! Options that supply what an imported file does not contain: its date and its machine.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use jiff::Timestamp;
use punctual_model::{Fact, Recording, Unknown};

use crate::options::since;

/// Options for information that a file does not contain.
#[derive(Args)]
pub(super) struct Given {
    /// Start of the measurement, for files without a date: 2026-11-03, an RFC 3339 time
    #[arg(long, value_name = "TIME", value_parser = since, conflicts_with = "mtime")]
    at: Option<Timestamp>,
    /// For files without a date: the measurement ended when the file was last changed
    #[arg(long)]
    mtime: bool,
    /// Name of the machine, for files that do not name it
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    host: Option<String>,
}

impl Given {
    /// Adds missing information to the recording of the file at `path`.
    pub(super) fn complete(&self, recording: &mut Recording, path: &Path) -> Result<()> {
        if !recording.knows(Unknown::Started)
            && let Some((started, how)) = self.start(recording, path)?
        {
            recording.started = started;
            if let Some(origin) = &mut recording.origin {
                origin.unknown.remove(&Unknown::Started);
            }
            recording.warnings.push(how.to_owned());
        }
        let hostname = &mut recording.host.hostname;
        if let (Some(name), None) = (&self.host, hostname.get()) {
            *hostname = Fact::known(name.clone(), "--host");
        }
        Ok(())
    }

    /// Returns the time at which the measurement began, and a note about the source of that time.
    fn start(
        &self,
        recording: &Recording,
        path: &Path,
    ) -> Result<Option<(Timestamp, &'static str)>> {
        if let Some(at) = self.at {
            return Ok(Some((
                at,
                "the file has no date: its start comes from --at",
            )));
        }
        if !self.mtime {
            return Ok(None);
        }
        let changed = fs::metadata(path)
            .and_then(|file| file.modified())
            .map_err(anyhow::Error::from)
            .and_then(|time| Ok(Timestamp::try_from(time)?))
            .with_context(|| {
                format!("{}: the time of its last change is unknown", path.display())
            })?;
        let started = changed
            .checked_sub(Duration::from(recording.duration_ns))
            .unwrap_or(changed);
        let how = "the file has no date: its modification time is used as the end of the \
                   measurement";
        Ok(Some((started, how)))
    }
}
