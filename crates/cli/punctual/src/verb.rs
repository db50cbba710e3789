//! What all verbs have in common.

pub(crate) use punctual_command::{Invalid, Run, Verb, command_line, named};
