//! Parses pages of the kernel's ring buffer that were read from `trace_pipe_raw`.

mod layout;
mod page;
#[cfg(test)]
mod tests;

pub use layout::Layout;
pub use page::{BadPage, Lost, Page, PageRecord, PageRecords};
pub(crate) use page::{DELTA_BITS, LONG, MISSED, SHORT, TIME_EXTEND};
