//! The possible values of an argument: from its parser, or from a table of the program.

use clap::Arg;
use clap::builder::PossibleValue;

use crate::candidate::Candidate;
use crate::{Context, Program};

/// Returns the candidate values of the argument `arg` in the command with these words.
pub(super) fn for_argument(
    arg: &Arg,
    path: &[&str],
    context: &Context,
    program: &Program,
) -> Vec<Candidate> {
    let possible = arg.get_possible_values();
    let shown: Vec<&PossibleValue> = possible.iter().filter(|v| !v.is_hide_set()).collect();
    if !shown.is_empty() {
        let meaning = |value: &PossibleValue| value.get_help().map(ToString::to_string);
        return shown
            .into_iter()
            .map(|value| Candidate::new(value.get_name(), meaning(value).unwrap_or_default()))
            .collect();
    }
    let values = (program.candidates)(path, arg.get_id().as_str(), context);
    values.unwrap_or_default()
}
