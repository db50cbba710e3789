//! Recordings of the store in the forms that several verbs write.

pub(crate) mod comparison;
pub(crate) mod explained;
pub(crate) mod exported;
mod file_name;
pub(crate) mod perfetto;
pub(crate) mod pieces;
pub(crate) mod timelines;

pub(crate) use file_name::file_name;
