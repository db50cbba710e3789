//! `cyclictest-hist`: the histogram text of `cyclictest -q -h`, which scripts pass to gnuplot after
//! `grep -v -e "^#" -e "^$"`.
//!
//! Each row is `%06d ` with the microseconds, followed by a column `%06d` for each thread,
//! separated by tabs. All rows are written, followed by `# Total:`, as in rt-tests 2.4. With
//! [`sparse_rows`](crate::ExportOptions::sparse_rows), only the filled rows are written, as in
//! rt-tests 2.10. The comment lines, their widths (`%05d`) and the empty line at the end match the
//! original. This is based on rt-tests' `src/cyclictest/cyclictest.c` (`print_hist`), its
//! `src/lib/histogram.c` and its output. Differences:
//!
//! - Early samples (negative latency) are neither in a row nor among the overflows.
//! - The mean is computed from the exact sum in ns and rounded down.
//! - From 1 ms on, a row contains the samples of its bucket (10 µs wide up to 10 ms, and so on).
//! - A histogram does not contain the cycle numbers of overflows. If every sample of the thread was
//!   kept, they are taken from the samples; as in the original, at most as many are listed as there
//!   are rows. Otherwise, none is listed, and the line of the thread contains the number of
//!   overflows, in the form of the original: `# 00024 others`.

use std::io::Write;

use punctual_model::{Cell, Nanos};

use crate::OVERFLOW_CYCLES;
use crate::micros::{row_of, rows};
use crate::rt_tests::{HistogramColumn, HistogramText};
use crate::{Export, Format, FormatError};

pub(crate) const FORMAT: Format = Format {
    name: "cyclictest-hist",
    summary: "the histogram text of cyclictest -h, for gnuplot scripts",
    extension: "txt",
    needs_samples: false,
    micro_rows: true,
    write,
};

const MICROSECOND: Nanos = Nanos::from_micros(1);

fn write(export: &Export<'_>, out: &mut dyn Write) -> Result<(), FormatError> {
    let limit = rows(export.recording, export.options)?;
    if limit == 0 {
        let id = export.recording.id;
        return Err(FormatError::NoRows { id });
    }
    let mut columns = Vec::new();
    for (place, thread) in export.recording.threads.iter().enumerate() {
        let mut column = HistogramColumn::new(thread, MICROSECOND, limit);
        column.overflow_cycles = overflow_cycles(export, place, column.overflows, limit)?;
        columns.push(column);
    }
    let text = HistogramText {
        limit,
        columns,
        sparse_rows: export.options.sparse_rows,
        sum: false,
        smis: Vec::new(),
    };
    Ok(text.write(out)?)
}

/// Returns the cycle numbers of a thread's overflows as listed in another tool's file. Empty if
/// that file had a different number of rows.
fn imported_cycles(export: &Export<'_>, place: usize, limit: usize) -> Vec<u64> {
    let rows = export.recording.threads[place].histogram.unplaced_from();
    let mut tables = export.recording.tables.iter();
    let table = tables.find(|table| table.name == OVERFLOW_CYCLES);
    let Some(table) = table.filter(|_| rows.map(Nanos::whole_micros) == Some(limit as u64)) else {
        return Vec::new();
    };
    let mut rows = table.rows.iter();
    let row = rows.find(|row| row.first() == Some(&Cell::Count(place as u64)));
    match row.and_then(|row| row.get(1)) {
        Some(Cell::Text(cycles)) => cycles.split(' ').flat_map(str::parse).collect(),
        _ => Vec::new(),
    }
}

/// Returns the cycle numbers of the first `limit` overflows of a thread, counted from 0 among the
/// samples that were not early. Empty if unknown.
fn overflow_cycles(
    export: &Export<'_>,
    place: usize,
    overflows: u64,
    limit: usize,
) -> Result<Vec<u64>, FormatError> {
    if overflows == 0 {
        return Ok(Vec::new());
    }
    if export.recording.samples.is_none() {
        return Ok(imported_cycles(export, place, limit));
    }
    let (mut cycle, mut seen, mut cycles) = (0u64, 0u64, Vec::new());
    let mut count = |latency: Nanos| {
        if row_of(latency) >= limit as u64 {
            seen += 1;
            if cycles.len() < limit {
                cycles.push(cycle);
            }
        }
        cycle += 1;
    };
    export
        .samples
        .for_each(place as u32, &mut |chunk| {
            chunk
                .iter()
                .filter_map(|sample| sample.latency.non_negative())
                .for_each(&mut count);
            Ok(())
        })
        .map_err(FormatError::Samples)?;
    // If a sample was dropped on its way to the store, all later cycle numbers are shifted and
    // therefore unknown.
    let thread = &export.recording.threads[place];
    let complete = cycle == thread.histogram.count() && seen == overflows;
    Ok(if complete { cycles } else { Vec::new() })
}
