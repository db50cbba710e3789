//! A check-up as JUnit XML.

use std::time::Duration;

use punctual_model::{Checkup, Nanos, Outcome};

use super::CiForm;
use super::xml::{Case, State, Suite};
use crate::document::{condition_line, condition_name, lacking};

/// Returns one test suite, with a test case for the verdict and one for each condition. A broken
/// requirement is a failure and an unproven one an error, as for recordings.
pub fn checkup(checkup: &Checkup, form: CiForm) -> String {
    let mut properties = vec![("host_fingerprint", checkup.host.fingerprint.clone())];
    let host = &checkup.host;
    properties.extend(host.hostname.clone().map(|name| ("host", name)));
    properties.extend(host.kernel.clone().map(|release| ("kernel", release)));
    properties.extend(checkup.measured_on.iter().map(|on| ("machine", on.line())));
    properties.extend(
        lacking(checkup)
            .into_iter()
            .map(|why| ("missing", why.to_string())),
    );
    let all = checkup.conditions.iter().map(|one| one.measured_ns.0).sum();
    let verdict = case("verdict", checkup.outcome, &checkup.sentence, Nanos(all));
    let conditions = checkup.conditions.iter().map(|condition| {
        case(
            &condition_name(condition),
            condition.outcome,
            &condition_line(condition),
            condition.measured_ns,
        )
    });
    let suite = Suite {
        name: "punctual check".to_owned(),
        timestamp: (checkup.measured_on.as_ref()).map(|on| on.started.to_string()),
        properties,
        cases: std::iter::once(verdict).chain(conditions).collect(),
        ..Suite::default()
    };
    form.write("punctual check", &[suite])
}

fn case(name: &str, outcome: Outcome, message: &str, time: Nanos) -> Case {
    let state = match outcome {
        outcome if outcome.is_good() => State::Success,
        outcome if outcome.is_bad() => State::Failure("broken".to_owned(), message.to_owned()),
        _ => State::Error("not proven".to_owned(), message.to_owned()),
    };
    Case {
        name: name.to_owned(),
        class: "punctual.check".to_owned(),
        time: Some(Duration::from(time)),
        state,
        measured: None,
        output: Some(message.to_owned()),
    }
}
