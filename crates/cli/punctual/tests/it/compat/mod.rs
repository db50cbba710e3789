//! Tests of the command under the names of older tools: its output, files and exit status, and
//! other people's scripts that parse them.

mod checks;
mod cyclictest;
mod cyclictest_runs;
mod deadline;
mod files;
mod hwlatdetect;
mod links;
mod pairs;
mod parsers;
mod rtla;
pub(crate) mod stage;
