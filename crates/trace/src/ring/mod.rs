//! The kernel's ring buffer as it is read from `trace_pipe_raw`.

mod layout;
mod page;
#[cfg(test)]
mod tests;

pub use layout::Layout;
pub(crate) use page::MISSED;
pub use page::{BadPage, Lost, Page, Record, Records};
