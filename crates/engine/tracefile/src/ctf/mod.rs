//! Reads traces in the Common Trace Format, as LTTng's kernel tracer writes them: a folder with the
//! file `metadata` and one file for each CPU and channel.
//!
//! The metadata describes the types of all fields. It is a text (CTF 1.8) or JSON (CTF 2). The times
//! of the events are those of the clock itself, not of the day.

mod bits;
mod events;
mod json;
mod metadata;
mod reader;
mod stream;
mod tsdl;
mod types;
mod unused;

use std::path::{Path, PathBuf};

use crate::state_encoding::CorrectStates;
use crate::{TraceFileError, TraceReader};

/// The file that describes a trace.
const METADATA: &str = "metadata";
/// Maximum number of folders between that of an LTTng session and that of its trace.
const MOST_LEVELS: u32 = 4;
/// Maximum number of files and folders that are looked at.
const MOST_FILES: usize = 1 << 18;

/// Opens the trace in a folder, or in a folder below it.
///
/// # Errors
/// Returns an error if the folder contains no trace or several, or if its metadata cannot be read.
pub(crate) fn open(folder: &Path) -> Result<Box<dyn TraceReader>, TraceFileError> {
    let mut found = Vec::new();
    entries(folder)?;
    find(folder, MOST_LEVELS, &mut MOST_FILES.clone(), &mut found);
    let mut traces = Vec::new();
    let mut failed = None;
    for trace in found {
        match metadata::read(&trace.join(METADATA)) {
            Ok(metadata) => traces.push((trace, metadata)),
            Err(error) => failed = Some(error),
        }
    }
    let mut warnings = Vec::new();
    if traces.iter().any(|(_, metadata)| metadata.is_kernel()) {
        let other = traces.extract_if(.., |(_, metadata)| !metadata.is_kernel());
        warnings.extend(other.map(|(trace, _)| {
            let trace = trace.display();
            format!("{trace}: events of programs (LTTng-UST) are not used")
        }));
    }
    match (traces.len(), traces.pop(), failed) {
        (1, Some((trace, metadata)), failed) => {
            warnings.extend(failed.map(|error| format!("another trace is not used: {error}")));
            let reader = reader::CtfReader::new(metadata, &streams(&trace)?, warnings)?;
            Ok(CorrectStates::if_needed(reader))
        }
        (0, _, Some(error)) => Err(error),
        (0, ..) => Err(TraceFileError::NoTraceInFolder),
        (number, ..) => Err(TraceFileError::SeveralTraces { number }),
    }
}

/// Finds the folders with metadata, and adds them to `found`. Folders that cannot be read are skipped.
/// `left`: number of paths that may still be looked at.
fn find(folder: &Path, levels: u32, left: &mut usize, found: &mut Vec<PathBuf>) {
    if folder.join(METADATA).is_file() {
        return found.push(folder.to_owned());
    }
    for path in entries(folder).unwrap_or_default() {
        *left = left.saturating_sub(1);
        // Links are not followed, because they can lead in a circle.
        if levels > 0 && *left > 0 && path.is_dir() && !path.is_symlink() {
            find(&path, levels - 1, left, found);
        }
    }
}

/// Returns the paths in a folder in the order of their names.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, TraceFileError> {
    let refuse = |source| TraceFileError::Open {
        path: folder.to_owned(),
        source,
    };
    let mut paths = Vec::new();
    for entry in folder.read_dir().map_err(refuse)?.take(MOST_FILES) {
        paths.push(entry.map_err(refuse)?.path());
    }
    paths.sort();
    Ok(paths)
}

/// Returns the files of a trace that contain events.
fn streams(trace: &Path) -> Result<Vec<PathBuf>, TraceFileError> {
    let mut files = entries(trace)?;
    files.retain(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        let is_stream = name.is_some_and(|name| name != METADATA && !name.starts_with('.'));
        is_stream && path.metadata().is_ok_and(|of| of.is_file() && of.len() > 0)
    });
    Ok(files)
}
