//! Writes a mark into the machine's trace and stops the trace.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

use crate::{TraceError, Tracefs};

/// Writes into the shared top-level trace buffer and stops it when a measurement ends early. This
/// is meant for users who have set up a trace in that buffer. The files are opened in advance, so
/// that both writes together take only two system calls.
///
/// The trace is deliberately left stopped, so that the events before the mark are not overwritten.
#[derive(Debug)]
pub struct Marker {
    file: File,
    on: File,
}

impl Tracefs {
    /// Opens `trace_marker` and `tracing_on` without writing.
    ///
    /// # Errors
    /// Returns an error if one of the files does not exist or is not writable.
    pub fn marker(&self) -> Result<Marker, TraceError> {
        let open = |name: &str| {
            let path = self.file(name);
            OpenOptions::new()
                .write(true)
                .open(&path)
                .map_err(|source| TraceError::Open { path, source })
        };
        Ok(Marker {
            file: open("trace_marker")?,
            on: open("tracing_on")?,
        })
    }
}

impl Marker {
    /// Writes the mark and stops the trace. The trace is stopped even if the mark is rejected.
    ///
    /// # Errors
    /// Returns the errors of write(2).
    pub fn mark_and_stop(&self, text: &str) -> io::Result<()> {
        let marked = (&self.file).write_all(text.as_bytes());
        let stopped = (&self.on).write_all(b"0");
        marked.and(stopped)
    }
}
