//! What the programs of punctual share.
//!
//! **For:** one command line with the same rules in each program: verbs, global options, help,
//! completions, manual pages, output, exit codes, and the report of errors.
//!
//! **Knows:** clap, terminals, the store that the options name.
//!
//! **Must not know:** what a verb does.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod candidate;
mod complete;
mod completions;
mod context;
pub mod exit;
pub mod left_out;
mod man;
pub mod output;
mod overview;
mod program;
pub mod testing;
pub mod unit;
pub mod upgrade;
mod values;
mod verb;

pub use candidate::Candidate;
pub use complete::{VERB as COMPLETE, answer};
pub use completions::VERB as COMPLETIONS;
pub use context::{Context, sweep, terminal_width};
pub use man::{VERB as MAN, manual_pages};
pub use program::{PageTexts, Program};
pub use values::since;
pub use verb::{Invalid, Run, Verb, command_line, named};
