//! What happens while a verb measures or watches: progress, screens, and signals that end it.

pub(crate) mod experiment;
pub(crate) mod push;
mod stop;
pub(crate) mod watching;

pub(crate) use stop::stop_flag;
