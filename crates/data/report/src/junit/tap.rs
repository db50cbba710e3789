//! Results as TAP 13 (Test Anything Protocol), as read by `prove`, Jenkins and Meson.

use super::xml::{Case, State, Suite};
use crate::sanitize::plain_line;

/// Writes the test cases of all suites as one plan. A case without a decision is a failure, because
/// TAP has no third result. A reached warn level is a failure marked `TODO`, which does not fail the
/// test.
pub(crate) fn write(suites: &[Suite]) -> String {
    let many: usize = suites.iter().map(|suite| suite.cases.len()).sum();
    let mut text = format!("TAP version 13\n1..{many}\n");
    let mut number = 0;
    for suite in suites {
        text.push_str(&format!("# {}\n", plain_line(&suite.name)));
        for (name, value) in &suite.properties {
            text.push_str(&format!("# {name}: {}\n", plain_line(value)));
        }
        for case in &suite.cases {
            number += 1;
            text.push_str(&line(number, case));
        }
    }
    text
}

fn line(number: usize, case: &Case) -> String {
    let name = escaped(&format!("{}: {}", case.class, case.name));
    let (ok, directive, message) = match &case.state {
        State::Success => ("ok", String::new(), None),
        State::Skipped(why) | State::Measured(why) => {
            ("ok", format!(" # SKIP {}", escaped(why)), None)
        }
        State::Warning(what) => ("not ok", " # TODO warn level".to_owned(), Some(what)),
        State::Failure(_, what) | State::Error(_, what) => ("not ok", String::new(), Some(what)),
    };
    let mut text = format!("{ok} {number} - {name}{directive}\n");
    if let Some(message) = message {
        text.push_str(&format!("# {}\n", plain_line(message)));
    }
    // The output of other cases repeats the message.
    if let (State::Success, Some(output)) = (&case.state, &case.output) {
        for output in output.lines() {
            text.push_str(&format!("# {}\n", plain_line(output)));
        }
    }
    if let Some(measured) = &case.measured {
        text.push_str(&format!("# measured: {}\n", measured.words()));
    }
    text
}

/// Returns one line in which no character begins a directive.
fn escaped(text: &str) -> String {
    plain_line(text).replace('\\', "\\\\").replace('#', "\\#")
}
