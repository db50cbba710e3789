//! Export of raw pages to other tools.

mod dat;
mod description;
mod merge;
mod pages;

pub use dat::{LARGEST_TRACE, trace_dat};
pub use description::{Description, FormatText};
pub use pages::{pack_pages, unpack_pages};
