//! Recordings as test results for continuous integration: JUnit XML, TAP, LAVA's
//! signals, and KCIDB's JSON.

mod kcidb;
mod lava;
pub(crate) mod tap;
#[cfg(test)]
mod tests;
pub(crate) mod xml;

use std::time::Duration;

use punctual_model::{Judgement, LimitResult, Metric, Nanos, Recording, Unknown};

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

/// Returns one test suite per recording, with one test case per limit: a broken limit is a failure,
/// and an unproven limit is an error. Without limits, there is a single test case, `measured`,
/// which is an error if nothing was recorded. A reached warn level is neither. A probe that records only tables passes without
/// samples.
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
    let mut cases = Vec::new();
    if let Some(judgement) = &recording.judgement {
        cases.push(judged(recording, judgement));
    }
    match recording.verdict.limits.as_slice() {
        [] if recording.judgement.is_some() => {}
        [] => cases.push(measured(recording)),
        limits
            if limits.iter().all(LimitResult::is_warn_level) && recording.judgement.is_none() =>
        {
            cases.push(measured(recording));
            cases.extend(limits.iter().map(|result| limit(recording, result)));
        }
        limits => cases.extend(limits.iter().map(|result| limit(recording, result))),
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
        _ => State::Success,
    };
    case(recording, "measured", status)
}

/// Returns the verdict of the check-up that the recording is a part of.
fn judged(recording: &Recording, judgement: &Judgement) -> Case {
    let message = judgement.sentence.clone();
    let outcome = judgement.outcome;
    let status = if outcome.is_bad() {
        State::Failure(outcome.word().to_owned(), message)
    } else if outcome.is_open() {
        State::Error(outcome.word().to_owned(), message)
    } else {
        State::Success
    };
    case(recording, judgement.by.name(), status)
}

fn limit(recording: &Recording, result: &LimitResult) -> Case {
    let limit = result.limit;
    let at_most = limit.metric.show(limit.at_most);
    let message = result.sentence(&recording.threads);
    let (exceeded, open) = match recording.requirement.confidence {
        None => ("requirement exceeded", "requirement not decidable"),
        Some(_) => ("requirement broken", "requirement not proven"),
    };
    let status = match result.held {
        Some(true) => State::Success,
        // A warn level never decides the outcome.
        _ if result.is_warn_level() => State::Warning(message),
        Some(false) => State::Failure(exceeded.to_owned(), message),
        None => State::Error(open.to_owned(), message),
    };
    let name = if result.is_warn_level() {
        format!("max below warn level {at_most}")
    } else {
        format!("{} at most {at_most}", limit.metric)
    };
    let measured = result.measured.map(|value| match limit.metric {
        Metric::Missed => Measured::Count(value),
        _ => Measured::Time(Nanos(value)),
    });
    Case {
        measured,
        ..case(recording, &name, status)
    }
}
