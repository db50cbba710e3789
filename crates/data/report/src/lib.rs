//! Recordings, comparisons, audits and what else is shown, as people and other
//! programs read it.
//!
//! **For:** a [`document`] of each thing, as plain data, and its renderers: text for a
//! terminal ([`text`]), Markdown ([`markdown`]), one self-contained HTML page
//! ([`html`]). Plots as SVG and PNG ([`plot`]), JUnit XML for continuous integration
//! ([`junit`]), an audit as SARIF and JUnit XML ([`audit`]).
//!
//! **Knows:** the domain model, and how each form is written. What is shown is
//! decided once, in a document, so the forms cannot disagree.
//!
//! **Must not know:** files, terminals, the store, Linux. Each function takes
//! values and returns a `String` or bytes; the caller decides where they go.
//!
//! A recording may come from another machine, and what it says about that
//! machine is not trusted: each renderer frees every text of control characters and
//! escapes it for the form it goes into.
//!
//! **Percentiles** are shown only where the samples support them: the
//! percentile that leaves the share `1 − q` above it needs `1 / (1 − q)`
//! samples (100 for p99, 10,000 for p99.99). With fewer it would be the maximum
//! under another name; a `-` is shown instead.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod audit;
mod compared;
pub mod document;
mod figures;
pub mod html;
mod interference;
pub mod junit;
mod lint;
pub mod markdown;
mod outlier_timeline;
pub mod plot;
mod sanitize;
mod spread;
pub mod text;
mod wrap;

pub use lint::sarif as lint_sarif;
pub use outlier_timeline::OutlierTimeline;
pub use wrap::wrap;

/// What can go wrong while a report is made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// There is nothing to show.
    #[error("no recording given: name at least one")]
    NoRecording,
    /// A plot that cannot be drawn at this size.
    #[error(
        "plot size {width}x{height} is not supported: width 320 to 8000, height 240 to 8000 pixels"
    )]
    Size {
        /// Width that was asked for, in pixels.
        width: u32,
        /// Height that was asked for, in pixels.
        height: u32,
    },
    /// A plot of latencies of a recording that holds none.
    #[error(
        "recording {id} has no latencies, nothing can be plotted: show it as text, Markdown or HTML"
    )]
    NoLatencies {
        /// The short id of the recording.
        id: String,
    },
    /// A plot of a kind for which the recording has no figures.
    #[error("recording {id} has {lacks}, a {kind} plot would be empty: choose one of {kinds}")]
    NotThisKind {
        /// The short id of the recording.
        id: String,
        /// What was asked for.
        kind: &'static str,
        /// What the recording does not have.
        lacks: &'static str,
        /// What can be drawn of it.
        kinds: String,
    },
    /// An end of the x-axis for a plot whose x-axis has none to choose.
    #[error("a {kind} plot has a fixed x-axis: only latency, timeline and bars plots take an end")]
    NoXMax {
        /// The kind of plot.
        kind: &'static str,
    },
    /// An end of the x-axis below all that there is to show.
    #[error("the x-axis cannot end at {x_max}: the first value is {first}")]
    BelowAll {
        /// What was asked for.
        x_max: punctual_model::Nanos,
        /// The smallest value that there is.
        first: punctual_model::Nanos,
    },
    /// A PNG cannot be drawn at this scale.
    #[error("PNG scale {0} is not supported: 0.25 to 8, at most 16000 pixels a side")]
    Scale(f32),
    /// A thread that the recording does not have.
    #[error("thread {thread} does not exist: the recording has {threads} threads, counted from 0")]
    NoSuchThread {
        /// Which was asked for.
        thread: usize,
        /// How many there are.
        threads: usize,
    },
    /// The rasteriser refused the picture.
    #[error("PNG failed: {0}")]
    Png(String),
    /// The JUnit file could not be written.
    #[error("JUnit XML failed: {0}")]
    Junit(#[from] quick_junit::SerializeError),
}
