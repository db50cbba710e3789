//! Files of other tools.
//!
//! **For:** writing a recording in a format that other tools and scripts already read (rt-tests'
//! JSON and histogram text, CSV, and our own JSON), and importing recordings from the files of
//! other tools.
//!
//! **Knows:** the model, and the exact layout of each format, such as keys, widths, tabs and order.
//! A value that a format cannot represent is omitted, or written under our own key. Unknown values
//! are never invented.
//!
//! **Must not know:** the destination of the bytes (a file, a terminal, a socket: it writes to
//! [`std::io::Write`]), how recordings and samples are stored (it receives recordings as values and
//! samples from a [`SampleSource`], and passes samples to a [`SampleSink`]), and Linux.
//!
//! Each output format has one file, with its documentation, writer and tests, and one entry in
//! [`FORMATS`]. Each source format has one file, with its documentation, reader and tests, and one
//! entry in [`IMPORTS`]. Help, completion and documentation are derived from these entries.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod additions;
mod csv_histogram;
mod csv_samples;
mod csv_series;
mod cyclictest_hist;
mod cyclictest_json;
mod error;
mod export;
mod facts;
mod firefox;
mod hdr;
mod hgrm;
mod hlog;
mod import;
mod json;
mod lateness;
mod micros;
mod parquet_samples;
mod perfetto;
mod rt_dataset;
mod rt_tests;
mod samples;
#[cfg(test)]
mod testing;

pub use additions::Additions;
pub use error::FormatError;
pub use export::{Export, ExportOptions, Format};
pub use import::{
    CountSamples, Head, IMPORTS, Import, ImportError, Line, Location, SampleSink, Source, import,
    recognise,
};
pub use lateness::ProfileFormat;
pub use micros::{MAX_ROWS, mean_us};
pub use perfetto::{PerfettoWriter, TracedMachine};
pub use rt_tests::{
    Decimals, HistogramColumn, HistogramText, JsonHead, JsonThreads, RT_TESTS_VERSION,
    write_rt_tests_json,
};
pub use samples::{NoSamples, SampleSource};

/// Name of a table in recordings imported from cyclictest's histogram text. It contains the cycles
/// beyond the rows that are listed in the file, with a row for each thread.
pub const OVERFLOW_CYCLES: &str = "overflow_cycles";

/// All formats, in the order in which they are listed.
pub const FORMATS: &[Format] = &[
    json::FORMAT,
    cyclictest_json::FORMAT,
    cyclictest_hist::FORMAT,
    rt_dataset::FORMAT,
    csv_samples::FORMAT,
    parquet_samples::FORMAT,
    csv_histogram::FORMAT,
    csv_series::FORMAT,
    hgrm::FORMAT,
    hlog::FORMAT,
    firefox::FORMAT,
];

/// Returns the format called `name`.
///
/// # Errors
/// Returns [`FormatError::Unknown`] with the valid names.
pub fn format(name: &str) -> Result<&'static Format, FormatError> {
    FORMATS
        .iter()
        .find(|format| format.name == name)
        .ok_or_else(|| FormatError::Unknown {
            name: name.to_owned(),
            known: FORMATS.iter().map(|format| format.name).collect(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_differ() {
        for entry in FORMATS {
            assert_eq!(format(entry.name).unwrap().summary, entry.summary);
            assert_eq!(
                FORMATS.iter().filter(|f| f.name == entry.name).count(),
                1,
                "{}",
                entry.name
            );
        }
    }

    #[test]
    fn unknown_format_name_lists_known_formats() {
        let error = format("xlsx").unwrap_err().to_string();
        assert!(error.contains("'xlsx'"), "{error}");
        for entry in FORMATS {
            assert!(error.contains(entry.name), "{error}");
        }
    }
}
