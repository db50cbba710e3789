//! The data of a statement about the runs of a series.

use punctual_model::{FromJson, RecordingId, SeriesProof, ToJson, counted, from_json};
use serde::Deserialize;
use serde_json::Value;

use super::{Findings, Recordings, digest_of, verdict};
use crate::canonical::digest;
use crate::statement::{Statement, Subject, name_of, result};
use crate::{Check, State};

/// The part of the predicate about the series.
#[derive(Deserialize)]
struct Predicate {
    series: SeriesProof,
}

from_json!(Predicate);

/// Returns the subjects that are recordings of the runs: those behind the series.
pub(super) fn runs(statement: &Statement) -> &[Subject] {
    let rest = statement.subject.get(1..).unwrap_or_default();
    let is_run = |one: &&Subject| one.name.starts_with("recording ");
    &rest[..rest.iter().take_while(is_run).count()]
}

pub(super) fn findings(
    statement: &Statement,
    data: &Value,
    recordings: &mut dyn Recordings,
) -> Result<Findings, serde_json::Error> {
    let predicate = statement.to_value()["predicate"].take();
    let stated = Predicate::from_json(predicate.to_string().as_bytes())?.series;
    let mut own = stated.clone();
    own.judge();
    let is_same = own == stated && result(own.outcome) == statement.predicate.result;
    let mut integrity = vec![
        digest_of(statement, data, &stated.to_value()),
        verdict(is_same, &stated.sentence, own.sentence),
        times(&stated),
    ];
    let mut assumptions = Vec::new();
    let runs = judged_again(&stated, runs(statement), recordings);
    // What is not at hand contradicts nothing.
    match runs.state {
        State::Unknown => assumptions.push(runs),
        _ => integrity.push(runs),
    }
    Ok(Findings {
        about: format!(
            "series {} from {} to {}",
            stated.series, stated.from, stated.until
        ),
        integrity,
        assumptions,
    })
}

fn times(stated: &SeriesProof) -> Check {
    let holds = stated.has_times_of_seed();
    let found = if holds {
        format!("the times of the runs follow from the seed {}", stated.seed)
    } else {
        "the times of the runs do not follow from the seed".to_owned()
    };
    Check::new("times", holds, found)
}

/// Computes the verdict again from the recordings of the runs that are at hand.
fn judged_again(stated: &SeriesProof, named: &[Subject], recordings: &mut dyn Recordings) -> Check {
    let (mut wrong, mut at_hand) = (Vec::new(), 0);
    let sha256_of = |id: RecordingId| {
        let mut subjects = named.iter().filter(|one| one.name == name_of(id));
        subjects.next().map(|one| one.digest.sha256.as_str())
    };
    for run in &stated.runs {
        let has_digest = run.recording.is_some_and(|id| sha256_of(id).is_some());
        if run.late_seconds.is_some() && !has_digest {
            wrong.push(format!("the recording of run {} is not named", run.number));
        }
    }
    let (again, absent) = stated.judge_again(&mut |id| {
        let sha256 = sha256_of(id)?;
        // Without its time series, as after some years, a recording shows no late seconds.
        let recording = recordings
            .recording(id)
            .filter(|found| !found.series.rows.is_empty())?;
        if digest(&recording) != sha256 {
            wrong.push(format!("the {} here has other data", name_of(id)));
            return None;
        }
        at_hand += 1;
        Some(recording)
    });
    if wrong.is_empty() && again != *stated {
        let differs = (again.runs.iter().zip(&stated.runs)).find(|(again, run)| again != run);
        wrong.push(match differs {
            Some((_, run)) => format!("run {} has another result in its recording", run.number),
            None => format!("the recordings say \"{}\"", again.sentence),
        });
    }
    let measured = counted(at_hand, "run", "runs");
    let (state, found) = match (wrong.as_slice(), absent) {
        ([], 0) if at_hand == 0 => (
            State::Holds,
            "no run was measured, so the verdict does not depend on their recordings".to_owned(),
        ),
        ([], 0) => (
            State::Holds,
            format!("the recordings of {measured} give the same verdict"),
        ),
        ([], absent) => {
            let missing = counted(absent as u64, "run", "runs");
            let mut found = format!(
                "the recordings of {missing} are not at hand, so their results are those of the \
                 signer: pass the store that has them (--store)"
            );
            if at_hand > 0 {
                found.push_str(&format!("; those of {measured} agree"));
            }
            (State::Unknown, found)
        }
        (wrong, _) => (State::Broken, wrong.join("; ")),
    };
    Check {
        what: "runs",
        state,
        found,
    }
}
