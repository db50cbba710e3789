//! Recordings of many machines as Parquet, for engines that read folders: Spark, Trino, ClickHouse,
//! DuckDB.
//!
//! **For:** one folder per table, partitioned by day (UTC) and optionally by machine:
//! `runs/date=2026-11-23/machine=board-17/part.parquet`. A repeated export replaces whole
//! partitions, so nothing is duplicated.
//!
//! **Knows:** collections, Parquet, folders and buckets.
//!
//! **Must not know:** how anything is measured or shown.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod parquet_file;
mod s3;
mod tables;
mod target;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use punctual_model::{Completion, RecordingId};
use punctual_store::{Collection, Listed, StoreError, Wanted};
use sha2::{Digest, Sha256};

use crate::parquet_file::{File, Table};
use crate::tables::Tables;

pub use crate::target::Target;

/// Number of recordings per query.
const PAGE: usize = 1_000;
/// Number of recordings per row group. A row group is then a few MB long.
const GROUP: usize = 1_000;
/// Name of the file of a partition. Each partition of a table has one file.
const FILE: &str = "part.parquet";
/// Hive's name for the partition of rows without a value.
const NO_NAME: &str = "__HIVE_DEFAULT_PARTITION__";

/// Key of the partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// Each partition contains one day of one machine. An export of new recordings then writes only
    /// small files.
    #[default]
    Machine,
    /// Each partition contains one day of all machines. The files of a large fleet then have a size
    /// that engines handle well (10,000 machines: about 100 MB a day).
    Day,
}

/// Reason why an export failed or is incomplete.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LakeError {
    /// The URL is not supported.
    #[error("'{0}' is not a valid destination: use file:///FOLDER or s3://BUCKET/PREFIX")]
    Place(String),
    /// The bucket cannot be written to.
    #[error("cannot write {object}: {reason}")]
    Object {
        /// Name of the object.
        object: String,
        /// Reason reported by the service or the system.
        reason: String,
    },
    /// The recordings cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file cannot be written.
    #[error(transparent)]
    File(#[from] punctual_files::FileError),
    /// Parquet cannot store the data. No such case is known.
    #[error("cannot write Parquet: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
}

/// Result of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Number of recordings.
    pub recordings: u64,
    /// Number of partitions.
    pub partitions: u64,
    /// Total size of the files in bytes.
    pub bytes: u64,
}

/// Exports the recordings that began on the day of `since` or later.
///
/// # Errors
/// See [`LakeError`]. Files written before an error are complete.
pub fn export(
    all: &dyn Collection,
    place: &Target,
    by: By,
    since: Option<Timestamp>,
) -> Result<Exported, LakeError> {
    let mut exported = Exported::default();
    let since = since.map(day_of);
    match by {
        By::Machine => {
            for machine in all.machines()? {
                let name = Some(machine.name);
                partitions(all, place, name.as_deref(), since, &mut exported)?;
            }
        }
        By::Day => partitions(all, place, None, since, &mut exported)?,
    }
    let changes = tables::changes(&all.change_marks(None)?);
    let mut file = File::from_table(&changes)?;
    file.add(&changes)?;
    exported.bytes += write(place, changes.name, "", file)?;
    Ok(exported)
}

/// Exports the days of one machine, or of all machines.
fn partitions(
    all: &dyn Collection,
    place: &Target,
    machine: Option<&str>,
    since: Option<Date>,
    exported: &mut Exported,
) -> Result<(), LakeError> {
    for (day, ids) in days(all, machine, since)? {
        let mut files: BTreeMap<&'static str, File> = BTreeMap::new();
        for group in ids.chunks(GROUP) {
            let mut tables = Tables::default();
            for id in group {
                let (name, recording) = all.load(*id)?;
                let series = all.provenance(*id)?.series;
                tables.add(&recording, &name, series.as_ref());
                exported.recordings += 1;
            }
            tables
                .finish()
                .try_for_each(|table| add(&mut files, &table))?;
        }
        let partition = match machine {
            Some(name) => format!("date={day}/machine={}", encoded(name)),
            None => format!("date={day}"),
        };
        for (table, file) in files {
            exported.bytes += write(place, table, &partition, file)?;
        }
        exported.partitions += 1;
    }
    Ok(())
}

fn add(files: &mut BTreeMap<&'static str, File>, table: &Table) -> Result<(), LakeError> {
    let file = match files.entry(table.name) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(new) => new.insert(File::from_table(table)?),
    };
    Ok(file.add(table)?)
}

fn day_of(time: Timestamp) -> Date {
    time.to_zoned(TimeZone::UTC).date()
}

/// Returns the recordings of one machine, or of all machines, grouped by the day on which they
/// started. If a clock was set back, the day is the one that the clock showed.
fn days(
    all: &dyn Collection,
    machine: Option<&str>,
    since: Option<Date>,
) -> Result<BTreeMap<Date, Vec<RecordingId>>, StoreError> {
    let mut days: BTreeMap<Date, Vec<RecordingId>> = BTreeMap::new();
    let mut wanted = Wanted {
        machine: machine.map(str::to_owned),
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

/// Writes a file of a partition and returns its size in bytes.
fn write(place: &Target, table: &str, partition: &str, file: File) -> Result<u64, LakeError> {
    let bytes = file.into_bytes()?;
    let folder = match partition {
        "" => table.to_owned(),
        _ => format!("{table}/{partition}"),
    };
    place.write(&folder, FILE, &bytes)?;
    Ok(bytes.len() as u64)
}

/// Maximum length of an encoded name, so that the name of its folder has at most 255 bytes.
const LONGEST: usize = 200;

/// Encodes a machine name for a path, as Hive does, because a name may contain any character. A long
/// name is cut, and a digest makes it unique.
fn encoded(name: &str) -> String {
    use std::fmt::Write;
    if name.is_empty() {
        return NO_NAME.to_owned();
    }
    let text = name.bytes().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = match byte.is_ascii_alphanumeric() || b"-_".contains(&byte) {
            true => write!(text, "{}", char::from(byte)),
            // A leading dot could form `..` and leave the folder.
            false if byte == b'.' && !text.is_empty() => write!(text, "."),
            false => write!(text, "%{byte:02X}"),
        };
        text
    });
    if text.len() <= LONGEST {
        return text;
    }
    let digest = Sha256::digest(name);
    let digest = digest.iter().take(8).map(|byte| format!("{byte:02x}"));
    format!("{}-{}", &text[..LONGEST - 17], digest.collect::<String>())
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
    }

    #[test]
    fn long_names_fit_and_differ() {
        let [a, b] = ["a", "b"].map(|end| encoded(&format!("{}{end}", "\u{e4}".repeat(125))));
        assert!(a.len() <= LONGEST && a != b, "{a} {b}");
        assert_eq!(encoded(&"x".repeat(LONGEST)), "x".repeat(LONGEST));
    }
}
