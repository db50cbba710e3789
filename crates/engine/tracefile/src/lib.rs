//! Reads kernel traces that other tools recorded.
//!
//! **For:** [`TraceReader`], a stream of typed events in ascending order of time, whichever tool
//! wrote the file.
//!
//! **Knows:** the text formats of tracefs, trace-cmd, perf and rtla.
//!
//! **Must not know:** what an event means for latency (`culprit` does), how results are shown.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod error;
mod item;
mod text;

pub use error::TraceFileError;
pub use item::{Item, Mark, TraceHead, TraceReader};
pub use text::open as open_text;
