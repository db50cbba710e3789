//! Recordings as test results for continuous integration: JUnit XML, TAP, LAVA's
//! signals, and KCIDB's JSON.

mod kcidb;
mod lava;
mod series;
pub(crate) mod tap;
#[cfg(test)]
mod tests;
pub(crate) mod xml;

use std::time::Duration;

use punctual_model::{Claim, ClaimUnit, Judgement, Nanos, Outcome, Question, Recording, Unknown};

pub use self::series::series;
use self::xml::{Case, Measured, State, Suite};
use crate::ReportError;
use crate::document;
use crate::figures;
use crate::text::{self, TextStyle};

/// A form of test results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CiForm {
    /// JUnit XML.
    Junit,
    /// TAP 13 (Test Anything Protocol).
    Tap,
    /// Signals of LAVA.
    Lava,
    /// A report for KCIDB, schema 5.3.
    Kcidb,
}

impl CiForm {
    fn write(self, name: &str, suites: &[Suite]) -> String {
        match self {
            Self::Junit => xml::write(name, suites),
            Self::Tap => tap::write(suites),
            Self::Lava => lava::write(suites),
            Self::Kcidb => kcidb::write(suites),
        }
    }
}

/// Returns one test suite per recording, with one test case per claim of its verdict: a limit, or a
/// condition of a check-up. A broken claim is a failure, and an unproven one is an error. A claim on
/// which the verdict does not depend, such as a condition that was measured for comparison, is
/// skipped unless it is good. A reached warn level is a warning. The message or the output of each
/// case contains the whole claim.
///
/// Without a requirement, the single test case `measured` is neither passed nor failed, because
/// nothing was judged. It is an error if nothing was recorded.
///
/// Each suite has the ID, the host's fingerprint and the kernel as properties, and the text summary
/// as its output.
///
/// # Errors
/// Returns an error if `recordings` is empty.
pub fn render(recordings: &[&Recording], form: CiForm) -> Result<String, ReportError> {
    if recordings.is_empty() {
        return Err(ReportError::NoRecording);
    }
    let suites: Vec<Suite> = recordings.iter().map(|one| suite(one)).collect();
    Ok(form.write("punctual", &suites))
}

fn suite(recording: &Recording) -> Suite {
    let by = recording.judgement.as_ref();
    let mut cases: Vec<Case> = (recording.claims().iter())
        .map(|claim| claimed(recording, claim))
        .collect();
    match by {
        // Recordings of older check-ups and of experiments have a verdict without claims.
        Some(judgement) if judgement.claims.is_empty() => {
            cases.insert(0, judged(recording, judgement));
        }
        Some(_) => {}
        None if cases.iter().all(|case| case.is_warn_level) => {
            cases.insert(0, measured(recording));
        }
        None => {}
    }
    let style = TextStyle {
        colour: false,
        width: 100,
    };
    let started = recording.knows(Unknown::Started);
    Suite {
        name: format!("{} ({})", recording.headline(), recording.id.short()),
        time: Some(Duration::from(recording.duration_ns)),
        timestamp: started.then(|| recording.started.to_string()),
        properties: properties(recording),
        cases,
        output: Some(text::render(&document::recording(recording), &style)),
    }
}

fn properties(recording: &Recording) -> Vec<(&'static str, String)> {
    let host = &recording.host;
    let mut list = vec![
        ("id", recording.id.to_string()),
        ("completion", recording.completion.to_string()),
        ("host_fingerprint", host.fingerprint.clone()),
    ];
    list.extend(recording.label.clone().map(|label| ("label", label)));
    list.extend(host.hostname.get().cloned().map(|name| ("host", name)));
    list.extend(
        host.kernel
            .release
            .get()
            .cloned()
            .map(|release| ("kernel", release)),
    );
    list.extend(
        figures::warnings(recording)
            .into_iter()
            .map(|text| ("warning", text)),
    );
    list
}

fn case(recording: &Recording, name: &str, state: State) -> Case {
    Case {
        name: name.to_owned(),
        class: format!("punctual.{}", recording.probe.name),
        time: Some(Duration::from(recording.duration_ns)),
        state,
        measured: None,
        is_warn_level: false,
        output: None,
    }
}

fn measured(recording: &Recording) -> Case {
    let only_tables = recording.threads.is_empty() && !recording.tables.is_empty();
    let status = match recording.accounting().recorded {
        0 if !only_tables && figures::without_gap(recording).is_none() => State::Error(
            "nothing measured".to_owned(),
            "nothing was recorded".to_owned(),
        ),
        _ => State::Measured("measured; no requirement was given".to_owned()),
    };
    let max = recording.all_latencies().max();
    Case {
        measured: max.map(Measured::Time),
        ..case(recording, "measured", status)
    }
}

/// Returns the verdict of the check-up, experiment or search that the recording is a part of.
fn judged(recording: &Recording, judgement: &Judgement) -> Case {
    let message = judgement.sentence.clone();
    let status = state_of(judgement.outcome, message.clone());
    Case {
        output: Some(message),
        ..case(recording, judgement.by.name(), status)
    }
}

fn state_of(outcome: Outcome, message: String) -> State {
    let kind = format!("requirement {}", outcome.word());
    match outcome {
        Outcome::NoRequirement => State::Measured(message),
        outcome if outcome.is_bad() => State::Failure(kind, message),
        outcome if outcome.is_open() => State::Error(kind, message),
        _ => State::Success,
    }
}

/// Returns the test case of a claim about a recording.
fn claimed(recording: &Recording, claim: &Claim) -> Case {
    let name = match &recording.judgement {
        Some(judgement) if claim.unit == ClaimUnit::SecondsPerDay => {
            format!("{}: {}", judgement.by.name(), claim.name)
        }
        _ => claim.name.clone(),
    };
    answered(claim, case(recording, &name, State::Success))
}

/// Returns the test case with the state of a claim. Its message or its output has all parts of the
/// claim.
fn answered(claim: &Claim, case: Case) -> Case {
    let message = claim.sentence();
    let is_warn_level = claim.question == Question::Run && !claim.decides;
    let state = match claim.outcome {
        outcome if outcome.is_good() => State::Success,
        _ if is_warn_level => State::Warning(message.clone()),
        _ if !claim.decides => State::Skipped(format!("for information: {message}")),
        outcome => state_of(outcome, message.clone()),
    };
    Case {
        measured: claim.value.map(|value| match claim.unit {
            ClaimUnit::Nanoseconds => Measured::Time(Nanos(value as u64)),
            ClaimUnit::Periods => Measured::Count(value as u64),
            ClaimUnit::SecondsPerDay => Measured::PerDay(value),
        }),
        is_warn_level,
        output: matches!(state, State::Success).then_some(message),
        state,
        ..case
    }
}
