//! A recording, as people and other programs read it.
//!
//! **For:** text for a terminal ([`text`]), Markdown ([`markdown`]), one
//! self-contained HTML page ([`html`]), plots as SVG and PNG ([`plot`]) and
//! JUnit XML for continuous integration ([`junit`]). An audit of a machine as
//! text, SARIF and JUnit XML ([`audit`]). A check-up ([`checkup`]).
//!
//! **Knows:** the domain model, and how each form is written. All forms take
//! their figures from one place (`figures`), so they cannot disagree.
//!
//! **Must not know:** files, terminals, the store, Linux. Each function takes
//! values and returns a `String` or bytes; the caller decides where they go.
//!
//! A recording may come from another machine, and what it says about that
//! machine is not trusted: every text is freed of control characters and
//! escaped for the form it goes into.
//!
//! **Percentiles** are shown only where the samples support them: the
//! percentile that leaves the share `1 − q` above it needs `1 / (1 − q)`
//! samples (100 for p99, 10,000 for p99.99). With fewer it would be the maximum
//! under another name, and a `-` stands in its place.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod audit;
pub mod checkup;
mod clean;
mod compared;
mod facts;
mod figures;
mod hits;
pub mod html;
pub mod junit;
pub mod markdown;
pub mod plot;
mod story;
mod tables;
pub mod text;

pub use story::Story;

/// What can go wrong while a report is made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// There is nothing to show.
    #[error("no recording was given: name at least one")]
    NoRecording,
    /// A plot that cannot be drawn at this size.
    #[error("a plot cannot be {width} by {height} pixels: 320 to 8000 by 240 to 8000 can be drawn")]
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
    #[error(
        "the x-axis of a {kind} plot has no end to choose: choose one of latency, timeline or bars"
    )]
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
    #[error("a PNG cannot be scaled by {0}: 0.25 to 8 can be drawn, at most 16000 pixels a side")]
    Scale(f32),
    /// A thread that the recording does not have.
    #[error("thread {thread} was asked for, the recording has {threads}: counted from 0")]
    NoSuchThread {
        /// Which was asked for.
        thread: usize,
        /// How many there are.
        threads: usize,
    },
    /// The rasteriser refused the picture.
    #[error("the PNG could not be drawn: {0}")]
    Png(String),
    /// The JUnit file could not be written.
    #[error("the JUnit XML could not be written: {0}")]
    Junit(#[from] quick_junit::SerializeError),
}
