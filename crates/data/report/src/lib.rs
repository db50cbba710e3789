//! Presents recordings, comparisons, audits and other results to people and programs.
//!
//! **For:** building a [`document`] of each result as plain data, and rendering it as text for a
//! terminal ([`text`]), Markdown ([`markdown`]), or one self-contained HTML page ([`html`]). Also
//! plots as SVG, PNG and PDF ([`plot`]), a certificate of one page ([`certificate`]), test results for continuous integration ([`junit`]), and audits
//! as SARIF and JUnit XML ([`audit`]).
//!
//! **Knows:** the domain model and the syntax of each output format. The content is chosen once, in
//! a document, so the formats cannot disagree.
//!
//! **Must not know:** files, terminals, the store, Linux. Each function takes values and returns a
//! `String` or bytes; the caller decides where they go.
//!
//! A recording may come from another machine, so its texts are not trusted. Each renderer removes
//! control characters from every text and escapes it for the output format.
//!
//! **Percentiles** are shown only if there are enough samples. A percentile with the fraction
//! `1 − q` above it needs `1 / (1 − q)` samples (100 for p99, 10,000 for p99.99). With fewer
//! samples it would equal the maximum, so a `-` is shown instead.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod audit;
pub mod certificate;
mod compared;
pub mod document;
mod figures;
pub mod html;
mod interference;
pub mod junit;
mod lint;
pub mod markdown;
mod outlier_timeline;
mod outliers_text;
pub mod plot;
mod sanitize;
mod spread;
pub mod text;
mod wrap;

pub use figures::bytes;
pub use lint::sarif as lint_sarif;
pub use outlier_timeline::OutlierTimeline;
pub use outliers_text::outliers_text;
pub use wrap::wrap;

/// Errors that can occur when a report is made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// There is nothing to show.
    #[error("no recording given: specify at least one")]
    NoRecording,
    /// The power of the machine is unknown.
    #[error(
        "the power of this machine is unknown: no energy counter (powercap, hwmon, perf) covers \
         its processor"
    )]
    NoPower,
    /// A plot cannot be drawn at this size.
    #[error(
        "plot size {width}x{height} is not supported: choose a width of 320 to 8000 and a height \
         of 240 to 8000 pixels"
    )]
    Size {
        /// The requested width in pixels.
        width: u32,
        /// The requested height in pixels.
        height: u32,
    },
    /// The recording has no latencies, so their plot cannot be drawn.
    #[error("recording {id} has no latencies to plot: show it as text, Markdown or HTML")]
    NoLatencies {
        /// The short id of the recording.
        id: String,
    },
    /// The recording has no figures for this kind of plot.
    #[error("recording {id} has {lacks}, so a {kind} plot would be empty: choose one of {kinds}")]
    NotThisKind {
        /// The short id of the recording.
        id: String,
        /// The requested kind of plot.
        kind: &'static str,
        /// The missing figures.
        lacks: &'static str,
        /// The kinds of plots that can be drawn.
        kinds: String,
    },
    /// An upper limit was given for a plot whose x-axis has a fixed range.
    #[error(
        "the x-axis of a {kind} plot is fixed: an end of the x-axis is only valid for latency, \
         timeline and bars plots"
    )]
    NoXMax {
        /// The kind of plot.
        kind: &'static str,
    },
    /// The upper limit of the x-axis is below all values.
    #[error("the x-axis cannot end at {x_max}: the first value is {first}")]
    BelowAll {
        /// The requested limit.
        x_max: punctual_model::Nanos,
        /// The smallest value.
        first: punctual_model::Nanos,
    },
    /// A PNG cannot be drawn at this scale factor.
    #[error("PNG scale {0} is not supported: choose 0.25 to 8, and at most 16000 pixels per side")]
    Scale(f32),
    /// The recording does not have this thread.
    #[error(
        "thread {thread} does not exist: thread numbers start at 0, and the number of threads is \
         {threads}"
    )]
    NoSuchThread {
        /// Index of the requested thread.
        thread: usize,
        /// The number of threads.
        threads: usize,
    },
    /// The rasteriser rejected the image.
    #[error("PNG failed: {0}")]
    Png(String),
    /// The PDF writer rejected the page.
    #[error("PDF failed: {0}")]
    Pdf(String),
}
