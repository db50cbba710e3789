//! Formats shared by the tools of rt-tests, namely the histogram text and the head of their JSON
//! files. The values to write are supplied by an export format, or by the program that replaces the
//! tool.
//!
//! This is based on `src/lib/histogram.c`, `src/lib/rt-utils.c` (`rt_write_json`) and `print_hist`
//! in `src/cyclictest/cyclictest.c` of rt-tests 2.10, and on its output.

use std::collections::BTreeMap;
use std::io::{self, Write};

use punctual_model::{HostFacts, Nanos, ThreadRecord, escape_json};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};
use serde_json::value::RawValue;

use crate::FormatError;
use crate::additions::Additions;
use crate::facts::or_unknown;

/// The version of rt-tests that writes such files. Programs that read the files check it.
pub const RT_TESTS_VERSION: &str = "2.10";

/// One thread in a histogram text. Its figures are in the unit of the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistogramColumn {
    /// Filled rows: the value, and the number of samples.
    pub rows: BTreeMap<u64, u64>,
    /// Samples at or above the end of the last row.
    pub overflows: u64,
    /// Cycle numbers of the first overflows, at most as many as there are rows; empty if unknown.
    pub overflow_cycles: Vec<u64>,
    /// The smallest value.
    pub min: u64,
    /// The mean, rounded down.
    pub mean: u64,
    /// The largest value.
    pub max: u64,
}

impl HistogramColumn {
    /// Returns the column of a thread, in rows of `unit`. The cycle numbers are unknown. The column
    /// is exact if no row of the histogram is wider than `unit`; otherwise, a row contains the
    /// samples of the wider row. An imported sample of unknown latency is an overflow, and a figure
    /// that the other tool did not record is 0.
    pub fn new(thread: &ThreadRecord, unit: Nanos, limit: usize) -> Self {
        let histogram = &thread.histogram;
        let unit = unit.0.max(1);
        let whole = |time: Option<Nanos>| time.map_or(0, |time| time.0 / unit);
        // The original rounds the mean down. In contrast, the mean in nanoseconds is rounded to the
        // nearest number.
        let mean = (histogram.sum().0 / unit).checked_div(histogram.count());
        let mut column = Self {
            overflows: histogram.overflow().saturating_add(histogram.unplaced()),
            min: whole(histogram.min()),
            mean: mean.filter(|_| histogram.mean().is_some()).unwrap_or(0),
            max: whole(histogram.max()),
            ..Self::default()
        };
        for (lower, _, count) in histogram.rows() {
            let row = lower / unit;
            let slot = if row < limit as u64 {
                column.rows.entry(row).or_insert(0)
            } else {
                &mut column.overflows
            };
            *slot = slot.saturating_add(count);
        }
        column
    }
}

/// The text of `cyclictest -h`.
///
/// Contains all rows, with `# Total:` below them, like rt-tests 2.4 and older, because scripts read
/// until that line and draw steps from row to row. rt-tests 2.10 omits empty rows and that line
/// ([`sparse_rows`](Self::sparse_rows)).
///
/// Each row is `%06d ` with the value, followed by a column `%06d` for each thread, separated by
/// tabs. The comment lines, their widths (`%05d`) and the empty line at the end match the original.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistogramText {
    /// Maximum number of rows.
    pub limit: usize,
    /// The threads.
    pub columns: Vec<HistogramColumn>,
    /// Whether to omit rows without a sample, and `# Total:`.
    pub sparse_rows: bool,
    /// Whether there is a separate column for sums (`-H`).
    pub sum: bool,
    /// Number of SMIs of each thread's CPU; empty if they were not counted.
    pub smis: Vec<u64>,
}

impl HistogramText {
    /// Writes the text.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { columns, .. } = self;
        // With one thread, a column for the sum would only repeat the column of the thread.
        let with_sum = self.sum && columns.len() > 1;
        let max = columns.iter().map(|column| column.max).max();
        let overflows = columns.iter().map(|column| column.overflows);
        let overflows = overflows.fold(0u64, u64::saturating_add);
        writeln!(out, "# Histogram")?;
        self.write_rows(out)?;
        if !self.sparse_rows {
            self.write_totals(out)?;
        }
        summary("Min Latencies", columns, |c| c.min, None, out)?;
        summary("Avg Latencies", columns, |c| c.mean, None, out)?;
        let sum = max.filter(|_| with_sum);
        summary("Max Latencies", columns, |c| c.max, sum, out)?;
        let sum = with_sum.then_some(overflows);
        summary("Histogram Overflows", columns, |c| c.overflows, sum, out)?;
        writeln!(out, "# Histogram Overflow at cycle number:")?;
        for (place, column) in columns.iter().enumerate() {
            column.write_overflows(place, self.limit, out)?;
        }
        if !self.smis.is_empty() {
            write!(out, "# SMIs:")?;
            for smis in &self.smis {
                write!(out, " {smis:05}")?;
            }
            writeln!(out)?;
        }
        writeln!(out)
    }

    /// Writes all rows, or only those with samples of any thread.
    fn write_rows(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut filled: Vec<u64> = (self.columns.iter())
            .flat_map(|column| column.rows.keys().copied())
            .collect();
        filled.sort_unstable();
        filled.dedup();
        let rows: &mut dyn Iterator<Item = u64> = if self.sparse_rows {
            &mut filled.into_iter()
        } else {
            &mut (0..self.limit as u64)
        };
        for row in rows {
            write!(out, "{row:06} ")?;
            let mut sum = 0u64;
            for (place, column) in self.columns.iter().enumerate() {
                let count = column.rows.get(&row).copied().unwrap_or(0);
                let tab = if place == 0 { "" } else { "\t" };
                write!(out, "{tab}{count:06}")?;
                sum = sum.saturating_add(count);
            }
            if self.sum {
                write!(out, "\t{sum:06}")?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    /// Writes the sum of each column of the rows, like rt-tests 2.4 and older; overflows are not
    /// included.
    fn write_totals(&self, out: &mut dyn Write) -> io::Result<()> {
        let saturating = |sum: u64, count: u64| sum.saturating_add(count);
        let total = |column: &HistogramColumn| column.rows.values().copied().fold(0, saturating);
        let totals: Vec<u64> = self.columns.iter().map(total).collect();
        let sum = totals.iter().copied().fold(0, saturating);
        write!(out, "# Total:")?;
        for total in totals.iter().chain(self.sum.then_some(&sum)) {
            write!(out, " {total:09}")?;
        }
        writeln!(out)
    }
}

impl HistogramColumn {
    /// Writes the line of the thread's overflows.
    fn write_overflows(&self, place: usize, limit: usize, out: &mut dyn Write) -> io::Result<()> {
        // The space after the colon is always printed, even if no number follows.
        write!(out, "# Thread {place}: ")?;
        let known = &self.overflow_cycles;
        for (nth, cycle) in known.iter().enumerate() {
            let blank = if nth == 0 { "" } else { " " };
            write!(out, "{blank}{cycle:05}")?;
        }
        let others = self.overflows.saturating_sub(known.len() as u64);
        // If the list contains exactly as many cycles as there are rows, it is followed by "00000
        // others".
        if others > 0 || known.len() == limit {
            write!(out, " # {others:05} others")?;
        }
        writeln!(out)
    }
}

/// Writes a comment line with a figure for each thread, and one for all.
fn summary(
    title: &str,
    columns: &[HistogramColumn],
    figure: impl Fn(&HistogramColumn) -> u64,
    all: Option<u64>,
    out: &mut dyn Write,
) -> io::Result<()> {
    write!(out, "# {title}:")?;
    for figure in columns.iter().map(figure).chain(all) {
        write!(out, " {figure:05}")?;
    }
    writeln!(out)
}

/// A number with the given number of decimals, for files that do not use two decimals.
#[derive(Clone, Debug)]
pub struct Decimals(pub f64, pub usize);

impl Serialize for Decimals {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(value, places) = *self;
        let text = if value.is_finite() {
            format!("{value:.places$}")
        } else {
            "null".to_owned()
        };
        RawValue::from_string(text)
            .map_err(serde::ser::Error::custom)?
            .serialize(serializer)
    }
}

/// The beginning of all JSON files of rt-tests.
#[derive(Clone, Debug)]
pub struct JsonHead<'a> {
    /// The command line, with its words joined by spaces.
    pub command_line: &'a str,
    /// Start time of the program, in the format of RFC 2822.
    pub start_time: String,
    /// End time of the program.
    pub end_time: String,
    /// Exit code of the program.
    pub return_code: i32,
    /// The machine on which the program ran.
    pub host: &'a HostFacts,
}

#[derive(Serialize)]
struct File<'a, B> {
    file_version: u32,
    #[serde(rename = "cmdline:")]
    command_line: &'a str,
    #[serde(rename = "rt_test_version:")]
    rt_test_version: &'static str,
    start_time: &'a str,
    end_time: &'a str,
    return_code: i32,
    sysinfo: SystemInfo<'a>,
    #[serde(flatten)]
    body: B,
}

/// The rest of a file that has threads, in the order of its keys: the threads by number, and
/// punctual's additions.
#[derive(Debug, Serialize)]
pub struct JsonThreads<'a, T> {
    num_threads: usize,
    /// 1 if the figures are nanoseconds, 0 if they are microseconds: the original tools write the
    /// value of their switch under this key, not a resolution.
    #[serde(skip_serializing_if = "Option::is_none")]
    resolution_in_ns: Option<u8>,
    thread: BTreeMap<usize, T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    punctual: Option<Additions<'a>>,
}

impl<'a, T> JsonThreads<'a, T> {
    /// Creates the rest of a file from these threads, in order, and the content of the key
    /// `punctual` if requested.
    pub fn new(threads: impl IntoIterator<Item = T>, punctual: Option<Additions<'a>>) -> Self {
        let thread: BTreeMap<usize, T> = threads.into_iter().enumerate().collect();
        Self {
            num_threads: thread.len(),
            resolution_in_ns: None,
            thread,
            punctual,
        }
    }

    /// Adds the key for the unit of the figures.
    pub fn in_nanos(self, nanos: bool) -> Self {
        Self {
            resolution_in_ns: Some(nanos.into()),
            ..self
        }
    }
}

/// The values of uname(2), and whether `/sys/kernel/realtime` contains 1.
#[derive(Serialize)]
struct SystemInfo<'a> {
    sysname: &'static str,
    nodename: &'a str,
    release: &'a str,
    version: &'a str,
    machine: &'a str,
    realtime: Option<u8>,
}

/// Writes a file of rt-tests: the head, then the keys of `body`, in the layout of the original (two
/// spaces, two decimals). Unlike in the original, which does not escape anything, the JSON is valid
/// for any command line.
///
/// # Errors
/// Returns the errors of `out`.
pub fn write_rt_tests_json<B: Serialize>(
    head: &JsonHead<'_>,
    body: &B,
    out: &mut dyn Write,
) -> Result<(), FormatError> {
    let kernel = &head.host.kernel;
    let file = File {
        file_version: 1,
        command_line: head.command_line,
        rt_test_version: RT_TESTS_VERSION,
        start_time: &head.start_time,
        end_time: &head.end_time,
        return_code: head.return_code,
        sysinfo: SystemInfo {
            sysname: "Linux",
            nodename: or_unknown(&head.host.hostname),
            release: or_unknown(&kernel.release),
            version: or_unknown(&kernel.version),
            machine: or_unknown(&kernel.architecture),
            realtime: kernel.preempt_rt.get().copied().map(u8::from),
        },
        body,
    };
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Layout::default());
    file.serialize(&mut serializer)?;
    // Control characters are escaped, because the file may be a terminal and the command line may
    // contain any text.
    writeln!(out, "{}", escape_json(&String::from_utf8_lossy(&bytes)))?;
    Ok(())
}

/// The layout of rt-tests' files: two spaces, two decimals, and the end of an empty object on a
/// separate line.
#[derive(Default)]
struct Layout {
    pretty: PrettyFormatter<'static>,
    depth: usize,
    empty: bool,
}

impl Formatter for Layout {
    fn write_f64<W: ?Sized + Write>(&mut self, out: &mut W, value: f64) -> io::Result<()> {
        write!(out, "{value:.2}")
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        self.empty = true;
        self.pretty.begin_object(out)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.empty = false;
        self.pretty.begin_object_key(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.pretty.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.pretty.end_object_value(out)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth -= 1;
        if std::mem::take(&mut self.empty) {
            write!(out, "\n{:width$}", "", width = 2 * self.depth)?;
        }
        self.pretty.end_object(out)
    }
}
