//! Recordings of many machines as Parquet, for engines that read folders: Spark, Trino,
//! ClickHouse, DuckDB.
//!
//! **For:** one folder for each table, partitioned by day (UTC) and machine:
//! `runs/date=2026-11-23/machine=board-17/part.parquet`. Exported again, a partition is
//! replaced whole: nothing is doubled.
//!
//! **Knows:** collections, Parquet.
//!
//! **Must not know:** how anything is measured or shown.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod parquet_file;
mod tables;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use punctual_model::{Completion, RecordingId};
use punctual_store::{Collection, Listed, StoreError, Wanted};

use crate::parquet_file::Table;
use crate::tables::Tables;

/// Lines of the list that are read at once.
const PAGE: usize = 1_000;
/// The name of a file; one to a partition.
const FILE: &str = "part.parquet";
/// What Hive calls a partition without a value.
const NO_NAME: &str = "__HIVE_DEFAULT_PARTITION__";

/// Why nothing, or not all, was exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LakeError {
    /// The place cannot be used.
    #[error("'{0}' is not a place for a lake: use file:///FOLDER")]
    Place(String),
    /// The recordings cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file cannot be written.
    #[error(transparent)]
    File(#[from] punctual_files::FileError),
    /// Parquet cannot hold it; not known to happen.
    #[error("cannot write Parquet: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
}

/// What was exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Recordings.
    pub recordings: u64,
    /// Partitions: days of machines.
    pub partitions: u64,
    /// Bytes of all files.
    pub bytes: u64,
}

/// The folder of `to`: `file:///FOLDER`.
///
/// # Errors
/// [`LakeError::Place`].
pub fn folder_of(to: &str) -> Result<PathBuf, LakeError> {
    let path = to.strip_prefix("file://").map(Path::new);
    path.filter(|path| path.is_absolute())
        .map(Path::to_owned)
        .ok_or_else(|| LakeError::Place(to.to_owned()))
}

/// Exports the recordings that began on the day of `since` or later.
///
/// # Errors
/// See [`LakeError`]. What was written until then is complete in itself.
pub fn export(
    all: &dyn Collection,
    folder: &Path,
    since: Option<Timestamp>,
) -> Result<Exported, LakeError> {
    let mut exported = Exported::default();
    let since = since.map(day_of);
    for machine in all.machines()? {
        for (day, ids) in days(all, &machine.name, since)? {
            let mut tables = Tables::default();
            for id in ids {
                let (_, recording) = all.load(id)?;
                let series = all.provenance(id)?.series;
                tables.add(&recording, &machine.name, series.as_ref());
                exported.recordings += 1;
            }
            let partition = format!("date={day}/machine={}", encoded(&machine.name));
            for table in tables.finish() {
                exported.bytes += write(folder, &partition, &table)?;
            }
            exported.partitions += 1;
        }
    }
    let changes = tables::changes(&all.change_marks(None)?);
    exported.bytes += write(folder, "", &changes)?;
    Ok(exported)
}

fn day_of(time: Timestamp) -> Date {
    time.to_zoned(TimeZone::UTC).date()
}

/// The recordings of a machine by the day on which they began. One whose begin was
/// changed by a clock that was set back stands on the day that it says.
fn days(
    all: &dyn Collection,
    machine: &str,
    since: Option<Date>,
) -> Result<BTreeMap<Date, Vec<RecordingId>>, StoreError> {
    let mut days: BTreeMap<Date, Vec<RecordingId>> = BTreeMap::new();
    let mut wanted = Wanted {
        machine: Some(machine.to_owned()),
        most: PAGE,
        ..Wanted::default()
    };
    loop {
        let page = all.list(&wanted)?;
        for Listed { summary, .. } in &page {
            let day = day_of(summary.started);
            if since.is_some_and(|since| day < since) {
                return Ok(days);
            }
            if summary.completion != Completion::Running {
                days.entry(day).or_default().push(summary.id);
            }
        }
        match page.last() {
            Some(last) if page.len() == PAGE => {
                wanted.after = Some((last.summary.started, last.summary.id));
            }
            _ => return Ok(days),
        }
    }
}

/// Writes a table of a partition; returns its bytes.
fn write(folder: &Path, partition: &str, table: &Table) -> Result<u64, LakeError> {
    let bytes = table.to_bytes()?;
    let folder = folder.join(table.name).join(partition);
    punctual_files::folder::make(&folder, 0o755)?;
    punctual_files::Output::file(&folder.join(FILE))?.put(&bytes)?;
    Ok(bytes.len() as u64)
}

/// The name of a machine in a path, as Hive writes it: a name may hold anything.
fn encoded(name: &str) -> String {
    use std::fmt::Write;
    if name.is_empty() {
        return NO_NAME.to_owned();
    }
    name.bytes().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = match byte.is_ascii_alphanumeric() || b"-_".contains(&byte) {
            true => write!(text, "{}", char::from(byte)),
            // A dot alone would lead out of the folder.
            false if byte == b'.' && !text.is_empty() => write!(text, "."),
            false => write!(text, "%{byte:02X}"),
        };
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_the_folder() {
        assert_eq!(encoded("board-17.lab"), "board-17.lab");
        assert_eq!(encoded(".."), "%2E.");
        assert_eq!(encoded("a/b=c"), "a%2Fb%3Dc");
        assert_eq!(encoded(""), NO_NAME);
        assert!(folder_of("file:///lake").is_ok());
        for bad in ["lake", "file://lake", "s3://bucket", ""] {
            assert!(folder_of(bad).is_err(), "{bad}");
        }
    }
}
