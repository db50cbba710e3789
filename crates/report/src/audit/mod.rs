//! An audit of a machine: for a terminal, for code scanning (SARIF) and for
//! continuous integration (JUnit).

mod junit;
mod sarif;
mod text;

pub use junit::junit;
pub use sarif::sarif;
pub use text::{AuditDetail, text};
