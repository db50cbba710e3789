//! Decisions about change points.

use std::collections::BTreeMap;

use jiff::Timestamp;
use punctual_model::{ChangeAnnotation, ChangeDecision, CpuClass, RecordingId};
use punctual_stats::trend::{Acknowledgement, ChangePoint, Followed, Group, Run, Trend};
use punctual_store::SeriesStore;

use crate::HistoryError;

/// Stores a decision about the change point with this name, or about the only one whose name begins
/// with it. Returns the full name.
pub fn decide(
    store: &dyn SeriesStore,
    trend: &Trend,
    name: &str,
    decision: ChangeDecision,
    who: String,
    why: String,
) -> Result<String, HistoryError> {
    let (group, change) = found(trend, name)?;
    let recording = match (decision, &change.acknowledged) {
        (ChangeDecision::Reopened, None) => {
            let text = format!("{} is not acknowledged", change.id);
            return Err(HistoryError::Choice(text));
        }
        // The acknowledgement may refer to a neighbouring run.
        (ChangeDecision::Reopened, Some(known)) => known.recording,
        (ChangeDecision::Acknowledged, _) => change.recording,
    };
    store.put_change_mark(&ChangeAnnotation {
        id: RecordingId::new(),
        series: trend.series.clone(),
        figure: figure(group, change),
        recording,
        decision,
        who,
        why,
        at: Timestamp::now(),
    })?;
    Ok(change.id.clone())
}

/// Returns the change point with this name, or the only one whose name begins with it.
fn found<'a>(trend: &'a Trend, name: &str) -> Result<(&'a Group, &'a ChangePoint), HistoryError> {
    let all: Vec<(&Group, &ChangePoint)> = (trend.groups.iter())
        .flat_map(|group| group.changes.iter().map(move |change| (group, change)))
        .collect();
    if let Some(exact) = all.iter().find(|(_, change)| change.id == name) {
        return Ok(*exact);
    }
    let begin = all.iter().filter(|(_, change)| change.id.starts_with(name));
    let refused = match begin.collect::<Vec<_>>().as_slice() {
        [one] => return Ok(**one),
        [] => {
            let known: Vec<&str> = all.iter().map(|(_, change)| change.id.as_str()).collect();
            let known = if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            };
            format!(
                "{} has no change point '{name}' in these runs; its change points: {known}",
                trend.series
            )
        }
        _ => format!("several change points begin with '{name}': pass a longer part of the ID"),
    };
    Err(HistoryError::Choice(refused))
}

/// Returns the name that a decision uses for a tracked figure, such as `idle/general/tail/worse`.
fn figure(group: &Group, change: &ChangePoint) -> String {
    let direction = if change.worse { WORSE } else { BETTER };
    format!(
        "{}/{}/{}/{direction}",
        group.load,
        group.cpus,
        change.followed.name()
    )
}

const WORSE: &str = "worse";
const BETTER: &str = "better";

/// Returns the acknowledgements that are in force.
pub(crate) fn acknowledged(marks: &[ChangeAnnotation], runs: &[Run]) -> Vec<Acknowledgement> {
    let mut last: BTreeMap<(&str, RecordingId), &ChangeAnnotation> = BTreeMap::new();
    for mark in marks {
        last.insert((&mark.figure, mark.recording), mark);
    }
    let in_force = last
        .values()
        .filter(|mark| mark.decision == ChangeDecision::Acknowledged);
    in_force
        .filter_map(|mark| acknowledgement(mark, runs))
        .collect()
}

/// Returns `None` if the recording is not among the runs, or if the decision was written by a later
/// version.
fn acknowledgement(mark: &ChangeAnnotation, runs: &[Run]) -> Option<Acknowledgement> {
    // The name of a load may contain a slash.
    let mut parts = mark.figure.rsplitn(4, '/');
    let (direction, followed, cpus) = (parts.next()?, parts.next()?, parts.next()?);
    let of_name = |followed_name: &str| {
        [Followed::Tail, Followed::P99, Followed::P50]
            .into_iter()
            .find(|one| one.name() == followed_name)
    };
    Some(Acknowledgement {
        load: parts.next()?.to_owned(),
        cpus: *CpuClass::ALL.iter().find(|class| class.name() == cpus)?,
        followed: of_name(followed)?,
        worse: direction == WORSE,
        recording: mark.recording,
        at: runs
            .iter()
            .find(|run| run.recording == mark.recording)?
            .started,
        who: mark.who.clone(),
        why: mark.why.clone(),
    })
}
