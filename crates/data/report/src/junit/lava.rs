//! Results as signals of LAVA (Linaro's test lab), which it reads from the output of a test.

use super::xml::{Case, State, Suite};
use crate::sanitize::plain_line;

/// Writes a test set for each suite, and a signal for each test case. A case without a decision and
/// a reached warn level have the result `unknown`, because LAVA has no warnings. A case without a
/// requirement is skipped, with its measured value.
pub(super) fn write(suites: &[Suite]) -> String {
    let mut text = String::new();
    for suite in suites {
        let set = id(&suite.name);
        text.push_str(&format!("<LAVA_SIGNAL_TESTSET START {set}>\n"));
        suite
            .cases
            .iter()
            .for_each(|case| text.push_str(&signal(case)));
        text.push_str("<LAVA_SIGNAL_TESTSET STOP>\n");
    }
    text
}

fn signal(case: &Case) -> String {
    let result = match case.state {
        State::Success => "pass",
        State::Failure(..) => "fail",
        State::Skipped(..) | State::Measured(..) => "skip",
        State::Error(..) | State::Warning(..) => "unknown",
    };
    let measured = case.measured.as_ref().map_or_else(String::new, |measured| {
        let (value, unit) = measured.number();
        format!(" MEASUREMENT={value} UNITS={unit}")
    });
    let id = id(&case.name);
    // A signal has no text. LAVA keeps other lines as the log of the test.
    let text = ascii(case.message());
    let text = (!text.is_empty()).then(|| format!("# {id}: {text}\n"));
    let text = text.unwrap_or_default();
    format!("{text}<LAVA_SIGNAL_TESTCASE TEST_CASE_ID={id} RESULT={result}{measured}>\n")
}

/// Returns one line without characters that a serial console may spoil, or that begin a signal.
fn ascii(text: &str) -> String {
    let text = plain_line(text).replace('µ', "u").replace('≤', "<=");
    let plain = |c: char| c.is_ascii_graphic() && c != '<' && c != '>';
    let replaced = text.chars().map(|c| match c {
        ' ' => ' ',
        c if plain(c) => c,
        _ => '?',
    });
    replaced.collect()
}

/// Returns a name with only the characters that LAVA accepts.
fn id(name: &str) -> String {
    let ascii = name.replace('µ', "u");
    let words = ascii.split(|c: char| !c.is_ascii_alphanumeric() && !".-".contains(c));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join("_")
}
