//! Output on stdout and messages on stderr.

pub(crate) use punctual_command::output::*;
