//! Imports recordings from the files of other tools.
//!
//! Each source format has one file in this folder, with its documentation, detection, reader and
//! tests, and one entry in [`IMPORTS`]. A reader goes through its [`Source`] once, using memory
//! that does not grow with the file, and returns a complete recording. If the file contains
//! samples, the reader passes them to a [`SampleSink`] on the way. Only at the end of the file is
//! it clear that everything is valid. Therefore, a caller that stores the samples begins a
//! recording with [`Import::begun`] when the first samples arrive, and deletes it if the reader
//! fails.

mod bcc_histogram;
mod blank;
mod bpftrace_histogram;
mod counted;
mod cyclictest_hist;
mod cyclictest_lines;
mod cyclictest_samples;
mod decimal;
mod doubling;
mod entry;
mod error;
mod foreign;
mod head;
mod hgrm;
mod hist_trigger;
mod hlog;
mod hwlat_trace;
mod hwlatdetect_text;
mod jitterdebugger_json;
mod jitterdebugger_lines;
mod jitterdebugger_samples;
mod json;
mod latency_hist;
mod linuxcnc_histogram;
mod log_prefix;
mod malformed;
mod object;
mod oslat_text;
mod osnoise_trace;
mod pasted;
mod perf_sched;
mod pmqtest_lines;
mod rt_dataset;
mod rt_tests_head;
mod rt_tests_json;
mod rteval;
mod rtla;
mod rtla_osnoise_top;
mod rtla_timerlat_top;
mod sample_line;
mod sink;
mod source;
mod stopping_sample;
mod tally;
#[cfg(test)]
mod testing;
mod text;
mod thread_line;
mod unit;
mod xenomai_latency;
mod xml;

pub use entry::Import;
pub use error::{ImportError, Location};
pub use head::Head;
pub use sink::{CountSamples, SampleSink};
pub use source::{Line, Source};

use malformed::Malformed;
use pasted::Pasted;

/// All sources, in the order in which they are listed.
pub const IMPORTS: &[Import] = &[
    json::IMPORT,
    cyclictest_hist::IMPORT,
    rt_tests_json::IMPORT,
    cyclictest_lines::IMPORT,
    pmqtest_lines::IMPORT,
    oslat_text::IMPORT,
    hwlatdetect_text::IMPORT,
    hwlat_trace::IMPORT,
    osnoise_trace::IMPORT,
    cyclictest_samples::IMPORT,
    jitterdebugger_samples::IMPORT,
    jitterdebugger_json::IMPORT,
    jitterdebugger_lines::IMPORT,
    rt_dataset::IMPORT,
    rtla::TIMERLAT,
    rtla::OSNOISE,
    rtla_timerlat_top::IMPORT,
    rtla_osnoise_top::OSNOISE,
    rtla_osnoise_top::HWNOISE,
    rteval::IMPORT,
    xenomai_latency::IMPORT,
    latency_hist::IMPORT,
    linuxcnc_histogram::IMPORT,
    perf_sched::IMPORT,
    bcc_histogram::IMPORT,
    bpftrace_histogram::IMPORT,
    hist_trigger::IMPORT,
    hgrm::IMPORT,
    hlog::IMPORT,
];

/// Returns the import called `name`.
///
/// # Errors
/// Returns [`ImportError::UnknownFormat`] with the valid names.
pub fn import(name: &str) -> Result<&'static Import, ImportError> {
    let found = IMPORTS.iter().find(|import| import.name == name);
    found.ok_or_else(|| ImportError::UnknownFormat {
        name: name.to_owned(),
        known: names(IMPORTS.iter()),
    })
}

fn names<'a>(imports: impl Iterator<Item = &'a Import>) -> Vec<&'static str> {
    imports.map(|import| import.name).collect()
}

impl<'a> Source<'a> {
    /// Reads `input`, which is called `name` in messages.
    pub fn new(name: impl Into<String>, input: impl std::io::Read + 'a) -> Self {
        Self::with_recogniser(name.into(), Box::new(input), is_recognised)
    }
}

/// Returns whether an import recognises a file with this beginning.
fn is_recognised(head: &Head<'_>) -> bool {
    IMPORTS.iter().any(|import| (import.recognise)(head))
}

/// Returns the only import that recognises a file by its first bytes (see [`Source::head`]).
///
/// # Errors
/// Returns [`ImportError::Unrecognised`] or [`ImportError::Ambiguous`]; [`ImportError::Foreign`]
/// with instructions if the file is compressed or of another known kind.
pub fn recognise(file: &str, head: &Head<'_>) -> Result<&'static Import, ImportError> {
    if let Some(what) = foreign::what(head.bytes) {
        let file = file.to_owned();
        return Err(ImportError::Foreign { file, what });
    }
    // Formats are recognised from the stripped text, which is the text without quotation marks,
    // indentation and words above the header.
    let bare = Pasted::from_head(head, is_recognised).map(|pasted| pasted.head(head));
    let bare = bare
        .as_deref()
        .map_or(*head, |bytes| Head { bytes, ..*head });
    let mut found: Vec<&'static Import> = (IMPORTS.iter())
        .filter(|import| (import.recognise)(&bare))
        .collect();
    match (found.pop(), found.is_empty()) {
        (Some(import), true) => Ok(import),
        (Some(import), false) => {
            found.push(import);
            Err(ImportError::Ambiguous {
                file: file.to_owned(),
                names: names(found.into_iter()),
            })
        }
        (None, _) if let Some(what) = foreign::tool(&bare) => Err(ImportError::Foreign {
            file: file.to_owned(),
            what,
        }),
        (None, _) => Err(ImportError::Unrecognised {
            file: file.to_owned(),
            begins: head.shown(),
            known: names(IMPORTS.iter()),
        }),
    }
}
