//! Which events are recorded, and how their records are read.

mod decode;
mod fields;
mod format;
mod more;
mod table;

pub use decode::Decoder;
pub use format::Format;
pub(crate) use format::Place;
pub use table::Level;
pub(crate) use table::{EventSpec, Missed, Whose, events};
