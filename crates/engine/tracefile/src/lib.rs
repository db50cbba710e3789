//! Reads kernel traces that other tools recorded.
//!
//! **For:** [`TraceReader`], a stream of typed events in ascending order of time, independent of
//! the tool that wrote the file.
//!
//! **Knows:** `trace.dat` of trace-cmd, `perf.data`, traces of Perfetto, CTF traces of
//! LTTng, and the text formats of tracefs, trace-cmd, perf and rtla.
//!
//! **Must not know:** what an event means for latency (`culprit` knows this), or how results are
//! shown.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod ctf;
mod dat;
mod error;
mod input;
mod item;
mod join;
mod listed;
mod open;
mod perf;
mod perfetto;
mod session;
mod state_encoding;
mod text;

pub use error::TraceFileError;
pub use input::Input;
pub use item::{Annotation, Item, TraceHead, TraceReader};
pub use join::{JoinError, join};
pub use open::open;
pub use perfetto::copy_perfetto;
pub use session::{Guest, TraceSession};
pub use text::open as open_text;
