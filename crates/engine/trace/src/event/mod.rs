//! Converts the records of events into typed events, using the model's table.

mod decode;
mod fields;
mod format;
mod requested;

pub use decode::Decoder;
pub use format::{FieldPosition, Format};
