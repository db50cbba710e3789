//! Converts the records of events to typed events, using the table of the model.

mod decode;
mod fields;
mod format;
mod requested;

pub use decode::Decoder;
pub use format::{FieldPosition, Format};
