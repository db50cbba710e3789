//! The verdict over the runs of a series as test results.

use std::time::Duration;

use punctual_model::{Nanos, SeriesProof};

use super::xml::{Case, State, Suite};
use super::{CiForm, answered};
use crate::document;
use crate::text::{self, TextStyle};

/// Returns one test suite with a test case for each claim over the runs of a series.
pub fn series(proof: &SeriesProof, form: CiForm) -> String {
    form.write("punctual", &[suite(proof)])
}

fn suite(proof: &SeriesProof) -> Suite {
    let measured = proof.runs.iter().filter_map(|run| run.measured_ns);
    let time = Duration::from(measured.fold(Nanos::ZERO, |sum, one| sum + one));
    let cases = proof.claims.iter().map(|claim| {
        let case = Case {
            name: claim.name.clone(),
            class: "punctual.check".to_owned(),
            time: Some(time),
            state: State::Success,
            measured: None,
            is_warn_level: false,
            output: None,
        };
        answered(claim, case)
    });
    let style = TextStyle {
        colour: false,
        width: 100,
    };
    let zone = jiff::tz::TimeZone::UTC;
    Suite {
        name: format!("series {}, from {}", proof.series, proof.from),
        time: Some(time),
        timestamp: Some(proof.from.to_string()),
        properties: properties(proof),
        cases: cases.collect(),
        output: Some(text::render(&document::series_proof(proof, &zone), &style)),
    }
}

fn properties(proof: &SeriesProof) -> Vec<(&'static str, String)> {
    let mut list = vec![
        ("id", format!("{}:{}", proof.seed, proof.from)),
        ("series", proof.series.clone()),
        ("until", proof.until.to_string()),
    ];
    list.extend(proof.host.clone().map(|host| ("host", host)));
    let on = proof.measured_on.as_ref();
    list.extend(on.and_then(|on| Some(("kernel", on.kernel.clone()?))));
    list
}
