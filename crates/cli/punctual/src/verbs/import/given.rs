//! Options that supply what an imported file does not contain: its date and its machine.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use jiff::Timestamp;
use punctual_model::{Fact, Recording, Unknown};

use super::in_name;
use crate::exit::UsageError;
use crate::options::since;
use crate::verb::Invalid;

/// Options for information that a file does not contain.
#[derive(Args)]
pub(super) struct Given {
    /// Start, for files without a date: a time, mtime, or name:PATTERN
    ///
    /// Start of the measurement. A time is 2026-11-03 or an RFC 3339 time. mtime: the measurement ended when the file was last
    /// changed. name:%Y-%m-%d finds the date in the name of the file, by a pattern of strptime(3).
    #[arg(long, value_name = "TIME", value_parser = date)]
    at: Option<Date>,
    /// Name of the machine, for files without one, or name:PATTERN
    ///
    /// name:%h_* takes it from the name of the file, name:%h/* from its folder. %h is the
    /// machine, and * any text.
    #[arg(long, value_name = "NAME", value_parser = host)]
    host: Option<Machine>,
}

/// Source of the start of a measurement.
#[derive(Clone, Debug, PartialEq)]
enum Date {
    At(Timestamp),
    LastChange,
    InName(String),
}

/// Source of the name of a machine.
#[derive(Clone, Debug, PartialEq)]
enum Machine {
    Named(String),
    InName(String),
}

fn date(text: &str) -> Result<Date, Invalid> {
    if let Some(pattern) = text.strip_prefix(in_name::PREFIX) {
        in_name::check_date(pattern)?;
        return Ok(Date::InName(pattern.to_owned()));
    }
    match text {
        "mtime" => Ok(Date::LastChange),
        text => since(text).map(Date::At),
    }
}

fn host(text: &str) -> Result<Machine, Invalid> {
    if let Some(pattern) = text.strip_prefix(in_name::PREFIX) {
        in_name::check_host(pattern)?;
        return Ok(Machine::InName(pattern.to_owned()));
    }
    match text {
        "" => Err("write the name of the machine".into()),
        name => Ok(Machine::Named(name.to_owned())),
    }
}

impl Given {
    /// Adds missing information to the recording of the file at `path`.
    pub(super) fn complete(&self, recording: &mut Recording, path: &Path) -> Result<()> {
        if !recording.knows(Unknown::Started)
            && let Some((started, how)) = self.start(recording, path)?
        {
            // A store cannot distinguish times before 1678.
            if started < Timestamp::UNIX_EPOCH {
                let text = format!(
                    "{}: {started} cannot be the start of a measurement",
                    path.display()
                );
                return Err(UsageError(text).into());
            }
            recording.started = started;
            if let Some(origin) = &mut recording.origin {
                origin.unknown.remove(&Unknown::Started);
            }
            recording.warnings.push(how.to_owned());
        }
        if recording.host.hostname.get().is_none() {
            let (name, source) = match &self.host {
                None => return Ok(()),
                Some(Machine::Named(name)) => (name.clone(), "--host"),
                Some(Machine::InName(pattern)) => (
                    in_name::host(pattern, path).ok_or_else(|| unlike(path, "host", pattern))?,
                    "name of the file",
                ),
            };
            recording.host.hostname = Fact::known(name, source);
        }
        Ok(())
    }

    /// Returns the time at which the measurement began, and a note about the source of that time.
    fn start(
        &self,
        recording: &Recording,
        path: &Path,
    ) -> Result<Option<(Timestamp, &'static str)>> {
        Ok(match &self.at {
            None => None,
            Some(Date::At(at)) => Some((*at, "the file has no date: its start comes from --at")),
            Some(Date::InName(pattern)) => Some((
                in_name::date(pattern, path).ok_or_else(|| unlike(path, "at", pattern))?,
                "the file has no date: its start comes from its name",
            )),
            Some(Date::LastChange) => {
                let changed = last_change(path)?;
                let started = changed
                    .checked_sub(Duration::from(recording.duration_ns))
                    .unwrap_or(changed);
                let how = "the file has no date: its modification time is used as the end of the \
                           measurement";
                Some((started, how))
            }
        })
    }
}

fn unlike(path: &Path, option: &str, pattern: &str) -> UsageError {
    let (path, prefix) = (path.display(), in_name::PREFIX);
    UsageError(format!(
        "{path}: the name does not match --{option} {prefix}{pattern}"
    ))
}

fn last_change(path: &Path) -> Result<Timestamp> {
    fs::metadata(path)
        .and_then(|file| file.modified())
        .map_err(anyhow::Error::from)
        .and_then(|time| Ok(Timestamp::try_from(time)?))
        .with_context(|| format!("{}: the time of its last change is unknown", path.display()))
}
