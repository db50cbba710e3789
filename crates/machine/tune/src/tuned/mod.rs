//! Profiles of TuneD: `tuned.conf` with its includes and variables, read and written.
//!
//! The format is that of TuneD 2.20: `tuned/profiles/loader.py`, `merger.py`, `variables.py`, and
//! the plug-ins in `tuned/plugins`. Other versions of TuneD can have other options.

mod conf;
#[cfg(test)]
mod exchange_tests;
mod export;
#[cfg(test)]
mod export_tests;
mod import;
#[cfg(test)]
mod import_tests;
mod imported;
mod load;
mod table;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
mod words;
#[cfg(test)]
mod words_tests;

pub use export::TunedExport;
pub use imported::{NotImported, TunedImport};
