//! The command under the names of older tools: output, files and exit status, and the scripts of
//! other people that parse them.

mod cyclictest;
mod cyclictest_runs;
mod deadline;
mod files;
mod hwlatdetect;
mod links;
mod pairs;
mod parsers;
mod stage;
